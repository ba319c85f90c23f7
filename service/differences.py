"""Where two trees of settings differ, and that in words: for a configuration that does not fit a checkpoint."""

import json
from typing import Any

SHORT = 3
"""Lists that are shown whole."""
LONGEST = 60
"""Characters of a value that are shown."""


def changed(one: Any, other: Any, path: str = "") -> dict[str, list[Any]]:
    """Both values of every setting that differs, by its dotted name; None where there is none."""
    if isinstance(one, dict) and isinstance(other, dict):
        found: dict[str, list[Any]] = {}
        for key in [*one, *(key for key in other if key not in one)]:
            found |= changed(one.get(key), other.get(key), f"{path}.{key}" if path else str(key))
        return found
    return {} if one == other else {path: [one, other]}


def differences(mine: Any, theirs: Any, path: str = "") -> list[str]:
    """The configuration beside the checkpoint, a line per setting; of another kind of thing only the kind is told."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        if mine.get("kind") != theirs.get("kind"):
            return differences(mine.get("kind"), theirs.get("kind"), f"{path}.kind" if path else "kind")
        keys = [*mine, *(key for key in theirs if key not in mine)]
        return [
            line
            for key in keys
            for line in differences(mine.get(key), theirs.get(key), f"{path}.{key}" if path else str(key))
        ]
    if isinstance(mine, list) and isinstance(theirs, list) and mine != theirs:
        place = next((n for n, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), None)
        if place is None and max(len(mine), len(theirs)) > SHORT:
            return [f"{path} is {len(mine)} long in the configuration and {len(theirs)} in the checkpoint"]
        if place is None:
            return [f"{path} is {_shown(mine)} in the configuration and {_shown(theirs)} in the checkpoint"]
        return differences(mine[place], theirs[place], f"{path}[{place}]")
    if mine == theirs:
        return []
    return [f"{path} is {_shown(mine)} in the configuration and {_shown(theirs)} in the checkpoint"]


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    text = json.dumps(value, default=str)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
