"""The objects that the handlers of requests use."""

from typing import NamedTuple

from service.api.log_appender import Appender
from service.config.settings import Settings
from service.features.decoder import Decoder
from service.model.model import Model
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics


class Context(NamedTuple):
    """One per process; every handler gets it."""

    settings: Settings
    decoder: Decoder
    """The API's own decoder. A decoder remembers feature names, and requests must not change those
    of the learner's decoder.
    """
    model: Model
    metrics: Metrics
    health: Health
    log: Appender | None = None
    """Appends to the source's log; None if the source is a file, which cannot be appended to."""
