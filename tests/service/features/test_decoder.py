"""The decoder: what an event means, and that no bytes whatever get past it or bring it down."""

import json
import math
import re
from itertools import cycle, islice
from types import SimpleNamespace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import service.features.decoder
from learners.batch import BIAS
from learners.hashing import SlotTable
from service.config.settings import Features, Label, Limits
from service.features.decoder import TOKENS_PER_FEATURE, Decoder, Event, batch
from service.features.reject import REASONS, Reject
from tests.looped import looped
from tests.service.checkpoint.batches import listed

some = settings(max_examples=80, derandomize=True, deadline=None)

LEARNERS_OWN = {"numeric", "negative"}
FEATURES = Features(columns=("amount", "age"), text=("note",), bits=18)
SMALL = Limits(max_bytes=400, max_features=5, max_name=8, max_abs=1000.0)


def decoder(features=FEATURES, label=Label(), limits=Limits()) -> Decoder:  # noqa: B008  # frozen
    return Decoder(features, label, limits)


def event(features, decode=None, **beside) -> Event | Reject:
    document = {"features": features, "label": 1} | beside
    return (decode or decoder()).event(json.dumps(document).encode())


def row(found: Event | Reject) -> dict[int, float]:
    assert isinstance(found, Event), found
    return dict(zip(found.slots, found.values, strict=True))


def hashed(*names: str, decode=None) -> dict[int, float]:
    slots = (decode or decoder()).slots
    found: dict[int, float] = {}
    for name in names:
        found[slots.hash_slot(name)] = found.get(slots.hash_slot(name), 0.0) + 1.0
    return found


def test_columns_have_their_own_slots_after_the_bias():
    assert row(event({"age": 30, "amount": 2.5})) == {BIAS: 1.0, 1: 2.5, 2: 30.0}


def test_other_numbers_are_hashed_by_name():
    slot = decoder().slots.hash_slot("height")
    assert slot > 2
    assert row(event({"height": -1.5})) == {BIAS: 1.0, slot: -1.5}


def test_strings_and_booleans_are_hashed_with_their_value():
    expected = {BIAS: 1.0} | hashed("country=de", "new=true", "gone=false")
    assert row(event({"country": "de", "new": True, "gone": False})) == expected


def test_a_string_is_one_value_and_a_text_its_words():
    assert row(event({"other": "Big big cat"})) == {BIAS: 1.0} | hashed("other=Big big cat")
    words = ["note=big", "note=big", "note=cat", "note=été", "note=x1"]
    assert row(event({"note": "Big, BIG_cat! Été—x1."})) == {BIAS: 1.0} | hashed(*words)


def test_tokens_are_counted_as_they_are():
    tokens = ["tags=a", "tags=A", "tags=a b", "tags=a"]
    assert row(event({"tags": ["a", "A", "a b", "a"]})) == {BIAS: 1.0} | hashed(*tokens)


def test_ngrams_of_text_only():
    decode = decoder(Features(text=("note",), ngrams=3))
    names = [f"note={words}" for words in ("a", "b", "c", "a b", "b c", "a b c")]
    assert row(event({"note": "a b c"}, decode)) == {BIAS: 1.0} | hashed(*names, decode=decode)
    assert row(event({"x": ["a", "b"]}, decode)) == {BIAS: 1.0} | hashed(
        "x=a", "x=b", decode=decode
    )


def test_without_a_bias_slot_0_stays_empty():
    decode = decoder(Features(columns=("amount",), bias=False))
    assert row(event({"amount": 3}, decode)) == {1: 3.0}
    assert row(event({}, decode)) == {}


@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_zero_is_absent(zero):
    assert event({"amount": zero, "age": 1, "x": zero}) == event({"age": 1})


