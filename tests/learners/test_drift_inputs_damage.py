"""A watch over inputs refuses senseless settings, and a state that no events lead to."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.drift.inputs import LABEL, LARGEST, PREDICTION, Inputs, restore_inputs
from learners.drift.two_sample import BINS, EDGES, NO_EDGE, SAMPLE
from learners.state import flatten
from tests.examples import examples
from tests.learners.damage import put
from tests.learners.drift_input_streams import (
    COLUMNS,
    LONG,
    SMALL,
    part,
    save_and_restore,
    watch_stream,
)
from tests.looped import looped

some = examples(40)


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
def test_senseless_settings_are_refused(wrong):
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


def make_state():
    """Return a watch whose labels have a reference, and whose predictions have only a sample."""
    state = SMALL.init(COLUMNS)
    SMALL.watch(state, *part(LONG[0], 0, 1229))
    one = SMALL.init(COLUMNS)
    SMALL.watch(one, *part(LONG[0], 0, 60))
    for name in ("seen", "windows", "sample", "edges", "base", "recent"):
        getattr(state, name)[PREDICTION] = getattr(one, name)[PREDICTION]
    return state


def test_the_undamaged_state_is_accepted():
    state = make_state()
    assert state.seen[LABEL] > SAMPLE
    assert state.windows[LABEL] > 0
    assert state.seen[PREDICTION] == 60
    save_and_restore(state)


@looped(("name", "change"), DAMAGE.values(), ids=DAMAGE)
def test_a_state_that_no_events_lead_to_is_refused(name, change):
    arrays = flatten(make_state())
    with pytest.raises(ValueError, match="corrupt checkpoint"):
        restore_inputs(SMALL, COLUMNS, arrays | {name: change(arrays[name])})


def test_numbers_of_an_unused_series_are_refused():
    arrays = flatten(SMALL.init(COLUMNS))
    for name, value in (("seen", 1), ("psi", 1.0)):
        with pytest.raises(ValueError, match="corrupt checkpoint"):
            restore_inputs(SMALL, COLUMNS, arrays | {name: put(7, value)(arrays[name])})


@looped("other", [{"features": 5}, {"reference": 60}, {"window": 20}])
def test_a_state_of_another_configuration_is_refused(other):
    config = SMALL.model_copy(update=other)
    _, state = watch_stream(part(LONG[0], 0, 240))
    with pytest.raises(ValueError, match=r"corrupt checkpoint|this learner has"):
        restore_inputs(config, COLUMNS, flatten(state))
    with pytest.raises(ValueError, match="corrupt checkpoint"):
        restore_inputs(SMALL, COLUMNS + 1, flatten(state))


@some
@given(st.data())
def test_damage_is_refused_or_harmless(data):
    """Replace one number of one array: the state is refused, or the watch continues and can be
    restored again.
    """
    arrays = {name: array.copy() for name, array in flatten(make_state()).items()}
    array = arrays[data.draw(st.sampled_from(sorted(arrays)))]
    place = data.draw(st.integers(0, array.size - 1))
    floats = array.dtype == np.float64
    array.flat[place] = data.draw(st.floats() if floats else st.integers(-(2**63), 2**63 - 1))
    try:
        state = restore_inputs(SMALL, COLUMNS, arrays)
    except ValueError:
        return
    SMALL.watch(state, *part(LONG[1], 0, 700))
    save_and_restore(state)
