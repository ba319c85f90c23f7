"""Scores against a threshold: the weighted mean of a row's features, less θ. Carvalho & Cohen, KDD 2006, section 2.2.

The paper's test mode: features that no learned event has had are left out, of the sum and of the norm alike.
"""

import numpy as np

from learners.batch import Array, Batch, Flags, Slots
from learners.kernels import ACCEPTED, NEGATIVE, kernel, row
from learners.linear.weights import Weights, is_plain


@kernel
def refuse_negative(X: Batch, codes: Flags) -> Flags:
    """Code NEGATIVE for rows with a negative value that are not refused already."""
    for t in range(codes.size):
        for k in range(X.indptr[t], X.indptr[t + 1]):
            if X.values[k] < 0.0 and codes[t] == ACCEPTED:
                codes[t] = NEGATIVE
    return codes


@kernel
def _threshold(total: float, n: float, theta: float) -> float:
    return total / n - theta if n > 0.0 else -theta


@kernel
def seen_and_all(u: Array, v: Array, seen: Flags, theta: float, j: Slots, x: Array) -> tuple[float, float, float]:
    """Scores of the seen features and of all, and the norm of all."""
    balanced = v.size > 0
    known, other, n_known, n_other = 0.0, 0.0, 0.0, 0.0
    for k in range(j.size):
        weight = u[j[k]] - v[j[k]] if balanced else u[j[k]]
        if seen[j[k]]:
            known += weight * x[k]
            n_known += x[k]
        else:
            other += weight * x[k]
            n_other += x[k]
    n = n_known + n_other
    return _threshold(known, n_known, theta), _threshold(known + other, n, theta), n


@kernel
def answer_of(w: Weights, v: Weights, seen: Flags, theta: float, j: Slots, x: Array) -> float:
    """The score of the features that are seen and not masked, by the mean weights where there are any."""
    total, n = 0.0, 0.0
    mask = w.mask
    for k in range(j.size):
        if seen[j[k]] and (mask.size == 0 or mask[j[k]]):
            n += x[k]
    total = _sum(w, seen, mask, j, x)
    if v.v.size > 0:
        total -= _sum(v, seen, mask, j, x)
    return _threshold(total, n, theta)


@kernel
def _sum(w: Weights, seen: Flags, mask: Flags, j: Slots, x: Array) -> float:
    total = 0.0
    averaged = w.counted[0] > 0
    v, sums, upto, clock = w.v, w.total, w.upto, w.clock[0]
    for k in range(j.size):
        slot = j[k]
        if seen[slot] and (mask.size == 0 or mask[slot]):
            total += (sums[slot] + v[slot] * (clock - upto[slot]) if averaged else v[slot]) * x[k]
    return total / w.counted[0] if averaged else total


@kernel
def threshold_scores(w: Weights, v: Weights, seen: Flags, theta: float, X: Batch) -> Array:
    scores = np.empty(X.weights.size)
    plain = is_plain(w)
    for t in range(scores.size):
        j, x = row(X, t)
        scores[t] = seen_and_all(w.v, v.v, seen, theta, j, x)[0] if plain else answer_of(w, v, seen, theta, j, x)
    return scores