def test_features_that_meet_in_a_slot_add_up():
    decode = decoder(Features(bits=1))
    names = [f"f{n}" for n in range(20)]
    slots = {name: decode.slots.hash_slot(name) for name in names}
    first = [name for name in names if slots[name] == slots["f0"]]
    assert 1 < len(first) < 20
    found = row(event(dict.fromkeys(names, 1.0), decode))
    assert found[slots["f0"]] == len(first)
    assert sum(found.values()) == 21
    assert row(event({first[0]: 2.0, first[1]: -2.0}, decode)) == {BIAS: 1.0}, (
        "a sum of 0 is absent too"
    )


def test_slots_ascend():
    found = event({f"f{n}": n + 1 for n in range(50)} | {"age": 1, "amount": 1})
    assert found.slots == sorted(set(found.slots))


@pytest.mark.parametrize(
    ("given", "weight"), [({}, 1.0), ({"weight": 0}, 0.0), ({"weight": 2.5}, 2.5)]
)
def test_weight(given, weight):
    found = event({"amount": 1}, **given)
    assert found.weight == weight
    assert batch([found]).weights.tolist() == [weight]


@looped(
    ("spelled", "label"),
    [
        ("1", "1"),
        ("1.0", "1"),
        ('"1"', "1"),
        ("-1", "-1"),
        ("-0.0", "0"),
        ("0.5", "0.5"),
        ("true", "true"),
        ("false", "false"),
        ('"fraud"', "fraud"),
        ('"1.0"', "1.0"),
        ('"\\u00e9"', "é"),
        ("9007199254740993", "9007199254740993"),
    ],
)
def test_label_forms(spelled, label):
    assert decoder().event(b'{"features": {}, "label": %b}' % spelled.encode()).label == label


def test_the_label_field_is_configured():
    decode = decoder(label=Label(field="y"))
    assert decode.event(b'{"features": {"a": 1}, "y": "b", "label": "c"}').label == "b"
    assert decode.event(b'{"features": {"a": 1}, "label": "c"}') == Reject("label")


def test_unknown_fields_are_skipped_in_the_log():
    assert event({"amount": 1}, id=7, ts={"odd": []}, trace="x") == event({"amount": 1})


def test_the_last_of_a_repeated_key_counts():
    assert decoder().event(
        b'{"features": {"amount": 1, "amount": 2}, "label": 0, "label": 1}'
    ) == event({"amount": 2})


