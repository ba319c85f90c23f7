"""ROMMA, the L2-regularised PAs, NORMA and the dual SVM survive rows of any size, a single class
and a long life.
"""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from learners.evaluation.progress import predict_labels
from learners.registry import make
from tests.examples import examples
from tests.learners.gaussian_rows import bare, noisy
from tests.learners.single_events import LABEL, after, learn, weights
from tests.looped import looped

some = examples(60)

KINDS = [
    "romma",
    "romma:aggressive=true",
    "pa-l2obj",
    "pa-l2",
    "pa-l2:beta=0.01,update_on=margin",
    "norma",
]
DUALS = ["svm-dual", "svm-dual:eta=auto", "svm-dual:eta=auto,C=1e90"]
ODD_ROWS = st.lists(
    st.tuples(
        st.lists(
            st.sampled_from([0.0, 1.0, -1.0, 1e40, -1e40, 1e-40, -3e-40, 1e-160, 5e49, 1e-324]),
            min_size=3,
            max_size=3,
        ),
        LABEL,
    ),
    max_size=12,
)


@looped("spec", KINDS + DUALS)
@some
@given(rows=ODD_ROWS)
@example(rows=[([0.0, 0.0, 0.0], 1.0)])
@example(rows=[([0.0, 0.0, 1e-160], 1.0), ([0.0, 1.0, 0.0], -1.0), ([0.0, 0.0, 5e49], -1.0)])
@example(
    rows=[
        ([1e-160, 0.0, 0.0], 1.0),
        ([1e-40, 0.0, 0.0], 1.0),
        ([1e40, 0.0, 0.0], -1.0),
        ([1.0, 1.0, 0.0], 1.0),
    ]
)
@example(
    rows=[
        ([1e40, 1e40, 0.0], 1.0),
        ([1e-40, 0.0, 0.0], -1.0),
        ([1.0, 1.0, 1.0], -1.0),
        ([1.0, 2.0, 0.0], 1.0),
    ]
)
def test_rows_of_any_size_leave_the_state_finite_and_exact(spec, rows):
    """The rows have no bias, so that norms may be arbitrarily small."""
    learner = make(spec)
    state, updates, longest = learner.init(3), 0, 0.0
    # A square below 2⁻¹⁰²² has few digits: a quotient by it, to reach the surface of the ball, is
    # as inexact.
    squares = [np.square(row).sum() for row, _ in rows]
    rough = max((3 * 2.0**-1074 / s for s in squares if 0.0 < s < 2.0**-1022), default=0.0)
    for row, y in rows:
        before = weights(state)
        s = learner.learn(state, bare(row), np.array([y]))[0]
        assert np.isfinite(s)
        w = weights(state)
        assert np.isfinite(w).all()
        assert np.abs(w).max() <= 1e100 * (1 + 1e-12)
        if learner.updates(state) == updates:
            assert np.array_equal(w, before)
        updates = learner.updates(state)
        if "length" in state._fields:
            assert state.length[0] <= 1e100
            longest = max(longest, w @ w)  # only rounding is left of weights that were long
            off = (1e-12 + rough) * longest
            assert state.length[0] == pytest.approx(w @ w, rel=1e-3, abs=off)
        if not np.any(row) and spec != "norma":
            assert np.array_equal(w, before)


@looped("spec", KINDS + DUALS)
@looped("y", [-1.0, 1.0])
def test_a_single_class_is_learned_and_kept(spec, y):
    x, _ = noisy(9, rows=500)
    learner = make(spec)
    state = learner.init(6)
    scores = learner.learn(state, bare(*x), np.full(500, y))
    assert np.isfinite(scores).all()
    # A ball too small for the margin remembers only the last row.
    if spec != "pa-l2:beta=0.01,update_on=margin":
        assert (predict_labels(scores[-100:]) == y).mean() > 0.95


@looped("spec", ["romma", "pa-l2obj", "pa-l2"])
def test_the_kept_norm_is_recomputed_every_65536_updates(spec):
    learner = make(spec)
    states = [after(learner, 20) for _ in range(2)]
    for state, updates in zip(states, (65_534, 65_535), strict=True):
        state.length[0] *= 1.001
        state.updates[0] = updates
        row = {1: -math.copysign(9.0, weights(state)[1])}  # a mistake
        assert learn(learner, state, row, 1.0) < 0
    wrong, right = (state.length[0] / (weights(state) @ weights(state)) - 1 for state in states)
    assert abs(wrong) > 1e-6
    assert abs(right) < 1e-12
