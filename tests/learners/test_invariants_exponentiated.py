"""Zhang's four Winnows keep their mistake bound, the sum of their weights and a large margin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.batch import BIAS, Batch
from learners.evaluation.progress import predict_labels
from learners.learner import Memory
from learners.linear.exponentiated import LARGEST_H, RENEW
from learners.registry import make
from learners.state import state_digest
from tests.examples import examples
from tests.learners.single_events import LABEL, dense, learn, one, weights
from tests.learners.streams import SMALL, labels, seeded
from tests.learners.winnows import HISTORY, after
from tests.looped import looped

INVARIANTS = {
    "winnow-exp": "test_winnow_exp_keeps_its_mistake_bound",
    "winnow-norm": "test_winnow_norm_always_gives_the_labels_of_winnow_exp",
    "lm-winnow": "test_lm_winnow_climbs_its_dual_objective_up_to_the_margin",
    "lm-winnow-norm": "test_lm_winnow_norm_climbs_its_dual_objective_up_to_the_margin",
}
"""Kind -> its first test."""

some = examples(60)

SIGNED = st.dictionaries(st.integers(1, SMALL - 1), st.floats(-50, 50), max_size=6)

EXPONENT = ["winnow-exp", "winnow-norm", "lm-winnow", "lm-winnow-norm"]


def separable(seed, rows=2000, dim=30, relevant=3, margin=0.3):
    """Return rows of ±1 and 0, with a sparse target that separates them by a margin; the bias is in
    slot 0.
    """
    rng = np.random.default_rng(seed)
    target = np.zeros(dim)
    target[rng.choice(dim, relevant, replace=False)] = rng.choice(
        [-1.0, 1.0], relevant
    ) * rng.uniform(0.5, 1, relevant)
    x = rng.choice([-1.0, 0.0, 1.0], size=(rows, dim))
    x[:, BIAS] = 1.0
    x = x[np.abs(x @ target) >= margin]
    return Batch.from_rows([(range(dim), row) for row in x]), x, np.sign(x @ target), target


@looped("kind", ["winnow-exp", "winnow-norm"])
@looped("seed", range(4))
def test_winnow_exp_keeps_its_mistake_bound(kind, seed):
    """No more than 2W·Σ w ln(w‖μ‖₁/(μ‖w‖₁))·max‖x‖∞²/δ² mistakes, with η = δ/(W·max‖x‖∞²)."""
    rows, x, y, target = separable(seed)
    W, largest, delta = np.abs(target).sum(), np.abs(x).max(), (y * (x @ target)).min()
    w = np.abs(target[target != 0.0])  # over [x, −x], all weights of the target are positive
    bound = 2 * W * (w * np.log(w * 2 * target.size / W)).sum() * largest**2 / delta**2
    learner = make({"kind": kind, "eta": delta / (W * largest**2)})
    state = learner.init(target.size)
    learner.learn(state, rows, y)
    assert 0 < learner.updates(state) <= bound < rows.size


@some
@given(
    row=SIGNED,
    y=LABEL,
    c=st.sampled_from([1.0, 0.25, 4.0]),
    history=HISTORY,
    eta=st.sampled_from([0.01, 0.3]),
)
def test_winnow_exp_multiplies_by_exponentials_only_on_a_mistake(row, y, c, history, eta):
    """The form of the paper, computed directly: w *= exp(η·x·y) over [x, −x]."""
    learner = make({"kind": "winnow-exp", "eta": eta})
    state = after(learner, history)
    positive, negative, x = 0.01 * np.exp(state.h), 0.01 * np.exp(-state.h), dense(row)
    # The rule keeps h and takes 2μ·sinh(h): near 0 the difference computed here loses digits of
    # 0.01.
    assert np.allclose(weights(state), positive - negative, rtol=1e-9, atol=1e-13)
    before = state_digest(state)
    if y * learn(learner, state, row, y, c) > 0:
        assert state_digest(state) == before
        return
    small = np.abs(state.h) < LARGEST_H
    positive, negative = positive * np.exp(c * eta * y * x), negative * np.exp(-c * eta * y * x)
    assert np.allclose(weights(state)[small], (positive - negative)[small], rtol=1e-9, atol=1e-13)


@looped(("scale", "seed"), [(1.0, 0), (1.0, 1), (30.0, 2), (1e3, 3), (1e40, 4)])
def test_winnow_norm_always_gives_the_labels_of_winnow_exp(scale, seed):
    """This holds even where weights go from one end of their range to the other at
    every mistake.
    """
    stream = seeded(seed, 1500)
    X = stream.X._replace(values=np.where(stream.X.indices == BIAS, 1.0, scale * stream.X.values))
    y = labels(make("winnow-exp"), stream)
    one, other = make("winnow-exp"), make("winnow-norm:W=3")
    states = one.init(SMALL), other.init(SMALL)
    scores = one.learn(states[0], X, y), other.learn(states[1], X, y)
    assert np.array_equal(predict_labels(scores[0]), predict_labels(scores[1]))
    assert states[0].h.tobytes() == states[1].h.tobytes()
    assert 100 < one.updates(states[0]) == other.updates(states[1])


@some
@given(
    kind=st.sampled_from(["winnow-norm", "lm-winnow-norm"]),
    rows=st.lists(st.tuples(SIGNED, LABEL, st.sampled_from([1.0, 100.0, 1e6, 1e40])), max_size=30),
)
def test_normalised_weights_keep_their_sum(kind, rows):
    learner = make({"kind": kind, "W": 3.0, "eta": 5.0})
    state = learner.init(SMALL)
    for row, y, c in rows:
        learn(learner, state, row, y, c)
        halves = state.w.scale[0] * np.cosh(state.h)
        # The learner updates the sum over at most 30 events, each with a rounding; the test sums
        # all weights.
        assert halves.sum() == pytest.approx(3.0, rel=1e-9)
        assert (np.abs(weights(state)) <= 3.0 * (1 + 1e-9)).all()
        assert state.held.sum() == SMALL


def test_huge_weights_that_shrink_again_leave_no_error_in_the_sum():
    learner = make("winnow-norm:eta=1")
    state = learner.init(SMALL)
    for k, y in enumerate((1.0, -1.0) * 5):
        row = {1: 197.3, 2: 199.1, 3: -100.7, 4: -100.1, 5: 3.3}
        learn(learner, state, row, y)
        assert k % 2 == 0 or state.h.tolist() == [0.0] * SMALL
    assert state.Z.sum() == pytest.approx(SMALL, rel=1e-12)


def test_the_sum_of_the_weights_is_recomputed_regularly():
    learner = make("winnow-norm")
    state = learner.init(SMALL)
    state.moves[0], state.Z[0] = RENEW - 2, 1e5
    for wanted in (False, True):
        learn(
            learner,
            state,
            {1: 1.0, 2: -3.0},
            -1.0 if state.w.v @ dense({1: 1.0, 2: -3.0}) > 0 else 1.0,
        )
        assert (state.Z.sum() == pytest.approx(np.cosh(state.h).sum())) == wanted


def test_the_default_sum_is_that_of_the_unnormalised_weights():
    learner, plain = make("winnow-norm:mu=0.3"), make("winnow-exp:mu=0.3")
    assert learner.weight_sum(50) == pytest.approx(2 * 50 * 0.3)
    assert (
        learner.init(50).w.scale[0]
        == pytest.approx(plain.init(50).w.scale[0])
        == pytest.approx(0.6)
    )


@looped("kind", EXPONENT)
def test_exponents_are_clipped_and_can_return(kind):
    learner = make(
        {"kind": kind, "eta": 1.0}
        if kind.startswith("winnow")
        else {"kind": kind, "eta": 1e9, "C": 1e9}
    )
    state = learner.init(3)
    for y in (1.0, 1.0, -1.0, -1.0, 1.0):
        learn(learner, state, {1: 1e45, 2: -1e-45}, y, 1e4)
        assert (np.abs(state.h) <= LARGEST_H).all()
        assert np.isfinite(weights(state)).all()
    assert abs(state.h[1]) == LARGEST_H
    assert np.isfinite(learner.scores(state, one({1: 5e49, 2: -5e49}))).all()


@looped("kind", ["winnow-norm", "lm-winnow-norm"])
@looped("eta", [0.01, 3.0])
def test_the_mean_of_normalised_weights_counts_every_event(kind, eta):
    """With a large step the scale moves by many digits: the clock of averaging must not lose the
    small scales.
    """
    current = make({"kind": kind, "eta": eta, "W": 3.0})
    learner = make({"kind": "averaged", "base": current})
    stream, kept = seeded(13, 200), []
    y, state, plain = labels(learner, stream), learner.init(SMALL), current.init(SMALL)
    scales = set()
    for t in range(stream.X.size):
        event = stream.X.rows(t, t + 1)
        learner.learn(state, event, y[t : t + 1])
        current.learn(plain, event, y[t : t + 1])
        if event.weights[0] > 0:
            kept.append(weights(plain))
            scales.add(plain.w.scale[0])
    units = Batch.from_rows([([slot], [1.0]) for slot in range(SMALL)])
    assert np.allclose(learner.scores(state, units), np.mean(kept, axis=0), rtol=1e-8, atol=1e-10)
    assert eta < 1 or max(scales) > 1e10 * min(scales)


def climb(learner, rows, x, y, dual, passes):
    """Learn the rows repeatedly with their dual variables kept; check that the objective never
    falls, and return the margins.
    """
    duals, state = np.zeros(rows.size), learner.init(x.shape[1])
    best = dual(duals, x, y)
    for _ in range(passes):
        learner.learn(state, rows, y, Memory(duals=duals))
        assert ((duals >= 0.0) & (duals <= learner.C * rows.weights)).all()
        assert np.allclose(state.h, (duals * y) @ x, rtol=1e-7, atol=1e-9)
        climbed = dual(duals, x, y)
        assert climbed >= best - 1e-9 * abs(best)
        best = climbed
    margins = y * learner.scores(state, rows)
    full = np.isclose(duals, learner.C * rows.weights)
    assert (margins[duals == 0.0] > 1 - 0.02).all()  # the conditions of the optimum
    assert (margins[full] < 1 + 0.02).all()
    assert np.allclose(margins[(duals > 0.0) & ~full], 1.0, atol=0.02)
    return margins, duals


@looped("C", [1e3, 0.5])
def test_lm_winnow_climbs_its_dual_objective_up_to_the_margin(C):
    """Σa − Σ μ(e^h + e^−h), h = Σ a·y·x: separable rows end at a margin of at least 1,
    if C allows.
    """
    rows, x, y, _ = separable(5, rows=60, dim=12)
    rows = rows._replace(weights=np.where(np.arange(y.size) % 3 == 0, 2.0, 1.0))
    learner = make({"kind": "lm-winnow", "C": C, "eta": 0.02})
    margins, duals = climb(
        learner, rows, x, y, lambda a, x, y: a.sum() - 0.02 * np.cosh((a * y) @ x).sum(), 1500
    )
    assert (margins > 0.98).all() == (C > 1)
    assert (duals.max() > 0.99 * C) == (C < 1)


@looped("C", [1e3, 0.5])
def test_lm_winnow_norm_climbs_its_dual_objective_up_to_the_margin(C):
    """Σa − W·ln Σ (e^h + e^−h)."""
    rows, x, y, target = separable(6, rows=60, dim=12)
    W = 4 * np.abs(target).sum() / (y * (x @ target)).min()
    learner = make({"kind": "lm-winnow-norm", "C": C, "eta": 0.005, "W": W})
    margins, _ = climb(
        learner, rows, x, y, lambda a, x, y: a.sum() - W * np.log(np.cosh((a * y) @ x).sum()), 1500
    )
    assert C < 1 or (margins > 0.98).all()


@some
@given(row=SIGNED, y=LABEL, kind=st.sampled_from(["lm-winnow", "lm-winnow-norm"]), history=HISTORY)
def test_the_large_margin_rules_in_one_pass_move_only_below_the_margin(row, y, kind, history):
    learner = make(kind)
    state = after(learner, history)
    before, h, x = state_digest(state), state.h.copy(), dense(row)
    s = learn(learner, state, row, y, 2.0)
    if y * s >= 1:
        assert state_digest(state) == before
    else:
        a = min(2.0, 0.1 * (1 - y * s))
        # The same few operations, perhaps in another order.
        assert np.allclose(
            state.h, np.clip(h + a * y * x, -LARGEST_H, LARGEST_H), rtol=1e-12, atol=1e-12
        )


@looped("kind", EXPONENT)
def test_zero_rows_and_a_single_class_are_harmless(kind):
    learner = make(kind)
    state = learner.init(3)
    zero = Batch.from_rows([([], []), ([1], [0.0])])
    assert learner.learn(state, zero, np.array([1.0, -1.0])).tolist() == [0.0, 0.0]
    assert not state.h.any()
    for _ in range(2000):
        learn(learner, state, {1: 0.5, 2: -0.5}, 1.0)
    assert learner.scores(state, one({1: 0.5, 2: -0.5}))[0] > 0.0
