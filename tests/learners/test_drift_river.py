"""The same twenty streams of errors through River's detectors: alarms at the same events, or the
reason for the difference.
"""

import functools

import numpy as np
from river import drift

from learners.drift.detector import ALARM, NOTHING, WARNING
from learners.drift.kswin import critical_distance, p_value
from learners.drift.registry import DETECTORS, make_detector
from tests.learners.drift_streams import TWENTY, errors
from tests.looped import looped

RIVER = {
    "adwin": drift.ADWIN,
    "ddm": drift.binary.DDM,
    "eddm": drift.binary.EDDM,
    "hddm-a": drift.binary.HDDMA,
    "hddm-w": drift.binary.HDDMW,
    "page-hinkley": drift.PageHinkley,
    "kswin": drift.KSWIN,
}
ALL_BUT_KSWIN = [kind for kind in RIVER if kind != "kswin"]
OTHER = {
    "adwin:clock=1,M=1": drift.ADWIN(clock=1, max_buckets=1),
    "adwin:delta=0.1,clock=8,M=3,min_window=10,grace=50": drift.ADWIN(0.1, 8, 3, 10, 50),
    "ddm:warmup=100,warning=1.5,alarm=2.5": drift.binary.DDM(100, 1.5, 2.5),
    "eddm:warmup=50,alpha=0.9,beta=0.8": drift.binary.EDDM(50, 0.9, 0.8),
    "hddm-a:alpha_d=0.01,alpha_w=0.05,two_sided=true": drift.binary.HDDMA(
        0.01, 0.05, two_sided_test=True
    ),
    "hddm-w:alpha_d=0.01,alpha_w=0.05,lam=0.1,two_sided=true": drift.binary.HDDMW(
        0.01, 0.05, 0.1, two_sided_test=True
    ),
    "page-hinkley:lam=20,delta=0.01,alpha=0.999,mode=up": drift.PageHinkley(
        30, 0.01, 20, 0.999, "up"
    ),
    "page-hinkley:lam=20,delta=0.01,alpha=0.999,mode=down": drift.PageHinkley(
        30, 0.01, 20, 0.999, "down"
    ),
}


def run_river(detector, values):
    """Return River's outputs after each value, in our codes."""
    said = []
    for value in values.tolist():
        detector.update(value)
        warned = getattr(detector, "warning_detected", False)
        said.append(ALARM if detector.drift_detected else WARNING if warned else NOTHING)
    return np.array(said)


@functools.cache
def run_both(kind, stream):
    detector = make_detector(kind)
    return detector.watch(detector.init(), TWENTY[stream]).said, run_river(
        RIVER[kind](), TWENTY[stream]
    )


def test_every_detector_is_compared_on_twenty_streams():
    assert RIVER.keys() == DETECTORS.keys()
    assert len(TWENTY) == 20


@looped("stream", TWENTY)
@looped("kind", ALL_BUT_KSWIN)
def test_alarms_are_at_the_same_events(kind, stream):
    ours, rivers = run_both(kind, stream)
    assert np.flatnonzero(ours == ALARM).tolist() == np.flatnonzero(rivers == ALARM).tolist()


@looped("kind", ALL_BUT_KSWIN)
def test_the_streams_cause_alarms(kind):
    assert sum(np.count_nonzero(run_both(kind, stream)[0] == ALARM) for stream in TWENTY) >= 20


@looped("kind", ["ddm", "hddm-a", "hddm-w"])
@looped("stream", TWENTY)
def test_warnings_are_at_the_same_events(kind, stream):
    ours, rivers = run_both(kind, stream)
    assert ours.tolist() == rivers.tolist()


@looped("stream", TWENTY)
def test_eddm_forgets_a_warning_that_river_keeps(stream):
    """At a new largest p′ + 2s′ the level is 1 and ours says nothing. River keeps its flag until
    the next value without an error. At no other event does River warn where ours does not.
    """
    ours, rivers = run_both("eddm", stream)
    differ = np.flatnonzero(ours != rivers)
    assert (rivers[differ] == WARNING).all()
    assert (ours[differ] == NOTHING).all()
    assert (rivers[differ - 1] == WARNING).all(), (
        "River warned at an event that is not after a warning"
    )


@looped("spec", OTHER)
@looped("stream", ["there and back", "gradual, better", "many changes", "learning", "by turns"])
def test_alarms_are_at_the_same_events_with_other_parameters(spec, stream):
    detector = make_detector(spec)
    ours = detector.watch(detector.init(), TWENTY[stream]).said
    rivers = run_river(OTHER[spec].clone(), TWENTY[stream])
    assert np.flatnonzero(ours == ALARM).tolist() == np.flatnonzero(rivers == ALARM).tolist()


class Everything:
    """A source of random numbers that draws the whole population."""

    @staticmethod
    def sample(population, _):
        return list(population)


class WholeKswin(drift.KSWIN):
    """River's KSWIN, which uses the whole older part instead of a sample of it."""

    def _reset(self):
        super()._reset()
        self._rng = Everything()


KSWIN_STREAMS = {
    "abrupt, large": TWENTY["abrupt, large"][1_500:2_500],
    "better": errors(20, (400, 0.9, 0.9), (400, 0.1, 0.1)),
    "many changes": TWENTY["many changes"][:1_600],
    "gradual": errors(21, (300, 0.0, 0.0), (100, 0.0, 1.0), (300, 1.0, 1.0)),
    "very short": TWENTY["very short"],
    "none, then only": TWENTY["none, then only"][800:2_200],
    "values": np.concatenate(
        [np.random.default_rng(22).normal(mean, 1, 300) for mean in (0, 1, 3, 0)]
    ),
}


@looped("stream", KSWIN_STREAMS)
def test_kswin_differs_from_river_only_in_its_sample_and_level(stream):
    """For each test River draws a new, unseeded sample of 30 of the 70 older values, so no other
    detector has its alarms. With all 70, and with the probability that a test of 30 with 30 has at
    α = 0.005, River's alarms are ours.
    """
    values, detector = KSWIN_STREAMS[stream], make_detector("kswin")
    level = p_value(30, 30, critical_distance(30, 30, detector.alpha))
    ours = np.flatnonzero(detector.watch(detector.init(), values).said == ALARM)
    rivers = np.flatnonzero(run_river(WholeKswin(alpha=level * (1 + 1e-9)), values) == ALARM)
    assert ours.tolist() == rivers.tolist()
    assert ours.size > 0 or stream == "very short"
