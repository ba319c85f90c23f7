"""A connection checks the host of every request, and an upgrade cannot bypass the check."""

import pytest

from tests.service.server.connection_peer import Peer, check_refusal, get, post
from tests.service.server.connection_world import (
    TICK,
    world_fixture,  # noqa: F401  # a fixture
)


def test_an_upgrade_is_answered_as_a_plain_request(world, caplog):
    with Peer(world) as peer:
        peer.send(
            get(b"/", b"connection: upgrade", b"upgrade: websocket", b"sec-websocket-key: eA==")
        )
        assert peer.reply()[0] == 200
        world.pass_by(world.api.idle_seconds + TICK)
        assert peer.closed()
    assert caplog.text == ""


def test_an_upgrade_keeps_its_body(world):
    upgrade = (
        b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings:"
        b" A\r\ncontent-length"
    )
    data = post(b"body").replace(b"content-length", upgrade) + post(b"next")
    for cut in (0, 40, 110, 130):
        with Peer(world) as peer:
            peer.deliver(data[:cut])
            peer.send(data[cut:])
            assert [peer.reply()[2] for _ in range(2)] == [b"body", b"next"]
    with Peer(world) as peer:
        peer.send(b"CONNECT h:1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        check_refusal(peer.reply(), 400, "bad_request")


def test_http_1_0_without_a_host_is_refused_without_keys(world):
    """A request without a host could come from any site's page."""
    with Peer(world) as peer:
        peer.send(b"GET / HTTP/1.0\r\n\r\n")
        check_refusal(peer.reply(), 421, "host")
    with Peer(world) as peer:
        peer.send(b"GET / HTTP/1.0\r\nhost: localhost\r\n\r\n")
        assert peer.reply()[0] == 200


def test_a_host_in_the_target_counts_instead_of_the_header(world):
    ours = dict.fromkeys(
        [b"http://127.0.0.1:8000/", b"HTTP://LOCALHOST/", b"http://[::1]:80/", b"http://[::1]/"],
        200,
    )
    for target, status in {b"http://evil.test/": 421, b"http://[::2]/": 421, **ours}.items():
        with Peer(world) as peer:
            peer.send(get(target))
            assert peer.reply()[0] == status
            peer.send(get(target).replace(b"host: localhost", b"host: evil.test"))
            assert peer.reply()[0] == status


@pytest.mark.parametrize("upgrade", [b"h2c", b"websocket"])
def test_an_upgrade_cannot_bypass_the_host_check(world, upgrade):
    more = (b"connection: Upgrade, HTTP2-Settings", b"upgrade: " + upgrade, b"http2-settings: A")
    for host, status in ((b"evil.test", 421), (b"localhost", 200)):
        with Peer(world) as peer:
            peer.send(get(b"/", *more).replace(b"host: localhost", b"host: " + host))
            assert peer.reply()[0] == status
    with Peer(world) as peer:
        peer.send(get(b"/", *more, b"host: evil.test"))
        check_refusal(peer.reply(), 400, "bad_request")
