"""Checks of a checkpoint: whether a model with this configuration can continue from it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import BaseModel

from learners.learner import Learner
from learners.registry import make
from learners.state import State, restore
from service.checkpoint.snapshot import ALARMS, NAMES, Snapshot
from service.config.diff import diff_settings
from service.config.renamed import current_spec
from service.config.settings import Drift, Features, Label, Limits
from service.errors import ProtectiveError
from service.features.labels import Labels
from service.features.slot_names import SlotNames, Table
from service.model.alarms import Alarms, read_alarms
from service.model.monitor import Monitor

REQUIRED = ("learner", "features", "label")
"""Settings that every checkpoint has. Limits and drift were added later."""


class MismatchError(ProtectiveError):
    """The checkpoint has other settings than the configuration, or does not fit the model."""


class RestoredParts(NamedTuple):
    """The parts of a model, restored from a snapshot."""

    state: State
    monitor: Monitor
    alarms: Alarms
    names: Table
    older: bool
    """Whether the snapshot lacks arrays of the model. Then it cannot be the base of a delta."""


def restore_parts(
    learner: Learner, dim: int, label: Label, names: SlotNames, monitor: Monitor, snapshot: Snapshot
) -> RestoredParts:
    """Restore the parts of a model. Raise `MismatchError` if the arrays do not fit the model."""
    arrays = snapshot.arrays
    state_arrays: Any = {
        name.removeprefix("state/"): arrays[name] for name in arrays if name.startswith("state/")
    }
    drift = monitor.drift.model_dump(mode="json", exclude={"alarms"})
    try:
        state = restore(learner.init(dim), state_arrays)
        if not learner.is_valid(state):
            raise ValueError(f"corrupt checkpoint: the state of {learner.kind} is inconsistent")
        restored, lacking = monitor.restore(
            arrays, same_drift=current_spec(snapshot.model).get("drift") == drift
        )
        table = names.read(arrays.get(NAMES), learned=snapshot.events > 0)
        alarms = read_alarms(arrays[ALARMS]) if ALARMS in arrays else Alarms()
    except ValueError as error:
        raise MismatchError(f"the checkpoint does not fit this model: {error}") from error
    # one_vs_rest has this array, directly or inside scaled.
    seen: Any = state_arrays.get("base/seen", state_arrays.get("seen"))
    if label.classes == "grow" and seen[len(snapshot.classes) :].any():
        raise MismatchError("the checkpoint does not fit this model: a class has no name")
    older = lacking or ALARMS not in arrays or names.kept != (NAMES in arrays)
    return RestoredParts(state, restored, alarms, table, older)


def check_settings(mine: dict[str, Any], snapshot: Snapshot) -> None:
    """Raise `MismatchError` if a snapshot was made with other settings than `mine`."""
    if missing := [part for part in REQUIRED if part not in snapshot.model]:
        raise MismatchError(
            f"the checkpoint does not say with which settings of '{missing[0]}' it was made"
        )
    theirs = {part: _read_today(part, spec) for part, spec in current_spec(snapshot.model).items()}
    acting = [
        settings
        for settings in (mine["drift"], theirs.get("drift"))
        if settings and _acts(settings)
    ]
    if not acting:
        theirs.pop("drift", None)  # without actions, detectors may have other settings
    else:
        theirs.setdefault("drift", Drift().model_dump(mode="json", exclude={"alarms"}))
    if different := diff_settings({part: mine.get(part) for part in theirs}, theirs):
        text = " ".join("; ".join(different).split())[:500]
        raise MismatchError(
            f"the checkpoint was made with other settings: {text}; "
            "use another `name`, or the old settings"
        )


def check_arrays(known: set[str], labels: Labels, snapshot: Snapshot) -> None:
    """Raise `MismatchError` for unknown arrays and invalid classes."""
    if unknown := sorted(
        name for name in snapshot.arrays.keys() - known if not name.startswith("drift/")
    ):
        raise MismatchError(
            f"the checkpoint has an array that this model does not have: {unknown[0][:80]!r}"
        )
    if reason := labels.why_invalid(snapshot.classes):
        raise MismatchError(f"the checkpoint does not fit this model: {reason}")


def _acts(drift: Any) -> bool:
    return isinstance(drift, dict) and bool(drift.get("on_error") or drift.get("on_inputs"))


def _read_today(part: str, spec: Any) -> Any:
    """Return settings of a checkpoint as this version writes them. New parameters have defaults."""
    readers: dict[str, Callable[[Any], BaseModel]] = {
        "learner": make,
        "features": Features.model_validate,
        "label": Label.model_validate,
        "limits": Limits.model_validate,
        "drift": Drift.model_validate,
    }
    try:
        return (
            readers[part](spec).model_dump(mode="json", exclude={"alarms"})
            if part in readers
            else spec
        )
    except ValueError:
        return spec