BITS_0 = decoder(Features(columns=("amount",), bits=0))
TIGHT = decoder(limits=SMALL)
REJECTED = {
    "empty": (b"", "malformed"),
    "no json": (b"{", "malformed"),
    "more after it": (b'{"features": {}, "label": 1} x', "malformed"),
    "a list": (b"[]", "malformed"),
    "null": (b"null", "malformed"),
    "no features": (b'{"label": 1}', "malformed"),
    "features a list": (b'{"label": 1, "features": []}', "malformed"),
    "nan": (b'{"label": 1, "features": {"amount": NaN}}', "malformed"),
    "infinity": (b'{"label": 1, "features": {"amount": Infinity}}', "malformed"),
    "bad utf-8 in a name": (b'{"label": 1, "features": {"\xff": 1}}', "malformed"),
    "bad utf-8 in a value": (b'{"label": 1, "features": {"x": "\xc3"}}', "malformed"),
    "utf-16": ('{"label": 1, "features": {}}'.encode("utf-16"), "malformed"),
    "byte order mark": (b'\xef\xbb\xbf{"label": 1, "features": {}}', "malformed"),
    "lone surrogate": (b'{"label": "\\ud800", "features": {"\\udc00": "\\ud800"}}', "malformed"),
    "surrogate as bytes": (b'{"label": "\xed\xa0\x80", "features": {}}', "malformed"),
    "deep list": (
        b'{"label": 1, "features": {"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        "malformed",
    ),
    "deep object": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "malformed"),
    "deep and open": (b"[" * 100_000, "malformed"),
    "1e400": (b'{"label": 1, "features": {"amount": 1e400}}', "range"),
    "-1e400 hashed": (b'{"label": 1, "features": {"x": -1e400}}', "range"),
    "1e400 label": (b'{"label": 1e400, "features": {}}', "range"),
    "huge int": (b'{"label": 1, "features": {"amount": ' + b"9" * 400 + b"}}", "range"),
    "huge int hashed": (b'{"label": 1, "features": {"x": -' + b"9" * 400 + b"}}", "range"),
    "beyond python's int": (b'{"label": 1, "features": {"x": ' + b"9" * 5000 + b"}}", "range"),
    "over max_abs": (b'{"label": 1, "features": {"amount": 1.1e100}}', "range"),
    "over max_abs hashed": (b'{"label": 1, "features": {"x": -1.1e100}}', "range"),
    "column a string": (b'{"label": 1, "features": {"amount": "1"}}', "type"),
    "column a boolean": (b'{"label": 1, "features": {"amount": true}}', "type"),
    "column null": (b'{"label": 1, "features": {"amount": null}}', "type"),
    "value null": (b'{"label": 1, "features": {"x": null}}', "type"),
    "object": (b'{"label": 1, "features": {"x": {}}}', "type"),
    "numbers in a list": (b'{"label": 1, "features": {"x": [1]}}', "type"),
    "no label": (b'{"features": {}}', "label"),
    "label null": (b'{"features": {}, "label": null}', "label"),
    "label a list": (b'{"features": {}, "label": [1]}', "label"),
    "weight negative": (b'{"features": {}, "label": 1, "weight": -1}', "weight"),
    "weight a string": (b'{"features": {}, "label": 1, "weight": "1"}', "weight"),
    "weight a boolean": (b'{"features": {}, "label": 1, "weight": true}', "weight"),
    "weight null": (b'{"features": {}, "label": 1, "weight": null}', "weight"),
    "weight huge": (b'{"features": {}, "label": 1, "weight": 1e101}', "weight"),
    "weight a huge int": (b'{"features": {}, "label": 1, "weight": ' + b"9" * 400 + b"}", "weight"),
    "event too long": (b'{"features": {}, "label": 1}' + b" " * 1_048_576, "too_long"),
    "name too long": (b'{"features": {"' + b"x" * 257 + b'": 1}, "label": 1}', "too_long"),
    "value too long": (b'{"features": {"x": "' + b"x" * 257 + b'"}, "label": 1}', "too_long"),
    "token too long": (b'{"features": {"x": ["' + b"x" * 257 + b'"]}, "label": 1}', "too_long"),
    "label too long": (b'{"features": {}, "label": "' + b"x" * 257 + b'"}', "too_long"),
    "label of many digits": (b'{"features": {}, "label": ' + b"9" * 257 + b"}", "too_long"),
    "too many": (
        json.dumps({"label": 1, "features": dict.fromkeys(map(str, range(10_001)), 0)}).encode(),
        "too_many",
    ),
    "too many words": (
        json.dumps({"label": 1, "features": {"note": " ".join(map(str, range(10_300)))}}),
        "too_many",
    ),
}


@looped(("data", "reason"), REJECTED.values(), ids=REJECTED)
def test_rejects(data, reason):
    data = data.encode() if isinstance(data, str) else data
    rejected = decoder().event(data)
    assert rejected == Reject(reason)
    assert rejected.message == REASONS[reason]


def test_every_reason_of_the_decoder_is_in_the_table():
    elsewhere = {"unknown_feature", "unknown_field", "too_many_instances", "tree"}
    assert {reason for _, reason in REJECTED.values()} == REASONS.keys() - LEARNERS_OWN - elsewhere


