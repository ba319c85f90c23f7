"""The watch over inputs: the laws bit for bit, an oracle with scipy's tail, false alarms counted,
shifts found.
"""

import hashlib
import json
import math
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from learners.batch import Batch
from learners.drift.inputs import (
    FEATURES,
    LABEL,
    LARGEST,
    PREDICTION,
    Inputs,
    Shift,
    restore_inputs,
)
from learners.drift.two_sample import (
    BINS,
    EDGES,
    NO_EDGE,
    SAMPLE,
    bin_of,
    differ,
    log_tail,
    set_edges,
)
from learners.state import flatten, state_digest
from tests.learners.damage import put
from tests.looped import looped

SMALL = Inputs(features=6, window=40, reference=80, alpha=0.05)
"""Short lives: 248 events to the first comparison."""

COLUMNS = 3
ODD = [0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e100, -1e100, 1.0, 1.0 + 2**-52, 1.7e308, -1.7e308]
some = settings(max_examples=40, derandomize=True, deadline=None)


def stream(seed, events, *, hostile=False):
    """Columns 1 … 3 and slots up to 40, of which the first met are watched; everything moves now
    and then.
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
every_stream = looped("events", LONG, ids=["plain", "hostile"])


def part(events, first, last):
    X, y, guess = events
    first, last = min(first, y.size), min(last, y.size)
    return X.rows(first, last), y[first:last], guess[first:last]


def passed(events, cuts=(), config=SMALL, columns=COLUMNS):
    """Shifts with rows of the whole stream, and the state, after a pass in pieces."""
    state, ends, shifts = config.init(columns), [*sorted(cuts), events[1].size], []
    for first, last in zip([0, *ends], ends, strict=False):
        shifts += [
            shift._replace(row=shift.row + first)
            for shift in config.watch(state, *part(events, first, last))
        ]
    return shifts, state


def dense(values):
    """A batch of columns."""
    events, columns = values.shape
    slots = np.tile(np.arange(1, columns + 1, dtype=np.int32), events)
    return Batch(
        np.arange(events + 1) * columns,
        slots,
        np.ascontiguousarray(values).ravel(),
        np.ones(events),
    )


def quiet(events):
    """Labels and predictions that say nothing."""
    return np.ones(events), np.ones(events, np.int64)


def again(state, config=SMALL, columns=COLUMNS):
    """Saved and restored."""
    saved = {name: (a.tobytes(), a.dtype.str, a.shape) for name, a in flatten(state).items()}
    arrays = {n: np.frombuffer(raw, kind).reshape(shape) for n, (raw, kind, shape) in saved.items()}
    return restore_inputs(config, columns, arrays)


@every_stream
def test_the_streams_have_shifts_of_every_kind(events):
    assert {shift.series for shift in passed(events)[0]} >= {
        LABEL,
        PREDICTION,
        FEATURES,
        FEATURES + 1,
    }


@every_stream
@looped("step", [1, 7, 127, 128, 249])
def test_any_cut_gives_the_same(events, step):
    shifts, state = passed(events)
    pieces, other = passed(events, range(step, events[1].size, step))
    assert pieces == shifts
    assert state_digest(other) == state_digest(state)


@some
@given(st.integers(0, 10**6), st.lists(st.integers(0, 600), max_size=5))
def test_any_cut_of_any_stream_gives_the_same(seed, cuts):
    events = stream(seed, 600, hostile=seed % 2 == 0)
    shifts, state = passed(events)
    pieces, other = passed(events, [min(cut, 600) for cut in cuts])
    assert pieces == shifts
    assert state_digest(other) == state_digest(state)


@every_stream
@looped("place", [0, 1, 127, 128, 129, 207, 208, 247, 248, 1000, 2999])
def test_a_restored_watch_goes_on_the_same(events, place):
    shifts, state = passed(events)
    before, other = passed(part(events, 0, place))
    other = again(other)
    after = SMALL.watch(other, *part(events, place, 3000))
    assert before + [shift._replace(row=shift.row + place) for shift in after] == shifts
    assert state_digest(other) == state_digest(state)


@every_stream
def test_what_is_said_of_a_row_depends_on_no_later_one(events):
    shifts, _ = passed(events)
    place = shifts[len(shifts) // 2].row
    assert passed(part(events, 0, place + 1))[0] == [
        shift for shift in shifts if shift.row <= place
    ]


@every_stream
def test_reading_writes_nothing_and_gives_copies(events):
    _, state = passed(events)
    before = state_digest(state)
    for array in flatten(state).values():
        array.flags.writeable = False
    SMALL.psi(state)[:] = 9.0
    SMALL.slots(state)[:] = 9
    assert state_digest(state) == before


@every_stream
def test_a_state_can_be_restored_after_every_event(events):
    state = SMALL.init(COLUMNS)
    for t in range(1200):
        SMALL.watch(state, *part(events, t, t + 1))
        again(state)


def test_weights_do_not_matter():
    X, y, guess = LONG[0]
    other = passed((X._replace(weights=np.zeros(y.size)), y, guess))
    assert other[0] == passed(LONG[0])[0]
    assert state_digest(other[1]) == state_digest(passed(LONG[0])[1])


def digests():
    """Of all shifts and of the final state, of each stream."""
    found = []
    for events in LONG:
        shifts, state = passed(part(events, 0, 1500))
        found.append(hashlib.sha256(np.array(shifts).tobytes()).hexdigest() + state_digest(state))
    return found


@pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="this run is interpreted: there is nothing to compare it with"
)
def test_interpreted_gives_the_same_bits():
    script = Path(__file__)
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(script.parents[2])}
    run = subprocess.run(
        [sys.executable, script], env=environment, stdout=subprocess.PIPE, check=True
    )
    assert json.loads(run.stdout) == digests()


def oracle(values, config):
    """Places, distances and PSIs of the alarms of one series, and the last PSI; from the values
    themselves.
    """
    alarms, psi, start, k, place = [], 0.0, 0, 1, SAMPLE + config.reference
    while place + config.window <= values.size:
        sample = values[start : start + SAMPLE]
        quantiles = Counter(
            np.quantile(sample, np.arange(1, BINS) / BINS, method="inverted_cdf").tolist()
        )
        below = {math.nextafter(q, -math.inf) for q, times in quantiles.items() if times > 1}
        edges = np.array(sorted(below | set(quantiles)))
        old = values[start + SAMPLE : start + SAMPLE + config.reference]
        new = values[place : place + config.window]
        m, n = old.size, new.size
        counts = [
            np.bincount(np.searchsorted(edges, part), minlength=edges.size + 1)
            for part in (old, new)
        ]
        shares = (counts[0] + counts[1]) / (m + n)
        there = shares > 0
        p, q = (
            (counts[0][there] + shares[there]) / (m + 1),
            (counts[1][there] + shares[there]) / (n + 1),
        )
        psi = float(((q - p) * np.log(q / p)).sum())
        pairs = {(int((old <= e).sum()), int((new <= e).sum())) for e in edges} - {(0, 0), (m, n)}
        tails = [
            min(hypergeom.sf(b - 1, m + n, a + b, n), hypergeom.cdf(b, m + n, a + b, n))
            * 2
            * len(pairs)
            for a, b in pairs
        ]
        place += n
        if tails and min(tails) <= config.alpha / (FEATURES + config.features) / (k * (k + 1)):
            distance = max(abs((old <= e).mean() - (new <= e).mean()) for e in edges)
            alarms.append((place - 1, distance, psi))
            start, k, place = place, 1, place + SAMPLE + config.reference
        else:
            k += 1
    return alarms, psi


def series_of(events, state):
    """The values of each series and the row where it began."""
    X, y, guess = events
    whole = np.zeros((y.size, 41))
    for t in range(y.size):
        whole[t, X.indices[X.indptr[t] : X.indptr[t + 1]]] = X.values[X.indptr[t] : X.indptr[t + 1]]
    yield 0, y
    yield 0, guess.astype(np.float64)
    for f, slot in enumerate(state.slot):
        begun = 0 if f < COLUMNS else int(np.flatnonzero(whole[:, slot])[0])
        yield begun, whole[begun:, slot]


@looped("seed", range(5))
def test_shifts_are_those_of_the_oracle(seed):
    events = stream(seed, 6000)
    shifts, state = passed(events)
    assert (state.slot > 0).all()
    for series, (begun, values) in enumerate(series_of(events, state)):
        alarms, psi = oracle(values, SMALL)
        found = [shift for shift in shifts if shift.series == series]
        assert [shift.row for shift in found] == [begun + place for place, _, _ in alarms]
        assert [shift.distance for shift in found] == pytest.approx(
            [distance for _, distance, _ in alarms]
        )
        assert [shift.psi for shift in found] == pytest.approx([psi for _, _, psi in alarms])
        assert SMALL.psi(state)[series] == pytest.approx(psi)
    assert len(shifts) > 5


@looped("seed", range(4))
def test_the_order_of_shifts_is_that_of_rows_then_series(seed):
    shifts, _ = passed(stream(seed, 6000))
    assert [shift[:2] for shift in shifts] == sorted(shift[:2] for shift in shifts)


@some
@given(st.integers(1, 3000), st.integers(1, 3000), st.floats(0, 1), st.floats(0, 1))
def test_the_tail_is_the_hypergeometric_one(m, n, pooled, high):
    K = round(pooled * (m + n))
    least, most = max(0, K - m), min(n, K)
    b = round(least + high * (most - least))
    if b > n * K / (m + n):
        wanted = hypergeom.logsf(b - 1, m + n, K, n)
        assert log_tail(m + n, K, n, b) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


SAMPLES = {
    "all different": (np.arange(128.0), EDGES),
    "constant": (np.full(128, 3.0), 2),
    "nearly always 0": (np.where(np.arange(128) < 5, 2.0, 0.0), 2),
    "0 and 1": (np.arange(128) % 2.0, 4),
    "ten classes": (np.arange(128) % 10.0, None),
    "neighbours": (np.where(np.arange(128) < 64, 1.0, np.nextafter(1.0, 2.0)), 3),
    "huge": (np.where(np.arange(128) < 64, -1e100, 1e100), 4),
}


@looped(("sample", "wanted"), SAMPLES.values(), ids=SAMPLES)
def test_edges_part_what_can_be_parted(sample, wanted):
    edges = np.empty(EDGES)
    set_edges(edges, np.random.default_rng(0).permutation(sample))
    used = edges[edges < NO_EDGE]
    assert (np.diff(used) > 0).all()
    assert (edges[used.size :] == NO_EDGE).all()
    if wanted is not None:
        assert used.size == wanted
    values, counts = np.unique(sample, return_counts=True)
    for value in values[counts >= 2 * SAMPLE // BINS]:  # a bin of its own
        k = bin_of(edges, value)
        assert bin_of(edges, np.nextafter(value, -np.inf)) == k - 1
        assert bin_of(edges, np.nextafter(value, np.inf)) == k + 1
    assert bin_of(edges, -np.inf) == 0
    assert bin_of(edges, np.inf) == used.size


def test_bins_share_the_sample():
    rng = np.random.default_rng(1)
    sample, edges = np.exp(9 * rng.normal(size=SAMPLE)), np.empty(EDGES)
    set_edges(edges, sample)
    assert np.bincount([bin_of(edges, x) for x in sample]).tolist() == [SAMPLE // BINS] * BINS


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
def test_a_test_at_a_level_is_wrong_no_more_often(draw):
    """At 0.05, where the bound can be seen to hold and not to be empty."""
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


def test_a_stationary_world_of_all_kinds_has_hardly_an_alarm():
    """Labels and predictions are class numbers; alpha is 0.1, and 40 lives of 12,000 events are
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
def test_what_moves_is_found_and_nothing_else(before, after, seed):
    rng, config = np.random.default_rng(seed), Inputs(features=10)
    values = rng.normal(size=(7000, 10))
    values[:, 4] = np.concatenate([before(rng, 4128), after(rng, 2872)])  # with the fifth window
    shifts = config.watch(config.init(10), dense(values), *quiet(7000))
    assert [(shift.row, shift.series) for shift in shifts] == [(4627, FEATURES + 4)]
    assert shifts[0].psi > 0.1
    assert shifts[0].distance > 0.05


