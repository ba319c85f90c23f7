"""Collectors of how well the model does and whether the world changed; `Metrics` owns the registry and the rest.

Series come from closed sets: classes are numbers up to a cap, features are the declared columns that are watched.
"""

import math
from collections.abc import Callable

from prometheus_client import Counter, Gauge

from learners.calibration import calibration_error
from learners.quality import NONE, ClassFigures, by_class, figures
from service.answers import Outcome
from service.judgement import CLASSES
from service.model import Model

Make = Callable[..., Gauge]
MakeCounter = Callable[..., Counter]


class QualityMetrics:
    """Gauges are set from the state when a scrape asks; counters are this process's own."""

    def __init__(self, model: str, counter: MakeCounter, gauge: Make) -> None:
        self._model = model
        self._baseline_errors = counter(
            "baseline_errors_total", "Errors that a baseline would have made, before learning.", "baseline"
        )
        self._alarms = counter("drift_alarms_total", "Times a detector found that the world had changed.", "detector")
        self._error = gauge("error_ratio", "Share of events predicted wrongly before learning.", "window")
        self._baseline = gauge("baseline_error_ratio", "The same of a baseline, over all events.", "baseline")
        self._recent_baseline = gauge(
            "recent_baseline_error_ratio", "The same of a baseline, over the last 1000 events.", "baseline"
        )
        self._kappa = gauge("kappa", "Share of errors avoided, of those of chance or of a baseline.", "kind")
        self._recent_kappa = gauge("recent_kappa", "The same over the last 1000 events.", "kind")
        self._log_loss = gauge("log_loss", "Mean log loss of the probabilities given before learning.", "window")
        self._calibration = gauge("calibration_error", "How far probabilities were from what came, on the average.")
        self._precision = gauge(
            "class_precision_ratio", "Of the events said to be of a class, those that were.", "class"
        )
        self._recall = gauge("class_recall_ratio", "Of the events of a class, those that were said to be.", "class")
        self._f1 = gauge("class_f1_ratio", "Harmonic mean of precision and recall.", "class")
        self._of_class = gauge("class_events", "Events of a class.", "class")
        self._score = gauge("drift_score", "How near a detector is to an alarm, 0 to 1.", "detector")
        self._psi = gauge("feature_drift_psi", "Population stability index of a feature, last window.", "feature")
        self._hashed_psi = gauge("hashed_drift_psi", "The largest of those of features that are no column.")
        self._raised = gauge("drift_raised_events", "Events left that count more, since drift was found.")
        for baseline in ("majority", "no_change"):
            self._baseline_errors.labels(model, baseline)

    def learned(self, outcome: Outcome) -> None:
        self._baseline_errors.labels(self._model, "majority").inc(outcome.majority_errors)
        self._baseline_errors.labels(self._model, "no_change").inc(outcome.no_change_errors)
        for alarm in outcome.alarms:
            if alarm.counts:
                self._alarms.labels(self._model, alarm.detector).inc()

    def set(self, model: Model) -> None:
        """To what is true now."""
        name = self._model
        with model.still:
            judged = model.judgement
            now, classes = figures(judged.progress, judged.quality), by_class(judged.quality, CLASSES)
            scores, features = judged.scores(), judged.feature_psi()
            calibration, raised = calibration_error(judged.calibration), int(judged.tally.raised[0])
        for window, value in (("cumulative", now.error), ("1000", now.recent), ("fading", now.fading)):
            self._error.labels(name, window).set(value)
        for baseline, all_of_them, recent in (
            ("majority", now.majority, now.majority_recent),
            ("no_change", now.no_change, now.no_change_recent),
        ):
            self._baseline.labels(name, baseline).set(all_of_them)
            self._recent_baseline.labels(name, baseline).set(recent)
        for kind, value in (("cohen", now.kappa), ("temporal", now.kappa_temporal), ("majority", now.kappa_majority)):
            self._kappa.labels(name, kind).set(value)
        for kind, value in (("temporal", now.kappa_temporal_recent), ("majority", now.kappa_majority_recent)):
            self._recent_kappa.labels(name, kind).set(value)
        for window, value in (("cumulative", now.log_loss), ("fading", now.log_loss_fading)):
            self._log_loss.labels(name, window).set(value)
        self._calibration.labels(name).set(calibration)
        for label, one in zip(_classes(model), _placed(classes, model), strict=True):
            self._precision.labels(name, label).set(one.precision)
            self._recall.labels(name, label).set(one.recall)
            self._f1.labels(name, label).set(one.f1)
            self._of_class.labels(name, label).set(one.events)
        for detector, score in scores.items():
            self._alarms.labels(name, detector)  # a series from the start, so that its first increase is seen
            self._score.labels(name, detector).set(score)
        self._raised.labels(name).set(raised)
        self._set_psi(model, features)

    def _set_psi(self, model: Model, features: list[tuple[int, float]]) -> None:
        others = 0.0
        for slot, psi in features:
            if slot <= model.columns:
                self._psi.labels(self._model, model.names.of(slot)[0]).set(psi)
            else:
                others = max(others, psi)
        if model.judgement.drift.inputs is not None:
            self._hashed_psi.labels(self._model).set(others)


def _classes(model: Model) -> list[str]:
    """One label for each class that there can be, up to the cap, in the order of their numbers."""
    if model.labels.binary:
        return ["negative", "positive"]
    return [*map(str, range(min(model.labels.most, CLASSES))), "other"]


def _placed(classes: list[ClassFigures], model: Model) -> list[ClassFigures]:
    """The same with an empty one for each that has not come: a series is there from the start, or not at all."""
    found = {one.number: one for one in classes}
    numbers = range(2) if model.labels.binary else [*range(min(model.labels.most, CLASSES)), NONE]
    return [found.get(n, ClassFigures(n, 0, 0, math.nan, math.nan, math.nan)) for n in numbers]
