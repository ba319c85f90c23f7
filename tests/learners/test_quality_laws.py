"""The counts of quality obey the laws of every state, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.evaluation.history import fresh_history
from learners.evaluation.quality import assess, by_class, figures, fresh_quality
from learners.evaluation.validation import check_together, restore_quality
from learners.state import flatten, state_digest
from tests.examples import examples
from tests.learners.quality_streams import CLASSES, LONG, assess_stream, streams
from tests.looped import looped

some = examples(60)


def digest(parts):
    return [state_digest(part) for part in parts]


@some
@given(streams(), st.lists(st.integers(0, 300), max_size=6))
def test_cuts_change_nothing(events, cuts):
    classes, rows = events
    wrong, parts = assess_stream(classes, rows, [min(cut, len(rows[0])) for cut in cuts])
    expected, others = assess_stream(classes, rows)
    assert wrong.tolist() == expected.tolist()
    assert digest(parts) == digest(others)


@looped("classes", CLASSES)
@looped("size", [1, 7, 64, 1000, 1001])
def test_cuts_change_nothing_over_a_long_stream(classes, size):
    rows = LONG[classes]
    assert digest(assess_stream(classes, rows, range(0, len(rows[0]), size))[1]) == digest(
        assess_stream(classes, rows)[1]
    )


@looped("classes", CLASSES)
@looped("first", [0, 1, 2, 999, 1000, 1001, 3333])
def test_a_restore_changes_nothing_later(classes, first):
    rows = LONG[classes]
    progress, quality, history = assess_stream(classes, [array[:first] for array in rows])[1]
    parts = progress, restore_quality(classes, flatten(quality)), history
    check_together(*parts)
    assess(*parts, *(array[first:] for array in rows))
    assert digest(parts) == digest(assess_stream(classes, rows)[1])


@some
@given(streams(), st.data())
def test_an_outcome_depends_on_no_later_event(events, data):
    classes, rows = events
    first = data.draw(st.integers(0, len(rows[0])))
    early = assess_stream(classes, [array[:first] for array in rows])[0]
    assert assess_stream(classes, rows)[0][:first].tolist() == early.tolist()


@some
@given(streams())
def test_figures_write_nothing(events):
    classes, rows = events
    parts = assess_stream(classes, rows)[1]
    before = digest(parts)
    assert repr(figures(*parts[:2])) == repr(figures(*parts[:2]))
    by_class(parts[1], 1)
    assert digest(parts) == before


def test_counts_that_begin_late_are_compared_over_the_same_events():
    """An older checkpoint has counts of its whole life, but none of quality."""
    y, guess, p = LONG[0]
    progress = assess_stream(0, (y, -y.astype(np.int64), p))[1][0]
    quality, history = fresh_quality(0), fresh_history()
    assess(progress, quality, history, y[:300], guess[:300], p[:300])
    check_together(progress, quality, history)
    alone = assess_stream(0, (y[:300], guess[:300], p[:300]))[1]
    got, expected = figures(progress, quality), figures(*alone[:2])
    assert got._replace(error=0.0, recent=0.0) == expected._replace(error=0.0, recent=0.0)
    assert got.error == (5000 + expected.error * 300) / 5300
    assert got.recent == pytest.approx((700 + expected.recent * 300) / 1000)


def test_each_class_costs_24_bytes():
    size = {
        classes: sum(array.nbytes for array in fresh_quality(classes)) for classes in (0, 64, 65)
    }
    assert size[65] - size[64] == 24
    assert size[0] <= 2200
