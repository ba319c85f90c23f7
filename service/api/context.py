"""What the handlers of requests work with."""

from typing import NamedTuple

from service.appender import Appender
from service.events import Decoder
from service.health import Health
from service.metrics import Metrics
from service.model import Model
from service.settings import Settings


class Context(NamedTuple):
    settings: Settings
    decoder: Decoder
    """The door's own: what it remembers of names must not depend on what is learned, nor the reverse."""
    model: Model
    metrics: Metrics
    health: Health
    log: Appender | None = None
    """To append to the log that is learned from; None where it cannot be (a file)."""
