"""The middleware refuses a body for its length, its encoding or the depth of its JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.api.middleware import DEEPEST, too_deep
from tests.looped import looped
from tests.service.api.api_client import CANARY, check_error
from tests.service.api.keyed_client import (
    ask,
    bearer,
    client_fixture,  # noqa: F401  # a fixture
    file_fixture,  # noqa: F401  # a fixture
)


@looped("coding", ["gzip", "br", "deflate", "GZIP", "identity, gzip", "zstd", CANARY])
def test_a_body_with_a_content_encoding_is_refused(client, coding):
    for path, key in (
        ("/predict", "predict"),
        ("/predict/batch", "predict"),
        ("/events", "events"),
    ):
        reply = ask(client, "POST", path, key, b"\x1f\x8b", **{"content-encoding": coding})
        assert check_error(reply, 415) == "encoding"
        assert reply.json()["error"]["message"].startswith("content encodings are not supported")
    assert (
        check_error(ask(client, "POST", "/predict", "", b"", **{"content-encoding": coding}), 401)
        == "unauthorized"
    )


@looped("coding", ["identity", "Identity", ""])
def test_the_identity_encoding_is_accepted(client, coding):
    assert (
        ask(client, "POST", "/predict", "predict", **{"content-encoding": coding}).status_code
        == 200
    )
    assert ask(client, "GET", "/healthz", **{"content-encoding": "gzip"}).status_code == 200, (
        "a GET has no body to encode"
    )


@pytest.mark.parametrize("length", ["1" * 30, "9" * 5000])
def test_an_enormous_content_length_is_refused(client, length):
    async def body():
        yield b"x"

    reply = client.ask(
        "POST", "/predict", body(), **bearer("predict"), **{"content-length": length}
    )
    assert check_error(reply, 413) == "too_large"


def depth_of(value):
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    return 1 + max(map(depth_of, value), default=0) if isinstance(value, list) else 0


WORDS = st.text(st.sampled_from('[]{}"\\ aü'), max_size=8)
JSON = st.recursive(
    WORDS | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=60,
)


@given(JSON, st.integers(0, 24), st.booleans())
def test_the_depth_limit_counts_nested_values(value, more, ascii_only):
    for level in range(more):
        value = [value, "]"] if level % 2 else {"[": value}
    text = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert too_deep(text) == (depth_of(value) > DEEPEST)


@looped("path", ["/predict", "/predict/batch", "/v2/models/m/infer"])
def test_only_binary_tensors_may_follow_the_json(client, path):
    """Bytes that a header declares as binary are checked nevertheless, except where tensors are
    allowed.
    """
    body = b"{}" + b"[" * 100
    reply = ask(client, "POST", path, "predict", body, **{"Inference-Header-Content-Length": "2"})
    assert reply.status_code in {400, 422}
    assert ("nested" in reply.text) == (not path.startswith("/v2/"))


HOSTILE = {
    "open": b"[" * 10_000_000,
    "quotes": b"[" * 17 + b'"' + b'\\"' * 5_000_000,
    "strings": b"[" * 17 + b'""' * 5_000_000,
    "pairs": b"[]" * 5_000_000,
    "hills": (b"[" * 16 + b"]" * 16) * 312_500,
    "backslashes": b"[" * 17 + b'"' + b"\\" * 10_000_000,
}


@looped("text", HOSTILE.values(), ids=HOSTILE)
def test_the_depth_check_is_linear(text):
    """A quadratic check would take hours and hit the hang limit."""
    too_deep(text)


def test_binary_tensors_may_contain_any_bytes(client):
    tensor = {
        "name": "features",
        "datatype": "FP64",
        "shape": [2, 2],
        "parameters": {"binary_data_size": 32},
    }
    deep = b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1)
    for head, numbers, status in (
        (json.dumps({"inputs": [tensor]}).encode(), b"[[[[[[\x08@" * 4, 200),
        (deep, b"", 422),
    ):
        told = {"Inference-Header-Content-Length": str(len(head))}
        reply = ask(client, "POST", "/v2/models/m/infer", "predict", head + numbers, **told)
        assert reply.status_code == status
