"""The dual SVM climbs to the support vector machine in passes, and is PA-I in one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.learner import Memory
from learners.registry import make
from tests.examples import examples
from tests.learners.gaussian_rows import bare, noisy
from tests.learners.single_events import (
    FEATURES,
    HISTORY,
    IMPORTANCE,
    LABEL,
    PARAMETER,
    after,
    dense,
    one,
    weights,
)
from tests.learners.streams import SMALL, labels, seeded
from tests.looped import looped

INVARIANTS = {"svm-dual": "test_svm_dual_climbs_to_the_support_vector_machine"}

some = examples(60)


def dual_value(x, y, a):
    return a.sum() - 0.5 * np.square((a * y) @ x).sum()


@looped("C", [0.05, 1.0])
@looped("seed", range(2))
def test_svm_dual_climbs_to_the_support_vector_machine(seed, C):
    """Every pass raises the dual; in the end its optimality conditions hold, with c·C for each
    row's C.
    """
    x, y = noisy(seed, rows=60)
    c = np.where(np.arange(60) % 4 == 0, 2.0, 1.0)
    X = bare(*x)._replace(weights=c)
    learner = make({"kind": "svm-dual", "eta": "auto", "C": C})
    state, duals = learner.init(6), np.zeros(60)
    value = 0.0
    for epoch in range(3000):
        learner.learn(state, X, y, Memory(duals, again=epoch > 0))
        assert dual_value(x, y, duals) >= value - 1e-12 * abs(value)
        value = dual_value(x, y, duals)
        assert ((duals >= 0) & (duals <= c * C)).all()
    assert np.allclose(weights(state), (duals * y) @ x, rtol=1e-9, atol=1e-9)
    margins = y * learner.scores(state, X)
    assert (margins[duals == 0] >= 1 - 1e-6).all()
    assert (margins[duals == c * C] <= 1 + 1e-6).all()
    between = (duals > 0) & (duals < c * C)
    assert between.any()
    assert np.allclose(margins[between], 1.0, atol=1e-6)
    primal = 0.5 * np.square(weights(state)).sum() + (c * C * np.maximum(0, 1 - margins)).sum()
    assert primal == pytest.approx(value, rel=1e-6)


@looped("C", [0.01, 1.0, 100.0])
@looped("J", [1.0, 3.0])
def test_svm_dual_in_one_pass_equals_pa1(C, J):
    stream = seeded(12, 300)
    dual, pa1 = (
        make({"kind": "svm-dual", "eta": "auto", "C": C, "J": J}),
        make({"kind": "pa1", "C": C, "J": J}),
    )
    states = dual.init(SMALL), pa1.init(SMALL)
    y = labels(dual, stream)
    scores = [
        learner.learn(state, stream.X, y)
        for learner, state in zip((dual, pa1), states, strict=True)
    ]
    assert scores[0].tobytes() == scores[1].tobytes()
    assert states[0].w.v.tobytes() == states[1].w.v.tobytes()
    assert states[0].updates[0] == states[1].updates[0] > 0


@some
@given(
    row=FEATURES,
    y=LABEL,
    eta=PARAMETER,
    C=PARAMETER,
    c=IMPORTANCE,
    a=st.floats(0, 1),
    history=HISTORY,
)
def test_svm_dual_moves_the_dual_variable_and_the_weights_together(row, y, eta, C, c, a, history):
    learner = make({"kind": "svm-dual", "eta": eta, "C": C})
    state, duals = after(learner, history), np.array([a * c * C])
    before = weights(state)
    s = learner.learn(state, one(row, c), np.array([y]), Memory(duals))[0]
    wanted = np.clip(a * c * C + eta * (1 - y * s), 0, c * C)
    # The same operations; the step is computed from weights that may be larger than it.
    assert duals[0] == pytest.approx(wanted, rel=1e-12, abs=1e-12)
    step = weights(state) - before
    assert np.allclose(
        step, (duals[0] - a * c * C) * y * dense(row), rtol=1e-9, atol=1e-9 * np.abs(before).max()
    )


def test_a_dual_variable_beyond_the_safe_range_is_dropped_with_its_step():
    learner = make("svm-dual:eta=auto,C=1e200")
    state, duals = learner.init(2), np.zeros(1)
    learner.learn(state, bare([1e-110, 0.0]), np.array([1.0]), Memory(duals))
    assert (learner.updates(state), learner.dropped_updates(state)) == (0, 1)
    assert not duals.any()
    assert not state.w.v.any()


def test_svm_dual_gives_the_same_bits_for_any_cut_of_its_passes():
    x, y = noisy(8, rows=40)
    learner = make("svm-dual:eta=0.1")
    whole, pieces = learner.init(6), learner.init(6)
    duals, parts = np.zeros(40), np.zeros(40)
    X = bare(*x)
    for _ in range(5):
        learner.learn(whole, X, y, Memory(duals))
        for start, stop in ((0, 7), (7, 8), (8, 40)):
            learner.learn(pieces, X.rows(start, stop), y[start:stop], Memory(parts[start:stop]))
    assert duals.tobytes() == parts.tobytes()
    assert whole.w.v.tobytes() == pieces.w.v.tobytes()
