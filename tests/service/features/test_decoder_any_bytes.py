"""No bytes get past the decoder's checks or crash it."""

import json
import math
from types import SimpleNamespace

from hypothesis import example, given
from hypothesis import strategies as st

from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder, Event, batch
from service.features.reject import REASONS, Reject
from tests.examples import examples
from tests.service.checkpoint.batches import comparable
from tests.service.features.decoders import BITS_0, FLAT, LEARNERS_OWN, TIGHT, decoder, event, row

some = examples(80)

NAMES = (
    st.sampled_from(
        ["amount", "age", "note", "x", "label", "features", "id", "weight", "instances", "y"]
    )
    | st.text()
)
NUMBERS = (
    st.integers()
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.integers(-(10**120), 10**120)
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
EVENTS = st.fixed_dictionaries(
    {"features": st.dictionaries(NAMES, VALUES, max_size=8)},
    optional={"label": VALUES, "weight": VALUES, "id": VALUES, "ts": VALUES, "y": VALUES},
)
WIDE = decoder(
    Features(columns=("amount", "age"), text=("note",), bits=2),
    limits=Limits(max_features=4, max_name=8),
)
DECODERS = [WIDE, FLAT, BITS_0, TIGHT]


def check(data: bytes) -> None:
    for decode in DECODERS:
        event = decode.event(data)
        instance = decode.instance(data)
        instances = decode.instances(data, 3)
        assert (event, instance) == (decode.event(data), decode.instance(data))
        assert comparable(instances) == comparable(decode.instances(data, 3))
        one_by_one = [batch([found]) for found in (event, instance) if isinstance(found, Event)]
        for found in (event, instance, instances):
            if isinstance(found, Reject):
                assert found.reason in REASONS.keys() - LEARNERS_OWN
        for rows in [*one_by_one, *([] if isinstance(instances, Reject) else [instances])]:
            rows.validate(decode.slots.dim)
            assert 0.0 not in rows.values
        assert isinstance(event, Reject) or (
            isinstance(event.label, str) and len(event.label) <= 256
        )


@some
@given(st.binary(max_size=200))
@example(b"\xff\xfe{\x00}\x00")
def test_no_bytes_crash_the_decoder(data):
    check(data)


@some
@given(VALUES | EVENTS)
def test_no_json_crashes_the_decoder(value):
    check(json.dumps(value).encode())


@some
@given(EVENTS, st.data())
def test_no_damaged_event_crashes_the_decoder(value, data):
    whole = bytearray(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    check(bytes(whole))


@some
@given(
    st.lists(EVENTS.map(lambda value: json.dumps(value).encode()), min_size=2, max_size=5),
    st.randoms(),
)
def test_decoding_does_not_depend_on_earlier_events(stream, random):
    decode = decoder()
    expected = {data: decoder().event(data) for data in stream}
    for data in random.choices(stream, k=8):
        assert decode.event(data) == expected[data]


class Stepwise(Decoder):
    """Decodes every row feature by feature, even a row that has exactly all columns."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.tables = SimpleNamespace(read=lambda *_: None)

    def _all_columns(self, features):
        del features


PAIRS = [
    (Decoder(*parts), Stepwise(*parts))
    for parts in [
        (Features(columns=("amount", "age"), bits=0), Label(), Limits()),
        (Features(columns=("amount", "age"), bits=0, bias=False), Label(), Limits(max_abs=1000.0)),
        (Features(columns=("amount", "age"), bits=4), Label(), Limits(max_features=1)),
        (Features(columns=("amount",), bits=0), Label(), Limits()),
        (Features(bits=4, bias=False), Label(), Limits()),
        (Features(columns=("amount", "age"), bits=0, flat=True), Label(), Limits()),
    ]
]
EDGES = st.sampled_from(
    [0, -0.0, True, "1", None, [], 1e100, -1e100, 1.1e100, 1e-320, 10**99, 10**100, 2**53 + 1, 1000]
)
COLUMNS = st.fixed_dictionaries({"amount": EDGES | NUMBERS | VALUES, "age": EDGES | NUMBERS})


@examples(400)
@given(
    st.lists(COLUMNS | COLUMNS.map(lambda row: {"age": row["age"]}), min_size=1, max_size=3),
    st.booleans(),
)
@example([{"amount": 10**400, "age": 1}], True)
@example([{"amount": 9e99, "age": 9e99}], True)
def test_the_fast_path_for_all_columns_equals_the_stepwise_one(rows, nested):
    one = {"features": rows[0]} if nested else rows[0]
    bodies = [
        one,
        one | {"label": 1},
        {"instances": [{"features": row} if nested else row for row in rows]},
    ]
    for body in bodies:
        data = json.dumps(body).encode()
        for quick, stepwise in PAIRS:
            for read in ("event", "instance"):
                found = getattr(quick, read)(data)
                assert found == getattr(stepwise, read)(data)
                assert isinstance(found, Reject) or all(
                    type(value) is float for value in found.values
                )
            assert comparable(quick.instances(data, 2)) == comparable(stepwise.instances(data, 2))


@some
@given(st.dictionaries(st.text(max_size=8), st.floats(-1e100, 1e100, allow_nan=False), max_size=30))
def test_finite_numbers_are_kept_exactly(features):
    found = row(
        event(
            features, decoder(Features(columns=tuple(features), bits=0) if features else Features())
        )
    )
    values = [features[name] for name in features if features[name] != 0.0]
    assert sorted(found.values()) == sorted([1.0, *values])
    assert all(math.isfinite(value) for value in found.values())
