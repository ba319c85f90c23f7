"""A server works on a limited number of requests at once, and slow clients take no place from
others.
"""

from tests.service.server.connection_peer import Peer, check_refusal, get, post, release
from tests.service.server.connection_world import (
    serving,
    world_fixture,  # noqa: F401  # a fixture
)
from tests.waiting import wait_for


def test_a_request_beyond_the_limit_is_refused_at_once():
    with serving(idle_seconds=30, header_seconds=30) as world:
        idle = [Peer(world) for _ in range(20)]
        slow = [Peer(world) for _ in range(4)]
        for peer in slow:
            peer.send(get(b"/slow"))
        wait_for(lambda: world.limit.open == 4, "four requests")
        with Peer(world) as peer:
            for _ in range(3):
                peer.send(post(b"x"))
                reply = peer.reply()
                check_refusal(reply, 503, "busy")
                assert world.limit.open == 4, "the refusal must not wait for other requests"
                assert reply[1]["retry-after"] == "1"
            peer.send(get(b"/", b"connection: close"))
            check_refusal(peer.reply(), 503, "busy")
            assert peer.closed()
        assert world.starts == 4, "no work must begin for refused requests"
        release(world)
        assert [peer.reply()[0] for peer in slow] == [200] * 4
        idle[0].send(get())
        assert idle[0].reply()[0] == 200
        for peer in [*idle, *slow]:
            peer.socket.close()
        assert world.refused == ["busy"] * 4


def test_slow_bodies_take_no_place_from_others():
    with serving(body_seconds=30) as world:
        slow = [Peer(world) for _ in range(20)]
        for peer in slow:
            peer.send(post(b"x", length=9))
        with Peer(world) as peer:
            peer.send(get())
            assert peer.reply()[0] == 200
        assert world.starts == 1
        for peer in slow:
            peer.send(b"x" * 8)
            assert peer.reply()[2] == b"x" * 9
            peer.socket.close()
        assert world.refused == []


def test_the_rest_of_a_refused_body_does_not_end_the_connection(world):
    with Peer(world) as peer:
        peer.send(post(b"x" * 100_000))
        check_refusal(peer.reply(), 413, "too_large")
        peer.send(get())
        assert peer.reply()[0] == 200


def test_probes_are_answered_by_a_busy_server():
    with serving(idle_seconds=30) as world:
        slow = [Peer(world) for _ in range(4)]
        for peer in slow:
            peer.send(get(b"/slow"))
        wait_for(lambda: world.limit.open == 4, "four requests")
        for path, status in ((b"/healthz", 200), (b"/readyz", 200), (b"/predict", 503)):
            with Peer(world) as peer:
                peer.send(get(path))
                assert peer.reply()[0] == status
        release(world)
        assert [peer.reply()[0] for peer in slow] == [200] * 4
        for peer in slow:
            peer.socket.close()


def test_slow_long_bodies_block_only_long_bodies():
    with serving(body_seconds=30, max_in_flight=16) as world:
        slow = [Peer(world) for _ in range(40)]
        for peer in slow:
            peer.send(post(b"{", length=900).replace(b"900", b"000900"))
        wait_for(lambda: world.refused.count("busy") == 38, "refusals")
        assert (world.limit.arriving, world.limit.open) == (2, 0)
        with Peer(world) as peer:
            peer.send(post(b"short"))
            assert peer.reply()[0] == 200
        for peer in slow:
            peer.socket.close()
        wait_for(lambda: world.limit.arriving == 0, "no arriving body")
