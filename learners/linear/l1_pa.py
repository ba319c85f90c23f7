"""Passive-Aggressive learning within an L1 ball. Regularised PA, section 3, eq. 3.10, with no QP
package.

By the Karush-Kuhn-Tucker conditions the new weights are soft(w + τ·y·x, λ): a step, then every
weight moves towards 0 by λ. For a given τ, λ is that of the projection onto the ball. Then the
margin never falls as τ grows, and it is linear between two changes of sign or support. So τ is
found by Newton steps from one linear piece to the next, within a bracket that every third step
halves. The last piece is solved exactly. An update that would leave the ball costs O(dim).
"""

from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from learners.batch import Array, Batch, Flags, Ints, Slots
from learners.jit import LARGEST_WEIGHT, kernel, row, sq_norm
from learners.learner import MOVED, REWROTE
from learners.linear.learner import LinearLearner
from learners.linear.passive_aggressive import UpdateOn
from learners.linear.weights import (
    NONE,
    RENEWAL,
    Shape,
    Weights,
    catch_up,
    count_hypothesis,
    dot,
    fresh_weights,
    is_plain,
    outputs,
    put,
    reported_score,
)

DOUBLINGS = 60
"""Doublings of τ. After more of them, w would be lost in the rounding of w + τ·y·x."""

STEPS = 200
"""Newton steps. Every third one halves the bracket: 66 times, more than a float64 has digits."""

NO_ROOT = -1.0


class State(NamedTuple):
    w: Weights
    """The scale stays 1."""
    updates: Ints
    dropped: Ints
    """Stays 0: every weight is within β."""
    l1: Array
    """‖w‖₁."""


class L1PassiveAggressive(LinearLearner):
    """Choose it when few of many features matter: the ball sets weights to exactly 0."""

    kind: Literal["pa-l1"] = "pa-l1"
    rule = "nearest w with y·w·x ≥ 1 and ‖w‖₁ ≤ β"
    beta: float = Field(default=10.0, gt=0.0, le=LARGEST_WEIGHT)
    """Radius: the sum of absolute weights never exceeds it."""
    update_on: UpdateOn = "mistake"
    """`margin`: whenever the margin is not reached; `mistake`: only when the sign is wrong, as
    the bound requires."""

    def fresh(self, dim: int, shape: Shape) -> State:
        zero = np.zeros(1, np.int64)
        return State(fresh_weights(dim, shape), zero, zero.copy(), np.zeros(1))

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        return _learn(
            state.w, state.l1, int(state.updates[0]), self.beta, self.update_on == "mistake", X, y
        )


@kernel
def _learn(
    w: Weights, l1: Array, updates: int, beta: float, mistakes_only: bool, X: Batch, y: Array
) -> tuple[Array, Flags]:
    scores, moved = outputs(y.size)
    averaged, plain = w.mode[0] != NONE, is_plain(w)
    for t in range(y.size):
        j, x = row(X, t)
        s = dot(w.v, j, x)
        scores[t] = s if plain else reported_score(w, j, x, s)
        if X.weights[t] == 0.0:
            continue
        norm = sq_norm(x)
        if norm > 0.0 and (y[t] * s <= 0.0 or (y[t] * s < 1.0 and not mistakes_only)):
            tau = (1.0 - y[t] * s) / norm
            reached = l1[0] + _growth(w.v, j, x, tau * y[t])
            if reached <= beta:
                put(w, j, x, tau * y[t])  # the plain PA step
                l1[0] = max(0.0, reached)
                moved[t] = MOVED
            else:
                _step_within(w, j, x, y[t], tau, beta)
                moved[t] = MOVED | REWROTE
            updates += 1
            if not reached <= beta or updates % RENEWAL == 0:
                l1[0] = _sum_of_sizes(w.v)
        if averaged:
            count_hypothesis(w, moved[t])
    return scores, moved


@kernel
def _growth(v: Array, j: Slots, x: Array, step: float) -> float:
    """What `w += step·x` adds to ‖w‖₁."""
    total = 0.0
    for k in range(j.size):
        total += abs(v[j[k]] + step * x[k]) - abs(v[j[k]])
    return total


@kernel
def _sum_of_sizes(v: Array) -> float:
    total = 0.0
    for k in range(v.size):
        total += abs(v[k])
    return total


