"""The client asks a busy or restarting service again, and sends no event twice."""

import threading
import time
from types import SimpleNamespace

import pytest

from service.api.log_appender import Appender
from service.client import Position, RequestError, UnreachableError
from service.client.transport import FIRST_WAIT
from tests.integration.processes import free_port
from tests.service.api import api_client
from tests.service.api.ingest_log import (
    log_fixture,  # noqa: F401  # a fixture
)
from tests.service.api.serving import serve
from tests.service.client.served_model import (
    ROW,
    Client,
    client_fixture,  # noqa: F401  # a fixture
    service_fixture,  # noqa: F401  # a fixture
)
from tests.waiting import HANG_SECONDS, wait_for

LONG = 10 * HANG_SECONDS


@pytest.fixture
def pauses(monkeypatch):
    """The seconds that a client waits before each retry."""
    made, sleep = [], time.sleep

    def pause(seconds):
        made.append(seconds)
        sleep(min(seconds, 0.1))

    clock = SimpleNamespace(monotonic=time.monotonic, sleep=pause)
    monkeypatch.setattr("service.client.transport.time", clock)
    return made


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_asked_again(service, client, log, status):
    service.before.refusals = [(status, [])] * 3
    assert client.predict(ROW).label == "fraud"
    service.before.refusals = [(status, [])] * 3
    client.send_event({"amount": 1}, "fraud")
    assert len(log.values) == 1
    assert service.before.paths == {"/predict": 4, "/events": 4}


def test_the_client_waits_as_retry_after_says(service, client, pauses):
    service.before.refusals = [(503, [(b"retry-after", b"1")])]
    client.predict(ROW)
    (pause,) = pauses
    assert 1.0 <= pause <= 1.0 + FIRST_WAIT


def test_the_client_never_waits_beyond_its_deadline(service, pauses):
    after = b"%d" % (2 * HANG_SECONDS)
    service.before.refusals = [(503, [(b"retry-after", after)])]
    with (
        Client(service.url) as client,
        pytest.raises(RequestError) as refused,
    ):
        client.predict(ROW)
    assert (refused.value.status, refused.value.code, refused.value.message) == (
        503,
        "busy",
        "later",
    )
    assert pauses == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 500])
def test_a_permanent_error_is_not_retried(service, client, status):
    service.before.refusals = [(status, [])]
    with pytest.raises(RequestError) as refused:
        client.predict(ROW)
    assert refused.value.status == status
    assert service.before.paths["/predict"] == 1


def wait_for_more(things, count):
    wanted = len(things) + count
    wait_for(lambda: len(things) >= wanted, "more")


def test_the_client_survives_restarts_of_the_service(pauses):
    port = free_port()
    made = api_client.Client()
    answers, stop = [], threading.Event()
    with Client(f"http://127.0.0.1:{port}", timeout=LONG, retries=10_000) as client:

        def work():
            while not stop.is_set():
                answers.append(client.predict(ROW).label)

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(3):
            with serve(made.app, port):
                wait_for_more(answers, 20)
            wait_for_more(pauses, 1)
        with serve(made.app, port):
            stop.set()
            thread.join()
    assert len(answers) >= 60
    assert set(answers) == {"fraud"}


def test_an_event_that_was_never_sent_is_sent_again(log, pauses):
    port = free_port()
    appender = Appender(log)
    made = api_client.Client(log=appender)
    places = []
    with Client(f"http://127.0.0.1:{port}", timeout=LONG, retries=10_000) as client:
        thread = threading.Thread(
            target=lambda: places.append(client.send_event({"amount": 1}, "fraud"))
        )
        thread.start()
        wait_for(lambda: pauses, "a try in vain")
        with serve(made.app, port):
            thread.join()
    appender.close()
    assert places == [Position("3", "0")]
    assert len(log.values) == 1


def test_an_event_is_not_sent_on_a_connection_the_server_closed(log):
    port = free_port()
    appender = Appender(log)
    made = api_client.Client(log=appender)
    with Client(f"http://127.0.0.1:{port}") as client:
        for number in range(3):
            with serve(made.app, port):
                assert client.send_event({"amount": number}, "fraud") == Position("3", str(number))
    appender.close()


def test_an_unreachable_service_fails_after_all_retries(pauses):
    with Client(f"http://127.0.0.1:{free_port()}", retries=3) as client:
        with pytest.raises(UnreachableError):
            client.predict(ROW)
        assert len(pauses) == 3
        assert all(pause <= longest for pause, longest in zip(pauses, (0.1, 0.2, 0.4), strict=True))
        assert not client.ready()
