"""Progress and reports against counts by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.evaluation.progress import fresh_progress, report
from tests.examples import examples

some = examples(30)


def test_without_events_the_error_is_0():
    progress = fresh_progress()
    assert (progress.error_rate, progress.recent_error_rate) == (0.0, 0.0)


@some
@given(st.lists(st.tuples(st.sampled_from([-1.0, 1.0]), st.floats(-2, 2)), max_size=40))
def test_a_binary_report_is_that_of_the_positive_class(events):
    y, scores = np.array([e[0] for e in events]), np.array([e[1] for e in events])
    guesses = [1.0 if s >= 0 else -1.0 for s in scores]
    truth = list(zip(y.tolist(), guesses, strict=True))
    precision, recall, f1 = count_by_hand(truth, 1.0)
    got = report(y, scores)
    # Ratios of whole numbers, here and below, differ only by rounding.
    assert got.events == len(events)
    assert got.accuracy == pytest.approx(sum(a == b for a, b in truth) / max(1, len(truth)))
    assert (got.precision, got.recall, got.f1) == pytest.approx((precision, recall, f1))


@some
@given(
    st.lists(
        st.tuples(
            st.integers(0, 4),
            st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 2.0]), min_size=5, max_size=5),
        )
    )
)
def test_a_multiclass_report_is_the_mean_over_occurring_classes(events):
    y, scores = (
        np.array([float(e[0]) for e in events]),
        np.array([e[1] for e in events]).reshape(-1, 5),
    )
    guesses = [-1 if max(row) == -np.inf else row.index(max(row)) for _, row in events]
    truth = list(zip(y.tolist(), guesses, strict=True))
    classes = {c for pair in truth for c in pair if c >= 0}
    parts = [count_by_hand(truth, c) for c in classes] or [(0.0, 0.0, 0.0)]
    got = report(y, scores)
    assert got.accuracy == pytest.approx(sum(a == b for a, b in truth) / max(1, len(truth)))
    assert (got.precision, got.recall, got.f1) == pytest.approx(
        tuple(sum(p) / len(parts) for p in zip(*parts, strict=True))
    )


def count_by_hand(truth, c):
    """Return precision, recall and F1 of one class; 0 instead of a division by 0."""
    hits = sum(a == c and b == c for a, b in truth)
    claimed, there = sum(b == c for _, b in truth), sum(a == c for a, _ in truth)
    return (
        hits / claimed if claimed else 0.0,
        hits / there if there else 0.0,
        2 * hits / (claimed + there) if claimed + there else 0.0,
    )
