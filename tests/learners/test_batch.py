"""Rows go in and come out unchanged, and every batch that a kernel could not survive is refused
with a reason.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.batch import Batch
from learners.jit import ACCEPTED, NUMERIC, row_refusals
from tests.examples import examples
from tests.learners.streams import streams
from tests.looped import looped

some = examples(40)

DIM = 4
ROWS = [([0, 2], [1.0, 5.0]), ([0], [1.0]), ([], []), ([0, 1, 3], [1.0, -2.0, 0.0])]


def rows_of(X):
    return [
        (X.indices[a:b].tolist(), X.values[a:b].tolist())
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True)
    ]


def test_a_batch_returns_the_rows_it_was_made_of():
    X = Batch.from_rows(ROWS, [1.0, 2.0, 0.0, 0.5])
    assert X.validate(DIM) is X
    assert X.size == 4
    assert rows_of(X) == ROWS
    assert X.weights.tolist() == [1.0, 2.0, 0.0, 0.5]
    assert Batch.from_rows(ROWS).weights.tolist() == [1.0] * 4


def test_an_empty_batch_is_valid():
    X = Batch.from_rows([]).validate(DIM)
    assert X.size == 0
    assert rows_of(X) == []


@some
@given(stream=streams(), data=st.data())
def test_rows_and_where_select_the_requested_rows(stream, data):
    X = stream.X
    start = data.draw(st.integers(0, X.size))
    stop = data.draw(st.integers(start, X.size))
    part = X.rows(start, stop).validate(stream.dim)
    assert rows_of(part) == rows_of(X)[start:stop]
    assert part.weights.tolist() == X.weights[start:stop].tolist()
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=X.size, max_size=X.size)))
    kept = X.where(keep).validate(stream.dim)
    assert rows_of(kept) == [row for row, wanted in zip(rows_of(X), keep, strict=True) if wanted]
    assert kept.weights.tolist() == X.weights[keep].tolist()


def ints(*values):
    return np.array(values, np.int64)


def slots(*values):
    return np.array(values, np.int32)


def floats(*values):
    return np.array(values, np.float64)


@looped(
    ("change", "words"),
    [
        ({"indptr": ints(0, 2, 3, 6)}, "indptr must have 5 entries and start at 0"),
        ({"indptr": ints(1, 2, 3, 3, 6)}, "indptr must have 5 entries and start at 0"),
        (
            {"indptr": ints(0, 2, 3, 3, 6).reshape(5, 1)},
            "indptr must have 5 entries and start at 0",
        ),
        (
            {"indptr": ints(0, 3, 2, 3, 6)},
            "indptr must be non-decreasing and end at the number of entries",
        ),
        (
            {"indptr": ints(0, 2, 3, 3, 7)},
            "indptr must be non-decreasing and end at the number of entries",
        ),
        (
            {"indptr": ints(0, 2, 3, 3, 5)},
            "indptr must be non-decreasing and end at the number of entries",
        ),
        ({"values": floats(1, 5, 1, 1, -2)}, "6 indices for 5 values"),
        ({"indptr": np.array([0, 2, 3, 3, 6], np.int32)}, "expected int64 indptr, .* got .'int32'"),
        (
            {"indices": ints(0, 2, 0, 0, 1, 3)},
            "expected .* int32 indices, .* got .'int64', 'int64'",
        ),
        (
            {"values": np.ones(6, np.float32)},
            "expected .* float64 values and weights, got .*'float32'",
        ),
        ({"weights": np.ones(4, np.int64)}, "expected .* float64 values and weights, got "),
        ({"indices": slots(0, 2, 0, 0, 1, DIM)}, "indices must be from 0 to 3"),
        ({"indices": slots(-1, 2, 0, 0, 1, 3)}, "indices must be from 0 to 3"),
        ({"indices": slots(0, 2, 0, 0, 3, 1)}, "indices of a row must ascend"),
        ({"indices": slots(0, 2, 0, 0, 3, 3)}, "indices of a row must ascend"),
        ({"indices": slots(0, 0, 0, 0, 1, 3)}, "indices of a row must ascend"),
        (
            {"values": floats(1, np.nan, 1, 1, -2, 0)},
            "values must be finite, weights finite and not negative",
        ),
        (
            {"values": floats(1, np.inf, 1, 1, -2, 0)},
            "values must be finite, weights finite and not negative",
        ),
        (
            {"weights": floats(1, 1, 1, np.nan)},
            "values must be finite, weights finite and not negative",
        ),
        (
            {"weights": floats(1, 1, 1, -np.inf)},
            "values must be finite, weights finite and not negative",
        ),
        (
            {"weights": floats(1, 1, 1, -0.5)},
            "values must be finite, weights finite and not negative",
        ),
    ],
)
def test_a_batch_that_no_kernel_could_survive_is_refused(change, words):
    X = Batch.from_rows(ROWS)._replace(**change)
    with pytest.raises(ValueError, match=words):
        X.validate(DIM)


@looped(
    ("values", "weight", "code"),
    [
        ([1.0, 9.9e49], 1.0, ACCEPTED),
        ([1.0, 8e49, 8e49], 1.0, NUMERIC),
        ([1.0, 1.1e50], 1.0, NUMERIC),
        ([1.0, -1e300], 1.0, NUMERIC),
        ([1.0, np.nan], 1.0, NUMERIC),
        ([1.0, np.inf], 1.0, NUMERIC),
        ([1.0, 5e-324], 1.0, ACCEPTED),
        ([1.0], 0.0, ACCEPTED),
        ([1.0], 1e50, ACCEPTED),
        ([1.0], 1e-50, ACCEPTED),
        ([1.0], 2e50, NUMERIC),
        ([1.0], 5e-51, NUMERIC),
        ([1.0], np.nan, NUMERIC),
        ([], 1.0, ACCEPTED),
    ],
)
def test_rows_whose_sums_would_overflow_are_refused(values, weight, code):
    good = ([0], [1.0])
    X = Batch.from_rows([good, (range(len(values)), values), good], [1.0, weight, 1.0])
    assert row_refusals(X).tolist() == [ACCEPTED, code, ACCEPTED]
