"""Describe the model and its quality as JSON, for `/status`, `/history` and `--until-end`."""

import math
from typing import Any

import msgspec

from learners.batch import Ints
from learners.evaluation.calibration import calibration_error
from learners.evaluation.history import latest, whole
from learners.evaluation.quality import EVENTS, by_class, figures
from service.config.settings import Settings
from service.model.explain import stock_of
from service.model.model import Model
from service.model.monitor import CLASSES
from service.monitoring.health import Health

FEATURES = 16
"""Watched features to list: those that moved most."""
COLUMNS = 100
"""Declared columns to list."""


def status_of(settings: Settings, model: Model, health: Health) -> dict[str, Any]:
    """The body of `/status`."""
    checkpoint = health.checkpoint
    return {
        "model": settings.name,
        "role": health.role,
        "learner": model.spec["learner"],
        "features": {
            "flat": settings.features.flat,
            "columns": settings.features.columns[:COLUMNS],
        },
        **counts_of(model),
        "support": stock_of(model),
        "quality": quality_of(model),
        "drift": drift_of(model),
        "lag": sum(health.lag.values()) if health.lag else None,
        "events_lost": health.events_lost,
        "last_rejects": [reject._asdict() for reject in health.rejects],
        "frozen": health.frozen,
        "ready": health.ready,
        "waiting_for": health.trouble,
        "checkpoint": {
            "generation": checkpoint.generation if checkpoint else 0,
            "age_seconds": health.checkpoint_age,
            "events": checkpoint.events if checkpoint else 0,
            "state_digest": checkpoint.state_digest if checkpoint else None,
        },
    }


def counts_of(model: Model) -> dict[str, Any]:
    """Count events, errors, updates and rejects. The keys are the same wherever they are shown."""
    progress = model.progress
    return {
        "events": int(progress.events[0]),
        "errors": int(progress.errors[0]),
        "error_rate": progress.error_rate,
        "error_rate_last_1000": progress.recent_error_rate,
        "updates": model.updates(),
        "dropped_updates": model.dropped(),
        "rejects": sum(model.rejects.values()),
        "rejects_by_reason": dict(sorted(model.rejects.items())),
    }


def quality_of(model: Model) -> dict[str, Any]:
    """Describe how well the model predicts, its baselines, and each class."""
    with model.lock:
        monitor = model.monitor
        quality = figures(monitor.progress, monitor.quality)
        classes = by_class(monitor.quality, CLASSES)
        calibration = (
            calibration_error(monitor.calibration) if monitor.calibration.events[0] else None
        )
        names = {
            one.number: model.labels.label(_guess(one.number, binary=model.labels.binary))
            for one in classes
            if one.number >= 0
        }
    return {
        "error_rate_fading": _number(quality.fading),
        "log_loss": _number(quality.log_loss),
        "log_loss_fading": _number(quality.log_loss_fading),
        "calibration_error": calibration,
        "kappa": _number(quality.kappa),
        "kappa_temporal": _number(quality.kappa_temporal),
        "kappa_majority": _number(quality.kappa_majority),
        "kappa_temporal_last_1000": _number(quality.kappa_temporal_recent),
        "kappa_majority_last_1000": _number(quality.kappa_majority_recent),
        "baselines": {
            "majority": _rates(quality.majority, quality.majority_recent),
            "no_change": _rates(quality.no_change, quality.no_change_recent),
        },
        "classes": [
            {
                "label": names.get(one.number),
                "events": one.events,
                "predicted": one.predicted,
                "precision": _number(one.precision),
                "recall": _number(one.recall),
                "f1": _number(one.f1),
            }
            for one in classes
        ],
    }


def drift_of(model: Model) -> dict[str, Any]:
    """Describe what the detectors have found, and which features moved most."""
    with model.lock:
        monitor = model.monitor
        scores, alarms = monitor.scores(), monitor.counters.alarms.tolist()
        boosted = int(monitor.counters.raised[0])
        moved = sorted(monitor.feature_psi(), key=lambda pair: -pair[1])[:FEATURES]
        features = [{"feature": model.feature_name(slot), "psi": psi} for slot, psi in moved]
    return {
        "detectors": [
            {"detector": name, "score": scores[name], "alarms": count}
            for name, count in zip(monitor.detector_names, alarms, strict=True)
        ],
        "features": features,
        "boosted_events_left": boosted,
        "alarms": alarms_of(model),
    }


def alarms_of(model: Model) -> list[dict[str, Any]]:
    """The newest alarms, oldest first."""
    return [msgspec.to_builtins(alarm) for alarm in model.alarms.latest()]


def history_of(model: Model) -> dict[str, Any]:
    """The body of `/history`: cumulative counts at a few hundred points of the whole life, and at
    points of the last events.
    """
    with model.lock:
        monitor = model.monitor
        curves = whole(monitor.history), latest(monitor.history)
        uncounted = int(monitor.progress.events[0] - monitor.quality.totals[EVENTS])
    return {
        "whole": _curve(curves[0], uncounted),
        "latest": _curve(curves[1], uncounted),
        "alarms": alarms_of(model),
    }


def _curve(points: Ints, uncounted: int) -> dict[str, list[int]]:
    """Number the events from the model's first. A model of an old version has learned `uncounted`
    events before its curve begins.
    """
    points[:, 0] += uncounted
    return dict(zip(("events", "errors", "majority", "no_change"), points.T.tolist(), strict=True))


def _guess(number: int, *, binary: bool) -> int:
    """The prediction that stands for the class of this number."""
    return (-1, 1)[number] if binary else number


def _rates(cumulative: float, recent: float) -> dict[str, float | None]:
    return {"error_rate": _number(cumulative), "error_rate_last_1000": _number(recent)}


def _number(value: float) -> float | None:
    """None instead of NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None
