"""ROMMA keeps its two constraints, its mistake bound, and the length of its weights."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from learners.evaluation.progress import predict_labels
from learners.registry import make
from tests.examples import examples
from tests.learners.gaussian_rows import bare, noisy, separable
from tests.learners.single_events import FEATURES, HISTORY, LABEL, after, dense, learn, weights
from tests.looped import looped

INVARIANTS = {"romma": "test_romma_meets_its_two_constraints"}

some = examples(60)


@some
@given(row=FEATURES, y=LABEL, aggressive=st.booleans(), history=HISTORY)
def test_romma_meets_its_two_constraints(row, y, aggressive, history):
    """After an update w·x = y, and w·w_old = ‖w_old‖², or more where only the margin binds."""
    learner = make({"kind": "romma", "aggressive": aggressive})
    state = after(learner, history)
    old, x, updates = weights(state), dense(row), learner.updates(state)
    s = learn(learner, state, row, y)
    w = weights(state)
    # Exact: the rule compares the score that it returns.
    assert learner.updates(state) - updates == (y * s < 1 if aggressive else y * s <= 0)
    if learner.updates(state) == updates:
        assert w.tobytes() == old.tobytes()
        return
    both = (x @ x) * (old @ old)
    assume(both == 0 or 1 - s * s / both > 1e-6)  # nearer to parallel, only rounding is left
    tight = 1e-9 / (1 - s * s / both) if both else 1e-9
    assert w @ x == pytest.approx(y, abs=tight * max(1, abs(s)))
    if y * s < both:
        assert w @ old == pytest.approx(old @ old, rel=tight)
    else:
        assert w @ old >= (old @ old) * (1 - tight)
        assert np.allclose(w, y * x / (x @ x), rtol=1e-12)
    assert state.length[0] == pytest.approx(w @ w, rel=1e-9)


@looped("aggressive", [False, True])
@looped("seed", range(3))
def test_romma_keeps_the_mistake_bound_of_the_perceptron(seed, aggressive):
    """The norm only grows, up to that of any weights that separate the rows by 1."""
    x, y, u, R = separable(seed)
    learner = make({"kind": "romma", "aggressive": aggressive})
    state = learner.init(5)
    mistakes, length = 0, 0.0
    for row, label in zip(x, y, strict=True):
        mistakes += label * learner.learn(state, bare(row), np.array([label]))[0] <= 0
        assert length * (1 - 1e-12) <= state.length[0] <= u * u * (1 + 1e-9)
        length = state.length[0]
    assert 0 < mistakes <= R * R * u * u
    if not aggressive:
        assert learner.updates(state) == mistakes


@looped("aggressive", [False, True])
def test_romma_keeps_its_length_exact_however_long_it_gets(aggressive):
    """On noise the norm grows without bound; the weights are shortened, and the labels stay those
    of exact arithmetic.
    """
    x, y = noisy(1, rows=6000)
    learner = make({"kind": "romma", "aggressive": aggressive})
    state, shortened, length, w = learner.init(6), 0, 0.0, np.zeros(6)
    for row, label in zip(x, y, strict=True):
        s = learner.learn(state, bare(row), np.array([label]))[0]
        assert abs(s - w @ row) <= 1e-9 * np.linalg.norm(w) * np.linalg.norm(row)
        shortened += state.length[0] < length
        w, length = weights(state), state.length[0]
        assert length == pytest.approx(w @ w, rel=1e-9)
    assert shortened >= 2
    assert learner.dropped_updates(state) == 0


def test_romma_keeps_its_direction_when_it_shortens():
    """One state is long enough to be shortened, the other a little shorter: they differ only by a
    factor.
    """
    x, y = noisy(2, rows=300)
    learner = make("averaged:mode=avg,base=romma")
    far, near = learner.init(6), learner.init(6)
    far.w.v[:] = 1e40 * x[0]
    near.w.v[:] = 1e35 * x[0]
    for state in (far, near):
        state.length[0] = state.computed[0] = weights(state) @ weights(state)
    scores = [learner.learn(state, bare(*x[1:]), y[1:]) for state in (far, near)]
    factor = weights(far)[0] / weights(near)[0]
    assert factor < 1e4
    assert np.array_equal(predict_labels(scores[0]), predict_labels(scores[1]))
    assert np.allclose(weights(far), factor * weights(near), rtol=1e-9)
    assert np.allclose(
        learner.scores(far, bare(*x)), factor * learner.scores(near, bare(*x)), rtol=1e-9
    )


@looped("aggressive", [False, True])
def test_romma_starts_over_where_both_constraints_cannot_hold(aggressive):
    learner = make({"kind": "romma", "aggressive": aggressive})
    state = learner.init(3)
    for row, y in (([1.0, 2.0, 0.0], 1.0), ([1.0, 2.0, 0.0], -1.0), ([-3.0, -6.0, 0.0], -1.0)):
        learner.learn(state, bare(row), np.array([y]))
        assert np.allclose(weights(state), y * np.array(row) / np.square(row).sum(), rtol=1e-12)
    assert learner.updates(state) == 3


def test_aggressive_romma_ignores_the_old_constraint_where_it_holds_anyway():
    learner = make("romma:aggressive=true")
    state = learner.init(2)
    learner.learn(state, bare([10.0, 0.0]), np.array([1.0]))
    # ≥ ‖x‖²‖w‖² = 0.02.
    assert learner.learn(state, bare([1.0, 1.0]), np.array([1.0]))[0] == pytest.approx(0.1)
    assert np.allclose(weights(state), [0.5, 0.5])


@looped("share", [0.01, 0.5, 0.999])
def test_aggressive_romma_reaches_the_whole_margin(share):
    learner = make("romma:aggressive=true")
    state = learner.init(2)
    learner.learn(state, bare([3.0, 4.0]), np.array([1.0]))
    learner.learn(state, bare([share * 3.0, share * 4.0]), np.array([1.0]))
    assert learner.scores(state, bare([share * 3.0, share * 4.0]))[0] == pytest.approx(
        1.0, rel=1e-12
    )
