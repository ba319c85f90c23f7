"""The decoder makes slots, values, a label and a weight of each event."""

import json

from learners.batch import BIAS
from service.config.settings import Features, Label
from service.features.decoder import Event, batch
from service.features.reject import Reject
from tests.looped import looped
from tests.service.checkpoint.batches import comparable
from tests.service.features.decoders import BITS_0, FLAT, decoder, event, row


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


def test_a_string_is_one_value_and_a_text_is_its_words():
    assert row(event({"other": "Big big cat"})) == {BIAS: 1.0} | hashed("other=Big big cat")
    words = ["note=big", "note=big", "note=cat", "note=été", "note=x1"]
    assert row(event({"note": "Big, BIG_cat! Été—x1."})) == {BIAS: 1.0} | hashed(*words)


def test_tokens_of_a_list_are_counted_verbatim():
    tokens = ["tags=a", "tags=A", "tags=a b", "tags=a"]
    assert row(event({"tags": ["a", "A", "a b", "a"]})) == {BIAS: 1.0} | hashed(*tokens)


def test_only_text_has_ngrams():
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


@looped("zero", [0, 0.0, -0.0])
def test_zero_is_absent(zero):
    assert event({"amount": zero, "age": 1, "x": zero}) == event({"age": 1})


def test_features_that_share_a_slot_add_up():
    decode = decoder(Features(bits=1))
    names = [f"f{n}" for n in range(20)]
    slots = {name: decode.slots.hash_slot(name) for name in names}
    first = [name for name in names if slots[name] == slots["f0"]]
    assert 1 < len(first) < 20
    found = row(event(dict.fromkeys(names, 1.0), decode))
    assert found[slots["f0"]] == len(first)
    assert sum(found.values()) == 21
    assert row(event({first[0]: 2.0, first[1]: -2.0}, decode)) == {BIAS: 1.0}, (
        "a sum of 0 must be absent"
    )


def test_slots_ascend():
    found = event({f"f{n}": n + 1 for n in range(50)} | {"age": 1, "amount": 1})
    assert found.slots == sorted(set(found.slots))


@looped(("given", "weight"), [({}, 1.0), ({"weight": 0}, 0.0), ({"weight": 2.5}, 2.5)])
def test_the_weight_of_an_event_is_read(given, weight):
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
def test_labels_have_one_canonical_form(spelled, label):
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


def test_without_hashed_slots_only_columns_are_known():
    assert event({"amount": 1, "x": 1}, BITS_0) == Reject("unknown_feature")
    assert row(event({"amount": 1}, BITS_0)) == {BIAS: 1.0, 1: 1.0}


def test_a_request_is_decoded_like_an_event():
    features = {"amount": 2, "note": "a b a", "x": [], "y": True, "z": "w"}
    found = decoder().instance(json.dumps({"features": features, "id": "7"}).encode())
    assert found == event(features)._replace(label=None)


def test_a_batch_request_is_decoded_row_by_row():
    rows = [{"features": {"amount": n}} for n in (1, 2, 3)]
    found = decoder().instances(json.dumps({"instances": rows}).encode(), 3)
    assert comparable(found) == comparable(
        batch([Event([BIAS, 1], [1.0, n], None, 1.0) for n in (1.0, 2.0, 3.0)])
    )
    assert decoder().instances(b'{"instances": []}', 3).size == 0


FLAT_COLUMNS = decoder(Features(columns=("amount", "age"), bits=0, flat=True), Label(field="y"))


def test_a_flat_event_equals_the_nested_one():
    features = {"amount": 2, "note": "a b", "z": "w"}
    beside = {"y": "b", "id": "i", "ts": 5, "weight": 2}
    nested = decoder(label=Label(field="y")).event(
        json.dumps({"features": features} | beside).encode()
    )
    assert FLAT.event(json.dumps(features | beside).encode()) == nested
    assert FLAT.instance(json.dumps(features | {"id": "i"}).encode()) == nested._replace(
        label=None, weight=1.0
    )


def test_a_flat_event_without_hashed_slots_has_only_its_columns():
    """Producers add fields, which cannot be features here."""
    assert row(FLAT_COLUMNS.event(b'{"amount": 2, "trace": "x", "y": 1}')) == {BIAS: 1.0, 1: 2.0}
    assert FLAT_COLUMNS.instance(b'{"amount": 2, "trace": "x"}') == Reject("unknown_feature")
