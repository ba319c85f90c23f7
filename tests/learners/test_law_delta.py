"""The fifth law: learning writes only to the slots of its rows and slot 0, unless it says that it
rewrote more.

Checkpoints of large models rely on it: they hold only the slots of the events since the last one.
"""

import functools
import operator

import numpy as np
import pytest

from learners.batch import BIAS
from learners.jit import ACCEPTED
from learners.learner import MOVED, REWROTE, slot_arrays
from learners.registry import LEARNERS
from learners.state import flatten
from tests.learners.specs import built, chosen_specs, every_learner, leaf, on_each, specs
from tests.learners.streams import SMALL, SPARSE, labels, seeded, suited

CHOSEN = chosen_specs()

LONG = seeded(1, 60, SMALL, hostile=True)
WIDE = seeded(2, 60, SPARSE, hostile=True)

REWRITING = {
    *("norma", "sgd-log", "fs", "fs1", "fs2", "fs3"),  # shrinking: a fold per some hundred digits
    *("romma", "pa-l2", "pa-l2obj"),  # the same, and whenever they start over
    "pa-l1",  # the ball cuts weights
    *("winnow-norm", "lm-winnow-norm"),  # averaged, where the clock would lose the scale
}
"""Rules that sometimes move every weight; the others never do."""


def events_learned(learner, state, stream):
    """Yield of each event what it said, its slots, and the slot arrays before and after."""
    stream = suited(learner, stream)
    y, names = labels(learner, stream), slot_arrays(learner)
    for t in np.flatnonzero(learner.row_refusals(stream.X) == ACCEPTED):
        X = stream.X.rows(t, t + 1)
        before = {path: array.copy() for path, array in flatten(state).items() if path in names}
        said = int(learner.learn_rows(state, X, y[t : t + 1]).moved[0])
        yield said, [BIAS, *X.indices], before, {path: flatten(state)[path] for path in names}


def changed_elsewhere(slots, before, after):
    """Return the arrays with a changed bit outside these slots; it distinguishes −0 from 0 and
    handles NaN.
    """
    return [
        path
        for path, array in before.items()
        if np.delete(array, slots, axis=-1).tobytes()
        != np.delete(after[path], slots, axis=-1).tobytes()
    ]


def hurry(state):
    """Move the state to the edge of every rewriting: the smallest scale, a clock far ahead, the
    longest weights.

    No stream gets there soon, and the numbers do not fit each other; which slots are written does
    not depend on that.
    """
    for path, array in flatten(state).items():
        field = path.rpartition("/")[2]
        if field in {"scale", "clock", "length"}:
            averaged = (
                flatten(state)[path.removesuffix(field) + "mode"].any()
                if field == "clock"
                else True
            )
            array[:] = {"scale": 1e-100, "clock": 1e9 * averaged, "length": 0.9e80}[field]


def check(learner, stream, prepare=None):
    """Check the law over a stream; return the union of all flags."""
    state, said = learner.init(stream.dim), 0
    for t, (flags, slots, before, after) in enumerate(events_learned(learner, state, stream)):
        said |= flags
        assert flags & REWROTE or not changed_elsewhere(slots, before, after), f"at event {t}"
        if prepare and t % 10 == 5:
            prepare(state)
    return said


@on_each({"stream": LONG}, {"stream": WIDE})
def test_learning_writes_only_to_its_own_slots_unless_it_says_so(learner, stream):
    check(learner, stream)


@every_learner(CHOSEN, {"long": {"stream": LONG}, "wide": {"stream": WIDE}})
@np.errstate(all="ignore")
def test_learning_writes_only_to_its_own_slots_at_the_edge_of_rewriting(learner, stream):
    check(learner, stream, hurry)


@every_learner(CHOSEN)
def test_a_batch_returns_the_flags_of_its_events(learner):
    stream = suited(learner, LONG)
    one, all_, y = learner.init(SMALL), learner.init(SMALL), labels(learner, stream)
    accepted = learner.row_refusals(stream.X) == ACCEPTED
    X, y = stream.X.where(accepted), y[accepted]
    singles = [learner.learn_rows(one, X.rows(t, t + 1), y[t : t + 1]).moved for t in range(X.size)]
    assert np.concatenate(singles).tolist() == learner.learn_rows(all_, X, y).moved.tolist()


@pytest.mark.parametrize("kind", LEARNERS)
@np.errstate(all="ignore")
def test_only_some_rules_ever_rewrite_everything(kind):
    spec = {**leaf(kind), **({"absent": "skip"} if kind.startswith("fs") else {})}
    shrinking = {
        "norma": {"lam": 0.9},
        "sgd-log": {"lam": 1.0},
        "pa-l1": {"beta": 0.5},
        "fs3": {"mu": 1.0},
    }
    shrinking |= {kind: {"lam": 1.0} for kind in ("fs", "fs1", "fs2")}
    plain = built(spec | shrinking.get(kind, {}))
    around = [] if plain.capabilities.stores_rows else [built({"kind": "averaged", "base": plain})]
    said = functools.reduce(
        operator.or_, (check(learner, WIDE, hurry) for learner in [plain, *around])
    )
    assert said & MOVED
    assert bool(said & REWROTE) == (kind in REWRITING)


@every_learner([learner for learner in CHOSEN if learner.kind in LEARNERS])
def test_most_events_rewrite_nothing(learner):
    """Otherwise the law would be empty. Filled rows have every slot, and pa-l1 may stay at the
    edge.
    """
    said = [
        flags for flags, *_ in events_learned(learner, learner.init(SPARSE), seeded(3, 200, SPARSE))
    ]
    filled = getattr(learner, "absent", None) == "zero"
    assert np.mean([bool(flags & REWROTE) for flags in said]) <= (
        1.0 if filled or learner.kind == "pa-l1" else 0.2
    )


def test_centred_rows_and_a_new_mask_rewrite_everything():
    centred = built({"kind": "scaled", "center": True, "base": "pa1"})
    assert all(flags & REWROTE for flags, *_ in events_learned(centred, centred.init(SMALL), LONG))
    selected = built({"kind": "selected", "every": 7, "base": "pa1"})
    X = seeded(4, 20).X._replace(weights=np.ones(20))
    moved = selected.learn_rows(selected.init(SMALL), X, np.ones(20)).moved
    assert np.flatnonzero(moved & REWROTE).tolist() == [6, 13]


def test_slot_arrays_are_those_that_grow_with_the_slots():
    assert slot_arrays(built("pa1")) == {"w/v"}
    scaled = built(
        {"kind": "scaled", "center": False, "base": {"kind": "averaged", "base": "winnow-norm"}}
    )
    assert slot_arrays(scaled) == {
        "mean",
        "spread",
        "upto",
        "base/h",
        *(f"base/w/{n}" for n in ("v", "total", "upto")),
    }
    classes = built({"kind": "one_vs_rest", "base": "fs3"})
    assert slot_arrays(classes) == {"classes/alpha/v", "classes/beta/v"}
    for learner in specs():
        rest = flatten(learner.init(50_000)).items()
        others = [array.shape for path, array in rest if path not in slot_arrays(learner)]
        assert all(np.prod(shape) <= 1000 for shape in others), (
            "an array that is always copied whole must be small"
        )