def test_limits_are_the_configured_ones_to_the_last():
    def document(features: dict, **beside) -> bytes:
        return json.dumps({"label": 1, "features": features} | beside).encode()

    assert isinstance(TIGHT.event(document({}).ljust(400)), Event)
    assert TIGHT.event(document({}).ljust(401)) == Reject("too_long")
    assert isinstance(TIGHT.event(document(dict.fromkeys("abcde", 1))), Event)
    assert TIGHT.event(document(dict.fromkeys("abcdef", 1))) == Reject("too_many")
    assert TIGHT.event(document({"x": list("abcdef")})) == Reject("too_many")
    assert isinstance(TIGHT.event(document({"x" * 8: "y" * 8})), Event)
    assert TIGHT.event(document({"x" * 9: 1})) == Reject("too_long")
    assert TIGHT.event(document({"x": "y" * 9})) == Reject("too_long")
    assert isinstance(TIGHT.event(document({"note": "y" * 100})), Event), (
        "a text may be long, and so its words"
    )
    assert isinstance(TIGHT.event(document({"amount": -1000, "x": 1000.0})), Event)
    assert TIGHT.event(document({"amount": 1000.1})) == Reject("range")
    assert TIGHT.event(document({"x": -1001})) == Reject("range")
    assert TIGHT.event(document({}, weight=1001)) == Reject("weight")
    assert isinstance(TIGHT.event(document({}, label="x" * 8)), Event)
    assert TIGHT.event(document({}, label="x" * 9)) == Reject("too_long")


def test_without_hashed_slots_only_columns_are_known():
    assert event({"amount": 1, "x": 1}, BITS_0) == Reject("unknown_feature")
    assert row(event({"amount": 1}, BITS_0)) == {BIAS: 1.0, 1: 1.0}


def test_a_request_is_read_as_the_log_is():
    features = {"amount": 2, "note": "a b a", "x": [], "y": True, "z": "w"}
    found = decoder().instance(json.dumps({"features": features, "id": "7"}).encode())
    assert found == event(features)._replace(label=None)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"features": {}, "label": 1}, "unknown_field"),
        ({"features": {}, "weight": 1}, "unknown_field"),
        ({"features": {}, "feature": {}}, "unknown_field"),
        ({"features": {}, "id": 7}, "malformed"),
        ({}, "malformed"),
        ({"features": {"amount": "x"}}, "type"),
        ([], "malformed"),
    ],
)
def test_a_request_is_read_strictly(document, reason):
    assert decoder().instance(json.dumps(document).encode()) == Reject(reason)
    if isinstance(document, dict):
        wrapped = {"instances": [{"features": {}}, document]}
        assert decoder().instances(json.dumps(wrapped).encode(), 10) == Reject(reason, 1)


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({}, "malformed"),
        ({"instances": {}}, "malformed"),
        ({"instances": [], "more": 1}, "unknown_field"),
        ({"instances": [{"features": {}}] * 4}, "too_many_instances"),
    ],
)
def test_a_batch_request_is_read_strictly(document, reason):
    assert decoder().instances(json.dumps(document).encode(), 3) == Reject(reason)


def test_a_row_of_a_batch_that_is_none_is_named_by_its_place():
    assert decoder().instances(b'{"instances": [{"features": {}}, 1]}', 3) == Reject("malformed", 1)


def test_a_batch_request():
    rows = [{"features": {"amount": n}} for n in (1, 2, 3)]
    found = decoder().instances(json.dumps({"instances": rows}).encode(), 3)
    assert listed(found) == listed(
        batch([Event([BIAS, 1], [1.0, n], None, 1.0) for n in (1.0, 2.0, 3.0)])
    )
    assert decoder().instances(b'{"instances": []}', 3).size == 0


FLAT = decoder(Features(columns=("amount", "age"), text=("note",), flat=True), Label(field="y"))
FLAT_COLUMNS = decoder(Features(columns=("amount", "age"), bits=0, flat=True), Label(field="y"))


def test_a_flat_event_is_the_nested_one():
    features = {"amount": 2, "note": "a b", "z": "w"}
    beside = {"y": "b", "id": "i", "ts": 5, "weight": 2}
    nested = decoder(label=Label(field="y")).event(
        json.dumps({"features": features} | beside).encode()
    )
    assert FLAT.event(json.dumps(features | beside).encode()) == nested
    assert FLAT.instance(json.dumps(features | {"id": "i"}).encode()) == nested._replace(
        label=None, weight=1.0
    )


