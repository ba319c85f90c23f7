"""A log and a store in memory that can be made to fail, or to kill the process, before or after any
call.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Literal, NamedTuple, TypeVar

from service.checkpoint.snapshot import Snapshot
from service.checkpoint.store import (
    NO_SEGMENTS,
    Acquired,
    InMemoryStore,
    Loaded,
    Manifest,
    StoreUnavailableError,
)
from service.sources.base import (
    Bookmark,
    Entry,
    Gap,
    Position,
    Positions,
    Record,
    SourceUnavailableError,
)

T = TypeVar("T")

PARTITION = "0"


class Killed(BaseException):
    """The process is gone; only the log, the dead letters and the store remain."""


class Fault(NamedTuple):
    """A fault at one call, counted from 0 over all calls of a plan."""

    call: int
    when: Literal["before", "after"]
    """With `after` the work is done, but the caller never learns of it."""
    how: Literal["kill", "down"]


class Plan:
    """Planned faults; each happens once."""

    def __init__(self, faults: Sequence[Fault] = ()) -> None:
        self._faults = {fault.call: fault for fault in faults}
        self._calls = 0
        self.history: list[str] = []
        """The names of all calls that did their work."""

    def call(self, name: str, down: type[Exception], work: Callable[[], T]) -> T:
        fault = self._faults.get(self._calls)
        self._calls += 1
        error = (
            None if fault is None else Killed() if fault.how == "kill" else down(f"{name} is down")
        )
        if error is not None and fault.when == "before":
            raise error
        done = work()
        self.history.append(name)
        if error is not None:
            raise error
        return done


class Log:
    """The records of the log and the dead letters; they outlive the processes."""

    def __init__(self, values: Sequence[bytes], sizes: Sequence[int] = (1000,)) -> None:
        self.values = list(values)
        self.first = 0
        """First record that the log still holds."""
        self.settled: Positions = {}
        self.dead_letters: list[Entry] = []
        self.sizes = cycle(sizes)
        """Most records that each poll returns."""

    def source(self, plan: Plan) -> "MemorySource":
        return plan.call("open", SourceUnavailableError, lambda: MemorySource(self, plan))

    def sink(self, plan: Plan) -> "MemorySink":
        return MemorySink(self, plan)


class MemorySource:
    """One connection to the log."""

    def __init__(self, log: Log, plan: Plan) -> None:
        self._log = log
        self._plan = plan
        self._at = 0
        self._end: int | None = None
        self._gaps: list[Gap] = []
        self.closed = False

    def seek(self, bookmark: Bookmark) -> None:
        self._at = int(bookmark.positions.get(PARTITION, "0"))
        if self._at < self._log.first:
            self._gaps.append(
                Gap(
                    PARTITION,
                    str(self._at),
                    str(self._log.first),
                    self._log.first - self._at,
                    "retention",
                )
            )
            self._at = self._log.first

    def stop_at_end(self, end: Positions | None = None) -> Positions:
        self._end = int(end[PARTITION]) if end else len(self._log.values)
        return {PARTITION: str(self._end)}

    def gaps(self) -> list[Gap]:
        gaps, self._gaps = self._gaps, []
        return gaps

    def checkpointed(self, positions: Positions) -> None:
        self._log.settled = positions

    def poll(self, seconds: float, most: int) -> list[Record]:
        assert seconds >= 0
        assert not self.closed

        def work() -> list[Record]:
            self._first = first = self._at
            end = len(self._log.values) if self._end is None else self._end
            self._at = max(first, min(end, first + min(most, next(self._log.sizes))))
            return [
                Record(PARTITION, str(at), str(at + 1), self._log.values[at])
                for at in range(first, self._at)
            ]

        return self._plan.call("poll", SourceUnavailableError, work)

    def bookmark(self, taken: int | None = None) -> Bookmark:
        at = self._at if taken is None else self._first + taken
        return Bookmark({PARTITION: str(at)}, {"": "memory"})

    @property
    def at_end(self) -> bool:
        return self._end is not None and self._at >= self._end

    def lag(self) -> dict[str, int]:
        return self._plan.call(
            "lag", SourceUnavailableError, lambda: {PARTITION: len(self._log.values) - self._at}
        )

    def close(self) -> None:
        self.closed = True


class Inline:
    """Background work that runs at once, in the foreground; `result` raises its error."""

    done = True

    def __init__(self, _: str, work: Callable[[], T]) -> None:
        self._error: BaseException | None = None
        try:
            self._result = work()
        except BaseException as error:  # noqa: BLE001
            self._error = error

    def wait(self, _: float) -> bool:
        return True

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result


class MemorySink:
    def __init__(self, log: Log, plan: Plan) -> None:
        self._log = log
        self._plan = plan

    def append(self, entries: Sequence[Entry]) -> list[Position]:
        first = len(self._log.dead_letters)
        self._plan.call(
            "append", SourceUnavailableError, lambda: self._log.dead_letters.extend(entries)
        )
        return [Position(PARTITION, str(first + number)) for number in range(len(entries))]

    def close(self) -> None: ...


class FaultyStore(InMemoryStore):
    """A store in memory whose calls follow a plan; `on_save` gets every snapshot that becomes the
    newest.
    """

    def __init__(self, plan: Plan, on_save: Callable[[Snapshot], None] = lambda _: None) -> None:
        super().__init__()
        self._plan = plan
        self._on_save = on_save

    @property
    def kept(self) -> Snapshot:
        """The newest snapshot; reading it is not a call of the plan."""
        return super().load().snapshot

    def acquire(self) -> Acquired:
        return self._plan.call("acquire", StoreUnavailableError, super().acquire)

    def load(self) -> Loaded | None:
        return self._plan.call("load", StoreUnavailableError, super().load)

    def save(self, snapshot: Snapshot, segments: Mapping[str, bytes] = NO_SEGMENTS) -> Manifest:
        def work() -> Manifest:
            self._on_save(snapshot.with_digest())
            return super(FaultyStore, self).save(snapshot, segments)

        return self._plan.call("save", StoreUnavailableError, work)
