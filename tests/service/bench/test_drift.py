"""The bench of drift: every detector beside River's and one that always fires, and a bar for each
promise.
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
def test_the_section_of_the_detectors(monkeypatch):
    monkeypatch.setattr(drift, "SECTIONS", (drift_detectors.measure_detectors,))
    found = drift.bench_drift(quick=True)
    table = found["results"]["detectors on the error"]
    assert table.keys() == {*DETECTORS, "always"}
    assert RIVER.keys() == DETECTORS.keys()
    for kind in DETECTORS:
        assert table[kind].keys() == {"onepass", "river"}
        if kind != "kswin":  # River's draws samples
            assert table[kind]["onepass"] == table[kind]["river"], (
                "the same alarms, so the same figures"
            )
    assert len(found["bars"]) == 3 + 3 * len(RIVER)
    assert kswin.stats is stats, "River is left as it was"
    for bar in found["bars"]:
        assert bar.keys() == {"name", "value", "op", "goal", "ok"}


@pytest.mark.usefixtures("small")
def test_one_that_always_fires_finds_everything_and_means_nothing():
    figures = _figures(lambda values, _: iter(range(values.size)), 2)
    assert figures["abrupt found"] == figures["gradual found"] == 1.0
    assert figures["abrupt soon"] == 1.0
    assert figures["abrupt delay"] == 0
    assert figures["false before"] == figures["false stationary"] == 10_000


@pytest.mark.usefixtures("small")
def test_one_that_never_fires_is_as_late_as_can_be():
    figures = _figures(lambda *_: iter(()), 2)
    assert figures["abrupt found"] == 0.0
    assert figures["abrupt delay"] == 300
    assert figures["false before"] == figures["false stationary"] == 0


def test_a_worse_one_misses_its_bars():
    good = {
        "abrupt found": 1.0,
        "abrupt delay": 100,
        "gradual delay": 500,
        "false stationary": 0.05,
    }
    bad = {"abrupt found": 0.9, "abrupt delay": 201, "gradual delay": 551, "false stationary": 0.11}
    assert all(bar.ok for bar in _bars({"adwin": {"onepass": good, "river": good}}))
    assert not any(bar.ok for bar in _bars({"adwin": {"onepass": bad, "river": good}}))
