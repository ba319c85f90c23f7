"""The watch over inputs finds inputs that move, and hardly ever alarms on stationary ones."""

import math

import numpy as np
import pytest

from learners.batch import Batch
from learners.drift.inputs import FEATURES, LABEL, PREDICTION, Inputs, Shift
from learners.drift.two_sample import BINS, EDGES, SAMPLE, differ, set_edges
from tests.learners.drift_input_streams import dense, quiet
from tests.looped import looped

STATIONARY = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_cauchy(size=n),
    "constant": lambda rng, n: np.full(n, 2.5) + 0 * rng.random(n),
    "0 and 1": lambda rng, n: (rng.random(n) < 0.5).astype(float),
    "rare": lambda rng, n: (rng.random(n) < 0.01) * 1.0,
    "sparse amounts": lambda rng, n: (rng.random(n) < 0.1) * rng.exponential(size=n),
    "counts": lambda rng, n: rng.poisson(1.5, n).astype(float),
    "categories": lambda rng, n: rng.zipf(1.8, n).clip(max=60).astype(float),
    "never there": lambda rng, n: np.zeros(n) * rng.random(n),
    "huge": lambda rng, n: rng.choice([-1e100, 1e100, 1e-300], n),
}
every_world = looped("draw", STATIONARY.values(), ids=STATIONARY)


@every_world
def test_the_rate_of_false_alarms_stays_below_the_level(draw):
    """The level is 0.05, where the bound holds visibly but is not vacuous."""
    rng, trials, m, n = np.random.default_rng(5), 3000, 200, 100
    wrong, edges = 0, np.empty(EDGES)
    for _ in range(trials):
        values = draw(rng, SAMPLE + m + n)
        set_edges(edges, values[:SAMPLE])
        bins = np.searchsorted(edges, values[SAMPLE:])
        base, recent = np.bincount(bins[:m], minlength=BINS), np.bincount(bins[m:], minlength=BINS)
        wrong += differ(base, recent, m, n, math.log(0.05))
    assert wrong <= 0.05 * trials + 3 * math.sqrt(0.05 * trials)
    if draw is STATIONARY["normal"]:
        assert wrong > 0.005 * trials


def test_stationary_inputs_of_all_kinds_hardly_ever_alarm():
    """Labels and predictions are class numbers; alpha is 0.1; 40 lives of 12,000 events are
    watched.
    """
    config, alarmed = Inputs(features=24, window=200, reference=800, alpha=0.1), 0
    for seed in range(40):
        rng = np.random.default_rng([9, seed])
        values = np.stack([draw(rng, 12_000) for draw in STATIONARY.values()] * 2, axis=1)
        y, guess = rng.integers(0, 7, 12_000).astype(float), rng.binomial(5, 0.3, 12_000) - 1
        alarmed += bool(config.watch(config.init(20), dense(values), y, guess))
    assert alarmed <= 4 + 3 * 2


MOVES = {
    "mean": (lambda rng, n: rng.normal(size=n), lambda rng, n: 1.0 + rng.normal(size=n)),
    "spread": (lambda rng, n: rng.normal(size=n), lambda rng, n: 2.0 * rng.normal(size=n)),
    "rate": (
        lambda rng, n: (rng.random(n) < 0.1) * 1.0,
        lambda rng, n: (rng.random(n) < 0.3) * 1.0,
    ),
    "rare": (
        lambda rng, n: (rng.random(n) < 0.002) * 1.0,
        lambda rng, n: (rng.random(n) < 0.08) * 1.0,
    ),
    "first there": (lambda rng, n: 0 * rng.random(n), lambda rng, n: (rng.random(n) < 0.1) * 1.0),
    "below a constant": (
        lambda rng, n: 1 + 0 * rng.random(n),
        lambda rng, n: 1 - (rng.random(n) < 0.1) * 1e-9,
    ),
    "gone": (lambda rng, n: (rng.random(n) < 0.2) * 1.0, lambda rng, n: 0 * rng.random(n)),
    "unit": (
        lambda rng, n: rng.exponential(size=n),
        lambda rng, n: 1e100 * rng.exponential(size=n),
    ),
    "classes": (
        lambda rng, n: rng.integers(0, 5, n) * 1.0,
        lambda rng, n: rng.choice([0, 1, 2, 4], n) * 1.0,
    ),
}


@looped(("before", "after"), MOVES.values(), ids=MOVES)
@looped("seed", range(3))
def test_only_the_moved_feature_is_found(before, after, seed):
    rng, config = np.random.default_rng(seed), Inputs(features=10)
    values = rng.normal(size=(7000, 10))
    # The values change in the fifth window.
    values[:, 4] = np.concatenate([before(rng, 4128), after(rng, 2872)])
    shifts = config.watch(config.init(10), dense(values), *quiet(7000))
    assert [(shift.row, shift.series) for shift in shifts] == [(4627, FEATURES + 4)]
    assert shifts[0].psi > 0.1
    assert shifts[0].distance > 0.05


@looped("series", [LABEL, PREDICTION])
def test_shares_of_labels_and_predictions_are_watched(series):
    rng, config = np.random.default_rng(3), Inputs(features=0)
    said = [np.where(rng.random(8000) < 0.1, 1.0, -1.0) for _ in range(2)]
    said[series][5000:] = np.where(rng.random(3000) < 0.3, 1.0, -1.0)
    X = Batch.from_rows([([0, 5], [1.0, 2.0])] * 8000)
    state = config.init(3)
    shifts = config.watch(state, X, said[0], said[1].astype(np.int64))
    assert [shift.series for shift in shifts] == [series]
    assert 5000 < shifts[0].row < 6200
    assert config.slots(state).size == 0
    assert config.psi(state).shape == (2,)


def test_after_an_alarm_only_that_series_starts_over():
    rng, config = np.random.default_rng(4), Inputs(features=2)
    values = rng.normal(size=(4000, 2))
    values[3000:, 1] += 3.0
    state = config.init(2)
    X, (y, guess) = dense(values), quiet(4000)
    (shift,) = config.watch(state, X, y, guess)
    assert shift.series == FEATURES + 1
    assert state.windows.tolist() == [3, 3, 3, 0]
    assert state.seen[FEATURES + 1] == 4000 - (shift.row + 1)
    assert config.psi(state)[FEATURES + 1] == shift.psi, (
        "the PSI must stay until the next whole window"
    )
    later = rng.normal(size=(6000, 2)) + np.array([0.0, 3.0])
    assert config.watch(state, dense(later), *quiet(6000)) == [], (
        "the values after the move must become the reference"
    )
    assert config.psi(state)[FEATURES + 1] < 0.2


def test_no_alarm_comes_before_the_first_whole_window():
    config = Inputs(features=1)
    values = np.random.default_rng(8).random((2628, 1))
    values[2128:] += 1.0
    state = config.init(1)
    assert config.watch(state, dense(values[:2627]), *quiet(2627)) == []
    assert config.psi(state).tolist() == [0.0] * 3
    (shift,) = config.watch(state, dense(values[2627:]), *quiet(1))
    assert shift == Shift(0, FEATURES, pytest.approx(1.0, abs=0.1), shift.psi)
    assert shift.psi > 1.0
