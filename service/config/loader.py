"""Read `Settings` from a YAML file and `ONEPASS_*` variables. An error names the wrong key."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from learners.drift.inputs import Inputs
from learners.registry import first_error, nearest
from service.config.renamed import RENAMED, check_renamed
from service.config.settings import Settings, SettingsModel
from service.errors import SettingsError

PREFIX = "ONEPASS_"

NOT_SETTINGS = {"ONEPASS_DATA", "ONEPASS_CACHE_DIR", "ONEPASS_FAILPOINT"}

NOT_YAML = {"password"}
"""Settings whose variable is plain text, because a password may look like any YAML."""


def load(path: Path, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the file, apply the environment variables, and check every key."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        message = f"{path}: cannot be read ({error.strerror}); give --config an existing file"
        raise SettingsError(message) from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path}: not UTF-8 text") from error
    values = read_yaml(text, str(path))
    if not isinstance(values, dict):
        keys = ", ".join(Settings.model_fields)
        raise SettingsError(f"{path}: expected a mapping with the keys {keys}")
    return parse(overlay(values, environ), str(path))


def read_yaml(text: str, origin: str) -> Any:
    """Parse YAML. An error gives only line and column, because the text may hold a password."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - it is a SafeLoader
    except _DuplicateKeyError as error:
        message = f"{origin}: duplicate key in line {error.line}"
        raise SettingsError(message) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        message = f"{origin}: not valid YAML{where}; quote values with special characters"
        raise SettingsError(message) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SettingsError(f"{origin}: not valid YAML") from error


def overlay(values: dict[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """Apply `ONEPASS_STORE__URL=…` to `store.url`, and so on. Values are read as YAML."""
    known = {_variable(path): path for path in _paths(Settings)}
    renamed = {_variable(old): (old, new) for old, new in RENAMED.items()}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS:
            continue
        if variable in renamed:
            old, new = renamed[variable]
            raise SettingsError(f"{variable}: {old} is now {new}; set {_variable(new)}")
        if variable not in known:
            hint = nearest(variable, [*known, *NOT_SETTINGS])
            raise SettingsError(f"{variable}: no such setting{hint}")
        *groups, name = known[variable].split(".")
        group = values
        for part in groups:
            group = group.setdefault(part, {})
            if not isinstance(group, dict):
                raise SettingsError(f"{variable}: {part} is not a group in the file")
        text = environ[variable]
        group[name] = text if name in NOT_YAML else read_yaml(text, variable)
    return values


def parse(values: dict[str, Any], origin: str) -> Settings:
    """Check a mapping. The first error becomes one line that names the key."""
    check_renamed(values, origin)
    try:
        return Settings.model_validate(values)
    except RecursionError as error:
        raise SettingsError(f"{origin}: nested too deeply") from error
    except ValidationError as error:
        raise SettingsError(f"{origin}: {_explain(error)}") from error


class _DuplicateKeyError(Exception):
    """A mapping has one key twice. YAML would silently take the second value."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


class _Loader(yaml.SafeLoader):
    """A safe loader that refuses duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and not key.tag.endswith(":merge"):
                if key.value in keys:
                    raise _DuplicateKeyError(key.start_mark.line + 1)
                keys.add(key.value)
        return super().construct_mapping(node, deep)


def _variable(path: str) -> str:
    """Return the environment variable that sets this path."""
    return PREFIX + path.replace(".", "__").upper()


def _paths(group: type[SettingsModel], prefix: str = "") -> list[str]:
    """List every setting as `group.name`."""
    paths = []
    for name, field in group.model_fields.items():
        inner = [
            part for part in (field.annotation, *get_args(field.annotation)) if _is_group(part)
        ]
        paths += _paths(inner[0], f"{prefix}{name}.") if inner else [prefix + name]
        if inner and type(None) in get_args(field.annotation):
            paths.append(prefix + name)  # null switches the group off
    return paths


def _is_group(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, (SettingsModel, Inputs))


def _explain(error: ValidationError) -> str:
    """Explain the most useful error: an unknown key, else a missing one, else the first."""
    errors = error.errors(include_url=False, include_input=False)
    paths = {fault["type"]: [str(part) for part in fault["loc"]] for fault in reversed(errors)}
    if "extra_forbidden" in paths:
        return _explain_unknown(paths["extra_forbidden"])
    if "missing" in paths:
        return f"'{'.'.join(paths['missing'])}' is missing"
    first = errors[0]
    if first["type"] == "model_type" and first["loc"][0] != "learner":
        return f"{'.'.join(map(str, first['loc']))}: needs a group of settings, not a single value"
    return first_error(error)


def _explain_unknown(parts: list[str]) -> str:
    """Name an unknown key and the nearest of the keys in its group."""
    level = len(parts) - 1
    known = [path.split(".") for path in _paths(Settings)]
    beside = {".".join(path[: level + 1]) for path in known if path[:level] == parts[:level]}
    path = ".".join(parts)
    return f"unknown key '{path}'{nearest(path, sorted(beside))}"
