"""Checks of a configuration: whether learner, features, label and drift make a model together."""

from typing import Any, cast

from learners.compose.one_vs_rest import OneVsRest
from learners.compose.scaled import Scaled
from learners.kernel.learner import KernelLearner
from learners.learner import Learner
from service.config.settings import Drift, Features, Label


def check_parts(learner: Learner, features: Features, label: Label, drift: Drift) -> None:
    """Raise ValueError if settings are each valid but do not fit together."""
    check_classes(learner, label)
    check_trees(learner, features, label)
    check_actions(learner, drift)


def check_trees(learner: Learner, features: Features, label: Label) -> None:
    """Refuse trees without a tree kernel, and a tree kernel without trees."""
    if features.tree is not None and not learner.capabilities.takes_trees:
        raise ValueError(
            f"features.tree: {innermost(learner).kind} takes no trees: take a learner with a "
            "kernel such as tree or tree+linear (k-perceptron:kernel=tree), or leave the tree out"
        )
    if features.tree is None and learner.capabilities.takes_trees:
        raise ValueError(
            f"{innermost(learner).kind} has a tree kernel: say in features.tree (replay: --tree) "
            "which field of an event has the tree"
        )
    if features.tree == label.field:
        raise ValueError(
            f"features.tree and label.field are both '{label.field}': name two different fields"
        )


def sees_only_trees(learner: Learner) -> bool:
    """Whether the learner ignores all features but the tree."""
    leaf = innermost(learner)
    return isinstance(leaf, KernelLearner) and leaf.kernel == "tree"


def innermost(learner: Learner) -> Learner:
    """The learner inside all compositions."""
    leaf: Any = learner
    while hasattr(leaf, "base"):
        leaf = leaf.base
    return cast("Learner", leaf)


def check_actions(learner: Learner, drift: Drift) -> None:
    """Refuse an action that would have no effect on this learner."""
    actions = {*drift.on_error, *drift.on_inputs}
    if "boost" in actions and not learner.capabilities.uses_weights:
        raise ValueError(
            f"drift: boost makes events count more, but {innermost(learner).kind} cannot weigh "
            "events: take another learner, such as pa1, or leave boost out"
        )
    if "reset_scaler" in actions and not isinstance(learner, Scaled):
        raise ValueError("drift: reset_scaler needs a learner of kind scaled")


def check_classes(learner: Learner, label: Label) -> None:
    """Refuse a learner without a column for every class.

    Such a class would be learned into the column of another class, or not at all.
    """
    inner: Learner | None = learner
    while inner is not None and not isinstance(inner, OneVsRest):
        inner = getattr(inner, "base", None)
    if inner is None and label.classes == "grow":
        raise ValueError("label.classes: grow needs a learner of kind one_vs_rest")
    if inner is not None and label.classes == "binary":
        raise ValueError("a learner of kind one_vs_rest needs label.classes: grow")
    if inner is not None and inner.max_classes < label.max_classes:
        raise ValueError(
            f"one_vs_rest has max_classes {inner.max_classes}, the label {label.max_classes}; "
            "set both to the same number"
        )
