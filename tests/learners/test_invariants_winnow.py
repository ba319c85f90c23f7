"""Carvalho & Cohen's three Winnows multiply their weights by the factors of their papers, and only
on a mistake.
"""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.batch import BIAS, Batch
from learners.evaluation.progress import predict_labels
from learners.jit import ACCEPTED, NEGATIVE, NUMERIC
from learners.registry import make
from tests.examples import examples
from tests.learners.single_events import LABEL, dense, learn, one
from tests.learners.streams import SMALL, labels, seeded, suited
from tests.learners.winnows import HISTORY, after
from tests.looped import looped

INVARIANTS = {
    "winnow": "test_winnow_multiplies_by_its_factors_exactly_and_only_on_a_mistake",
    "winnow-balanced": "test_balanced_winnow_moves_its_two_weights_against_each_other",
    "mbw": "test_mbw_moves_its_weights_by_the_factors_of_its_paper",
}
"""Kind -> its first test."""

some = examples(60)

POSITIVE = st.dictionaries(
    st.integers(1, SMALL - 1), st.sampled_from([0.25, 1.0, 3.0, 0.0, 1e40, 1e-40]), max_size=6
)

IMPORTANCE = st.sampled_from([1.0, 1.0, 0.25, 4.0, 1e-40, 1e40])

THRESHOLD = ["winnow", "winnow-balanced", "mbw"]


def full_score(state, x, theta=1.0):
    """Return the score of all features, as the rule sees it."""
    against = state.v.v if state.v.v.size else 0.0
    return math.fsum((state.w.v - against) * x) / math.fsum(x) - theta


def check_factors(learner, history, row, y, c, margin, up, down):
    """Learn one event; u and v move by these factors, to the power of c, and only on a mistake."""
    state = after(learner, history)
    u, v, x = state.w.v.copy(), state.v.v.copy(), dense(row)
    s, counted = full_score(state, x), learner.updates(state)
    size = 2.0 + np.abs(u - (v if v.size else 0.0)).max()
    learn(learner, state, row, y, c)
    mistake = learner.updates(state) > counted
    # Nearer to the threshold rounding decides: the test's mean of weights is summed exactly, the
    # rule's in the order of the row.
    if abs(y * s - margin) > 1e-14 * size:
        assert mistake == (y * s <= margin)
    if not mistake:
        assert (state.w.v.tobytes(), state.v.v.tobytes()) == (u.tobytes(), v.tobytes())
        return
    check_powers(u, state.w.v, up if y > 0 else down, c, x)
    if v.size:
        check_powers(v, state.v.v, down if y > 0 else up, c, x)


def check_powers(old, new, factors, c, x):
    """Exact where importance is 1; else to the digits of a power by logarithms."""
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
def test_mbw_moves_its_weights_by_the_factors_of_its_paper(row, y, c, history, M):
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
def test_leaving_out_unseen_features_changes_no_label(kind):
    """With w0 = θ or u0 − v0 = θ the score of all features is n_seen/n times that of
    the seen ones.
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
def test_an_unseen_feature_does_not_change_an_answer(kind):
    learner = make(kind)
    state = learner.init(4)
    learn(learner, state, {1: 2.0, 3: 0.0}, 1.0)
    learn(learner, state, {1: 3.0}, -1.0)
    assert state.seen.tolist() == [1, 1, 0, 0]  # a value of 0 counts as absent
    assert (
        learner.scores(state, one({1: 0.5, 2: 9.0, 3: 1e40}))[0]
        == learner.scores(state, one({1: 0.5}))[0]
        != 0.0
    )


@looped("kind", THRESHOLD)
@looped("y", [-1.0, 1.0])
def test_winnow_weights_stay_positive_and_within_their_range(kind, y):
    """One class forever, against a threshold that is never reached, or from weights far
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


def test_winnows_learn_a_row_of_the_bias_and_ignore_an_empty_row():
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
def test_negative_values_are_refused_with_their_code(kind):
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


def test_unselected_features_are_left_out_of_sum_and_norm():
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
    """Littlestone's setting: mistakes grow with the relevant features, not with all."""
    rng = np.random.default_rng(3)
    x = rng.random((3000, 400)) < 0.01
    y = np.where(x[:, :3].any(axis=1), 1.0, -1.0)
    rows = Batch.from_rows(
        [([0, *(np.flatnonzero(row) + 1)], [1.0] * (1 + row.sum())) for row in x]
    )
    learner = make(kind)
    wrong = predict_labels(learner.learn(learner.init(401), rows, y)) != y
    assert wrong[-1000:].sum() <= 5 < wrong[:1000].sum() < 100
