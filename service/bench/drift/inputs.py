"""Drift of the inputs: false alarms, and how soon a feature that moved is found."""

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
"""Features and events of a stream, the event of the move, and events to find it."""

DENSE = 64
"""Features in the cost measurement: as many as are watched by default."""

Draw = Callable[[np.random.Generator], Array]


def measure_inputs(*, quick: bool) -> tuple[dict[str, Any], list[Bar]]:
    """Return figures and bars."""
    streams, others = (20, 4) if quick else (100, 100)
    table = {
        name: _measure_stream(*world, streams if name == "normal" else others)
        for name, world in WORLDS.items()
    }
    figures = {
        "worlds": table,
        "label rate 0.1 to 0.3": _measure_label_shift(streams),
        "a KS test of each window at 0.05": _measure_uncontrolled(4 if quick else 20),
        "microseconds per event, 64 features": _measure_cost(3 if quick else 9),
    }
    normal = table["normal"]
    return {"inputs": figures}, [
        Bar("inputs: stationary streams with any alarm", normal["stationary"], "<=", 0.05),
        Bar(
            f"inputs: a feature moved by 1 sd found within {SOON} events",
            normal["found"],
            ">=",
            0.95,
        ),
    ]


def _normal(draws: np.random.Generator) -> Array:
    return draws.normal(size=(EVENTS, COLUMNS))


def _correlated(draws: np.random.Generator) -> Array:
    """Draw features of which any two share nine tenths of their variance."""
    common = draws.normal(size=(EVENTS, 1))
    return math.sqrt(0.9) * common + math.sqrt(0.1) * draws.normal(size=(EVENTS, COLUMNS))


def _heavy(draws: np.random.Generator) -> Array:
    """Draw from the Cauchy distribution, which has neither mean nor variance."""
    return draws.standard_cauchy(size=(EVENTS, COLUMNS))


def _rare(draws: np.random.Generator) -> Array:
    """Draw features that are present in one event of a hundred."""
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


def _measure_stream(
    draw: Draw, move: Callable[[Array, np.random.Generator], None], streams: int
) -> dict[str, Any]:
    """Return shares of streams: with a false alarm, and with the moved feature found soon."""
    alarmed, delays, elsewhere = 0, [], 0
    for seed in range(streams):
        draws = np.random.default_rng([seed, 0])
        alarmed += bool(_find_shifts(draw(draws), _draw_labels(draws, 0.3)))
        draws = np.random.default_rng([seed, 1])
        values, y = draw(draws), _draw_labels(draws, 0.3)
        moved = int(draws.integers(COLUMNS))
        move(values[MOVE:, moved], draws)
        shifts = _find_shifts(values, y)
        delays += _delay(shifts, FEATURES + moved)
        elsewhere += any(shift.series != FEATURES + moved or shift.row < MOVE for shift in shifts)
    return {
        "streams": streams,
        "stationary": alarmed / streams,
        "found": len(delays) / streams,
        "median_delay": statistics.median(delays) if delays else None,
        "alarms_elsewhere": elsewhere / streams,
    }


def _measure_label_shift(streams: int) -> dict[str, Any]:
    """Raise the rate of positive labels from 0.1 to 0.3; no feature moves."""
    delays = []
    for seed in range(streams):
        draws = np.random.default_rng([seed, 2])
        y = np.concatenate([_draw_labels(draws, 0.1)[:MOVE], _draw_labels(draws, 0.3)[MOVE:]])
        delays += _delay(_find_shifts(np.zeros((EVENTS, 0)), y), LABEL)
    return {
        "streams": streams,
        "found": len(delays) / streams,
        "median_delay": statistics.median(delays) if delays else None,
    }


def _draw_labels(draws: np.random.Generator, rate: float) -> Array:
    return np.where(draws.random(EVENTS) < rate, 1.0, -1.0)


def _find_shifts(values: Array, y: Array) -> list[Shift]:
    """Return all alarms of a stream; each prediction is the label before."""
    watch = Inputs()
    guess = np.roll(y, 1).astype(np.int64)
    return watch.watch(watch.init(values.shape[1]), _make_batch(values), y, guess)


def _make_batch(values: Array) -> Batch:
    events, columns = values.shape
    slots = np.tile(np.arange(1, columns + 1, dtype=np.int32), events)
    return Batch(np.arange(events + 1) * columns, slots, values.ravel(), np.ones(events))


def _delay(shifts: list[Shift], series: int) -> list[int]:
    """Return the events from the move to the first alarm of the series, if it is soon."""
    after = [
        shift.row + 1 - MOVE for shift in shifts if shift.series == series and shift.row >= MOVE
    ]
    return after[:1] if after and after[0] <= SOON else []


def _measure_uncontrolled(streams: int) -> dict[str, float]:
    """Count false alarms if each window of each feature is tested at 0.05, without a correction."""
    watch, alarmed, alarms = Inputs(), 0, 0
    for seed in range(streams):
        values = _normal(np.random.default_rng([seed, 0]))
        reference = np.sort(values[: watch.reference], axis=0)
        windows = values[watch.reference :].reshape(-1, watch.window, COLUMNS)
        rejections = sum(
            _ks_rejects(reference[:, f], window[:, f]) for window in windows for f in range(COLUMNS)
        )
        alarmed += rejections > 0
        alarms += rejections
    return {
        "streams": streams,
        "stationary": alarmed / streams,
        "alarms_per_stream": alarms / streams,
    }


def _ks_rejects(reference: Array, window: Array) -> bool:
    """Kolmogorov–Smirnov's two-sample test; 1.358 is the 0.95 quantile of its limit."""
    window = np.sort(window)
    m, n = reference.size, window.size
    low: Ints = np.searchsorted(reference, window, side="left")
    gap = np.maximum(np.arange(1, n + 1) / n - low / m, low / m - np.arange(n) / n)
    return bool(gap.max() > 1.358 * math.sqrt((m + n) / (m * n)))


def _measure_cost(rounds: int) -> float:
    """Return the median CPU time of one event in a long batch with every feature."""
    draws = np.random.default_rng(0)
    X, y, watch = (
        _make_batch(draws.normal(size=(EVENTS, DENSE))),
        _draw_labels(draws, 0.3),
        Inputs(),
    )
    guess, taken = y.astype(np.int64), []
    for _ in range(rounds):
        state, started = watch.init(DENSE), time.process_time()
        watch.watch(state, X, y, guess)
        taken.append(time.process_time() - started)
    return 1e6 * statistics.median(taken) / EVENTS
