"""A replica: follow the checkpoints in Redis and switch to each new one whole."""

import logging
import threading

from service.checkpoints import Corrupt, Store, StoreDown
from service.health import Health
from service.model import Model

log = logging.getLogger("onepass")

FOLLOW_SECONDS = 0.5


class Follower:
    """One thread that keeps a model at the newest generation; while Redis is away the last one is served."""

    def __init__(self, model: Model, store: Store, health: Health) -> None:
        self._model = model
        self._store = store
        self._health = health

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                self.step()
            except StoreDown as error:
                self._health.store_up = False
                if str(error) != self._health.trouble:
                    log.warning("%s; trying again", error)
                self._health.trouble = str(error)
            stop.wait(FOLLOW_SECONDS)
        self._health.ready = False
        self._store.close()

    def step(self) -> None:
        newest = self._store.newest()
        self._health.store_up = True
        self._health.trouble = "" if newest else "no checkpoint yet: start a learner of this model"
        serving = self._health.checkpoint
        if newest is not None and (serving is None or newest.commit != serving.commit):
            try:
                snapshot = self._store.read(newest)
            except Corrupt:
                if self._store.newest() != newest:  # it was replaced and forgotten while we asked: take the next
                    return
                raise
            self._model.restore(snapshot)
            self._health.checkpoint = newest
            self._health.ready = True