@looped("series", [LABEL, PREDICTION])
def test_rates_of_labels_and_predictions_are_watched(series):
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


def test_after_an_alarm_that_series_alone_begins_anew():
    rng, config = np.random.default_rng(4), Inputs(features=2)
    values = rng.normal(size=(4000, 2))
    values[3000:, 1] += 3.0
    state = config.init(2)
    X, (y, guess) = dense(values), quiet(4000)
    (shift,) = config.watch(state, X, y, guess)
    assert shift.series == FEATURES + 1
    assert state.windows.tolist() == [3, 3, 3, 0]
    assert state.seen[FEATURES + 1] == 4000 - (shift.row + 1)
    assert config.psi(state)[FEATURES + 1] == shift.psi, "told until there is another whole window"
    later = rng.normal(size=(6000, 2)) + np.array([0.0, 3.0])
    assert config.watch(state, dense(later), *quiet(6000)) == [], "the new world is its reference"
    assert config.psi(state)[FEATURES + 1] < 0.2


def test_nothing_is_said_before_the_first_whole_window():
    config = Inputs(features=1)
    values = np.random.default_rng(8).random((2628, 1))
    values[2128:] += 1.0
    state = config.init(1)
    assert config.watch(state, dense(values[:2627]), *quiet(2627)) == []
    assert config.psi(state).tolist() == [0.0] * 3
    (shift,) = config.watch(state, dense(values[2627:]), *quiet(1))
    assert shift == Shift(0, FEATURES, pytest.approx(1.0, abs=0.1), shift.psi)
    assert shift.psi > 1.0


