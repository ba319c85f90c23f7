"""AROW and soft confidence-weighted learning take the steps of their papers, and only shrink their
variances.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from learners.batch import BIAS
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
    "arow": "test_arow_equals_the_full_covariance_where_that_is_diagonal",
    "scw1": "test_scw1_ends_on_the_margin_it_wants_unless_capped",
    "scw2": "test_scw2_takes_the_step_that_solves_the_papers_equation",
}
"""Kind -> its first test."""

some = examples(60)

PROBABILITY = st.sampled_from([0.51, 0.7, 0.9, 0.999])

with_variances = looped("kind", ["arow", "scw1", "scw2"])


def variances(state):
    return 1 / (1 + state.gained)


# Variances


@with_variances
@looped("seed", range(4))
@looped("dim", [SMALL, SPARSE])
def test_variances_stay_positive_and_only_shrink(kind, seed, dim):
    stream = seeded(seed, 80, dim, hostile=True)
    learner = make(kind)
    y, state = labels(learner, stream), learner.init(dim)
    for t in range(stream.X.size):
        before, updates, event = variances(state), learner.updates(state), stream.X.rows(t, t + 1)
        learner.learn(state, event, y[t : t + 1])
        now = variances(state)
        assert ((now > 0) & (now <= before)).all()
        if learner.updates(state) == updates:
            assert np.array_equal(now, before)
        others = np.setdiff1d(np.arange(dim), event.indices)
        assert np.array_equal(now[others], before[others])


@with_variances
@some
@given(row=FEATURES, y=LABEL, c=IMPORTANCE, value=PARAMETER, history=HISTORY)
def test_importance_multiplies_the_parameter_of_the_rule(kind, row, y, c, value, history):
    """The parameter is `1/r` or C; an event of importance c equals one of importance 1 under
    another parameter.
    """
    name = "r" if kind == "arow" else "C"
    learner = make({"kind": kind, name: value})
    other = make({"kind": kind, name: value / c if kind == "arow" else value * c})
    state, same = after(learner, history), after(learner, history)
    learner.learn(state, one(row, c), np.array([y]))
    other.learn(same, one(row), np.array([y]))
    # c·C/x and (c·C)/x: a rounding of each product.
    assert np.allclose(weights(state), weights(same), rtol=1e-12)
    assert np.allclose(state.gained, same.gained, rtol=1e-12)


@with_variances
def test_a_row_without_variance_changes_nothing(kind):
    learner = make(kind)
    state = learner.init(3)
    state.w.v[:] = 2.0  # so that the label is missed by the smallest amount
    before = state_digest(state)
    for row in ({}, {1: 0.0, 2: -0.0}, {1: 1e-170}, {2: 5e-324}):
        learner.learn(state, one(row, bias=False), np.array([-1.0]))
    assert state_digest(state) == before


@with_variances
@looped("x", [1e-40, 1e-20, 1e20, 1e40])
@looped("bias", [True, False])
def test_one_event_suffices_in_any_unit_if_the_step_may_be_long(kind, x, bias):
    learner = make(
        {"kind": kind, "r": 1e-9 * min(1.0, x * x)} if kind == "arow" else {"kind": kind, "C": 1e90}
    )
    state = learner.init(3)
    for row, y in (({1: x}, -1.0), ({2: -x}, -1.0), ({1: x}, -1.0), ({1: x, 2: -x / 3}, -1.0)):
        learner.learn(state, one(row, bias=bias), np.array([y]))
        assert learner.scores(state, one(row, bias=bias))[0] * y > 0
    assert learner.dropped_updates(state) == 0
    assert (variances(state) > 0).all()


@with_variances
def test_a_step_beyond_the_largest_weight_is_dropped_whole(kind):
    learner = make(kind if kind == "arow" else {"kind": kind, "C": 1e300})
    state = learner.init(3)
    state.w.v[1] = -0.6 * LARGEST_WEIGHT
    before = flatten(state)["gained"].copy(), weights(state)
    scores = learner.learn(state, one({1: 9.0, 2: 1.0}), np.array([1.0]))
    assert scores[0] == pytest.approx(-5.4 * LARGEST_WEIGHT)
    assert (learner.updates(state), learner.dropped_updates(state)) == (0, 1)
    assert np.array_equal(state.gained, before[0])
    assert np.array_equal(state.w.v, before[1])


def test_a_precision_beyond_the_safe_range_is_dropped_whole():
    learner = make("arow:r=1e-60")
    state = learner.init(3)
    learner.learn(state, one({1: 1e10, 2: 1e30}), np.array([1.0]))
    assert (learner.updates(state), learner.dropped_updates(state)) == (0, 1)
    assert not state.gained.any()
    assert not state.w.v.any()
    learner.learn(state, one({1: 1e10, 2: 1e19}), np.array([1.0]))
    assert (learner.updates(state), learner.dropped_updates(state)) == (1, 1)


# AROW


def m_is_clear(margin):
    return abs(margin - 1.0) > 1e-12


@some
@given(
    events=st.lists(st.tuples(st.integers(0, 3), st.floats(-5, 5), LABEL, IMPORTANCE), max_size=25),
    r=st.sampled_from([0.1, 1.0, 7.0]),
)
def test_arow_equals_the_full_covariance_where_that_is_diagonal(events, r):
    """Rows of one feature keep the paper's covariance matrix diagonal, so nothing is lost."""
    learner = make({"kind": "arow", "r": r})
    state = learner.init(4)
    mu, sigma = np.zeros(4), np.eye(4)
    for slot, value, y, c in events:
        x = value * np.eye(4)[slot]
        score = learner.learn(state, one({slot: value}, c, bias=False), np.array([y]))[0]
        # The learner keeps 1/σ, the paper σ: up to 25 roundings each. They decide at a margin of
        # exactly 1, where the loss and the step are 0, but the variance shrinks.
        assume(m_is_clear(y * (mu @ x)))
        assert score == pytest.approx(mu @ x, rel=1e-9, abs=1e-12)
        if y * (mu @ x) < 1:
            beta = 1 / (x @ sigma @ x + r / c)
            alpha = max(0, 1 - y * (mu @ x)) * beta
            mu = mu + alpha * y * sigma @ x
            sigma = sigma - beta * np.outer(sigma @ x, x @ sigma)
    assert np.allclose(weights(state), mu, rtol=1e-9, atol=1e-12)
    assert np.allclose(variances(state), np.diag(sigma), rtol=1e-9, atol=0)
    assert not (sigma - np.diag(np.diag(sigma))).any()


