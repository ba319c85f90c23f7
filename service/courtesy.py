"""Who goes first where learning and answering share one interpreter: whoever answers a request.

A thread that runs Python gives the interpreter up only after a switch interval, and a request needs it several times;
so the learner looks up between records and waits, a little, while a request is being answered.
"""

import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

LONGEST_WAIT = 0.002
"""Seconds for which requests can hold the learner up each time: it is slowed down by load, never stopped."""
BETWEEN_LOOKS = 8
"""Records learned from between two looks."""
FEW = 64
"""Records fetched at once under load: the client of a log takes milliseconds for many, and looks at nothing."""


class Courtesy:
    """How many requests are being answered: counted on the event loop alone, asked by the learner."""

    def __init__(self) -> None:
        self._open = 0
        self._idle = threading.Event()
        self._idle.set()
        self._waited = False

    def arrived(self) -> None:
        """A whole request is there; one that is still on its way holds nobody up."""
        self._open += 1
        if self._open == 1:
            self._idle.clear()

    def answered(self) -> None:
        """One fewer is open: answered, or its connection is lost."""
        self._open -= 1
        if self._open == 0:
            self._idle.set()

    def at_once(self, most: int) -> int:
        """How many records to fetch: few, if there was a wait among the last ones."""
        return min(FEW, most) if self._waited else most

    def between(self, records: Iterable[T]) -> Iterator[T]:
        """The records; now and then, before one, a wait until no request is open, or for as long as may be."""
        self._waited = False
        for place, record in enumerate(records):
            if self._open and place % BETWEEN_LOOKS == 0:
                self._waited = True
                self._idle.wait(LONGEST_WAIT)
            yield record
