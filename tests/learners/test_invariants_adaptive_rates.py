"""FTRL-Proximal and AdaGrad adapt a rate for each weight, as their papers say."""

import math

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from learners.jit import LARGEST_WEIGHT
from learners.registry import make
from learners.state import flatten, state_digest
from tests.examples import examples
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
from tests.learners.streams import SMALL, SPARSE, labels, seeded
from tests.looped import looped

INVARIANTS = {
    "ftrl": "test_ftrl_minimises_its_objective",
    "adagrad": "test_adagrad_steps_as_defined",
}
"""Kind -> its first test."""

some = examples(60)


# FTRL


@some
@given(
    events=st.lists(st.tuples(st.floats(-5, 5), LABEL, IMPORTANCE), min_size=1, max_size=25),
    alpha=PARAMETER,
    beta=st.sampled_from([0.0, 0.1, 1.0]),
    lam1=st.sampled_from([0.0, 0.2, 1.0]),
    lam2=st.sampled_from([0.0, 0.5]),
)
def test_ftrl_minimises_its_objective(events, alpha, beta, lam1, lam2):
    """`Σg·w + ½Σσ_s(w − w_s)² + ½(λ2 + β/α)w² + λ1|w|` over all events so far, in one dimension."""
    learner = make({"kind": "ftrl", "alpha": alpha, "beta": beta, "lam1": lam1, "lam2": lam2})
    state = learner.init(1)
    past, n = [], 0.0
    for x, y, c in events:
        assume(abs(x) > 1e-6 or x == 0)
        w = weights(state)[0]
        learner.learn(state, one({0: x}, c, bias=False), np.array([y]))
        g = c * (1 / (1 + math.exp(-w * x)) - (y > 0)) * x
        past.append((g, (math.sqrt(n + g * g) - math.sqrt(n)) / alpha, w))
        n += g * g
    g, sigma, anchor = np.array(past).T
    w = weights(state)[0]

    def objective(w):
        return (
            g.sum() * w
            + sigma @ (w - anchor) ** 2 / 2
            + (lam2 + beta / alpha) * w * w / 2
            + lam1 * abs(w)
        )

    # The learner keeps Σg − Σσ·w_s as one number, so terms as large as Σσ·w are rounded.
    size = 1 + abs(w) + abs(objective(w))
    for step in (1.0, 1e-1, 1e-2, 1e-3, 1e-4):
        assert objective(w) <= min(objective(w - step), objective(w + step)) + 1e-11 * size * (
            1 + sigma.sum()
        )
    smooth = g.sum() + sigma @ (w - anchor) + (lam2 + beta / alpha) * w
    if w == 0:
        assert abs(smooth) <= lam1 + 1e-9 * size
    else:
        assert smooth == pytest.approx(-math.copysign(lam1, w), abs=1e-9 * size * (1 + sigma.sum()))


@looped("lam1", [0.0, 0.5, 3.0, 100.0])
def test_ftrl_has_exact_zeros_only_below_lam1(lam1):
    stream = seeded(12, 400, SPARSE)
    learner = make({"kind": "ftrl", "lam1": lam1, "lam2": 0.1})
    state = learner.init(SPARSE)
    learner.learn(state, stream.X, labels(learner, stream))
    assert np.array_equal(state.w.v == 0.0, np.abs(state.z) <= lam1)
    wanted = -(state.z - np.sign(state.z) * lam1) / ((1.0 + np.sqrt(state.n)) / 0.1 + 0.1)
    assert np.allclose(
        state.w.v, np.where(np.abs(state.z) <= lam1, 0.0, wanted), rtol=1e-12, atol=0
    )
    zeros = np.count_nonzero(state.w.v[state.n > 0] == 0.0)
    assert (zeros > 0) == (lam1 > 0)
    assert (zeros == np.count_nonzero(state.n)) == (lam1 == 100.0)


