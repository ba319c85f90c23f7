"""What the papers of the second-order and adaptive learners promise. The table names the first of
each kind.
"""

import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from learners.batch import BIAS, Batch
from learners.jit import LARGEST_WEIGHT
from learners.registry import make
from learners.state import flatten, state_digest
from tests.learners.streams import SMALL, SPARSE, labels, seeded
from tests.looped import looped

INVARIANTS = {
    "arow": "test_arow_is_the_full_covariance_where_that_is_diagonal",
    "scw1": "test_scw1_ends_on_the_margin_it_wants_unless_capped",
    "scw2": "test_scw2_takes_the_step_that_solves_the_papers_equation",
    "ftrl": "test_ftrl_is_where_its_objective_is_least",
    "adagrad": "test_adagrad_steps_as_defined",
}

some = settings(max_examples=60, derandomize=True, deadline=None)

FEATURES = st.dictionaries(st.integers(1, SMALL - 1), st.floats(-50, 50), max_size=6)
LABEL = st.sampled_from([-1.0, 1.0])
IMPORTANCE = st.sampled_from([1.0, 0.25, 4.0])
PARAMETER = st.sampled_from([0.03, 0.5, 1.0, 5.0])
PROBABILITY = st.sampled_from([0.51, 0.7, 0.9, 0.999])
HISTORY = st.integers(0, 20)

with_variances = looped("kind", ["arow", "scw1", "scw2"])


def one(row, c=1.0, *, bias=True):
    """A batch of one row, given as slot to value."""
    row = {BIAS: 1.0, **row} if bias else row
    return Batch.from_rows([(sorted(row), [row[slot] for slot in sorted(row)])], [c])


def dense(row):
    x = np.zeros(SMALL)
    x[[BIAS, *row]] = [1.0, *row.values()]
    return x


def after(learner, events):
    """A state that has seen something."""
    stream = seeded(7, 20)
    state = learner.init(SMALL)
    learner.learn(state, stream.X.rows(0, events), labels(learner, stream)[:events])
    return state


def weights(state):
    return state.w.v.copy()


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
def test_importance_multiplies_what_the_rule_has_for_it(kind, row, y, c, value, history):
    """`1/r` and C; so an event of importance c is one of importance 1 under another parameter."""
    name = "r" if kind == "arow" else "C"
    learner = make({"kind": kind, name: value})
    other = make({"kind": kind, name: value / c if kind == "arow" else value * c})
    state, same = after(learner, history), after(learner, history)
    learner.learn(state, one(row, c), np.array([y]))
    other.learn(same, one(row), np.array([y]))
    assert np.allclose(weights(state), weights(same), rtol=1e-12)
    assert np.allclose(state.gained, same.gained, rtol=1e-12)


@with_variances
def test_a_row_without_variance_changes_nothing(kind):
    learner = make(kind)
    state = learner.init(3)
    state.w.v[:] = 2.0  # so that the label is missed, by as little as there is
    before = state_digest(state)
    for row in ({}, {1: 0.0, 2: -0.0}, {1: 1e-170}, {2: 5e-324}):
        learner.learn(state, one(row, bias=False), np.array([-1.0]))
    assert state_digest(state) == before


@with_variances
@looped("x", [1e-40, 1e-20, 1e20, 1e40])
@looped("bias", [True, False])
def test_any_unit_is_learned_in_one_event_if_the_step_may_be_long(kind, x, bias):
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


@some
@given(
    events=st.lists(st.tuples(st.integers(0, 3), st.floats(-5, 5), LABEL, IMPORTANCE), max_size=25),
    r=st.sampled_from([0.1, 1.0, 7.0]),
)
def test_arow_is_the_full_covariance_where_that_is_diagonal(events, r):
    """Rows of one feature keep the paper's covariance matrix diagonal, so nothing is lost."""
    learner = make({"kind": "arow", "r": r})
    state = learner.init(4)
    mu, sigma = np.zeros(4), np.eye(4)
    for slot, value, y, c in events:
        x = value * np.eye(4)[slot]
        score = learner.learn(state, one({slot: value}, c, bias=False), np.array([y]))[0]
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
def test_arow_ends_where_its_objective_is_least(row, y, r, c, history):
    """½Σ(w − w_t)²/σ + c/(2r)·(1 − y·w·x)²: the gradient vanishes. And 1/σ gains c·x²/r."""
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
    assert np.allclose(
        gradient, 0, atol=1e-9 * (1 + abs(m)) * (1 + c / r) * np.abs(x).max() / sigma.min()
    )
    assert np.allclose(1 / variances(state), 1 / sigma + c / r * x * x, rtol=1e-9)


# SCW


def step_of(state, learner, row, y, c):
    """One event of SCW: m, v and k from before it, and the weights after."""
    w, sigma, x = weights(state), variances(state), dense(row)
    m = y * learner.learn(state, one(row, c), np.array([y]))[0]
    k = y * (weights(state)[BIAS] - w[BIAS]) / sigma[BIAS]
    return m, sigma @ (x * x), k, x


def root_u(k, v, phi):
    return (-k * v * phi + math.sqrt(k * k * v * v * phi * phi + 4 * v)) / 2


