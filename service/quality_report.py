"""How well a model does and whether the world changed, as `/status` and `/history` answer it."""

import math
from typing import Any

import msgspec

from learners.batch import Ints
from learners.calibration import calibration_error
from learners.history import latest, whole
from learners.quality import EVENTS, by_class, figures
from service.judgement import CLASSES
from service.model import Model

FEATURES = 16
"""Listed, those that moved most."""


def quality_of(model: Model) -> dict[str, Any]:
    with model.still:
        judged = model.judgement
        now, classes = figures(judged.progress, judged.quality), by_class(judged.quality, CLASSES)
        calibration = calibration_error(judged.calibration) if judged.calibration.events[0] else None
        label = model.labels.label
        names = {
            one.number: label(_guess(one.number, binary=model.labels.binary)) for one in classes if one.number >= 0
        }
    return {
        "error_rate_fading": _number(now.fading),
        "log_loss": _number(now.log_loss),
        "log_loss_fading": _number(now.log_loss_fading),
        "calibration_error": calibration,
        "kappa": _number(now.kappa),
        "kappa_temporal": _number(now.kappa_temporal),
        "kappa_majority": _number(now.kappa_majority),
        "kappa_temporal_last_1000": _number(now.kappa_temporal_recent),
        "kappa_majority_last_1000": _number(now.kappa_majority_recent),
        "baselines": {
            "majority": _rates(now.majority, now.majority_recent),
            "no_change": _rates(now.no_change, now.no_change_recent),
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
    with model.still:
        judged = model.judgement
        scores, alarms = judged.scores(), judged.tally.alarms.tolist()
        raised = int(judged.tally.raised[0])
        moved = sorted(judged.feature_psi(), key=lambda pair: -pair[1])[:FEATURES]
        features = [{"feature": model.named(slot), "psi": psi} for slot, psi in moved]
    return {
        "detectors": [
            {"detector": name, "score": scores[name], "alarms": count}
            for name, count in zip(judged.watched, alarms, strict=True)
        ],
        "features": features,
        "raised_for": raised,
        "alarms": alarms_of(model),
    }


def alarms_of(model: Model) -> list[dict[str, Any]]:
    """The newest ones, oldest first."""
    return [msgspec.to_builtins(alarm) for alarm in model.alarms.latest()]


def history_of(model: Model) -> dict[str, Any]:
    """The curves: cumulative counts at some hundred points of the whole life, and of the last events."""
    with model.still:
        judged = model.judgement
        curves = whole(judged.history), latest(judged.history)
        earlier = int(judged.progress.events[0] - judged.quality.totals[EVENTS])
    return {"whole": _curve(curves[0], earlier), "latest": _curve(curves[1], earlier), "alarms": alarms_of(model)}


def _curve(points: Ints, earlier: int) -> dict[str, list[int]]:
    """Events are counted from the model's first, which may lie before the curve's: versions before had none."""
    points[:, 0] += earlier
    return dict(zip(("events", "errors", "majority", "no_change"), points.T.tolist(), strict=True))


def _guess(number: int, *, binary: bool) -> int:
    """The prediction that stands for a class."""
    return (-1, 1)[number] if binary else number


def _rates(cumulative: float, recent: float) -> dict[str, float | None]:
    return {"error_rate": _number(cumulative), "error_rate_last_1000": _number(recent)}


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
