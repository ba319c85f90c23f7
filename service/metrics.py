"""Every Prometheus collector, on a registry handed in. Labels come from closed sets only.

Counters are this process's own and start at 0; what a checkpoint restores is a gauge, since after a rollback it falls.
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

from service.answers import Outcome
from service.checkpoints import Manifest
from service.health import Health
from service.model import Model
from service.quality_metrics import QualityMetrics
from service.reasons import REASONS
from service.refusals import REFUSALS
from service.sources.contract import Loss
from service.stored import stock_of

cast("Callable[[], None]", disable_created_metrics)()  # a second series beside every counter that nobody asks for

PREDICT_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)
CHECKPOINT_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
UPDATE_BUCKETS = (1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2)
AGE_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0, 3600.0, 86400.0)
PARTITIONS = 256
"""With more partitions than this their lag is summed under the label `all`."""

Registry = CollectorRegistry
"""For those who build `Metrics`, so that only this module knows Prometheus."""


class Metrics:
    """The worker and the API count as they go; gauges are set when a scrape asks."""

    def __init__(self, registry: CollectorRegistry, model: str, *, kafka: bool = False) -> None:
        self._registry = registry
        self._kafka = kafka
        self._model = model

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"onepass_{name}", text, ["model", *labels], registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"onepass_{name}", text, ["model", *labels], registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            made = Histogram(f"onepass_{name}", text, ["model"], buckets=buckets, registry=registry)
            return made.labels(model)

        self._events = counter("events_total", "Events taken from the log by this process.", "result")
        self._errors = counter("errors_total", "Events whose label was predicted wrongly, before learning it.")
        self._rejects = counter("rejects_total", "Events rejected, by reason.", "reason")
        self._updates = counter("updates_total", "Events that moved a weight.")
        self._checkpoint_failures = counter("checkpoint_failures_total", "Checkpoints not written.", "reason")
        self._requests = counter("predict_requests_total", "Prediction requests answered.", "status")
        refusals = counter("http_refusals_total", "Requests refused, or failed by a fault of the service.", "reason")
        self._answered: dict[int, Counter] = {}
        self._model_events = gauge("model_events", "Events the model has learned, restored ones included.")
        self._model_errors = gauge("model_errors", "Errors over those events.")
        self._norm = gauge("weight_norm", "Euclidean norm of the weights.")
        self._dropped = gauge(
            "dropped_updates",
            "Updates dropped: a weight would have left the safe range, or there was no room for a row.",
        )
        self._stored = gauge(
            "support_rows", "Rows that a kernel model has stored, of all classes; only of such a model."
        )
        self._room = gauge("support_room", "Most rows that it ever stores, of the classes seen so far.")
        self._lag = gauge("lag_events", "Events in the log that are not learned yet.", "partition")
        self._generation = gauge("checkpoint_generation", "Newest generation written or loaded.")
        self._saved = gauge("checkpoint_last_success_timestamp_seconds", "When that generation was made.")
        self._size = gauge("checkpoint_size_bytes", "Size of that generation.")
        self._uncheckpointed = gauge("uncheckpointed_events", "Events learned since that generation.")
        self._lost = counter("events_lost_total", "Events passed over, since the log had lost them.", "reason")
        self._rollbacks = counter("rollbacks_total", "Times an earlier generation was taken up by an operator's word.")
        self._corrupt = counter("checkpoint_corrupt_total", "Generations found damaged and passed over.")
        self._fenced = counter("fenced_total", "Times the store was found in other hands or with another history.")
        self._lease = gauge("lease_held", "Whether this process is the learner that may write.")
        self._frozen = gauge("frozen", "Whether an operator has stopped the learning.")
        self._kafka_up = gauge("kafka_up", "Whether the broker answers; only where the log is Kafka.")
        self._source_up = gauge("source_up", "Whether the log answers.")
        self._redis_up = gauge("redis_up", "Whether the store answers.")
        self._age = gauge("predict_model_age_seconds", "Age of the state that predictions are made with.")
        self._stale = gauge("predict_model_stale_seconds", "For how long there may have been a newer one to serve.")
        self._ready = gauge("ready", "Whether predictions are served.")
        self._started = gauge("start_time_seconds", "When this process began.")
        self._build = gauge("build_info", "Always 1.", "version")
        self.checkpoint_seconds = histogram("checkpoint_seconds", "Time to write a checkpoint.", CHECKPOINT_BUCKETS)
        self.checkpoint_pause_seconds = histogram(
            "checkpoint_pause_seconds", "Time that learning stands still for a checkpoint.", CHECKPOINT_BUCKETS
        )
        self._update_seconds = histogram(
            "update_seconds", "Time to predict, count and learn, per event of a batch.", UPDATE_BUCKETS
        )
        self._event_age = histogram(
            "event_age_seconds",
            "From the log's own time stamp until learned: the last record of each batch.",
            AGE_BUCKETS,
        )
        self.predict_seconds = histogram("predict_seconds", "Time to answer a prediction request.", PREDICT_BUCKETS)

        self._quality = QualityMetrics(model, counter, gauge)
        self._started.labels(model).set(time.time())
        self._build.labels(model, version("onepass")).set(1)
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
            counted.labels(model)  # a series from the start, so that its first increase is seen

    def learned(self, outcome: Outcome, written: float | None = None) -> None:
        """A batch, the last record of which came into the log at that time."""
        self._events.labels(self._model, "learned").inc(outcome.learned)
        self._errors.labels(self._model).inc(outcome.errors)
        self._updates.labels(self._model).inc(outcome.updates)
        self._quality.learned(outcome)
        if outcome.learned:
            self._update_seconds.observe(outcome.seconds / outcome.learned)
        if written is not None:
            self._event_age.observe(max(0.0, time.time() - written))

    def rejected(self, reasons: list[str]) -> None:
        self._events.labels(self._model, "rejected").inc(len(reasons))
        for reason in reasons:
            self._rejects.labels(self._model, reason).inc()

    def lost(self, events: int, reason: Loss) -> None:
        self._lost.labels(self._model, reason).inc(events)

    def took_over(self, before: Manifest | None, manifest: Manifest) -> None:
        """Another generation is gone on from or served; one that an operator went back to is told."""
        if before is not None and before.commit != manifest.commit and manifest.origin.startswith("rollback"):
            self._rollbacks.labels(self._model).inc()

    def fenced(self) -> None:
        self._fenced.labels(self._model).inc()

    def checkpoint_corrupt(self) -> None:
        self._corrupt.labels(self._model).inc()

    def checkpoint_failed(self, reason: str) -> None:
        self._checkpoint_failures.labels(self._model, reason).inc()

    def answered(self, status: int) -> None:
        counted = self._answered.get(status)
        if counted is None:  # to look a series up takes longer than to count
            counted = self._answered[status] = self._requests.labels(self._model, str(status))
        counted.inc()

    def refused(self, reason: str) -> None:
        """Other reasons than `REFUSALS` are a request's own faults."""
        if reason in self._refusals:
            self._refusals[reason].inc()

    def exposition(self, model: Model, health: Health) -> bytes:
        """Set the gauges to what is true now, and write everything out."""
        progress = model.progress
        events = int(progress.events[0])
        self._model_events.labels(self._model).set(events)
        self._model_errors.labels(self._model).set(int(progress.errors[0]))
        self._quality.set(model)
        self._norm.labels(self._model).set(model.norm())
        self._dropped.labels(self._model).set(model.dropped())
        if (stock := stock_of(model)) is not None:
            self._stored.labels(self._model).set(stock["rows"])
            self._room.labels(self._model).set(stock["room"])
        self._source_up.labels(self._model).set(health.source_up)
        self._redis_up.labels(self._model).set(health.store_up)
        if self._kafka:
            self._kafka_up.labels(self._model).set(health.source_up)
        self._lease.labels(self._model).set(health.lease_held)
        self._frozen.labels(self._model).set(health.frozen)
        self._ready.labels(self._model).set(health.ready)
        self._age.labels(self._model).set(max(0.0, time.time() - model.served().made))
        self._stale.labels(self._model).set(health.stale_seconds)
        self._lag.clear()  # who learns no more, or reads other partitions, knows nothing of the old ones
        lag = health.lag if len(health.lag) <= PARTITIONS else {"all": sum(health.lag.values())}
        for partition, behind in lag.items():
            self._lag.labels(self._model, partition).set(behind)
        saved = health.checkpoint
        if saved is not None:
            self._generation.labels(self._model).set(saved.generation)
            self._saved.labels(self._model).set(saved.created)
            self._size.labels(self._model).set(saved.size)
        self._uncheckpointed.labels(self._model).set(events - (saved.events if saved else 0))
        return generate_latest(self._registry)
