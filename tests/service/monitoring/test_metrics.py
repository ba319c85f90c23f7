"""Metrics have the numbers of the model, and no content of an event becomes a series."""

import json
import math
import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from service.checkpoint.lineage import Lineage
from service.checkpoint.store import Manifest, Part
from service.config.settings import Label
from service.features.reject import REASONS
from service.model.alarms import Alarm
from service.model.results import LearnResult
from service.monitoring.metrics import PARTITIONS, Metrics
from service.monitoring.status import quality_of
from service.sources.base import BEGINNING
from tests.examples import examples
from tests.service.monitoring.scraped_model import Scraped

GROW = Label(classes="grow", max_classes=4)
CHECKPOINT = Manifest(3, "c", "p", "t", 1234.5, 1, 0, "digest", (Part("blob", 999, "sha"),))


def event(label, **features) -> bytes:
    return json.dumps({"features": features, "label": label}).encode()


def test_counters_and_gauges_after_learning():
    scraped = Scraped("perceptron")
    scraped.feed(
        event(1, a=1),
        event(-1, a=1),
        event(-1, a=1),
        b"no json",
        event("word", a=1),
        event(1, a=1e60),
    )
    found = scraped.samples()
    assert found["events_total", "learned"] == 3
    assert found["events_total", "rejected"] == 3
    assert found["errors_total",] == found["model_errors",] == 2
    assert found["updates_total",] == scraped.model.updates() == 3
    assert found["model_events",] == 3
    assert (
        found["error_ratio", "cumulative"] == found["error_ratio", "1000"] == pytest.approx(2 / 3)
    )
    assert found["weight_norm",] == pytest.approx(2**0.5)
    assert found["dropped_updates",] == 0
    assert {reason: found["rejects_total", reason] for reason in REASONS} == dict.fromkeys(
        REASONS, 0
    ) | {
        "malformed": 1,
        "label": 1,
        "numeric": 1,
    }


def test_the_newest_checkpoint_has_metrics():
    scraped = Scraped()
    scraped.feed(event(1, a=1), event(-1, a=2), event(1, a=3))
    assert ("checkpoint_generation",) not in scraped.samples()
    assert scraped.samples()["uncheckpointed_events",] == 3
    scraped.health.checkpoint = CHECKPOINT
    found = scraped.samples()
    assert found["checkpoint_generation",] == 3
    assert found["checkpoint_last_success_timestamp_seconds",] == 1234.5
    assert found["checkpoint_size_bytes",] == 999
    assert found["uncheckpointed_events",] == 2


def test_a_restored_model_has_gauges_but_no_counts():
    first, second = Scraped(), Scraped()
    first.feed(event(1, a=1), event(-1, a=1))
    second.model.restore(first.model.snapshot(BEGINNING, Lineage(), whole=True))
    found = second.samples()
    assert found["model_events",] == 2
    assert found["events_total", "learned"] == 0
    assert found["weight_norm",] == first.samples()["weight_norm",] > 0


def test_lease_freeze_and_kafka_are_gauges():
    scraped = Scraped()
    assert ("kafka_up",) not in scraped.samples(), "a log that is not Kafka must have no kafka_up"
    scraped.metrics = Metrics(CollectorRegistry(), "m", kafka=True)
    scraped.health.lease_held = scraped.health.source_up = True
    assert [scraped.samples()[name,] for name in ("lease_held", "frozen", "kafka_up")] == [1, 0, 1]
    scraped.health.lease_held, scraped.health.frozen, scraped.health.source_up = False, True, False
    assert [scraped.samples()[name,] for name in ("lease_held", "frozen", "kafka_up")] == [0, 1, 0]


def test_counters_of_losses_fences_and_damage_begin_at_0():
    scraped = Scraped()
    names = [("events_lost_total", "retention"), ("fenced_total",), ("checkpoint_corrupt_total",)]
    assert [scraped.samples()[name] for name in names] == [0, 0, 0]
    scraped.metrics.lost(7, "retention")
    scraped.metrics.fenced()
    scraped.metrics.checkpoint_corrupt()
    assert [scraped.samples()[name] for name in names] == [7, 1, 1]


def test_health_and_lag_are_gauges():
    scraped = Scraped()
    assert [scraped.samples()[name,] for name in ("ready", "source_up", "redis_up")] == [0, 0, 0]
    scraped.health.ready = scraped.health.store_up = True
    assert [scraped.samples()[name,] for name in ("ready", "source_up", "redis_up")] == [1, 0, 1]
    scraped.health.lag = {"0": 5, "1": 0}
    assert (scraped.samples()["lag_events", "0"], scraped.samples()["lag_events", "1"]) == (5, 0)
    scraped.health.lag = {"1": 3}
    lag = {key: value for key, value in scraped.samples().items() if key[0] == "lag_events"}
    assert lag == {("lag_events", "1"): 3}, "a partition that is no longer read must have no lag"


