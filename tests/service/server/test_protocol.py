"""One connection: deadlines that drops cannot move, bounds on every buffer, and one form for every
refusal.
"""

import asyncio
import gc
import json
import logging
import socket
import struct
import threading
import time
from contextlib import contextmanager

import pytest

from service.api.middleware import AuthAndLimits
from service.config.settings import Api
from service.server.in_flight import InFlightLimit, nothing
from service.server.protocol import MOST_PIPELINED
from service.server.response import ResponseWriter
from service.server.server import bound, make_server

CANARY = b"canary-51c7"
FAST = {"header_seconds": 0.5, "body_seconds": 0.5, "idle_seconds": 0.7, "max_in_flight": 4}
BIG = b"x" * 20_000_000


class World:
    """A server in a thread, and what happened in it."""

    def __init__(self, **changes):
        self.api = Api(port=0, **FAST | changes)
        self.refused, self.starts, self.ends = [], 0, 0
        self.release = asyncio.Event()
        self.limit = InFlightLimit(
            self.api.max_in_flight, self.refused.append, self.started, self.ended
        )
        self.server = make_server(AuthAndLimits(self.app, 1000), self.api, self.limit)
        self.socket = bound("127.0.0.1", 0, open_to_others=False)
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})

    def started(self):
        self.starts += 1

    def ended(self):
        self.ends += 1

    async def app(self, scope, receive, send):
        body = b""
        while scope["method"] == "POST":
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message["body"]
            if not message["more_body"]:
                break
        if scope["path"] == "/fault":
            raise RuntimeError("a fault")
        if scope["path"] == "/nothing":
            return
        if scope["path"] == "/slow":
            await self.release.wait()
        answer = BIG if scope["path"] == "/big" else body or b"hello"
        headers = [(b"content-length", b"%d" % len(answer))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})


@contextmanager
def serving(**changes):
    world = World(**changes)
    world.thread.start()
    try:
        yield world
    finally:
        world.server.should_exit = True
        world.thread.join(15)
        assert not world.thread.is_alive()
        assert world.limit.open == 0
        assert world.starts == world.ends


@pytest.fixture
def world():
    with serving() as made:
        yield made


