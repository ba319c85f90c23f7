"""The app answers predictions, status and metrics from the model and its health."""

import json
import threading
import time

import pytest
from prometheus_client.parser import text_string_to_metric_families

from service.api.log_appender import LogBusyError
from service.checkpoint.lineage import Lineage
from service.config.loader import parse
from service.features.decoder import Decoder
from service.model.results import LearnResult
from service.sources.base import BEGINNING
from tests.service.api.api_client import (
    EVENTS,
    SETTINGS,
    Client,
    check_error,
    client_fixture,  # noqa: F401  # a fixture
)


def test_predict_returns_label_score_probability_and_model(client):
    reply = client.post("/predict", {"features": {"amount": 3, "note": "odd"}, "id": "7"})
    assert reply.status_code == 200
    assert reply.headers["content-type"] == "application/json"
    answer = reply.json()
    assert answer.keys() == {"label", "score", "probability", "model"}
    assert answer["label"] == "fraud"
    assert answer["score"] > 0
    assert (
        answer["model"].items()
        >= {"name": "m", "version": 2, "generation": 7, "stale_seconds": 0}.items()
    )
    assert 0 <= answer["model"]["age_seconds"] < 60
    assert (
        client.post("/predict", {"features": {"amount": -3, "note": "fine"}}).json()["label"]
        == "fine"
    )


def test_predict_batch_answers_as_predict_does(client):
    instances = [{"features": {"amount": n}} for n in range(-3, 4)]
    reply = client.post("/predict/batch", {"instances": instances})
    assert reply.status_code == 200
    alone = [client.post("/predict", one).json() for one in instances]
    told = reply.json()["predictions"]
    assert [answer | {"model": None} for answer in told] == [
        answer | {"model": None} for answer in alone
    ]
    assert {answer["model"]["version"] for answer in [*told, *alone]} == {2}
    assert client.post("/predict/batch", {"instances": []}).json() == {"predictions": []}


def test_predicting_changes_nothing(client):
    before = client.model.snapshot(BEGINNING, Lineage(), whole=True).with_digest()
    client.post("/predict", {"features": {"amount": 1e49, "new": "thing"}})
    client.post("/predict", {"features": {"amount": 1e60}})
    after = client.model.snapshot(BEGINNING, Lineage(), whole=True).with_digest()
    assert after.state_digest == before.state_digest
    assert after.events == before.events
    assert after.rejects == before.rejects


def test_predict_follows_learning(client):
    decoder = Decoder(
        parse(SETTINGS, "test").features,
        parse(SETTINGS, "test").label,
        parse(SETTINGS, "test").limits,
    )
    question = {"features": {"amount": 5, "note": "odd one"}}
    for _ in range(20):
        client.model.learn([decoder.event(EVENTS[0].replace(b"fraud", b"fine"))])
    answer = client.post("/predict", question).json()
    assert answer["label"] == "fine"
    assert answer["model"]["version"] == 22


