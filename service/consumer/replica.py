"""Serve a model by following its checkpoints: switch to each new generation as a whole."""

import logging
import threading
import time

from service.checkpoint.store import CorruptCheckpointError, Store, StoreUnavailableError
from service.model.model import Model
from service.monitoring import Monitoring

log = logging.getLogger("onepass")

FOLLOW_SECONDS = 0.5
"""Seconds between two looks at the store."""


class Replica:
    """One thread that keeps a model at the newest generation. If that is unavailable, the last one
    is served.
    """

    def __init__(self, model: Model, store: Store, monitoring: Monitoring) -> None:
        self._model = model
        self._store = store
        self._metrics = monitoring.metrics
        self._health = monitoring.health
        self._damaged = ""
        """Commit of the newest generation, if it cannot be read."""

    def run(self, stop: threading.Event) -> None:
        logged = ""
        while not stop.is_set():
            try:
                self.step()
                if self._health.trouble not in {"", logged}:
                    log.info("%s", self._health.trouble)
                logged = self._health.trouble
            except (StoreUnavailableError, CorruptCheckpointError) as error:
                if isinstance(error, CorruptCheckpointError) and self._health.checkpoint is None:
                    raise
                self._health.store_up = isinstance(error, CorruptCheckpointError)
                if str(error) != self._health.trouble:
                    log.warning("%s; retrying", error)
                self._health.trouble = str(error)
            stop.wait(FOLLOW_SECONDS)
        self._health.ready = False
        self._store.close()

    def step(self) -> None:
        """Look once for a newer generation, and switch to it."""
        newest = self._store.newest()
        self._health.store_up = True
        self._health.frozen = self._store.frozen is not None
        self._health.trouble = "" if newest else "no checkpoint yet: start a learner of this model"
        serving = self._health.checkpoint
        if newest is None or newest.commit == self._damaged:
            return
        asked = time.monotonic()
        if serving and newest.commit == serving.commit:
            self._health.confirmed_at = asked
            return
        try:
            manifest, snapshot = newest, self._store.read(newest)
        except CorruptCheckpointError as error:
            if self._store.newest() != newest:
                return  # it was replaced and deleted meanwhile: the next step reads its successor
            text = "%s; an older generation is served"
            log.error(text, error)  # noqa: TRY400 - the reason is in the line
            self._metrics.checkpoint_corrupt()
            self._damaged = newest.commit
            found = None if serving else self._store.load()  # the newest good one, or an error
            if found is None:
                return
            manifest, snapshot, _ = found
        self._metrics.took_over(serving, manifest)
        self._model.restore(snapshot, manifest)
        self._health.checkpoint = manifest
        if manifest is newest:
            self._health.confirmed_at = asked
        self._health.ready = True

    def stop_following(self) -> None:
        """Note that this process learns now, so it serves the newest state there is."""
        self._health.confirmed_at = None
