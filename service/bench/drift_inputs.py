"""Drift of the inputs, for `onepass bench drift`: alarms where nothing moved, and how soon what did move is found."""

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from learners.batch import Array, Batch, Ints
from learners.drift.inputs import FEATURES, LABEL, Inputs, Shift
from service.bench.report import Bar

COLUMNS, EVENTS, MOVE, SOON = 50, 20_000, 10_000, 2000
"""Features of a stream, its events, where one of them moves, and in how many events that should be found."""

DENSE = 64
"""Features when the cost is taken: as many as are watched by default."""

Draw = Callable[[np.random.Generator], Array]


def moved_inputs(*, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    """Figures and the bars among them."""
    streams, beside = (20, 4) if quick else (100, 100)
    table = {name: _table(*world, streams if name == "normal" else beside) for name, world in WORLDS.items()}
    figures = {
        "worlds": table,
        "label rate 0.1 to 0.3": _label_moved(streams),
        "a KS test of each window at 0.05": _uncontrolled(4 if quick else 20),
        "microseconds per event, 64 features": _cost(3 if quick else 9),
    }
    normal = table["normal"]
    return {"inputs": figures}, [
        Bar("inputs: stationary streams with any alarm", normal["stationary"], "<=", 0.05),
        Bar(f"inputs: a feature moved by 1 sd found within {SOON} events", normal["found"], ">=", 0.95),
    ]


def _normal(draws: np.random.Generator) -> Array:
    return draws.normal(size=(EVENTS, COLUMNS))


def _correlated(draws: np.random.Generator) -> Array:
    """Any two features share nine tenths of their variance."""
    common = draws.normal(size=(EVENTS, 1))
    return math.sqrt(0.9) * common + math.sqrt(0.1) * draws.normal(size=(EVENTS, COLUMNS))


def _heavy(draws: np.random.Generator) -> Array:
    """Cauchy's: neither mean nor variance."""
    return draws.standard_cauchy(size=(EVENTS, COLUMNS))


def _rare(draws: np.random.Generator) -> Array:
    """There in one event of a hundred."""
    return (draws.random((EVENTS, COLUMNS)) < 0.01).astype(np.float64)


def _more(feature: Array, draws: np.random.Generator) -> None:
    feature += 1.0
    del draws


def _more_often(feature: Array, draws: np.random.Generator) -> None:
    feature[draws.random(feature.size) < 0.04] = 1.0


WORLDS: dict[str, tuple[Draw, Callable[[Array, np.random.Generator], None]]] = {
    "normal": (_normal, _more),
    "correlated 0.9": (_correlated, _more),
    "Cauchy, moved by its scale": (_heavy, _more),
    "rare, 1 % to 5 %": (_rare, _more_often),
}


def _table(draw: Draw, move: Callable[[Array, np.random.Generator], None], streams: int) -> dict[str, Any]:
    """Shares of streams: with an alarm though nothing moved, and with the feature that did found soon."""
    alarmed, delays, elsewhere = 0, [], 0
    for seed in range(streams):
        draws = np.random.default_rng([seed, 0])
        alarmed += bool(_watched(draw(draws), _labels(draws, 0.3)))
        draws = np.random.default_rng([seed, 1])
        values, y = draw(draws), _labels(draws, 0.3)
        moved = int(draws.integers(COLUMNS))
        move(values[MOVE:, moved], draws)
        shifts = _watched(values, y)
        delays += _delay(shifts, FEATURES + moved)
        elsewhere += any(shift.series != FEATURES + moved or shift.row < MOVE for shift in shifts)
    return {
        "streams": streams,
        "stationary": alarmed / streams,
        "found": len(delays) / streams,
        "median_delay": statistics.median(delays) if delays else None,
        "alarms_elsewhere": elsewhere / streams,
    }


def _label_moved(streams: int) -> dict[str, Any]:
    """The rate of positive labels goes from 0.1 to 0.3, no feature moves."""
    delays = []
    for seed in range(streams):
        draws = np.random.default_rng([seed, 2])
        y = np.concatenate([_labels(draws, 0.1)[:MOVE], _labels(draws, 0.3)[MOVE:]])
        delays += _delay(_watched(np.zeros((EVENTS, 0)), y), LABEL)
    return {
        "streams": streams,
        "found": len(delays) / streams,
        "median_delay": statistics.median(delays) if delays else None,
    }


def _labels(draws: np.random.Generator, rate: float) -> Array:
    return np.where(draws.random(EVENTS) < rate, 1.0, -1.0)


def _watched(values: Array, y: Array) -> list[Shift]:
    """All alarms of a stream; the predictions are the labels of the event before."""
    watch = Inputs()
    guess = np.roll(y, 1).astype(np.int64)
    return watch.watch(watch.init(values.shape[1]), _rows(values), y, guess)


def _rows(values: Array) -> Batch:
    events, columns = values.shape
    slots = np.tile(np.arange(1, columns + 1, dtype=np.int32), events)
    return Batch(np.arange(events + 1) * columns, slots, values.ravel(), np.ones(events))


def _delay(shifts: list[Shift], series: int) -> list[int]:
    """Events from the move to the first alarm of the series after it, if that comes soon."""
    after = [shift.row + 1 - MOVE for shift in shifts if shift.series == series and shift.row >= MOVE]
    return after[:1] if after and after[0] <= SOON else []


def _uncontrolled(streams: int) -> dict[str, float]:
    """What is said of stationary streams when each window of each feature is tested at 0.05 by itself."""
    watch, alarmed, alarms = Inputs(), 0, 0
    for seed in range(streams):
        values = _normal(np.random.default_rng([seed, 0]))
        reference = np.sort(values[: watch.reference], axis=0)
        windows = values[watch.reference :].reshape(-1, watch.window, COLUMNS)
        said = sum(_ks_says(reference[:, f], window[:, f]) for window in windows for f in range(COLUMNS))
        alarmed += said > 0
        alarms += said
    return {"streams": streams, "stationary": alarmed / streams, "alarms_per_stream": alarms / streams}


def _ks_says(reference: Array, window: Array) -> bool:
    """Kolmogorov–Smirnov's two-sample test; 1.358 is the 0.95 quantile of its limit."""
    window = np.sort(window)
    m, n = reference.size, window.size
    low: Ints = np.searchsorted(reference, window, side="left")
    gap = np.maximum(np.arange(1, n + 1) / n - low / m, low / m - np.arange(n) / n)
    return bool(gap.max() > 1.358 * math.sqrt((m + n) / (m * n)))


def _cost(rounds: int) -> float:
    """Of one event in a long batch with every feature, median CPU time."""
    draws = np.random.default_rng(0)
    X, y, watch = _rows(draws.normal(size=(EVENTS, DENSE))), _labels(draws, 0.3), Inputs()
    guess, taken = y.astype(np.int64), []
    for _ in range(rounds):
        state, started = watch.init(DENSE), time.process_time()
        watch.watch(state, X, y, guess)
        taken.append(time.process_time() - started)
    return 1e6 * statistics.median(taken) / EVENTS
