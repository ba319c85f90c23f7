"""Kernel learners survive scalers that make rows huge, and rows far from the origin and near each
other.
"""

import math

import numpy as np
import pytest

from learners.batch import Batch, Trees
from learners.kernel.similarity import similarities
from learners.kernel.tree_parser import TreeSyntaxError, flatten_tree
from learners.registry import LEARNERS, make
from learners.state import flatten
from tests.learners.stored_sets import room_for
from tests.looped import looped

STORING = [kind for kind in LEARNERS if make(kind).capabilities.stores_rows]
FAR = 1.7e9
"""Seconds since 1970, as a column that nobody scaled."""


def small(kind, **given):
    fields = type(make(kind)).model_fields
    room = {
        field: 5
        for field in ("budget", "max_support")
        if field in fields and fields[field].default is not None
    }
    return {"kind": kind, "width": 2, "gamma": 0.5} | room | given


@looped("halflife", [1.0, None])
@looped("degree", [3, 16])
@looped("kind", STORING)
def test_a_column_that_hardly_moves_leaves_a_scaled_model_finite(kind, degree, halflife):
    base = small(kind, kernel="polynomial", d=degree)
    learner = make({"kind": "scaled", "center": False, "halflife": halflife, "base": base})
    values = 1.0 + 1e-15 * (np.arange(400) % 3)
    values[0] = 2.0
    X = Batch.from_rows([([1, 2], [value, float(t % 7)]) for t, value in enumerate(values)])
    state = learner.init(3)
    scores = learner.learn(state, X, np.where(np.arange(400) % 2, 1.0, -1.0))
    assert np.isfinite(scores).all()
    assert all(np.isfinite(array).all() for array in flatten(state).values())
    assert learner.is_valid(state), "its own checkpoint would be refused"


def test_rows_far_from_the_origin_keep_their_distances():
    learner = make("k-perceptron:kernel=rbf,gamma=0.5,width=2,max_support=4")
    state = learner.init(3)
    learner.learn(state, Batch.from_rows([([1], [FAR])]), np.array([1.0]))
    for step, slots in [(0.0, [1]), (1.0, [1]), (3.0, [1]), (2.0, [1, 2])]:
        values = [FAR + step, 0.5][: len(slots)]
        work = room_for(state.support)
        similarities(state.support, learner.function(), Batch.from_rows([(slots, values)]), 0, work)
        wanted = math.exp(-0.5 * (step * step + 0.25 * (len(slots) - 1)))
        assert work.k[0] == pytest.approx(wanted, rel=1e-12)


@looped("kind", ["projectron", "projectron++", "forgetful-projectron"])
def test_a_projecting_learner_that_gave_up_rows_learns_again(kind):
    learner = make(
        small(kind) | ({"budget": 40} if kind.startswith("forgetful") else {"max_support": 40})
    )
    state = learner.init(3)
    state.inverse.limit[0] = 1.0  # as after rows that float64 cannot distinguish
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (6000, 2))
    y = np.where(x[:, 0] * x[:, 1] > 0.0, 1.0, -1.0)
    scores = learner.learn(state, Batch.from_rows([([1, 2], row.tolist()) for row in x]), y)
    assert state.support.size[0] > 5
    assert np.mean(np.sign(scores[-500:]) != y[-500:]) < 0.2


def test_unclosed_brackets_count_as_nodes_at_once():
    with pytest.raises(TreeSyntaxError, match="more than 10 inner nodes at character 20"):
        flatten_tree("(A" * 1000, 10)


def learn_some(spec):
    learner = make(spec)
    X = Batch.from_rows(
        [([1, 2], [float(t % 5), 1.0 + t % 3]) for t in range(20)],
        trees=Trees.concatenate(
            [flatten_tree(f"(S (A {t % 3}) (B {t % 2}))", 9) for t in range(20)]
        ),
    )
    state = learner.init(3)
    learner.learn(state, X, np.where(np.arange(20) % 2, 1.0, -1.0))
    return learner, state


PROJECTING = {
    "kind": "projectron",
    "kernel": "tree+rbf",
    "gamma": 0.5,
    "width": 2,
    "max_support": 9,
}
SCALED = {
    "kind": "scaled",
    "center": False,
    "base": {"kind": "stoptron", "gamma": 0.5, "width": 2, "budget": 9},
}


@looped(
    ("spec", "path", "value"),
    [
        (PROJECTING, "support/a", 1e308),
        (PROJECTING, "support/tree_squares", 0.0),
        (PROJECTING, "support/tree_squares", 1e300),
        (PROJECTING, "square", -1.0),
        (PROJECTING, "inverse/own", np.inf),
        (PROJECTING, "inverse/limit", np.inf),
        (PROJECTING, "inverse/limit", 0.0),
        (PROJECTING, "inverse/factor", 0.0),
        (SCALED, "mean", np.nan),
        (SCALED, "spread", -1.0),
        (SCALED, "K", np.inf),
        (SCALED, "events", -1),
        (SCALED, "upto", 21),
    ],
)
def test_a_state_that_no_events_lead_to_is_invalid(spec, path, value):
    learner, state = learn_some(spec)
    assert learner.is_valid(state)
    flatten(state)[path][0] = value
    assert not learner.is_valid(state)
