"""The Python client, against real servers on real sockets: good ones, slow ones, and ones that come
and go.
"""

import json
import logging
import socket
import ssl
import threading
import time
from collections import Counter
from contextlib import contextmanager

import pytest

from service.api.log_appender import Appender
from service.client import Client, Position, RequestError, Tls, UnreachableError
from tests.integration.processes import free_port
from tests.service.api import test_api
from tests.service.api.ingest_log import Fake
from tests.service.api.serving import served
from tests.service.storage.redis_processes import certificates

KEY = "op_canary-key-4711"
ROW = {"amount": 3, "note": "odd", "tags": ["a", "b"], "new": True}


class Before:
    """What stands before the app: it counts, and answers with a given status as often as it is told
    to.
    """

    def __init__(self, app) -> None:
        self._app = app
        self.paths, self.connections, self.headers = Counter(), set(), []
        self.refusals = []

    async def __call__(self, scope, receive, send):
        self.paths[scope["path"]] += 1
        self.connections.add(scope["client"])
        self.headers.append(dict(scope["headers"]))
        if not self.refusals:
            await self._app(scope, receive, send)
            return
        status, headers = self.refusals.pop()
        body = json.dumps({"error": {"code": "busy", "message": "later"}}).encode()
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture
def log():
    return Fake()


@pytest.fixture
def service(log):
    """A served model."""
    appender = Appender(log)
    made = test_api.Client(log=appender)
    made.before = Before(made.app)
    with served(made.before) as address:
        made.url = f"http://{address}"
        yield made
    appender.close()


@pytest.fixture
def client(service):
    with Client(service.url, key=KEY) as made:
        yield made


def test_answers_are_those_of_the_service(service, client):
    told = service.post("/predict", {"features": ROW}).json()
    answer = client.predict(ROW)
    assert (answer.label, answer.score, answer.probability) == (
        told["label"],
        told["score"],
        told["probability"],
    )
    assert (answer.model.name, answer.model.version, answer.model.generation) == ("m", 2, 7)
    assert client.status()["events"] == 2
    assert client.ready()
    service.health.ready = False
    assert not client.ready()
    assert service.before.headers[0][b"authorization"] == f"Bearer {KEY}".encode()


