"""A connection cuts who is slow at a deadline that no drop can move."""

import pytest

from service.server.connection_closing import HIGH_WATER_LIMIT, LINGER_SECONDS
from tests.service.server.connection_peer import Peer, about, check_refusal, drips, get, post
from tests.service.server.connection_world import (
    BIG,
    TICK,
    serving,
    world_fixture,  # noqa: F401  # a fixture
)
from tests.waiting import wait_for


def test_headers_that_drip_are_cut_at_the_deadline(world):
    with Peer(world) as peer:
        peer.send(b"GET / HTTP/1.1\r\n")
        took = drips(peer, (b"x-%d: y\r\n" % n for n in range(60)))
        assert took == about(world.api.header_seconds)
        check_refusal(peer.reply(), 408, "request_timeout")
    assert world.refused == ["request_timeout"]
    assert world.starts == 0


def test_headers_that_drip_on_a_connection_that_was_good(world):
    with Peer(world) as peer:
        peer.send(get())
        assert peer.reply()[0] == 200
        took = drips(peer, (bytes([byte]) for byte in get() * 9))
        assert took == about(world.api.header_seconds)
        check_refusal(peer.reply(), 408, "request_timeout")


def test_a_connection_that_says_nothing_is_closed(world):
    with Peer(world) as peer:
        world.pass_by(world.api.header_seconds - TICK)
        assert not world.ending()
        world.pass_by(2 * TICK)
        assert peer.closed()
        assert peer.buffer == b""


def test_empty_lines_keep_no_connection_open(world):
    for before, seconds in ((b"", world.api.header_seconds), (get(), world.api.idle_seconds)):
        with Peer(world) as peer:
            peer.send(before)
            if before:
                assert peer.reply()[0] == 200
            assert drips(peer, [b"\r\n"] * 60) == about(seconds)


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
def test_a_body_that_drips_is_cut_at_the_deadline(world, chunked):
    with Peer(world) as peer:
        kind = b"transfer-encoding: chunked" if chunked else b"content-length: 500"
        peer.send(b"POST / HTTP/1.1\r\nhost: localhost\r\n%b\r\n\r\n" % kind)
        took = drips(peer, [b"1\r\nx\r\n" if chunked else b"x"] * 60)
        assert took == about(world.api.body_seconds)
        check_refusal(peer.reply(), 408, "request_timeout")
    assert world.refused == ["request_timeout"]


def test_a_body_in_pieces_that_is_in_time(world):
    with Peer(world) as peer:
        for part in (post(b"abc", length=9), b"def", b"ghi"):
            world.pass_by(0.4 * world.api.body_seconds)
            peer.deliver(part)
        assert peer.reply()[2] == b"abcdefghi"
        world.pass_by(world.api.idle_seconds - TICK)
        peer.send(get())
        assert peer.reply()[0] == 200, "the deadline of a body does not outlive it"


@pytest.mark.parametrize("idle", [0.1, 60])
def test_who_does_not_read_the_answer_is_dropped(idle):
    """Also one whose connection is closed as idle, since all that was asked is answered."""
    with serving(idle_seconds=idle) as world, Peer(world, receive_buffer=4096) as peer:
        peer.deliver(get(b"/big"))

        def dropped():
            world.pass_by(TICK)
            return world.refused == ["slow_reader"]

        wait_for(dropped, "that it is dropped")
        wait_for(lambda: not world.connections(), "that it is closed")


def test_who_reads_slowly_but_reads_gets_it_all():
    with serving() as world, Peer(world, receive_buffer=65536) as peer:
        peer.send(get(b"/big"))

        def sizes():
            return [one.transport.get_write_buffer_size() for one in world.connections()]

        def left():
            return sum(world.timers.ask(sizes))

        def read():
            data = peer.socket.recv(65536)
            assert data
            return len(data)

        came, periods = read(), 0
        wait_for(left, "an answer that waits for its reader")
        while before := left():
            while left() > max(0, before - HIGH_WATER_LIMIT):
                came += read()
            world.pass_by(world.api.body_seconds)
            periods += 1
        while came < len(BIG):
            came += read()
        assert periods > 3
        assert world.refused == []


def test_who_sends_on_after_the_answer_can_read_it_and_is_closed():
    with serving(idle_seconds=30) as world, Peer(world) as peer:
        peer.send(post(b"", length=2_000_000_000))
        check_refusal(peer.reply(), 413, "too_large")
        assert drips(peer, [b"x" * 1000] * 200) == about(LINGER_SECONDS)
        assert peer.closed()
