"""What the papers prove or promise of multiplicative rules, as properties. The table names the
first of each kind.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.batch import BIAS, Batch
from learners.evaluation.progress import predict_labels
from learners.jit import ACCEPTED, NEGATIVE, NUMERIC
from learners.learner import Memory
from learners.linear.exponentiated import LARGEST_H, RENEW
from learners.registry import make
from learners.state import state_digest
from tests.learners.streams import SMALL, labels, seeded, suited
from tests.looped import looped

INVARIANTS = {
    "winnow": "test_winnow_multiplies_by_its_factors_exactly_and_only_on_a_mistake",
    "winnow-balanced": "test_balanced_winnow_moves_its_two_weights_against_each_other",
    "mbw": "test_mbw_moves_within_its_margin_and_more_where_x_is_large",
    "winnow-exp": "test_winnow_exp_keeps_its_mistake_bound",
    "winnow-norm": "test_winnow_norm_gives_the_labels_of_winnow_exp_for_ever",
    "lm-winnow": "test_lm_winnow_climbs_its_dual_objective_up_to_the_margin",
    "lm-winnow-norm": "test_lm_winnow_norm_climbs_its_dual_objective_up_to_the_margin",
}

some = settings(max_examples=60, derandomize=True, deadline=None)

POSITIVE = st.dictionaries(
    st.integers(1, SMALL - 1), st.sampled_from([0.25, 1.0, 3.0, 0.0, 1e40, 1e-40]), max_size=6
)
SIGNED = st.dictionaries(st.integers(1, SMALL - 1), st.floats(-50, 50), max_size=6)
LABEL = st.sampled_from([-1.0, 1.0])
IMPORTANCE = st.sampled_from([1.0, 1.0, 0.25, 4.0, 1e-40, 1e40])
HISTORY = st.integers(0, 40)

THRESHOLD = ["winnow", "winnow-balanced", "mbw"]
EXPONENT = ["winnow-exp", "winnow-norm", "lm-winnow", "lm-winnow-norm"]


def learn(learner, state, row, y, c=1.0):
    """One event; returns its score."""
    return learner.learn(state, one(row, c), np.array([y]))[0]


def one(row, c=1.0):
    return Batch.from_rows(
        [([BIAS, *sorted(row)], [1.0, *(row[slot] for slot in sorted(row))])], [c]
    )


def dense(row):
    x = np.zeros(SMALL)
    x[[BIAS, *row]] = [1.0, *row.values()]
    return x


def after(learner, events):
    """A state that has seen something."""
    stream = suited(learner, seeded(7, 40))
    state = learner.init(SMALL)
    learner.learn(state, stream.X.rows(0, events), labels(learner, stream)[:events])
    return state


def weights(state):
    return state.w.scale[0] * state.w.v


# Carvalho & Cohen's three


def full_score(state, x, theta=1.0):
    """Of all features, as the rule sees it."""
    against = state.v.v if state.v.v.size else 0.0
    return math.fsum((state.w.v - against) * x) / math.fsum(x) - theta


def check_factors(learner, history, row, y, c, margin, up, down):
    """Learn one event and see that u and v moved by these factors, to the power of c, and only on a
    mistake.
    """
    state = after(learner, history)
    u, v, x = state.w.v.copy(), state.v.v.copy(), dense(row)
    s, counted = full_score(state, x), learner.updates(state)
    learn(learner, state, row, y, c)
    mistake = learner.updates(state) > counted
    if abs(y * s - margin) > 1e-9 * max(1.0, abs(s)):
        assert mistake == (y * s <= margin)
    if not mistake:
        assert (state.w.v.tobytes(), state.v.v.tobytes()) == (u.tobytes(), v.tobytes())
        return
    check_powers(u, state.w.v, up if y > 0 else down, c, x)
    if v.size:
        check_powers(v, state.v.v, down if y > 0 else up, c, x)


def check_powers(old, new, factors, c, x):
    logs = np.clip(c * np.log(factors), -500, 500)
    wanted = np.where(x > 0, old * (factors if c == 1 else np.exp(logs)), old)
    assert np.allclose(np.clip(wanted, 1e-100, 1e100), new, rtol=0 if c == 1 else 1e-12, atol=0)


@some
@given(row=POSITIVE, y=LABEL, c=IMPORTANCE, history=HISTORY)
def test_winnow_multiplies_by_its_factors_exactly_and_only_on_a_mistake(row, y, c, history):
    up, down = np.full(SMALL, 1.5), np.full(SMALL, 0.5)
    check_factors(make("winnow"), history, row, y, c, 0.0, up, down)


@some
@given(row=POSITIVE, y=LABEL, c=IMPORTANCE, history=HISTORY)
def test_balanced_winnow_moves_its_two_weights_against_each_other(row, y, c, history):
    up, down = np.full(SMALL, 1.5), np.full(SMALL, 0.5)
    check_factors(make("winnow-balanced"), history, row, y, c, 0.0, up, down)


@some
@given(row=POSITIVE, y=LABEL, c=IMPORTANCE, history=HISTORY, M=st.sampled_from([0.0, 0.5, 1.0]))
def test_mbw_moves_within_its_margin_and_more_where_x_is_large(row, y, c, history, M):
    n = 0.0
    for value in dense(row):  # in the order of the row, to the last bit
        n += value
    x = dense(row) / n
    up, down = 1.5 * (1 + x), 0.5 * np.maximum(1e-3, 1 - x)
    check_factors(make({"kind": "mbw", "M": M}), history, row, y, c, M, up, down)


@looped("kind", THRESHOLD)
@some
@given(row=POSITIVE)
def test_a_fresh_winnow_scores_exactly_0_and_learns_from_either_class(kind, row):
    learner = make(kind)
    for y in (-1.0, 1.0):
        state = learner.init(SMALL)
        assert learner.scores(state, one(row))[0] == 0.0
        assert full_score(state, dense(row)) == pytest.approx(0.0, abs=1e-15)
        assert learn(learner, state, row, y) == 0.0
        assert learner.updates(state) == 1


@looped("kind", THRESHOLD)
def test_unseen_features_are_left_out_of_the_answer_and_change_no_label(kind):
    """With w0 = θ or u0 − v0 = θ the score of all features is n_seen/n times that of the
    seen ones.
    """
    learner = make(kind)
    stream = suited(learner, seeded(12, 400, 1000))
    taken = learner.row_refusals(stream.X) == ACCEPTED
    X, y = stream.X.where(taken), labels(learner, stream)[taken]
    state, different = learner.init(stream.dim), 0
    for t in range(X.size):
        event = X.rows(t, t + 1)
        x = np.zeros(stream.dim)
        x[event.indices] = event.values
        full, seen = full_score(state, x), state.seen.astype(bool)
        answer = learner.learn(state, event, y[t : t + 1])[0]
        assert full == pytest.approx(answer * x[seen].sum() / x.sum(), rel=1e-9, abs=1e-12)
        different += answer != full
        if abs(full) > 1e-12:
            assert (answer >= 0) == (full >= 0)
        assert state.seen[event.indices[event.values > 0]].all() == (
            event.weights[0] > 0 or seen[x > 0].all()
        )
    assert different > 100
    assert 1 < state.seen.sum() < stream.dim


@looped("kind", THRESHOLD)
def test_a_feature_never_learned_does_not_change_an_answer(kind):
    learner = make(kind)
    state = learner.init(4)
    learn(learner, state, {1: 2.0, 3: 0.0}, 1.0)
    learn(learner, state, {1: 3.0}, -1.0)
    assert state.seen.tolist() == [1, 1, 0, 0]  # a value of 0 is an absent value
    assert (
        learner.scores(state, one({1: 0.5, 2: 9.0, 3: 1e40}))[0]
        == learner.scores(state, one({1: 0.5}))[0]
        != 0.0
    )


@looped("kind", THRESHOLD)
@looped("y", [-1.0, 1.0])
def test_winnow_weights_stay_positive_and_within_their_range(kind, y):
    """One class for ever, against a threshold that is never reached, or from weights far
    above it.
    """
    far = {"w0": 1e100} if kind == "winnow" else {"u0": 1e100, "v0": 1e-100}
    learner = make(
        {"kind": kind, "theta": 1e100} if y > 0 else {"kind": kind, "theta": 1e-100, **far}
    )
    state = learner.init(SMALL)
    for c in (1.0, 1e50, 1e-50, 300.0, 1.0, 1e50):
        for _ in range(5):
            learn(learner, state, {1: 1.0, 2: 1e40, 3: 1e-40}, y, c)
            for w in (state.w.v, state.v.v):
                assert ((w >= 1e-100) & (w <= 1e100)).all()
    assert state.w.v[1] == (1e100 if y > 0 else 1e-100)
    assert np.isfinite(learner.scores(state, one({1: 9e49, 4: 1.0}))).all()
    assert np.isfinite(learner.norm(state))
    assert learner.dropped_updates(state) == 0


def test_a_row_of_the_bias_alone_has_x_1_and_a_row_of_nothing_scores_below_the_threshold():
    learner = make("mbw")
    state = learner.init(3)
    learn(learner, state, {}, -1.0)
    assert state.w.v.tolist() == [2.0 * (0.5 * 1e-3), 2.0, 2.0]
    assert state.v.v.tolist() == [1.0 * (1.5 * 2.0), 1.0, 1.0]
    for kind in THRESHOLD:
        learner = make({"kind": kind, "theta": 0.7})
        nothing = Batch.from_rows([([], []), ([1], [0.0])])
        state = learner.init(3)
        assert learner.scores(state, nothing).tolist() == [-0.7, -0.7]
        assert learner.learn(state, nothing, np.ones(2)).tolist() == [-0.7, -0.7]
        assert state.w.v.tobytes() == learner.init(3).w.v.tobytes()


@looped("kind", [*THRESHOLD, "averaged:base=mbw"])
def test_negative_values_are_refused_by_name(kind):
    rows = [
        ([0, 1], [1.0, 0.5]),
        ([0, 1], [1.0, -1e-310]),
        ([0, 1], [1.0, -1e60]),
        ([0, 2], [1.0, -0.0]),
    ]
    X = Batch.from_rows(rows)
    learner = make(kind)
    assert learner.row_refusals(X).tolist() == [ACCEPTED, NEGATIVE, NUMERIC, ACCEPTED]
    assert np.isnan(learner.learn(learner.init(3), X, np.ones(4))).tolist() == [
        False,
        True,
        True,
        False,
    ]
    assert make("winnow-exp").row_refusals(X).tolist() == [ACCEPTED, ACCEPTED, NUMERIC, ACCEPTED]


def test_what_is_not_selected_is_left_out_of_sum_and_norm():
    learner = make(
        {
            "kind": "selected",
            "selector": "efs",
            "every": 3,
            "K": 2,
            "P": 0.5,
            "base": "winnow-balanced",
        }
    )
    state = learner.init(SMALL)
    for row, y in (({1: 1.0, 2: 1.0}, 1.0), ({2: 1.0, 3: 1.0}, 1.0), ({3: 2.0, 4: 1.0}, -1.0)):
        learn(learner, state, row, y)
    mask, difference = state.base.w.mask, state.base.w.v - state.base.v.v
    assert mask[BIAS] == 1
    assert mask.sum() == 3
    x = np.array([1.0, 0.5, 0.25, 3.0, 2.0, 0.0, 0.0, 0.0])
    said = learner.scores(state, one({j: x[j] for j in range(1, SMALL)}))[0]
    assert said == pytest.approx((difference * x * mask).sum() / (x * mask).sum() - 1.0, rel=1e-12)


@looped("kind", THRESHOLD)
def test_a_disjunction_is_learned_among_many_irrelevant_features(kind):
    """Littlestone's home ground: mistakes grow with the relevant features, not with all."""
    rng = np.random.default_rng(3)
    x = rng.random((3000, 400)) < 0.01
    y = np.where(x[:, :3].any(axis=1), 1.0, -1.0)
    rows = Batch.from_rows(
        [([0, *(np.flatnonzero(row) + 1)], [1.0] * (1 + row.sum())) for row in x]
    )
    learner = make(kind)
    wrong = predict_labels(learner.learn(learner.init(401), rows, y)) != y
    assert wrong[-1000:].sum() <= 5 < wrong[:1000].sum() < 100


