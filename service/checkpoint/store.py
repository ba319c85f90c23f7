"""The protocol of a checkpoint store, and a store in memory for `replay`.

A learner uses `acquire`, `load` and `save`. A replica uses only `newest` and `read`. An operator
uses `generations`, `restate` and `freeze` of the Redis store. A generation consists of parts: a
whole snapshot, its base, and the deltas that follow it.
"""

import time
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

import msgspec

from service.checkpoint.snapshot import Snapshot
from service.errors import ProtectiveError

NO_SEGMENTS: Mapping[str, bytes] = {}


class StoreUnavailableError(Exception):
    """The store cannot be reached or does not accept writes now. Try again later."""


class FencedError(Exception):
    """The store has another writer or another history. Acquire it again before the next write."""


class CorruptCheckpointError(ProtectiveError):
    """There are checkpoints, but none can be read. Starting empty would lose the model."""


class Part(msgspec.Struct, frozen=True):
    """One snapshot in the store, cut into chunks."""

    blob: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """The description of a generation, which is read without its data."""

    generation: int
    commit: str
    parent: str
    """The commit that this one follows. Empty for the first."""
    token: str
    created: float
    events: int
    errors: int
    state_digest: str | None
    """None for a delta, which is written without the whole state."""
    parts: tuple[Part, ...]
    """The base, then its deltas in order."""
    origin: str = "learned"
    """`learned`, or the operator's action that made it, such as `rollback to 12`."""

    @property
    def size(self) -> int:
        """Bytes written for this generation alone."""
        return self.parts[-1].size if self.parts else 0


class Acquired(Enum):
    """The result of `acquire`."""

    HELD_ELSEWHERE = "another learner holds the lease"
    CURRENT = "the store has nothing that this learner does not know: it continues with its state"
    STALE = "the store has a history that this learner does not know: it must load it"


class Loaded(NamedTuple):
    """A generation that was read from the store."""

    manifest: Manifest
    snapshot: Snapshot
    broken: tuple[str, ...] = ()
    """Why newer generations could not be read, one text for each."""


class Freeze(msgspec.Struct, frozen=True):
    """An operator has stopped learning until `unfreeze`."""

    since: float
    generation: int


class Store(Protocol):
    """Checkpoints of one model."""

    @property
    def where(self) -> str:
        """Address of the store without a password. Empty for a store in memory."""

    def acquire(self) -> Acquired:
        """Become the only writer, if no other learner holds the lease."""

    def load(self) -> Loaded | None:
        """Read the newest good checkpoint. The next generation follows it.

        Return None if there has never been a checkpoint.
        """

    def forget(self) -> None:
        """Ignore the existing checkpoints. The next generation replaces them."""

    def begin_after(self, generation: int) -> None:
        """Count the next generation from this one, which the learner loaded from elsewhere."""

    def save(self, snapshot: Snapshot, segments: Mapping[str, bytes] = NO_SEGMENTS) -> Manifest:
        """Make a snapshot the newest generation, completely or not at all.

        `segments` are the segments of its lineage that the store does not have yet.
        """

    @property
    def wants_whole(self) -> bool:
        """Whether the next snapshot must be whole: it has no base, or the chain is long enough."""

    @property
    def held(self) -> bool:
        """Whether the lease is certainly ours now."""

    @property
    def disturbed(self) -> bool:
        """Whether another writer was seen since `acquire`. If so, acquire the store again."""

    @property
    def frozen(self) -> Freeze | None:
        """The freeze that the last call to the store found."""

    def newest(self) -> Manifest | None:
        """Read the newest manifest. Return None if there has never been a checkpoint."""

    def read(self, manifest: Manifest) -> Snapshot:
        """Read the snapshot of a generation, check it and merge its deltas."""

    def segment(self, name: str) -> bytes | None:
        """Read a segment of the lineage. Return None if it is not there."""

    def close(self) -> None:
        """Release the lease and close the connections."""


class InMemoryStore:
    """A store that keeps only the last snapshot, in memory. `replay` needs no other store."""

    where = ""
    wants_whole = True
    held = True
    disturbed = False
    frozen: Freeze | None = None

    def __init__(self) -> None:
        self._kept: Loaded | None = None

    def acquire(self) -> Acquired:
        return Acquired.STALE

    def newest(self) -> Manifest | None:
        return self._kept.manifest if self._kept else None

    def load(self) -> Loaded | None:
        return self._kept

    def forget(self) -> None:
        self._kept = None

    def begin_after(self, generation: int) -> None:
        """Do nothing: this store has no second copy."""

    def read(self, manifest: Manifest) -> Snapshot:
        if self._kept is None or self._kept.manifest != manifest:
            raise CorruptCheckpointError(
                f"generation {manifest.generation} is not the one in memory"
            )
        return self._kept.snapshot

    def save(self, snapshot: Snapshot, segments: Mapping[str, bytes] = NO_SEGMENTS) -> Manifest:
        del segments
        snapshot = snapshot.with_digest()
        generation = self._kept.manifest.generation + 1 if self._kept else 1
        manifest = Manifest(
            generation=generation,
            commit=str(generation),
            parent=str(generation - 1),
            token="",
            created=time.time(),
            events=snapshot.events,
            errors=snapshot.errors,
            state_digest=snapshot.state_digest,
            parts=(),
        )
        self._kept = Loaded(manifest, snapshot)
        return manifest

    def segment(self, name: str) -> bytes | None:
        del name
        return None  # this store keeps only the last snapshot

    def close(self) -> None: ...
