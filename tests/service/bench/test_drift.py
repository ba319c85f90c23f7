"""The drift bench compares every detector with River's and with one that always fires, and has a
bar for each promise.
"""

import pytest
from river.drift import kswin
from scipy import stats

from learners.drift.registry import DETECTORS
from service.bench import drift
from service.bench.drift import detectors as drift_detectors
from service.bench.drift.detectors import RIVER, _bars, _figures


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(drift_detectors, "STATIONARY", 500)
    monkeypatch.setattr(drift_detectors, "CHANGE", 300)
    monkeypatch.setattr(drift_detectors, "EVENTS", 600)


@pytest.mark.usefixtures("small")
def test_the_detectors_section_compares_each_detector_with_river(monkeypatch):
    monkeypatch.setattr(drift, "SECTIONS", (drift_detectors.measure_detectors,))
    found = drift.bench_drift(quick=True)
    table = found["results"]["detectors on the error"]
    assert table.keys() == {*DETECTORS, "always"}
    assert RIVER.keys() == DETECTORS.keys()
    for kind in DETECTORS:
        assert table[kind].keys() == {"onepass", "river"}
        if kind != "kswin":  # River's KSWIN draws samples
            assert table[kind]["onepass"] == table[kind]["river"], (
                "the same alarms must give the same figures"
            )
    assert len(found["bars"]) == 3 + 3 * len(RIVER)
    assert kswin.stats is stats, "the bench must not leave River patched"
    for bar in found["bars"]:
        assert bar.keys() == {"name", "value", "op", "goal", "ok"}


@pytest.mark.usefixtures("small")
def test_a_detector_that_always_fires_finds_all_with_most_false_alarms():
    figures = _figures(lambda values, _: iter(range(values.size)), 2)
    assert figures["abrupt found"] == figures["gradual found"] == 1.0
    assert figures["abrupt soon"] == 1.0
    assert figures["abrupt delay"] == 0
    assert figures["false before"] == figures["false stationary"] == 10_000


@pytest.mark.usefixtures("small")
def test_a_detector_that_never_fires_has_the_largest_delay():
    figures = _figures(lambda *_: iter(()), 2)
    assert figures["abrupt found"] == 0.0
    assert figures["abrupt delay"] == 300
    assert figures["false before"] == figures["false stationary"] == 0


def test_a_worse_detector_misses_its_bars():
    good = {
        "abrupt found": 1.0,
        "abrupt delay": 100,
        "gradual delay": 500,
        "false stationary": 0.05,
    }
    bad = {"abrupt found": 0.9, "abrupt delay": 201, "gradual delay": 551, "false stationary": 0.11}
    assert all(bar.ok for bar in _bars({"adwin": {"onepass": good, "river": good}}))
    assert not any(bar.ok for bar in _bars({"adwin": {"onepass": bad, "river": good}}))
