"""A connection answers pipelined requests one by one, in order."""

import pytest

from service.server.protocol import MOST_PIPELINED
from tests.service.server.connection_peer import Peer, check_refusal, get, post, release
from tests.service.server.connection_world import (
    world_fixture,  # noqa: F401  # a fixture
)
from tests.waiting import wait_for


def test_the_number_of_pipelined_requests_is_bounded(world):
    with Peer(world) as peer:
        peer.send(get(b"/slow") + get() * 1000)
        wait_for(lambda: world.starts == 1, "a request")
        release(world)
        assert [peer.reply()[0] for _ in range(1 + MOST_PIPELINED)] == [200] * (1 + MOST_PIPELINED)
        check_refusal(peer.reply(), 400, "bad_request")
        assert peer.closed()
    assert world.starts == 1 + MOST_PIPELINED


GARBAGE = b"\x00 no HTTP \r\n\r\n"


@pytest.mark.parametrize("whole", [get(), post(b"x"), post(b"x") * 5], ids=["get", "post", "five"])
def test_a_complete_request_is_answered_before_garbage_is_refused(world, whole):
    with Peer(world) as peer:
        peer.send(whole + GARBAGE)
        for _ in range(whole.count(b"HTTP/1.1")):
            assert peer.reply()[0] == 200
        check_refusal(peer.reply(), 400, "bad_request")
        assert peer.closed()
    assert world.refused == ["bad_request"]


def test_a_refusal_waits_for_the_earlier_answer_and_ends_reading(world):
    with Peer(world) as peer:
        peer.send(get(b"/slow"))
        wait_for(lambda: world.starts == 1, "a request")
        peer.deliver(GARBAGE)
        peer.deliver(get() + GARBAGE)
        assert world.refused == []
        release(world)
        assert peer.reply()[0] == 200
        check_refusal(peer.reply(), 400, "bad_request")
        assert peer.closed()
    assert (world.refused, world.starts) == (["bad_request"], 1)


def test_a_missing_body_is_refused_after_the_earlier_answer(world):
    with Peer(world) as peer:
        peer.deliver(get(b"/slow") + post(b"x", length=9))
        world.pass_by(2 * world.api.body_seconds)
        release(world)
        assert peer.reply()[0] == 200
        world.pass_by(2 * world.api.body_seconds)
        check_refusal(peer.reply(), 408, "request_timeout")
        assert peer.closed()
    assert (world.refused, world.starts) == (["request_timeout"], 1)


def test_a_long_pipelined_body_is_refused_in_its_turn(world):
    """No time passes in this test, so the refusal does not come from a deadline."""
    with Peer(world) as peer:
        peer.send(get() + post(b"abc", length=99_999_999))
        assert peer.reply()[0] == 200
        check_refusal(peer.reply(), 413, "too_large")
    with Peer(world) as peer:
        peer.send(
            get()
            + post(b"", length=1).replace(
                b"content-length", b"expect: 100-continue\r\ncontent-length"
            )
        )
        assert peer.reply()[0] == 200
        while not peer.buffer.endswith(b"\r\n\r\n"):
            assert peer.more()
        assert peer.buffer.startswith(b"HTTP/1.1 100 ")
        peer.buffer = b""
        peer.send(b"x")
        assert peer.reply()[::2] == (200, b"x")


@pytest.mark.parametrize("pieces", [1, 7])
def test_pipelined_bodies_in_pieces_are_answered_in_order(world, pieces):
    data = b"".join(post(b"%d" % n * 90) for n in range(9)) + get()
    with Peer(world) as peer:
        for start in range(0, len(data), len(data) // pieces):
            peer.deliver(data[start : start + len(data) // pieces])
        assert [peer.reply()[2] for _ in range(9)] == [b"%d" % n * 90 for n in range(9)]
        assert peer.reply()[2] == b"hello"
