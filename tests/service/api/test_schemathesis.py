"""The OpenAPI document is true: requests that match it are accepted, others are refused, and every
reply has the declared form.

A sample in every test run: four kinds of model, 500 cases and more. `make chaos` takes all eight,
20,000 and more. The document states three rules only in its descriptions, so the tests avoid them:
the squares of a row may add up to 1e100 (here no value is above 1e40); of values that are hashed
into one slot only the sum must not be below 0 (here such a learner has columns); and the brackets
of a tree match (here each text for a tree becomes the same tree).
"""

import json
from collections import Counter
from contextlib import closing
from typing import get_args

import pytest
import schemathesis
import yaml
from hypothesis import HealthCheck, Phase
from schemathesis import GenerationMode
from schemathesis.generation.hypothesis.builder import (
    HypothesisTestConfig,
    HypothesisTestMode,
    create_test,
)

from service.api.log_appender import Appender
from service.api.routes import ROUTES
from service.server.api_keys import KeyFile, Scope, digest_of, new_key
from tests.chaos.measuring import keep
from tests.chaos.scale import CHAOS
from tests.examples import FRESH, examples
from tests.service.api.api_client import Client
from tests.service.api.ingest_log import Fake

EXAMPLES = 300 if CHAOS else 5
"""Examples per operation of a model and kind of data, beside those that follow from the document
itself.
"""
AT_LEAST = 20_000 if CHAOS else 500

