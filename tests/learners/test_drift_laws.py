"""What every detector must keep, bit for bit: the four laws, a fresh start after each alarm, and a
rise whose sign gives the direction.
"""

import json
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.drift.detector import ALARM, NOTHING, WARNING
from learners.drift.registry import DETECTORS, make_detector
from learners.state import flatten, state_digest
from tests.examples import examples
from tests.learners.drift_digests import digests
from tests.learners.drift_streams import EVERY, TWENTY, errors, name
from tests.looped import looped, looped_by

SCRIPT = Path(__file__).with_name("drift_digests.py")
some = examples(40)
every_detector = looped_by("detector", EVERY, lambda detector: detector.kind, name)


@st.composite
def streams(draw):
    """Zeros and ones, or values between, whose rate changes."""
    parts = draw(st.lists(st.tuples(st.integers(1, 60), st.floats(0, 1)), min_size=1, max_size=5))
    rates = np.concatenate([np.full(size, rate) for size, rate in parts])
    draws = np.random.default_rng(draw(st.integers(0, 10**6)))
    if draw(st.booleans()):
        return draws.beta(1 + 4 * rates, 5 - 4 * rates)
    return (draws.random(rates.size) < rates).astype(np.float64)


def same(one, other):
    return one.said.tobytes() == other.said.tobytes() and one.rise.tobytes() == other.rise.tobytes()


@every_detector
@given(values=streams(), data=st.data())
@some
def test_later_values_and_cuts_change_nothing(detector, values, data):
    whole_state, state = detector.init(), detector.init()
    whole = detector.watch(whole_state, values)
    cuts = sorted(data.draw(st.sets(st.integers(0, values.size), max_size=4)) | {0, values.size})
    for first, last in pairwise(cuts):
        part = detector.watch(state, values[first:last])
        assert same(part, type(whole)(*(array[first:last] for array in whole)))
    assert state_digest(state) == state_digest(whole_state)


@every_detector
@given(values=streams(), data=st.data())
@some
def test_save_and_restore_change_nothing(detector, values, data):
    state, cut = detector.init(), data.draw(st.integers(0, values.size))
    detector.watch(state, values[:cut])
    back = detector.restore({key: array.copy() for key, array in flatten(state).items()})
    assert detector.score(back) == detector.score(state)
    assert same(detector.watch(back, values[cut:]), detector.watch(state, values[cut:]))
    assert state_digest(back) == state_digest(state)


