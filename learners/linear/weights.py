"""The weight vector of every linear learner: `w = scale·v`, with what averaging and selection need, O(nnz) per event.

`avg` and `vote` (means of `w` over events) are kept by the primitives that change `w`: before `v_j` moves,
`total_j += v_j·(clock − upto_j)`, where `clock` is the running sum of `scale` over the counted events. So the mean is
`(total_j + v_j·(clock − upto_j)) / counted` at any time, without touching the other weights. `mask` leaves weights out
of the answer, not out of learning.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from learners.batch import BIAS, Array, Flags, Ints, Slots
from learners.kernels import LARGEST_WEIGHT, kernel
from learners.learner import DROPPED, MOVED, REWROTE

Average = Literal["none", "avg", "vote"]

NONE, AVG, VOTE = 0, 1, 2
MODES: dict[Average, int] = {"none": NONE, "avg": AVG, "vote": VOTE}

SMALLEST_SCALE, LARGEST_SCALE = 1e-100, 1e100

SMALLEST_TICK = 1e-6
"""Smallest share of the clock that a scale may be: added to a clock much larger, it would be lost to rounding."""

RENEWAL = 65_536
"""A squared norm that is kept by recursion is computed afresh after so many updates."""


NO_MASK = np.zeros(0, np.uint8)
"""Every weight answers."""


class Shape(NamedTuple):
    """What the compositions around a linear learner ask of its weights."""

    average: Average = "none"
    selected: bool = False


class Weights(NamedTuple):
    """`total` and `upto` are empty unless averaged, `mask` unless selected."""

    v: Array
    scale: Array
    mode: Ints
    total: Array
    upto: Array
    clock: Array
    counted: Ints
    mask: Flags


def fresh_weights(dim: int, shape: Shape, start: float = 0.0) -> Weights:
    averaged = 0 if shape.average == "none" else dim
    return Weights(
        v=np.full(dim, start) if start else np.zeros(dim),
        scale=np.ones(1),
        mode=np.array([MODES[shape.average]]),
        total=np.zeros(averaged),
        upto=np.zeros(averaged),
        clock=np.zeros(1),
        counted=np.zeros(1, np.int64),
        mask=np.ones(dim if shape.selected else 0, np.uint8),
    )


def current(w: Weights) -> Array:
    """The weights that learn."""
    weights: Array = w.scale[0] * w.v
    return weights


def answering(w: Weights) -> Array:
    """The weights that answer: the mean where there is one, without those that are masked."""
    weights = current(w)
    if w.counted[0] > 0:
        weights = (w.total + w.v * (w.clock[0] - w.upto)) / w.counted[0]
    return weights * w.mask if w.mask.size else weights


@kernel
def dot(v: Array, j: Slots, x: Array) -> float:
    total = 0.0
    for k in range(j.size):
        total += v[j[k]] * x[k]
    return total


@kernel
def sq_norm_of(v: Array, scale: float) -> float:
    """‖scale·v‖², in O(dim)."""
    total = 0.0
    for slot in range(v.size):
        total += (scale * v[slot]) * (scale * v[slot])
    return total


@kernel
def is_plain(w: Weights) -> bool:
    """Whether the current weights answer, all of them."""
    return w.mode[0] == NONE and w.mask.size == 0


@kernel
def answer(w: Weights, j: Slots, x: Array, s: float) -> float:
    """The score to answer with: of the mean, once an event is counted in it, and of the unmasked weights."""
    averaged = w.counted[0] > 0
    masked = w.mask.size > 0
    if not averaged and not masked:
        return s
    total = 0.0
    for k in range(j.size):
        slot = j[k]
        if masked and w.mask[slot] == 0:
            continue
        if averaged:
            total += (w.total[slot] + w.v[slot] * (w.clock[0] - w.upto[slot])) * x[k]
        else:
            total += w.v[slot] * x[k]
    score: float = total / w.counted[0] if averaged else w.scale[0] * total
    return score


@kernel
def linear_scores(w: Weights, indptr: Ints, indices: Slots, values: Array) -> Array:
    """Of the rows of a batch, whose arrays are quicker to pass than itself."""
    scores = np.empty(indptr.size - 1)
    plain = is_plain(w)
    for t in range(scores.size):
        j, x = indices[indptr[t] : indptr[t + 1]], values[indptr[t] : indptr[t + 1]]
        s = w.scale[0] * dot(w.v, j, x)
        scores[t] = s if plain else answer(w, j, x, s)
    return scores


@kernel
def settle(w: Weights, slot: int) -> None:
    """Bring the lazy sum of one weight up to now; call before it moves."""
    if w.mode[0] != NONE:
        w.total[slot] += w.v[slot] * (w.clock[0] - w.upto[slot])
        w.upto[slot] = w.clock[0]


@kernel
def settle_row(w: Weights, j: Slots) -> None:
    """The same for all weights of a row; the arrays are taken out once, which is several times faster."""
    if w.mode[0] != NONE:
        v, total, upto, clock = w.v, w.total, w.upto, w.clock[0]
        for k in range(j.size):
            total[j[k]] += v[j[k]] * (clock - upto[j[k]])
            upto[j[k]] = clock


@kernel
def fits(v: Array, scale: float, j: Slots, x: Array, step: float) -> bool:
    """Whether `w += step·x` keeps every weight in the safe range, also if `w` shrinks first."""
    step /= scale
    largest = LARGEST_WEIGHT / scale
    for k in range(j.size):
        if not abs(v[j[k]]) + abs(step * x[k]) <= largest:
            return False
    return True


@kernel
def put(w: Weights, j: Slots, x: Array, step: float) -> None:
    """`w += step·x`, of which `fits` has been asked."""
    settle_row(w, j)
    move(w.v, w.scale[0], j, x, step)


@kernel
def move(v: Array, scale: float, j: Slots, x: Array, step: float) -> None:
    """`w += step·x` of weights whose sums are settled."""
    step /= scale
    for k in range(j.size):
        v[j[k]] += step * x[k]


@kernel
def add(w: Weights, j: Slots, x: Array, step: float) -> int:
    """`w += step·x`, whole or not at all."""
    if not fits(w.v, w.scale[0], j, x, step):
        return DROPPED
    put(w, j, x, step)
    return MOVED


@kernel
def scale_all(w: Weights, factor: float) -> int:
    """`w *= factor`, factor ≥ 0, in O(1) but for a fold once in some hundred digits, which it says."""
    if not max(SMALLEST_SCALE, SMALLEST_TICK * w.clock[0]) <= w.scale[0] * factor <= LARGEST_SCALE:
        return fold(w, factor, factor)
    w.scale[0] *= factor
    return 0


@kernel
def shrink_all_but_bias(w: Weights, factor: float) -> int:
    """`w_j *= factor`, 0 ≤ factor ≤ 1, for every slot but the bias, in O(1): the bias is divided in return."""
    if factor == 1.0:
        return 0
    if w.scale[0] * factor < max(SMALLEST_SCALE, SMALLEST_TICK * w.clock[0]):
        return fold(w, factor, 1.0)
    settle(w, BIAS)
    w.scale[0] *= factor
    w.v[BIAS] /= factor
    return 0


@kernel
def fold(w: Weights, factor: float, bias_factor: float) -> int:
    """Multiply the scale and a factor into every weight, and set the clock back: O(dim).

    Happens once in a hundred digits of shrinking; averaged, once in six, or in a million events.
    """
    for slot in range(w.v.size):
        settle(w, slot)
        w.v[slot] *= w.scale[0]
        w.v[slot] *= bias_factor if slot == BIAS else factor
    w.scale[0] = 1.0
    w.clock[0] = 0.0
    w.upto[:] = 0.0
    return REWROTE


@kernel
def count_hypothesis(w: Weights, moved: int) -> None:
    """Count the weights that the event leaves behind in the mean: `avg` always, `vote` only if it left them alone."""
    if w.mode[0] == AVG or (w.mode[0] == VOTE and not moved & MOVED):
        w.clock[0] += w.scale[0]
        w.counted[0] += 1


@kernel
def outputs(rows: int) -> tuple[Array, Flags]:
    """Room for the scores and for what each event did."""
    return np.empty(rows), np.zeros(rows, np.uint8)


@kernel
def logistic(s: float) -> float:
    """σ(s), in the form that does not overflow."""
    if s >= 0.0:
        return 1.0 / (1.0 + math.exp(-s))
    e = math.exp(s)
    return e / (1.0 + e)
