"""The requests that are being answered now, over all connections of a server."""

from collections.abc import Callable


def nothing() -> None:
    pass


class Flights:
    """Counted by the protocol; `on_start` and `on_end` are told of each that is worked on: its body is there."""

    def __init__(
        self,
        most: int,
        refused: Callable[[str], None],
        on_start: Callable[[], None] = nothing,
        on_end: Callable[[], None] = nothing,
    ) -> None:
        self.most, self.refused, self.on_start, self.on_end = most, refused, on_start, on_end
        self.most_arriving = max(1, most // 8)
        """Long bodies that are read at the same time: whoever sends them slowly keeps only their like waiting."""
        self.open = self.arriving = 0


class Flight:
    """One request's place: among those whose body is still coming, then among those being answered."""

    __slots__ = ("_counted", "_flights", "_worked_on", "begun", "whole")

    def __init__(self, flights: Flights, *, whole: bool, counted: bool) -> None:
        self._flights, self._counted, self.whole = flights, counted, whole
        self._worked_on = False
        taken, most = (flights.open, flights.most) if whole else (flights.arriving, flights.most_arriving)
        self.begun = taken < most or not counted
        """Whether there was a place."""
        if not self.begun:
            return
        if whole:
            self._enter()
        else:
            flights.arriving += 1

    def arrived(self) -> None:
        """Its body is there; it is too late to refuse it."""
        if self.begun and not self.whole:
            self._flights.arriving -= 1
            self.whole = True
            self._enter()

    def end(self) -> None:
        """Once is enough, however often."""
        if not self.begun:
            return
        self.begun = False
        if not self.whole:
            self._flights.arriving -= 1
            return
        if self._counted:
            self._flights.open -= 1
        self.rest()

    def rest(self) -> None:
        """Its answer waits for a reader: it keeps its place, and nobody need wait for it."""
        if self._worked_on:
            self._worked_on = False
            self._flights.on_end()

    def _enter(self) -> None:
        if self._counted:
            self._flights.open += 1
        self._worked_on = True
        self._flights.on_start()
