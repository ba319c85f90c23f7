"""The averaged and the voted kernel perceptron score with all their past hypotheses."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from learners.batch import Batch
from learners.registry import make
from tests.learners.kernel_learners import (
    KERNEL,
    SEED,
    after,
    few,
    gram,
    make_kernel_learner,
    stored,
    stream_of,
)
from tests.learners.single_events import one
from tests.learners.stored_sets import score_with
from tests.learners.streams import SMALL
from tests.looped import looped

INVARIANTS = {
    "k-averaged": "test_k_averaged_scores_the_mean_of_all_hypotheses",
    "k-voted": "test_k_voted_scores_the_votes_of_all_hypotheses",
}
"""Kind -> its first test."""


def hypotheses(learner, X, y):
    """Learn event by event; return each hypothesis as (set, count), and the final state."""
    state, found = learner.init(SMALL), []
    for t in range(X.size):
        current, moves = state.support, learner.updates(state)
        n = stored(state)
        event = X.rows(t, t + 1)
        right = y[t] * score_with(current, learner.function(), event)[0] > 0.0
        learner.learn(state, event, y[t : t + 1])
        if learner.updates(state) > moves:
            found.append([stored(state), 1])
            assert stored(state) == n + 1
        elif right and X.weights[t] > 0.0:
            found[-1][1] += 1
    sets = [(state.support._replace(size=np.array([n])), c) for n, c in found]
    return sets, state


@few
@given(kernel=KERNEL, seed=SEED, weighting=st.sampled_from(["count", "norm"]))
@example(kernel={"kernel": "linear"}, seed=173, weighting="count")
@example(kernel={"kernel": "polynomial", "d": 2}, seed=559, weighting="norm")
def test_k_averaged_scores_the_mean_of_all_hypotheses(kernel, seed, weighting):
    learner = make_kernel_learner("k-averaged", kernel, weighting=weighting)
    stream, y = stream_of(learner, seed)
    sets, state = hypotheses(learner, stream.X, y)
    G = gram(learner, state)
    parts = []
    for past, c in sets:
        n = int(past.size[0])
        a = past.a[:n]
        norm = np.sqrt(a @ G[:n, :n] @ a) if weighting == "norm" else 1.0
        parts.append(c * score_with(past, learner.function(), stream.X) / norm)
    wanted = sum(parts) / sum(c for _, c in sets)
    size = sum(np.abs(part) for part in parts).max()
    assert sets, "the stream must have at least one hypothesis"
    # The learner adds per row, this per hypothesis: the same terms in another order.
    assert np.allclose(learner.scores(state, stream.X), wanted, rtol=1e-9, atol=1e-9 * size)


@few
@given(kernel=KERNEL, seed=SEED)
@example(kernel={"kernel": "linear"}, seed=173)
@example(kernel={"kernel": "rbf", "gamma": 0.3}, seed=559)
def test_k_voted_scores_the_votes_of_all_hypotheses(kernel, seed):
    learner = make_kernel_learner("k-voted", kernel)
    stream, y = stream_of(learner, seed)
    sets, state = hypotheses(learner, stream.X, y)
    votes = sum(
        c * np.where(score_with(past, learner.function(), stream.X) >= 0.0, 1, -1)
        for past, c in sets
    )
    assert sets, "the stream must have at least one hypothesis"
    # Exact: votes are whole numbers, and the sign of a hypothesis is that of the same sum.
    assert learner.scores(state, stream.X).tolist() == (votes / sum(c for _, c in sets)).tolist()


AVERAGING = ["k-averaged", "k-averaged:weighting=norm", "k-voted"]


def averaging(spec):
    return make(make(spec).model_dump() | {"gamma": 0.1, "width": SMALL})


@looped("spec", AVERAGING)
def test_past_hypotheses_change_answers_but_no_update(spec):
    plain, mean = averaging("k-perceptron"), averaging(spec)
    stream, y = stream_of(plain, 3)
    current, past = plain.init(SMALL), mean.init(SMALL)
    scores = plain.learn(current, stream.X, y), mean.learn(past, stream.X, y)
    assert current.support.a.tolist() == past.support.a.tolist()
    assert (np.sign(scores[0]) != np.sign(scores[1])).any()


@looped("spec", AVERAGING)
def test_a_hypothesis_that_survives_long_decides_the_score(spec):
    """After 10¹² right events of the current hypothesis, the score is that hypothesis' own."""
    learner = averaging(spec)
    state = after(learner, 3)
    events = one({1: 1.0})
    y = 1.0 if score_with(state.support, learner.function(), events)[0] > 0.0 else -1.0
    learner.learn(state, events, np.array([y]))
    current = score_with(state.support, learner.function(), events)[0]
    counts = (
        [state.votes[stored(state) - 1 : stored(state)]]
        if spec == "k-voted"
        else [state.survived, state.total]
    )
    for count in counts:
        count[0] += 10**12
    wanted = {
        "k-averaged": current,
        "k-averaged:weighting=norm": current / learner.norm(state),
        "k-voted": y,
    }
    assert learner.scores(state, events)[0] == pytest.approx(wanted[spec], rel=1e-9)


def test_a_hypothesis_of_norm_0_counts_nothing():
    learner = make("k-averaged:kernel=linear,gamma=1,width=1,weighting=norm")
    state = learner.init(2)
    X = Batch.from_rows([([0, 1], [1.0, 2.0])] * 3)
    scores = learner.learn(state, X, np.array([1.0, -1.0, -1.0]))
    assert learner.norm(state) == 2.0
    assert scores.tolist() == [0.0, 2.0, 1.0]
    assert learner.scores(state, X.rows(0, 1)).tolist() == [0.0]
