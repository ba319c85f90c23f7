"""Hold the lease of a running learner, decide where it resumes, and commit its checkpoints.

A commit takes six steps, and the code carries their numbers:

1. It is due: enough records or seconds since the last one, the lease is ours, and no operator
   froze the model.
2. Copy: state, lineage and positions are copied between two events. Learning pauses for this only.
3. Write: a thread sends the snapshot. The store makes it the newest generation in one script, or
   refuses it.
4. Back up: the same thread writes the file backup, where one is configured and due.
5. Collect: the learner's thread reads the result. If it failed, the next snapshot holds the same
   slots again.
6. Report: the source publishes the durable offsets for lag tools.

The store's history counts. A learner that finds a foreign history there drops its memory and
resumes from that history. A learner that finds an earlier state of its own history writes its newer
state on top. While the store is unavailable, learning goes on for a bounded window.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from service.checkpoint.lineage import Frozen, Lineage, Recorder
from service.checkpoint.snapshot import Snapshot
from service.checkpoint.store import Acquired, FencedError, Manifest, Store, StoreUnavailableError
from service.consumer.recovery import Recovery
from service.failpoints import failpoint
from service.model.model import Model
from service.monitoring import Monitoring
from service.sources.base import BEGINNING, Bookmark, Gap, Record, Source
from service.storage.file_backup import FileBackup

log = logging.getLogger("onepass")

T = TypeVar("T")

RETRY_SECONDS = 0.5
"""Seconds between two attempts to write to a store that is unavailable."""


class CheckpointPolicy(NamedTuple):
    """When a checkpoint is due, and how far learning may run ahead of the store."""

    interval_seconds: float
    interval_events: int
    """A checkpoint is due after this many seconds or events, whichever comes first."""
    max_uncheckpointed_seconds: float = float("inf")
    max_uncheckpointed_events: float = float("inf")
    """Beyond either limit, learning pauses until a checkpoint is written."""


class Background(Generic[T]):
    """One call in a daemon thread, so that it never keeps the process from ending."""

    def __init__(self, name: str, work: Callable[[], T]) -> None:
        self._work = work
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._result: T
        self._error: BaseException | None = None
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> bool:
        """Wait for the call to end. Return whether it ended within this time."""
        self._thread.join(min(max(0.0, seconds), threading.TIMEOUT_MAX))
        return self.done

    def result(self) -> T:
        """Return what the call returned, or raise what it raised. Call it only once it is done."""
        if self._error is not None:
            raise self._error
        return self._result

    def _run(self) -> None:
        try:
            self._result = self._work()
        except BaseException as error:  # noqa: BLE001 - `result` raises it again
            self._error = error


class Commit(NamedTuple):
    """A checkpoint that is being written."""

    task: Background[Manifest]
    snapshot: Snapshot
    bookmark: Bookmark
    segments: dict[str, bytes]
    records: int
    """Records applied since the checkpoint before it."""
    since: float
    """When the first of them was applied."""


class Checkpointer:
    """Owns the lease, the lineage and the positions behind the records that the model applied."""

    def __init__(
        self,
        policy: CheckpointPolicy,
        log_name: str,
        model: Model,
        store: Store,
        recovery: Recovery,
        backup: FileBackup | None,
        monitoring: Monitoring,
    ) -> None:
        self._policy = policy
        self._log_name = log_name
        self._model = model
        self._store = store
        self._recovery = recovery
        self._backup = backup
        self._metrics = monitoring.metrics
        self._health = monitoring.health
        self._source: Source | None = None
        self._bookmark: Bookmark | None = None
        self._recorder = Recorder(Lineage())
        self._commit: Commit | None = None
        self._acquired = False
        self._memory_is_newest = False
        self._dirty = False
        self._records = 0
        now = time.monotonic()
        self._since = now
        self._tried_at = now
        self._committed_at = now
        self._freeze = store.frozen
        self.last_error = ""
        """Why the last checkpoint could not be written; empty if it was."""

    @property
    def owns_lease(self) -> bool:
        """Whether this learner may write, and its memory is the newest state."""
        return self._acquired and not self._store.disturbed

    @property
    def position(self) -> Bookmark:
        """Where the source resumes: right after the records that the model has applied."""
        return self._bookmark or BEGINNING

    @property
    def uncheckpointed(self) -> int:
        """Records applied since the newest checkpoint."""
        return self._records + (self._commit.records if self._commit else 0)

    @property
    def pause_reason(self) -> str:
        """Why nothing may be learned now; empty when learning may go on."""
        if self._store.frozen is not None:
            return "frozen by an operator; `onepass checkpoints unfreeze` ends that"
        waited = time.monotonic() - (self._commit.since if self._commit else self._since)
        ahead = self.uncheckpointed
        too_long = ahead > 0 and waited >= self._policy.max_uncheckpointed_seconds
        if ahead >= self._policy.max_uncheckpointed_events or too_long:
            return (
                f"learning pauses: {ahead:,} records are in no checkpoint, and the store accepts"
                " none"
            )
        return ""

    def acquire(self) -> Acquired:
        """Ask for the lease. STALE: the model was restored, and the source must resume at
        `position`.
        """
        self._wait_for_commit()
        try:
            acquired = self._store.acquire()
            self._health.store_up = True
            self._health.lease_held = self._store.held
            if self._acquired:
                self._metrics.fenced()
            self._acquired = False
            if acquired is Acquired.HELD_ELSEWHERE:
                self._memory_is_newest = False  # another learner writes from here on
                self._forget_progress()
                return acquired
            acquired = self._resume(acquired)
        except StoreUnavailableError:
            self._health.store_up = False
            raise
        self._acquired = True
        return acquired

    def _resume(self, acquired: Acquired) -> Acquired:
        """Continue with the memory if it is the newest state. Otherwise restore the newest
        checkpoint.
        """
        self._freeze = self._store.frozen
        # While frozen, the model must be the newest generation, whose number the operator knows.
        if acquired is Acquired.CURRENT and self._memory_is_newest and self._freeze is None:
            self._log_reacquired()
            self._recovery.restore_lineage_segments(self._recorder)
            self._dirty = True
            self.last_error = ""
            return Acquired.CURRENT
        restored = self._recovery.restore(self._health.checkpoint)
        self._health.checkpoint = restored.manifest
        self._recorder = restored.recorder
        self._bookmark = restored.bookmark.local(self._log_name)
        self._memory_is_newest = True
        self._forget_progress()
        return Acquired.STALE

    def _forget_progress(self) -> None:
        """Note that nothing waits for a checkpoint: the memory is replaced, or no longer counts."""
        self._records = 0
        self._dirty = False
        self.last_error = ""

    def _log_reacquired(self) -> None:
        """Log why we were fenced though the history is ours: an operator acted or the lease ran
        out, or Redis lost commits.
        """
        newest, written = self._store.newest(), self._health.checkpoint
        if written is None or (newest is not None and newest.generation >= written.generation):
            log.info("lease re-acquired; no checkpoint was lost, learning continues")
        else:
            log.warning(
                "the store lost the newest checkpoint; the newer state in memory is written on top"
            )

    def attach(self, source: Source) -> None:
        """Record what this source delivers, and report durable offsets to it."""
        self._source = source
        self._recorder.set_starts(source.bookmark().positions)
        self.record(())

    def detach(self) -> None:
        """Note that the source is closed. `position` stays."""
        self._source = None

    def record(self, records: Sequence[Record], taken: int | None = None) -> None:
        """Note that the model has applied these records, and that the source is right after them.

        `taken`: the number of records of the poll that are applied now, if some are left.
        """
        assert self._source is not None
        if records:
            self._recorder.record_applied(records)
            if not self._records:
                self._since = time.monotonic()
            self._records += len(records)
            failpoint("after_apply")
        for gap in self._source.gaps():
            self._record_gap(gap)
        self._bookmark = self._source.bookmark(taken)

    def _record_gap(self, gap: Gap) -> None:
        self._recorder.record_lost(gap)
        self._metrics.lost(gap.events, gap.reason)
        self._health.events_lost += gap.events
        self._dirty = True
        events = f"{gap.events:,} events" if gap.events else "an unknown number of events"
        log.error(
            "partition %s: skipped %s, from %s to %s (%s)",
            gap.partition,
            events,
            gap.start,
            gap.end,
            gap.reason,
        )

    def tick(self) -> None:
        """Collect a commit that has ended, and begin the next one if it is due."""
        if self._commit and self._commit.task.done:
            self._collect()
        self._health.lease_held = self._store.held
        self._note_unfreeze()
        if self._commit is None and self._is_due():
            self._begin_commit()

    def _is_due(self) -> bool:  # step 1
        now = time.monotonic()
        if not self.owns_lease or self._freeze or not (self._records or self._dirty):
            return False
        if not self._health.store_up and now < self._tried_at + RETRY_SECONDS:
            return False
        if self._records >= self._policy.interval_events:
            return True
        return now - self._committed_at >= self._policy.interval_seconds

    def _note_unfreeze(self) -> None:
        """Record in the lineage that an operator's freeze has ended."""
        frozen, self._freeze = self._freeze, self._store.frozen
        self._health.frozen = self._freeze is not None
        if frozen is not None and self._freeze is None:
            self._recorder.note(Frozen(frozen.generation, frozen.since, time.time()))
            self._dirty = True

    def _begin_commit(self) -> None:
        failpoint("before_freeze")
        self._tried_at = self._committed_at = time.monotonic()
        lineage, segments = self._recorder.lineage()  # step 2
        bookmark = self.position
        qualified = bookmark.qualified(self._log_name)
        with self._metrics.checkpoint_pause_seconds.time():
            snapshot = self._model.snapshot(qualified, lineage, whole=self._store.wants_whole)
        task = Background("checkpoint", lambda: self._write(snapshot, segments))
        self._commit = Commit(task, snapshot, bookmark, segments, self._records, self._since)
        self._records = 0
        self._dirty = False

    def _write(self, snapshot: Snapshot, segments: dict[str, bytes]) -> Manifest:
        with self._metrics.checkpoint_seconds.time():
            manifest = self._store.save(snapshot, segments)  # step 3
        try:
            if self._backup is not None:
                self._backup.offer(manifest.generation, snapshot, self._store.segment)  # step 4
        except (OSError, StoreUnavailableError) as error:
            # A full disk is no reason to stop learning.
            log.warning("no file backup of generation %s: %s", manifest.generation, error)
            self._metrics.checkpoint_failed("copy")
        return manifest

    def _collect(self) -> None:  # step 5
        assert self._commit is not None
        commit, self._commit = self._commit, None
        try:
            manifest = commit.task.result()
        except (StoreUnavailableError, FencedError) as error:
            self._model.put_back(commit.snapshot)
            self._records += commit.records
            self._dirty = True
            self._since = commit.since
            unavailable = isinstance(error, StoreUnavailableError)
            self._metrics.checkpoint_failed("down" if unavailable else "fenced")
            self._health.store_up = not unavailable
            self.last_error = str(error)
            return
        self._recorder.mark_stored(commit.segments)
        self._health.checkpoint = manifest
        self._model.mark_saved(manifest.generation)
        self._health.store_up = True
        self.last_error = ""
        if self._source is not None:
            self._source.checkpointed(commit.bookmark.positions)  # step 6

    def _wait_for_commit(self) -> None:
        """Wait for the commit under way, which may belong to a lease that is over."""
        if self._commit is not None:
            self._commit.task.wait(float("inf"))
            self._collect()

    def finish(self, deadline: float, *, always: bool) -> str:
        """Commit the records that are in no checkpoint. Return why that failed, or an empty text.

        `always`: write a first checkpoint even of a model that has learned nothing.
        """
        while self._bookmark is not None:
            if self._commit is not None:
                if not self._commit.task.wait(deadline - time.monotonic()):
                    return "the store does not answer"
                self._collect()
            first = always and self._health.checkpoint is None
            if self._freeze or not (self._records or self._dirty or first):
                return ""
            if time.monotonic() >= deadline:
                return self.last_error or "the store accepts none"
            try:
                # If another learner has written, its history counts: our newest records will be
                # learned again.
                if not self.owns_lease and self.acquire() is not Acquired.CURRENT:
                    return ""
            except StoreUnavailableError as error:
                self.last_error = str(error)
            if not self._health.store_up:
                time.sleep(RETRY_SECONDS / 2)
            if self.owns_lease:
                self._begin_commit()
        return ""  # this learner never held the lease

    def close(self) -> None:
        """Give the lease back, so that the next learner need not wait."""
        self._store.close()
