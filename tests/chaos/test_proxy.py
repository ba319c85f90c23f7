"""The proxy makes each fault that it names, as seen from a plain socket."""

import socket
import threading

import pytest

from service.embedded.process import HOST
from tests.chaos.proxy import run_proxy
from tests.waiting import HANG_SECONDS, wait_for


@pytest.fixture
def echo():
    """A server that echoes what it receives, and the list of what it received."""
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
    with run_proxy(echo[0]) as running:
        yield running


@pytest.fixture
def pauses(monkeypatch):
    """The seconds for which the proxy would have held each chunk; it does not wait."""
    noted = []

    async def note(seconds):
        noted.append(seconds)

    monkeypatch.setattr("tests.chaos.proxy.pause", note)
    return noted


def connect(proxy):
    return socket.create_connection((HOST, proxy.port), timeout=HANG_SECONDS)


def talk(proxy, data=b"hello"):
    """Send on a new connection and return the reply."""
    with connect(proxy) as connection:
        connection.sendall(data)
        return connection.recv(65536)


def read_until_reset(connection):
    """Return the bytes before the reset."""
    got = b""
    try:
        while more := connection.recv(100):
            got += more
    except ConnectionResetError:
        return got
    pytest.fail("the connection ended without a reset")


def test_the_proxy_forwards(proxy):
    assert talk(proxy) == b"hello"


def test_cut_resets_and_refuses_connections_until_forward(proxy):
    with connect(proxy) as connection:
        connection.sendall(b"a")
        assert connection.recv(10) == b"a"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            connection.recv(10)
    with pytest.raises(ConnectionRefusedError):
        talk(proxy)
    proxy.forward()
    assert talk(proxy) == b"hello"


def check_nothing_arrives(proxy, *connections):
    """Nothing arrives, although the proxy's loop has run several times since it took the bytes."""
    for _ in range(10):
        proxy.hole()
    for connection in connections:
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(10)
        connection.settimeout(HANG_SECONDS)


def test_hole_holds_bytes_until_forward(proxy, echo):
    with connect(proxy) as old:
        old.sendall(b"a")
        assert old.recv(10) == b"a"
        taken = proxy.taken
        proxy.hole()
        with connect(proxy) as new:
            old.sendall(b"held")
            new.sendall(b"hello")
            wait_for(lambda: proxy.taken == taken + len(b"held"), "the proxy takes what is sent")
            check_nothing_arrives(proxy, old, new)
            assert echo[1] == [b"a"], "the server received held bytes"
            proxy.forward()
            assert old.recv(10) == b"held"
            assert new.recv(10) == b"hello"


def test_delay_holds_bytes_in_both_directions(proxy, pauses):
    proxy.delay(600)
    assert talk(proxy) == b"hello"
    there, back = pauses[:2]
    assert 600 - HANG_SECONDS < there <= 600
    assert 600 - HANG_SECONDS < back <= 600


def test_throttle_limits_the_rate(proxy, pauses):
    proxy.throttle(100)
    with connect(proxy) as connection:
        connection.sendall(b"x" * 20_000)
        left = 20_000
        while left:
            left -= len(connection.recv(65536))
    assert sum(pauses) >= 2 * 20_000 / 100, "both directions are throttled"


def test_reset_cuts_a_reply_in_the_middle(proxy):
    with connect(proxy) as connection:
        proxy.reset(after=10)
        connection.sendall(b"12345")
        assert connection.recv(100) == b"12345"
        connection.sendall(b"67890")
        got = read_until_reset(connection)
        assert b"67890".startswith(got)
        assert got != b"67890"
    assert proxy.resets == 1
    assert talk(proxy) == b"hello"


def test_drop_reply_lets_the_request_arrive(proxy, echo):
    proxy.drop_reply(lambda request: b"commit" in request)
    assert talk(proxy, b"other") == b"other"
    assert talk(proxy, b"a commit") == b""
    assert b"a commit" in echo[1]
    assert proxy.dropped == 1
    assert talk(proxy, b"a commit") == b"a commit"
