"""HTTP: what is answered, that no input gets a 5xx or itself back, and that the OpenAPI document
says the truth.
"""

import asyncio
import json
import threading
import time
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.api.log_appender import LogBusyError
from service.api.openapi.document import document as described_by
from service.api.routes import ROUTES
from service.checkpoint.lineage import Lineage
from service.config.loader import parse
from service.features.decoder import Decoder
from service.model.results import LearnResult
from service.sources.base import BEGINNING
from tests.service.api.api_client import CANARY, EVENTS, SETTINGS, Client, check_error, conforms


@pytest.fixture
def client():
    return Client()


def test_predict(client):
    reply = client.post("/predict", {"features": {"amount": 3, "note": "odd"}, "id": "7"})
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    answer = reply.json()
    assert answer.keys() == {"label", "score", "probability", "model"}
    assert answer["label"] == "fraud"
    assert answer["score"] > 0
    assert (
        answer["model"].items()
        >= {"name": "m", "version": 2, "generation": 7, "stale_seconds": 0}.items()
    )
    assert 0 <= answer["model"]["age_seconds"] < 60
    assert (
        client.post("/predict", {"features": {"amount": -3, "note": "fine"}}).json()["label"]
        == "fine"
    )


def test_predict_batch_answers_as_predict_does(client):
    instances = [{"features": {"amount": n}} for n in range(-3, 4)]
    reply = client.post("/predict/batch", {"instances": instances})
    assert reply.status_code == 200
    alone = [client.post("/predict", one).json() for one in instances]
    told = reply.json()["predictions"]
    assert [answer | {"model": None} for answer in told] == [
        answer | {"model": None} for answer in alone
    ]
    assert {answer["model"]["version"] for answer in [*told, *alone]} == {2}
    assert client.post("/predict/batch", {"instances": []}).json() == {"predictions": []}


def test_predicting_changes_nothing(client):
    before = client.model.snapshot(BEGINNING, Lineage(), whole=True).with_digest()
    client.post("/predict", {"features": {"amount": 1e49, "new": "thing"}})
    client.post("/predict", {"features": {"amount": 1e60}})
    after = client.model.snapshot(BEGINNING, Lineage(), whole=True).with_digest()
    assert after.state_digest == before.state_digest
    assert after.events == before.events
    assert after.rejects == before.rejects


def test_predict_follows_what_is_learned(client):
    decoder = Decoder(
        parse(SETTINGS, "test").features,
        parse(SETTINGS, "test").label,
        parse(SETTINGS, "test").limits,
    )
    question = {"features": {"amount": 5, "note": "odd one"}}
    for _ in range(20):
        client.model.learn([decoder.event(EVENTS[0].replace(b"fraud", b"fine"))])
    answer = client.post("/predict", question).json()
    assert answer["label"] == "fine"
    assert answer["model"]["version"] == 22