HERE = "http://localhost"
"""Base URL; a service without keys answers no other host."""
LIMITS = {"max_abs": 1e40, "max_name": 40}
COLUMNS = {"columns": ["amount", "age"]}
GROW = {"classes": "grow", "max_classes": 3}
KERNEL = "k-perceptron:max_support=20,kernel=tree"
MODELS = {
    "columns and hashed": {},
    "columns only": {"features": COLUMNS | {"bits": 0}, "label": {"positive": "1", "negative": 0}},
    "flat": {"features": COLUMNS | {"bits": 8, "flat": True}, "label": {"field": "class"}},
    "flat columns only": {
        "features": COLUMNS | {"bits": 0, "flat": True},
        "label": {"positive": "fraud"},
    },
    "several classes": {
        "label": GROW,
        "learner": {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"},
    },
    "trees": {"features": COLUMNS | {"bits": 8, "tree": "parse"}, "learner": f"{KERNEL}+linear"},
    "flat trees": {"features": {"bits": 0, "tree": "parse", "flat": True}, "learner": KERNEL},
    "no negative values": {"features": COLUMNS | {"bits": 0}, "learner": "winnow"},
}
SAMPLE = ("columns and hashed", "several classes", "flat trees", "no negative values")
"""Models of `make test`; every option of the other models is in one of these, too."""
ASKED = MODELS if CHAOS or FRESH else {name: MODELS[name] for name in SAMPLE}
TREE = "(S (A x) (B y))"
PACE = {
    "settings": examples(
        EXAMPLES,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    ),
    # Otherwise a profile with hypothesis' defaults would override them.
    "explicit_setting_names": {"max_examples", "suppress_health_check", "phases"},
}
MODES = [HypothesisTestMode.COVERAGE, HypothesisTestMode.FUZZING]
KNOCKING = MODES if CHAOS or FRESH else [HypothesisTestMode.FUZZING]
"""A key is checked before a body, so only `make chaos` tries the boundaries of body values."""
asked = Counter()
asked_with_keys = Counter()
SCOPES = get_args(Scope)


@pytest.mark.parametrize("model", ASKED.values(), ids=ASKED)
@pytest.mark.hypothesis
@pytest.mark.timeout(1800 if CHAOS or FRESH else 180)
def test_the_document_is_true(model):
    with closing(Appender(Fake())) as appender:
        client = Client(log=appender, limits=LIMITS, **model)
        document = schemathesis.openapi.from_dict(client.get("/openapi.json").json())
        document.app = client.app  # `from_asgi` would leave out the document's own path
        found = [operation.ok() for operation in document.get_all_operations()]
        assert {operation.label for operation in found} == {
            f"{route.method} {route.path}" for route in ROUTES
        }
        config = HypothesisTestConfig(document.config, MODES, **PACE)
        for operation in found:
            create_test(operation=operation, test_func=ask, config=config)()


def ask(case):
    excluded = []
    if (
        len(case.path_parameters.get("version", "")) == 1
        and case.meta.generation.mode == GenerationMode.POSITIVE
    ):
        case.path_parameters["version"] = "7"
    if (
        case.operation.path.endswith("/infer")
        and case.meta.generation.mode == GenerationMode.POSITIVE
    ):
        excluded = make_consistent(case)
    elif case.meta.generation.mode == GenerationMode.POSITIVE:
        give_trees(case.body)
    reply = case.call(base_url=HERE)
    asked[case.operation.label, reply.status_code] += 1
    case.validate_response(reply, excluded_checks=excluded)


@pytest.mark.parametrize("scope", ["", "wrong", *SCOPES], ids=lambda scope: scope or "no key")
@pytest.mark.hypothesis
@pytest.mark.timeout(1800 if CHAOS or FRESH else 180)
def test_no_request_gets_past_its_scope(scope, tmp_path):
    secrets = {each: new_key() for each in SCOPES}
    path = tmp_path / "keys.yaml"
    kept = [
        {"name": each, "sha256": digest_of(secret), "scopes": [each]}
        for each, secret in secrets.items()
    ]
    path.write_text(yaml.safe_dump(kept))
    headers = {"Authorization": f"Bearer {secrets.get(scope, scope)}"} if scope else {}
    with closing(Appender(Fake())) as appender:
        api = {"max_body_bytes": 1_000_000, "max_batch": 50, "keys_file": str(path)}
        client = Client(log=appender, limits=LIMITS, keys=KeyFile(path), api=api)
        reply = client.ask(
            "GET", "/openapi.json", None, authorization=f"Bearer {secrets['metrics']}"
        )
        document = schemathesis.openapi.from_dict(reply.json())
        document.app = client.app
        config = HypothesisTestConfig(document.config, KNOCKING, **PACE)

        knocked_at = set()

        def knock(case):
            knocked_at.add(case.operation.label)
            route = next(
                route for route in ROUTES if case.operation.label == f"{route.method} {route.path}"
            )
            case.headers = {**(case.headers or {}), **headers}
            if not scope:
                case.headers.pop("Authorization", None)
            reply = case.call(base_url=HERE)
            asked_with_keys[scope, reply.status_code] += 1
            case.validate_response(reply, checks=[schemathesis.checks.not_a_server_error])
            if case.operation.method.upper() == route.method and route.scope is not None:
                check_scope(reply, scope, route)

        for operation in document.get_all_operations():
            create_test(operation=operation.ok(), test_func=knock, config=config)()
    assert knocked_at == {f"{route.method} {route.path}" for route in ROUTES}
    assert asked_with_keys[scope, 200] or scope not in {"predict", "metrics"}


def check_scope(reply, scope, route):
    """Only a key of the route's own scope passes."""
    if scope not in SCOPES:
        assert reply.status_code in {401, 429}
    elif scope != route.scope:
        assert reply.status_code in {403, 405}, "405 means that the method does not exist"
    else:
        assert reply.status_code not in {401, 403}


def make_consistent(case):
    """Give the data the declared shape, which a schema cannot express; return the checks that still
    do not hold.
    """
    if case.media_type != "application/json" or not isinstance(case.body, dict):
        return [schemathesis.checks.positive_data_acceptance]
    (tensor,) = case.body["inputs"]
    if tensor["name"] == "instances":
        tensor["data"] = [instance(case) for _ in tensor["data"]]
    rows = tensor["data"]
    if tensor["name"] == "features" and not all(isinstance(row, list) for row in rows):
        rows = rows[: len(rows) // 2 * 2]
        tensor["data"] = rows
        rows = rows[::2]
    tensor["shape"][0] = len(rows)
    return []


def instance(case):
    """Return the smallest valid instance."""
    shape = case.operation.schema.raw_schema["components"]["schemas"]["Instance"]
    least = {"features": {}, "parse": TREE}
    return json.dumps({name: least[name] for name in shape.get("required", [])})


def give_trees(body):
    """Replace every text in the place of a tree by a tree."""
    rows = body.get("instances", [body]) if isinstance(body, dict) else []
    for row in rows:
        if isinstance(row.get("parse"), str):
            row["parse"] = TREE


def test_every_operation_was_tried_often_enough(request):
    ran = [
        item for item in request.session.items if item.name.startswith("test_the_document_is_true")
    ]
    if len(ran) < len(ASKED):
        pytest.skip("only a part of the document was asked for")
    by_status = Counter()
    for (_, status), count in asked.items():
        by_status[status] += count
    assert {label for label, _ in asked} == {f"{route.method} {route.path}" for route in ROUTES}
    assert by_status.total() >= AT_LEAST
    assert max(by_status) < 500
    for route in ROUTES:
        good = 202 if route.path == "/events" else 200
        assert asked[f"{route.method} {route.path}", good], (
            f"{route.path} never answered with success"
        )
    figures = {f"status_{status}": count for status, count in sorted(by_status.items())}
    keep("requests made from the OpenAPI document", requests=by_status.total(), false=0, **figures)
