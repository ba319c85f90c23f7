"""Names that settings had before 0.1.0.

A configuration file or variable with an old name is refused, and the error says the new name. A
checkpoint with an old name is read, because nobody can edit it.
"""

from typing import Any

from service.errors import SettingsError

RENAMED = {
    "source.on_lost": "source.on_data_loss",
    "drift.raise_by": "drift.boost_factor",
    "drift.raise_for": "drift.boost_events",
    "store.every_seconds": "checkpoint.interval_seconds",
    "store.every_events": "checkpoint.interval_events",
    "store.keep": "checkpoint.keep",
    "store.keep_older": "checkpoint.keep_levels",
    "store.max_unsaved_seconds": "checkpoint.max_uncheckpointed_seconds",
    "store.max_unsaved_events": "checkpoint.max_uncheckpointed_events",
    "store.copies": "store.backup",
    "store.copies.folder": "store.backup.folder",
    "store.copies.every_seconds": "store.backup.interval_seconds",
    "store.copies.keep": "store.backup.keep",
    "api.max_body": "api.max_body_bytes",
    "names": "max_feature_names",
    "poll_records": "max_poll_records",
}
"""Old path of a setting -> new path."""

RENAMED_ACTIONS = {"raise": "boost"}
"""Old value -> new value, in the lists of `ACTION_LISTS`."""
ACTION_LISTS = ("on_error", "on_inputs")


def check_renamed(values: dict[str, Any], origin: str) -> None:
    """Refuse a configuration that uses an old name, and say the new one."""
    for old, new in RENAMED.items():
        *groups, name = old.split(".")
        group: Any = values
        for part in groups:
            group = group.get(part) if isinstance(group, dict) else None
        if isinstance(group, dict) and name in group:
            raise SettingsError(f"{origin}: {old} is now {new}")
    drift = values.get("drift")
    if not isinstance(drift, dict):
        return
    for name in ACTION_LISTS:
        actions = drift.get(name)
        for old, new in RENAMED_ACTIONS.items():
            if isinstance(actions, list) and old in actions:
                raise SettingsError(f"{origin}: drift.{name}: [{old}] is now drift.{name}: [{new}]")


def current_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """The settings stored in a checkpoint, with the names that they have today."""
    drift = spec.get("drift")
    return spec | {"drift": _current_drift(drift)} if isinstance(drift, dict) else spec


def _current_drift(drift: dict[str, Any]) -> dict[str, Any]:
    current = {}
    for name, value in drift.items():
        new = RENAMED.get(f"drift.{name}", f"drift.{name}").removeprefix("drift.")
        actions = name in ACTION_LISTS and isinstance(value, list)
        current[new] = [current_action(action) for action in value] if actions else value
    return current


def current_action(action: Any) -> Any:
    """The name that an action of `drift.on_error` has today."""
    return RENAMED_ACTIONS.get(action, action) if isinstance(action, str) else action
