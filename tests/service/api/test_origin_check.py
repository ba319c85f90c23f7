"""Web pages of other sites: without keys the Host must be known, and no foreign page can write for
its reader.
"""

import asyncio

import httpx
import pytest
import yaml

from service.api import make_admin, make_app
from service.api.admin import ADMIN
from service.api.log_appender import Appender
from service.api.routes import ROUTES
from service.config.loader import load
from service.errors import SettingsError
from service.server.api_keys import KeyFile, digest_of, new_key
from tests.looped import looped
from tests.service.api.api_client import CANARY, EVENTS, Client, check_error
from tests.service.api.ingest_log import Fake

SECRET = new_key()
OURS = (
    *("localhost", "localhost:8000", "LOCALHOST:8000", "localhost.", "localhost:"),
    *(
        "127.0.0.1",
        "127.0.0.1:1",
        "127.9.8.7:8000",
        "[::1]",
        "[::1]:8000",
        "[0:0::0:1]:80",
        "[::ffff:127.0.0.1]",
    ),
)
FOREIGN = (
    *(
        "",
        "evil.test",
        "evil.test:8000",
        "localhost.evil.test",
        "127.0.0.1.evil.test",
        "evil.test.",
        "128.0.0.1",
    ),
    *(
        "evil@localhost",
        "localhost@evil.test",
        "localhost:80@evil.test",
        "localhost:80:80",
        "localhost:x",
        "localhost ",
    ),
    *(
        "[::1",
        "::1",
        "[::2]",
        "[localhost]",
        "[fe80::1%25lo]",
        "[::1%lo]",
        "0.0.0.0",
        "127.1",
        "0x7f.0.0.1",
        "*",
    ),
    *(
        "localhost,evil.test",
        "evil.test,localhost",
        "localhost/evil",
        "localhost#",
        "localhost..",
        "a" * 300,
        "\x7f",
    ),
)


@pytest.fixture
def keys(tmp_path):
    path = tmp_path / "keys.yaml"
    scopes = ["predict", "events", "metrics", "admin"]
    path.write_text(
        yaml.safe_dump([{"name": "all", "sha256": digest_of(SECRET), "scopes": scopes}])
    )
    return KeyFile(path)


@pytest.fixture
def log():
    fake = Fake()
    appender = Appender(fake)
    yield fake, appender
    appender.close()


@pytest.fixture(params=["without keys", "with keys"])
def client(request, log, keys):
    made = Client(log=log[1], keys=keys if request.param == "with keys" else None)
    made.log = log[0]
    return made


def post(client, path="/events", body=EVENTS[0], **headers):
    return client.ask("POST", path, body, authorization=f"Bearer {SECRET}", **headers)


@looped("host", OURS)
def test_loopback_is_answered_without_keys(host):
    client = Client()
    for route in ROUTES:
        path = route.path.format(name="m", version="7")
        assert client.ask(route.method, path, host=host).status_code != 421


@looped("host", FOREIGN)
def test_another_host_is_answered_only_with_keys(host, keys):
    client = Client()
    for path in ("/", "/healthz", "/status", "/predict", "/no-such-path"):
        reply = client.ask("POST" if path == "/predict" else "GET", path, host=host)
        assert check_error(reply, 421) == "host"
        assert "api.hosts" in reply.json()["error"]["message"]
        assert "api.keys_file" in reply.json()["error"]["message"]
    assert (
        Client(keys=keys)
        .ask("GET", "/status", authorization=f"Bearer {SECRET}", host=host)
        .status_code
        == 200
    )
    refused = client.metrics._registry.get_sample_value
    assert refused("onepass_http_refusals_total", {"model": "m", "reason": "host"}) == 5


def test_the_settings_name_further_hosts():
    client = Client(api={"host": "Model.Example", "hosts": ["onepass", "fd00::5", "10.0.0.9"]})
    for host in (
        "model.example:8000",
        "ONEPASS",
        "onepass.:80",
        "[fd00:0::5]:8000",
        "10.0.0.9",
        "localhost",
    ):
        assert client.ask("GET", "/healthz", host=host).status_code == 200, host
    for host in ("example", "a.onepass", "[fd00::6]", "10.0.0.8"):
        assert client.ask("GET", "/healthz", host=host).status_code == 421, host


@looped("name", ["", "http://onepass", "onepass:8000", "*", "a b", "[::1]", CANARY * 40])
def test_a_host_of_the_settings_is_a_bare_name(name, tmp_path):
    path = tmp_path / "c.yaml"
    values = {
        "name": "m",
        "source": {"url": "redis://h:1/0/s"},
        "store": {"url": "redis://h:1/0"},
        "learner": "pa1",
    }
    path.write_text(yaml.safe_dump(values | {"api": {"hosts": [name]}}))
    with pytest.raises(SettingsError, match=r"api\.hosts.*without scheme and port"):
        load(path, {})


@looped(
    ("server", "host", "status"),
    [
        ("10.1.2.3", "10.1.2.3:8000", 200),
        ("::ffff:10.1.2.3", "10.1.2.3:8000", 200),
        ("fe80::7%eth0", "[fe80::7]:8000", 200),
        ("10.1.2.3", "10.1.2.4:8000", 421),
        ("10.1.2.3", "evil.test:8000", 421),
        ("unix", "unix", 421),
    ],
)
def test_a_probe_may_name_the_address_it_connects_to(server, host, status):
    """Kubelets send the pod's address as the Host of an API that listens to all by `--insecure`."""
    client, found = Client(), []

    async def send(message):
        found.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "scheme": "http",
        "path": "/healthz",
        "query_string": b"",
        "headers": [(b"host", host.encode())],
        "server": (server, 8000),
        "client": ("10.1.2.9", 5),
    }
    asyncio.run(client.app(scope, None, send))
    assert found[0]["status"] == status


