"""The watch over inputs finds the same shifts as an oracle that takes its tail from SciPy."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import hypergeom

from learners.drift.inputs import FEATURES
from learners.drift.two_sample import BINS, SAMPLE
from tests.learners.drift_input_streams import COLUMNS, SMALL, stream, watch_stream
from tests.looped import looped


def edges_of(sample):
    """Return the quantiles, and for each repeated quantile the number right below it."""
    quantiles = Counter(
        np.quantile(sample, np.arange(1, BINS) / BINS, method="inverted_cdf").tolist()
    )
    below = {math.nextafter(q, -math.inf) for q, times in quantiles.items() if times > 1}
    return np.array(sorted(below | set(quantiles)))


def oracle(values, config):
    """Return places, distances and PSIs of the alarms of one series, and the last PSI; computed
    from the values themselves.
    """
    alarms, psi, start, k, place = [], 0.0, 0, 1, SAMPLE + config.reference
    while place + config.window <= values.size:
        sample = values[start : start + SAMPLE]
        edges = edges_of(sample)
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
    """Yield the values of each series and the row where it begins."""
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
    shifts, state = watch_stream(events)
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
def test_shifts_are_ordered_by_row_then_by_series(seed):
    shifts, _ = watch_stream(stream(seed, 6000))
    assert [shift[:2] for shift in shifts] == sorted(shift[:2] for shift in shifts)
