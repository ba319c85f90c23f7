"""The middleware checks the key of every route, limits rates, and adds its headers to
every reply.
"""

import asyncio
import json

import httpx
import pytest

from service.api import make_admin
from service.api.admin import ADMIN
from service.api.middleware import OPEN, AuthAndLimits
from service.api.routes import ROUTES, Route
from service.api.views import POLICY
from service.server.api_keys import FAILURES, KeyFile, new_key
from tests.looped import looped
from tests.service.api.api_client import CANARY, Client, check_error
from tests.service.api.keyed_client import (
    SCOPES,
    SECRETS,
    ask,
    bearer,
    client_fixture,  # noqa: F401  # a fixture
    file_fixture,  # noqa: F401  # a fixture
)

ALWAYS = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "content-security-policy": "default-src 'none'",
}


KEYS = ("", CANARY, "expired", *SCOPES)
UNKNOWN = Route("GET", f"/{CANARY}", None, None, None, "")


def expected_refusal(route, key):
    """Return the status with which the middleware refuses: 401, 403, or 0 for none."""
    if route.path in OPEN:
        return 0
    if key not in SCOPES:
        return 401
    return 0 if route.scope in {None, key} else 403


@pytest.mark.parametrize(
    "route", [*ROUTES, UNKNOWN], ids=lambda route: f"{route.method} {route.path}"
)
@looped("key", KEYS, ids=lambda key: key or "no key")
def test_every_route_refuses_every_wrong_kind_of_key(client, route, key):
    expected = expected_refusal(route, key)
    path = route.path.format(name="m", version="7")
    reply = ask(client, route.method, path, key)
    if expected and path.startswith("/v2"):
        assert reply.status_code == expected
        assert reply.json().keys() == {"error"}
        assert isinstance(reply.json()["error"], str), (
            "the error lacks the form of the Open Inference Protocol"
        )
        assert ("www-authenticate" in reply.headers) == (expected == 401)
    elif expected:
        code = check_error(reply, expected)
        assert code == {401: "unauthorized", 403: "forbidden"}[expected]
        assert ("www-authenticate" in reply.headers) == (expected == 401)
    elif route is UNKNOWN:
        check_error(reply, 404)
    else:
        assert reply.status_code not in {401, 403, 404, 405, 429, 500}
    # The page runs its own script.
    own = {"content-security-policy": POLICY} if route.path == "/" else {}
    assert reply.headers.items() >= (ALWAYS | own).items()


@looped("key", KEYS, ids=lambda key: key or "no key")
@looped("route", [*ADMIN, UNKNOWN, *ROUTES[:1]], ids=lambda route: f"{route.method} {route.path}")
def test_administration_needs_an_admin_key(client, file, route, key):
    client.app = make_admin(client.context, KeyFile(file))
    reply = ask(client, route.method, route.path, key, b"")
    if route.scope is None and route in ADMIN:
        assert reply.json() == {"status": "alive"}
    elif key not in SCOPES:
        assert check_error(reply, 401) == "unauthorized"
    elif route not in ADMIN:
        assert check_error(reply, 404) == "not_found"
    elif key != "admin":
        assert check_error(reply, 403) == "forbidden"
    elif route.path == "/openapi.json":
        assert reply.json()["paths"].keys() == {route.path for route in ADMIN}
    else:
        assert reply.status_code in {422, 503}, "the store of this test does not exist"


ROLLBACKS = [b"{}", b'{"generation": 1}', b'{"rewind": true}', b'{"generation": 1, "rewind": null}']


@looped("body", ROLLBACKS)
def test_a_rollback_needs_generation_and_rewind(client, file, body):
    client.app = make_admin(client.context, KeyFile(file))
    reply = ask(client, "POST", "/admin/rollback", "admin", body)
    assert check_error(reply, 422) == "malformed"
    message = reply.json()["error"]["message"]
    assert '"generation"' in message
    assert "true: the events after that generation are learned again" in message
    assert "false: learning resumes at the present positions" in message
    shape = ask(client, "GET", "/openapi.json", "admin").json()["components"]["schemas"]["Rollback"]
    assert shape["required"] == ["generation", "rewind"]


def test_the_admin_document_has_every_shape(client, file):
    client.app = make_admin(client.context, KeyFile(file))
    document = ask(client, "GET", "/openapi.json", "admin").json()
    assert document["components"]["schemas"].keys() == {
        *("Alive", "Checkpoints", "Error", "Froze", "OpenApi", "Rollback", "RolledBack", "Unfroze")
    }
    for route in ADMIN:
        operation = document["paths"][route.path][route.method.lower()]
        assert operation["summary"]
        assert ("409" in operation["responses"]) == route.path.startswith("/admin/")


def test_no_route_is_both_open_and_scoped():
    assert {route.path for route in ROUTES if route.scope is None} <= OPEN
    assert {route.scope for route in ADMIN if route.path != "/healthz"} == {"admin"}
    assert "admin" not in {route.scope for route in ROUTES}


def test_a_route_mounted_without_the_middleware_denies(client):
    """Deny by default: a forgotten middleware opens nothing."""
    client.app = client.app._app
    assert check_error(client.get("/status"), 403) == "forbidden"


def test_without_keys_everything_is_open():
    client = Client()
    for route in ROUTES:
        assert ask(client, route.method, route.path).status_code not in {401, 403}