def test_before_the_first_class_the_answer_is_null():
    learner = {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
    client = Client(learner=learner, label={"classes": "grow", "max_classes": 3})
    answer = client.post("/predict", {"features": {"amount": 1}}).json()
    assert (answer["label"], answer["score"]) == (None, None)


def test_status_reports_model_events_and_checkpoint(client):
    status = client.get("/status").json()
    asked = {"model", "learner", "events", "errors", "error_rate", "rejects", "lag", "checkpoint"}
    assert asked <= status.keys()
    assert {"generation", "age_seconds", "state_digest"} <= status["checkpoint"].keys()
    assert status["model"] == "m"
    assert status["learner"] == {
        "kind": "pa1",
        "epsilon": 1.0,
        "update_on": "margin",
        "C": 1.0,
        "J": 1.0,
    }
    assert (status["events"], status["rejects"], status["lag"]) == (2, 1, 7)
    assert status["error_rate"] == status["errors"] / 2
    assert status["checkpoint"]["generation"] == 7
    assert status["checkpoint"]["state_digest"] == "digest"
    assert 0 <= status["checkpoint"]["age_seconds"] < 60


def test_status_before_the_first_checkpoint_is_null(client):
    client.health.checkpoint = None
    checkpoint = client.get("/status").json()["checkpoint"]
    assert checkpoint == {"generation": 0, "age_seconds": None, "events": 0, "state_digest": None}


def test_predictions_are_refused_until_the_service_is_ready():
    client = Client(ready=False)
    client.health.trouble = "Redis at redis://h is away"
    assert client.get("/healthz").status_code == 200, "a service that is not ready is still alive"
    for reply in (
        client.get("/readyz"),
        client.post("/predict", {"features": {}}),
        client.post("/predict/batch", {}),
    ):
        assert check_error(reply, 503) == "not_ready"
        assert reply.json()["error"]["message"] == "Redis at redis://h is away"
    assert client.get("/status").status_code == 200
    assert client.get("/metrics").status_code == 200
    client.health.ready = True
    assert client.get("/readyz").status_code == 200
    assert client.post("/predict", {"features": {}}).status_code == 200


def test_a_learner_alone_has_no_predictions():
    client = Client(predicts=False)
    for path in ("/predict", "/predict/batch"):
        assert check_error(client.post(path, {"features": {}}), 404) == "not_found"
        assert path not in client.get("/openapi.json").json()["paths"]
    for path in ("/healthz", "/readyz", "/status", "/metrics"):
        assert client.get(path).status_code == 200


EXPOSED = [
    "events_total",
    "errors_total",
    "rejects_total",
    "updates_total",
    "model_events",
    "model_errors",
    "error_ratio",
    "weight_norm",
    "lag_events",
    "predict_seconds",
    "checkpoint_generation",
    "checkpoint_last_success_timestamp_seconds",
    "checkpoint_seconds",
    "redis_up",
]


def test_metrics_are_the_documented_ones(client):
    client.metrics.learned(LearnResult(2, 1, 2, 1, 1, [], [], 0.001), time.time())
    client.post("/predict", {"features": {}})
    reply = client.get("/metrics")
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {family.name: family for family in text_string_to_metric_families(reply.text)}
    for name in EXPOSED:
        family = families[f"onepass_{name.removesuffix('_total')}"]
        assert family.samples, name
        assert family.documentation, name
    assert all(name.startswith("onepass_") for name in families)
    assert all(
        sample.labels["model"] == "m" for family in families.values() for sample in family.samples
    )
    windows = {sample.labels["window"] for sample in families["onepass_error_ratio"].samples}
    assert {"cumulative", "1000"} <= windows
    assert {
        sample.labels["partition"]: sample.value
        for sample in families["onepass_lag_events"].samples
    } == {
        "0": 3.0,
        "1": 4.0,
    }


def test_requests_are_counted_and_timed(client):
    client.post("/predict", {"features": {}})
    client.post("/predict", {"wrong": 1})
    client.post("/predict/batch", {"instances": []})
    sample = client.metrics._registry.get_sample_value
    assert sample("onepass_predict_requests_total", {"model": "m", "status": "200"}) == 2
    assert sample("onepass_predict_requests_total", {"model": "m", "status": "422"}) == 1
    assert sample("onepass_predict_seconds_count", {"model": "m"}) == 3


@pytest.mark.parametrize(
    "path", ["/predict", "/explain", "/predict/batch", "/v2/models/m/infer", "/events"]
)
@pytest.mark.parametrize("words", [1, 8000])
def test_long_requests_are_worked_on_in_another_thread(client, path, words, monkeypatch):
    worked_by = []
    features = {"features": {"note": "odd one " * words}}
    row = Decoder._row
    monkeypatch.setattr(
        Decoder,
        "_row",
        lambda *given: worked_by.append(threading.current_thread().name) or row(*given),
    )
    tensor = {
        "name": "instances",
        "datatype": "BYTES",
        "shape": [1],
        "data": [json.dumps(features)],
    }
    body = {
        "/predict/batch": {"instances": [features]},
        "/v2/models/m/infer": {"inputs": [tensor]},
        "/events": features | {"label": "fraud"},
    }.get(path, features)
    client = Client(log=Refusing()) if path == "/events" else client
    worked_by.clear()
    reply = client.post(path, body)
    assert reply.status_code == (503 if path == "/events" else 200), reply.text
    assert ["aside" in name for name in worked_by] == [words > 1]


class Refusing:
    """A log that refuses every entry."""

    def append(self, _):
        raise LogBusyError