def test_before_any_class_the_answer_is_null():
    learner = {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
    client = Client(learner=learner, label={"classes": "grow", "max_classes": 3})
    answer = client.post("/predict", {"features": {"amount": 1}}).json()
    assert (answer["label"], answer["score"]) == (None, None)


def test_status(client):
    status = client.get("/status").json()
    asked = {"model", "learner", "events", "errors", "error_rate", "rejects", "lag", "checkpoint"}
    assert asked <= status.keys()
    assert {"generation", "age_seconds", "state_digest"} <= status["checkpoint"].keys()
    assert status["model"] == "m"
    assert status["learner"] == {
        "kind": "pa1",
        "epsilon": 1.0,
        "update_on": "margin",
        "C": 1.0,
        "J": 1.0,
    }
    assert (status["events"], status["rejects"], status["lag"]) == (2, 1, 7)
    assert status["error_rate"] == status["errors"] / 2
    assert status["checkpoint"]["generation"] == 7
    assert status["checkpoint"]["state_digest"] == "digest"
    assert 0 <= status["checkpoint"]["age_seconds"] < 60


def test_status_before_a_checkpoint(client):
    client.health.checkpoint = None
    checkpoint = client.get("/status").json()["checkpoint"]
    assert checkpoint == {"generation": 0, "age_seconds": None, "events": 0, "state_digest": None}


def test_not_ready_and_then_ready():
    client = Client(ready=False)
    client.health.trouble = "Redis at redis://h is away"
    assert client.get("/healthz").status_code == 200, "alive is not ready"
    for reply in (
        client.get("/readyz"),
        client.post("/predict", {"features": {}}),
        client.post("/predict/batch", {}),
    ):
        assert check_error(reply, 503) == "not_ready"
        assert reply.json()["error"]["message"] == "Redis at redis://h is away"
    assert client.get("/status").status_code == 200
    assert client.get("/metrics").status_code == 200
    client.health.ready = True
    assert client.get("/readyz").status_code == 200
    assert client.post("/predict", {"features": {}}).status_code == 200


def test_a_learner_alone_has_no_predictions():
    client = Client(predicts=False)
    for path in ("/predict", "/predict/batch"):
        assert check_error(client.post(path, {"features": {}}), 404) == "not_found"
        assert path not in client.get("/openapi.json").json()["paths"]
    for path in ("/healthz", "/readyz", "/status", "/metrics"):
        assert client.get(path).status_code == 200


EXPOSED = [
    "events_total",
    "errors_total",
    "rejects_total",
    "updates_total",
    "model_events",
    "model_errors",
    "error_ratio",
    "weight_norm",
    "lag_events",
    "predict_seconds",
    "checkpoint_generation",
    "checkpoint_last_success_timestamp_seconds",
    "checkpoint_seconds",
    "redis_up",
]


def test_metrics_are_the_documented_ones(client):
    client.metrics.learned(LearnResult(2, 1, 2, 1, 1, [], [], 0.001), time.time())
    client.post("/predict", {"features": {}})
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    for name in EXPOSED:
        family = families[f"onepass_{name.removesuffix('_total')}"]
        assert family.samples, name
        assert family.documentation, name
    assert all(name.startswith("onepass_") for name in families)
    assert all(
        sample.labels["model"] == "m" for family in families.values() for sample in family.samples
    )
    windows = {sample.labels["window"] for sample in families["onepass_error_ratio"].samples}
    assert {"cumulative", "1000"} <= windows
    assert {
        sample.labels["partition"]: sample.value
        for sample in families["onepass_lag_events"].samples
    } == {
        "0": 3.0,
        "1": 4.0,
    }


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


@pytest.mark.parametrize(("body", "status"), WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("path", ["/predict", "/predict/batch"])
def test_wrong_input(client, body, status, path):
    if path == "/predict/batch" and body.startswith(b'{"features"'):
        body = b'{"instances": [{"features": {}}, ' + body + b"]}"
    check_error(client.ask("POST", path, body, **{"content-type": "application/json"}), status)


@pytest.mark.parametrize(
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
def test_wrong_batches(client, document):
    check_error(client.post("/predict/batch", document), 422)


@pytest.mark.parametrize("path", ["/predict", "/predict/batch"])
def test_a_body_that_is_said_to_be_too_large_is_not_read(client, path):
    read = []

    async def body():
        read.append(1)
        yield CANARY.encode() * 5_000_000

    started = time.monotonic()
    reply = client.ask("POST", path, body(), **{"content-length": "50000000"})
    assert check_error(reply, 413) == "too_large"
    assert time.monotonic() - started < 1
    assert not read


def test_a_body_of_50_mb(client):
    started = time.monotonic()
    reply = client.ask("POST", "/predict", b'{"features": {"' + b"x" * 50_000_000 + b'": 1}}')
    check_error(reply, 413)
    assert time.monotonic() - started < 1


@pytest.mark.parametrize("said", [None, "7", "-1", "\u00b2"])
def test_a_body_without_its_true_length_is_read_up_to_the_limit(client, said):
    sent = []

    async def body():
        for _ in range(800):
            sent.append(1)
            yield b"x" * 65_536

    headers = {} if said is None else {"content-length": said.encode("latin-1")}
    reply = client.ask("POST", "/predict", body(), **headers)
    assert check_error(reply, 413) == "too_large"
    assert len(sent) == 16, "1,000,000 bytes and not a chunk more"


@pytest.mark.parametrize(
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
def test_wrong_paths_and_methods(client, method, path, status):
    check_error(client.ask(method, path, CANARY.encode()), status)


BATCH = b'{"instances": [{"features": {}}]}'


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("POST", "/predict", b'{"features": {}}', "known: explain"),
        ("POST", "/predict/batch", BATCH, "none"),
        ("POST", "/explain", b'{"features": {}}', "none"),
        ("GET", "/weights", None, "known: top, classes"),
    ],
)
def test_a_parameter_that_is_not_known_is_refused(client, method, path, body, words):
    for query in (f"{CANARY}=1", CANARY, f"{words.rpartition(' ')[2]}=1&{CANARY}", "Explain=true"):
        reply = client.ask(method, f"{path}?{query}", body)
        assert check_error(reply, 422) == "query"
        message = reply.json()["error"]["message"]
        assert message.startswith(
            "no such parameter" if words != "none" else "no parameter is known here"
        )
        assert words == "none" or message.endswith(words)
    for nothing in ("", "?", "?&"):
        assert client.ask(method, path + nothing, body).status_code == 200


def test_where_nothing_is_read_from_a_query_it_is_no_matter(client):
    assert client.get(f"/healthz?{CANARY}=1").status_code == 200
    assert client.get(f"/status?{CANARY}=1").status_code == 200


@pytest.mark.parametrize("place", [0, 17, 49])
def test_what_is_wrong_in_a_batch_is_named_by_its_place(client, place):
    for wrong, reason in (
        ({"features": {"amount": CANARY}}, "type"),
        ({"features": {CANARY: 1e60}}, "numeric"),
        ({"features": {}, CANARY: 1}, "unknown_field"),
        (CANARY, "malformed"),
    ):
        rows = [{"features": {"amount": 1}}] * 50
        rows[place] = wrong
        for more in ("", "x" * 20_000):  # both ways to answer: at once, and aside
            rows[1] = {"features": {"amount": 1, "note": more}}
            reply = client.post("/predict/batch", {"instances": rows})
            assert check_error(reply, 422) == reason
            assert reply.json()["error"]["message"].startswith(f"instance {place}: ")


def test_a_row_that_the_learner_refuses_is_named_by_its_place():
    client = Client(learner="winnow", features={"bits": 8})
    rows = [{"features": {"a": 1}}, {"features": {"a": 2}}, {"features": {"a": -1}}]
    reply = client.post("/predict/batch", {"instances": rows})
    assert check_error(reply, 422) == "negative"
    assert reply.json()["error"]["message"] == "instance 2: the learner takes no negative values"
    alone = client.post("/predict", rows[2]).json()["error"]["message"]
    assert alone == "the learner takes no negative values"


def test_a_fault_of_ours_is_said_without_a_word_of_it(client, monkeypatch):
    def broken(_):
        raise RuntimeError(CANARY)

    monkeypatch.setattr(client.model, "predict", broken)

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(client.app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as asking:
            return await asking.post("/predict", content=b'{"features": {}}')

    assert check_error(asyncio.run(send()), 500) == "internal"


def test_requests_are_counted_and_timed(client):
    client.post("/predict", {"features": {}})
    client.post("/predict", {"wrong": 1})
    client.post("/predict/batch", {"instances": []})
    sample = client.metrics._registry.get_sample_value
    assert sample("onepass_predict_requests_total", {"model": "m", "status": "200"}) == 2
    assert sample("onepass_predict_requests_total", {"model": "m", "status": "422"}) == 1
    assert sample("onepass_predict_seconds_count", {"model": "m"}) == 3


@pytest.fixture
def document(client):
    return client.get("/openapi.json").json()


def resolved(schema: Any, document: Any) -> Any:
    while "$ref" in schema:
        found = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def test_every_reference_of_the_document_resolves(document):
    def references(node: Any):
        if isinstance(node, dict):
            yield from (value for key, value in node.items() if key == "$ref")
            node = list(node.values())
        if isinstance(node, list):
            for inner in node:
                yield from references(inner)

    found = list(references(document))
    assert len(found) > 5
    for reference in found:
        assert isinstance(resolved({"$ref": reference}, document), dict)


def test_the_document_has_every_route_and_no_other(document):
    routes = {(route.path, route.method) for route in ROUTES}
    described = {
        (path, method.upper()) for path, methods in document["paths"].items() for method in methods
    }
    assert described == routes
    assert len(routes) >= 6
    assert document["openapi"].startswith("3.")
    assert document["info"]["version"]


def test_a_key_is_asked_for_where_keys_are_and_a_route_has_a_scope(tmp_path, document):
    (tmp_path / "keys").touch()
    keyed = Client(api={"keys_file": str(tmp_path / "keys")}).context
    described = described_by(keyed, ROUTES)["paths"]
    for route in ROUTES:
        operation = described[route.path][route.method.lower()]
        asked = {"401", "403", "429"} if route.scope else set()
        assert operation["responses"].keys() & {"401", "403", "429"} == asked
        assert ("security" in operation) == bool(route.scope)
        assert "security" not in document["paths"][route.path][route.method.lower()], (
            "none are configured"
        )


def test_every_operation_says_what_it_is_for_and_who_may_ask(document):
    for route in ROUTES:
        operation = document["paths"][route.path][route.method.lower()]
        assert 10 < len(operation["summary"]) < 100
        told = f"the scope `{route.scope}`" if route.scope else "without a key"
        assert told in operation["description"]
        assert ("415" in operation["responses"]) == (route.method == "POST")
    summaries = [
        operation["summary"] for path in document["paths"].values() for operation in path.values()
    ]
    assert len(set(summaries)) == len(summaries) - 3, "only those of a version are told alike"


def test_the_document_has_the_limits_of_the_settings(document):
    shapes = document["components"]["schemas"]
    assert shapes["Instances"]["properties"]["instances"]["maxItems"] == 50
    features = shapes["Instance"]["properties"]["features"]
    assert features["maxProperties"] == 10_000
    assert features["propertyNames"] == {"maxLength": 256}
    assert features["properties"]["amount"] == {"type": "number", "minimum": -1e50, "maximum": 1e50}
    assert shapes["Event"]["properties"]["label"] == {"enum": ["fraud", "fine"]}
    only = (
        Client(features={"columns": ["amount"], "bits": 0, "flat": True})
        .get("/openapi.json")
        .json()
    )
    assert only["components"]["schemas"]["Instance"]["additionalProperties"] is False


REPLIES = [
    (
        "POST",
        "/predict",
        b'{"features": {"amount": 1, "x": "y", "t": ["a"], "b": true}, "id": "1"}',
        200,
    ),
    ("POST", "/predict", b"", 422),
    ("POST", "/predict", b"x" * 1_000_001, 413),
    ("POST", "/predict/batch", b'{"instances": [{"features": {}}]}', 200),
    ("POST", "/predict/batch", b"[]", 422),
    ("POST", "/predict/batch", b"x" * 1_000_001, 413),
    ("GET", "/healthz", None, 200),
    ("GET", "/readyz", None, 200),
    ("GET", "/status", None, 200),
    ("GET", "/metrics", None, 200),
]


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize(("method", "path", "body", "status"), REPLIES)
def test_replies_are_as_declared(client, document, method, path, body, status, ready):
    client.health.ready = ready
    reply = client.ask(method, path, body)
    operation = document["paths"][path][method.lower()]
    declared = operation["responses"][str(reply.status_code)]
    assert declared["description"]
    before_ready = status == 413 or path in {"/healthz", "/status", "/metrics"}
    assert reply.status_code == (status if ready or before_ready else 503)
    kind = reply.headers["content-type"].partition(";")[0]
    assert kind in declared.get("content", {kind: {}})
    schema = declared.get("content", {}).get(kind, {}).get("schema", {})
    if kind == "application/json":
        assert conforms(reply.json(), schema, document)
    if method == "POST":
        assert schema, "predictions and their errors have a form"
        asked = operation["requestBody"]["content"]["application/json"]["schema"]
        if status == 200:
            assert conforms(json.loads(body), asked, document)


def test_the_check_of_replies_can_fail(document):
    prediction = {"$ref": "#/components/schemas/Prediction"}
    model = {"name": "m", "version": 1, "generation": 1, "age_seconds": 0.1, "stale_seconds": 0}
    good = {"label": "a", "score": 1.0, "probability": None, "model": model}
    assert conforms(good, prediction, document)
    assert not conforms({"label": "a", "score": 1.0}, prediction, document)
    assert not conforms(good | {"score": "1"}, prediction, document)
    assert not conforms(good | {"model": {"name": "m"}}, prediction, document)
    assert not conforms(
        {"features": {}, "more": 1}, {"$ref": "#/components/schemas/Instance"}, document
    )


@pytest.mark.parametrize(
    "path", ["/predict", "/explain", "/predict/batch", "/v2/models/m/infer", "/events"]
)
@pytest.mark.parametrize("words", [1, 8000])
def test_long_requests_are_worked_on_aside(client, path, words, monkeypatch):
    worked_by = []
    features = {"features": {"note": "odd one " * words}}
    row = Decoder._row
    monkeypatch.setattr(
        Decoder,
        "_row",
        lambda *given: worked_by.append(threading.current_thread().name) or row(*given),
    )
    tensor = {
        "name": "instances",
        "datatype": "BYTES",
        "shape": [1],
        "data": [json.dumps(features)],
    }
    body = {
        "/predict/batch": {"instances": [features]},
        "/v2/models/m/infer": {"inputs": [tensor]},
        "/events": features | {"label": "fraud"},
    }.get(path, features)
    client = Client(log=Refusing()) if path == "/events" else client
    worked_by.clear()
    reply = client.post(path, body)
    assert reply.status_code == (503 if path == "/events" else 200), reply.text
    assert ["aside" in name for name in worked_by] == [words > 1]


class Refusing:
    """A log that takes nothing."""

    def append(self, _):
        raise LogBusyError
