"""Between the learner and the store: who may write, where to go on, and checkpoints written while learning goes on.

A checkpoint is frozen between two events and written in a thread of its own, one at a time. While the store is away
learning goes on for a bounded window. What the store holds decides: a learner that finds a history there which is not
its own drops its memory and begins at that history; one that finds its own past writes its newer state on top.
"""

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from service.background import Background
from service.checkpoints import Fenced, Manifest, Standing, Store, StoreDown
from service.copies import CopyFolder
from service.failpoints import reach
from service.health import Health
from service.lineage import Frozen, Lineage, Recorder
from service.metrics import Metrics
from service.model import Model
from service.pace import Pace
from service.restart import Restart
from service.snapshot import Snapshot
from service.sources.contract import Bookmark, Gap, Positions, Record

log = logging.getLogger("onepass")

RETRY_SECONDS = 0.5
"""Between two tries to write to a store that is away."""


class Saving(NamedTuple):
    """A checkpoint that is being written."""

    task: Background[Manifest]
    snapshot: Snapshot
    segments: dict[str, bytes]
    records: int
    """Applied since the checkpoint before it."""
    began: float


class Keeper:
    """The checkpoints of a running learner."""

    def __init__(
        self,
        pace: Pace,
        model: Model,
        store: Store,
        restart: Restart,
        copies: CopyFolder | None,
        metrics: Metrics,
        health: Health,
    ) -> None:
        self._pace = pace
        self._model = model
        self._store = store
        self._restart = restart
        self._copies = copies
        self._metrics = metrics
        self._health = health
        self._recorder = Recorder(Lineage())
        self._saving: Saving | None = None
        self._settled = False
        self._current = False
        self._owed = False
        self._records = 0
        self._since = self._tried = self._saved = time.monotonic()
        self._freeze = store.frozen
        self.trouble = ""
        """Why the last checkpoint could not be written."""

    @property
    def settled(self) -> bool:
        """Whether this learner may write, and its memory is the newest truth."""
        return self._settled and not self._store.disturbed

    @property
    def unsaved(self) -> int:
        """Records applied since the newest checkpoint."""
        return self._records + (self._saving.records if self._saving else 0)

    @property
    def pause(self) -> str:
        """Why nothing may be learned now; empty when it may."""
        if self._store.frozen is not None:
            return "frozen by an operator; `onepass checkpoints unfreeze` lets it go on"
        waited = time.monotonic() - (self._saving.began if self._saving else self._since)
        if self.unsaved >= self._pace.unsaved_events or (self.unsaved and waited >= self._pace.unsaved_seconds):
            return f"learning pauses: {self.unsaved:,} records are in no checkpoint, and the store does not take one"
        return ""

    def settle(self) -> Bookmark | None:
        """Become the writer, unless another is; a bookmark when the learner must go on from there."""
        self._abandon()
        standing = self._store.acquire()
        self._health.store_up, self._health.lease_held = True, self._store.held
        if self._settled:
            self._metrics.fenced()
        self._settled = False
        if standing is Standing.WAIT:
            self._current = False  # by the time it is our turn the memory may be anything
            self._records, self._owed, self.trouble = 0, False, ""  # so nothing of it is left to be saved
            return None
        self._freeze = self._store.frozen
        begin: Bookmark | None = None
        # Frozen, the model is the newest generation and nothing else: that is the number the operator was told.
        if standing is Standing.GO_ON and self._current and self._freeze is None:
            self._tell_what_is_there()
            self._restart.mend(self._recorder)
            self._owed, self.trouble = True, ""
        else:
            begin = self._load()
        self._settled = True
        return begin

    def _tell_what_is_there(self) -> None:
        """Fenced, though it is the own history: an operator has spoken and nothing is amiss, or the store lost some."""
        newest, wrote = self._store.newest(), self._health.checkpoint
        if wrote is None or (newest is not None and newest.generation >= wrote.generation):
            log.info("an operator spoke, or the lease was lost; all that this learner wrote is there: it goes on")
        else:
            log.warning("the store has not what this learner wrote last: its newer state is written on top")

    def _load(self) -> Bookmark:
        begin = self._restart.begin()
        self._recorder = begin.recorder
        self._records, self._owed, self._current, self.trouble = 0, False, True, ""
        return begin.bookmark

    def starts(self, positions: Positions) -> None:
        """Where each partition is read from, as far as the history does not say."""
        self._recorder.starts(positions)

    def applied(self, records: Sequence[Record]) -> None:
        """These records are in the memory now."""
        self._recorder.applied(records)
        if not self._records:
            self._since = time.monotonic()
        self._records += len(records)

    def lost(self, gap: Gap) -> None:
        """This stretch was passed over; the checkpoint says so."""
        self._recorder.lost(gap)
        self._metrics.lost(gap.events, gap.reason)
        events = f"{gap.events:,} events" if gap.events else "events that nobody can count"
        log.error("partition %s: passed over %s, from %s to %s (%s)", gap.partition, events, *gap[1:3], gap.reason)
        self._owed = True

    def tend(self, bookmark: Bookmark) -> Bookmark | None:
        """See what became of the checkpoint being written, and begin the next if it is due; what is durable now."""
        durable = self._collect() if self._saving and self._saving.task.done else None
        self._health.lease_held = self._store.held
        self._thaw()
        if self._saving is None and self._due():
            self._begin(bookmark)
        return durable

    def _due(self) -> bool:
        now = time.monotonic()
        soon = now < self._tried + RETRY_SECONDS * (not self._health.store_up)
        if not self.settled or self._freeze or soon or not (self._records or self._owed):
            return False
        return self._records >= self._pace.events or now - self._saved >= self._pace.seconds

    def _thaw(self) -> None:
        frozen, self._freeze = self._freeze, self._store.frozen
        self._health.frozen = self._freeze is not None
        if frozen is not None and self._freeze is None:
            self._recorder.note(Frozen(frozen.generation, frozen.since, time.time()))
            self._owed = True

    def _begin(self, bookmark: Bookmark) -> None:
        reach("before_freeze")
        self._tried = self._saved = time.monotonic()
        lineage, segments = self._recorder.lineage()
        with self._metrics.checkpoint_pause_seconds.time():
            snapshot = self._model.snapshot(bookmark, lineage, whole=self._store.wants_whole)
        self._write(snapshot, segments)

    def _write(self, snapshot: Snapshot, segments: dict[str, bytes]) -> None:
        def work() -> Manifest:
            with self._metrics.checkpoint_seconds.time():
                manifest = self._store.save(snapshot, segments)
            self._copy(manifest.generation, snapshot)
            return manifest

        self._saving = Saving(Background("checkpoint", work), snapshot, segments, self._records, self._since)
        self._records, self._owed = 0, False

    def _copy(self, generation: int, snapshot: Snapshot) -> None:
        """A second copy as a file, now and then; a full disk is no reason to stop learning."""
        try:
            if self._copies is not None:
                self._copies.offer(generation, snapshot, self._store.segment)
        except (OSError, StoreDown) as error:
            log.warning("no second copy of generation %s: %s", generation, error)
            self._metrics.checkpoint_failed("copy")

    def _collect(self) -> Bookmark | None:
        """What became of the checkpoint that was being written."""
        assert self._saving is not None
        saving, self._saving = self._saving, None
        try:
            manifest = saving.task.result()
        except (StoreDown, Fenced) as error:
            self._model.put_back(saving.snapshot)
            self._records, self._owed = self._records + saving.records, True
            self._since = saving.began
            self._metrics.checkpoint_failed("down" if isinstance(error, StoreDown) else "fenced")
            self._health.store_up, self.trouble = isinstance(error, Fenced), str(error)
            return None
        self._recorder.stored(saving.segments)
        self._health.checkpoint = manifest
        self._model.saved(manifest.generation)
        self._health.store_up, self.trouble = True, ""
        return saving.snapshot.bookmark

    def _abandon(self) -> None:
        """What is being written belongs to a standing that is over; it comes to its end, whatever that is."""
        if self._saving is not None:
            self._saving.task.wait(float("inf"))
            self._collect()

    def finish(self, bookmark: Bookmark, deadline: float, *, always: bool) -> str:
        """A last checkpoint of what is in none, with the digest of the whole state; why there is none, or nothing."""
        while True:
            if self._saving is not None:
                if not self._saving.task.wait(deadline - time.monotonic()):
                    return "the store does not answer"
                self._collect()
            if self._freeze or not (self._records or self._owed or (always and self._health.checkpoint is None)):
                return ""
            if time.monotonic() >= deadline:
                return self.trouble or "the store does not take one"
            try:
                # Beyond what the store has taken from others, the memory's newest will be learned again.
                if not self.settled and (self.settle() is not None or not self._settled):
                    return ""
            except StoreDown as error:
                self._health.store_up, self.trouble = False, str(error)
            if not self._health.store_up:
                time.sleep(RETRY_SECONDS / 2)
            if self.settled:
                self._begin(bookmark)

    def close(self) -> None:
        self._store.close()