def numeric_step(m, v, n, phi):
    """The k ≥ 0 with `m + k·n = φ·√u(k)`, by bisection: the difference falls in k."""
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
        assert k == pytest.approx(min(c * C, wanted), rel=1e-7, abs=1e-9)
        # The margin is met with the variance of the full covariance, which is the smaller one.
        if wanted < c * C:
            assert y * (weights(state) @ x) == pytest.approx(
                phi * root_u(wanted, v, phi), rel=1e-7, abs=1e-9
            )
            assert variances(state) @ (x * x) >= root_u(wanted, v, phi) ** 2 * (1 - 1e-9)
    else:
        assert k == 0


@some
@given(row=FEATURES, y=LABEL, eta=PROBABILITY, C=PARAMETER, c=IMPORTANCE, history=HISTORY)
def test_scw2_takes_the_step_that_solves_the_papers_equation(row, y, eta, C, c, history):
    """What is missing to the margin is k/(2C): the price of a squared loss."""
    learner, phi = make({"kind": "scw2", "eta": eta, "C": C}), NormalDist().inv_cdf(eta)
    state = after(learner, history)
    m, v, k, x = step_of(state, learner, row, y, c)
    if m < phi * math.sqrt(v):
        wanted = numeric_step(m, v, v + 1 / (2 * c * C), phi)
        assert k == pytest.approx(wanted, rel=1e-7, abs=1e-9)
        missing = phi * root_u(wanted, v, phi) - y * (weights(state) @ x)
        assert missing == pytest.approx(wanted / (2 * c * C), rel=1e-6, abs=1e-8 * (1 + abs(m)))
    else:
        assert k == 0


@looped("kind", ["scw1", "scw2"])
def test_a_price_of_nothing_is_no_update(kind):
    learner = make({"kind": kind, "C": 1e-300})
    state = learner.init(3)
    before = state_digest(state)
    learner.learn(state, one({1: 2.0, 2: -1.0}, 1e-50), np.array([1.0]))
    assert state_digest(state) == before


@looped("kind", ["scw1", "scw2"])
def test_the_nearer_the_probability_to_1_the_wider_the_margin(kind):
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


# FTRL


@some
@given(
    events=st.lists(st.tuples(st.floats(-5, 5), LABEL, IMPORTANCE), min_size=1, max_size=25),
    alpha=PARAMETER,
    beta=st.sampled_from([0.0, 0.1, 1.0]),
    lam1=st.sampled_from([0.0, 0.2, 1.0]),
    lam2=st.sampled_from([0.0, 0.5]),
)
def test_ftrl_is_where_its_objective_is_least(events, alpha, beta, lam1, lam2):
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
def test_ftrl_has_exact_zeros_below_lam1_and_only_there(lam1):
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
def test_ftrl_without_regularisation_is_adagrad(rate, first, dim):
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
    """Without β nothing else would be there to divide by."""
    learner = make("ftrl:beta=0")
    state = learner.init(3)
    learner.learn(state, one({1: 2.0, 2: 1e-170}), np.array([1.0]))
    assert learner.updates(state) == 1
    assert weights(state) == pytest.approx([0.1, 0.1, 0.0])
    assert (state.z[2], state.n[2]) == (0.0, 0.0)


def test_ftrl_drops_an_update_for_its_sum_too():
    """The weight would stay, since past weights anchor it, but their sum would not."""
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
    h = 1e-6
    slopes = [
        (loss_of(loss, w + h * e, x, y) - loss_of(loss, w - h * e, x, y)) / (2 * h)
        for e in np.eye(SMALL)
    ]
    g = c * np.array(slopes)
    size = c * np.abs(x).max()
    assert np.allclose(state.G - G, g * g, rtol=1e-4, atol=1e-6 * size * size + 1e-12 * G.max())
    step = weights(state) - w
    used = np.sqrt(np.maximum(state.G - G, 0))  # |g|, which differences tell only to some digits
    assert np.allclose(
        np.abs(step), eta * used / (epsilon + np.sqrt(state.G)), rtol=1e-6, atol=1e-7 * eta
    )
    clear = np.abs(g) > 1e-5 * size
    assert (np.sign(step[clear]) == -np.sign(g[clear])).all()


@some
@given(row=FEATURES, y=LABEL, c=IMPORTANCE, eta=PARAMETER)
def test_the_first_step_of_every_weight_is_eta(row, y, c, eta):
    learner = make({"kind": "adagrad", "loss": "hinge", "eta": eta, "epsilon": 1e-300})
    state = learner.init(SMALL)
    learner.learn(state, one(row, c), np.array([y]))
    x = dense(row)
    moved = np.square(x) > 1e-300
    assert np.allclose(weights(state)[moved], eta * y * np.sign(x[moved]), rtol=1e-9)


@some
@given(row=FEATURES, y=LABEL, history=HISTORY)
def test_hinge_adagrad_is_passive_beyond_the_margin(row, y, history):
    learner = make("adagrad:loss=hinge,eta=1")
    state = after(learner, history)
    before, updates = state_digest(state), learner.updates(state)
    passive = y * learner.learn(state, one(row), np.array([y]))[0] >= 1
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
def test_any_unit_leaves_the_weights_finite_and_on_the_side_of_the_label(spec, x):
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
def test_what_would_leave_the_safe_range_is_dropped_whole(spec):
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