def test_several_classes_have_scores():
    grow = {"classes": "grow", "max_classes": 3}
    made = test_api.Client(
        label=grow, learner={"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
    )
    made.model.learn([made.context.decoder.event(b'{"features": {"amount": 1}, "label": "a"}')])
    with served(made.app) as address, Client(f"http://{address}") as client:
        answer = client.predict({"amount": 1})
    assert answer.scores.keys() == {"a"}
    assert answer.label == "a"


def test_a_batch_of_any_size(service, client):
    rows = [{"amount": number} for number in range(-300, 301)]
    answers = client.predict_batch(rows)
    assert [answer.score for answer in answers] == [client.predict(row).score for row in rows]
    assert service.before.paths["/predict/batch"] < 30, "the limit of 50 is found and kept"
    before = service.before.paths["/predict/batch"]
    client.predict_batch(rows[:100])
    assert service.before.paths["/predict/batch"] - before <= 4
    assert client.predict_batch([]) == []


def test_a_batch_of_many_bytes(client):
    rows = [{"note": "x" * 100_000, "amount": number} for number in range(40)]
    assert len(client.predict_batch(rows)) == 40, "the body may have 1,000,000 bytes"
    with pytest.raises(RequestError) as refused:
        client.predict_batch([{"note": "x" * 1_100_000}])
    assert (refused.value.status, refused.value.code) == (413, "too_large")


def test_an_event_is_sent(log, client):
    assert client.send_event({"amount": 1.5}, "fraud", id="7", weight=2) == Position("3", "0")
    assert json.loads(log.values[0]) == {
        "features": {"amount": 1.5},
        "label": "fraud",
        "id": "7",
        "weight": 2,
    }
    with pytest.raises(RequestError) as refused:
        client.send_event({"amount": 1.5}, "neither")
    assert (refused.value.status, refused.value.code) == (422, "label")
    assert len(log.values) == 1


def test_models_with_trees(log):
    appender = Appender(log)
    trees = {
        "features": {"bits": 4, "tree": "parse"},
        "learner": "k-perceptron:kernel=tree+linear,max_support=20",
    }
    made = test_api.Client(log=appender, **trees)
    with served(made.app) as address, Client(f"http://{address}", tree="parse") as client:
        assert client.predict({"amount": 3, "parse": "(S (A x))"}).model.name == "m"
        assert len(client.predict_batch([{"parse": "(S (A x))"}] * 2)) == 2
        client.send_event({"amount": 5, "parse": "(S (A x))"}, "fraud")
        with pytest.raises(RequestError, match="character 0"):
            client.predict({"parse": "(S"})
    appender.close()
    event = json.loads(log.values[0])
    assert event == {"features": {"amount": 5}, "parse": "(S (A x))", "label": "fraud"}


def test_flat_models(log):
    appender = Appender(log)
    flat = {
        "features": {"columns": ["amount"], "bits": 0, "flat": True},
        "label": {"field": "kind"},
    }
    made = test_api.Client(log=appender, **flat)
    with (
        served(made.app) as address,
        Client(f"http://{address}", flat=True, label="kind") as client,
    ):
        assert client.predict({"amount": 1}).model.name == "m"
        client.send_event({"amount": 1}, 1)
    appender.close()
    assert json.loads(log.values[0]) == {"amount": 1, "kind": 1}


def test_one_connection_per_thread_is_kept(service, client):
    failures = []

    def work():
        try:
            for _ in range(30):
                assert client.predict(ROW).model.version == 2
        except BaseException as error:
            failures.append(error)
            raise

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert service.before.paths["/predict"] == 240
    assert len(service.before.connections) <= 8


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_asked_again(service, client, log, status):
    service.before.refusals = [(status, [])] * 3
    assert client.predict(ROW).label == "fraud"
    service.before.refusals = [(status, [])] * 3
    client.send_event({"amount": 1}, "fraud")
    assert len(log.values) == 1
    assert service.before.paths == {"/predict": 4, "/events": 4}


def test_retry_after_is_kept(service, client):
    service.before.refusals = [(503, [(b"retry-after", b"1")])]
    started = time.monotonic()
    client.predict(ROW)
    assert 1.0 <= time.monotonic() - started < 3.0


def test_there_is_no_waiting_beyond_the_deadline(service):
    service.before.refusals = [(503, [(b"retry-after", b"60")])]
    started = time.monotonic()
    with Client(service.url, timeout=20.0) as client, pytest.raises(RequestError) as refused:
        client.predict(ROW)
    assert (refused.value.status, refused.value.code, refused.value.message) == (
        503,
        "busy",
        "later",
    )
    assert time.monotonic() - started < 5.0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 500])
def test_what_is_not_a_matter_of_time_is_not_asked_again(service, client, status):
    service.before.refusals = [(status, [])]
    with pytest.raises(RequestError) as refused:
        client.predict(ROW)
    assert refused.value.status == status
    assert service.before.paths["/predict"] == 1


def test_a_restart_in_the_middle():
    port = free_port()
    made = test_api.Client()
    answers, stop = [], threading.Event()
    with Client(f"http://127.0.0.1:{port}", timeout=20.0, retries=20) as client:

        def work():
            while not stop.is_set():
                answers.append(client.predict(ROW).label)

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(3):
            with served(made.app, port):
                wanted = len(answers) + 20
                while len(answers) < wanted and thread.is_alive():
                    time.sleep(0.01)
            time.sleep(0.2)
        with served(made.app, port):
            stop.set()
            thread.join()
    assert len(answers) >= 60
    assert set(answers) == {"fraud"}


@contextmanager
def strange(behave):
    """A server that does with each connection what it is told to; a list of what came."""
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


def drip(connection):
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    try:
        for _ in range(60):
            connection.sendall(b" ")
            time.sleep(0.05)
    except OSError:
        return


@pytest.mark.parametrize("behave", [lambda _: time.sleep(3), drip], ids=["silent", "drips"])
def test_a_slow_server_costs_no_more_than_the_timeout(behave):
    with strange(behave) as (url, came), Client(url, timeout=0.5) as client:
        started = time.monotonic()
        with pytest.raises(UnreachableError):
            client.predict(ROW)
        assert 0.4 < time.monotonic() - started < 2.0
        assert len(came) == 1


def test_an_event_that_may_have_been_taken_is_not_sent_again():
    with strange(lambda _: None) as (url, came), Client(url, retries=2) as client:
        with pytest.raises(UnreachableError):
            client.send_event({"amount": 1}, "fraud")
        assert len(came) == 1
        with pytest.raises(UnreachableError):
            client.predict(ROW)
        assert len(came) == 1 + 3


