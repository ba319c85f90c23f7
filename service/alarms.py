"""Alarms: where in the log the world was found changed, by which detector, and what was done about it."""

from collections import deque
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np

from learners.batch import Flags
from service.lineage import Count, Text
from service.sources.contract import Entry

KEPT = 32
"""The newest alarms travel with the model."""

Change = Literal["worse", "better", "moved"]


class Alarm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    event: Count
    """How many events had been learned, this one included."""
    detector: Text
    """The kind of detector on the error, or inputs, labels, predictions."""
    series: Text
    """What changed: `error`, `label`, `prediction`, or, where `detector` is inputs, a feature by whatever name."""
    change: Change
    size: float
    """By how much: of the error rate, as far as the detector knows it; else the largest difference between the two
    distribution functions, from 0 to 1."""
    psi: float | None
    """Population stability index of what moved, at that moment."""
    partition: Text
    position: Text
    """The record at which it was noticed."""
    actions: tuple[Text, ...]
    at: float
    """When it was noticed, in seconds since the epoch."""

    @property
    def counts(self) -> bool:
        """An error that fell is noted, but nothing to be alarmed about."""
        return self.change != "better"

    @property
    def words(self) -> str:
        what = {"worse": "rose by", "better": "fell by", "moved": "moved by"}[self.change]
        done = f"; {', '.join(self.actions)}" if self.actions else ""
        place = f", partition {self.partition}, position {self.position}" if self.position else ""
        return f"drift at event {self.event:,}{place}: {self.series!a} {what} {self.size:.2f} ({self.detector}){done}"

    def entry(self, model: str) -> Entry:
        """As a record of a log; the key tells a repetition, which a crash can bring, from another alarm."""
        key = f"{model}:{self.partition}:{self.position}:{self.detector}:{self.series}"
        return Entry(msgspec.json.encode({"model": model} | msgspec.to_builtins(self)), key.encode())


class Alarms:
    """The newest ones, oldest first."""

    def __init__(self, alarms: tuple[Alarm, ...] = ()) -> None:
        self._kept = deque(alarms, KEPT)

    def extend(self, alarms: Sequence[Alarm]) -> None:
        self._kept.extend(alarms)

    def latest(self) -> list[Alarm]:
        return list(self._kept)

    def array(self) -> Flags:
        """As the checkpoint has them."""
        return np.frombuffer(msgspec.json.encode(list(self._kept)), np.uint8)


def read_alarms(array: Flags) -> Alarms:
    """The inverse of `array`; anything else is a ValueError."""
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError("it has alarms of another type or shape")
    try:
        return Alarms(msgspec.json.decode(array.tobytes(), type=tuple[Alarm, ...]))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"it has alarms that are none: {error}") from error
