"""Restore the model from the newest readable checkpoint, else from the file backup.

Never start empty unless there was never a checkpoint, or `--start-fresh` is given.
"""

import logging
import time
from typing import NamedTuple

from service.checkpoint.lineage import Lineage, Recorder, gather_segments, segments_of
from service.checkpoint.store import CorruptCheckpointError, Loaded, Manifest, Store
from service.failpoints import failpoint
from service.model.model import Model
from service.monitoring.metrics import Metrics
from service.sources.base import BEGINNING, Bookmark
from service.storage.file_backup import FileBackup

log = logging.getLogger("onepass")


class Restored(NamedTuple):
    """The outcome of a recovery."""

    manifest: Manifest | None
    """None for a model that has learned nothing."""
    bookmark: Bookmark
    """Where to resume, with qualified positions."""
    recorder: Recorder


class Recovery:
    """Restores the model whenever the store holds another history than the memory does."""

    def __init__(
        self,
        model: Model,
        store: Store,
        backup: FileBackup | None,
        metrics: Metrics,
        *,
        start_fresh: bool = False,
    ) -> None:
        self._model = model
        self._store = store
        self._backup = backup
        self._metrics = metrics
        self._start_fresh = start_fresh

    def restore(self, known: Manifest | None) -> Restored:
        """Load the newest good checkpoint; `known` is the generation that this process had before,
        if any.
        """
        failpoint("in_restore")
        try:
            found, segments = self._find(known)
        except CorruptCheckpointError as error:
            if not self._start_fresh:
                raise
            text = "%s; --start-fresh is given, so the model starts empty"
            log.error(text, error)  # noqa: TRY400 - the reason is in the line
            self._metrics.checkpoint_corrupt()
            self._store.forget()
            found, segments = None, {}
        if found is None:
            return self._start_empty()
        for broken in found.broken:
            log.error("%s; an older generation is used", broken)
            self._metrics.checkpoint_corrupt()
        self._metrics.took_over(known, found.manifest)
        self._model.restore(found.snapshot, found.manifest)
        events = f"{found.snapshot.events:,}"
        log.info("restored generation %s: %s events", found.manifest.generation, events)
        recorder = Recorder(found.snapshot.lineage, segments)
        return Restored(found.manifest, found.snapshot.bookmark, recorder)

    def restore_lineage_segments(self, recorder: Recorder) -> None:
        """Restore sealed lineage that the store has lost, as far as the backup has it."""
        lineage, waiting = recorder.lineage()
        if not lineage.sealed or lineage.sealed in waiting:
            return
        if self._store.segment(lineage.sealed) is not None:
            return
        found, broken = gather_segments(
            lineage, self._backup.segment if self._backup else lambda _: None
        )
        recorder.add_segments(found)
        if broken:
            log.error("lineage is lost (%s): `onepass audit` cannot reach the first event", broken)

    def _find(self, known: Manifest | None) -> tuple[Loaded | None, dict[str, bytes]]:
        """Find the newest good checkpoint in the store or the backup, and the lineage segments
        that the store lacks.
        """
        found = self._store.load()
        if found is not None:
            return found, {}
        if self._backup is not None:
            found, segments = self._load_backup(self._backup)
            if found is not None:
                return found, segments
        if known is not None:
            raise CorruptCheckpointError(
                f"the store is empty, though it had generation {known.generation}: import a "
                "checkpoint by `onepass checkpoints import`, or restart this learner to start empty"
            )
        return None, {}

    def _start_empty(self) -> Restored:
        if self._store.where:
            log.warning(
                "no checkpoint of this model at %s: the model starts empty", self._store.where
            )
        self._model.reset()  # the memory may hold events learned under an earlier lease
        return Restored(None, BEGINNING, Recorder(Lineage()))

    def _load_backup(self, backup: FileBackup) -> tuple[Loaded | None, dict[str, bytes]]:
        """Load the backup, for a store that never had a checkpoint or has lost them all."""
        copy = backup.newest()
        if copy is None:
            return None, {}
        generation, snapshot = copy
        log.error(
            "the store is empty: restoring the backup of generation %s in %s",
            generation,
            backup.folder,
        )
        self._store.begin_after(generation)
        manifest = Manifest(
            generation=generation,
            commit="",
            parent="",
            token="",
            created=time.time(),
            events=snapshot.events,
            errors=snapshot.errors,
            state_digest=snapshot.state_digest,
            parts=(),
        )
        # The store has lost the lineage segments too.
        return Loaded(manifest, snapshot), segments_of(snapshot.lineage, backup.segment)
