"""Who goes first where learning and answering share one interpreter: whoever answers a request.

A thread that runs Python gives the interpreter up only after a switch interval, and a request needs it several times;
so the learner goes on in the moments in which no request is being answered, and after a while without one all the same.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

LONGEST_WAIT = 0.1
"""Seconds of a round for which requests can hold the learner up: it is slowed down by load, never stopped."""
BETWEEN_LOOKS = 8
"""Records learned from between two looks."""
FEW = 64
"""Records of a round under load: the client of a log takes milliseconds for many, and looks at nothing."""


class Courtesy:
    """How many requests are being answered: counted on the event loop alone, asked by the learner."""

    def __init__(self) -> None:
        self._open = 0
        self._idle = threading.Event()
        self._idle.set()
        self._waited = 0.0

    def arrived(self) -> None:
        """A whole request is there; one that is still on its way holds nobody up."""
        if self._open == 0:
            self._idle.clear()
        self._open += 1

    def answered(self) -> None:
        """One fewer is open: answered, or its connection is lost."""
        self._open -= 1
        if self._open == 0:
            self._idle.set()

    def at_once(self, most: int) -> int:
        """A round begins: how many records to fetch; few, if there was a wait in the last one."""
        few, self._waited = self._waited > 0.0, 0.0
        self.give_way()
        return min(FEW, most) if few else most

    def give_way(self) -> None:
        """Wait until no request is open, or until this round has waited for as long as may be."""
        while self._open and self._waited < LONGEST_WAIT:
            began = time.monotonic()
            self._idle.wait(LONGEST_WAIT - self._waited)
            self._waited += time.monotonic() - began

    def between(self, records: Iterable[T]) -> Iterator[T]:
        """The records; now and then, before one and after the last, a wait."""
        for place, record in enumerate(records):
            if place % BETWEEN_LOOKS == 0:
                self.give_way()
            yield record
        self.give_way()
