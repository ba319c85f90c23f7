"""A connection cuts off slow clients at a deadline that single bytes cannot move."""

import pytest

from service.server.connection_closing import HIGH_WATER_LIMIT, LINGER_SECONDS
from tests.service.server.connection_peer import Peer, about, check_refusal, drip, get, post
from tests.service.server.connection_world import (
    BIG,
    TICK,
    serving,
    world_fixture,  # noqa: F401  # a fixture
)
from tests.waiting import wait_for


def test_dripping_headers_are_cut_off_at_the_deadline(world):
    with Peer(world) as peer:
        peer.send(b"GET / HTTP/1.1\r\n")
        took = drip(peer, (b"x-%d: y\r\n" % n for n in range(60)))
        assert took == about(world.api.header_seconds)
        check_refusal(peer.reply(), 408, "request_timeout")
    assert world.refused == ["request_timeout"]
    assert world.starts == 0


def test_dripping_headers_of_a_later_request_are_cut_off(world):
    with Peer(world) as peer:
        peer.send(get())
        assert peer.reply()[0] == 200
        took = drip(peer, (bytes([byte]) for byte in get() * 9))
        assert took == about(world.api.header_seconds)
        check_refusal(peer.reply(), 408, "request_timeout")


def test_a_silent_connection_is_closed(world):
    with Peer(world) as peer:
        world.pass_by(world.api.header_seconds - TICK)
        assert not world.ending()
        world.pass_by(2 * TICK)
        assert peer.closed()
        assert peer.buffer == b""


def test_empty_lines_do_not_keep_a_connection_open(world):
    for before, seconds in ((b"", world.api.header_seconds), (get(), world.api.idle_seconds)):
        with Peer(world) as peer:
            peer.send(before)
            if before:
                assert peer.reply()[0] == 200
            assert drip(peer, [b"\r\n"] * 60) == about(seconds)


def test_an_idle_connection_is_closed_later_than_a_slow_one(world):
    with Peer(world) as peer:
        peer.send(get())
        peer.reply()
        world.pass_by(world.api.header_seconds + TICK)
        assert not world.ending()
        world.pass_by(world.api.idle_seconds - world.api.header_seconds)
        assert peer.closed()
        assert peer.buffer == b""


@pytest.mark.parametrize("chunked", [False, True])
def test_a_dripping_body_is_cut_off_at_the_deadline(world, chunked):
    with Peer(world) as peer:
        kind = b"transfer-encoding: chunked" if chunked else b"content-length: 500"
        peer.send(b"POST / HTTP/1.1\r\nhost: localhost\r\n%b\r\n\r\n" % kind)
        took = drip(peer, [b"1\r\nx\r\n" if chunked else b"x"] * 60)
        assert took == about(world.api.body_seconds)
        check_refusal(peer.reply(), 408, "request_timeout")
    assert world.refused == ["request_timeout"]


def test_a_body_in_pieces_within_the_deadline_is_accepted(world):
    with Peer(world) as peer:
        for part in (post(b"abc", length=9), b"def", b"ghi"):
            world.pass_by(0.4 * world.api.body_seconds)
            peer.deliver(part)
        assert peer.reply()[2] == b"abcdefghi"
        world.pass_by(world.api.idle_seconds - TICK)
        peer.send(get())
        assert peer.reply()[0] == 200, "the deadline of a body must end with the body"


@pytest.mark.parametrize("idle", [0.1, 60])
def test_a_client_that_does_not_read_its_answer_is_dropped(idle):
    """This also holds if its connection is closed as idle because all its requests are answered."""
    with serving(idle_seconds=idle) as world, Peer(world, receive_buffer=4096) as peer:
        peer.deliver(get(b"/big"))

        def is_dropped():
            world.pass_by(TICK)
            return world.refused == ["slow_reader"]

        wait_for(is_dropped, "the connection is dropped")
        wait_for(lambda: not world.connections(), "the connection is closed")


def test_a_client_that_reads_slowly_gets_its_whole_answer():
    with serving() as world, Peer(world, receive_buffer=65536) as peer:
        peer.send(get(b"/big"))

        def sizes():
            return [one.transport.get_write_buffer_size() for one in world.connections()]

        def count_unsent():
            return sum(world.timers.ask(sizes))

        def read():
            data = peer.socket.recv(65536)
            assert data
            return len(data)

        came, periods = read(), 0
        wait_for(count_unsent, "an answer that waits for its reader")
        while before := count_unsent():
            while count_unsent() > max(0, before - HIGH_WATER_LIMIT):
                came += read()
            world.pass_by(world.api.body_seconds)
            periods += 1
        while came < len(BIG):
            came += read()
        assert periods > 3
        assert world.refused == []


def test_a_client_that_keeps_sending_can_read_the_refusal():
    with serving(idle_seconds=30) as world, Peer(world) as peer:
        peer.send(post(b"", length=2_000_000_000))
        check_refusal(peer.reply(), 413, "too_large")
        assert drip(peer, [b"x" * 1000] * 200) == about(LINGER_SECONDS)
        assert peer.closed()
