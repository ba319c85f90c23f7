"""The learner's and the replica's side of the checkpoints in Redis.

Invariants: only whole checkpoints become visible; of all learners only the last that acquired can write; a commit whose
answer was lost is found again and gone on from, so generations have no gap and none is written twice.
"""

import threading
import time
import uuid
from collections.abc import Mapping

from service.checkpoints import NO_SEGMENTS, Corrupt, Fenced, Freeze, Loaded, Manifest, Standing, StoreDown
from service.failpoints import reach
from service.settings import StoreSettings
from service.snapshot import BadSnapshot, Encoded, Snapshot, encode
from service.store.head import Entry, make_room, opened, sealed
from service.store.lease import Lease, read_freeze
from service.store.memory import Memory
from service.store.operator import Operator
from service.store.posture import Posture
from service.store.reader import Reader
from service.store.scripts import ACQUIRE
from service.store.shelf import Writer

LOOKS = 5


class RedisStore(Operator):
    """The checkpoints of one model."""

    def __init__(self, settings: StoreSettings, name: str) -> None:
        super().__init__(settings, name)
        shelf = self._shelf
        keys = shelf.key("lease"), shelf.key("token"), shelf.key("frozen")
        self._lease = Lease(shelf.server, keys, uuid.uuid4().hex, settings.lease_seconds)
        self._posture = Posture(shelf.server.where)
        self._reader = Reader(shelf.fetch)
        self._turn = threading.Lock()
        self._token = ""
        self._memory = Memory()

    @property
    def where(self) -> str:
        return self._shelf.server.where

    @property
    def held(self) -> bool:
        return self._lease.held

    @property
    def disturbed(self) -> bool:
        return self._lease.disturbed

    @property
    def frozen(self) -> Freeze | None:
        return self._lease.frozen

    @property
    def wants_whole(self) -> bool:
        return self._memory.wants_whole

    def acquire(self) -> Standing:
        shelf, memory, lease = self._shelf, self._memory, self._lease
        with self._turn:
            with shelf.server.translated("posture"):
                self._posture.check(shelf.client, shelf.key("head"))
            sent = time.monotonic()
            keys = [shelf.key("lease"), shelf.key("token"), shelf.key("head"), shelf.key("frozen")]
            token, *rest = shelf.decide("acquire", ACQUIRE, keys, lease.holder, lease.milliseconds, uuid.uuid4().hex)
            self._token = token.decode()
            memory.chain = None
            if not token:
                lease.drop()
                return Standing.WAIT
            lease.frozen = read_freeze(rest[0])
            head = [opened(raw) for raw in rest[1]]
            memory.find_again(head)
            memory.unsure.clear()  # with an older token the others come too late for ever
            # Under a freeze what was learned after it is let go: it must not become durable.
            memory.began = memory.knows(head) and lease.frozen is None
            memory.head, memory.chain = head, None
            lease.hold(self._token, sent)
            return Standing.GO_ON if memory.began else Standing.RELOAD

    def load(self) -> Loaded | None:
        with self._turn:
            for _ in range(LOOKS):
                head = self._shelf.head()
                found, broken = self._newest_good(head)
                if not broken or self._shelf.head() == head:
                    break  # else somebody learns beside us, and what we asked for was let go meanwhile
            if found is None and head:
                raise Corrupt(
                    f"none of the {len(head)} checkpoints at {self._shelf.server.where} can be read ({broken[0]}): "
                    "bring one back by `onepass checkpoints import`, begin anew by `--start-fresh`, or use another name"
                )
            bad = {entry.raw for entry in head[: len(broken)]}
            self._memory.begin(head, bad, found.manifest.commit if found else "")
            return found

    def _newest_good(self, head: list[Entry]) -> tuple[Loaded | None, list[str]]:
        broken: list[str] = []
        for entry in head:
            if entry.manifest is None:
                broken.append("a generation whose manifest is damaged")
                continue
            try:
                snapshot = Reader(self._shelf.fetch).read(entry.manifest.parts)
            except BadSnapshot as error:
                broken.append(f"generation {entry.manifest.generation}: {error}")
                continue
            return Loaded(entry.manifest, snapshot, tuple(broken)), broken
        return None, broken

    def forget(self) -> None:
        """The operator's word to start fresh: the next generation replaces all that are there."""
        with self._turn:
            head = self._shelf.head()
            self._memory.begin(head, {entry.raw for entry in head}, "")

    def begin_after(self, generation: int) -> None:
        with self._turn:
            self._memory.begin_after(generation)

    def newest(self) -> Manifest | None:
        frozen, newest = self._shelf.newest()
        self._lease.frozen = read_freeze(frozen)
        if newest is None or newest.manifest is not None:
            return newest.manifest if newest else None
        head = self._shelf.head()
        good = [entry.manifest for entry in head if entry.manifest is not None]
        if head and not good:
            raise Corrupt(f"{self._shelf.key('head')} at {self._shelf.server.where} has no manifest that can be read")
        return good[0] if good else None

    def read(self, manifest: Manifest) -> Snapshot:
        try:
            return self._reader.read(manifest.parts)
        except BadSnapshot as error:
            raise Corrupt(f"generation {manifest.generation} at {self._shelf.server.where}: {error}") from error

    def save(self, snapshot: Snapshot, segments: Mapping[str, bytes] = NO_SEGMENTS) -> Manifest:
        """A delta holds all that changed since the last save that returned."""
        snapshot = snapshot.digested()
        encoded = encode(snapshot)
        with self._turn:
            if not self._token or not self._memory.began:
                raise Fenced("the checkpoints were not acquired, or not loaded since")
            self._posture.fits(encoded.size)
            with self._shelf.tidied():
                if self._memory.unsure:
                    self._memory.find_again(self._shelf.head())
                manifest, answer = self._write(snapshot, encoded, segments)
                if answer == "CONFLICT" and self._memory.find_again(self._shelf.head()):
                    manifest, answer = self._write(snapshot, encoded, segments)
        if answer == "INCOMPLETE":
            raise StoreDown(f"Redis at {self._shelf.server.where} lost a snapshot that was being written")
        if answer == "FENCED":
            raise self._fenced(
                "the token is no longer this learner's: taken over by another or an operator, or removed"
            )
        if answer != "OK":
            raise self._fenced("the checkpoints are not those that this learner wrote: removed or replaced")
        return manifest

    def _write(self, snapshot: Snapshot, encoded: Encoded, segments: Mapping[str, bytes]) -> tuple[Manifest, str]:
        shelf, lease, memory = self._shelf, self._lease, self._memory
        if not snapshot.whole and memory.chain is None:
            raise self._fenced("a delta has nothing to build on")
        generation, commit = memory.next_generation, uuid.uuid4().hex
        part = shelf.put(shelf.key(f"g:{generation}:{commit}"), encoded)
        shelf.put_segments(segments)
        entry = sealed(
            manifest := Manifest(
                generation=generation,
                commit=commit,
                parent=memory.commit,
                token=self._token,
                created=time.time(),
                events=snapshot.events,
                errors=snapshot.errors,
                state_digest=snapshot.state_digest,
                parts=(part,) if snapshot.whole else (*(memory.chain or ()), part),
            )
        )
        keep, levels = self._settings.keep, self._settings.keep_older
        room = make_room(memory.head, manifest, memory.bad, keep, levels, shelf.prefix)
        reach("before_commit")
        sent = time.monotonic()
        memory.unsure.append(entry)
        writer = Writer(self._token, self._token, lease.holder, lease.milliseconds)
        answer = shelf.commit(writer, entry, memory.newest, room, segments)
        reach("after_commit")
        if answer == "OK":
            memory.settle(entry, [entry, *room.kept])
            lease.renewed(self._token, sent)
        else:
            memory.unsure.remove(entry)
        return manifest, answer

    def _fenced(self, why: str) -> Fenced:
        self._lease.disturb()
        self._memory.chain = None
        return Fenced(f"{self._shelf.server.where}: {why}")

    def close(self) -> None:
        """Let go: a lease of ours is given back."""
        self._lease.close()
        self._shelf.close()