def test_a_flat_event_without_hashed_slots_is_its_columns():
    """Producers add fields; none of them can be a feature."""
    assert row(FLAT_COLUMNS.event(b'{"amount": 2, "trace": "x", "y": 1}')) == {BIAS: 1.0, 1: 2.0}
    assert FLAT_COLUMNS.instance(b'{"amount": 2, "trace": "x"}') == Reject("unknown_feature")


@pytest.mark.parametrize(
    ("value", "fine"), [(10**100 + 1, True), (10**101, False), (10**400, False)]
)
def test_a_whole_number_is_as_large_as_its_float_whatever_stands_beside_it(value, fine):
    decode = decoder(Features(columns=("a", "b"), bits=4))
    for features in ({"a": value}, {"a": value, "b": 1}, {"c": value}):
        body = json.dumps({"features": features}).encode()
        many = decode.instances(b'{"instances": [%b]}' % body, 1)
        assert isinstance(decode.instance(body), Event) == (not isinstance(many, Reject)) == fine
        assert fine or many == Reject("range", 0)


def test_a_flat_request_with_the_label_is_refused():
    """It is no feature when learning, so it must not quietly become one when predicting."""
    assert FLAT.instance(b'{"amount": 2, "y": 1}') == Reject("unknown_field")
    assert FLAT.instances(b'{"instances": [{"amount": 2, "y": 1}]}', 3) == Reject(
        "unknown_field", 0
    )


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
        assert listed(instances) == listed(decode.instances(data, 3))
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
def test_no_bytes_bring_it_down(data):
    check(data)


@some
@given(VALUES | EVENTS)
def test_no_json_brings_it_down(value):
    check(json.dumps(value).encode())


@some
@given(EVENTS, st.data())
def test_no_damage_to_an_event_brings_it_down(value, data):
    whole = bytearray(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] = data.draw(st.integers(0, 255))
    check(bytes(whole))


@some
@given(
    st.lists(EVENTS.map(lambda value: json.dumps(value).encode()), min_size=2, max_size=5),
    st.randoms(),
)
def test_what_was_decoded_before_does_not_matter(stream, random):
    decode = decoder()
    expected = {data: decoder().event(data) for data in stream}
    for data in random.choices(stream, k=8):
        assert decode.event(data) == expected[data]


class Stepwise(Decoder):
    """Every row feature by feature, also one that has all columns and nothing else."""

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


@settings(max_examples=400, derandomize=True, deadline=None)
@given(
    st.lists(COLUMNS | COLUMNS.map(lambda row: {"age": row["age"]}), min_size=1, max_size=3),
    st.booleans(),
)
@example([{"amount": 10**400, "age": 1}], True)
@example([{"amount": 9e99, "age": 9e99}], True)
def test_a_row_of_all_columns_is_read_as_any_other(rows, nested):
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
            assert listed(quick.instances(data, 2)) == listed(stepwise.instances(data, 2))


@some
@given(st.dictionaries(st.text(max_size=8), st.floats(-1e100, 1e100, allow_nan=False), max_size=30))
def test_any_numbers_are_taken_as_they_are(features):
    found = row(
        event(
            features, decoder(Features(columns=tuple(features), bits=0) if features else Features())
        )
    )
    values = [features[name] for name in features if features[name] != 0.0]
    assert sorted(found.values()) == sorted([1.0, *values])
    assert all(math.isfinite(value) for value in found.values())