def test_slots_are_watched_in_the_order_they_are_met_up_to_the_cap():
    config = Inputs(features=4)
    rows = [([0, 9, 30], [1.0, 0.0, 2.0]), ([0, 1, 12], [1.0, 1.0, 1.0]), ([0, 7, 9], [1.0] * 3)]
    state = config.init(2)
    assert config.slots(state).tolist() == [1, 2, -1, -1]
    config.watch(state, Batch.from_rows(rows), *quiet(3))
    assert config.slots(state).tolist() == [1, 2, 30, 12], "a 0 is no meeting"
    assert state.seen.tolist() == [3, 3, 3, 3, 3, 2]
    assert state.sample[FEATURES + 3, :2].tolist() == [1.0, 0.0]


def test_a_stream_of_ever_new_slots_fits_into_the_same_state():
    config = Inputs()
    state = config.init(3)
    size = sum(array.nbytes for array in flatten(state).values())
    rows = [([0, *range(4 + 5 * t, 9 + 5 * t)], [1.0] * 6) for t in range(20_000)]
    assert config.watch(state, Batch.from_rows(rows), *quiet(20_000)) == []
    assert sum(array.nbytes for array in flatten(state).values()) == size <= 100_000
    assert config.slots(state).tolist() == [1, 2, 3, *range(4, 65)]


