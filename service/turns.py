"""Whose turn it is at a model: nobody learns on while an answer waits, and nobody holds the model for long."""

import threading

HOLD = 0.005
"""Seconds for which rows are learned before another may have the model; a row that takes longer is learned alone."""


class Turns:
    """A lock that may be taken again by who has it; who comes second is never overtaken by who had it last.

    A plain lock goes to whoever asks first after its release, and that is the learner, which asks at once: an answer
    could wait for seconds. Here one that waits for the lock keeps the gate, at which the learner then waits.
    """

    def __init__(self) -> None:
        self._gate, self._lock = threading.Lock(), threading.Lock()
        self._owner: int | None = None
        self._depth = 0

    @property
    def mine(self) -> bool:
        """Whether this thread has it."""
        return self._owner == threading.get_ident()

    def __enter__(self) -> None:
        if not self.mine:
            with self._gate:
                self._lock.acquire()
            self._owner = threading.get_ident()
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None
            self._lock.release()


class Portion:
    """How many rows are learned in one turn, by what the last ones took; that changes when, and nothing else."""

    def __init__(self, most: int) -> None:
        self._most = self.rows = most

    def took(self, rows: int, seconds: float) -> None:
        self.rows = max(1, min(self._most, int(rows * HOLD / max(seconds, 1e-9))))
