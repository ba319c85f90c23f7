"""What the worker asks of a store of checkpoints, and the one that only remembers, for `replay`."""

import time
from typing import Protocol

import msgspec

from service.errors import Protective
from service.snapshot import Snapshot


class StoreDown(Exception):
    """The store cannot be reached or does not take writes now; trying again later is right."""


class Fenced(Protective):
    """Another learner has taken over; what this one holds must not be written."""


class Corrupt(Protective):
    """The newest checkpoint cannot be read; starting from nothing instead would lose the model."""


class Manifest(msgspec.Struct, frozen=True):
    """What is known of a generation without loading it."""

    generation: int
    commit: str
    token: str
    created: float
    blob: str
    size: int
    events: int
    state_digest: str


class Store(Protocol):
    """Checkpoints of one model: the learner calls `acquire`, `load`, `save`; a replica only `newest` and `read`."""

    def acquire(self) -> None:
        """Become the one that may write: from now on no earlier learner can."""

    def newest(self) -> Manifest | None:
        """The newest generation, without its bytes; None if there has never been one."""

    def load(self) -> tuple[Manifest, Snapshot] | None:
        """The newest checkpoint, from which the next generation counts."""

    def read(self, manifest: Manifest) -> Snapshot:
        """The bytes of a generation, checked."""

    def save(self, snapshot: Snapshot) -> Manifest:
        """Make a snapshot the newest generation, whole or not at all."""

    def close(self) -> None: ...


class Remembered:
    """A store that keeps the last snapshot in memory: a replay has an end, and is its own checkpoint."""

    def __init__(self) -> None:
        self._kept: tuple[Manifest, Snapshot] | None = None

    def acquire(self) -> None:
        """Nobody else can write here."""

    def newest(self) -> Manifest | None:
        return self._kept[0] if self._kept else None

    def load(self) -> tuple[Manifest, Snapshot] | None:
        return self._kept

    def read(self, manifest: Manifest) -> Snapshot:
        if self._kept is None or self._kept[0] != manifest:
            raise Corrupt(f"generation {manifest.generation} is not the one remembered")
        return self._kept[1]

    def save(self, snapshot: Snapshot) -> Manifest:
        generation = self._kept[0].generation + 1 if self._kept else 1
        manifest = Manifest(generation, "", "", time.time(), "", 0, snapshot.events, snapshot.state_digest)
        self._kept = (manifest, snapshot)
        return manifest

    def close(self) -> None: ...