def test_slots_that_fall_on_the_same_cells_are_told_apart():
    config = Inputs(features=8)
    state, slots = config.init(0), [32 * k + 1 for k in range(1, 12)]
    for j in slots:
        config.watch(state, Batch.from_rows([([0, j], [1.0, float(j)])]), *quiet(1))
    assert config.slots(state).tolist() == slots[:8]
    assert [state.sample[FEATURES + f, 0] for f in range(8)] == slots[:8]
    config.watch(state, Batch.from_rows([([0, *slots], [1.0, *map(float, slots)])]), *quiet(1))
    assert [state.sample[FEATURES + f, 11 - f] for f in range(8)] == slots[:8]


def test_of_more_columns_than_are_watched_the_first_are():
    config, rng = Inputs(features=4), np.random.default_rng(6)
    values = rng.normal(size=(4000, 9))
    values[2600:, 3:5] += 2.0
    state = config.init(9)
    shifts = config.watch(state, dense(values), *quiet(4000))
    assert config.slots(state).tolist() == [1, 2, 3, 4]
    assert [shift.series for shift in shifts] == [FEATURES + 3]


def test_an_absent_feature_is_0():
    rng = np.random.default_rng(7)
    values = np.where(rng.random((2000, 5)) < 0.6, 0.0, rng.normal(size=(2000, 5)))
    values[900:] = np.where(rng.random((1100, 5)) < 0.05, 0.0, 3.0 + rng.normal(size=(1100, 5)))
    rows = [([int(j) + 1 for j in np.flatnonzero(row)], row[row != 0].tolist()) for row in values]
    y, guess = quiet(2000)
    sparse, full = passed((Batch.from_rows(rows), y, guess)), passed((dense(values), y, guess))
    assert sparse[0] == full[0] != []
    assert state_digest(sparse[1]) == state_digest(full[1])