CROSS = [
    {"origin": "http://evil.test"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://localhost:8001"},
    {"origin": "http://localhost.evil.test"},
    {"origin": "http://127.0.0.1"},
    {"origin": "http://evil@localhost"},
    {"origin": "https://localhost", "host": "localhost:80"},
    {"origin": "file://localhost"},
    {"origin": "chrome-extension://localhost"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "anything new"},
    {"sec-fetch-site": "cross-site", "origin": "http://localhost"},
    {"sec-fetch-site": "same-origin", "origin": "http://evil.test"},
]
SAME = [
    {},
    {"origin": "http://localhost"},
    {"origin": "http://LOCALHOST:80"},
    {"origin": "https://localhost"},
    {"origin": "http://localhost:8000", "host": "localhost:8000"},
    {"origin": "http://[::1]:8000", "host": "[0::1]:8000"},
    {"sec-fetch-site": "same-origin", "origin": "http://localhost"},
    {"sec-fetch-site": "none"},
]


@looped("headers", CROSS, ids=str)
def test_a_page_of_another_origin_writes_nothing(client, headers):
    for kind in ("application/json", "text/plain"):
        assert check_error(post(client, **headers, **{"content-type": kind}), 403) == "cross_site"
    assert client.log.values == []
    assert post(client, "/predict", b'{"features": {}}', **headers).status_code == 200, (
        "a prediction writes nothing, so it is allowed"
    )


@pytest.mark.parametrize("headers", SAME, ids=str)
def test_the_services_own_page_and_programs_can_write(client, headers):
    assert post(client, **headers).status_code == 202
    assert client.log.values == [EVENTS[0]]


def test_both_of_two_origins_are_checked(client):
    async def send(*origins):
        transport = httpx.ASGITransport(client.app)
        headers = [("authorization", f"Bearer {SECRET}"), ("content-type", "application/json")]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as asking:
            given = headers + [("origin", origin) for origin in origins]
            return await asking.post("/events", content=EVENTS[0], headers=given)

    for origins in (("http://localhost", "null"), ("null", "http://localhost")):
        assert check_error(asyncio.run(send(*origins)), 403) == "cross_site"


def test_over_tls_an_http_origin_is_refused(log):
    client = Client(log=log[1])

    async def send(origin):
        headers = {"origin": origin, "content-type": "application/json"}
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(client.app), base_url="https://localhost"
        ) as asking:
            return await asking.post("/events", content=EVENTS[0], headers=headers)

    assert asyncio.run(send("https://localhost")).status_code == 202
    assert check_error(asyncio.run(send("http://localhost")), 403) == "cross_site"


FORMS = (
    "application/x-www-form-urlencoded",
    "text/plain",
    "text/plain; application/json",
    "multipart/form-data",
    "",
)


@looped("kind", [*FORMS, "application/jsonp", "text/json", CANARY])
def test_an_event_must_be_declared_as_json(client, kind):
    reply = post(client, **{"content-type": kind})
    assert check_error(reply, 415) == "content_type"
    assert "Content-Type: application/json" in reply.json()["error"]["message"]
    assert client.log.values == []
    predicted = post(client, "/predict", b'{"features": {}}', **{"content-type": kind})
    assert predicted.status_code == 200, "`curl -d` sends this type"


@looped("kind", ["application/json", "Application/JSON; charset=utf-8", " application/json ;x=y"])
def test_the_json_type_may_have_parameters(client, kind):
    assert post(client, **{"content-type": kind}).status_code == 202


def test_administration_checks_origin_and_content_type(keys):
    client = Client()
    client.app = make_admin(client.context, keys)
    writing = [route for route in ADMIN if route.writes]
    assert [route.path for route in ADMIN if route.method == "POST"] == [
        route.path for route in writing
    ]
    for route in writing:
        for headers in CROSS:
            assert check_error(post(client, route.path, b"{}", **headers), 403) == "cross_site"
        for kind in FORMS:
            assert (
                check_error(post(client, route.path, b"{}", **{"content-type": kind}), 415)
                == "content_type"
            )
        bare = client.ask("POST", route.path, authorization=f"Bearer {SECRET}")
        wanted = 415 if route.takes else 503
        assert bare.status_code == wanted, (
            "a POST without a body needs no type; the store of this test does not exist"
        )


def test_every_post_route_either_writes_or_predicts():
    for route in (*ROUTES, *ADMIN):
        assert route.method == "GET" or route.predicts != route.writes


def test_a_preflight_allows_nothing(client):
    for path in ("/events", "/predict"):
        wanted = {"origin": "http://evil.test", "access-control-request-method": "POST"}
        reply = client.ask("OPTIONS", path, authorization=f"Bearer {SECRET}", **wanted)
        assert reply.status_code == 405
        assert not [name for name in reply.headers if name.startswith("access-control-")]


def test_the_document_declares_the_origin_refusals(keys, tmp_path):
    def replies(client, path):
        (operation,) = client[path].values()
        return operation["responses"].keys()

    client = Client()
    paths = client.get("/openapi.json").json()["paths"]
    assert {"403", "415", "421"} <= replies(paths, "/events")
    assert "421" in replies(paths, "/status")
    assert "403" not in replies(paths, "/predict")
    keyed = Client(keys=keys, api={"keys_file": str(tmp_path / "keys.yaml")})
    keyed.app = make_app(keyed.context, predicts=True, keys=keys)
    paths = keyed.ask("GET", "/openapi.json", authorization=f"Bearer {SECRET}").json()["paths"]
    assert {"401", "403", "415"} <= replies(paths, "/events")
    assert "421" not in replies(paths, "/events")
