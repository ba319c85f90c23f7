"""Each weight has a variance: the more a weight has been learned, the smaller its variance and the
less it moves.

Only the diagonal of the covariance is kept; otherwise an event would cost O(dim²). An event adds to
`1/σ_j`, the precision of its features. The state holds what was added to the initial precision, 1.
So `σ_j = 1/(1 + gained_j)` is never 0 and only shrinks, and the array starts as untouched memory.
"""

from learners.batch import Array, Slots
from learners.jit import LARGEST_WEIGHT, kernel
from learners.learner import DROPPED, MOVED
from learners.linear.weights import NONE, Weights, catch_up_row


@kernel
def variance(gained: Array, j: Slots, x: Array) -> float:
    """`v = Σ σ_j·x_j²`, the variance of the score."""
    total = 0.0
    for k in range(j.size):
        total += x[k] * x[k] / (1.0 + gained[j[k]])
    return total


@kernel
def add_with_variance(
    w: Weights, gained: Array, j: Slots, x: Array, step: float, gain: float
) -> int:
    """`w_j += step·σ_j·x_j` and `1/σ_j += gain·x_j²`, completely or not at all."""
    v = w.v
    for k in range(j.size):
        before = gained[j[k]]
        if not abs(v[j[k]]) + abs(step * x[k] / (1.0 + before)) <= LARGEST_WEIGHT:
            return DROPPED
        if not before + gain * x[k] * x[k] <= LARGEST_WEIGHT:
            return DROPPED
    if w.mode[0] != NONE:
        catch_up_row(w, j)
    for k in range(j.size):
        v[j[k]] += step * x[k] / (1.0 + gained[j[k]])
        gained[j[k]] += gain * x[k] * x[k]
    return MOVED
