"""The decoder keeps the configured limits, and reads no further than it must."""

import json
import re
from itertools import cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

import service.features.decoder
from learners.hashing import SlotTable
from service.config.settings import Features, Limits
from service.features.decoder import TOKENS_PER_FEATURE, Event
from service.features.reject import Reject
from tests.looped import looped
from tests.service.features.decoders import TIGHT, decoder


def test_each_limit_is_exact():
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
        "texts and their words may be long"
    )
    assert isinstance(TIGHT.event(document({"amount": -1000, "x": 1000.0})), Event)
    assert TIGHT.event(document({"amount": 1000.1})) == Reject("range")
    assert TIGHT.event(document({"x": -1001})) == Reject("range")
    assert TIGHT.event(document({}, weight=1001)) == Reject("weight")
    assert isinstance(TIGHT.event(document({}, label="x" * 8)), Event)
    assert TIGHT.event(document({}, label="x" * 9)) == Reject("too_long")


@looped(("value", "fine"), [(10**100 + 1, True), (10**101, False), (10**400, False)])
def test_the_range_check_of_an_integer_uses_its_float(value, fine):
    decode = decoder(Features(columns=("a", "b"), bits=4))
    for features in ({"a": value}, {"a": value, "b": 1}, {"c": value}):
        body = json.dumps({"features": features}).encode()
        many = decode.instances(b'{"instances": [%b]}' % body, 1)
        assert isinstance(decode.instance(body), Event) == (not isinstance(many, Reject)) == fine
        assert fine or many == Reject("range", 0)


def count_naively(text, lists, numbers, ngrams, decode):
    """Return the row of a text, a list and numbers: every token is added separately."""
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
def test_counting_in_chunks_gives_the_same_bits(text, lists, numbers, ngrams):
    """This holds even where a number and many tokens share a slot, which few slots make likely."""
    most = 6
    decode = decoder(
        Features(text=("note",), ngrams=ngrams, bits=3, bias=False),
        limits=Limits(max_features=most),
    )
    with pytest.MonkeyPatch.context() as patch:
        # Another test covers this bound.
        patch.setattr(service.features.decoder, "TOKENS_PER_FEATURE", 10**6)
        event = decode.event(
            json.dumps({"features": {**numbers, "note": text, "tags": lists}, "label": 1}).encode()
        )
    row = {
        slot: value
        for slot, value in count_naively(text, lists, numbers, ngrams, decode).items()
        if value
    }
    if isinstance(event, Reject):
        assert event.reason == "too_many"
        assert len(count_naively(text, lists, numbers, ngrams, decode)) > most
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
def test_reading_stops_at_too_many_words_with_the_same_reason(more, reason, monkeypatch):
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
def test_reading_stops_at_a_bound_of_repeated_words(words):
    """The text has few slots, so only a bound on its tokens keeps a megabyte of it from taking
    seconds.
    """
    decode = decoder(Features(text=("note",), ngrams=5, bits=10), limits=Limits(max_features=100))
    most = TOKENS_PER_FEATURE * 100

    def event(count):
        note = " ".join(islice(cycle("abcdefgh"[:words]), count))
        return decode.event(json.dumps({"features": {"note": note}, "label": 1}).encode())

    longest = (most + 10) // 5  # n words make 5·n − 10 tokens
    assert isinstance(event(longest), Event)
    assert event(longest + 1) == Reject("too_many")


def test_counting_stops_at_too_many_tokens_of_a_list(monkeypatch):
    met = []
    monkeypatch.setattr(SlotTable, "compute_slot", lambda _, name: met.append(name) or 1 + len(met))
    decode = decoder(Features(), limits=Limits(max_features=100))
    tokens = list(map(str, range(50_000)))
    assert (
        decode.event(json.dumps({"features": {"tags": tokens}, "label": 1}).encode()).reason
        == "too_many"
    )
    assert len(met) <= 1024