@looped(
    "wrong",
    [
        {"features": -1},
        {"features": 1025},
        {"window": 0},
        {"reference": 1},
        {"alpha": 0.0},
        {"beta": 1},
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Inputs(**wrong)


DAMAGE = {
    "a column elsewhere": ("slot", put(0, 9)),
    "a slot twice": ("slot", lambda a: np.where(np.arange(6) == 4, a[3], a)),
    "a gap": ("slot", put(4, -1)),
    "a slot below the columns": ("slot", put(3, 2)),
    "the bias": ("slot", put(5, 0)),
    "no slot": ("slot", put(5, 2**31)),
    "fewer than none": ("slot", put(5, -7)),
    "negative place": ("seen", put(0, -1)),
    "a place beyond": ("seen", put(0, 248)),
    "far beyond": ("seen", put(2, 2**62)),
    "another place": ("seen", lambda a: a + 1),
    "windows before there is a reference": ("windows", put(1, 3)),
    "negative windows": ("windows", put(0, -1)),
    "windows at which counting ends": ("windows", put(0, 2**63 - 10)),
    "an infinite sample": ("sample", put((1, 0), np.inf)),
    "no sample": ("sample", put((1, 0), np.nan)),
    "a huge sample": ("sample", put((1, 0), 2 * LARGEST)),
    "a sample to come": ("sample", put((1, 120), 1.0)),
    "a sample that is used up": ("sample", put((0, 0), 1.0)),
    "edges that fall": ("edges", lambda a: a[:, ::-1].copy()),
    "an edge that is none": ("edges", put((0, 0), np.nan)),
    "an infinite edge": ("edges", put((0, 0), -np.inf)),
    "no edge": ("edges", put(0, NO_EDGE)),
    "an edge after the last": ("edges", put((0, EDGES - 1), 1e9)),
    "an edge too early": ("edges", put((1, 0), 1.0)),
    "a negative count": ("base", lambda a: a - np.eye(*a.shape, dtype=np.int64) * 10**6),
    "counts that overflow to the sum": ("base", lambda a: a + 2**62 * (np.arange(BINS) < 4)),
    "another count": ("base", lambda a: a + 1),
    "a count where there is no bin": ("base", lambda a: a[:, ::-1].copy()),
    "recent": ("recent", put((0, 0), 41)),
    "negative psi": ("psi", lambda a: a - 1.0),
    "psi": ("psi", put(0, np.nan)),
}


def damaged():
    """A watch whose labels have a reference, and whose predictions have only a sample."""
    state = SMALL.init(COLUMNS)
    SMALL.watch(state, *part(LONG[0], 0, 1229))
    one = SMALL.init(COLUMNS)
    SMALL.watch(one, *part(LONG[0], 0, 60))
    for name in ("seen", "windows", "sample", "edges", "base", "recent"):
        getattr(state, name)[PREDICTION] = getattr(one, name)[PREDICTION]
    return state


def test_the_state_that_is_damaged_is_whole():
    state = damaged()
    assert state.seen[LABEL] > SAMPLE
    assert state.windows[LABEL] > 0
    assert state.seen[PREDICTION] == 60
    again(state)


@looped(("name", "change"), DAMAGE.values(), ids=DAMAGE)
def test_what_no_events_lead_to_is_refused(name, change):
    arrays = flatten(damaged())
    with pytest.raises(ValueError, match="corrupt checkpoint"):
        restore_inputs(SMALL, COLUMNS, arrays | {name: change(arrays[name])})


def test_what_is_of_no_slot_is_empty():
    arrays = flatten(SMALL.init(COLUMNS))
    for name, value in (("seen", 1), ("psi", 1.0)):
        with pytest.raises(ValueError, match="corrupt checkpoint"):
            restore_inputs(SMALL, COLUMNS, arrays | {name: put(7, value)(arrays[name])})


@looped("other", [{"features": 5}, {"reference": 60}, {"window": 20}])
def test_a_state_of_another_configuration_is_refused(other):
    config = SMALL.model_copy(update=other)
    _, state = passed(part(LONG[0], 0, 240))
    with pytest.raises(ValueError, match=r"corrupt checkpoint|this learner has"):
        restore_inputs(config, COLUMNS, flatten(state))
    with pytest.raises(ValueError, match="corrupt checkpoint"):
        restore_inputs(SMALL, COLUMNS + 1, flatten(state))


@some
@given(st.data())
def test_no_damage_that_is_let_through_does_harm(data):
    """One number of one array is anything: it is refused, or the watch goes on and can be restored
    again.
    """
    arrays = {name: array.copy() for name, array in flatten(damaged()).items()}
    array = arrays[data.draw(st.sampled_from(sorted(arrays)))]
    place = data.draw(st.integers(0, array.size - 1))
    floats = array.dtype == np.float64
    array.flat[place] = data.draw(st.floats() if floats else st.integers(-(2**63), 2**63 - 1))
    try:
        state = restore_inputs(SMALL, COLUMNS, arrays)
    except ValueError:
        return
    SMALL.watch(state, *part(LONG[1], 0, 700))
    again(state)


if __name__ == "__main__":
    print(json.dumps(digests()))