def counted_naively(text, lists, numbers, ngrams, decode):
    """Row of a text, a list and numbers: every token added on its own."""
    row = {}
    for name, number in numbers.items():
        slot = decode.slots.compute_slot(name)
        row[slot] = row.get(slot, 0.0) + number
    found = re.findall(r"[^\W_]+", text.lower())
    runs = [
        " ".join(found[at : at + n])
        for n in range(1, ngrams + 1)
        for at in range(len(found) - n + 1)
    ]
    for name, tokens in (("note", runs), ("tags", lists)):
        for token in tokens:
            slot = decode.slots.compute_slot(f"{name}={token}")
            row[slot] = row.get(slot, 0.0) + 1.0
    return row


@given(
    st.text(st.sampled_from("aB ,_é\u0130"), max_size=60).map(lambda text: text * 60),
    st.lists(st.sampled_from("abcd"), max_size=3).map(lambda tokens: tokens * 700),
    st.dictionaries(
        st.sampled_from("pqr"), st.sampled_from([0.1, -0.5, 3.0, 1e17, -1e99, 4503599627370495.5])
    ),
    st.integers(1, 5),
)
def test_counted_in_chunks_a_row_has_the_same_bits(text, lists, numbers, ngrams):
    """Also where a number and many tokens meet in one slot, as in one of few slots they do."""
    most = 6
    decode = decoder(
        Features(text=("note",), ngrams=ngrams, bits=3, bias=False),
        limits=Limits(max_features=most),
    )
    with pytest.MonkeyPatch.context() as patch:
        # The bound is another test's.
        patch.setattr(service.features.decoder, "TOKENS_PER_FEATURE", 10**6)
        event = decode.event(
            json.dumps({"features": {**numbers, "note": text, "tags": lists}, "label": 1}).encode()
        )
    row = {
        slot: value
        for slot, value in counted_naively(text, lists, numbers, ngrams, decode).items()
        if value
    }
    if isinstance(event, Reject):
        assert event.reason == "too_many"
        assert len(counted_naively(text, lists, numbers, ngrams, decode)) > most
    else:
        assert dict(zip(event.slots, event.values, strict=True)) == row


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({}, "too_many"),
        ({"z": None}, "type"),
        ({"z": "x" * 300}, "too_long"),
        ({"z": ["x", "x" * 300]}, "too_long"),
        ({"z": 1e101}, "range"),
        ({"z": 10**400}, "range"),
    ],
)
def test_a_text_with_too_many_words_is_read_no_further_and_rejected_as_before(
    more, reason, monkeypatch
):
    met = []
    monkeypatch.setattr(SlotTable, "compute_slot", lambda _, name: met.append(name) or 1 + len(met))
    decode = decoder(Features(text=("note",), ngrams=5), limits=Limits(max_features=100))
    text = " ".join(map(str, range(50_000)))
    assert (
        decode.event(json.dumps({"features": {"note": text} | more, "label": 1}).encode()).reason
        == reason
    )
    assert len(met) <= 1024 + 2


@pytest.mark.parametrize("words", [1, 8])
def test_a_text_of_few_words_repeated_is_read_up_to_a_bound(words):
    """It has few slots, so only a bound on its tokens keeps a megabyte of it from taking
    seconds.
    """
    decode = decoder(Features(text=("note",), ngrams=5, bits=10), limits=Limits(max_features=100))
    most = TOKENS_PER_FEATURE * 100

    def event(count):
        note = " ".join(islice(cycle("abcdefgh"[:words]), count))
        return decode.event(json.dumps({"features": {"note": note}, "label": 1}).encode())

    longest = (most + 10) // 5  # of n words there are 5·n − 10 tokens
    assert isinstance(event(longest), Event)
    assert event(longest + 1) == Reject("too_many")


def test_lists_with_too_many_tokens_are_counted_no_further(monkeypatch):
    met = []
    monkeypatch.setattr(SlotTable, "compute_slot", lambda _, name: met.append(name) or 1 + len(met))
    decode = decoder(Features(), limits=Limits(max_features=100))
    tokens = list(map(str, range(50_000)))
    assert (
        decode.event(json.dumps({"features": {"tags": tokens}, "label": 1}).encode()).reason
        == "too_many"
    )
    assert len(met) <= 1024
