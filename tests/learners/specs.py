"""What the laws run on, generated from the registry: every leaf, every choice of each, every legal composition."""

import itertools
import types
import typing

from streams import CLASSES

from learners.learner import Learner
from learners.registry import COMPOSITIONS, LEARNERS, kind_class, make

ORDER = ("averaged", "one_vs_rest", "scaled")
"""From the inside out; the only order of composition."""

FOLDING = {"kind": "sgd-log", "lam": 4900.0, "horizon": 1000}
"""Shrinks to a tenth or less per event, so that the scale is folded into the weights now and then."""


def specs():
    """Every learner that the laws must hold for, each once."""
    composed = [spec for leaf in [*leaves(), FOLDING] for spec in compositions(leaf)]
    learners = [made for spec in [*composed, *numbers()] if (made := built(spec)) is not None]
    return list({name(learner): learner for learner in learners}.values())


def leaves():
    """Each leaf kind, once per combination of its choices."""
    return [choice for kind in LEARNERS for choice in choices(kind)]


def numbers():
    """Each leaf kind, once per numeric parameter, away from its default."""
    values = {float: 0.3, int: 7}
    for kind in LEARNERS:
        for field, info in kind_class(kind).model_fields.items():
            if info.annotation in values:
                yield {"kind": kind, field: values[info.annotation]}


def choices(kind):
    """A kind once per combination of values of its `Literal` and bool fields."""
    options = {field: values(info.annotation) for field, info in kind_class(kind).model_fields.items()}
    options = {field: options[field] for field in options if field != "kind" and options[field]}
    return [{"kind": kind, **dict(zip(options, row, strict=True))} for row in itertools.product(*options.values())]


def values(annotation):
    """The values of a `Literal` or a bool; an optional bool is settled before a state is made, so it is never None."""
    if typing.get_origin(annotation) is typing.Literal:
        return typing.get_args(annotation)
    if bool in ((annotation, *typing.get_args(annotation)) if is_union(annotation) else (annotation,)):
        return (True, False)
    return ()


def is_union(annotation):
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def compositions(leaf):
    """A leaf within every subset of the compositions, in order, once per combination of their choices."""
    inner = [leaf]
    for kind in ORDER:
        inner += [wrapped(choice, spec) for choice in choices(kind) for spec in inner]
    return inner


def wrapped(choice, base):
    room = {"max_classes": CLASSES} if choice["kind"] == "one_vs_rest" else {}
    return {**choice, **room, "base": base}


def nestings():
    """Every chain of up to three compositions in any order, as tuples of kinds from the inside out."""
    return [chain for length in range(4) for chain in itertools.product(COMPOSITIONS, repeat=length)]


def built(spec):
    """The learner, or None where construction refuses the spec."""
    try:
        return make(spec)
    except ValueError:
        return None


def name(learner: Learner):
    """The kinds and what differs from their defaults, e.g. `scaled(center=True,averaged(pa1()))`."""
    shown = []
    for field, value in learner.model_dump(exclude={"kind", "base", "max_classes"}).items():
        if value != type(learner).model_fields[field].default:
            shown.append(f"{field}={value}")
    base = getattr(learner, "base", None)
    return f"{learner.kind}({','.join([*shown, *([name(base)] if base else [])])})"
