"""The decoder rejects invalid events and requests, and names the reason."""

import json

from service.features.reject import REASONS, Reject
from tests.looped import looped
from tests.service.features.decoders import FLAT, LEARNERS_OWN, decoder

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
def test_each_invalid_event_is_rejected_with_its_reason(data, reason):
    data = data.encode() if isinstance(data, str) else data
    rejected = decoder().event(data)
    assert rejected == Reject(reason)
    assert rejected.message == REASONS[reason]


def test_every_reason_of_the_decoder_is_in_the_table():
    elsewhere = {"unknown_feature", "unknown_field", "too_many_instances", "tree"}
    assert {reason for _, reason in REJECTED.values()} == REASONS.keys() - LEARNERS_OWN - elsewhere


@looped(
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


@looped(
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


def test_an_invalid_row_of_a_batch_is_named_by_its_place():
    assert decoder().instances(b'{"instances": [{"features": {}}, 1]}', 3) == Reject("malformed", 1)


def test_a_flat_request_with_the_label_is_refused():
    """The label is no feature in learning, so it must not become one in predicting."""
    assert FLAT.instance(b'{"amount": 2, "y": 1}') == Reject("unknown_field")
    assert FLAT.instances(b'{"instances": [{"amount": 2, "y": 1}]}', 3) == Reject(
        "unknown_field", 0
    )
