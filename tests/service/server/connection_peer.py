"""A client with one connection that sends and reads byte by byte as the test says."""

import json
import socket

import pytest

from tests.service.server.connection_world import TICK
from tests.waiting import HANG_SECONDS, wait_for

CANARY = b"canary-51c7"


class Peer:
    """A client that sends and reads exactly what the test says."""

    def __init__(self, world, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.world, accepted = world, world.accepted
        self.socket.settimeout(HANG_SECONDS)
        self.socket.connect(("127.0.0.1", world.port))
        wait_for(lambda: world.accepted > accepted, "the connection")
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def deliver(self, data):
        """Send the data, and wait until the server has taken it; return False if the server ends
        the connection.
        """
        taken = self.world.taken + len(data)
        try:
            self.socket.sendall(data)
        except ConnectionError:
            return False
        wait_for(
            lambda: self.world.taken >= taken or self.world.ending(), "the server takes the data"
        )
        return not self.world.ending()

    def more(self):
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            return False
        self.buffer += data
        return bool(data)

    def reply(self):
        """Return status, headers and body of the next reply."""
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

    def closed(self):
        """Whether the server ends the connection; what it sends until then is in `buffer`."""
        try:
            while self.more():
                pass
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
    """The refusal has the one form, the headers of every reply, and nothing of the input."""
    found, headers, body = reply
    assert found == status
    assert json.loads(body)["error"]["code"] == code
    assert headers["content-type"] == "application/json"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert "server" not in headers
    assert CANARY.decode() not in body.decode() + str(headers)
    assert len(body) <= 4096


def drip(peer, parts):
    """Send a part with every tick until the server ends the connection; return how long
    that took.
    """
    world = peer.world
    began = world.timers.now
    for part in parts:
        if not peer.deliver(part):
            break
        world.pass_by(TICK)
    assert world.ending()
    return world.timers.now - began


def about(seconds):
    return pytest.approx(seconds, abs=1.5 * TICK)


def release(world):
    """Set the event `release` from this thread, in the server's loop."""
    for connection in world.connections():
        connection.loop.call_soon_threadsafe(world.release.set)
    if not world.connections():
        with Peer(world):
            wait_for(world.connections, "the connection")
            (connection,) = world.connections()
            connection.loop.call_soon_threadsafe(world.release.set)
            wait_for(lambda: world.limit.open == 0, "no open request")