@some
@given(row=FEATURES, y=LABEL, r=PARAMETER, c=IMPORTANCE, history=HISTORY)
def test_arow_minimises_its_objective(row, y, r, c, history):
    """At ½Σ(w − w_t)²/σ + c/(2r)·(1 − y·w·x)² the gradient vanishes, and 1/σ gains c·x²/r."""
    learner = make({"kind": "arow", "r": r})
    state = after(learner, history)
    w, sigma, x = weights(state), variances(state), dense(row)
    m = y * learner.learn(state, one(row, c), np.array([y]))[0]
    moved = weights(state)
    if m >= 1:
        assert np.array_equal(moved, w)
        assert np.array_equal(variances(state), sigma)
        return
    gradient = (moved - w) / sigma - c / r * (1 - y * (moved @ x)) * y * x
    # Zero except for the rounding of w, divided by σ, and of w·x, multiplied by c/r·x.
    assert np.allclose(
        gradient, 0, atol=1e-9 * (1 + abs(m)) * (1 + c / r) * np.abs(x).max() / sigma.min()
    )
    assert np.allclose(1 / variances(state), 1 / sigma + c / r * x * x, rtol=1e-9)


# SCW


def step_of(state, learner, row, y, c):
    """Return m, v and k from before one event of SCW, and the weights after it."""
    w, sigma, x = weights(state), variances(state), dense(row)
    m = y * learner.learn(state, one(row, c), np.array([y]))[0]
    k = y * (weights(state)[BIAS] - w[BIAS]) / sigma[BIAS]
    return m, sigma @ (x * x), k, x


def root_u(k, v, phi):
    return (-k * v * phi + math.sqrt(k * k * v * v * phi * phi + 4 * v)) / 2


def numeric_step(m, v, n, phi):
    """Return the k ≥ 0 with `m + k·n = φ·√u(k)`, by bisection: the difference falls in k."""
    low, high = 0.0, 1.0
    while phi * root_u(high, v, phi) > m + high * n:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if phi * root_u(middle, v, phi) > m + middle * n else (low, middle)
        )
    return low


