"""No input gets a 5xx or is echoed, and each is refused with the right reason."""

import asyncio
import json

import httpx
import pytest

from tests.looped import looped
from tests.service.api.api_client import (
    CANARY,
    Client,
    check_error,
    client_fixture,  # noqa: F401  # a fixture
)


def instance(features: bytes) -> bytes:
    return b'{"features": {%b}}' % features


WRONG = {
    "NaN": (instance(b'"amount": NaN, "c": "%b"' % CANARY.encode()), 422),
    "1e400": (instance(b'"%b": 1e400' % CANARY.encode()), 422),
    "huge int": (instance(b'"amount": ' + b"9" * 1000), 422),
    "beyond python's int": (instance(b'"amount": ' + b"9" * 10_000), 422),
    "beyond the limit": (instance(b'"amount": 1e101'), 422),
    "beyond the learner": (instance(b'"amount": 1e60, "%b": 1' % CANARY.encode()), 422),
    "column a string": (instance(b'"amount": "%b"' % CANARY.encode()), 422),
    "object as a value": (instance(b'"x": {"%b": 1}' % CANARY.encode()), 422),
    "null": (instance(b'"x": null'), 422),
    "list instead of object": (b'["%b"]' % CANARY.encode(), 422),
    "string instead of object": (b'"%b"' % CANARY.encode(), 422),
    "features a list": (b'{"features": ["%b"]}' % CANARY.encode(), 422),
    "unknown field": (b'{"features": {}, "%b": 1}' % CANARY.encode(), 422),
    "label": (b'{"features": {}, "label": "%b"}' % CANARY.encode(), 422),
    "id not a string": (b'{"features": {}, "id": 7}', 422),
    "empty body": (b"", 422),
    "half a body": (b'{"features": {"%b"' % CANARY.encode(), 422),
    "deep nesting": (b"[" * 100_000, 422),
    "deep object": (b'{"a":' * 50_000 + b"1" + b"}" * 50_000, 422),
    "not utf-8": (instance(b'"\xff\xfe%b": 1' % CANARY.encode()), 422),
    "lone surrogate": (instance(b'"\\ud800": "%b"' % CANARY.encode()), 422),
    "utf-16": (instance(b"").decode().encode("utf-16"), 422),
    "name too long": (instance(b'"%b": 1' % (CANARY.encode() * 100)), 422),
    "value too long": (instance(b'"x": "%b"' % (CANARY.encode() * 100)), 422),
    "too many features": (
        json.dumps({"features": dict.fromkeys(map(str, range(10_001)), 1)}).encode(),
        422,
    ),
    "form": (b"features=%b" % CANARY.encode(), 422),
    "too large": (instance(b'"x": "%b"' % (CANARY.encode() * 100_000)), 413),
}


@looped(("body", "status"), WRONG.values(), ids=WRONG)
@looped("path", ["/predict", "/predict/batch"])
def test_wrong_input_is_refused(client, body, status, path):
    if path == "/predict/batch" and body.startswith(b'{"features"'):
        body = b'{"instances": [{"features": {}}, ' + body + b"]}"
    check_error(client.ask("POST", path, body, **{"content-type": "application/json"}), status)


@looped(
    "document",
    [
        {"instances": {}},
        {"instances": [1]},
        {"instances": None},
        {"features": {}},
        {"instances": [], CANARY: 1},
        {"instances": [{"features": {}}] * 51},
    ],
)
def test_wrong_batches_are_refused(client, document):
    check_error(client.post("/predict/batch", document), 422)


@pytest.mark.parametrize("path", ["/predict", "/predict/batch"])
def test_a_body_declared_as_too_large_is_not_read(client, path):
    read = []

    async def body():
        read.append(1)
        yield CANARY.encode() * 5_000_000

    reply = client.ask("POST", path, body(), **{"content-length": "50000000"})
    assert check_error(reply, 413) == "too_large"
    assert not read


def test_a_body_of_50_mb_is_refused_undecoded(client, monkeypatch):
    decoded = []
    monkeypatch.setattr(type(client.context.decoder), "instance", lambda *_: decoded.append(1))
    reply = client.ask("POST", "/predict", b'{"features": {"' + b"x" * 50_000_000 + b'": 1}}')
    check_error(reply, 413)
    assert not decoded


