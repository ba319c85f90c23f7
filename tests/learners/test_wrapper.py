"""A composition forwards the whole contract, and has the capabilities of its base."""

import inspect

import pytest

from learners.compose.wrapper import Wrapper
from learners.learner import Learner
from learners.registry import COMPOSITIONS, kind_class, make

NOT_FORWARDED = {"init", "scores", "learn", "forget_scale"}
"""Members that a wrapper need not forward: a composition makes its own state; `scores` and `learn`
come from `Learner`; only `scaled` has a scale.
"""

BASES = (
    "pa",
    "pa1",
    "winnow",
    "mbw",
    "ftrl",
    "fs",
    "k-perceptron",
    "k-pa1:kernel=tree",
    "projectron",
)


def contract(cls):
    return {
        name
        for name, member in vars(cls).items()
        if not name.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
    }


def test_a_wrapper_forwards_every_method_of_the_contract():
    assert contract(Learner) - NOT_FORWARDED == contract(Wrapper) - {"base_of"}


@pytest.mark.parametrize("kind", COMPOSITIONS)
def test_a_composition_is_a_wrapper_with_the_capabilities_of_its_base(kind):
    assert issubclass(kind_class(kind), Wrapper)
    taken = []
    for base in map(make, BASES):
        for extra in ({}, {"selector": "efs"}) if kind == "selected" else ({},):
            try:
                composed = make({"kind": kind, "base": base, **extra})
            except ValueError:  # the composition refuses this base
                continue
            taken.append(base.kind)
            assert composed.capabilities == base.capabilities, base
    assert len(taken) >= 3
