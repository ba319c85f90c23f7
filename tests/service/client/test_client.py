"""The client asks a working service of any kind, shows its key nowhere, and speaks TLS."""

import json
import logging
import ssl
import threading

import pytest

from service.api.log_appender import Appender
from service.client import Position, RequestError, Tls, UnreachableError
from tests.integration.processes import free_port
from tests.service.api import api_client
from tests.service.api.ingest_log import (
    log_fixture,  # noqa: F401  # a fixture
)
from tests.service.api.serving import serve
from tests.service.client.served_model import (
    KEY,
    ROW,
    Client,
    client_fixture,  # noqa: F401  # a fixture
    service_fixture,  # noqa: F401  # a fixture
)
from tests.service.storage.redis_processes import make_certificates


def test_the_client_returns_the_answers_of_the_service(service, client):
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


def test_predictions_of_several_classes_have_scores():
    grow = {"classes": "grow", "max_classes": 3}
    made = api_client.Client(
        label=grow, learner={"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
    )
    made.model.learn([made.context.decoder.event(b'{"features": {"amount": 1}, "label": "a"}')])
    with serve(made.app) as address, Client(f"http://{address}") as client:
        answer = client.predict({"amount": 1})
    assert answer.scores.keys() == {"a"}
    assert answer.label == "a"


def test_a_batch_of_any_size_is_predicted(service, client):
    rows = [{"amount": number} for number in range(-300, 301)]
    answers = client.predict_batch(rows)
    assert [answer.score for answer in answers] == [client.predict(row).score for row in rows]
    assert service.before.paths["/predict/batch"] < 30, "the client must learn the limit of 50"
    before = service.before.paths["/predict/batch"]
    client.predict_batch(rows[:100])
    assert service.before.paths["/predict/batch"] - before <= 4
    assert client.predict_batch([]) == []


def test_a_batch_of_many_bytes_is_split(client):
    rows = [{"note": "x" * 100_000, "amount": number} for number in range(40)]
    assert len(client.predict_batch(rows)) == 40, "a body may have at most 1,000,000 bytes"
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


def test_the_client_sends_trees_beside_the_features(log):
    appender = Appender(log)
    trees = {
        "features": {"bits": 4, "tree": "parse"},
        "learner": "k-perceptron:kernel=tree+linear,max_support=20",
    }
    made = api_client.Client(log=appender, **trees)
    with serve(made.app) as address, Client(f"http://{address}", tree="parse") as client:
        assert client.predict({"amount": 3, "parse": "(S (A x))"}).model.name == "m"
        assert len(client.predict_batch([{"parse": "(S (A x))"}] * 2)) == 2
        client.send_event({"amount": 5, "parse": "(S (A x))"}, "fraud")
        with pytest.raises(RequestError, match="character 0"):
            client.predict({"parse": "(S"})
    appender.close()
    event = json.loads(log.values[0])
    assert event == {"features": {"amount": 5}, "parse": "(S (A x))", "label": "fraud"}


def test_the_client_sends_flat_events(log):
    appender = Appender(log)
    flat = {
        "features": {"columns": ["amount"], "bits": 0, "flat": True},
        "label": {"field": "kind"},
    }
    made = api_client.Client(log=appender, **flat)
    with (
        serve(made.app) as address,
        Client(f"http://{address}", flat=True, label="kind") as client,
    ):
        assert client.predict({"amount": 1}).model.name == "m"
        client.send_event({"amount": 1}, 1)
    appender.close()
    assert json.loads(log.values[0]) == {"amount": 1, "kind": 1}


def test_each_thread_keeps_one_connection(service, client):
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


def test_tls_checks_the_certificate_of_the_service(tmp_path):
    make_certificates(tmp_path)
    secured = {"ssl_certfile": str(tmp_path / "own.crt"), "ssl_keyfile": str(tmp_path / "own.key")}
    with serve(api_client.Client().app, **secured) as address:
        with Client(f"https://{address}", tls=Tls(str(tmp_path / "ca.crt"))) as client:
            assert client.predict(ROW).label == "fraud"
            assert client.predict_batch([ROW] * 60)[59].label == "fraud"
        with (
            Client(f"https://{address}", retries=0) as client,
            pytest.raises(UnreachableError, match=r"(?i)certificate"),
        ):
            client.predict(ROW)


def test_the_client_shows_its_own_certificate(tmp_path):
    make_certificates(tmp_path)
    ca, cert, key = (str(tmp_path / name) for name in ("ca.crt", "own.crt", "own.key"))
    secured = {
        "ssl_certfile": cert,
        "ssl_keyfile": key,
        "ssl_ca_certs": ca,
        "ssl_cert_reqs": ssl.CERT_REQUIRED,
    }
    with serve(api_client.Client().app, **secured) as address:
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
def test_malformed_urls_are_refused(url):
    with pytest.raises(ValueError, match="url") as error:
        Client(url)
    assert "secret" not in str(error.value)
