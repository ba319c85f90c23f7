"""The forgetron. McKenna's thesis, section 3.2.1 (Dekel, Shalev-Shwartz & Singer, 2008).

A stored row has a = σ·y, so σ = |a|. Rows are dropped before the new row is stored, so the set
never exceeds B. Dropping them afterwards would have the same result. No guard is needed: σ ≤ 1 and
|K| ≤ 1e100, and sums over such a set stay finite.

The self-tuned and the greedy forgetron keep f(x_i) of every stored row. The greedy one chooses the
row to drop by it, and Σ a_i f(x_i) is ‖f‖². For the row to drop, f(x_r) is computed from the set,
so rounding in the stored values never reaches φ or Q. The stored values are also recomputed in
turn: a row with a huge K(x, x) would leave its rounding error behind after it is dropped.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from learners.batch import Array, Batch, Flags, Ints
from learners.jit import kernel
from learners.kernel.learner import BudgetLearner
from learners.kernel.similarity import Kernel, similarities, stored_similarities, weighted_sum
from learners.kernel.support import Support, Work, add, drop, has_room, has_room_without
from learners.learner import DROPPED, MOVED
from learners.state import State as AnyState

SHARE = 15.0 / 32.0
"""Damage that drops may do per mistake."""

RENEWAL = 16
"""Mistakes after which f(x_i) of the next row is recomputed. A round over all rows takes 16·B
mistakes. It costs a thirtieth of the time."""


class State(NamedTuple):
    support: Support
    square: Array
    """‖f‖². Its error shrinks with it, so it is never recomputed."""
    updates: Ints
    dropped: Ints


class TunedState(NamedTuple):
    support: Support
    square: Array
    """‖f‖²."""
    updates: Ints
    dropped: Ints
    values: Array
    """f(x_i) of the stored rows."""
    damage: Array
    """Q, the damage that drops have done so far."""
    mistakes: Ints
    """M, the mistakes."""
    turn: Ints
    """The row whose value is recomputed next."""

    def in_use(self) -> dict[str, tuple[int, ...]]:
        return {"values": (int(self.support.size.max()),)}


class Forgetron(BudgetLearner):
    """Choose it for limited memory where old rows should fade steadily; forgetron-tuned forgets no
    more than it must.

    With every positive definite kernel ‖f‖ ≤ U before a drop, U = ¼√((B+1)/ln(B+1)). If also K(x,x)
    ≤ 1 and B ≥ 83, it makes at most 2‖g‖² + 4·Σ(hinge losses of g) mistakes, for every g with ‖g‖ ≤
    U. So take a normalised kernel.
    """

    kind: Literal["forgetron"] = "forgetron"
    rule = (
        "on y·f(x) ≤ 0: add x with σ = 1; all σ *= min((B+1)^(−1/(2(B+1))), U/‖f‖); "
        "beyond B drop the oldest"
    )

    def fresh(self, support: Support) -> State:
        return State(support, np.zeros(1), np.zeros(1, np.int64), np.zeros(1, np.int64))

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        return _learn(state.support, state.square, K, X, y, work)


class _SelfTuned(BudgetLearner):
    """State and checks that the self-tuned and the greedy forgetron share."""

    def fresh(self, support: Support) -> TunedState:
        none = np.zeros(1, np.int64)
        values = np.zeros(support.a.size)
        return TunedState(
            support, np.zeros(1), none, none.copy(), values, np.zeros(1), none.copy(), none.copy()
        )

    def is_valid(self, state: AnyState) -> bool:
        turn_exists = bool(state.turn[0] <= state.support.size[0])
        # the damage is less than half of the mistakes, up to rounding
        return (
            super().is_valid(state) and turn_exists and bool(state.damage[0] <= state.mistakes[0])
        )


class TunedForgetron(_SelfTuned):
    """Choose it for limited memory: it shrinks only where dropping the oldest row would do too much
    damage.

    With any kernel, drops do at most 15/32 of damage per mistake. They do no other harm if K(x,x) ≤
    1: then, with B ≥ 83, it has the mistake bound of `forgetron`. So take a normalised kernel.
    """

    kind: Literal["forgetron-tuned"] = "forgetron-tuned"
    rule = (
        "on y·f(x) ≤ 0: add x with σ = 1; beyond B: "
        "all σ *= the largest φ ≤ 1 with Q ≤ 15/32·M, drop the oldest"
    )
    family = "forgetron_tuned"

    def run(
        self, state: TunedState, K: Kernel, X: Batch, y: Array, work: Work
    ) -> tuple[Array, Flags]:
        return _learn_tuned(state, False, K, X, y, work)


class GreedyForgetron(_SelfTuned):
    """Choose it where rows that became superfluous should go first; it tends to keep noisy ones."""

    kind: Literal["forgetron-greedy"] = "forgetron-greedy"
    rule = (
        "as forgetron-tuned, but the row with the least damage is dropped, "
        "if that is ≤ 15/32: then φ = 1"
    )
    family = "forgetron_tuned"

    def run(
        self, state: TunedState, K: Kernel, X: Batch, y: Array, work: Work
    ) -> tuple[Array, Flags]:
        return _learn_tuned(state, True, K, X, y, work)


@kernel
def _learn(
    support: Support, square: Array, K: Kernel, X: Batch, y: Array, work: Work
) -> tuple[Array, Flags]:
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    spare = Work(np.empty(support.a.size), work.spread)
    B = support.a.size
    U = 0.25 * math.sqrt((B + 1.0) / math.log(B + 1.0))
    steady = (B + 1.0) ** (-0.5 / (B + 1.0))
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        scores[t] = f = weighted_sum(support, work.k)
        if X.weights[t] == 0.0 or y[t] * f > 0.0 or me.k <= 0.0:
            continue
        if not has_room_without(support, X, t, 0, support.size[0]):
            moved[t] = DROPPED
            continue
        grown = max(0.0, square[0] + 2.0 * y[t] * f + me.k)  # ‖f′‖², f′ = f + y·K(x, ·)
        norm = math.sqrt(grown)
        phi = U / norm if steady * norm > U else steady
        square[0] = phi * phi * grown
        for i in range(support.size[0]):
            support.a[i] *= phi
        while not has_room(support, X, t):
            _drop_oldest(support, square, K, phi * y[t], work, spare)
        add(support, X, t, phi * y[t], me.square, me.tree)
        moved[t] = MOVED
    return scores, moved


@kernel
def _drop_oldest(
    support: Support, square: Array, K: Kernel, a: float, work: Work, spare: Work
) -> None:
    """Drop the oldest row, before a new row with coefficient a and similarities `work` is added."""
    own = stored_similarities(support, K, 0, spare)
    old, f = support.a[0], weighted_sum(support, spare.k) + a * work.k[0]
    square[0] = max(0.0, square[0] - 2.0 * old * f + old * old * own)
    drop(support, 0)
    for i in range(support.size[0]):
        work.k[i] = work.k[i + 1]


@kernel
def _learn_tuned(
    state: TunedState, greedy: bool, K: Kernel, X: Batch, y: Array, work: Work
) -> tuple[Array, Flags]:
    support, values = state.support, state.values
    scores, moved = np.empty(y.size), np.zeros(y.size, np.uint8)
    spare = Work(np.empty(support.a.size), work.spread)
    for t in range(y.size):
        me = similarities(support, K, X, t, work)
        scores[t] = f = weighted_sum(support, work.k)
        if X.weights[t] == 0.0 or y[t] * f > 0.0 or me.k <= 0.0:
            continue
        if not has_room_without(support, X, t, 0, support.size[0]):
            moved[t] = DROPPED
            continue
        state.mistakes[0] += 1
        a, value = y[t], f + y[t] * me.k  # of the new row, in f′ = f + y·K(x, ·)
        for i in range(support.size[0]):
            values[i] += a * work.k[i]
        while not has_room(support, X, t):
            r = _least_damaging(support, values, X, t) if greedy else 0
            phi, gone = _shrink(state, K, r, a, _count_drops(support, X, t, r), work, spare)
            a, value = phi * a, phi * value - gone * work.k[r]
            _drop_row(state, r, work)
        values[support.size[0]] = value
        add(support, X, t, a, me.square, me.tree)
        _recompute_next(state, K, spare)
        state.square[0] = max(0.0, weighted_sum(support, values))
        moved[t] = MOVED
    return scores, moved


@kernel
def _least_damaging(support: Support, values: Array, X: Batch, t: int) -> int:
    """The row with the least damage among those whose removal makes room, if that is ≤ 15/32.

    Otherwise the oldest row.
    """
    least, r = SHARE, -1
    for i in range(support.size[0]):
        damage = psi(abs(support.a[i]), support.a[i] * values[i])
        if (damage < least or (r < 0 and damage == least)) and has_room_without(
            support, X, t, i, i + 1
        ):
            least, r = damage, i
    return max(0, r)


@kernel
def _count_drops(support: Support, X: Batch, t: int, r: int) -> int:
    """Count rows to drop, r first, until t fits: one, unless t is wider or has a larger tree."""
    if has_room_without(support, X, t, r, r + 1):
        return 1
    count = 2
    while not has_room_without(support, X, t, 0, count):
        count += 1
    return count


@kernel
def _shrink(
    state: TunedState, K: Kernel, r: int, a: float, drops: int, work: Work, spare: Work
) -> tuple[float, float]:
    """Shrink all rows but the new one, whose coefficient is a, and take row r out of the values.

    Return φ and the coefficient of r.
    """
    support, values, most = state.support, state.values, SHARE * state.mistakes[0]
    stored_similarities(support, K, r, spare)
    f = weighted_sum(support, spare.k) + a * work.k[r]  # f′(x_r)
    sigma, product = abs(support.a[r]), support.a[r] * f
    phi = largest_factor(sigma, product, (most - state.damage[0]) / drops)
    # the sum exceeds `most` only by rounding
    state.damage[0] = min(most, state.damage[0] + psi(phi * sigma, phi * phi * product))
    gone = phi * support.a[r]
    for i in range(support.size[0]):
        support.a[i] *= phi
        values[i] = phi * values[i] - gone * spare.k[i]
    return phi, gone


@kernel
def largest_factor(sigma: float, product: float, allowed: float) -> float:
    """The largest φ ≤ 1 with Ψ(φσ, φμ) = (σ²−2σμ)φ² + 2σφ ≤ `allowed`, which is > 0."""
    a, b = sigma * sigma - 2.0 * product, 2.0 * sigma
    if a + b <= allowed:
        return 1.0
    return min(1.0, 2.0 * allowed / (b + math.sqrt(max(0.0, b * b + 4.0 * a * allowed))))


@kernel
def psi(sigma: float, product: float) -> float:
    """Ψ(σ, μ) = σ² + 2σ − 2σμ, from σ and the product σμ: the damage of dropping such a row."""
    return sigma * sigma + 2.0 * sigma - 2.0 * product


@kernel
def _drop_row(state: TunedState, r: int, work: Work) -> None:
    drop(state.support, r)
    for i in range(r, state.support.size[0]):
        state.values[i], work.k[i] = state.values[i + 1], work.k[i + 1]
    state.values[state.support.size[0]] = 0.0
    if r < state.turn[0]:
        state.turn[0] -= 1


@kernel
def _recompute_next(state: TunedState, K: Kernel, spare: Work) -> None:
    """Recompute the value of the next row at every RENEWAL-th mistake.

    Recomputing all values at once would delay events.
    """
    if state.mistakes[0] % RENEWAL == 0:
        i = state.turn[0]
        stored_similarities(state.support, K, i, spare)
        state.values[i] = weighted_sum(state.support, spare.k)
        state.turn[0] = (i + 1) % state.support.size[0]
