"""The perceptron, the passive-aggressive learners and logistic regression keep what their papers
prove or promise.
"""

import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from learners.batch import BIAS, Batch
from learners.registry import make
from tests.examples import examples
from tests.learners.single_events import (
    FEATURES,
    HISTORY,
    IMPORTANCE,
    LABEL,
    PARAMETER,
    after,
    dense,
    learn,
    one,
    weights,
)
from tests.learners.specs import FOLDING
from tests.learners.streams import SMALL
from tests.looped import looped

INVARIANTS = {
    "perceptron": "test_perceptron_keeps_its_mistake_bound",
    "pa": "test_pa_ends_exactly_on_the_margin",
    "pa1": "test_pa1_takes_no_step_longer_than_its_cap",
    "pa2": "test_pa2_ends_where_its_objective_is_least",
    "sgd-log": "test_sgd_log_steps_down_the_gradient",
}
"""Kind -> its first test."""

some = examples(60)


def rounding(w, old, x):
    """Return the possible error of a score: each of its eight terms is rounded, by 2⁻⁵³ of its
    size, and so is the step to the last weights.
    """
    return 1e-14 * (np.abs(w) + np.abs(old)) @ np.abs(x)


# Passive-Aggressive


@some
@given(row=FEATURES, y=LABEL, epsilon=PARAMETER, c=IMPORTANCE, history=HISTORY)
def test_pa_ends_exactly_on_the_margin(row, y, epsilon, c, history):
    learner = make({"kind": "pa", "epsilon": epsilon})
    state, x = after(learner, history), dense(row)
    before = weights(state)
    if y * learn(learner, state, row, y, c) < epsilon:
        margin = y * learner.scores(state, one(row))[0]
        assert abs(margin - epsilon) <= rounding(weights(state), before, x)


@some
@given(row=FEATURES, y=LABEL, C=PARAMETER, c=IMPORTANCE, history=HISTORY)
def test_pa1_takes_no_step_longer_than_its_cap(row, y, C, c, history):
    learner = make({"kind": "pa1", "C": C})
    state = after(learner, history)
    before = weights(state)
    s = learn(learner, state, row, y, c)
    step, x = weights(state) - before, dense(row)
    # The step is computed from weights that are larger than it. At the cap itself rounding decides
    # between two equal steps.
    assert np.linalg.norm(step) <= C * c * np.linalg.norm(x) * (1 + 1e-9) + 1e-14 * np.linalg.norm(
        before
    )
    if 0 < (1 - y * s) / (x @ x) < C * c:  # uncapped: it is PA
        assert abs(y * (weights(state) @ x) - 1.0) <= rounding(weights(state), before, x)
    elif y * s < 1:
        assert np.allclose(step, C * c * y * x, rtol=1e-9, atol=1e-12)


@some
@given(row=FEATURES, y=LABEL, C=PARAMETER, c=IMPORTANCE, history=HISTORY)
def test_pa2_ends_where_its_objective_is_least(row, y, C, c, history):
    """½‖w − w_t‖² + c·C·ξ², ξ = 1 − y·w·x: the gradient vanishes."""
    learner = make({"kind": "pa2", "C": C})
    state = after(learner, history)
    before, x = weights(state), dense(row)
    s = learn(learner, state, row, y, c)
    w = weights(state)
    if y * s < 1:
        gradient = w - before - 2 * c * C * (1 - y * (w @ x)) * y * x
        # Zero except for the rounding of w·x, which is multiplied by 2cC·x.
        assert np.allclose(
            gradient, 0.0, atol=1e-9 * max(1.0, 2 * c * C) * np.abs(x).max() * (1 + abs(s))
        )
        assert np.allclose(
            w, before + (1 - y * s) / (x @ x + 1 / (2 * c * C)) * y * x, rtol=1e-9, atol=1e-12
        )


@some
@given(
    row=FEATURES,
    y=LABEL,
    kind=st.sampled_from(["pa", "pa1", "pa2"]),
    epsilon=PARAMETER,
    history=HISTORY,
)
def test_the_pa_family_is_passive_beyond_the_margin(row, y, kind, epsilon, history):
    learner = make({"kind": kind, "epsilon": epsilon})
    state = after(learner, history)
    before, updates = weights(state), learner.updates(state)
    margin = y * learn(learner, state, row, y)
    passive = margin >= epsilon  # exactly: the rule compares the same two floats
    if passive or epsilon - margin > 1e-9:  # a smaller step may be less than the weights' rounding
        assert passive == (weights(state).tobytes() == before.tobytes())
    assert learner.updates(state) == updates + (not passive)


