"""Rows of all columns are read as a table: the same batch as row by row, and the same refusals."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.batch import BIAS
from service.config.settings import Features, Label, Limits
from service.features.columnar import ColumnarDecoder
from service.features.decoder import Decoder, Event, batch
from service.features.reject import Reject
from tests.examples import examples
from tests.looped import looped
from tests.service.checkpoint.batches import comparable

FEATURES = Features(columns=("a", "b"), bits=0)
LIMITS = Limits(max_abs=1000.0)
TABLES = ColumnarDecoder(FEATURES, LIMITS)


def body(*rows, **beside):
    return json.dumps({"instances": [{"features": row} for row in rows]} | beside).encode()


def test_rows_of_all_columns_are_read_as_a_table():
    found = TABLES.read(body({"a": 1, "b": 2.5}, {"b": -3, "a": 0}), 2)
    assert comparable(found) == comparable(
        batch([Event([0, 1, 2], [1.0, 1.0, 2.5], None, 1.0), Event([0, 2], [1, -3], None, 1)])
    )
    assert TABLES.read(body(), 2).size == 0


def test_zero_and_minus_zero_are_absent():
    found = TABLES.read(b'{"instances": [{"features": {"a": 0, "b": -0.0}}]}', 1)
    assert comparable(found) == comparable(batch([Event([BIAS], [1.0], None, 1.0)]))


def test_without_a_bias_the_columns_keep_their_slots():
    found = ColumnarDecoder(FEATURES.model_copy(update={"bias": False}), LIMITS).read(
        body({"a": 1, "b": 2}), 1
    )
    assert found.indices.tolist() == [1, 2]
    assert found.values.tolist() == [1.0, 2.0]


@looped(
    "text",
    [
        b'{"instances": [{"features": {"a": 1}}]}',
        b'{"instances": [{"features": {"a": 1, "b": 2, "c": 3}}]}',
        b'{"instances": [{"features": {"a": 1, "b": true}}]}',
        b'{"instances": [{"features": {"a": 1, "b": "2"}}]}',
        b'{"instances": [{"features": {"a": 1, "b": null}}]}',
        b'{"instances": [{"features": {"a": 1, "b": 1e999}}]}',
        b'{"instances": [{"features": {"a": 1, "b": 2}, "id": "x"}]}',
        b'{"instances": [{"features": {"a": 1, "b": 2}}], "more": 1}',
        b'{"instances": {"features": {"a": 1, "b": 2}}}',
        b'{"instances": [{"features": [1, 2]}]}',
        b'{"instances": [1]}',
        b'{"features": {"a": 1, "b": 2}}',
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
)
def test_other_bodies_are_left_to_the_decoder_that_gives_reasons(text):
    assert TABLES.read(text, 10) is None


@pytest.mark.parametrize("change", [{"tree": "parse"}, {"flat": True}])
def test_rows_of_another_form_are_left_to_the_other_decoder(change):
    read = Decoder(FEATURES.model_copy(update=change), Label(), LIMITS)
    assert read.tables.read(body({"a": 1, "b": 2}), 1) is None
    assert isinstance(read.instances(body({"a": 1, "b": 2}), 1), Reject)


def test_too_many_rows_are_left_to_the_other_decoder():
    assert TABLES.read(body({"a": 1, "b": 2}, {"a": 1, "b": 2}), 1) is None


@looped("name", ['a"b', "a\\b", "a\nb", "ü", "column_1", "__init__"])
def test_a_column_may_have_any_name(name):
    read = Decoder(Features(columns=(name, "b"), bits=0), Label(), LIMITS)
    for ascii_only in (True, False):
        data = json.dumps(
            {"instances": [{"features": {name: 4, "b": 5}}]}, ensure_ascii=ascii_only
        ).encode()
        assert read.instances(data, 1).values.tolist() == [1.0, 4.0, 5.0]


def test_the_last_value_of_a_repeated_name_counts():
    data = b'{"instances": [{"features": {"a": 1, "b": 2, "a": 3}}]}'
    assert TABLES.read(data, 1).values.tolist() == [1.0, 3.0, 2.0]
    one = Decoder(FEATURES, Label(), LIMITS).instance(b'{"features": {"a": 1, "b": 2, "a": 3}}')
    assert one.values == [1.0, 3.0, 2.0]


@looped("value", [1000.5, -1000.5, np.inf, -np.inf, np.nan])
def test_a_number_out_of_range_is_named_by_its_row(value):
    assert TABLES.batch(
        np.array([[1.0, 2.0], [1000.0, -1000.0], [1.0, value], [value, 1.0]])
    ) == Reject("range", 2)


def test_more_columns_than_the_limit_are_refused():
    few = ColumnarDecoder(FEATURES, Limits(max_features=1))
    assert few.batch(np.ones((2, 2))) == Reject("too_many", 0)
    assert few.batch(np.ones((0, 2))).size == 0


@examples(200)
@given(
    st.lists(st.tuples(*[st.floats(-1000, 1000) | st.integers(-1000, 1000)] * 2), max_size=5),
    st.booleans(),
)
def test_a_table_equals_its_rows_decoded_one_by_one(rows, bias):
    decode = Decoder(FEATURES.model_copy(update={"bias": bias}), Label(), LIMITS)
    named = [{"a": a, "b": b} for a, b in rows]
    one_by_one = [decode.instance(json.dumps({"features": row}).encode()) for row in named]
    found = decode.instances(body(*named), 5)
    assert comparable(found) == comparable(batch(one_by_one))
    assert comparable(
        decode.tables.batch(np.array(rows, np.float64).reshape(len(rows), 2))
    ) == comparable(found)
    found.validate(decode.slots.dim)
