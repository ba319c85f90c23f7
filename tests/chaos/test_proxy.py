"""The proxy itself: each fault is the one it is named after, seen from a plain socket."""

import socket
import threading

import pytest

from service.embedded.process import HOST
from tests.chaos.proxy import proxied
from tests.waiting import HANG_SECONDS, wait_for


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


@pytest.fixture
def pauses(monkeypatch):
    """For how long the proxy would have held each chunk back; it does not wait."""
    noted = []

    async def note(seconds):
        noted.append(seconds)

    monkeypatch.setattr("tests.chaos.proxy.pause", note)
    return noted


def connected(proxy):
    return socket.create_connection((HOST, proxy.port), timeout=HANG_SECONDS)


def talk(proxy, data=b"hello"):
    """Send on a new connection; what came back."""
    with connected(proxy) as connection:
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
    with connected(proxy) as connection:
        connection.sendall(b"a")
        assert connection.recv(10) == b"a"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(10)
    with pytest.raises(ConnectionRefusedError):
        talk(proxy)
    proxy.forward()
    assert talk(proxy) == b"hello"


def brings_nothing(proxy, *connections):
    """Though the proxy has gone round a few times since it took what there was."""
    for _ in range(10):
        proxy.hole()
    for connection in connections:
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(10)
        connection.settimeout(HANG_SECONDS)


def test_hole_takes_and_holds_until_mended(proxy, echo):
    with connected(proxy) as old:
        old.sendall(b"a")
        assert old.recv(10) == b"a"
        taken = proxy.taken
        proxy.hole()
        with connected(proxy) as new:
            old.sendall(b"held")
            new.sendall(b"hello")
            wait_for(lambda: proxy.taken == taken + len(b"held"), "the proxy takes what is sent")
            brings_nothing(proxy, old, new)
            assert echo[1] == [b"a"], "nor has the server heard of it"
            proxy.forward()
            assert old.recv(10) == b"held"
            assert new.recv(10) == b"hello"


def test_delay_holds_each_way(proxy, pauses):
    proxy.delay(600)
    assert talk(proxy) == b"hello"
    there, back = pauses[:2]
    assert 600 - HANG_SECONDS < there <= 600
    assert 600 - HANG_SECONDS < back <= 600


def test_throttle_is_a_rate(proxy, pauses):
    proxy.throttle(100)
    with connected(proxy) as connection:
        connection.sendall(b"x" * 20_000)
        left = 20_000
        while left:
            left -= len(connection.recv(65536))
    assert sum(pauses) >= 2 * 20_000 / 100, "each way"


def test_reset_comes_in_the_middle_of_a_reply(proxy):
    with connected(proxy) as connection:
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
