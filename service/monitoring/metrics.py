"""Define all Prometheus collectors, on a given registry. Label values come from closed sets only.

Counters count what this process did and start at 0. What a checkpoint restores is a gauge, because
a rollback lowers it.
"""

import time
from collections.abc import Callable
from importlib.metadata import version
from typing import cast, get_args

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from service.checkpoint.store import Manifest
from service.features.reject import REASONS
from service.model.explain import stock_of
from service.model.model import Model
from service.model.results import LearnResult
from service.monitoring.health import Health
from service.monitoring.model_metrics import QualityMetrics
from service.server.api_keys import KeyFile
from service.server.errors import REFUSALS
from service.sources.base import Loss

cast("Callable[[], None]", disable_created_metrics)()  # no `_created` series beside every counter

VERSION = version("onepass")
PREDICT_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
CHECKPOINT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
UPDATE_BUCKETS = (1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2)
AGE_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)
PARTITIONS = 256
"""Partitions: with more of them, their lag is summed under the label `all`."""

Registry = CollectorRegistry
"""Exported so that only this room imports prometheus_client."""


class Metrics:
    """The worker and the API increase the counters. A scrape sets the gauges."""

    def __init__(self, registry: CollectorRegistry, model: str, *, kafka: bool = False) -> None:
        self._registry = registry
        self._kafka = kafka
        self._keys: KeyFile | None = None
        self._model = model

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"onepass_{name}", text, ["model", *labels], registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"onepass_{name}", text, ["model", *labels], registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            full_name = f"onepass_{name}"
            series = Histogram(full_name, text, ["model"], buckets=buckets, registry=registry)
            return series.labels(model)

        self._events = counter(
            "events_total", "Events that this process read from the log.", "result"
        )
        self._errors = counter("errors_total", "Events predicted wrongly before learning.")
        self._rejects = counter("rejects_total", "Rejected events.", "reason")
        self._updates = counter("updates_total", "Events that changed the model.")
        self._checkpoint_failures = counter(
            "checkpoint_failures_total", "Checkpoints that could not be written.", "reason"
        )
        self._requests = counter(
            "predict_requests_total", "Prediction requests answered.", "status"
        )
        refusals = counter(
            "http_refusals_total", "Requests refused, or failed by an internal error.", "reason"
        )
        self._answered: dict[int, Counter] = {}
        self._model_events = gauge(
            "model_events", "Events that the model has learned, including restored ones."
        )
        self._model_errors = gauge(
            "model_errors", "Events among onepass_model_events that were predicted wrongly."
        )
        self._norm = gauge("weight_norm", "Euclidean norm of the weights.")
        self._dropped = gauge(
            "dropped_updates",
            "Updates dropped because a weight would leave the safe range or a row found no room.",
        )
        self._support = gauge("support_rows", "Rows that a kernel model stores, over all classes.")
        self._capacity = gauge(
            "support_capacity_rows",
            "Most rows that a kernel model can store for the classes seen so far.",
        )
        self._lag = gauge("lag_events", "Events in the log that are not yet learned.", "partition")
        self._generation = gauge("checkpoint_generation", "Newest generation written or loaded.")
        self._saved = gauge(
            "checkpoint_last_success_timestamp_seconds",
            "Time when the newest generation was written.",
        )
        self._size = gauge("checkpoint_size_bytes", "Size of the newest generation.")
        self._uncheckpointed = gauge(
            "uncheckpointed_events", "Events learned since the newest generation."
        )
        self._lost = counter(
            "events_lost_total", "Events skipped because the log no longer has them.", "reason"
        )
        self._rollbacks = counter(
            "rollbacks_total", "Rollbacks by an operator that took effect here."
        )
        self._corrupt = counter(
            "checkpoint_corrupt_total", "Damaged generations found and skipped."
        )
        self._fenced = counter(
            "fenced_total", "Times this process lost its right to write checkpoints."
        )
        self._lease = gauge("lease_held", "Whether this process may write checkpoints.")
        self._frozen = gauge("frozen", "Whether an operator has frozen learning.")
        self._kafka_up = gauge("kafka_up", "Whether the broker answers; only if the log is Kafka.")
        self._source_up = gauge("source_up", "Whether the log answers.")
        self._redis_up = gauge("redis_up", "Whether the store answers.")
        self._age = gauge("predict_model_age_seconds", "Age of the model state that predicts.")
        self._stale = gauge(
            "model_staleness_seconds",
            "Time since this process last confirmed that it serves the newest state.",
        )
        self._keys_up = gauge(
            "keys_file_up", "Whether the keys file can be used; 1 also if none is configured."
        )
        self._ready = gauge("ready", "Whether this process serves predictions.")
        self._started = gauge("start_time_seconds", "Time when this process started.")
        self._build = gauge("build_info", "Version of this process; always 1.", "version")
        self.checkpoint_seconds = histogram(
            "checkpoint_seconds", "Time to write a checkpoint.", CHECKPOINT_BUCKETS
        )
        self.checkpoint_pause_seconds = histogram(
            "checkpoint_pause_seconds",
            "Time that learning pauses for a checkpoint.",
            CHECKPOINT_BUCKETS,
        )
        self._update_seconds = histogram(
            "update_seconds",
            "Time per event of a batch to predict, count and learn.",
            UPDATE_BUCKETS,
        )
        self._event_age = histogram(
            "event_age_seconds",
            "Time from the log's timestamp of a batch's last record until the batch is learned.",
            AGE_BUCKETS,
        )
        self.predict_seconds = histogram(
            "predict_seconds", "Time to answer a prediction request.", PREDICT_BUCKETS
        )

        self._quality = QualityMetrics(model, counter, gauge)
        self._started.labels(model).set(time.time())
        self._build.labels(model, VERSION).set(1)
        self._refusals = {reason: refusals.labels(model, reason) for reason in REFUSALS}
        for reason in REASONS:
            self._rejects.labels(model, reason)
        for result in ("learned", "rejected"):
            self._events.labels(model, result)
        for loss in get_args(Loss):
            self._lost.labels(model, loss)
        for failure in ("down", "fenced", "copy"):
            self._checkpoint_failures.labels(model, failure)
        for counted in (self._errors, self._updates, self._corrupt, self._fenced, self._rollbacks):
            counted.labels(model)  # the series exists before its first increase

    def watch(self, keys: KeyFile | None) -> None:
        """Report from now on whether the file of these keys can be used."""
        self._keys = keys

    def learned(self, result: LearnResult, written: float | None = None) -> None:
        """Count a batch; `written` is the log's timestamp of its last record."""
        self._events.labels(self._model, "learned").inc(result.learned)
        self._errors.labels(self._model).inc(result.errors)
        self._updates.labels(self._model).inc(result.updates)
        self._quality.learned(result)
        if result.learned:
            self._update_seconds.observe(result.seconds / result.learned)
        if written is not None:
            self._event_age.observe(max(0.0, time.time() - written))

    def rejected(self, reasons: list[str]) -> None:
        self._events.labels(self._model, "rejected").inc(len(reasons))
        for reason in reasons:
            self._rejects.labels(self._model, reason).inc()

    def lost(self, events: int, reason: Loss) -> None:
        self._lost.labels(self._model, reason).inc(events)

    def took_over(self, before: Manifest | None, manifest: Manifest) -> None:
        """Count a rollback if the newly loaded generation was created by one."""
        loaded = before is not None and before.commit != manifest.commit
        if loaded and manifest.origin.startswith("rollback"):
            self._rollbacks.labels(self._model).inc()

    def fenced(self) -> None:
        self._fenced.labels(self._model).inc()

    def checkpoint_corrupt(self) -> None:
        self._corrupt.labels(self._model).inc()

    def checkpoint_failed(self, reason: str) -> None:
        self._checkpoint_failures.labels(self._model, reason).inc()

    def answered(self, status: int) -> None:
        series = self._answered.get(status)
        if series is None:  # looking up the series takes longer than counting
            series = self._answered[status] = self._requests.labels(self._model, str(status))
        series.inc()

    def refused(self, reason: str) -> None:
        """Count a refusal; reasons outside `REFUSALS` are errors of the client."""
        if reason in self._refusals:
            self._refusals[reason].inc()

    def exposition(self, model: Model, health: Health) -> bytes:
        """Set all gauges and return the text exposition."""
        self._set_model(model)
        self._set_health(model, health)
        self._set_checkpoint(health.checkpoint, int(model.progress.events[0]))
        return generate_latest(self._registry)

    def _set_model(self, model: Model) -> None:
        self._model_events.labels(self._model).set(int(model.progress.events[0]))
        self._model_errors.labels(self._model).set(int(model.progress.errors[0]))
        self._quality.set(model)
        self._norm.labels(self._model).set(model.norm())
        self._dropped.labels(self._model).set(model.dropped())
        if (stock := stock_of(model)) is not None:
            self._support.labels(self._model).set(stock["rows"])
            self._capacity.labels(self._model).set(stock["room"])

    def _set_health(self, model: Model, health: Health) -> None:
        self._source_up.labels(self._model).set(health.source_up)
        self._redis_up.labels(self._model).set(health.store_up)
        if self._kafka:
            self._kafka_up.labels(self._model).set(health.source_up)
        self._lease.labels(self._model).set(health.lease_held)
        self._frozen.labels(self._model).set(health.frozen)
        self._ready.labels(self._model).set(health.ready)
        self._keys_up.labels(self._model).set(self._keys is None or self._keys.usable)
        self._age.labels(self._model).set(max(0.0, time.time() - model.version().made))
        self._stale.labels(self._model).set(health.stale_seconds)
        self._lag.clear()  # partitions that are no longer read must not stay
        lag = health.lag if len(health.lag) <= PARTITIONS else {"all": sum(health.lag.values())}
        for partition, behind in lag.items():
            self._lag.labels(self._model, partition).set(behind)

    def _set_checkpoint(self, manifest: Manifest | None, events: int) -> None:
        if manifest is not None:
            self._generation.labels(self._model).set(manifest.generation)
            self._saved.labels(self._model).set(manifest.created)
            self._size.labels(self._model).set(manifest.size)
        self._uncheckpointed.labels(self._model).set(events - (manifest.events if manifest else 0))
