"""The weight vector of every linear learner: `w = scale·v`, with the lazy sums of averaging, O(nnz) per event.

`avg` and `vote` (means of `w` over events) are kept by the primitives that change `w`: before `v_j` moves,
`total_j += v_j·(clock − upto_j)`, where `clock` is the running sum of `scale` over the counted events. So the mean is
`(total_j + v_j·(clock − upto_j)) / counted` at any time, without touching the other weights.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from learners.batch import BIAS, Array, Batch, Flags, Ints, Slots
from learners.kernels import LARGEST_WEIGHT, kernel, row
from learners.learner import DROPPED, MOVED, Learned, Learner, State, tally

Average = Literal["none", "avg", "vote"]

NONE, AVG, VOTE = 0, 1, 2
MODES: dict[Average, int] = {"none": NONE, "avg": AVG, "vote": VOTE}

SMALLEST_SCALE = 1e-100

SMALLEST_TICK = 1e-6
"""Smallest share of the clock that a scale may be: added to a clock much larger, it would be lost to rounding."""


class Weights(NamedTuple):
    """`total` and `upto` are empty unless averaged."""

    v: Array
    scale: Array
    mode: Ints
    total: Array
    upto: Array
    clock: Array
    counted: Ints


def fresh_weights(dim: int, average: Average) -> Weights:
    averaged = 0 if average == "none" else dim
    return Weights(
        v=np.zeros(dim),
        scale=np.ones(1),
        mode=np.array([MODES[average]]),
        total=np.zeros(averaged),
        upto=np.zeros(averaged),
        clock=np.zeros(1),
        counted=np.zeros(1, np.int64),
    )


class LinearLearner(Learner):
    """A learner whose state has `w: Weights`, `updates` and `dropped`; `averaged` asks for weights with a mean.

    Kernels get the arrays of `w` one by one where every event needs them: a tuple costs as much to pass as the event.
    """

    def fresh(self, dim: int, average: Average) -> State:
        raise NotImplementedError

    def run(self, state: State, X: Batch, y: Array) -> tuple[Array, Flags]:
        """Call the kernel: scores before each update, and what each event did."""
        raise NotImplementedError

    def moves_always(self) -> bool:
        """Whether every event is an update, so that no hypothesis is ever left alone."""
        return False

    def init(self, dim: int) -> State:
        return self.fresh(dim, "none")

    def score_rows(self, state: State, X: Batch) -> Array:
        return linear_scores(state.w, X)

    def learn_rows(self, state: State, X: Batch, y: Array) -> Learned:
        learned = Learned(*self.run(state, X, y))
        tally(state, learned.moved)
        return learned

    def updates(self, state: State) -> int:
        return int(state.updates[0])

    def dropped(self, state: State) -> int:
        return int(state.dropped[0])

    def norm(self, state: State) -> float:
        return float(np.sqrt(np.square(state.w.scale[0] * state.w.v).sum()))


@kernel
def dot(v: Array, j: Slots, x: Array) -> float:
    total = 0.0
    for k in range(j.size):
        total += v[j[k]] * x[k]
    return total


@kernel
def mean_score(w: Weights, j: Slots, x: Array, s: float) -> float:
    """`w̄·x`; the current score `s` until an event has been counted in the mean."""
    if w.counted[0] == 0:
        return s
    total = 0.0
    for k in range(j.size):
        total += (w.total[j[k]] + w.v[j[k]] * (w.clock[0] - w.upto[j[k]])) * x[k]
    mean: float = total / w.counted[0]
    return mean


@kernel
def linear_scores(w: Weights, X: Batch) -> Array:
    scores = np.empty(X.weights.size)
    averaged = w.mode[0] != NONE
    for t in range(scores.size):
        j, x = row(X, t)
        s = w.scale[0] * dot(w.v, j, x)
        scores[t] = mean_score(w, j, x, s) if averaged else s
    return scores


@kernel
def settle(w: Weights, slot: int) -> None:
    """Bring the lazy sum of one weight up to now; call before it moves."""
    if w.mode[0] != NONE:
        w.total[slot] += w.v[slot] * (w.clock[0] - w.upto[slot])
        w.upto[slot] = w.clock[0]


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
    if w.mode[0] != NONE:
        for k in range(j.size):
            settle(w, j[k])
    v = w.v
    step /= w.scale[0]
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
def shrink_all_but_bias(w: Weights, factor: float) -> None:
    """`w_j *= factor`, 0 ≤ factor ≤ 1, for every slot but the bias, in O(1): the bias is divided in return."""
    if factor == 1.0:
        return
    if w.scale[0] * factor < max(SMALLEST_SCALE, SMALLEST_TICK * w.clock[0]):
        fold(w, factor)
        return
    settle(w, BIAS)
    w.scale[0] *= factor
    w.v[BIAS] /= factor


@kernel
def fold(w: Weights, factor: float) -> None:
    """Multiply the scale (and the factor) into every weight, and set the clock back: O(dim).

    Happens once in a hundred digits of shrinking; averaged, once in six, or in a million events.
    """
    for slot in range(w.v.size):
        settle(w, slot)
        w.v[slot] *= w.scale[0]
        if slot != BIAS:
            w.v[slot] *= factor
    w.scale[0] = 1.0
    w.clock[0] = 0.0
    w.upto[:] = 0.0


@kernel
def count_hypothesis(w: Weights, moved: int) -> None:
    """Count the weights that the event leaves behind in the mean: `avg` always, `vote` only if it left them alone."""
    if w.mode[0] == AVG or moved != MOVED:
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
