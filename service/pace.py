"""How often there is a checkpoint, and how far learning may run ahead of the store."""

from typing import NamedTuple


class Pace(NamedTuple):
    seconds: float
    events: int
    """A checkpoint is due after so many seconds or events, whichever comes first."""
    unsaved_seconds: float = float("inf")
    unsaved_events: float = float("inf")
    """Beyond either learning pauses until a checkpoint is written."""
