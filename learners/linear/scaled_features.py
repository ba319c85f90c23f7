"""The kernels of learned feature scaling: the scaled features of a row, their score, and a step of all parameters.

The four variants are one formula: a parameter that a variant fixes at 1 is beyond the end of its array. Within a row,
`r_w`, `r_alpha` and `r_beta` are the parameters of its slots, in its order.
"""

from typing import NamedTuple

import numpy as np

from learners.batch import BIAS, Array, Batch, Flags, Ints, Slots
from learners.kernels import kernel, row
from learners.learner import DROPPED, MOVED
from learners.linear.weights import (
    NONE,
    Weights,
    count_hypothesis,
    fits,
    logistic,
    outputs,
    scale_all,
    settle_row,
    shrink_all_but_bias,
)


class Rates(NamedTuple):
    eta0: float
    lam: float
    mu: float
    nu: float
    horizon: float


@kernel
def scaled_scores(w: Weights, alpha: Weights, beta: Weights, sigmoid: bool, skips: bool, X: Batch) -> Array:
    scores = np.empty(X.weights.size)
    r_w, r_alpha, r_beta, z, slope = _room(X)
    for t in range(scores.size):
        j, x = row(X, t)
        _answering(w, j, r_w)
        _answering(alpha, j, r_alpha)
        _answering(beta, j, r_beta)
        scores[t] = _score(r_w, r_alpha, r_beta, sigmoid, skips, j, x, z, slope)
    return scores


@kernel
def learn_scaled(
    w: Weights,
    alpha: Weights,
    beta: Weights,
    events: Ints,
    rates: Rates,
    sigmoid: bool,
    skips: bool,
    X: Batch,
    y: Array,
) -> tuple[Array, Flags]:
    scores, moved = outputs(y.size)
    r_w, r_alpha, r_beta, z, slope = _room(X)
    v_w, v_alpha, v_beta = w.v, alpha.v, beta.v
    scale_w, scale_alpha, scale_beta = w.scale, alpha.scale, beta.scale
    averaged = w.mode[0] != NONE
    sign = -1.0 if sigmoid else 1.0
    for t in range(y.size):
        j, x = row(X, t)
        if averaged:
            _answering(w, j, r_w)
            _answering(alpha, j, r_alpha)
            _answering(beta, j, r_beta)
            scores[t] = _score(r_w, r_alpha, r_beta, sigmoid, skips, j, x, z, slope)
        _current(v_w, scale_w[0], j, r_w)
        _current(v_alpha, scale_alpha[0], j, r_alpha)
        _current(v_beta, scale_beta[0], j, r_beta)
        s = _score(r_w, r_alpha, r_beta, sigmoid, skips, j, x, z, slope)
        if not averaged:
            scores[t] = s
        c = X.weights[t]
        if c == 0.0:
            continue
        eta = c * rates.eta0 / (1.0 + events[0] / rates.horizon)  # eq. 12
        step = eta * ((1.0 if y[t] > 0.0 else 0.0) - logistic(s))
        for k in range(j.size):
            r_alpha[k] = r_w[k] * slope[k] * x[k]  # from here on how α and β move: eq. 10, 22, 26
            r_beta[k] = sign * r_w[k] * slope[k]  # eq. 11, 17, 23, 27
        j_w, j_alpha = _kept(v_w, j), _kept(v_alpha, j)
        if (
            fits(v_w, scale_w[0], j_w, z, step)
            and fits(v_alpha, scale_alpha[0], j_alpha, r_alpha, step)
            and fits(v_beta, scale_beta[0], j, r_beta, step)
        ):
            moved[t] = MOVED
            if rates.lam > 0.0:
                moved[t] |= shrink_all_but_bias(w, max(0.0, 1.0 - 2.0 * rates.lam * eta / rates.horizon))
            if rates.mu > 0.0:
                moved[t] |= scale_all(alpha, max(0.0, 1.0 - 2.0 * rates.mu * eta / rates.horizon))
            if rates.nu > 0.0:
                moved[t] |= scale_all(beta, max(0.0, 1.0 - 2.0 * rates.nu * eta / rates.horizon))
            if averaged:
                settle_row(w, j_w)
                settle_row(alpha, j_alpha)
                settle_row(beta, j)
            _move(v_w, scale_w[0], j_w, z, step)  # eq. 8 and 9, 15 and 16, 20 and 21, 25
            _move(v_alpha, scale_alpha[0], j_alpha, r_alpha, step)
            _move(v_beta, scale_beta[0], j, r_beta, step)
        else:
            moved[t] = DROPPED
        events[0] += 1
        if averaged:
            count_hypothesis(w, moved[t])
            count_hypothesis(alpha, moved[t])
            count_hypothesis(beta, moved[t])
    return scores, moved


@kernel
def _room(X: Batch) -> tuple[Array, Array, Array, Array, Array]:
    """Five arrays as long as the longest row."""
    longest = 0
    for t in range(X.weights.size):
        longest = max(longest, X.indptr[t + 1] - X.indptr[t])
    return np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest), np.empty(longest)


@kernel
def _current(v: Array, scale: float, j: Slots, out: Array) -> None:
    """The parameters of a row's slots, those that learn; 1 where they are fixed."""
    for k in range(j.size):
        out[k] = scale * v[j[k]] if j[k] < v.size else 1.0


@kernel
def _answering(p: Weights, j: Slots, out: Array) -> None:
    """Those that answer: the means, once an event is counted in them."""
    if p.counted[0] == 0:
        _current(p.v, p.scale[0], j, out)
        return
    v, total, upto, clock, counted = p.v, p.total, p.upto, p.clock[0], p.counted[0]
    for k in range(j.size):
        slot = j[k]
        out[k] = (total[slot] + v[slot] * (clock - upto[slot])) / counted if slot < v.size else 1.0


@kernel
def _kept(v: Array, j: Slots) -> Slots:
    """The slots of a row that an array has."""
    size = j.size
    while size > 0 and j[size - 1] >= v.size:
        size -= 1
    return j[:size]


@kernel
def _score(
    w: Array, alpha: Array, beta: Array, sigmoid: bool, skips: bool, j: Slots, x: Array, z: Array, slope: Array
) -> float:
    """Σ w·z, with z and its slope written beside: σ(αx − β) (eq. 4, 14) or αx + β (eq. 18, 24); 1 for b."""
    s = 0.0
    for k in range(j.size):
        if j[k] == BIAS:
            z[k], slope[k] = x[k], 0.0
        elif skips and x[k] == 0.0:
            z[k], slope[k] = 0.0, 0.0
        elif sigmoid:
            z[k] = logistic(alpha[k] * x[k] - beta[k])
            slope[k] = z[k] * (1.0 - z[k])
        else:
            z[k], slope[k] = alpha[k] * x[k] + beta[k], 1.0
        s += w[k] * z[k]
    return s


@kernel
def _move(v: Array, scale: float, j: Slots, direction: Array, step: float) -> None:
    """`put`, without passing the tuple: three of them for every event would take longer than all the rest."""
    step /= scale
    for k in range(j.size):
        v[j[k]] += step * direction[k]
