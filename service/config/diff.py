"""Compare two trees of settings, such as those of a checkpoint and of a configuration."""

import json
from typing import Any

SHORT = 3
"""Items: longer lists that differ only in length are described by their lengths."""
LONGEST = 60
"""Characters of a value to show."""


def diff_values(one: Any, other: Any, path: str = "") -> dict[str, list[Any]]:
    """Return both values of every setting that differs, by dotted name. A missing value is None."""
    if isinstance(one, dict) and isinstance(other, dict):
        different: dict[str, list[Any]] = {}
        for key in _keys(one, other):
            different |= diff_values(one.get(key), other.get(key), _join(path, key))
        return different
    return {} if one == other else {path: [one, other]}


def diff_settings(mine: Any, theirs: Any, path: str = "") -> list[str]:
    """One line per differing setting. If `kind` differs, report only that."""
    if mine == theirs:
        return []
    if isinstance(mine, dict) and isinstance(theirs, dict):
        differs = mine.get("kind") != theirs.get("kind")
        return [
            line
            for key in (["kind"] if differs else _keys(mine, theirs))
            for line in diff_settings(mine.get(key), theirs.get(key), _join(path, key))
        ]
    if isinstance(mine, list) and isinstance(theirs, list):
        pairs = enumerate(zip(mine, theirs, strict=False))
        index = next((n for n, (one, other) in pairs if one != other), None)
        if index is not None:
            return diff_settings(mine[index], theirs[index], f"{path}[{index}]")
        if max(len(mine), len(theirs)) > SHORT:
            lengths = f"{len(mine)} in the configuration and {len(theirs)} in the checkpoint"
            return [f"{path} has length {lengths}"]
    return [f"{path} is {_show(mine)} in the configuration and {_show(theirs)} in the checkpoint"]


def _keys(one: dict[Any, Any], other: dict[Any, Any]) -> list[Any]:
    return [*one, *(key for key in other if key not in one)]


def _join(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _show(value: Any) -> str:
    if value is None:
        return "not set"
    text = json.dumps(value, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
