"""The specs that the laws run on, generated from the registry: every leaf, every choice of each,
every legal composition.
"""

import functools
import inspect
import itertools
import types
import typing
import zlib

import pytest

from learners.kernel.learner import KernelLearner
from learners.learner import Learner
from learners.registry import COMPOSITIONS, LEARNERS, kind_class, make
from tests.chaos.scale import CHAOS
from tests.examples import FRESH, how_many
from tests.learners.pairwise import cover_pairs
from tests.learners.streams import CLASSES, drawn
from tests.looped import check_each, looped_by

ORDER = ("averaged", "selected", "one_vs_rest", "scaled")
"""The only legal order of compositions, from the inside out."""

FOLDING = {"kind": "sgd-log", "lam": 4900.0, "horizon": 1000}
"""Weights shrink to a tenth or less per event, so the scale is folded into the weights often."""

SPECIAL = [{"kind": kind, "alpha": 1.7} for kind in ("winnow", "winnow-balanced", "mbw")] + [
    {"kind": kind, "W": 3.0} for kind in ("winnow-norm", "lm-winnow-norm")
]
"""Parameters that are numbers of a smaller range than most, or may be left out."""
SPECIAL += [{"kind": kind, "eta": 0.7} for kind in ("scw1", "scw2")]
SPECIAL += [{"kind": kind, "budget": 7} for kind in ("projectron", "projectron++")]

OFTEN = {"selected": {"every": 7, "sigma": 0.3, "K": 4}, "one_vs_rest": {"max_classes": CLASSES}}
"""Parameters with which a composition shows its effect within a short stream."""


ROOM = 12
"""Rows that a kernel learner may store; few, so that it is full within a short stream."""


FIRST = "k-perceptron"
SOME_KERNELS = ("polynomial", "tree", "tree+rbf")
"""Kernels with which every kernel learner is tried, beside rbf."""


def leaf(kind):
    """Return a kind with its defaults; a kind that stores rows gets little room."""
    rooms = ("max_support", "budget")
    fields = kind_class(kind).model_fields
    return {"kind": kind} | {
        field: ROOM for field in rooms if field in fields and fields[field].default is not None
    }


@functools.cache
def specs():
    """Return every learner that the laws must hold for, once: every kind in every composition,
    every choice in some.
    """
    wanted = [spec for kind in LEARNERS for spec in compositions(leaf(kind))]
    wanted += [spec for leaf in [*leaves(), FOLDING] for spec in (leaf, *compositions(leaf)[-1:])]
    wanted += [
        *numbers(),
        *SPECIAL,
        *[
            {**choice, "base": {"kind": "pa1"}}
            for kind in ORDER
            for choice in composition_choices(kind)
        ],
    ]
    learners = [made for spec in wanted if (made := built(spec)) is not None]
    return tuple(
        {name(learner): learner for learner in [*learners, *pairwise_compositions()]}.values()
    )


@functools.cache
def chosen_specs():
    """Return the learners of the laws in `make test`: every learner without a composition, and a
    pairwise choice of compositions.

    `make chaos PART=laws` takes all of `specs()`.
    """
    if CHAOS:
        return specs()
    plain = [learner for learner in specs() if learner.kind in LEARNERS]
    return tuple(
        {name(learner): learner for learner in [*plain, *pairwise_compositions()]}.values()
    )


@functools.cache
def pairwise_compositions():
    """Return compositions in which each pair of a kind and a choice occurs, and each pair of two
    choices.
    """
    groups = [
        [learner for learner in every_composition(kind) if hasattr(learner, "base")]
        for kind in LEARNERS
    ]
    return tuple(cover_pairs(groups, features))


@functools.cache
def every_composition(kind):
    """Return a kind with its defaults within every subset of the compositions, each with every
    choice that it has.
    """
    found = [leaf(kind)]
    for outer in ORDER:
        found += [
            {**choice, "base": spec} for spec in found for choice in composition_choices(outer)
        ]
    learners = [made for spec in found if (made := built(spec)) is not None]
    return tuple({name(learner): learner for learner in learners}.values())


def features(learner):
    """Return what is paired: the kind of the leaf, and each composition around it with
    its choices.
    """
    found = []
    while hasattr(learner, "base"):
        found.append((learner.kind, *sorted(learner.model_dump(exclude={"kind", "base"}).items())))
        learner = learner.base
    return [learner.kind, *found]


def leaf_kind(learner):
    """Return the kind of the leaf: its kernels are compiled once for all compositions around it."""
    return features(learner)[0]


def every_learner(learners, cases=None):
    """Run the test for each learner, one item per kind; `cases` maps a name to the arguments of a
    call.
    """

    def around(test):
        def run(learner):
            check_each(
                (case, functools.partial(test, learner, **given)) for case, given in cases.items()
            )

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        looping = looped_by("learner", learners, leaf_kind, name)(run if cases else test)
        return pytest.mark.timeout(SECONDS_PER_KIND)(looping)

    return around