@looped(("rate", "first"), [(0.1, 1.0), (0.1, 1e-8), (2.0, 0.3)])
@looped("dim", [SMALL, SPARSE])
def test_ftrl_without_regularisation_equals_adagrad(rate, first, dim):
    """McMahan et al., section 3: without λ1 and λ2 it is gradient descent with the rate
    α/(β + √n).
    """
    stream = seeded(13, 150, dim)
    ftrl = make({"kind": "ftrl", "alpha": rate, "beta": first})
    adagrad = make({"kind": "adagrad", "eta": rate, "epsilon": first})
    state, other = ftrl.init(dim), adagrad.init(dim)
    y = labels(ftrl, stream)
    assert np.allclose(
        ftrl.learn(state, stream.X, y), adagrad.learn(other, stream.X, y), rtol=1e-8, atol=1e-8
    )
    assert np.allclose(weights(state), weights(other), rtol=1e-8, atol=1e-10)
    assert np.allclose(state.n, other.G, rtol=1e-8)


def test_an_event_that_only_moves_the_sums_counts_as_an_update():
    learner = make("ftrl:lam1=10")
    state = learner.init(3)
    learner.learn(state, one({1: 2.0}), np.array([1.0]))
    assert learner.updates(state) == 1
    assert state.z.tolist() == [-0.5, -1.0, 0.0]
    assert state.n.tolist() == [0.25, 1.0, 0.0]
    assert not state.w.v.any()


def test_a_gradient_whose_square_vanishes_leaves_its_weight_alone():
    """Without β the rule would divide by 0."""
    learner = make("ftrl:beta=0")
    state = learner.init(3)
    learner.learn(state, one({1: 2.0, 2: 1e-170}), np.array([1.0]))
    assert learner.updates(state) == 1
    assert weights(state) == pytest.approx([0.1, 0.1, 0.0])
    assert (state.z[2], state.n[2]) == (0.0, 0.0)


def test_ftrl_drops_an_update_whose_sum_would_leave_the_safe_range():
    """Past weights anchor the weight, so it would stay in range; its sum would not."""
    learner = make("ftrl:alpha=1")
    state = learner.init(3)
    state.z[1], state.w.v[1] = -9e99, 9e99
    learner.learn(state, one({1: -100.0}), np.array([1.0]))
    assert (learner.updates(state), learner.dropped_updates(state)) == (0, 1)
    assert (state.z[1], state.w.v[1]) == (-9e99, 9e99)
    assert not state.n.any()


# AdaGrad


def loss_of(name, w, x, y):
    m = y * (w @ x)
    return max(0.0, 1 - m) if name == "hinge" else np.logaddexp(0.0, -m)


@some
@given(
    row=FEATURES,
    y=LABEL,
    c=IMPORTANCE,
    loss=st.sampled_from(["logistic", "hinge"]),
    eta=PARAMETER,
    epsilon=st.sampled_from([1e-8, 0.3]),
    history=HISTORY,
)
def test_adagrad_steps_as_defined(row, y, c, loss, eta, epsilon, history):
    learner = make({"kind": "adagrad", "loss": loss, "eta": eta, "epsilon": epsilon})
    state = after(learner, history)
    w, G, x = weights(state), state.G.copy(), dense(row)
    assume(abs(w @ x) < 30)  # beyond, the loss is too flat for differences
    assume(loss == "logistic" or abs(1 - y * (w @ x)) > 1e-3)  # the kink
    learner.learn(state, one(row, c), np.array([y]))
    # Central differences, as for sgd-log; signs are clear only where there is a slope.
    h = 1e-6
    slopes = [
        (loss_of(loss, w + h * e, x, y) - loss_of(loss, w - h * e, x, y)) / (2 * h)
        for e in np.eye(SMALL)
    ]
    g = c * np.array(slopes)
    size = c * np.abs(x).max()
    assert np.allclose(state.G - G, g * g, rtol=1e-4, atol=1e-6 * size * size + 1e-12 * G.max())
    step = weights(state) - w
    used = np.sqrt(np.maximum(state.G - G, 0))  # differences give |g| only to some digits
    assert np.allclose(
        np.abs(step), eta * used / (epsilon + np.sqrt(state.G)), rtol=1e-6, atol=1e-7 * eta
    )
    clear = np.abs(g) > 1e-5 * size
    assert (np.sign(step[clear]) == -np.sign(g[clear])).all()