@looped("said", [None, "7", "-1", "\u00b2"])
def test_a_body_without_a_true_length_is_read_only_up_to_the_limit(client, said):
    sent = []

    async def body():
        for _ in range(800):
            sent.append(1)
            yield b"x" * 65_536

    headers = {} if said is None else {"content-length": said.encode("latin-1")}
    reply = client.ask("POST", "/predict", body(), **headers)
    assert check_error(reply, 413) == "too_large"
    assert len(sent) == 16, "the app must read 1,000,000 bytes and not a chunk more"


@looped(
    ("method", "path", "status"),
    [
        ("GET", "/predict", 405),
        ("PUT", "/predict", 405),
        ("DELETE", "/predict/batch", 405),
        ("POST", "/status", 405),
        ("POST", "/metrics", 405),
        ("GET", f"/{CANARY}", 404),
        ("POST", f"/predict/{CANARY}", 404),
        ("GET", f"/status/../{CANARY}", 404),
        ("GET", "/docs", 404),
    ],
)
def test_wrong_paths_and_methods_are_refused(client, method, path, status):
    check_error(client.ask(method, path, CANARY.encode()), status)


BATCH = b'{"instances": [{"features": {}}]}'


@looped(
    ("method", "path", "body", "words"),
    [
        ("POST", "/predict", b'{"features": {}}', "known: explain"),
        ("POST", "/predict/batch", BATCH, "none"),
        ("POST", "/explain", b'{"features": {}}', "none"),
        ("GET", "/weights", None, "known: top, classes"),
    ],
)
def test_an_unknown_query_parameter_is_refused(client, method, path, body, words):
    for query in (f"{CANARY}=1", CANARY, f"{words.rpartition(' ')[2]}=1&{CANARY}", "Explain=true"):
        reply = client.ask(method, f"{path}?{query}", body)
        assert check_error(reply, 422) == "query"
        message = reply.json()["error"]["message"]
        assert message.startswith(
            "unknown parameter" if words != "none" else "this path has no parameters"
        )
        assert words == "none" or message.endswith(words)
    for nothing in ("", "?", "?&"):
        assert client.ask(method, path + nothing, body).status_code == 200


def test_paths_without_parameters_ignore_the_query(client):
    assert client.get(f"/healthz?{CANARY}=1").status_code == 200
    assert client.get(f"/status?{CANARY}=1").status_code == 200


@looped("place", [0, 17, 49])
def test_an_error_in_a_batch_names_its_place(client, place):
    for wrong, reason in (
        ({"features": {"amount": CANARY}}, "type"),
        ({"features": {CANARY: 1e60}}, "numeric"),
        ({"features": {}, CANARY: 1}, "unknown_field"),
        (CANARY, "malformed"),
    ):
        rows = [{"features": {"amount": 1}}] * 50
        rows[place] = wrong
        for more in ("", "x" * 20_000):  # both ways to answer: at once, and in another thread
            rows[1] = {"features": {"amount": 1, "note": more}}
            reply = client.post("/predict/batch", {"instances": rows})
            assert check_error(reply, 422) == reason
            assert reply.json()["error"]["message"].startswith(f"instance {place}: ")


def test_a_row_refused_by_the_learner_is_named_by_its_place():
    client = Client(learner="winnow", features={"bits": 8})
    rows = [{"features": {"a": 1}}, {"features": {"a": 2}}, {"features": {"a": -1}}]
    reply = client.post("/predict/batch", {"instances": rows})
    assert check_error(reply, 422) == "negative"
    assert reply.json()["error"]["message"] == "instance 2: the learner takes no negative values"
    alone = client.post("/predict", rows[2]).json()["error"]["message"]
    assert alone == "the learner takes no negative values"


def test_an_internal_error_is_reported_without_its_details(client, monkeypatch):
    def fail(_):
        raise RuntimeError(CANARY)

    monkeypatch.setattr(client.model, "predict", fail)

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(client.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as asking:
            return await asking.post("/predict", content=b'{"features": {}}')

    assert check_error(asyncio.run(send()), 500) == "internal"
