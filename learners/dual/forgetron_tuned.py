"""The self-tuned and the greedy forgetron. McKenna's thesis, section 3.2.1 (Dekel, Shalev-Shwartz & Singer, 2008).

Both keep f(x_i) of every stored row: the greedy one chooses by them, and Σ a_i f(x_i) is ‖f‖². Of the row that goes
f(x_r) is computed from the set, so rounding in the kept ones never touches φ or Q. Each is also computed afresh now and
then: a row of huge K(x, x) that has come and gone would leave its rounding in them.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags, Ints
from learners.dual.learner import BudgetLearner
from learners.dual.similarity import Kernel, similarities, weighted
from learners.dual.stored import stored_similarities
from learners.dual.support import Support, add, drop, room, room_without
from learners.dual.work import Work
from learners.kernels import kernel
from learners.learner import DROPPED, MOVED
from learners.state import State as AnyState

SHARE = 15.0 / 32.0
"""Damage that drops may do, per mistake."""

RENEWAL = 16
"""Mistakes after which the next row's f(x_i) is computed afresh: all of them in 16·B, for a thirtieth of the time."""


class State(NamedTuple):
    support: Support
    square: Array
    """‖f‖²."""
    updates: Ints
    dropped: Ints
    values: Array
    """f(x_i) of the stored rows."""
    damage: Array
    """Q, done by drops so far."""
    mistakes: Ints
    """M."""
    turn: Ints
    """The row whose value is computed afresh next."""

    def in_use(self) -> dict[str, tuple[int, ...]]:
        return {"values": (int(self.support.size.max()),)}


class _Sparing(BudgetLearner):
    """What the two share."""

    def fresh(self, support: Support) -> State:
        none = np.zeros(1, np.int64)
        values = np.zeros(support.a.size)
        return State(support, np.zeros(1), none, none.copy(), values, np.zeros(1), none.copy(), none.copy())

    def possible(self, state: AnyState) -> bool:
        done = super().possible(state) and bool(state.turn[0] <= state.support.size[0])
        return done and bool(state.damage[0] <= state.mistakes[0])  # less than half of it, up to rounding


class TunedForgetron(_Sparing):
    """Choose it for memory with a cap: it shrinks only where dropping the oldest row would do too much damage.

    Drops do at most 15/32 of damage per mistake, with any kernel. That this is all the harm they do needs K(x,x) ≤ 1:
    then, with B ≥ 83, it keeps the mistake bound of `forgetron`. Take a normalised kernel.
    """

    kind: Literal["forgetron-tuned"] = "forgetron-tuned"
    rule = "on y·f(x) ≤ 0: add x with σ = 1; beyond B: all σ *= the largest φ ≤ 1 with Q ≤ 15/32·M, drop the oldest"

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return _learn(state, False, K, X, y, work)


class GreedyForgetron(_Sparing):
    """Choose it where rows that have become superfluous should go first; it tends to keep noisy ones."""

    kind: Literal["forgetron-greedy"] = "forgetron-greedy"
    rule = "as forgetron-tuned, but of all rows that of least damage is dropped, where this is ≤ 15/32: then φ = 1"

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return _learn(state, True, K, X, y, work)


@kernel
def _learn(state: State, greedy: bool, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
    support, values = state.support, state.values
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    theirs = Work(np.empty(support.a.size), work.spread)
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        scores[t] = f = weighted(support, work.k)
        if X.weights[t] == 0.0 or y[t] * f > 0.0 or me.k <= 0.0:
            continue
        if not room_without(support, X, t, 0, support.size[0]):
            moved[t] = DROPPED
            continue
        state.mistakes[0] += 1
        a, value = y[t], f + y[t] * me.k  # the newcomer's, in f′ = f + y·K(x, ·)
        for i in range(support.size[0]):
            values[i] += a * work.k[i]
        while not room(support, X, t):
            r = _least(support, values, X, t) if greedy else 0
            phi, gone = _shrink(state, K, r, a, _needed(support, X, t, r), work, theirs)
            a, value = phi * a, phi * value - gone * work.k[r]
            _forget(state, r, work)
        values[support.size[0]] = value
        add(support, X, t, a, me.square, me.tree)
        _renew(state, K, theirs)
        state.square[0] = max(0.0, weighted(support, values))
        moved[t] = MOVED
    return scores, moved


@kernel
def psi(sigma: float, product: float) -> float:
    """Ψ(σ, μ) = σ² + 2σ − 2σμ, of σ and the product σμ: the damage of dropping such a row."""
    return sigma * sigma + 2.0 * sigma - 2.0 * product


@kernel
def _least(support: Support, values: Array, X: Batch, t: int) -> int:
    """The row of least damage among those whose going makes room, if that is ≤ 15/32; else the oldest."""
    least, r = SHARE, -1
    for i in range(support.size[0]):
        harm = psi(abs(support.a[i]), support.a[i] * values[i])
        if (harm < least or (r < 0 and harm == least)) and room_without(support, X, t, i, i + 1):
            least, r = harm, i
    return max(0, r)


@kernel
def _needed(support: Support, X: Batch, t: int, r: int) -> int:
    """Rows to drop, r first, until row t has room: one, unless it is wider or has a larger tree than those."""
    if room_without(support, X, t, r, r + 1):
        return 1
    count = 2
    while not room_without(support, X, t, 0, count):
        count += 1
    return count


@kernel
def gentlest(sigma: float, product: float, allowed: float) -> float:
    """The largest φ ≤ 1 with Ψ(φσ, φμ) = (σ²−2σμ)φ² + 2σφ ≤ what is allowed, which is above 0."""
    a, b = sigma * sigma - 2.0 * product, 2.0 * sigma
    if a + b <= allowed:
        return 1.0
    return min(1.0, 2.0 * allowed / (b + math.sqrt(max(0.0, b * b + 4.0 * a * allowed))))


@kernel
def _shrink(state: State, K: Kernel, r: int, a: float, drops: int, work: Work, theirs: Work) -> tuple[float, float]:
    """Shrink all but the newcomer, of coefficient a, and take row r out of the values; φ, and r's coefficient."""
    support, values, most = state.support, state.values, SHARE * state.mistakes[0]
    stored_similarities(support, K, r, theirs)
    f = weighted(support, theirs.k) + a * work.k[r]  # f′(x_r)
    sigma, product = abs(support.a[r]), support.a[r] * f
    phi = gentlest(sigma, product, (most - state.damage[0]) / drops)
    state.damage[0] = min(most, state.damage[0] + psi(phi * sigma, phi * phi * product))  # over only by rounding
    gone = phi * support.a[r]
    for i in range(support.size[0]):
        support.a[i] *= phi
        values[i] = phi * values[i] - gone * theirs.k[i]
    return phi, gone


@kernel
def _forget(state: State, r: int, work: Work) -> None:
    drop(state.support, r)
    for i in range(r, state.support.size[0]):
        state.values[i], work.k[i] = state.values[i + 1], work.k[i + 1]
    state.values[state.support.size[0]] = 0.0
    if r < state.turn[0]:
        state.turn[0] -= 1


@kernel
def _renew(state: State, K: Kernel, theirs: Work) -> None:
    """Every now and then the next row's value, in turn: never all at once, which would hold events up."""
    if state.mistakes[0] % RENEWAL == 0:
        i = state.turn[0]
        stored_similarities(state.support, K, i, theirs)
        state.values[i] = weighted(state.support, theirs.k)
        state.turn[0] = (i + 1) % state.support.size[0]
