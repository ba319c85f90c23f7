"""A connection answers requests, reports faults in one form, and leaves nothing behind."""

import gc
import logging
import socket
import struct

import pytest

from service.server.in_flight import nothing
from service.server.response import ResponseWriter
from tests.service.server.connection_peer import CANARY, Peer, check_refusal, get, post, release
from tests.service.server.connection_world import (
    serving,
    world_fixture,  # noqa: F401  # a fixture
)
from tests.waiting import HANG_SECONDS, wait_for


def test_one_connection_answers_many_requests(world):
    with Peer(world) as peer:
        for n in range(20):
            peer.send(post(b"%d" % n))
            status, headers, body = peer.reply()
            assert (status, body) == (200, b"%d" % n)
            assert "server" not in headers
        peer.send(get() + post(b"two") + get())
        assert [peer.reply()[2] for _ in range(3)] == [b"hello", b"two", b"hello"]
        peer.send(get(b"/", b"connection: close"))
        assert peer.reply()[1]["connection"] == "close"
        assert peer.closed()
    assert world.refused == []
    assert world.starts == 24


def test_an_answered_request_leaves_nothing_to_collect(world):
    """Otherwise garbage collection would delay all answers for milliseconds."""
    asked = 50
    with Peer(world) as peer:

        def count_garbage():
            gc.collect()
            gc.disable()
            try:
                for _ in range(asked):
                    peer.send(post(b"x"))
                    assert peer.reply()[0] == 200
                return gc.collect()
            finally:
                gc.enable()

        # Other code in this process may sometimes leave garbage; a request that did would always
        # leave some.
        assert min(count_garbage() for _ in range(5)) < asked


def test_an_answer_to_head_has_no_body(world):
    with socket.create_connection(("127.0.0.1", world.port)) as peer:
        peer.settimeout(HANG_SECONDS)
        peer.sendall(get().replace(b"GET", b"HEAD") + get())
        data = b""
        while data.count(b"HTTP/1.1 200") < 2 or not data.endswith(b"hello"):
            data += peer.recv(65536)
    first, second = data.split(b"HTTP/1.1 200")[1:]
    assert first.endswith(b"\r\n\r\n"), "a body would be read as part of the next answer"
    assert b"content-length: 5" in first
    assert second.endswith(b"hello")


def test_a_header_with_a_line_break_is_not_sent():
    class Cycle:
        default_headers = ()
        keep_alive = True

    writer = ResponseWriter(Cycle(), nothing)
    writer._head = {"status": 200, "headers": [(b"x", b"y\r\nset-cookie: z")]}
    with pytest.raises(RuntimeError, match="more than one line"):
        writer._lines(Cycle())


def test_a_client_that_expects_100_continue_gets_it(world):
    with Peer(world) as peer:
        peer.send(
            b"POST / HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length:"
            b" 3\r\n\r\n"
        )
        while b"100 Continue\r\n\r\n" not in peer.buffer:
            assert peer.more()
        peer.buffer = b""
        peer.send(b"abc")
        assert peer.reply()[2] == b"abc"


@pytest.mark.parametrize("path", [b"/fault", b"/nothing"])
def test_an_internal_error_has_the_one_form(world, path, caplog):
    with Peer(world) as peer:
        peer.send(get(path, b"x: " + CANARY))
        check_refusal(peer.reply(), 500, "internal")
    assert world.refused == ["internal"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert CANARY.decode() not in caplog.text


def test_requests_open_at_shutdown_get_503_and_no_traceback(caplog):
    with serving(body_seconds=30, header_seconds=30) as world:
        world.server.config.timeout_graceful_shutdown = 1
        with Peer(world) as slow, Peer(world) as half, Peer(world) as idle:
            slow.send(get(b"/slow"))
            half.send(post(b"x", length=9))
            idle.send(get())
            idle.reply()
            wait_for(lambda: world.limit.open == 1, "a request")
            with caplog.at_level(logging.ERROR):
                world.server.should_exit = True
                for peer in (slow, half):
                    check_refusal(peer.reply(), 503, "stopping")
                    assert peer.closed()
                assert idle.closed()
        assert "Traceback" not in caplog.text
        assert "CancelledError" not in caplog.text


def test_a_client_that_stopped_sending_still_gets_its_answer(world):
    with Peer(world) as peer:
        peer.send(get(b"/slow"))
        peer.socket.shutdown(socket.SHUT_WR)
        wait_for(lambda: world.starts == 1, "a request")
        release(world)
        assert peer.reply()[2] == b"hello"
        assert peer.closed()


def test_an_aborted_pipeline_leaves_no_log_line(caplog):
    with serving(idle_seconds=30) as world, Peer(world) as other:
        for _ in range(3):
            other.send(get())
            assert other.reply()[0] == 200
            with Peer(world) as peer:
                peer.send(post(b"x", b"/slow") + get())
                wait_for(lambda: world.limit.open == 1, "a request")
                # Reset, not ended; on loopback the reset has arrived when `close` returns.
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            release(world)
            wait_for(lambda: world.limit.open == 0, "no open request")
            world.release.clear()
    assert not caplog.records
