"""The OpenAPI document has every route, its limits, and the form of every reply."""

import json
from typing import Any

import pytest

from service.api.openapi.document import document as described_by
from service.api.routes import ROUTES
from tests.looped import looped
from tests.service.api.api_client import (
    Client,
    client_fixture,  # noqa: F401  # a fixture
    conforms,
)


@pytest.fixture
def document(client):
    return client.get("/openapi.json").json()


def resolve(schema: Any, document: Any) -> Any:
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
        assert isinstance(resolve({"$ref": reference}, document), dict)


def test_the_document_has_every_route_and_no_other(document):
    routes = {(route.path, route.method) for route in ROUTES}
    described = {
        (path, method.upper()) for path, methods in document["paths"].items() for method in methods
    }
    assert described == routes
    assert len(routes) >= 6
    assert document["openapi"].startswith("3.")
    assert document["info"]["version"]


def test_the_document_asks_for_a_key_where_a_route_has_a_scope(tmp_path, document):
    (tmp_path / "keys").touch()
    keyed = Client(api={"keys_file": str(tmp_path / "keys")}).context
    described = described_by(keyed, ROUTES)["paths"]
    for route in ROUTES:
        operation = described[route.path][route.method.lower()]
        asked = {"401", "403", "429"} if route.scope else set()
        assert operation["responses"].keys() & {"401", "403", "429"} == asked
        assert ("security" in operation) == bool(route.scope)
        assert "security" not in document["paths"][route.path][route.method.lower()], (
            "a document without keys must not ask for one"
        )


def test_every_operation_has_a_summary_and_names_its_scope(document):
    for route in ROUTES:
        operation = document["paths"][route.path][route.method.lower()]
        assert 10 < len(operation["summary"]) < 100
        told = f"the scope `{route.scope}`" if route.scope else "without a key"
        assert told in operation["description"]
        assert ("415" in operation["responses"]) == (route.method == "POST")
    summaries = [
        operation["summary"] for path in document["paths"].values() for operation in path.values()
    ]
    assert len(set(summaries)) == len(summaries) - 3, (
        "only the routes with a version may share a summary"
    )


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


@looped("ready", [True, False])
@looped(("method", "path", "body", "status"), REPLIES)
def test_replies_have_the_declared_form(client, document, method, path, body, status, ready):
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
        assert schema, "predictions and their errors need a schema"
        asked = operation["requestBody"]["content"]["application/json"]["schema"]
        if status == 200:
            assert conforms(json.loads(body), asked, document)


def test_the_check_of_replies_rejects_wrong_forms(document):
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