@every_detector
@looped("lie", [-1e18, -1, 7e17, 1e301, np.nan, np.inf], ids=str)
def test_an_impossible_state_is_refused_or_harmless(detector, lie):
    """One number is replaced. Interpreted kernels check their bounds, so a second process runs this
    test interpreted.
    """
    state, refused = detector.init(), 0
    detector.watch(state, TWENTY["stationary"][:333])
    for key, array in flatten(state).items():
        for place in {0, array.size // 2, array.size - 1}:
            if array.dtype == np.int64 and not abs(lie) < 2**62:
                continue
            arrays = {name: part.copy() for name, part in flatten(state).items()}
            arrays[key].reshape(-1)[place] = lie
            try:
                odd = detector.restore(arrays)
            except ValueError:
                refused += 1
                continue
            assert 0.0 <= detector.score(odd) <= 1.0
            detector.watch(odd, TWENTY["stationary"])
    assert refused > 0


@every_detector
@given(values=streams())
@some
def test_a_score_is_within_0_and_1_and_writes_nothing(detector, values):
    state = detector.init()
    assert detector.score(state) == 0.0
    for t in range(values.size):
        detector.watch(state, values[t : t + 1])
        before = state_digest(state)
        assert 0.0 <= detector.score(state) <= 1.0
        assert state_digest(state) == before


@every_detector
@given(values=streams())
@some
def test_an_alarm_resets_the_state(detector, values):
    fresh, state = state_digest(detector.init()), detector.init()
    for t in range(values.size):
        said, rise = detector.watch(state, values[t : t + 1])
        assert said.dtype == np.uint8
        assert rise.dtype == np.float64
        assert said[0] in (NOTHING, WARNING, ALARM)
        assert np.isfinite(rise[0])
        if said[0] == ALARM:
            assert state_digest(state) == fresh
        else:
            assert rise[0] == 0.0


@every_detector
def test_a_state_is_small_finite_and_never_grows(detector):
    state = detector.init()
    before = {key: (array.dtype, array.shape) for key, array in flatten(state).items()}
    for values in TWENTY.values():
        detector.watch(state, values)
    arrays = flatten(state)
    assert {key: (array.dtype, array.shape) for key, array in arrays.items()} == before
    assert {array.dtype.name for array in arrays.values()} <= {"float64", "int64", "uint8"}
    assert sum(array.nbytes for array in arrays.values()) <= 5_000
    assert all(np.isfinite(array).all() for array in arrays.values())


WORSE, BETTER = (
    errors(1, (3_000, 0.1, 0.1), (3_000, 0.9, 0.9)),
    errors(2, (3_000, 0.9, 0.9), (3_000, 0.1, 0.1)),
)
UP = ["adwin", "ddm", "eddm", "hddm-a", "hddm-w", "page-hinkley", "kswin"]
DOWN = ["adwin", "hddm-a:two_sided=true", "hddm-w:two_sided=true", "page-hinkley", "kswin"]


@looped(("spec", "values", "sign"), [(s, WORSE, 1) for s in UP] + [(s, BETTER, -1) for s in DOWN])
def test_a_large_change_is_found_with_the_sign_of_its_rise(spec, values, sign):
    detector = make_detector(spec)
    said, rise = detector.watch(detector.init(), values)
    first = np.flatnonzero(said[3_000:] == ALARM)[0]
    assert first < 200
    assert 0.02 < sign * rise[3_000 + first] < 1.0


@looped("spec", ["ddm", "hddm-a", "hddm-w", "page-hinkley:mode=up"])
def test_one_sided_detectors_ignore_a_fall_of_the_error(spec):
    detector = make_detector(spec)
    said = detector.watch(detector.init(), BETTER).said
    assert not (said[3_000:] == ALARM).any()


@looped("kind", DETECTORS)
def test_the_score_is_higher_before_an_alarm(kind):
    """In the last 10 values before an alarm it is at least twice as high as elsewhere."""
    detector, quiet, near = make_detector(kind), [], []
    for seed in range(10):
        state, scores = detector.init(), []
        for value in errors(seed, (2_000, 0.1, 0.1), (60, 0.1, 0.9), (140, 0.9, 0.9)):
            if detector.watch(state, np.array([value])).said[0] == ALARM:
                near += scores[-10:]
                quiet += scores[:-10]
                scores = []
            else:
                scores.append(detector.score(state))
    assert len(near) >= 100
    assert np.mean(near) > 2 * np.mean(quiet)


@looped("kind", DETECTORS)
def test_constant_streams_cause_no_alarm(kind):
    """The first error after a long error-free time alarms only DDM, whose deviation was 0."""
    detector = make_detector(kind)
    for value in (0.0, 1.0):
        said = detector.watch(detector.init(), np.full(5_000, value)).said
        assert (said == NOTHING).all()
    said = detector.watch(detector.init(), np.append(np.zeros(1_000), 1.0)).said
    assert (said[-1] == ALARM) == (kind == "ddm")


@pytest.mark.skipif(
    numba.config.DISABLE_JIT, reason="this run is interpreted: there is nothing to compare it with"
)
def test_interpreted_gives_the_same_bits():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(SCRIPT.parents[2])}
    run = subprocess.run(
        [sys.executable, SCRIPT], env=environment, stdout=subprocess.PIPE, check=True
    )
    assert json.loads(run.stdout) == digests()


MISTAKES = {
    "adwim": "unknown detector 'adwim'; did you mean 'adwin'",
    "hddm": "did you mean 'ddm'",
    "adwin:detla=0.1": "adwin has no parameter 'detla'; did you mean 'delta'",
    "ddm:alrm=4": "did you mean 'alarm'",
    "eddm:bta=0.5": "did you mean 'beta'",
    "hddm-a:alpha_s=0.1": "did you mean",
    "hddm-w:lamb=0.1": "did you mean 'lam'",
    "page-hinkley:lambda=3": "did you mean 'lam'",
    "kswin:alfa=0.1": "did you mean 'alpha'",
    "adwin:delta=0": "delta",
    "adwin:delta=nan": "delta",
    "adwin:M=0": "M",
    "adwin:clock=0.5": "clock",
    "ddm:warning=3,alarm=2": "warning must not be above alarm",
    "eddm:alpha=0.8": "alpha must not be below beta",
    "hddm-a:alpha_w=0.0001": "alpha_w must not be below alpha_d",
    "hddm-w:alpha_w=0.0001": "alpha_w must not be below alpha_d",
    "hddm-w:lam=0": "lam",
    "page-hinkley:mode=sideways": "mode",
    "kswin:r=51": "r must be at most n/2",
    "kswin:n=1000000": "n",
}


@looped("spec", MISTAKES)
def test_senseless_specs_are_refused_with_a_reason(spec):
    with pytest.raises(ValueError, match=MISTAKES[spec].replace("(", r"\(").replace("?", r"\?")):
        make_detector(spec)


def test_every_detector_has_a_rule():
    made = [make_detector(kind) for kind in DETECTORS]
    assert [detector.kind for detector in made] == list(DETECTORS)
    assert all(type(detector).rule for detector in made)
    assert {make_detector(detector.model_dump()) for detector in made} == set(made)
