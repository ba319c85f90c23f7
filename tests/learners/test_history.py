"""The history is a bounded curve of a life of any length; compared with a list of all events."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.evaluation.history import (
    MOST,
    NEAR,
    POINTS,
    fresh_history,
    latest,
    restore_history,
    whole,
)
from learners.evaluation.progress import fresh_progress
from learners.evaluation.quality import assess, fresh_quality
from learners.state import flatten, state_digest
from tests.examples import examples
from tests.looped import looped

some = examples(60)
LENGTHS = [
    0,
    1,
    2,
    199,
    200,
    255,
    256,
    257,
    258,
    511,
    512,
    513,
    514,
    1000,
    32_768,
    32_800,
    32_896,
    51_200,
    51_400,
    70_001,
]
"""Events; at 32,800 a latest point is due just before the whole curve has to be thinned."""


def stream(seed, events):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(events) < 0.3, 1.0, -1.0)
    return y, np.where(rng.random(events) < 0.8, y, -y).astype(np.int64), rng.random(events)


def learn_history(rows, cuts=()):
    """Return the history after rows that were learned in pieces."""
    parts, ends = (
        (fresh_progress(), fresh_quality(0), fresh_history()),
        [*sorted(cuts), len(rows[0])],
    )
    for first, last in zip([0, *ends], ends, strict=False):
        assess(*parts, *(array[first:last] for array in rows))
    return parts[2]


def count_all(rows):
    """Return in row n the four counts after n events, in plain Python."""
    points, counts, came = [[0, 0, 0, 0]], {}, []
    errors = majority = no_change = 0
    top = None
    for label, guess in zip(rows[0].tolist(), rows[1].tolist(), strict=True):
        errors += guess != label
        majority += top != label
        no_change += not came or came[-1] != label
        came.append(label)
        counts[label] = counts.get(label, 0) + 1
        if top is None or counts[label] > counts[top]:
            top = label
        points.append([len(came), errors, majority, no_change])
    return np.array(points)


LONG = stream(1, max(LENGTHS))
ALL = count_all(LONG)


@looped("length", LENGTHS)
def test_curves_are_points_of_the_true_counts(length):
    history = learn_history([array[:length] for array in LONG])
    life, near = whole(history), latest(history)
    for curve in (life, near):
        assert curve.dtype == np.int64
        assert curve.shape[1] == 4
        assert len(curve) <= POINTS
        assert curve.tolist() == ALL[curve[:, 0]].tolist()
    assert near[:, 0].tolist() == list(range(NEAR, length + 1, NEAR))[-POINTS:]
    step = int(life[0, 0]) if length else 1
    assert life[:, 0].tolist() == list(range(step, length + 1, step))
    assert step == 1 or len(life) >= POINTS // 2, "the curve is coarser than needed"


@some
@given(st.integers(0, 600), st.lists(st.integers(0, 600), max_size=5))
def test_cuts_change_nothing(length, cuts):
    rows = [array[:length] for array in LONG]
    assert state_digest(learn_history(rows, [min(cut, length) for cut in cuts])) == state_digest(
        learn_history(rows)
    )


def test_cuts_change_nothing_over_a_long_life():
    assert state_digest(learn_history(LONG, range(0, len(LONG[0]), 64))) == state_digest(
        learn_history(LONG)
    )


@looped("length", LENGTHS)
def test_a_restored_history_continues_with_the_same_bits(length):
    parts = fresh_progress(), fresh_quality(0), fresh_history()
    assess(*parts, *(array[:length] for array in LONG))
    restored = restore_history(flatten(parts[2]))
    assert state_digest(restored) == state_digest(parts[2])
    assess(*parts[:2], restored, *(array[length:] for array in LONG))
    assert state_digest(restored) == state_digest(learn_history(LONG))


def test_curves_are_copies():
    history = learn_history(LONG)
    digest = state_digest(history)
    for curve in (whole(history), latest(history)):
        curve[:] = -1
    assert state_digest(history) == digest


def test_the_history_is_small():
    assert sum(array.nbytes for array in fresh_history()) <= 16_500


def add_at(array, place, by):
    array = array.copy()
    array[place] += by
    return array


DAMAGE = {
    "one event more": ("marked", lambda a: add_at(a, 0, NEAR)),
    "fewer than none": ("marked", lambda a: add_at(a, 0, -(10**6))),
    "more than can be": ("marked", lambda a: add_at(a, 0, MOST)),
    "another step": ("marked", lambda a: add_at(a, 1, 1)),
    "no step": ("marked", lambda a: a * [1, 0]),
    "negative step": ("marked", lambda a: -a),
    "a point elsewhere": ("life", lambda a: add_at(a, (7, 0), 1)),
    "more errors than events": ("life", lambda a: add_at(a, (7, 1), 10**6)),
    "errors that fall": ("life", lambda a: add_at(a, (7, 1), -int(a[7, 1]))),
    "negative errors": ("near", lambda a: add_at(a, (0, 1), -(10**6))),
    "points out of order": ("near", lambda a: a[::-1].copy()),
    "latest points of another life": ("near", lambda a: add_at(a, (slice(None), 1), 3000)),
    "a point after the last": ("life", lambda a: add_at(a, (-1, 0), 1)),
    "one after the latest": ("near", lambda a: add_at(a, (-1, 3), 1)),
    "overflow": ("life", lambda a: add_at(a, (7, 1), 2**63 - 1 - int(a[7, 1]))),
    "shape": ("life", lambda a: a[:-1]),
    "type": ("near", lambda a: a.astype(np.float64)),
}


@looped(("name", "change"), DAMAGE.values(), ids=DAMAGE)
def test_a_state_that_no_events_lead_to_is_refused(name, change):
    arrays = flatten(learn_history([array[:20_000] for array in LONG]))
    restore_history(arrays)
    with pytest.raises(ValueError, match=r"corrupt checkpoint|this learner has"):
        restore_history(arrays | {name: change(arrays[name])})


def test_a_baseline_that_knew_the_first_event_is_refused():
    arrays = flatten(learn_history([array[:1000] for array in LONG]))
    for column in (2, 3):
        knew = {name: arrays[name] * (np.arange(4) != column) for name in ("life", "near")}
        with pytest.raises(ValueError, match="corrupt checkpoint"):
            restore_history(arrays | knew)


@some
@given(st.sampled_from(["marked", "life", "near"]), st.data())
def test_any_damage_is_refused_or_harmless(name, data):
    """A state that is accepted can continue: no point is ever written outside the arrays."""
    length = data.draw(st.sampled_from([0, 300, 32_800]))
    arrays = flatten(learn_history([array[:length] for array in LONG]))
    damaged = arrays[name].copy()
    place = data.draw(st.integers(0, damaged.size - 1))
    damaged.flat[place] = data.draw(
        st.one_of(st.integers(-300, 300), st.integers(-(2**63), 2**63 - 1))
    )
    try:
        history = restore_history(arrays | {name: damaged})
    except ValueError:
        return
    assert len(whole(history)) <= POINTS
    assert state_digest(restore_history(flatten(history))) == state_digest(history)
    events = int(history.marked[0])
    assess(fresh_progress(), fresh_quality(0), history, *(array[:600] for array in LONG))
    assert int(history.marked[0]) == events + 600