@some
@given(row=FEATURES, y=LABEL, c=IMPORTANCE, eta=PARAMETER)
@example({1: 3.8e-182}, -1.0, 1.0, 0.03)
def test_the_first_step_of_every_weight_is_eta(row, y, c, eta):
    """This holds for gradients far above ε. If the gradient's square vanishes the step is η·g/ε,
    which with the least ε could exceed the largest weight, so the event would be dropped.
    """
    learner = make({"kind": "adagrad", "loss": "hinge", "eta": eta, "epsilon": 1e-60})
    state = learner.init(SMALL)
    learner.learn(state, one(row, c), np.array([y]))
    x = dense(row)
    moved = np.abs(c * x) > 1e-50
    # η·g/√g²: a root and a quotient.
    assert np.allclose(weights(state)[moved], eta * y * np.sign(x[moved]), rtol=1e-9)


@some
@given(row=FEATURES, y=LABEL, history=HISTORY)
def test_hinge_adagrad_is_passive_beyond_the_margin(row, y, history):
    learner = make("adagrad:loss=hinge,eta=1")
    state = after(learner, history)
    before, updates = state_digest(state), learner.updates(state)
    passive = y * learner.learn(state, one(row), np.array([y]))[0] >= 1
    # Exact: the rule compares the score that it returns.
    assert passive == (state_digest(state) == before)
    assert learner.updates(state) == updates + (not passive)


# Both


GRADIENT = ["ftrl", "ftrl:lam1=0.5", "ftrl:beta=0", "adagrad", "adagrad:loss=hinge"]


@looped("spec", GRADIENT)
def test_a_row_of_zeros_changes_nothing(spec):
    learner = make(spec)
    state = learner.init(3)
    before = state_digest(state)
    for row in ({}, {1: 0.0, 2: -0.0}):
        learner.learn(state, one(row, bias=False), np.array([-1.0]))
    assert state_digest(state) == before


@looped("spec", GRADIENT)
@looped("x", [1e-170, 1e-40, 1e-20, 1e20, 1e40])
def test_weights_are_finite_and_on_the_label_side_for_any_unit(spec, x):
    learner = make(spec)
    state = learner.init(3)
    for _ in range(3):
        learner.learn(state, one({1: x, 2: -x}, bias=False), np.array([1.0]))
    assert np.isfinite(weights(state)).all()
    assert weights(state)[1] >= 0 >= weights(state)[2]
    assert learner.dropped_updates(state) == 0


@looped(
    "spec",
    ["ftrl:alpha=1e200", "ftrl:alpha=1e-320", "adagrad:eta=1e200", "adagrad:eta=1e200,loss=hinge"],
)
def test_an_update_beyond_the_safe_range_is_dropped_whole(spec):
    learner = make(spec)
    state = learner.init(3)
    state.w.v[1] = 1.0
    arrays = {path: array.tobytes() for path, array in flatten(state).items() if path != "dropped"}
    learner.learn(state, one({1: -2.0}), np.array([1.0]))
    assert learner.dropped_updates(state) == 1
    assert {
        path: array.tobytes() for path, array in flatten(state).items() if path != "dropped"
    } == arrays


@looped("kind", ["ftrl", "adagrad"])
def test_sums_of_squares_stay_in_the_safe_range(kind):
    learner = make(kind)
    state = learner.init(2)
    for _ in range(9):
        learner.learn(state, one({1: 9e49}), np.array([-1.0]))
        learner.learn(state, one({1: 9e49}), np.array([1.0]))
    squares = state.n if kind == "ftrl" else state.G
    assert 0 < squares.max() <= LARGEST_WEIGHT
    assert 0 < learner.dropped_updates(state) < 18


@looped("spec", ["arow", "scw1", "scw2", *GRADIENT])
def test_a_stream_of_one_class_is_learned_and_stays_finite(spec):
    stream = seeded(14, 300)
    learner = make(spec)
    state = learner.init(SMALL)
    scores = learner.learn(state, stream.X, -np.ones(300))
    assert np.isfinite(scores).all()
    assert np.mean(scores[100:] < 0) > 0.97


@looped(
    ("spec", "moves"),
    [
        ("ftrl", True),
        ("adagrad", True),
        ("adagrad:loss=hinge", False),
        ("arow", False),
        ("scw1", False),
    ],
)
def test_only_logistic_losses_move_at_every_event(spec, moves):
    assert make(spec).capabilities.always_updates == moves
