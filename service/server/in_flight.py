"""Count the requests in flight over all connections of a server, and limit their number."""

from collections.abc import Callable


def nothing() -> None:
    pass


class InFlightLimit:
    """The limit of requests in flight, and their present number.

    `on_start` is called when work on a request begins, after its body has arrived. `on_end` is
    called when that work ends, or waits for a slow reader.
    """

    def __init__(
        self,
        most: int,
        refused: Callable[[str], None],
        on_start: Callable[[], None] = nothing,
        on_end: Callable[[], None] = nothing,
    ) -> None:
        self.most, self.refused, self.on_start, self.on_end = most, refused, on_start, on_end
        self.most_arriving = max(1, most // 8)
        """Long bodies that may arrive at the same time. Slow uploaders block only each other."""
        self.open = self.arriving = 0


class RequestSlot:
    """The slot of one request: first among the bodies that arrive, then among those answered."""

    __slots__ = ("_counted", "_limit", "_worked_on", "begun", "whole")

    def __init__(self, limit: InFlightLimit, *, whole: bool, counted: bool) -> None:
        self._limit, self._counted, self.whole = limit, counted, whole
        self._worked_on = False
        taken, most = (limit.open, limit.most) if whole else (limit.arriving, limit.most_arriving)
        self.begun = taken < most or not counted
        """Whether there was a free slot."""
        if not self.begun:
            return
        if whole:
            self._start()
        else:
            limit.arriving += 1

    def arrived(self) -> None:
        """Note that the body is there. From now on the request is not refused."""
        if self.begun and not self.whole:
            self._limit.arriving -= 1
            self.whole = True
            self._start()

    def end(self) -> None:
        """Free the slot. A second call does nothing."""
        if not self.begun:
            return
        self.begun = False
        if not self.whole:
            self._limit.arriving -= 1
            return
        if self._counted:
            self._limit.open -= 1
        self.suspend()

    def suspend(self) -> None:
        """Note that the answer waits for a slow reader: the slot stays taken, but the learner need
        not wait for this request.
        """
        if self._worked_on:
            self._worked_on = False
            self._limit.on_end()

    def _start(self) -> None:
        if self._counted:
            self._limit.open += 1
        self._worked_on = True
        self._limit.on_start()
