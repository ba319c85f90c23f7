"""The proxy itself: each fault is the one it is named after, seen from a plain socket."""

import socket
import threading
import time

import pytest

from service.embedded.process import HOST
from tests.chaos.proxy import proxied


@pytest.fixture
def echo():
    """A server that answers every line with itself, and what it has heard."""
    listening = socket.create_server((HOST, 0))
    heard = []

    def answer(connection):
        with connection:
            while True:
                try:
                    data = connection.recv(65536)
                    heard.append(data)
                    connection.sendall(data)
                except OSError:
                    return
                if not data:
                    return

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    yield listening.getsockname()[1], heard
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


@pytest.fixture
def proxy(echo):
    with proxied(echo[0]) as running:
        yield running


def talk(proxy, data=b"hello", seconds=5.0):
    """Send on a new connection; what came back."""
    with socket.create_connection((HOST, proxy.port), timeout=seconds) as connection:
        connection.sendall(data)
        return connection.recv(65536)


def until_reset(connection):
    """What comes before the reset."""
    got = b""
    try:
        while more := connection.recv(100):
            got += more
    except ConnectionResetError:
        return got
    pytest.fail("it ended in order")


def test_forwards(proxy):
    assert talk(proxy) == b"hello"


def test_cut_refuses_and_ends_and_can_be_mended(proxy):
    with socket.create_connection((HOST, proxy.port), timeout=5) as connection:
        connection.sendall(b"a")
        assert connection.recv(10) == b"a"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(10)
    with pytest.raises(ConnectionRefusedError):
        talk(proxy)
    proxy.forward()
    assert talk(proxy) == b"hello"


def test_hole_takes_and_holds_until_mended(proxy):
    with socket.create_connection((HOST, proxy.port), timeout=0.3) as connection:
        proxy.hole()
        connection.sendall(b"held")
        with pytest.raises(TimeoutError):
            connection.recv(10)
        with pytest.raises(TimeoutError):
            talk(proxy, seconds=0.3)
        proxy.forward()
        connection.settimeout(5)
        assert connection.recv(10) == b"held"


def test_delay_holds_each_way(proxy):
    proxy.delay(0.1)
    started = time.monotonic()
    assert talk(proxy) == b"hello"
    assert 0.2 <= time.monotonic() - started < 1.0


def test_throttle_is_a_rate(proxy):
    proxy.throttle(100_000)
    started = time.monotonic()
    assert len(talk(proxy, b"x" * 20_000)) > 0
    assert time.monotonic() - started >= 0.2


def test_reset_comes_in_the_middle_of_a_reply(proxy):
    with socket.create_connection((HOST, proxy.port), timeout=5) as connection:
        proxy.reset(after=10)
        connection.sendall(b"12345")
        assert connection.recv(100) == b"12345"
        connection.sendall(b"67890")
        got = until_reset(connection)
        assert b"67890".startswith(got)
        assert got != b"67890"
    assert proxy.resets == 1
    assert talk(proxy) == b"hello"


def test_a_dropped_reply_was_a_request_that_arrived(proxy, echo):
    proxy.drop_reply(lambda request: b"commit" in request)
    assert talk(proxy, b"other") == b"other"
    assert talk(proxy, b"a commit") == b""
    assert b"a commit" in echo[1]
    assert proxy.dropped == 1
    assert talk(proxy, b"a commit") == b"a commit"
