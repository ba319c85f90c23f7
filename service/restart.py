"""Where a learner begins: the newest good checkpoint, a copy of it in a file, or nothing; never nothing by itself."""

import logging
import time
from typing import NamedTuple

from service.checkpoints import Corrupt, Loaded, Manifest, Store
from service.copies import CopyFolder
from service.failpoints import reach
from service.health import Health
from service.lineage import Lineage, Recorder, gathered, segments_of
from service.metrics import Metrics
from service.model import Model
from service.sources.contract import BEGINNING, Bookmark

log = logging.getLogger("onepass")


class Begin(NamedTuple):
    """What the model now holds, said in places of the log."""

    bookmark: Bookmark
    recorder: Recorder


class Restart:
    """Restores the model, as often as the store turns out to hold another history than the memory."""

    def __init__(
        self,
        model: Model,
        store: Store,
        copies: CopyFolder | None,
        metrics: Metrics,
        health: Health,
        *,
        start_fresh: bool = False,
    ) -> None:
        self._model = model
        self._store = store
        self._copies = copies
        self._metrics = metrics
        self._health = health
        self._start_fresh = start_fresh

    def begin(self) -> Begin:
        reach("in_restore")
        segments: dict[str, bytes] = {}
        try:
            found = self._store.load()
            if found is None and self._copies is not None:
                found, segments = self._copied(self._copies)
            if found is None and self._health.checkpoint is not None:
                raise Corrupt(
                    f"the store is empty, though it had generation {self._health.checkpoint.generation}: bring one "
                    "back by `onepass checkpoints import`, or begin anew by starting this learner again"
                )
        except Corrupt as error:
            if not self._start_fresh:
                raise
            log.error("%s; told to start fresh, so learning begins anew", error)  # noqa: TRY400 - the line says it all
            self._metrics.checkpoint_corrupt()
            self._store.forget()
            found = None
        if found is None:
            if self._store.where:
                log.warning("no checkpoint of this model is at %s: learning begins anew", self._store.where)
            self._model.reset()  # which may hold what was learned under a standing that is over
            self._health.checkpoint = None
            return Begin(BEGINNING, Recorder(Lineage()))
        for broken in found.broken:
            log.error("%s; an older generation is used", broken)
            self._metrics.checkpoint_corrupt()
        self._metrics.took_over(self._health.checkpoint, found.manifest)
        self._model.restore(found.snapshot, found.manifest)
        self._health.checkpoint = found.manifest
        log.info("restored generation %s: %s events", found.manifest.generation, f"{found.snapshot.events:,}")
        return Begin(found.snapshot.bookmark, Recorder(found.snapshot.lineage, segments))

    def mend(self, recorder: Recorder) -> None:
        """Bring sealed history that the store has lost back from the copies, as far as they have it."""
        lineage, waiting = recorder.lineage()
        if not lineage.sealed or lineage.sealed in waiting or self._store.segment(lineage.sealed) is not None:
            return
        found, broken = gathered(lineage, self._copies.segment if self._copies else lambda _: None)
        recorder.owes(found)
        if broken:
            log.error("history is lost (%s): `replay --lineage` will not reach back to the first event", broken)

    def _copied(self, copies: CopyFolder) -> tuple[Loaded | None, dict[str, bytes]]:
        """The newest of the files: only for a store that has never had a checkpoint, or has lost them all."""
        copy = copies.newest()
        if copy is None:
            return None, {}
        generation, snapshot = copy
        log.error("the store is empty: going on from the copy of generation %s in %s", generation, copies.folder)
        self._store.begin_after(generation)
        created, digest = time.time(), snapshot.state_digest
        manifest = Manifest(generation, "", "", "", created, snapshot.events, snapshot.errors, digest, ())
        return Loaded(manifest, snapshot), segments_of(snapshot.lineage, copies.segment)  # the store lost these too
