"""The voted kernel perceptron. McKenna's thesis, section 3.1.2 and algorithm 4 (Freund & Schapire,
1999).

The thesis defines the score as the sum of the votes. Here it is divided by their number, so that it
stays between −1 and 1. The labels are the same. But calibration gets a fixed range, and in
one-vs-rest no class wins only because its past is longer.
"""

from typing import Literal, NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import LARGEST_WEIGHT, kernel
from learners.kernel.explain import support_terms
from learners.kernel.learner import WeighingLearner
from learners.kernel.similarity import Kernel, similarities, weighted_sum
from learners.kernel.support import Support, Work, add, has_room
from learners.learner import DROPPED, MOVED, SupportTerms


class State(NamedTuple):
    support: Support
    square: Array
    """‖v‖² of the current hypothesis."""
    updates: Ints
    dropped: Ints
    votes: Ints
    """c of the hypothesis that each stored row created."""

    def in_use(self) -> dict[str, tuple[int, ...]]:
        return {"votes": (int(self.support.size.max()),)}


class KernelVoted(WeighingLearner):
    """Choose it to count votes and not their strength, so that a few large rows cannot decide."""

    kind: Literal["k-voted"] = "k-voted"
    rule = (
        "k-perceptron's hypotheses v_i; score Σ c_i·(±1)/Σ c_i, "
        "+1 where v_i(x) ≥ 0, c_i as k-averaged"
    )

    def fresh(self, support: Support) -> State:
        zero = np.zeros(1, np.int64)
        return State(support, np.zeros(1), zero, zero.copy(), np.zeros(self.rows(), np.int64))

    def run_scores(self, state: State, K: Kernel, X: Batch, work: Work) -> Array:
        return _scores(state.support, state.votes, K, X, work)

    def scoring_coefficients(self, state: State) -> tuple[Array, float]:
        """Coefficients as if it averaged: a row counts once per hypothesis that contains it."""
        a, constant = super().scoring_coefficients(state)
        counted = np.cumsum(state.votes[: a.size][::-1])[::-1]
        return a * counted / max(1, state.votes.sum()), constant

    def support_terms(self, state: State, X: Batch | None, column: int, most: int) -> SupportTerms:
        del column
        a, constant = self.scoring_coefficients(state)
        return support_terms(state.support, self.function(), X, a, constant, most, exact=False)

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return _learn(state, K, X, y, work)


@kernel
def _scores(support: Support, votes: Ints, K: Kernel, X: Batch, work: Work) -> Array:
    scores = np.empty(X.weights.size)
    for t in range(scores.size):
        similarities(support, K, X, t, work)
        scores[t] = _vote(support, votes, work.k)
    return scores


@kernel
def _learn(state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    support, square, votes = state.support, state.square, state.votes
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        scores[t] = _vote(support, votes, work.k)
        f = weighted_sum(support, work.k)  # alg. 4: the current hypothesis decides on the update
        # importance weighs the new row; every event counts 1 for its hypothesis
        a = X.weights[t] * y[t]
        if a == 0.0:
            continue
        n = support.size[0]
        if y[t] * f > 0.0:
            votes[n - 1] += 1
        elif me.k > 0.0:
            moved[t] = DROPPED
            grown = square[0] + 2.0 * a * f + a * a * me.k
            if abs(a) <= LARGEST_WEIGHT and grown < np.inf and has_room(support, X, t):
                add(support, X, t, a, me.square, me.tree)
                square[0] = max(0.0, grown)
                votes[n] = 1
                moved[t] = MOVED
    return scores, moved


@kernel
def _vote(support: Support, votes: Ints, k: Array) -> float:
    """Σ c_i·(±1)/Σ c_i; v_{i+1}(x) = v_i(x) + a_i·K(x_i, x)."""
    v, balance, cast = 0.0, 0, 0
    for i in range(support.size[0]):
        v += support.a[i] * k[i]
        balance += votes[i] if v >= 0.0 else -votes[i]
        cast += votes[i]
    return balance / cast if cast > 0 else 0.0
