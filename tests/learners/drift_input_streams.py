"""Streams of events whose inputs move sometimes, and a watch over inputs that has seen them."""

import numpy as np

from learners.batch import Batch
from learners.drift.inputs import Inputs, restore_inputs
from learners.state import flatten

SMALL = Inputs(features=6, window=40, reference=80, alpha=0.05)
"""Short windows: the first comparison comes after 248 events."""

COLUMNS = 3
ODD = [0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e100, -1e100, 1.0, 1.0 + 2**-52, 1.7e308, -1.7e308]


def stream(seed, events, *, hostile=False):
    """Return events with columns 1 … 3 and slots up to 40, of which the first are watched;
    everything moves sometimes.
    """
    rng = np.random.default_rng(seed)
    phase = np.cumsum(rng.random(events) < 1 / 300)
    rows = []
    for t in range(events):
        columns = {
            1: rng.normal() + phase[t] % 3,
            2: float(rng.random() < 0.2 + 0.6 * (phase[t] % 2)),
            3: 7.0,
        }
        others = {
            int(j): rng.exponential()
            for j in 4 + rng.geometric(0.15, size=rng.integers(4)).clip(1, 36)
        }
        row = {j: x for j, x in (columns | others).items() if rng.random() < 0.9}
        if hostile:
            row = {j: float(rng.choice(ODD)) if rng.random() < 0.3 else x for j, x in row.items()}
        rows.append(([0, *sorted(row)], [1.0, *(row[j] for j in sorted(row))]))
    X = Batch.from_rows(rows, rng.choice([0.0, 1.0, 2.5], events)).validate(41)
    y = rng.binomial(4, 0.3 + 0.15 * (phase % 3)).astype(np.float64)
    return X, y, np.where(rng.random(events) < 0.9 - 0.6 * (phase % 2), y, -1).astype(np.int64)


LONG = [stream(1, 3000), stream(2, 3000, hostile=True)]


def part(events, first, last):
    X, y, guess = events
    first, last = min(first, y.size), min(last, y.size)
    return X.rows(first, last), y[first:last], guess[first:last]


def watch_stream(events, cuts=(), config=SMALL, columns=COLUMNS):
    """Watch a stream in pieces; return the shifts with rows of the whole stream, and the state."""
    state, ends, shifts = config.init(columns), [*sorted(cuts), events[1].size], []
    for first, last in zip([0, *ends], ends, strict=False):
        shifts += [
            shift._replace(row=shift.row + first)
            for shift in config.watch(state, *part(events, first, last))
        ]
    return shifts, state


def dense(values):
    """Return a batch of columns."""
    events, columns = values.shape
    slots = np.tile(np.arange(1, columns + 1, dtype=np.int32), events)
    return Batch(
        np.arange(events + 1) * columns,
        slots,
        np.ascontiguousarray(values).ravel(),
        np.ones(events),
    )


def quiet(events):
    """Return constant labels and predictions."""
    return np.ones(events), np.ones(events, np.int64)


def save_and_restore(state, config=SMALL, columns=COLUMNS):
    """Restore a state from its saved arrays."""
    saved = {name: (a.tobytes(), a.dtype.str, a.shape) for name, a in flatten(state).items()}
    arrays = {n: np.frombuffer(raw, kind).reshape(shape) for n, (raw, kind, shape) in saved.items()}
    return restore_inputs(config, columns, arrays)