@some
@given(
    events=st.lists(st.tuples(st.integers(0, 3), st.floats(-5, 5), LABEL, IMPORTANCE), max_size=25),
    eta=PROBABILITY,
    C=st.sampled_from([0.3, 1e9]),
)
def test_scw1_ends_on_the_margin_it_wants_unless_capped(events, eta, C):
    """After an update `m ≥ φ√v`, with equality; for rows of one feature, whose covariance is
    diagonal.
    """
    learner, phi = make({"kind": "scw1", "eta": eta, "C": C}), NormalDist().inv_cdf(eta)
    state = learner.init(4)
    for slot, value, y, c in events:
        assume(abs(value) > 1e-6 or value == 0)
        row = one({slot: value}, c, bias=False)
        w, sigma = weights(state)[slot], variances(state)[slot]
        m = y * learner.learn(state, row, np.array([y]))[0]
        now, wanted = (
            y * learner.scores(state, row)[0],
            phi * math.sqrt(variances(state)[slot] * value * value),
        )
        bound = phi * math.sqrt(sigma * value * value)
        if abs(m - bound) <= 1e-12 * abs(bound):  # a tie: rounding decides, about a step of 0
            assert weights(state)[slot] == pytest.approx(w, rel=1e-9, abs=1e-9)
            assert variances(state)[slot] == pytest.approx(sigma, rel=1e-9)
        elif m >= bound:
            assert weights(state)[slot] == w
            assert variances(state)[slot] == sigma
        elif y * (weights(state)[slot] - w) / (sigma * value) < c * C * (1 - 1e-9):
            assert now == pytest.approx(wanted, rel=1e-9, abs=1e-9)
        else:
            assert now <= wanted + 1e-9
            assert y * (weights(state)[slot] - w) == pytest.approx(c * C * sigma * value, rel=1e-6)


@some
@given(row=FEATURES, y=LABEL, eta=PROBABILITY, C=PARAMETER, c=IMPORTANCE, history=HISTORY)
def test_scw1_takes_the_step_that_solves_the_papers_equation(row, y, eta, C, c, history):
    learner, phi = make({"kind": "scw1", "eta": eta, "C": C}), NormalDist().inv_cdf(eta)
    state = after(learner, history)
    m, v, k, x = step_of(state, learner, row, y, c)
    if m < phi * math.sqrt(v):
        wanted = numeric_step(m, v, v, phi)
        # The step is a difference of weights over a variance, and a bisection ends beside the root;
        # where m is near the margin, the step is near 0 whatever rounding decides.
        assert k == pytest.approx(min(c * C, wanted), rel=1e-7, abs=1e-9)
        # The margin is met with the variance of the full covariance, which is smaller.
        if wanted < c * C:
            assert y * (weights(state) @ x) == pytest.approx(
                phi * root_u(wanted, v, phi), rel=1e-7, abs=1e-9
            )  # as near as the step
            assert variances(state) @ (x * x) >= root_u(wanted, v, phi) ** 2 * (1 - 1e-9)
    else:
        assert abs(k) <= 1e-9


@some
@given(row=FEATURES, y=LABEL, eta=PROBABILITY, C=PARAMETER, c=IMPORTANCE, history=HISTORY)
def test_scw2_takes_the_step_that_solves_the_papers_equation(row, y, eta, C, c, history):
    """The distance to the margin is k/(2C), the price of a squared loss."""
    learner, phi = make({"kind": "scw2", "eta": eta, "C": C}), NormalDist().inv_cdf(eta)
    state = after(learner, history)
    m, v, k, x = step_of(state, learner, row, y, c)
    if m < phi * math.sqrt(v):
        wanted = numeric_step(m, v, v + 1 / (2 * c * C), phi)
        # As above.
        assert k == pytest.approx(wanted, rel=1e-7, abs=1e-9)
        missing = phi * root_u(wanted, v, phi) - y * (weights(state) @ x)
        assert missing == pytest.approx(wanted / (2 * c * C), rel=1e-6, abs=1e-8 * (1 + abs(m)))
    else:
        assert abs(k) <= 1e-9


@looped("kind", ["scw1", "scw2"])
def test_an_event_with_a_vanishing_price_is_no_update(kind):
    learner = make({"kind": kind, "C": 1e-300})
    state = learner.init(3)
    before = state_digest(state)
    learner.learn(state, one({1: 2.0, 2: -1.0}, 1e-50), np.array([1.0]))
    assert state_digest(state) == before


@looped("kind", ["scw1", "scw2"])
def test_a_probability_nearer_to_1_gives_a_wider_margin(kind):
    margins = []
    for eta in (0.500001, 0.6, 0.9, 0.99, 0.999999):
        learner = make({"kind": kind, "eta": eta, "C": 1e6})
        state = learner.init(3)
        learner.learn(state, one({1: 2.0, 2: -1.0}), np.array([1.0]))
        margins.append(learner.scores(state, one({1: 2.0, 2: -1.0}))[0])
    assert margins == sorted(margins)
    assert 0 < margins[0] < 1e-4


@looped("kind", ["scw1", "scw2"])
@looped("eta", [0.5, 1.0, 0.3, math.nan])
def test_a_probability_that_gives_no_margin_is_refused(kind, eta):
    with pytest.raises(ValueError, match="eta: Input should be "):
        make({"kind": kind, "eta": eta})
