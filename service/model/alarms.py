"""Alarms: where in the log a detector found a change, and which actions followed."""

from collections import deque
from collections.abc import Sequence
from typing import Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from learners.batch import Flags
from service.checkpoint.lineage import Count, Text
from service.config.renamed import current_action
from service.sources.base import Entry

KEPT = 32
"""Alarms that a checkpoint holds, the newest ones."""

Change = Literal["worse", "better", "moved"]


class Alarm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change that a detector found, as checkpoints and the alarm log hold it."""

    event: Count
    """Events learned up to and including this one."""
    detector: Text
    """Kind of the detector on the error, or `inputs`, `labels` or `predictions`."""
    series: Text
    """What changed: `error`, `label` or `prediction`, or for `inputs` the name of a feature."""
    change: Change
    size: float
    """Size of the change. For the error it is the change of the error rate, as far as the detector
    knows it. Otherwise it is the largest difference of the two distribution functions, 0 to 1.
    """
    psi: float | None
    """Population stability index of the changed distribution at that moment."""
    partition: Text
    position: Text
    """Position of the record at which the detector noticed the change."""
    actions: tuple[Text, ...]
    at: float
    """Seconds since the epoch at which the detector noticed the change."""

    @property
    def counts(self) -> bool:
        """Whether this counts as drift. A lower error rate is recorded but does not count."""
        return self.change != "better"

    @property
    def message(self) -> str:
        """One line for the log."""
        what = {"worse": "rose by", "better": "fell by", "moved": "moved by"}[self.change]
        done = f"; {', '.join(self.actions)}" if self.actions else ""
        where = f", partition {self.partition}, position {self.position}" if self.position else ""
        return (
            f"drift at event {self.event:,}{where}: "
            f"{self.series!a} {what} {self.size:.2f} ({self.detector}){done}"
        )

    def entry(self, model: str) -> Entry:
        """Make the record for the alarm log.

        A crash can repeat an alarm. A reader recognises the repetition by its key.
        """
        key = f"{model}:{self.partition}:{self.position}:{self.detector}:{self.series}"
        return Entry(
            msgspec.json.encode({"model": model} | msgspec.to_builtins(self)), key.encode()
        )


class Alarms:
    """The newest alarms, oldest first."""

    def __init__(self, alarms: tuple[Alarm, ...] = ()) -> None:
        self._alarms = deque(alarms, KEPT)

    def extend(self, alarms: Sequence[Alarm]) -> None:
        self._alarms.extend(alarms)

    def latest(self) -> list[Alarm]:
        return list(self._alarms)

    def array(self) -> Flags:
        """Encode the alarms for a checkpoint."""
        return np.frombuffer(msgspec.json.encode(list(self._alarms)), np.uint8)


def read_alarms(array: Flags) -> Alarms:
    """Decode what `Alarms.array` returned. Other data raises ValueError."""
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError("corrupt checkpoint: alarms have a wrong type or shape")
    try:
        stored = msgspec.json.decode(array.tobytes(), type=tuple[Alarm, ...])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"corrupt checkpoint: alarms are invalid: {error}") from error
    return Alarms(
        tuple(replace(alarm, actions=tuple(map(current_action, alarm.actions))) for alarm in stored)
    )
