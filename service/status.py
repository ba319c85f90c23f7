"""What is true of a model now, as `/status` answers it and `--until-end` prints it."""

from typing import Any

from service.health import Health
from service.model import Model
from service.quality_report import drift_of, quality_of
from service.settings import Settings
from service.stored import stock_of

SHOWN = 100
"""Columns that are named."""


def status_of(settings: Settings, model: Model, health: Health) -> dict[str, Any]:
    saved = health.checkpoint
    return {
        "model": settings.name,
        "role": health.role,
        "learner": model.made_with["learner"],
        "features": {"flat": settings.features.flat, "columns": settings.features.columns[:SHOWN]},
        **counts_of(model),
        "support": stock_of(model),
        "quality": quality_of(model),
        "drift": drift_of(model),
        "lag": sum(health.lag.values()) if health.lag else None,
        "lost": health.lost,
        "last_rejects": [reject._asdict() for reject in health.rejects],
        "frozen": health.frozen,
        "ready": health.ready,
        "trouble": health.trouble,
        "checkpoint": {
            "generation": saved.generation if saved else 0,
            "age_seconds": health.checkpoint_age,
            "events": saved.events if saved else 0,
            "state_digest": saved.state_digest if saved else None,
        },
    }


def counts_of(model: Model) -> dict[str, Any]:
    """The honest counts, the same keys wherever they are shown."""
    progress = model.progress
    return {
        "events": int(progress.events[0]),
        "errors": int(progress.errors[0]),
        "error_rate": progress.error_rate,
        "error_rate_last_1000": progress.recent_error_rate,
        "updates": model.updates(),
        "dropped": model.dropped(),
        "rejects": sum(model.rejects.values()),
        "rejects_by_reason": dict(sorted(model.rejects.items())),
    }
