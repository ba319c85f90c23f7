"""A connection refuses malformed HTTP, in one form."""

import pytest

from tests.service.server.connection_peer import CANARY, Peer, check_refusal, get
from tests.service.server.connection_world import (
    World,
    world_fixture,  # noqa: F401  # a fixture
)

MALFORMED = {
    "no http": (b"hello " + CANARY + b"\r\n\r\n", 400, "bad_request"),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + CANARY, 400, "bad_request"),
    "no path": (b"GET  HTTP/1.1\r\n\r\n", 400, "bad_request"),
    "connect": (b"CONNECT h:1 HTTP/1.1\r\nhost: localhost\r\n\r\n", 400, "bad_request"),
    "two lengths": (
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        400,
        "bad_request",
    ),
    "length and chunks": (
        (
            b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ntransfer-encoding:"
            b" chunked\r\n\r\n0\r\n\r\n"
        ),
        400,
        "bad_request",
    ),
    "length no number": (
        b"POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: " + CANARY + b"\r\n\r\n",
        400,
        "bad_request",
    ),
    "bad chunk": (
        b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n" + CANARY,
        400,
        "bad_request",
    ),
    "header name": (
        b"GET / HTTP/1.1\r\nhost: localhost\r\nbad name: " + CANARY + b"\r\n\r\n",
        400,
        "bad_request",
    ),
    "url": (b"GET /" + CANARY * 500 + b" HTTP/1.1\r\n\r\n", 414, "headers_too_large"),
    "one header": (get(b"/", b"x: " + CANARY * 1600), 431, "headers_too_large"),
    "one without end": (
        b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + CANARY * 3000,
        431,
        "headers_too_large",
    ),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400, "bad_request"),
    "two hosts": (get(b"/", b"host: " + CANARY), 400, "bad_request"),
    "the same host twice": (get(b"/", b"Host: localhost"), 400, "bad_request"),
    "http/0.9": (b"GET /\r\n\r\n", 400, "bad_request"),
    "http/2.0": (get().replace(b"1.1", b"2.0"), 400, "bad_request"),
    "http/1.0 with two hosts": (get(b"/", b"host: h").replace(b"1.1", b"1.0"), 400, "bad_request"),
    "a target with a user": (get(b"http://u:" + CANARY + b"@localhost/"), 400, "bad_request"),
    "a target without a host": (get(b"http:///"), 400, "bad_request"),
    "many headers": (
        get(b"/", *(b"x-%d: %b" % (n, CANARY) for n in range(101))),
        431,
        "headers_too_large",
    ),
}


@pytest.mark.parametrize(("data", "status", "code"), MALFORMED.values(), ids=MALFORMED)
def test_malformed_http_is_refused(world, data, status, code, caplog):
    with Peer(world) as peer:
        peer.send(data)
        check_refusal(peer.reply(), status, code)
        assert peer.closed()
    assert world.refused == [code]
    assert caplog.text == "", "a refusal must be counted, not logged"


def test_the_largest_allowed_headers_are_accepted_in_pieces(world):
    with Peer(world) as peer:
        data = get(b"/", *(b"x-%d: %b" % (n, b"y" * 120) for n in range(99)))
        for start in range(0, len(data), 4000):
            peer.deliver(data[start : start + 4000])
        assert peer.reply()[0] == 200


def test_a_trailer_does_not_become_a_header(world):
    seen = []

    async def app(scope, receive, send):
        while (await receive())["more_body"]:
            pass
        seen.extend(scope["headers"])
        await World.app(world, scope | {"method": "GET"}, receive, send)

    world.server.config.app._app = app
    with Peer(world) as peer:
        head = b"POST / HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        peer.send(head + b"1\r\nx\r\n0\r\nauthorization: Bearer op_x\r\n\r\n")
        assert peer.reply()[0] == 200
    assert [name for name, _ in seen] == [b"host", b"transfer-encoding"]


def test_an_endless_trailer_is_cut_off(world):
    with Peer(world) as peer:
        peer.send(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ")
        try:
            for _ in range(100):
                peer.send(b"y" * 10_000)
        except ConnectionError:
            pass
        assert peer.closed()
    assert world.refused == ["bad_request"]