class Peer:
    """A client that does as it likes."""

    def __init__(self, world, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", world.port))
        self.socket.settimeout(10)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            return False
        self.buffer += data
        return bool(data)

    def reply(self):
        """Status, headers, body of the next reply."""
        while b"\r\n\r\n" not in self.buffer:
            assert self.more(), f"closed after {self.buffer[:200]!r}"
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        while len(self.buffer) < int(headers["content-length"]):
            assert self.more()
        body, self.buffer = (
            self.buffer[: int(headers["content-length"])],
            self.buffer[int(headers["content-length"]) :],
        )
        return int(first.split()[1]), headers, body

    def closed(self, within):
        """Whether the server ends the connection in time; what it says until then is in
        `buffer`.
        """
        started = time.monotonic()
        self.socket.settimeout(within)
        try:
            while self.more():
                self.socket.settimeout(max(0.01, within - (time.monotonic() - started)))
        except TimeoutError:
            return False
        return True


def get(path=b"/", *headers):
    return b"\r\n".join([b"GET %b HTTP/1.1" % path, b"host: localhost", *headers, b"", b""])


def post(body, path=b"/", length=None):
    size = len(body) if length is None else length
    return b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (
        path,
        size,
        body,
    )


def check_refusal(reply, status, code):
    """In the one form, with the headers of every reply, and nothing of the input."""
    found, headers, body = reply
    assert found == status
    assert json.loads(body)["error"]["code"] == code
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers
    assert CANARY.decode() not in body.decode() + str(headers)
    assert len(body) <= 4096


def test_good_requests_on_one_connection(world):
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
        assert peer.closed(1)
    assert world.refused == []
    assert world.starts == 24


def test_an_answered_request_leaves_nothing_to_collect(world):
    """Or a collector would have to look for it, for milliseconds in which nobody is answered."""
    asked = 50
    with Peer(world) as peer:
        gc.collect()
        gc.disable()
        try:
            for _ in range(asked):
                peer.send(post(b"x"))
                assert peer.reply()[0] == 200
            found = gc.collect()
        finally:
            gc.enable()
    assert found < asked


def test_an_answer_to_head_has_no_body(world):
    with socket.create_connection(("127.0.0.1", world.port)) as peer:
        peer.settimeout(5)
        peer.sendall(get().replace(b"GET", b"HEAD") + get())
        data = b""
        while data.count(b"HTTP/1.1 200") < 2 or not data.endswith(b"hello"):
            data += peer.recv(65536)
    first, second = data.split(b"HTTP/1.1 200")[1:]
    assert first.endswith(b"\r\n\r\n"), "else what follows is taken for the next answer"
    assert b"content-length: 5" in first
    assert second.endswith(b"hello")


def test_a_header_of_two_lines_is_not_sent():
    class Cycle:
        default_headers = ()
        keep_alive = True

    writer = ResponseWriter(Cycle(), nothing)
    writer._head = {"status": 200, "headers": [(b"x", b"y\r\nset-cookie: z")]}
    with pytest.raises(RuntimeError, match="more than one line"):
        writer._lines(Cycle())


def drips(peer, parts, every=0.1):
    """Send a part now and then until the server ends it; how long that took."""
    started = time.monotonic()
    peer.socket.settimeout(every)
    for part in parts:
        try:
            peer.send(part)
            if not peer.more():
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - started


def test_headers_that_drip_are_cut_at_the_deadline(world):
    with Peer(world) as peer:
        peer.send(b"GET / HTTP/1.1\r\n")
        assert 0.3 <= drips(peer, (b"x-%d: y\r\n" % n for n in range(60))) <= 2.5
        check_refusal(peer.reply(), 408, "request_timeout")
    assert world.refused == ["request_timeout"]
    assert world.starts == 0


def test_headers_that_drip_on_a_connection_that_was_good(world):
    with Peer(world) as peer:
        peer.send(get())
        assert peer.reply()[0] == 200
        assert 0.3 <= drips(peer, (bytes([byte]) for byte in get() * 9)) <= 2.5
        check_refusal(peer.reply(), 408, "request_timeout")


def test_a_connection_that_says_nothing_is_closed(world):
    with Peer(world) as peer:
        started = time.monotonic()
        assert peer.closed(3)
        assert time.monotonic() - started >= 0.3
        assert peer.buffer == b""


def test_empty_lines_keep_no_connection_open(world):
    for before in (b"", get()):
        with Peer(world) as peer:
            peer.send(before)
            if before:
                assert peer.reply()[0] == 200
            assert drips(peer, [b"\r\n"] * 60) <= 3


def test_an_idle_connection_is_closed_later_than_a_slow_one(world):
    with Peer(world) as peer:
        peer.send(get())
        peer.reply()
        started = time.monotonic()
        assert peer.closed(3)
        assert time.monotonic() - started >= 0.5
        assert peer.buffer == b""


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_that_drips_is_cut_at_the_deadline(world, chunked):
    with Peer(world) as peer:
        kind = b"transfer-encoding: chunked" if chunked else b"content-length: 500"
        peer.send(b"POST / HTTP/1.1\r\nhost: localhost\r\n%b\r\n\r\n" % kind)
        assert 0.3 <= drips(peer, [b"1\r\nx\r\n" if chunked else b"x"] * 60) <= 2.5
        check_refusal(peer.reply(), 408, "request_timeout")
    assert world.refused == ["request_timeout"]


def test_a_body_in_pieces_that_is_in_time(world):
    with Peer(world) as peer:
        peer.send(post(b"abc", length=9))
        time.sleep(0.2)
        peer.send(b"def")
        time.sleep(0.1)
        peer.send(b"ghi")
        assert peer.reply()[2] == b"abcdefghi"
        time.sleep(0.6)
        peer.send(get())
        assert peer.reply()[0] == 200, "the deadline of a body does not outlive it"


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
def test_what_is_not_good_http(world, data, status, code, caplog):
    with Peer(world) as peer:
        peer.send(data)
        check_refusal(peer.reply(), status, code)
        assert peer.closed(2)
    assert world.refused == [code]
    assert caplog.text == "", "counted, not logged"


def test_as_many_headers_as_are_allowed_also_in_pieces(world):
    with Peer(world) as peer:
        data = get(b"/", *(b"x-%d: %b" % (n, b"y" * 120) for n in range(99)))
        for start in range(0, len(data), 4000):
            peer.send(data[start : start + 4000])
            time.sleep(0.02)
        assert peer.reply()[0] == 200


def test_a_trailer_is_no_header(world):
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


def test_a_trailer_without_end_is_cut(world):
    with Peer(world) as peer:
        peer.send(b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nx: ")
        try:
            for _ in range(100):
                peer.send(b"y" * 10_000)
        except ConnectionError:
            pass
        assert peer.closed(2)
    assert world.refused == ["bad_request"]


def test_an_upgrade_is_answered_as_a_plain_request_and_closed(world, caplog):
    with Peer(world) as peer:
        peer.send(
            get(b"/", b"connection: upgrade", b"upgrade: websocket", b"sec-websocket-key: eA==")
        )
        assert peer.reply()[0] == 200
        assert peer.closed(2)
    assert caplog.text == ""


def test_pipelined_requests_have_a_bound(world):
    with Peer(world) as peer:
        peer.send(get(b"/slow") + get() * 1000)
        wait_until(lambda: world.starts == 1)
        release(world)
        assert [peer.reply()[0] for _ in range(1 + MOST_PIPELINED)] == [200] * (1 + MOST_PIPELINED)
        check_refusal(peer.reply(), 400, "bad_request")
        assert peer.closed(2)
    assert world.starts == 1 + MOST_PIPELINED


GARBAGE = b"\x00 no HTTP \r\n\r\n"


@pytest.mark.parametrize("whole", [get(), post(b"x"), post(b"x") * 5], ids=["get", "post", "five"])
def test_a_whole_request_is_answered_before_what_follows_is_refused(world, whole):
    with Peer(world) as peer:
        peer.send(whole + GARBAGE)
        for _ in range(whole.count(b"HTTP/1.1")):
            assert peer.reply()[0] == 200
        check_refusal(peer.reply(), 400, "bad_request")
        assert peer.closed(2)
    assert world.refused == ["bad_request"]


def test_what_is_refused_waits_for_the_answer_and_nothing_after_it_is_read(world):
    with Peer(world) as peer:
        peer.send(get(b"/slow"))
        wait_until(lambda: world.starts == 1)
        peer.send(GARBAGE)
        time.sleep(0.1)
        peer.send(get() + GARBAGE)
        time.sleep(0.1)
        assert world.refused == []
        release(world)
        assert peer.reply()[0] == 200
        check_refusal(peer.reply(), 400, "bad_request")
        assert peer.closed(2)
    assert (world.refused, world.starts) == (["bad_request"], 1)


def test_a_body_that_does_not_come_is_refused_behind_the_answer_before_it(world):
    with Peer(world) as peer:
        peer.send(get(b"/slow") + post(b"x", length=9))
        time.sleep(2 * world.api.body_seconds)
        release(world)
        assert peer.reply()[0] == 200
        check_refusal(peer.reply(), 408, "request_timeout")
        assert peer.closed(2)
    assert (world.refused, world.starts) == (["request_timeout"], 1)


def test_a_long_body_is_looked_at_in_its_turn_too(world):
    started = time.monotonic()
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
    assert time.monotonic() - started < world.api.body_seconds


def release(world):
    """From this thread, in the loop of the server."""
    for connection in list(world.server.server_state.connections):
        connection.loop.call_soon_threadsafe(world.release.set)
    if not world.server.server_state.connections:
        with Peer(world):
            wait_until(lambda: world.server.server_state.connections)
            (connection,) = world.server.server_state.connections
            connection.loop.call_soon_threadsafe(world.release.set)
            wait_until(lambda: world.limit.open == 0)


def wait_until(condition, seconds=5):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_one_request_too_many_is_told_at_once_and_idle_connections_do_not_count():
    with serving(idle_seconds=30, header_seconds=30) as world:
        idle = [Peer(world) for _ in range(20)]
        slow = [Peer(world) for _ in range(4)]
        for peer in slow:
            peer.send(get(b"/slow"))
        wait_until(lambda: world.limit.open == 4)
        with Peer(world) as peer:
            for _ in range(3):
                started = time.monotonic()
                peer.send(post(b"x"))
                reply = peer.reply()
                assert time.monotonic() - started < 1
                check_refusal(reply, 503, "busy")
                assert reply[1]["retry-after"] == "1"
            peer.send(get(b"/", b"connection: close"))
            check_refusal(peer.reply(), 503, "busy")
            assert peer.closed(2)
        assert world.starts == 4, "no work was begun for the others"
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


@pytest.mark.parametrize("pieces", [1, 7])
def test_pipelined_bodies_in_pieces(world, pieces):
    data = b"".join(post(b"%d" % n * 90) for n in range(9)) + get()
    with Peer(world) as peer:
        for start in range(0, len(data), len(data) // pieces):
            peer.send(data[start : start + len(data) // pieces])
            time.sleep(0.02)
        assert [peer.reply()[2] for _ in range(9)] == [b"%d" % n * 90 for n in range(9)]
        assert peer.reply()[2] == b"hello"


def test_a_long_body_that_is_waited_for_is_asked_for(world):
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


@pytest.mark.parametrize("idle", [0.1, 60])
def test_who_does_not_read_the_answer_is_dropped(idle):
    """Also one whose connection is closed as idle, since all that was asked is answered."""
    with serving(idle_seconds=idle) as world, Peer(world, receive_buffer=4096) as peer:
        peer.send(get(b"/big"))
        wait_until(lambda: world.refused == ["slow_reader"])
        wait_until(lambda: not world.server.server_state.connections)


def test_who_reads_slowly_but_reads_gets_it_all():
    with serving(body_seconds=1) as world, Peer(world, receive_buffer=65536) as peer:
        peer.send(get(b"/big"))
        came = 0
        while came < len(BIG):
            data = peer.socket.recv(65536)
            assert data
            came += len(data)
            time.sleep(0.005)
        assert world.refused == []


def test_who_sends_on_after_the_answer_can_read_it_and_is_closed(world):
    with Peer(world) as peer:
        peer.send(post(b"", length=2_000_000_000))
        started = time.monotonic()
        check_refusal(peer.reply(), 413, "too_large")
        assert time.monotonic() - started < 1
        drips(peer, [b"x" * 1000] * 200, every=0.02)
        assert time.monotonic() - started < 3.5


def test_a_body_that_was_refused_and_still_comes_does_not_end_the_connection(world):
    with Peer(world) as peer:
        peer.send(post(b"x" * 100_000))
        check_refusal(peer.reply(), 413, "too_large")
        peer.send(get())
        assert peer.reply()[0] == 200


@pytest.mark.parametrize("path", [b"/fault", b"/nothing"])
def test_a_fault_is_told_in_the_one_form(world, path, caplog):
    with Peer(world) as peer:
        peer.send(get(path, b"x: " + CANARY))
        check_refusal(peer.reply(), 500, "internal")
    assert world.refused == ["internal"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert CANARY.decode() not in caplog.text


def test_requests_open_at_the_end_are_told_so_without_a_trace(caplog):
    with serving(body_seconds=30, header_seconds=30) as world:
        world.server.config.timeout_graceful_shutdown = 1
        with Peer(world) as slow, Peer(world) as half, Peer(world) as idle:
            slow.send(get(b"/slow"))
            half.send(post(b"x", length=9))
            idle.send(get())
            idle.reply()
            wait_until(lambda: world.limit.open == 1)
            with caplog.at_level(logging.ERROR):
                world.server.should_exit = True
                for peer in (slow, half):
                    check_refusal(peer.reply(), 503, "stopping")
                    assert peer.closed(2)
                assert idle.closed(2)
        assert "Traceback" not in caplog.text
        assert "CancelledError" not in caplog.text


def test_probes_are_answered_however_busy_it_is():
    with serving(idle_seconds=30) as world:
        slow = [Peer(world) for _ in range(4)]
        for peer in slow:
            peer.send(get(b"/slow"))
        wait_until(lambda: world.limit.open == 4)
        for path, status in ((b"/healthz", 200), (b"/readyz", 200), (b"/predict", 503)):
            with Peer(world) as peer:
                peer.send(get(path))
                assert peer.reply()[0] == status
        release(world)
        assert [peer.reply()[0] for peer in slow] == [200] * 4
        for peer in slow:
            peer.socket.close()


def test_long_bodies_that_are_slow_keep_only_their_like_waiting():
    with serving(body_seconds=30, max_in_flight=16) as world:
        slow = [Peer(world) for _ in range(40)]
        for peer in slow:
            peer.send(post(b"{", length=900).replace(b"900", b"000900"))
        wait_until(lambda: world.refused.count("busy") == 38)
        assert (world.limit.arriving, world.limit.open) == (2, 0)
        with Peer(world) as peer:
            peer.send(post(b"short"))
            assert peer.reply()[0] == 200
        for peer in slow:
            peer.socket.close()
        wait_until(lambda: world.limit.arriving == 0)


def test_an_upgrade_keeps_its_body(world):
    upgrade = (
        b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings:"
        b" A\r\ncontent-length"
    )
    data = post(b"body").replace(b"content-length", upgrade) + post(b"next")
    for cut in (0, 40, 110, 130):
        with Peer(world) as peer:
            peer.send(data[:cut])
            time.sleep(0.05)
            peer.send(data[cut:])
            assert [peer.reply()[2] for _ in range(2)] == [b"body", b"next"]
    with Peer(world) as peer:
        peer.send(b"CONNECT h:1 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        check_refusal(peer.reply(), 400, "bad_request")


def test_who_has_said_all_still_gets_the_answer(world):
    with Peer(world) as peer:
        peer.send(get(b"/slow"))
        peer.socket.shutdown(socket.SHUT_WR)
        wait_until(lambda: world.starts == 1)
        release(world)
        assert peer.reply()[2] == b"hello"
        assert peer.closed(2)


def test_a_row_of_requests_that_is_left_leaves_no_trace(caplog):
    with serving(idle_seconds=30) as world, Peer(world) as other:
        for _ in range(3):
            other.send(get())
            assert other.reply()[0] == 200
            with Peer(world) as peer:
                peer.send(post(b"x", b"/slow") + get())
                wait_until(lambda: world.limit.open == 1)
                # Reset, not ended.
                peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            time.sleep(0.05)
            release(world)
            wait_until(lambda: world.limit.open == 0)
            world.release.clear()
    assert not caplog.records


def test_http_1_0_may_leave_the_host_out_where_no_host_is_needed(world):
    """Without keys it is refused: whoever names no host could be anybody's page."""
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
def test_an_upgrade_does_not_get_around_the_host(world, upgrade):
    more = (b"connection: Upgrade, HTTP2-Settings", b"upgrade: " + upgrade, b"http2-settings: A")
    for host, status in ((b"evil.test", 421), (b"localhost", 200)):
        with Peer(world) as peer:
            peer.send(get(b"/", *more).replace(b"host: localhost", b"host: " + host))
            assert peer.reply()[0] == status
    with Peer(world) as peer:
        peer.send(get(b"/", *more, b"host: evil.test"))
        check_refusal(peer.reply(), 400, "bad_request")
