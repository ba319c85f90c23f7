"""From a YAML file and `ONEPASS_*` variables to `Settings`: every key checked, a wrong one named with the nearest."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from learners.drift.inputs import Inputs
from learners.registry import first_error, nearest
from service.errors import BadSettings
from service.groups import Group
from service.settings import Settings

PREFIX = "ONEPASS_"
NOT_SETTINGS = {"ONEPASS_DATA", "ONEPASS_CACHE_DIR", "ONEPASS_FAILPOINT"}
VERBATIM = {"password"}
"""Settings whose variable is not read as YAML: a password may look like anything."""


class _Twice(Exception):
    """A key that would silently win over another."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Loader(yaml.SafeLoader):
    """Plain values only, and no key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                if key.value in keys:
                    raise _Twice(key.start_mark.line + 1)
                keys.add(key.value)
        return super().construct_mapping(node, deep)


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the file, lay the environment over it, and check every key."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read ({error.strerror}); give --config an existing file") from error
    except UnicodeDecodeError as error:
        raise BadSettings(f"{path}: not UTF-8 text") from error
    values = read_yaml(text, str(path))
    if not isinstance(values, dict):
        raise BadSettings(f"{path}: expected a mapping with the keys {', '.join(Settings.model_fields)}")
    return parse(overlay(values, environ), str(path))


def read_yaml(text: str, origin: str) -> Any:
    """The value of a YAML text; a fault is told by its place alone, since the text may hold a password."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe one
    except _Twice as error:
        raise BadSettings(f"{origin}: a key is there twice in one group, again in line {error.line}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise BadSettings(f"{origin}: not YAML{place}; quote values with special characters") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadSettings(f"{origin}: not YAML that can be read") from error


def overlay(values: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Lay `ONEPASS_STORE__URL=…` over `store.url`, and so on; values are read as YAML."""
    known = {PREFIX + path.replace(".", "__").upper(): path for path in _paths(Settings)}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        if variable not in known:
            raise BadSettings(f"{variable}: no such setting{nearest(variable, [*known, *NOT_SETTINGS])}")
        *groups, name = known[variable].split(".")
        group = values
        for part in groups:
            group = group.setdefault(part, {})
            if not isinstance(group, dict):
                raise BadSettings(f"{variable}: {part} is not a group in the file")
        try:
            group[name] = environ[variable] if name in VERBATIM else read_yaml(environ[variable], variable)
        except yaml.YAMLError as error:
            raise BadSettings(f"{variable}: not YAML; put its value in quotes") from error
    return values


def _paths(group: type[Group], prefix: str = "") -> list[str]:
    """Every setting as `group.name`."""
    paths = []
    for name, field in group.model_fields.items():
        inner = [part for part in (field.annotation, *get_args(field.annotation)) if _is_group(part)]
        paths += _paths(inner[0], f"{prefix}{name}.") if inner else [prefix + name]
        if inner and type(None) in get_args(field.annotation):
            paths.append(prefix + name)  # `null` leaves the group out
    return paths


def _is_group(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, (Group, Inputs))


def parse(values: dict[str, Any], origin: str) -> Settings:
    """Check a mapping; the first fault becomes one line that names the key and, if misspelt, the nearest valid one."""
    try:
        return Settings.model_validate(values)
    except RecursionError as error:
        raise BadSettings(f"{origin}: nested too deeply") from error
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
        unknown = next((fault for fault in faults if fault["type"] == "extra_forbidden"), None)
        if unknown is None:
            missing = next((".".join(map(str, fault["loc"])) for fault in faults if fault["type"] == "missing"), None)
            text = f"'{missing}' is missing" if missing else first_error(error)
            if not missing and faults[0]["type"] == "model_type" and faults[0]["loc"][0] != "learner":
                text = f"{'.'.join(map(str, faults[0]['loc']))}: needs a group of settings, not a single value"
            raise BadSettings(f"{origin}: {text}") from error
        *groups, name = [str(part) for part in unknown["loc"]]
        level = len(groups)
        beside = {
            ".".join(path.split(".")[: level + 1]) for path in _paths(Settings) if path.split(".")[:level] == groups
        }
        path = ".".join([*groups, name])
        raise BadSettings(f"{origin}: unknown key '{path}'{nearest(path, sorted(beside))}") from error