@looped(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic {}",
        "{}",
        "Bearer{}",
        "Bearer x{}",
        "Bearer {}x",
        "Bearer {} {}",
        "Token {}",
    ],
)
def test_a_malformed_authorization_is_refused(client, value):
    reply = client.ask("GET", "/status", authorization=value.format(SECRETS["metrics"], CANARY))
    assert check_error(reply, 401) == "unauthorized"
    assert SECRETS["metrics"] not in reply.text + str(reply.headers)


def test_a_missing_key_and_a_wrong_key_get_different_messages(client):
    def message_of(**headers):
        reply = client.ask("GET", "/status", **headers)
        assert check_error(reply, 401) == "unauthorized"
        return reply.json()["error"]["message"]

    missing = "no API key: send the header Authorization: Bearer op_..."
    assert message_of() == missing
    assert message_of(authorization="Basic x") == missing
    unknown = "unknown or expired API key"
    assert message_of(**bearer(CANARY)) == unknown
    assert message_of(**bearer("expired")) == unknown, (
        "the message must not reveal that the key was once valid"
    )


@looped("value", ["bearer {}", "BEARER {}", "Bearer  {}"])
def test_the_scheme_bearer_is_case_insensitive(client, value):
    reply = client.ask("GET", "/status", authorization=value.format(SECRETS["metrics"]))
    assert reply.status_code == 200


@pytest.mark.parametrize("other", ["Bearer x", "", " ", "Basic x", "the same"])
def test_two_keys_in_one_request_are_refused(client, other):
    good = f"Bearer {SECRETS['metrics']}"
    headers = [("authorization", good), ("authorization", good if other == "the same" else other)]

    async def send():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(client.app), base_url="http://localhost"
        ) as asking:
            more = [*headers, headers[0]]
            return [
                await asking.get("/status", headers=given)
                for given in (headers, headers[::-1], more)
            ]

    for reply in asyncio.run(send()):
        check_error(reply, 401)


def test_requests_beyond_the_rate_of_a_key_are_refused(client):
    replies = [ask(client, "GET", "/status", "limited") for _ in range(6)]
    assert [reply.status_code for reply in replies] == [200] * 3 + [429] * 3
    assert check_error(replies[-1], 429) == "rate_limited"
    assert 1 <= int(replies[-1].headers["retry-after"]) <= 2
    assert ask(client, "GET", "/status", "metrics").status_code == 200


def test_guessing_keys_gets_429_and_valid_keys_still_pass(client):
    replies = [ask(client, "GET", "/status", new_key()) for _ in range(FAILURES + 5)]
    assert [reply.status_code for reply in replies] == [401] * FAILURES + [429] * 5
    assert ask(client, "GET", "/status", "metrics").status_code == 200
    assert ask(client, "GET", "/healthz").status_code == 200


def test_refusals_are_counted(client):
    def count_refusals(reason):
        return client.metrics._registry.get_sample_value(
            "onepass_http_refusals_total", {"model": "m", "reason": reason}
        )

    assert count_refusals("busy") == 0, "the series must exist from the start"
    ask(client, "GET", "/status")
    ask(client, "GET", "/status", "predict")
    [ask(client, "GET", "/status", "limited") for _ in range(4)]
    ask(client, "POST", "/predict", "predict", b"x" * 1_000_001)
    ask(client, "POST", "/predict", "predict", b"[" * 100)
    ask(client, "POST", "/predict", "predict", b"no json")
    for reason in ("unauthorized", "forbidden", "rate_limited", "too_large", "too_deep"):
        assert count_refusals(reason) == 1, reason
    assert count_refusals("internal") == 0


def test_an_internal_error_is_logged_with_its_request_and_no_input(client, monkeypatch, caplog):
    def fail(_):
        raise RuntimeError("broken")

    monkeypatch.setattr(client.model, "predict", fail)
    body = json.dumps({"features": {CANARY: 1}}).encode()
    reply = ask(
        client,
        "POST",
        "/predict?explain=false",
        "predict",
        body,
        **{"x-more": CANARY, "cookie": CANARY},
    )
    assert check_error(reply, 500) == "internal"
    (record,) = [record for record in caplog.records if record.name == "onepass"]
    told = (record.request_id, record.key, record.route, record.status)
    assert told == (reply.headers["x-request-id"], "predict", "/predict", 500)
    assert CANARY not in caplog.text
    assert SECRETS["predict"] not in caplog.text


def test_every_reply_has_its_own_id_and_not_the_clients(client):
    ids = {
        ask(client, "GET", "/healthz", **{"x-request-id": CANARY}).headers["x-request-id"]
        for _ in range(50)
    }
    assert len(ids) == 50
    assert CANARY not in ids


def test_strict_transport_security_is_sent_only_over_tls(client):
    async def send(url):
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(client.app), base_url=url
        ) as asking:
            return await asking.get("/healthz")

    assert "strict-transport-security" in asyncio.run(send("https://localhost")).headers
    assert "strict-transport-security" not in asyncio.run(send("http://localhost")).headers


def test_a_page_can_set_its_own_content_security_policy():
    async def page(scope, receive, send):
        del scope, receive
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"content-security-policy", b"own")],
            }
        )
        await send({"type": "http.response.body"})

    client = Client()
    client.app = AuthAndLimits(page, 10)
    assert client.get("/").headers.get_list("content-security-policy") == ["own"]