# Zhang's four


def separable(seed, rows=2000, dim=30, relevant=3, margin=0.3):
    """Rows of ±1 and 0, with a sparse target that separates them by a margin; the bias is in slot
    0.
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
def test_winnow_exp_multiplies_by_exponentials_on_a_mistake_only(row, y, c, history, eta):
    """The form of the paper, computed directly: w *= exp(η·x·y) over [x, −x]."""
    learner = make({"kind": "winnow-exp", "eta": eta})
    state = after(learner, history)
    positive, negative, x = 0.01 * np.exp(state.h), 0.01 * np.exp(-state.h), dense(row)
    assert np.allclose(weights(state), positive - negative, rtol=1e-9, atol=1e-13)
    before = state_digest(state)
    if y * learn(learner, state, row, y, c) > 0:
        assert state_digest(state) == before
        return
    small = np.abs(state.h) < LARGEST_H
    positive, negative = positive * np.exp(c * eta * y * x), negative * np.exp(-c * eta * y * x)
    assert np.allclose(weights(state)[small], (positive - negative)[small], rtol=1e-9, atol=1e-13)


@looped(("scale", "seed"), [(1.0, 0), (1.0, 1), (30.0, 2), (1e3, 3), (1e40, 4)])
def test_winnow_norm_gives_the_labels_of_winnow_exp_for_ever(scale, seed):
    """Also where weights go from one end of their range to the other at every mistake."""
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
def test_normalised_weights_always_sum_to_the_same(kind, rows):
    learner = make({"kind": kind, "W": 3.0, "eta": 5.0})
    state = learner.init(SMALL)
    for row, y, c in rows:
        learn(learner, state, row, y, c)
        halves = state.w.scale[0] * np.cosh(state.h)
        assert halves.sum() == pytest.approx(3.0, rel=1e-9)
        assert (np.abs(weights(state)) <= 3.0 * (1 + 1e-9)).all()
        assert state.held.sum() == SMALL


def test_huge_weights_that_come_back_leave_no_trace_in_the_sum():
    learner = make("winnow-norm:eta=1")
    state = learner.init(SMALL)
    for k, y in enumerate((1.0, -1.0) * 5):
        row = {1: 197.3, 2: 199.1, 3: -100.7, 4: -100.1, 5: 3.3}
        learn(learner, state, row, y)
        assert k % 2 == 0 or state.h.tolist() == [0.0] * SMALL
    assert state.Z.sum() == pytest.approx(SMALL, rel=1e-12)


def test_the_sum_of_the_weights_is_taken_afresh_now_and_then():
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


def test_the_sum_is_by_default_what_the_weights_sum_to_without_normalising():
    learner, plain = make("winnow-norm:mu=0.3"), make("winnow-exp:mu=0.3")
    assert learner.weight_sum(50) == pytest.approx(2 * 50 * 0.3)
    assert (
        learner.init(50).w.scale[0]
        == pytest.approx(plain.init(50).w.scale[0])
        == pytest.approx(0.6)
    )


@looped("kind", EXPONENT)
def test_exponents_are_cut_and_come_back(kind):
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
    small ones.
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
    """Learn the rows again and again with their dual variables kept: the objective never falls;
    returns the margins.
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
    """Σa − Σ μ(e^h + e^−h), h = Σ a·y·x: separable rows end at a margin of 1 or more, if C lets
    them.
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
def test_in_one_pass_the_large_margin_rules_move_below_the_margin_only(row, y, kind, history):
    learner = make(kind)
    state = after(learner, history)
    before, h, x = state_digest(state), state.h.copy(), dense(row)
    s = learn(learner, state, row, y, 2.0)
    if y * s >= 1:
        assert state_digest(state) == before
    else:
        a = min(2.0, 0.1 * (1 - y * s))
        assert np.allclose(
            state.h, np.clip(h + a * y * x, -LARGEST_H, LARGEST_H), rtol=1e-12, atol=1e-12
        )


@looped("kind", EXPONENT)
def test_zero_rows_and_a_single_class_do_no_harm(kind):
    learner = make(kind)
    state = learner.init(3)
    zero = Batch.from_rows([([], []), ([1], [0.0])])
    assert learner.learn(state, zero, np.array([1.0, -1.0])).tolist() == [0.0, 0.0]
    assert not state.h.any()
    for _ in range(2000):
        learn(learner, state, {1: 0.5, 2: -0.5}, 1.0)
    assert learner.scores(state, one({1: 0.5, 2: -0.5}))[0] > 0.0
