"""A replica: follow the checkpoints in Redis and switch to each new one whole."""

import logging
import threading
import time

from service.checkpoints import Corrupt, Store, StoreDown
from service.health import Health
from service.metrics import Metrics
from service.model import Model

log = logging.getLogger("onepass")

FOLLOW_SECONDS = 0.5


class Follower:
    """One thread that keeps a model at the newest generation; while that cannot be had the last one is served."""

    def __init__(self, model: Model, store: Store, metrics: Metrics, health: Health) -> None:
        self._model = model
        self._store = store
        self._metrics = metrics
        self._health = health
        self._damaged = ""

    def run(self, stop: threading.Event) -> None:
        told = ""
        while not stop.is_set():
            try:
                self.step()
                if self._health.trouble not in {"", told}:
                    log.info("%s", self._health.trouble)
                told = self._health.trouble
            except (StoreDown, Corrupt) as error:
                if isinstance(error, Corrupt) and self._health.checkpoint is None:
                    raise
                self._health.store_up = isinstance(error, Corrupt)
                if str(error) != self._health.trouble:
                    log.warning("%s; trying again", error)
                self._health.trouble = str(error)
            stop.wait(FOLLOW_SECONDS)
        self._health.ready = False
        self._store.close()

    def step(self) -> None:
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
        except Corrupt as error:
            if self._store.newest() != newest:  # it was replaced and forgotten while we asked: take the next
                return
            log.error("%s; an older generation is served", error)  # noqa: TRY400 - the reason is in the line
            self._metrics.checkpoint_corrupt()
            self._damaged = newest.commit
            found = None if serving else self._store.load()  # which finds the newest good one, or says there is none
            if found is None:
                return
            manifest, snapshot, _ = found
        self._metrics.took_over(serving, manifest)
        self._model.restore(snapshot, manifest)
        self._health.checkpoint = manifest
        if manifest is newest:
            self._health.confirmed_at = asked
        self._health.ready = True
