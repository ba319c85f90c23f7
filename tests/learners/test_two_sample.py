"""The test of two samples: its edges separate all values that can be separated, and its tail is the
hypergeometric one.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

from learners.drift.two_sample import BINS, EDGES, NO_EDGE, SAMPLE, bin_of, log_tail, set_edges
from tests.examples import examples
from tests.looped import looped

some = examples(40)


@some
@given(st.integers(1, 3000), st.integers(1, 3000), st.floats(0, 1), st.floats(0, 1))
def test_the_tail_equals_the_hypergeometric_one(m, n, pooled, high):
    K = round(pooled * (m + n))
    least, most = max(0, K - m), min(n, K)
    b = round(least + high * (most - least))
    if b > n * K / (m + n):
        # Differences of logarithms of factorials up to 6000!, which are about 46,000: each is
        # rounded by 2⁻⁵³ of that, here and in SciPy.
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
def test_edges_separate_all_frequent_values(sample, wanted):
    edges = np.empty(EDGES)
    set_edges(edges, np.random.default_rng(0).permutation(sample))
    used = edges[edges < NO_EDGE]
    assert (np.diff(used) > 0).all()
    assert (edges[used.size :] == NO_EDGE).all()
    if wanted is not None:
        assert used.size == wanted
    values, counts = np.unique(sample, return_counts=True)
    for value in values[counts >= 2 * SAMPLE // BINS]:  # a separate bin
        k = bin_of(edges, value)
        assert bin_of(edges, np.nextafter(value, -np.inf)) == k - 1
        assert bin_of(edges, np.nextafter(value, np.inf)) == k + 1
    assert bin_of(edges, -np.inf) == 0
    assert bin_of(edges, np.inf) == used.size


def test_bins_share_the_sample_evenly():
    rng = np.random.default_rng(1)
    sample, edges = np.exp(9 * rng.normal(size=SAMPLE)), np.empty(EDGES)
    set_edges(edges, sample)
    assert np.bincount([bin_of(edges, x) for x in sample]).tolist() == [SAMPLE // BINS] * BINS