def test_an_event_that_was_never_sent_is_sent_again(log):
    port = free_port()
    appender = Appender(log)
    made = test_api.Client(log=appender)
    places = []
    with Client(f"http://127.0.0.1:{port}", retries=30) as client:
        thread = threading.Thread(
            target=lambda: places.append(client.send_event({"amount": 1}, "fraud"))
        )
        thread.start()
        time.sleep(0.3)
        with served(made.app, port):
            thread.join()
    appender.close()
    assert places == [Position("3", "0")]
    assert len(log.values) == 1


def test_an_event_is_not_sent_into_a_connection_that_the_server_has_closed(log):
    port = free_port()
    appender = Appender(log)
    made = test_api.Client(log=appender)
    with Client(f"http://127.0.0.1:{port}") as client:
        for number in range(3):
            with served(made.app, port):
                assert client.send_event({"amount": number}, "fraud") == Position("3", str(number))
    appender.close()


def test_nobody_there():
    with Client(f"http://127.0.0.1:{free_port()}", timeout=5.0, retries=3) as client:
        started = time.monotonic()
        with pytest.raises(UnreachableError):
            client.predict(ROW)
        assert time.monotonic() - started < 3.0
        assert not client.ready()


def test_half_an_answer_is_none():
    def behave(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{}")

    with strange(behave) as (url, came), Client(url, retries=1) as client:
        with pytest.raises(UnreachableError, match="cut off"):
            client.status()
        assert len(came) == 2


def test_an_answer_that_is_none_of_ours():
    def behave(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n<ht>")

    with strange(behave) as (url, _), Client(url) as client, pytest.raises(UnreachableError):
        client.predict(ROW)


def test_the_key_is_shown_nowhere(service, caplog):
    caplog.set_level(logging.DEBUG)
    service.before.refusals = [(403, [])]
    with Client(service.url, key=KEY) as client:
        with pytest.raises(RequestError) as refused:
            client.predict(ROW)
        shown = [repr(client), str(client), repr(refused.value), str(refused.value), caplog.text]
    away = Client(f"http://127.0.0.1:{free_port()}", key=KEY, retries=0)
    with pytest.raises(UnreachableError) as unreachable:
        away.predict(ROW)
    shown += [repr(unreachable.value), repr(away)]
    assert not any(KEY in text or "op_" in text for text in shown)
    assert repr(client) == f"Client({service.url})"


def test_tls(tmp_path):
    certificates(tmp_path)
    secured = {"ssl_certfile": str(tmp_path / "own.crt"), "ssl_keyfile": str(tmp_path / "own.key")}
    with served(test_api.Client().app, **secured) as address:
        with Client(f"https://{address}", tls=Tls(str(tmp_path / "ca.crt"))) as client:
            assert client.predict(ROW).label == "fraud"
            assert client.predict_batch([ROW] * 60)[59].label == "fraud"
        with (
            Client(f"https://{address}", retries=0) as client,
            pytest.raises(UnreachableError, match=r"(?i)certificate"),
        ):
            client.predict(ROW)


def test_a_service_that_asks_for_a_certificate(tmp_path):
    certificates(tmp_path)
    ca, cert, key = (str(tmp_path / name) for name in ("ca.crt", "own.crt", "own.key"))
    secured = {
        "ssl_certfile": cert,
        "ssl_keyfile": key,
        "ssl_ca_certs": ca,
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
    }
    with served(test_api.Client().app, **secured) as address:
        with Client(f"https://{address}", tls=Tls(ca, cert, key)) as client:
            assert client.predict(ROW).label == "fraud"
        with (
            Client(f"https://{address}", tls=Tls(ca), retries=0) as client,
            pytest.raises(UnreachableError),
        ):
            client.predict(ROW)
    with pytest.raises(ValueError, match="cert_file"):
        Client("http://127.0.0.1:1", tls=Tls(None, cert, key))
    with pytest.raises(ValueError, match="needs cert_file"):
        Client("https://127.0.0.1:1", tls=Tls(key_file=key))


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8000", "ftp://host", "http://", "http://user:secret@host"]
)
def test_addresses_that_are_none(url):
    with pytest.raises(ValueError, match="url") as error:
        Client(url)
    assert "secret" not in str(error.value)
