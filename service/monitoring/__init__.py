"""Health, metrics and status."""

from typing import NamedTuple

from service.monitoring.health import Health
from service.monitoring.metrics import Metrics


class Monitoring(NamedTuple):
    """Where the threads of a process report."""

    metrics: Metrics
    health: Health
