"""Drift of inputs, labels and predictions: each is a series that is compared with its own past.

A series first collects a sample to choose bins from. Then a reference is counted into the bins,
then one window after the other. Each complete window is compared with the reference
(`learners/drift/two_sample.py`). Of the probability `alpha`, the k-th comparison of each of S
series gets alpha / (S k (k + 1)). The sum over all k and all series is alpha, and that bounds the
probability that there is ever a false alarm.

The bound holds for independent events. If neighbouring events are alike (a trend, a daily cycle),
an alarm only says that the window differs from the reference, which is then true. After its alarm a
series restarts; the others continue.

The four laws of learners hold: `watch` goes row by row, batches and restores make no difference,
and `slots` and `psi` write nothing.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from learners.batch import BIAS, Array, Batch, Ints
from learners.drift.two_sample import (
    BINS,
    EDGES,
    NO_EDGE,
    SAMPLE,
    bin_of,
    differ,
    ks_distance,
    set_edges,
    stability_index,
)
from learners.jit import kernel
from learners.state import restore

LABEL, PREDICTION, FEATURES = 0, 1, 2
"""Series 0: labels, 1: predictions, 2 + f: feature f."""

NONE = -1
"""The slot of a feature that has not been seen yet."""

LARGEST = 1e300
"""Values beyond it are clipped to it when edges are chosen, so that the edges stay finite."""

MOST = 2**53
"""Windows. No stream is that long, and counts stay exact."""


class State(NamedTuple):
    """One line per series. `seen` and `windows` say how far each one is."""

    slot: Ints
    """Slot of each watched feature, in the order in which they were first seen."""
    seen: Ints
    """Events since the series started: first the sample, then the reference, then the current
    window."""
    windows: Ints
    """Complete windows that were compared with this reference."""
    sample: Array
    """The first events, until there are enough to choose edges."""
    edges: Array
    """Ascending edges. An event belongs to the bin of the first edge that is not below it."""
    base: Ints
    """Events of the reference in each bin."""
    recent: Ints
    """Events of the window in each bin."""
    psi: Array
    """PSI of the last complete window. After an alarm it stays until there is another one."""


class Shift(NamedTuple):
    """A series that has moved: the row after which it was detected, the distance between the
    distribution functions, and the PSI.
    """

    row: int
    series: int
    distance: float
    psi: float


class Inputs(BaseModel):
    """Choose it to notice a change before there are labels that show it."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )

    features: int = Field(default=64, ge=0, le=1024)
    """Maximum number of watched features: columns first, then other features in the order in
    which they are first seen."""
    window: int = Field(default=500, ge=20, le=1_000_000)
    """Events in a window that is compared with the reference."""
    reference: int = Field(default=2000, ge=20, le=1_000_000)
    """Events in the reference."""
    alpha: float = Field(default=0.01, gt=0.0, le=0.1)
    """Largest probability that there is ever a false alarm in any series, up to the next alarm."""

    def init(self, columns: int) -> State:
        """Make a fresh state. Slots 1 … `columns` are columns; hashed ones follow."""
        slot = np.full(self.features, NONE, np.int64)
        watched = min(columns, self.features)
        slot[:watched] = 1 + np.arange(watched)
        series = FEATURES + self.features
        seen, windows = (np.zeros(series, np.int64) for _ in range(2))
        base, recent = (np.zeros((series, BINS), np.int64) for _ in range(2))
        sample, edges = np.zeros((series, SAMPLE)), np.zeros((series, EDGES))
        return State(slot, seen, windows, sample, edges, base, recent, np.zeros(series))

    def watch(self, state: State, X: Batch, y: Array, guess: Ints) -> list[Shift]:
        """Row by row: count the values, and return each series that has moved.

        An absent feature is 0.
        """
        life = SAMPLE + self.reference + self.window
        # a series needs this many events before each of its alarms
        room = (1 + y.size // life) * state.seen.size
        row, series = (np.empty(room, np.int64) for _ in range(2))
        distance, psi = (np.empty(room) for _ in range(2))
        log_alpha = math.log(self.alpha) - math.log(state.seen.size)
        found = _watch(
            state, X, y, guess, self.reference, self.window, log_alpha, row, series, distance, psi
        )
        columns = [array[:found].tolist() for array in (row, series, distance, psi)]
        return [Shift(*shift) for shift in zip(*columns, strict=True)]

    def slots(self, state: State) -> Ints:
        """Slots of the watched features. −1 for a feature that has not been seen yet."""
        return state.slot.copy()

    def psi(self, state: State) -> Array:
        """Population stability index of every series over its last complete window.

        0 before the first.
        """
        return state.psi.copy()


def restore_inputs(config: Inputs, columns: int, arrays: dict[str, NDArray[Any]]) -> State:
    """Restore a flattened state. Raise ValueError if no events could have led to it."""
    fresh = config.init(columns)
    state: State = restore(fresh, arrays)
    if not _slots_are_valid(state.slot, fresh.slot, columns):
        raise ValueError("corrupt checkpoint: the slots of the drift inputs are inconsistent")
    if not _series_are_valid(state, config):
        raise ValueError("corrupt checkpoint: the counts of the drift inputs are inconsistent")
    return state


def _slots_are_valid(slot: Ints, fresh: Ints, columns: int) -> bool:
    """Whether columns are in their places, then other slots, each once, then none."""
    watched, met = int(np.count_nonzero(fresh != NONE)), int(np.count_nonzero(slot != NONE))
    others = slot[watched:met]
    return bool(
        (slot[:watched] == fresh[:watched]).all()
        and (slot[met:] == NONE).all()
        and ((others > columns) & (others <= np.iinfo(np.int32).max)).all()
        and np.unique(others).size == others.size
    )


def _series_are_valid(state: State, config: Inputs) -> bool:
    """Whether counts add up to the events, and samples and edges exist when they should."""
    seen, windows = state.seen, state.windows
    there = np.concatenate([np.ones(FEATURES, bool), state.slot != NONE])
    counted, ready = seen >= SAMPLE, seen >= SAMPLE + config.reference
    to_come = np.arange(SAMPLE) >= np.where(counted, 0, seen)[:, None]
    edges = state.edges[counted]
    unused = np.arange(BINS) > np.count_nonzero(state.edges != NO_EDGE, axis=1)[:, None]
    return bool(
        ((seen >= 0) & (seen < SAMPLE + config.reference + config.window)).all()
        and ((windows >= 0) & (windows <= np.where(ready, MOST, 0))).all()
        and not (seen[~there].any() or state.psi[~there].any())
        and (np.abs(state.sample) <= LARGEST).all()
        and not state.sample[to_come].any()
        and not state.edges[~counted].any()
        and (np.abs(edges[:, 0]) < NO_EDGE).all()
        and ((edges[:, 1:] > edges[:, :-1]) | (edges[:, 1:] == NO_EDGE)).all()
        and _counts_are_valid(state.base, np.clip(seen - SAMPLE, 0, config.reference), unused)
        and _counts_are_valid(
            state.recent, np.where(ready, seen - SAMPLE - config.reference, 0), unused
        )
        and ((state.psi >= 0.0) & (state.psi <= LARGEST)).all()
    )


def _counts_are_valid(counts: Ints, events: Ints, unused: NDArray[np.bool_]) -> bool:
    return bool(
        ((counts >= 0) & (counts <= events[:, None])).all()
        and (counts.sum(axis=1) == events).all()
        and not counts[unused].any()
    )


@kernel
def _watch(
    state: State,
    X: Batch,
    y: Array,
    guess: Ints,
    reference: int,
    window: int,
    log_alpha: float,
    row: Ints,
    series: Ints,
    distance: Array,
    psi: Array,
) -> int:
    """Write the shifts into the last four arrays. Return their number."""
    slot, seen, windows, sample, edges, base, recent, last_psi = state
    table = _table(slot)
    met = np.count_nonzero(slot != NONE)
    values = np.zeros(seen.size)
    found = 0
    for t in range(y.size):
        values[LABEL], values[PREDICTION] = y[t], guess[t]
        values[FEATURES:] = 0.0
        for i in range(X.indptr[t], X.indptr[t + 1]):
            j, x = X.indices[i], X.values[i]
            if j == BIAS or x == 0.0:  # an absent feature is 0 too
                continue
            cell = _cell(table, slot, j)
            if table[cell] == NONE and met < slot.size:
                table[cell], slot[met] = met, j
                met += 1
            if table[cell] != NONE:
                values[FEATURES + table[cell]] = x
        for s in range(FEATURES + met):
            x, n = values[s], seen[s]
            seen[s] = n + 1
            if n < SAMPLE:
                sample[s, n] = min(max(x, -LARGEST), LARGEST)
                if n + 1 == SAMPLE:
                    set_edges(edges[s], sample[s])
                    sample[s, :] = 0.0
            elif n < SAMPLE + reference:
                base[s, bin_of(edges[s], x)] += 1
            else:
                recent[s, bin_of(edges[s], x)] += 1
                if n + 1 < SAMPLE + reference + window:
                    continue
                k = windows[s] + 1.0
                moved = differ(
                    base[s], recent[s], reference, window, log_alpha - math.log(k * (k + 1.0))
                )
                last_psi[s] = stability_index(base[s], recent[s], reference, window)
                if moved:
                    row[found], series[found], psi[found] = t, s, last_psi[s]
                    distance[found] = ks_distance(base[s], recent[s], reference, window)
                    found += 1
                    base[s, :] = 0
                    edges[s, :] = 0.0
                seen[s] = 0 if moved else SAMPLE + reference
                windows[s] = 0 if moved else windows[s] + 1
                recent[s, :] = 0
    return found


@kernel
def _table(slot: Ints) -> Ints:
    """Hash table of features by slot, at most a quarter full."""
    size = 4
    while size < 4 * slot.size:
        size *= 2
    table = np.full(size, NONE, np.int64)
    for f in range(slot.size):
        if slot[f] != NONE:
            table[_cell(table, slot, slot[f])] = f
    return table


@kernel
def _cell(table: Ints, slot: Ints, j: int) -> int:
    """Cell of slot j: where it is, or would be."""
    last = table.size - 1
    cell = j & last
    while table[cell] != NONE and slot[table[cell]] != j:
        cell = (cell + 1) & last
    return cell
