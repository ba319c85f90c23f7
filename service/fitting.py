"""Whether parts fit together: a learner and its labels, a checkpoint and the configuration that is to go on from it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import BaseModel

from learners.calibration import Calibration, fresh_calibration, restored_calibration
from learners.compose.one_vs_rest import OneVsRest
from learners.evaluation import Progress, fresh_progress
from learners.learner import Learner, State, restore
from learners.registry import make
from service.differences import differences
from service.errors import Protective
from service.names import Names, Table
from service.settings import Features, Label, Limits
from service.snapshot import NAMES, Snapshot

REQUIRED = ("learner", "features", "label")
"""Settings that every checkpoint tells; limits came later."""


class Mismatch(Protective):
    """A checkpoint that was made with other settings than the configuration has, or is not one of such a model."""


class Fitted(NamedTuple):
    """What a snapshot holds, in the forms that a model works with."""

    state: State
    progress: Progress
    calibration: Calibration
    names: Table
    older: bool
    """It lacks arrays that the model has, so that no delta can build on it."""


def fitted(learner: Learner, dim: int, label: Label, names: Names, snapshot: Snapshot) -> Fitted:
    """Take a snapshot apart; arrays that such a model cannot have are a `Mismatch`."""
    parts: dict[str, dict[str, Any]] = {"state": {}, "progress": {}, "calibration": {}, NAMES: {}}
    for path, array in snapshot.arrays.items():
        part, _, name = path.partition("/")
        parts[part][name] = array
    try:
        state = restore(learner.init(dim), parts["state"])
        progress: Progress = restore(fresh_progress(), parts["progress"])
        older = not parts["calibration"]
        calibration = fresh_calibration() if older else restored_calibration(parts["calibration"])
        table = names.read(snapshot.arrays.get(NAMES), learned=snapshot.events > 0)
    except ValueError as error:
        raise Mismatch(f"the checkpoint is not one of this model: {error}") from error
    seen: Any = parts["state"].get("base/seen", parts["state"].get("seen"))  # of one_vs_rest, scaled or not
    if (progress.recent > 1).any() or (label.classes == "grow" and seen[len(snapshot.classes) :].any()):
        raise Mismatch("the checkpoint is not one of this model: it has outcomes or classes that cannot be")
    return Fitted(state, progress, calibration, table, older or names.kept != (NAMES in snapshot.arrays))


def check_settings(mine: dict[str, Any], snapshot: Snapshot) -> None:
    """Refuse a snapshot that was made with other settings than these, in words."""
    if missing := [part for part in REQUIRED if part not in snapshot.model]:
        raise Mismatch(f"the checkpoint does not say with which settings of '{missing[0]}' it was made")
    theirs = {part: _read_today(part, made_with) for part, made_with in snapshot.model.items()}
    if different := differences({part: mine.get(part) for part in theirs}, theirs):
        told = " ".join("; ".join(different).split())[:500]
        raise Mismatch(f"the checkpoint was made with other settings: {told}; use another `name`, or the old settings")


def check_classes(learner: Learner, label: Label) -> None:
    """A class without a column would be learned into another's, or into nothing."""
    inner: Learner | None = learner
    while inner is not None and not isinstance(inner, OneVsRest):
        inner = getattr(inner, "base", None)
    if inner is None and label.classes == "grow":
        raise ValueError("label.classes: grow needs a learner of kind one_vs_rest")
    if inner is not None and label.classes == "binary":
        raise ValueError("a learner of kind one_vs_rest needs label.classes: grow")
    if inner is not None and inner.max_classes < label.max_classes:
        raise ValueError(
            f"one_vs_rest has max_classes {inner.max_classes}, the label {label.max_classes}; set both to the same"
        )


def _read_today(part: str, made_with: Any) -> Any:
    """Settings of a checkpoint as this version writes them: a parameter that came later has its default."""
    readers: dict[str, Callable[[Any], BaseModel]] = {
        "learner": make,
        "features": Features.model_validate,
        "label": Label.model_validate,
        "limits": Limits.model_validate,
    }
    try:
        return readers[part](made_with).model_dump(mode="json") if part in readers else made_with
    except ValueError:
        return made_with