# The perceptron


@looped("margin", [0.05, 0.3])
@looped("seed", range(3))
def test_perceptron_keeps_its_mistake_bound(seed, margin):
    """Novikoff: on data that a unit vector separates by γ, it makes at most (R/γ)² mistakes on any
    stream.
    """
    rng = np.random.default_rng(seed)
    x = np.hstack([np.ones((4000, 1)), rng.normal(size=(4000, 4))])
    u = rng.normal(size=5)
    u /= np.linalg.norm(u)
    x = x[np.abs(x @ u) >= margin]
    rows = Batch.from_rows([(range(5), values) for values in x])
    learner = make("perceptron")
    state = learner.init(5)
    learner.learn(state, rows, np.sign(x @ u))
    assert 0 < learner.updates(state) <= np.square(x).sum(axis=1).max() / margin**2


@some
@given(
    row=FEATURES,
    y=LABEL,
    c=IMPORTANCE,
    eta=PARAMETER,
    bias=st.sampled_from(["feature", "r2"]),
    history=HISTORY,
)
def test_perceptron_moves_only_on_a_mistake(row, y, c, eta, bias, history):
    learner = make({"kind": "perceptron", "eta": eta, "bias": bias})
    state = after(learner, history)
    before = weights(state)
    s = learn(learner, state, row, y, c)
    x = dense(row)
    if bias == "r2":
        assert state.radius[0] >= np.linalg.norm(x[1:]) * (1 - 1e-12)
        x[BIAS] = state.radius[0] ** 2
    wanted = before + c * eta * y * x if y * s <= 0 else before
    # With r2 the bias moves by the square of the radius: terms that cancel leave their rounding.
    size = np.abs(before) + np.abs(c * eta * x)
    assert (np.abs(weights(state) - wanted) <= 1e-14 * size).all()


# Logistic regression


@some
@given(row=FEATURES, y=LABEL, c=IMPORTANCE, eta0=PARAMETER, history=HISTORY)
def test_sgd_log_steps_down_the_gradient(row, y, c, eta0, history):
    learner = make({"kind": "sgd-log", "eta0": eta0, "horizon": 50})
    state = after(learner, history)
    before, x, k = weights(state), dense(row), int(state.events[0])
    assume(abs(before @ x) < 30)  # beyond, the loss is too flat for differences
    learn(learner, state, row, y, c)
    h = 1e-6
    gradient = [
        (loss(before + h * e, x, y) - loss(before - h * e, x, y)) / (2 * h) for e in np.eye(SMALL)
    ]
    rate = c * eta0 / (1 + k / 50)
    # Central differences: 1e-12·|x|³ of curvature, and 2⁻⁵³ of a loss below 31 over 2h = 2e-6.
    assert np.allclose(
        weights(state) - before,
        -rate * np.array(gradient),
        rtol=1e-5,
        atol=1e-6 * rate * np.abs(x).max(),
    )


def loss(w, x, y):
    return np.logaddexp(0.0, -y * (w @ x))


def test_sgd_log_shrinks_every_weight_but_the_bias():
    """The rows have only the bias, and their label is nearly certain: only the shrinking moves
    weights.
    """
    learner = make({"kind": "sgd-log", "lam": 3.0, "horizon": 10})
    state = learner.init(3)
    state.w.v[:] = [800.0, 2.0, -3.0]
    shrunk = 1.0
    for k in range(40):
        learn(learner, state, {}, 1.0)
        shrunk *= 1 - 2 * 3.0 * 0.1 / (1 + k / 10) / 10
        assert np.allclose(weights(state), [800.0, 2.0 * shrunk, -3.0 * shrunk], rtol=1e-12)


def test_a_fold_of_the_scale_leaves_the_weights_unchanged():
    learner = make(FOLDING)
    state = learner.init(3)
    w, b, folds = np.zeros(2), 0.0, 0
    for k in range(400):
        row, y = {1: 1.0 + k % 3, 2: -0.5}, 1.0 - 2 * (k % 2)
        eta = 0.1 / (1 + k / 1000)
        step = eta * ((y > 0) - 1 / (1 + math.exp(-(w @ [row[1], row[2]] + b))))
        w, b = w * (1 - 2 * 4900 * eta / 1000) + step * np.array([row[1], row[2]]), b + step
        scale = state.w.scale[0]
        learn(learner, state, row, y)
        folds += state.w.scale[0] > scale
        assert np.allclose(weights(state), [b, *w], rtol=1e-10, atol=1e-12)
    assert folds >= 2
