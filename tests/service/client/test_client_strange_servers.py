"""The client survives a server that is slow, breaks off or sends something else."""

import contextlib
import socket
import threading
from contextlib import contextmanager

import pytest

from service.client import UnreachableError
from tests.service.client.served_model import ROW, Client
from tests.waiting import wait_for


@contextmanager
def run_strange_server(behave):
    """Run a server that treats each connection as `behave` says; yield its URL and the list of
    requests.
    """
    came = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.05)
        stop = threading.Event()

        def serve():
            while not stop.is_set():
                try:
                    connection, _ = listening.accept()
                except TimeoutError:
                    continue
                with connection:
                    came.append(connection.recv(65536))
                    behave(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}", came
        finally:
            stop.set()
            thread.join()


def stay_silent(connection):
    """Read until the client closes, and never answer."""
    with contextlib.suppress(ConnectionError):
        while connection.recv(65536):
            pass


def drip(connection):
    """Send a byte now and then, until the client closes."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    connection.settimeout(0.05)
    with contextlib.suppress(ConnectionError):
        for _ in range(100_000):
            with contextlib.suppress(TimeoutError):
                if connection.recv(65536) == b"":
                    return
            connection.sendall(b" ")


@pytest.mark.parametrize("behave", [stay_silent, drip])
def test_a_slow_server_costs_no_more_than_the_timeout(behave):
    with run_strange_server(behave) as (url, came), Client(url, timeout=0.5) as client:
        with pytest.raises(UnreachableError, match="timed out"):
            client.predict(ROW)
        wait_for(lambda: came, "the request")
        assert len(came) == 1


def test_an_event_that_may_have_arrived_is_not_sent_again():
    with run_strange_server(lambda _: None) as (url, came), Client(url, retries=2) as client:
        with pytest.raises(UnreachableError):
            client.send_event({"amount": 1}, "fraud")
        assert len(came) == 1
        with pytest.raises(UnreachableError):
            client.predict(ROW)
        assert len(came) == 1 + 3


def test_an_incomplete_answer_is_an_error():
    def behave(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{}")

    with run_strange_server(behave) as (url, came), Client(url, retries=1) as client:
        with pytest.raises(UnreachableError, match="cut off"):
            client.status()
        assert len(came) == 2


def test_a_foreign_answer_is_an_error():
    def behave(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<ht>")

    with (
        run_strange_server(behave) as (url, _),
        Client(url) as client,
        pytest.raises(UnreachableError),
    ):
        client.predict(ROW)
