"""The randomised budget perceptron. McKenna's thesis, section 3.2 (Cavallanti, Cesa-Bianchi &
Gentile, 2007).

The row to drop is drawn from the seed and the number of draws so far, both in the state. So the
same events leave the same rows, however the stream is cut or resumed.
"""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import kernel
from learners.kernel.learner import BudgetLearner
from learners.kernel.similarity import (
    Kernel,
    similarities,
    squared_norm,
    stored_similarities,
    weighted_sum,
)
from learners.kernel.support import Support, Work, add, drop, has_room, has_room_without
from learners.learner import DROPPED, MOVED

RECOMPUTED = 16
"""Draws per row of the budget, after which ‖f‖² is recomputed to remove its rounding error."""


class State(NamedTuple):
    support: Support
    square: Array
    """‖f‖²."""
    updates: Ints
    dropped: Ints
    seed: Ints
    draws: Ints


class RandomBudgetPerceptron(BudgetLearner):
    """Choose it on a budget where only speed matters: it drops a row without looking at it."""

    kind: Literal["rbp"] = "rbp"
    rule = "k-perceptron; with a full budget a row drawn at random goes first"
    seed: int = Field(default=0, ge=0, lt=1 << 63)
    """Seed of the draws."""

    def fresh(self, support: Support) -> State:
        zero = np.zeros(1, np.int64)
        return State(support, np.zeros(1), zero, zero.copy(), np.array([self.seed]), zero.copy())

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return _learn(state, K, X, y, work)


@kernel
def _learn(state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    support, square = state.support, state.square
    spare = Work(np.empty(support.a.size), work.spread)
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        f = weighted_sum(support, work.k)
        scores[t] = f
        if X.weights[t] == 0.0 or y[t] * f > 0.0 or me.k <= 0.0:
            continue
        if not has_room_without(support, X, t, 0, support.size[0]):
            moved[t] = DROPPED
            continue
        while not has_room(support, X, t):
            _drop_row(state, K, draw(state.seed, state.draws, support.size[0]), work.k, spare)
        f = weighted_sum(support, work.k)
        square[0] = max(0.0, square[0] + 2.0 * y[t] * f + me.k)
        add(support, X, t, y[t], me.square, me.tree)
        moved[t] = MOVED
    return scores, moved


@kernel
def _drop_row(state: State, K: Kernel, r: int, k: Array, spare: Work) -> None:
    """Drop row r, also from the similarities k of the new row."""
    support, square = state.support, state.square
    own = stored_similarities(support, K, r, spare)
    a, f = support.a[r], weighted_sum(support, spare.k)
    square[0] = max(0.0, square[0] - 2.0 * a * f + a * a * own)
    drop(support, r)
    for i in range(r, support.size[0]):
        k[i] = k[i + 1]
    if state.draws[0] % (RECOMPUTED * support.a.size) == 0:
        square[0] = squared_norm(support, K, spare)


@kernel
def draw(seed: Ints, draws: Ints, n: int) -> int:
    """Draw one of 0 … n−1 with equal chance.

    The generator is SplitMix64 (Steele, Lea & Flood, 2014).
    """
    draws[0] += 1
    z = np.uint64(seed[0]) + np.uint64(draws[0]) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return int((z ^ (z >> np.uint64(31))) % np.uint64(n))
