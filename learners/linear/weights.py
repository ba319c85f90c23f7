"""The weight vector of every linear learner: `w = scale·v`, with averaging and selection, O(nnz)
per event.

`avg` and `vote` (means of `w` over events) are maintained by the primitives that change `w`. Before
`v_j` moves, `total_j += v_j·(clock − upto_j)`, where `clock` is the running sum of `scale` over the
counted events. So the mean is `(total_j + v_j·(clock − upto_j)) / counted` at any time, without
touching the other weights. `mask` excludes weights from scoring, not from learning.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from learners.batch import BIAS, Array, Flags, Ints, Slots
from learners.jit import LARGEST_WEIGHT, kernel
from learners.learner import DROPPED, MOVED, REWROTE

Average = Literal["none", "avg", "vote"]

NONE, AVG, VOTE = 0, 1, 2
MODES: dict[Average, int] = {"none": NONE, "avg": AVG, "vote": VOTE}

SMALLEST_SCALE, LARGEST_SCALE = 1e-100, 1e100

SMALLEST_TICK = 1e-6
"""Smallest ratio of the scale to the clock. Added to a much larger clock, the scale would be
lost to rounding."""

RENEWAL = 65_536
"""Updates after which a squared norm, otherwise updated step by step, is recomputed."""


NO_MASK = np.zeros(0, np.uint8)
"""All weights are used for scoring."""


class Shape(NamedTuple):
    """What the compositions around a linear learner need of its weights."""

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


def scoring_weights(w: Weights) -> Array:
    """The weights used for scoring: the averages if there are any, 0 where masked."""
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
    """Whether all current weights are used for scoring as they are."""
    return w.mode[0] == NONE and w.mask.size == 0


@kernel
def reported_score(w: Weights, j: Slots, x: Array, s: float) -> float:
    """The score that is returned: from the unmasked weights, averaged once an event is counted.

    `s` is the score from the weights that learn. Without mask and average both are the same.
    """
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
    """Scores of the rows of a batch. Its arrays are quicker to pass than the batch."""
    scores = np.empty(indptr.size - 1)
    plain = is_plain(w)
    for t in range(scores.size):
        j, x = indices[indptr[t] : indptr[t + 1]], values[indptr[t] : indptr[t + 1]]
        s = w.scale[0] * dot(w.v, j, x)
        scores[t] = s if plain else reported_score(w, j, x, s)
    return scores


@kernel
def catch_up(w: Weights, slot: int) -> None:
    """Bring the lazy sum of one weight up to date. Call before the weight moves."""
    if w.mode[0] != NONE:
        w.total[slot] += w.v[slot] * (w.clock[0] - w.upto[slot])
        w.upto[slot] = w.clock[0]


@kernel
def catch_up_row(w: Weights, j: Slots) -> None:
    """Do `catch_up` for a whole row. Taking the arrays out once is several times faster."""
    if w.mode[0] != NONE:
        v, total, upto, clock = w.v, w.total, w.upto, w.clock[0]
        for k in range(j.size):
            total[j[k]] += v[j[k]] * (clock - upto[j[k]])
            upto[j[k]] = clock


@kernel
def fits(v: Array, scale: float, j: Slots, x: Array, step: float) -> bool:
    """Whether `w += step·x` keeps every weight in the safe range, even if `w` shrinks first."""
    step /= scale
    largest = LARGEST_WEIGHT / scale
    for k in range(j.size):
        if not abs(v[j[k]]) + abs(step * x[k]) <= largest:
            return False
    return True


@kernel
def put(w: Weights, j: Slots, x: Array, step: float) -> None:
    """`w += step·x`. Check `fits` first."""
    catch_up_row(w, j)
    move(w.v, w.scale[0], j, x, step)


@kernel
def move(v: Array, scale: float, j: Slots, x: Array, step: float) -> None:
    """`w += step·x` for weights whose lazy sums are up to date."""
    step /= scale
    for k in range(j.size):
        v[j[k]] += step * x[k]


@kernel
def add(w: Weights, j: Slots, x: Array, step: float) -> int:
    """`w += step·x`, completely or not at all."""
    if not fits(w.v, w.scale[0], j, x, step):
        return DROPPED
    put(w, j, x, step)
    return MOVED


@kernel
def scale_all(w: Weights, factor: float) -> int:
    """`w *= factor`, factor ≥ 0, in O(1).

    Once per hundred digits of shrinking it folds in O(dim) and returns REWROTE.
    """
    if not max(SMALLEST_SCALE, SMALLEST_TICK * w.clock[0]) <= w.scale[0] * factor <= LARGEST_SCALE:
        return fold(w, factor, factor)
    w.scale[0] *= factor
    return 0


@kernel
def shrink_all_but_bias(w: Weights, factor: float) -> int:
    """`w_j *= factor`, 0 ≤ factor ≤ 1, for every slot but the bias, in O(1): the bias is divided
    by it to compensate.
    """
    if factor == 1.0:
        return 0
    if w.scale[0] * factor < max(SMALLEST_SCALE, SMALLEST_TICK * w.clock[0]):
        return fold(w, factor, 1.0)
    catch_up(w, BIAS)
    w.scale[0] *= factor
    w.v[BIAS] /= factor
    return 0


@kernel
def fold(w: Weights, factor: float, bias_factor: float) -> int:
    """Multiply the scale and a factor into every weight, and reset the clock, in O(dim).

    Happens once per hundred digits of shrinking. With averaging, once per six digits, or per
    million events.
    """
    for slot in range(w.v.size):
        catch_up(w, slot)
        w.v[slot] *= w.scale[0]
        w.v[slot] *= bias_factor if slot == BIAS else factor
    w.scale[0] = 1.0
    w.clock[0] = 0.0
    w.upto[:] = 0.0
    return REWROTE


@kernel
def count_hypothesis(w: Weights, moved: int) -> None:
    """Count the weights after this event in the mean: `avg` always, `vote` only if the event did
    not change them.
    """
    if w.mode[0] == AVG or (w.mode[0] == VOTE and not moved & MOVED):
        w.clock[0] += w.scale[0]
        w.counted[0] += 1


@kernel
def outputs(rows: int) -> tuple[Array, Flags]:
    """Arrays for the scores and for what each event did."""
    return np.empty(rows), np.zeros(rows, np.uint8)


@kernel
def logistic(s: float) -> float:
    """σ(s), in the form that does not overflow."""
    if s >= 0.0:
        return 1.0 / (1.0 + math.exp(-s))
    e = math.exp(s)
    return e / (1.0 + e)
