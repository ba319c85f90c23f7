"""What is asked of a store of checkpoints, and the one that only remembers, for `replay`.

The learner asks `acquire`, `load`, `save`; a replica only `newest` and `read`; an operator `generations`, `restate`,
`freeze`. A generation is a whole snapshot (its base) and the deltas that follow it, each a part of its own.
"""

import time
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, Protocol

import msgspec

from service.errors import Protective
from service.snapshot import Snapshot

NO_SEGMENTS: Mapping[str, bytes] = {}


class StoreDown(Exception):
    """The store cannot be reached or does not take writes now; trying again later is right."""


class Fenced(Exception):
    """The store has changed hands or history: what this learner holds must not be written before it has looked."""


class Corrupt(Protective):
    """There are checkpoints, and none can be read; starting from nothing instead would lose the model."""


class Part(msgspec.Struct, frozen=True):
    """A snapshot as it lies in the store, cut into chunks."""

    blob: str
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """What is known of a generation without loading it."""

    generation: int
    commit: str
    parent: str
    """The commit it was learned from; empty for the first."""
    token: str
    created: float
    events: int
    errors: int
    state_digest: str | None
    """None where only a delta was written: the whole state was not at hand."""
    parts: tuple[Part, ...]
    """The base, then its deltas in order."""
    origin: str = "learned"
    """Or the operator's word that made it, e.g. `rollback to 12`."""

    @property
    def size(self) -> int:
        """Bytes written for this generation alone."""
        return self.parts[-1].size if self.parts else 0


class Standing(Enum):
    """What a learner that asks for the store may do."""

    WAIT = "another learner holds the lease"
    GO_ON = "the store has what this learner knows, or less: its memory is the newest truth"
    RELOAD = "the store has a history that this learner does not know: it must begin there"


class Loaded(NamedTuple):
    """A generation that was found good."""

    manifest: Manifest
    snapshot: Snapshot
    broken: tuple[str, ...] = ()
    """Newer generations that could not be read, in words."""


class Freeze(msgspec.Struct, frozen=True):
    """An operator's word that nothing is learned until told."""

    since: float
    generation: int


class Store(Protocol):
    """Checkpoints of one model."""

    @property
    def where(self) -> str:
        """In words, without a password; empty for one that is nowhere but in memory."""

    def acquire(self) -> Standing:
        """Become the one that may write, if nobody is: from then on no earlier learner can."""

    def load(self) -> Loaded | None:
        """The newest good checkpoint, from which the next generation counts; None if there has never been one."""

    def forget(self) -> None:
        """Begin anew over checkpoints that cannot be read: the next generation takes their place."""

    def begin_after(self, generation: int) -> None:
        """What was loaded is this generation, and came from elsewhere: the next one is a later one."""

    def save(self, snapshot: Snapshot, segments: Mapping[str, bytes] = NO_SEGMENTS) -> Manifest:
        """Make a snapshot (and sealed history) the newest generation, whole or not at all."""

    @property
    def wants_whole(self) -> bool:
        """Whether the next snapshot must be whole: there is nothing to build on, or too much was built already."""

    @property
    def held(self) -> bool:
        """Whether the lease is surely ours now."""

    @property
    def disturbed(self) -> bool:
        """Whether somebody else was seen to write since `acquire`: acquire again before learning on."""

    @property
    def frozen(self) -> Freeze | None:
        """The operator's word, as of the last look."""

    def newest(self) -> Manifest | None:
        """The newest generation, without its bytes; None if there has never been one."""

    def read(self, manifest: Manifest) -> Snapshot:
        """The snapshot of a generation, checked and put together."""

    def segment(self, name: str) -> bytes | None:
        """A sealed segment of the history; None if it is not there."""

    def close(self) -> None:
        """Let go: a lease of ours is given back."""


class Remembered:
    """A store that keeps the last snapshot in memory: a replay has an end, and is its own checkpoint."""

    where = ""
    wants_whole = True
    held = True
    disturbed = False
    frozen: Freeze | None = None

    def __init__(self) -> None:
        self._kept: Loaded | None = None

    def acquire(self) -> Standing:
        return Standing.RELOAD

    def newest(self) -> Manifest | None:
        return self._kept.manifest if self._kept else None

    def load(self) -> Loaded | None:
        return self._kept

    def forget(self) -> None:
        self._kept = None

    def begin_after(self, generation: int) -> None:
        """What is remembered here has no other copy."""

    def read(self, manifest: Manifest) -> Snapshot:
        if self._kept is None or self._kept.manifest != manifest:
            raise Corrupt(f"generation {manifest.generation} is not the one remembered")
        return self._kept.snapshot

    def save(self, snapshot: Snapshot, segments: Mapping[str, bytes] = NO_SEGMENTS) -> Manifest:
        del segments
        snapshot = snapshot.digested()
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
        return None  # only the last snapshot is remembered

    def close(self) -> None: ...
