"""The detectors against plain ones written from the papers, which keep every value: the same alarms
and rises.
"""

import importlib
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from learners.drift.adwin import _take
from learners.drift.detector import ALARM, WARNING
from learners.drift.kswin import critical_distance, distance, p_value
from learners.drift.registry import DETECTORS, make_detector
from tests.examples import examples
from tests.learners.drift_streams import EVERY, errors, name
from tests.learners.oracles.drift_adwin import Oracle
from tests.looped import looped

STREAMS = {
    "abrupt": errors(1, (300, 0.1, 0.1), (200, 0.6, 0.6)),
    "better": errors(2, (300, 0.6, 0.6), (200, 0.1, 0.1)),
    "gradual": errors(3, (500, 0.05, 0.7)),
    "steps": errors(4, *((100, rate, rate) for rate in (0.1, 0.5, 0.2, 0.9, 0.5))),
    "none, then only": np.repeat([0.0, 1.0, 0.0], 150),
}


def oracle(detector):
    module = importlib.import_module(
        f"tests.learners.oracles.drift_{detector.kind.replace('-', '_')}"
    )
    return module.Oracle(**detector.model_dump(exclude={"kind"}))


def check_against_oracle(detector, values):
    """Compare a detector with its oracle, and return its outputs."""
    watched, slow = detector.watch(detector.init(), values), oracle(detector)
    wanted = [slow.take(value) for value in values.tolist()]
    assert watched.said.tolist() == [said for said, _ in wanted]
    assert watched.rise == pytest.approx([rise for _, rise in wanted], rel=1e-9, abs=1e-12)
    return watched.said


@looped("detector", EVERY, ids=name)
@looped("stream", STREAMS)
def test_a_detector_equals_its_oracle(detector, stream):
    check_against_oracle(detector, STREAMS[stream])


@looped("kind", DETECTORS)
def test_the_streams_cause_alarms_and_warnings(kind):
    alike = [detector for detector in EVERY if detector.kind == kind]
    said = np.concatenate(
        [d.watch(d.init(), values).said for d in alike for values in STREAMS.values()]
    )
    assert np.count_nonzero(said == ALARM) >= 10
    assert np.count_nonzero(said == WARNING) >= (
        10 if kind in ("ddm", "eddm", "hddm-a", "hddm-w") else 0
    )


@looped("kind", ["adwin", "hddm-a", "hddm-w", "page-hinkley", "kswin"])
def test_values_between_0_and_1_are_accepted(kind):
    draws = np.random.default_rng(5)
    values = np.concatenate([draws.beta(2, 6, 250), draws.beta(6, 3, 200)])
    for detector in EVERY:
        if detector.kind == kind:
            check_against_oracle(detector, values)


def test_a_longer_life_of_adwin_equals_its_oracle():
    """The life is long enough for rows of large buckets."""
    values, detector = (
        errors(6, (6_000, 0.2, 0.2), (1_000, 0.3, 0.3)),
        make_detector("adwin:delta=0.05"),
    )
    assert np.count_nonzero(check_against_oracle(detector, values) == ALARM) >= 1


def test_adwin_looks_at_the_cut_after_the_newest_bucket_of_a_size():
    """A program that stops one bucket earlier finds no cut where each size has one bucket."""
    values, detector = np.repeat([0.0, 1.0], [64, 64]), make_detector("adwin:clock=1,M=1")
    slow = Oracle(**detector.model_dump(exclude={"kind"}), last_of_row=False)
    assert ALARM not in [slow.take(value)[0] for value in values.tolist()]
    assert ALARM in check_against_oracle(detector, values)


def test_adwin_without_a_free_row_starts_over():
    state = make_detector("adwin:M=2").init()
    few = state._replace(used=state.used[:3].copy(), sums=state.sums[:3].copy())
    counts = []
    for _ in range(40):
        _take(few, 1.0)
        counts.append(int(few.n[0]))
        assert few.n[0] == few.total[0] == few.sums.sum()
        assert (few.used <= 2).all()
        assert few.n[0] == sum(int(used) << i for i, used in enumerate(few.used))
    longest = max(counts)
    assert longest >= 2 * (1 + 2 + 4)
    assert counts[longest] == 0


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
    st.lists(st.integers(0, 9), min_size=1, max_size=40),
)
@examples(150)
def test_the_kolmogorov_smirnov_test_equals_scipys(one, other):
    with warnings.catch_warnings():
        # SciPy warns when a p-value of nearly 1 is rounded above 1.
        warnings.simplefilter("ignore", RuntimeWarning)
        wanted = ks_2samp(one, other, method="exact")
    h = distance(np.sort(np.array(one, float)), np.sort(np.array(other, float)))
    assert h / math.lcm(len(one), len(other)) == pytest.approx(wanted.statistic, abs=1e-12)
    # Sums of up to 40² terms, by two recursions.
    if wanted.pvalue < 0.999:  # above, SciPy may use the asymptotic formula
        assert p_value(len(one), len(other), h) == pytest.approx(wanted.pvalue, rel=1e-9)
    else:
        assert 0.999 * (1 - 1e-9) < p_value(len(one), len(other), h) <= 1.0 + 1e-12


@looped(("n", "m"), [(1, 1), (30, 30), (70, 30), (9, 5), (40, 13)])
@looped("alpha", [0.5, 0.05, 0.005, 1e-9])
def test_the_critical_distance_is_the_first_that_is_rare_enough(n, m, alpha):
    h, whole = critical_distance(n, m, alpha), math.lcm(n, m)
    assert p_value(n, m, h - 1) > alpha
    assert p_value(n, m, h) <= alpha
    assert h <= whole + 1
    assert p_value(n, m, whole + 1) == 0.0
