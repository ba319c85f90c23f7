"""A restore refuses counts of quality that no events lead to."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.evaluation.history import MOST, fresh_history, latest
from learners.evaluation.progress import fresh_progress
from learners.evaluation.quality import assess, by_class, figures, fresh_quality
from learners.evaluation.validation import check_together, restore_quality
from learners.state import flatten
from tests.examples import examples
from tests.learners.damage import plus, put
from tests.learners.quality_streams import CLASSES, LONG, assess_stream
from tests.looped import looped

some = examples(60)

DAMAGE = {
    "one event more": ("totals", plus([1, 0, 0, 0, 0])),
    "an error more": ("totals", plus([0, 1, 0, 0, 0])),
    "fewer than none": ("totals", lambda a: -a),
    "more than can be": ("totals", put(0, MOST + 1)),
    "more errors than events": ("totals", put(1, 10**6)),
    "the majority is never wrong": ("totals", put(2, 0)),
    "fewer than in the window": ("totals", put(3, 10)),
    "more than before the window": ("totals", put(3, 1200)),
    "more scored than events": ("totals", put(4, 1201)),
    "none scored": ("totals", put(4, 0)),
    "a class without a place": ("said", put(0, 5)),
    "below none": ("said", put(1, -2)),
    "not the most frequent": ("said", lambda a: (a + 1) % 2),
    "no majority": ("said", put(0, -1)),
    "an outcome of 2": ("outcomes", put((0, 3), 2)),
    "no errors of late": ("outcomes", lambda a: a * 0),
    "nothing but errors": ("outcomes", lambda a: a * 0 + 1),
    "nan": ("sums", lambda a: a * np.nan),
    "infinite": ("sums", put(2, np.inf)),
    "too much mass": ("sums", put(0, 1100.0)),
    "more wrong than mass": ("sums", put(1, 1010.0)),
    "negative errors": ("sums", put(1, -0.1)),
    "a loss below the smallest": ("sums", put(2, 0.0)),
    "too much mass of scored": ("sums", put(3, 990.0)),
    "a fading loss beyond the worst": ("sums", put(4, 1e5)),
    "an event of a class more": ("classes", plus([[1, 0], [0, 0], [0, 0]])),
    "events of another class": ("classes", plus([[1, -1], [0, 0], [0, 0]])),
    "a hit more": ("classes", plus([[0, 0], [0, 0], [1, 0]])),
    "more hits than guesses": ("classes", plus([[0, 0], [0, 0], [5000, -5000]])),
    "negative": ("classes", lambda a: -a),
    "overflow": ("classes", put((0, 0), 2**63 - 1)),
    "shape": ("classes", lambda a: a[:, :1]),
    "type": ("sums", lambda a: a.astype(np.int64)),
}


@looped(("name", "change"), DAMAGE.values(), ids=DAMAGE)
def test_binary_counts_that_no_events_lead_to_are_refused(name, change):
    arrays = flatten(assess_stream(0, [array[:1200] for array in LONG[0]])[1][1])
    restore_quality(0, arrays)
    with pytest.raises(ValueError, match=r"corrupt checkpoint|this learner has"):
        restore_quality(0, arrays | {name: change(arrays[name])})


SEVERAL = {
    "a class beyond the most there can be": ("classes", plus([[0, 0, 1], [0, 0, 0], [0, 0, 0]])),
    "more labels than events": ("classes", plus([[3000, 3000, 0], [0, 0, 0], [0, 0, 0]])),
    "more guesses than events": ("classes", plus([[0, 0, 0], [3000, 3000, 0], [0, 0, 0]])),
    "a last label that never came": ("said", put(1, 2)),
}


@looped(("name", "change"), SEVERAL.values(), ids=SEVERAL)
def test_multiclass_counts_that_no_events_lead_to_are_refused(name, change):
    arrays = flatten(assess_stream(2, LONG[2])[1][1])
    restore_quality(2, arrays)
    with pytest.raises(ValueError, match="corrupt checkpoint"):
        restore_quality(2, arrays | {name: change(arrays[name])})


def test_an_outcome_of_a_future_event_is_refused():
    arrays = flatten(assess_stream(0, [array[:5] for array in LONG[0]])[1][1])
    restore_quality(0, arrays)
    outcomes = arrays["outcomes"].copy()
    outcomes[:, [0, 900]] = outcomes[:, [900, 0]]
    with pytest.raises(ValueError, match="corrupt checkpoint"):
        restore_quality(0, arrays | {"outcomes": outcomes})


def test_arrays_of_another_number_of_classes_are_refused():
    arrays = flatten(fresh_quality(0))
    for classes in (2, 3, 64):
        with pytest.raises(ValueError, match="this learner has"):
            restore_quality(classes, arrays)


@some
@given(
    st.sampled_from(CLASSES),
    st.sampled_from(["totals", "said", "outcomes", "sums", "classes"]),
    st.data(),
)
def test_any_damage_is_refused_or_harmless(classes, name, data):
    """A state that is accepted can continue: figures are numbers, and no count is written outside
    the arrays.
    """
    rows, length = LONG[classes], data.draw(st.sampled_from([0, 5, 1500]))
    arrays = flatten(assess_stream(classes, [array[:length] for array in rows])[1][1])
    damaged = arrays[name].copy()
    values = {
        "f": st.one_of(st.floats(), st.floats(-2, 2000)),
        "i": st.one_of(st.integers(-5, 2000), st.integers(-(2**63), 2**63 - 1)),
        "u": st.integers(0, 255),
    }
    damaged.flat[data.draw(st.integers(0, damaged.size - 1))] = data.draw(
        values[damaged.dtype.kind]
    )
    try:
        quality = restore_quality(classes, arrays | {name: damaged})
    except ValueError:
        return
    progress = fresh_progress()
    for _ in range(2):
        got = figures(progress, quality)
        assert all(
            math.isnan(rate) or 0.0 <= rate <= 1.0
            for rate in (got.fading, got.majority, got.no_change)
        )
        assert math.isnan(got.log_loss) or 0.0 < got.log_loss < 14.0
        assert all(entry.events >= 0 and not entry.f1 > 1.0 for entry in by_class(quality, 3))
        assess(progress, quality, fresh_history(), *(array[:1200] for array in rows))


def test_parts_of_different_events_are_refused():
    one, other = (assess_stream(0, [array[:n] for array in LONG[0]])[1] for n in (1000, 1400))
    check_together(*one)
    check_together(other[0], *one[1:])  # quality may begin later
    for parts in ((one[0], *other[1:]), (*one[:2], other[2]), (*other[:2], one[2])):
        with pytest.raises(ValueError, match="do not count the same events"):
            check_together(*parts)
    y, guess, p = LONG[0]
    worse = assess_stream(0, (y[:1000], -guess[:1000], p[:1000]))[1]
    for parts in ((worse[0], *one[1:]), (*one[:2], worse[2])):
        with pytest.raises(ValueError, match="do not count the same events"):
            check_together(*parts)
    assert len(latest(one[2])) == 5