SECONDS_PER_KIND = 3600 if CHAOS or FRESH else 600
"""Seconds after which an item counts as hanging: it holds the checks of all learners of a kind."""

DRAWS = how_many(10)
"""Drawn streams on which each law is checked per learner; each learner gets other streams."""


def on_each(*examples):
    """Run the test for every learner, on each of the examples and on some drawn streams."""

    def around(test):
        def run(learner):
            pool, wanted = drawn(), inspect.signature(test).parameters.keys() - {"learner"}
            first = zlib.crc32(f"{test.__name__} {name(learner)}".encode())
            some = [pool[(first + k) % len(pool)]._asdict() for k in range(DRAWS)]
            given = [*examples, *({key: draw[key] for key in wanted} for draw in some)]
            check_each((example, functools.partial(test, learner, **example)) for example in given)

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return pytest.mark.hypothesis(every_learner(chosen_specs())(run))

    return around


def leaves():
    """Return each leaf kind, once per value of each of its choices."""
    return [choice for kind in LEARNERS for choice in choices(kind)]


def numbers():
    """Yield each leaf kind, once per numeric parameter, with that parameter away from
    its default.
    """
    values = {float: 0.3, int: 7}
    for kind in LEARNERS:
        for field, info in varied_fields(kind).items():
            if info.annotation in values:
                yield leaf(kind) | {field: values[info.annotation]}


def varied_fields(kind):
    """Return the fields of a kind that are varied. Fields that all kernel learners share are varied
    only on the first of them, except two.
    """
    shared = (
        KernelLearner.model_fields
        if issubclass(kind_class(kind), KernelLearner) and kind != FIRST
        else {}
    )
    return {
        field: info
        for field, info in kind_class(kind).model_fields.items()
        if field != "kind" and field not in shared.keys() - {"kernel"}
    }


def choices(kind):
    """Return a kind with its defaults, and once per value of each of its `Literal` and
    bool fields.
    """
    fields = {field: values(info.annotation) for field, info in varied_fields(kind).items()}
    if issubclass(kind_class(kind), KernelLearner) and kind != FIRST:
        fields["kernel"] = SOME_KERNELS
    plain = leaf(kind)
    return [plain, *(plain | {field: value} for field, row in fields.items() for value in row)]


def composition_choices(kind):
    """Return the choices of a composition, with open choices resolved: in a state, `center` is
    never None.
    """
    resolved = {"center": False} if kind == "scaled" else {}
    return [{**resolved, **OFTEN.get(kind, {}), **choice} for choice in choices(kind)]


def values(annotation):
    """Return the values of a `Literal` or a bool. An optional bool is resolved before a state is
    made, so None is left out.
    """
    if typing.get_origin(annotation) is typing.Literal:
        return typing.get_args(annotation)
    if is_union(annotation):
        return tuple(value for part in typing.get_args(annotation) for value in values(part))
    return (True, False) if annotation is bool else ()


def is_union(annotation):
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)


def compositions(leaf):
    """Return a leaf within every subset of the compositions, in order; each time with the
    composition's next choice.
    """
    turns = {kind: itertools.cycle(composition_choices(kind)) for kind in ORDER}
    inner = [leaf]
    for kind in ORDER:
        inner += [
            fitting for spec in inner if (fitting := next_fitting(turns[kind], spec)) is not None
        ]
    return inner


def next_fitting(turns, base):
    """Return the composition's next choice that accepts this base, or None."""
    for choice in itertools.islice(turns, 8):
        if built(spec := {**choice, "base": base}) is not None:
            return spec
    return None


def nestings():
    """Return every chain of up to three compositions in any order, as tuples of kinds from the
    inside out.
    """
    return [
        chain for length in range(4) for chain in itertools.product(COMPOSITIONS, repeat=length)
    ]


COLUMNS = types.SimpleNamespace(dense=True, bias=True, dim=300)
"""The features that resolve choices that are left open."""


def built(spec):
    """Return the learner with open choices resolved, or None if its construction
    refuses the spec.
    """
    try:
        return make(spec).bind(COLUMNS)
    except ValueError:
        return None


@functools.cache
def name(learner: Learner):
    """Return the kinds with the parameters that differ from their defaults, e.g.
    `scaled(center=True,averaged(pa1()))`.
    """
    shown = []
    for field, value in learner.model_dump(exclude={"kind", "base", "max_classes"}).items():
        if value != type(learner).model_fields[field].default:
            shown.append(f"{field}={value}")
    base = getattr(learner, "base", None)
    return f"{learner.kind}({','.join([*shown, *([name(base)] if base else [])])})"