@kernel
def _step_within(w: Weights, j: Slots, x: Array, label: float, tau: float, beta: float) -> None:
    """Move to the nearest weights on the ball's surface that reach the margin. `tau` is the τ of
    the plain PA step.
    """
    top = 0
    for k in range(x.size):
        if abs(x[k]) > abs(x[top]):
            top = k
    slots, a, z = _gather(w.v, j, x, label)
    tau = _root(a, z, tau, beta) if beta * abs(x[top]) > 1.0 else NO_ROOT
    if tau == NO_ROOT:  # no point of the ball has a larger margin than its corner
        _put_corner(w, j[top], beta if label * x[top] > 0.0 else -beta)
        return
    lam = _projection(a, z, tau, beta)
    for k in range(a.size):
        u = a[k] + tau * z[k]
        a[k] = max(0.0, u - lam) if u > 0.0 else min(0.0, u + lam)  # soft(u, λ)
    total = _sum_of_sizes(a)
    shrink = beta / total if total > beta else 1.0  # u − λ may have lost digits
    for k in range(a.size):
        catch_up(w, slots[k])
        w.v[slots[k]] = shrink * a[k]


@kernel
def _put_corner(w: Weights, slot: int, weight: float) -> None:
    """Set this weight, and all others to 0."""
    for k in range(w.v.size):
        if w.v[k] != 0.0 or k == slot:
            catch_up(w, k)
            w.v[k] = weight if k == slot else 0.0


@kernel
def _gather(v: Array, j: Slots, x: Array, label: float) -> tuple[Ints, Array, Array]:
    """Return the slots where w or x is not 0, with a = w and z = y·x there.

    The weights of all other slots stay 0 for any τ and λ.
    """
    whole = np.zeros(v.size)
    for k in range(j.size):
        whole[j[k]] = label * x[k]
    size = 0
    for slot in range(v.size):
        size += v[slot] != 0.0 or whole[slot] != 0.0
    slots, a, z = np.empty(size, np.int64), np.empty(size), np.empty(size)
    k = 0
    for slot in range(v.size):
        if v[slot] != 0.0 or whole[slot] != 0.0:
            slots[k], a[k], z[k] = slot, v[slot], whole[slot]
            k += 1
    return slots, a, z


@kernel
def _projection(a: Array, z: Array, tau: float, beta: float) -> float:
    """Return λ of the projection of u = a + τ·z onto the ball (Michelot): recompute λ from the
    sizes above the previous λ until all of them stay above it.

    The count of sizes falls in every round, so the rounds end. Nothing is sorted.
    """
    lam, last = 0.0, a.size + 1
    while True:
        total, count = 0.0, 0
        for k in range(a.size):
            size = abs(a[k] + tau * z[k])
            if size > lam:
                total += size
                count += 1
        if count == 0 or count >= last or total <= beta:
            return lam
        lam, last = (total - beta) / count, count


@kernel
def _piece(a: Array, z: Array, tau: float, lam: float, beta: float) -> tuple[float, float]:
    """Return the margin m = z·soft(a + τ·z, λ), and the τ at which its linear piece has margin 1
    and norm β.

    With the support A and signs g of the piece: Σ_A z(a + τz − λg) = 1 and Σ_A g(a + τz − λg) = β.
    Equal pieces have equal sums, bit for bit. So a τ that equals its root is on its own piece.
    """
    margin, count, za, ga, gz = 0.0, 0, 0.0, 0.0, 0.0
    for k in range(a.size):
        u = a[k] + tau * z[k]
        if abs(u) > lam:
            g = 1.0 if u > 0.0 else -1.0
            margin += z[k] * (u - lam * g)
            count += 1
            za += z[k] * a[k]
            ga += g * a[k]
            gz += g * z[k]
    if count == 0 or lam == 0.0:  # within the ball
        return margin, NO_ROOT
    mean, size, spread = gz / count, 0.0, 0.0
    for k in range(a.size):
        u = a[k] + tau * z[k]
        if abs(u) > lam:
            off = (z[k] if u > 0.0 else -z[k]) - mean
            size += z[k] * z[k]
            spread += off * off
    if spread <= 1e-24 * size:  # all |z| are equal: the margin is constant on this piece
        return margin, NO_ROOT
    return margin, (1.0 - za - mean * (beta - ga)) / spread


@kernel
def _root(a: Array, z: Array, tau: float, beta: float) -> float:
    """Find the τ at which the margin is 1 on the ball's surface, starting from the plain PA step.

    Return NO_ROOT if rounding hides it.
    """
    lower, upper = 0.0, tau
    margin, root = _piece(a, z, upper, _projection(a, z, upper, beta), beta)
    for _ in range(DOUBLINGS):
        if margin >= 1.0:
            break
        lower, upper = upper, 2.0 * upper
        margin, root = _piece(a, z, upper, _projection(a, z, upper, beta), beta)
    if not margin >= 1.0:
        return NO_ROOT
    tau = upper
    for step in range(STEPS):
        if root == tau:
            return tau
        tau = root if lower < root < upper and step % 3 < 2 else 0.5 * (lower + upper)
        if not lower < tau < upper:
            break
        margin, root = _piece(a, z, tau, _projection(a, z, tau, beta), beta)
        if margin >= 1.0:
            upper = tau
        else:
            lower = tau
    return upper