def test_a_rollback_is_counted_once_when_it_is_loaded():
    scraped = Scraped()
    restated = msgspec.structs.replace(CHECKPOINT, generation=4, commit="d", origin="rollback to 3")
    for before, now in (
        (None, restated),
        (CHECKPOINT, msgspec.structs.replace(CHECKPOINT, commit="e")),
        (restated, restated),
    ):
        scraped.metrics.took_over(before, now)
    assert scraped.samples()["rollbacks_total",] == 0
    scraped.metrics.took_over(CHECKPOINT, restated)
    assert scraped.samples()["rollbacks_total",] == 1


def test_quality_and_drift_metrics_equal_those_of_the_model():
    scraped = Scraped("perceptron")
    found = scraped.samples()
    assert [found["drift_alarms_total", name] for name in scraped.model.monitor.detector_names] == [
        0
    ] * 4
    assert math.isnan(found["kappa", "cohen", "cumulative"])
    assert math.isnan(found["class_precision_ratio", "positive"])
    scraped.feed(*[event(label, a=1) for label in (1, -1, -1, 1, -1)])
    found, figures = scraped.samples(), quality_of(scraped.model)
    assert found["kappa", "cohen", "cumulative"] == figures["kappa"]
    assert found["kappa", "temporal", "1000"] == figures["kappa_temporal_last_1000"]
    assert found["log_loss", "fading"] == figures["log_loss_fading"]
    no_change = figures["baselines"]["no_change"]
    assert (
        found["baseline_error_ratio", "no_change", "cumulative"] == no_change["error_rate"] == 4 / 5
    )
    assert found["baseline_error_ratio", "no_change", "1000"] == no_change["error_rate_last_1000"]
    assert found["baseline_errors_total", "no_change"] == 4
    assert found["class_events", "negative"] == figures["classes"][0]["events"] == 3
    assert found["class_recall_ratio", "positive"] == figures["classes"][1]["recall"]
    assert found["feature_drift_psi", "a"] == found["feature_drift_psi", "hashed"] == 0
    assert found["update_seconds_count",] == 1


def test_a_fallen_error_is_not_counted_as_an_alarm():
    scraped = Scraped()
    alarms = [
        Alarm(n, "adwin", "error", change, 0.5, None, "0", "1", (), 1.0)
        for n, change in enumerate(("worse", "better"))
    ]
    scraped.metrics.learned(LearnResult(2, 1, 1, 1, 1, [], alarms, 0.5), time.time() - 100.0)
    found = scraped.samples()
    assert found["drift_alarms_total", "adwin"] == 1
    assert (
        found["event_age_seconds_bucket", "60.0"],
        found["event_age_seconds_bucket", "600.0"],
    ) == (0, 1)
    assert found["update_seconds_sum",] == 0.25


def test_the_lag_of_very_many_partitions_is_one_series():
    scraped = Scraped()
    scraped.health.lag = {str(number): 2 for number in range(PARTITIONS + 1)}
    lag = {key: value for key, value in scraped.samples().items() if key[0] == "lag_events"}
    assert lag == {("lag_events", "all"): 2 * (PARTITIONS + 1)}


def test_answers_and_failures_are_counted():
    scraped = Scraped()
    scraped.metrics.answered(200)
    scraped.metrics.answered(422)
    scraped.metrics.answered(200)
    scraped.metrics.checkpoint_failed("down")
    scraped.metrics.predict_seconds.observe(0.0003)
    found = scraped.samples()
    assert (found["predict_requests_total", "200"], found["predict_requests_total", "422"]) == (
        2,
        1,
    )
    assert found["checkpoint_failures_total", "down"] == 1
    assert found["predict_seconds_count",] == 1
    assert found["predict_seconds_bucket", "0.00025"] == 0
    assert found["predict_seconds_bucket", "0.0005"] == 1


LABELS = (
    st.text(max_size=25)
    | st.integers()
    | st.booleans()
    | st.none()
    | st.floats(allow_nan=False, width=32)
)
FEATURE = (
    st.text(max_size=25)
    | st.floats()
    | st.booleans()
    | st.lists(st.text(max_size=5), max_size=3)
    | st.none()
)
FEED = st.lists(
    st.builds(
        lambda label, features: json.dumps({"label": label, "features": features}).encode(),
        LABELS,
        st.dictionaries(st.text(max_size=25), FEATURE, max_size=4),
    )
    | st.binary(max_size=30),
    max_size=12,
)


@pytest.mark.parametrize(
    ("learner", "label"),
    [("pa1", Label()), ({"kind": "one_vs_rest", "max_classes": 4, "base": "pa1"}, GROW)],
    ids=["binary", "grow"],
)
@examples(50)
@given(feeds=st.lists(FEED, min_size=1, max_size=4))
def test_no_event_adds_a_series(learner, label, feeds):
    scraped = Scraped(learner, label)
    scraped.feed(event(1, a=1))
    before = scraped.samples().keys()
    for feed in feeds:
        scraped.feed(*feed)
    assert scraped.samples().keys() == before
