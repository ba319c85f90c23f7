"""Collectors of the model's quality and of drift. `Metrics` owns the registry.

Label values come from closed sets: classes are numbers up to a cap, features are the watched
declared columns and `hashed`.
"""

import math
from collections.abc import Callable

from prometheus_client import Counter, Gauge

from learners.evaluation.calibration import calibration_error
from learners.evaluation.quality import NONE, ClassFigures, Figures, by_class, figures
from service.model.model import Model
from service.model.monitor import CLASSES
from service.model.results import LearnResult

MakeGauge = Callable[..., Gauge]
MakeCounter = Callable[..., Counter]

HASHED = "hashed"
"""Label value that stands for all hashed features. Its series shows the largest of their values."""


class QualityMetrics:
    """Counters count this process's events. A scrape sets the gauges from the model's state."""

    def __init__(self, model: str, counter: MakeCounter, gauge: MakeGauge) -> None:
        self._model = model
        self._baseline_errors = counter(
            "baseline_errors_total",
            "Errors that a baseline would have made, before learning.",
            "baseline",
        )
        self._alarms = counter("drift_alarms_total", "Drift alarms.", "detector")
        self._error = gauge(
            "error_ratio", "Share of events predicted wrongly before learning.", "window"
        )
        self._baseline = gauge(
            "baseline_error_ratio",
            "Share of events that a baseline predicts wrongly.",
            "baseline",
            "window",
        )
        self._kappa = gauge(
            "kappa",
            "Share of the errors of chance or of a baseline that the model avoids.",
            "kind",
            "window",
        )
        self._log_loss = gauge(
            "log_loss", "Mean log loss of the probabilities predicted before learning.", "window"
        )
        self._calibration = gauge(
            "calibration_error", "Mean difference between predicted probability and observed share."
        )
        self._precision = gauge(
            "class_precision_ratio",
            "Share of the events predicted as a class that belong to it.",
            "class",
        )
        self._recall = gauge(
            "class_recall_ratio",
            "Share of the events of a class that are predicted as this class.",
            "class",
        )
        self._f1 = gauge("class_f1_ratio", "Harmonic mean of precision and recall.", "class")
        self._class_events = gauge("class_events", "Events of a class.", "class")
        self._score = gauge(
            "drift_score", "How close a detector is to an alarm, 0 to 1.", "detector"
        )
        self._psi = gauge(
            "feature_drift_psi",
            "Population stability index of a watched column in the last window; `hashed`: the "
            "largest of all hashed features.",
            "feature",
        )
        self._boosted = gauge(
            "drift_boosted_events", "Number of next events that count more because of drift."
        )
        for baseline in ("majority", "no_change"):
            self._baseline_errors.labels(model, baseline)

    def learned(self, result: LearnResult) -> None:
        self._baseline_errors.labels(self._model, "majority").inc(result.majority_errors)
        self._baseline_errors.labels(self._model, "no_change").inc(result.no_change_errors)
        for alarm in result.alarms:
            if alarm.counts:
                self._alarms.labels(self._model, alarm.detector).inc()

    def set(self, model: Model) -> None:
        """Set the gauges to the model's state now."""
        name = self._model
        with model.lock:
            monitor = model.monitor
            quality = figures(monitor.progress, monitor.quality)
            classes = by_class(monitor.quality, CLASSES)
            scores = monitor.scores()
            features = monitor.feature_psi()
            calibration = calibration_error(monitor.calibration)
            boosted = int(monitor.counters.raised[0])
        self._set_windows(quality)
        self._calibration.labels(name).set(calibration)
        for label, one in zip(_class_labels(model), _fill_classes(classes, model), strict=True):
            self._precision.labels(name, label).set(one.precision)
            self._recall.labels(name, label).set(one.recall)
            self._f1.labels(name, label).set(one.f1)
            self._class_events.labels(name, label).set(one.events)
        for detector, score in scores.items():
            self._alarms.labels(name, detector)  # the series exists before its first increase
            self._score.labels(name, detector).set(score)
        self._boosted.labels(name).set(boosted)
        self._set_psi(model, features)

    def _set_windows(self, quality: Figures) -> None:
        """Set the figures that exist for several windows of events."""
        name = self._model
        for window, value in (
            ("cumulative", quality.error),
            ("1000", quality.recent),
            ("fading", quality.fading),
        ):
            self._error.labels(name, window).set(value)
        for baseline, window, value in (
            ("majority", "cumulative", quality.majority),
            ("majority", "1000", quality.majority_recent),
            ("no_change", "cumulative", quality.no_change),
            ("no_change", "1000", quality.no_change_recent),
        ):
            self._baseline.labels(name, baseline, window).set(value)
        for kind, window, value in (
            ("cohen", "cumulative", quality.kappa),
            ("temporal", "cumulative", quality.kappa_temporal),
            ("majority", "cumulative", quality.kappa_majority),
            ("temporal", "1000", quality.kappa_temporal_recent),
            ("majority", "1000", quality.kappa_majority_recent),
        ):
            self._kappa.labels(name, kind, window).set(value)
        for window, value in (
            ("cumulative", quality.log_loss),
            ("fading", quality.log_loss_fading),
        ):
            self._log_loss.labels(name, window).set(value)

    def _set_psi(self, model: Model, features: list[tuple[int, float]]) -> None:
        """Set one value per column and one for all hashed features.

        A declared column called `hashed` shares that series, which shows the larger value.
        """
        if model.monitor.drift.inputs is None:
            return
        largest = {HASHED: 0.0}
        for slot, psi in features:
            feature = model.names.of(slot)[0] if slot <= model.columns else HASHED
            largest[feature] = max(largest[feature], psi) if feature in largest else psi
        for feature, psi in largest.items():
            self._psi.labels(self._model, feature).set(psi)


def _class_labels(model: Model) -> list[str]:
    """One label value for each possible class, up to the cap, in the order of their numbers."""
    if model.labels.binary:
        return ["negative", "positive"]
    return [*map(str, range(min(model.labels.most, CLASSES))), "other"]


def _fill_classes(classes: list[ClassFigures], model: Model) -> list[ClassFigures]:
    """Add empty figures for classes without events, so that every series exists from the start."""
    found = {one.number: one for one in classes}
    binary = model.labels.binary
    numbers = range(2) if binary else [*range(min(model.labels.most, CLASSES)), NONE]
    return [found.get(n, ClassFigures(n, 0, 0, math.nan, math.nan, math.nan)) for n in numbers]
