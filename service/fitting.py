"""Whether parts fit together: a learner and its labels, a checkpoint and the configuration that is to go on from it."""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from pydantic import BaseModel

from learners.compose.one_vs_rest import OneVsRest
from learners.compose.scaled import Scaled
from learners.dual.learner import KernelLearner
from learners.learner import Learner
from learners.registry import make
from learners.state import State, restore
from service.alarms import Alarms, read_alarms
from service.differences import differences
from service.drift_settings import Drift
from service.errors import Protective
from service.judgement import Judgement
from service.labels import Labels
from service.names import Names, Table
from service.settings import Features, Label, Limits
from service.snapshot import ALARMS, NAMES, Snapshot

REQUIRED = ("learner", "features", "label")
"""Settings that every checkpoint tells; limits came later."""


class Mismatch(Protective):
    """A checkpoint that was made with other settings than the configuration has, or is not one of such a model."""


class Fitted(NamedTuple):
    """What a snapshot holds, in the forms that a model works with."""

    state: State
    judgement: Judgement
    alarms: Alarms
    names: Table
    older: bool
    """It lacks arrays that the model has, so that no delta can build on it."""


def fitted(learner: Learner, dim: int, label: Label, names: Names, judgement: Judgement, snapshot: Snapshot) -> Fitted:
    """Take a snapshot apart; arrays that such a model cannot have are a `Mismatch`."""
    arrays = snapshot.arrays
    state_arrays: Any = {name.removeprefix("state/"): arrays[name] for name in arrays if name.startswith("state/")}
    drift = judgement.drift.model_dump(mode="json", exclude={"alarms"})
    try:
        state = restore(learner.init(dim), state_arrays)
        if not learner.possible(state):
            raise ValueError(f"it has a state of {learner.kind} that cannot be")
        found, lacking = judgement.restored(arrays, same_drift=snapshot.model.get("drift") == drift)
        table = names.read(arrays.get(NAMES), learned=snapshot.events > 0)
        alarms = read_alarms(arrays[ALARMS]) if ALARMS in arrays else Alarms()
    except ValueError as error:
        raise Mismatch(f"the checkpoint is not one of this model: {error}") from error
    seen: Any = state_arrays.get("base/seen", state_arrays.get("seen"))  # of one_vs_rest, scaled or not
    if label.classes == "grow" and seen[len(snapshot.classes) :].any():
        raise Mismatch("the checkpoint is not one of this model: it has classes that cannot be")
    older = lacking or ALARMS not in arrays or names.kept != (NAMES in arrays)
    return Fitted(state, found, alarms, table, older)


def check_settings(mine: dict[str, Any], snapshot: Snapshot) -> None:
    """Refuse a snapshot that was made with other settings than these, in words."""
    if missing := [part for part in REQUIRED if part not in snapshot.model]:
        raise Mismatch(f"the checkpoint does not say with which settings of '{missing[0]}' it was made")
    theirs = {part: _read_today(part, made_with) for part, made_with in snapshot.model.items()}
    acting = [settings for settings in (mine["drift"], theirs.get("drift")) if settings and _acts(settings)]
    if not acting:
        theirs.pop("drift", None)  # who only looks may look differently
    else:
        theirs.setdefault("drift", Drift().model_dump(mode="json", exclude={"alarms"}))
    if different := differences({part: mine.get(part) for part in theirs}, theirs):
        told = " ".join("; ".join(different).split())[:500]
        raise Mismatch(f"the checkpoint was made with other settings: {told}; use another `name`, or the old settings")


def check_arrays(known: set[str], labels: Labels, snapshot: Snapshot) -> None:
    """Refuse arrays that are not known and classes that cannot be."""
    if strange := sorted(name for name in snapshot.arrays.keys() - known if not name.startswith("drift/")):
        raise Mismatch(f"the checkpoint has an array that this model has not: {strange[0][:80]!r}")
    if wrong := labels.wrong(snapshot.classes):
        raise Mismatch(f"the checkpoint is not one of this model: {wrong}")


def _acts(drift: Any) -> bool:
    return isinstance(drift, dict) and bool(drift.get("on_error") or drift.get("on_inputs"))


def check_parts(learner: Learner, features: Features, label: Label, drift: Drift) -> None:
    """Refuse settings that are each fine but make no model together, in words."""
    check_classes(learner, label)
    check_trees(learner, features, label)
    check_actions(learner, drift)


def check_trees(learner: Learner, features: Features, label: Label) -> None:
    """A tree that nobody looks at is refused, and so is a kernel that would never see one."""
    if features.tree is not None and not learner.takes_trees():
        raise ValueError(
            f"features.tree: {innermost(learner).kind} takes no trees: take a learner with a kernel such as tree or "
            "tree+linear (k-perceptron:kernel=tree), or leave the tree out"
        )
    if features.tree is None and learner.takes_trees():
        raise ValueError(
            f"{innermost(learner).kind} has a tree kernel: say in features.tree (replay: --tree) which field of an "
            "event has the tree"
        )
    if features.tree == label.field:
        raise ValueError(f"features.tree and label.field are both '{label.field}'; they are two fields")


def sees_only_trees(learner: Learner) -> bool:
    leaf = innermost(learner)
    return isinstance(leaf, KernelLearner) and leaf.kernel == "tree"


def innermost(learner: Learner) -> Learner:
    """The learner inside all compositions."""
    leaf: Any = learner
    while hasattr(leaf, "base"):
        leaf = leaf.base
    return cast("Learner", leaf)


def check_actions(learner: Learner, drift: Drift) -> None:
    """An action that would do nothing is refused."""
    actions = {*drift.on_error, *drift.on_inputs}
    if "raise" in actions and not learner.weighs():
        raise ValueError(
            f"drift: raise makes events count more, but {innermost(learner).kind} cannot weigh events: take another "
            "learner, such as pa1, or leave raise out"
        )
    if "reset_scaler" in actions and not isinstance(learner, Scaled):
        raise ValueError("drift: reset_scaler needs a learner of kind scaled")


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
        "drift": Drift.model_validate,
    }
    try:
        return readers[part](made_with).model_dump(mode="json", exclude={"alarms"}) if part in readers else made_with
    except ValueError:
        return made_with
