"""The watch over inputs obeys the laws of every state, bit for bit."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.drift.inputs import FEATURES, LABEL, PREDICTION
from learners.state import flatten, state_digest
from tests.examples import examples
from tests.learners.drift_input_streams import (
    COLUMNS,
    LONG,
    SMALL,
    part,
    save_and_restore,
    stream,
    watch_stream,
)
from tests.looped import looped

some = examples(40)

every_stream = looped("events", LONG, ids=["plain", "hostile"])


@every_stream
def test_the_streams_have_shifts_of_every_kind(events):
    assert {shift.series for shift in watch_stream(events)[0]} >= {
        LABEL,
        PREDICTION,
        FEATURES,
        FEATURES + 1,
    }


@every_stream
@looped("step", [1, 7, 127, 128, 249])
def test_any_cut_gives_the_same_bits(events, step):
    shifts, state = watch_stream(events)
    pieces, other = watch_stream(events, range(step, events[1].size, step))
    assert pieces == shifts
    assert state_digest(other) == state_digest(state)


@some
@given(st.integers(0, 10**6), st.lists(st.integers(0, 600), max_size=5))
def test_any_cut_of_any_stream_gives_the_same_bits(seed, cuts):
    events = stream(seed, 600, hostile=seed % 2 == 0)
    shifts, state = watch_stream(events)
    pieces, other = watch_stream(events, [min(cut, 600) for cut in cuts])
    assert pieces == shifts
    assert state_digest(other) == state_digest(state)


@every_stream
@looped("place", [0, 1, 127, 128, 129, 207, 208, 247, 248, 1000, 2999])
def test_a_restored_watch_continues_with_the_same_bits(events, place):
    shifts, state = watch_stream(events)
    before, other = watch_stream(part(events, 0, place))
    other = save_and_restore(other)
    after = SMALL.watch(other, *part(events, place, 3000))
    assert before + [shift._replace(row=shift.row + place) for shift in after] == shifts
    assert state_digest(other) == state_digest(state)


@every_stream
def test_a_shift_depends_on_no_later_row(events):
    shifts, _ = watch_stream(events)
    place = shifts[len(shifts) // 2].row
    assert watch_stream(part(events, 0, place + 1))[0] == [
        shift for shift in shifts if shift.row <= place
    ]


@every_stream
def test_reading_writes_nothing_and_gives_copies(events):
    _, state = watch_stream(events)
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
        save_and_restore(state)


def test_event_weights_are_ignored():
    X, y, guess = LONG[0]
    other = watch_stream((X._replace(weights=np.zeros(y.size)), y, guess))
    assert other[0] == watch_stream(LONG[0])[0]
    assert state_digest(other[1]) == state_digest(watch_stream(LONG[0])[1])


def digests():
    """Return a digest of all shifts and of the final state, per stream."""
    found = []
    for events in LONG:
        shifts, state = watch_stream(part(events, 0, 1500))
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


if __name__ == "__main__":
    print(json.dumps(digests()))
