"""`RedisStore`: how a learner and a replica use the checkpoints in Redis.

Invariants:
- Only complete checkpoints become visible.
- Only the learner that acquired the store last can write.
- A learner finds a commit whose answer was lost and continues from it. So generations have no gap,
  and none is written twice.
"""

import threading
import time
import uuid
from collections.abc import Mapping

from service.checkpoint.snapshot import Encoded, Snapshot, SnapshotError, encode
from service.checkpoint.store import (
    NO_SEGMENTS,
    Acquired,
    CorruptCheckpointError,
    FencedError,
    Freeze,
    Loaded,
    Manifest,
    StoreUnavailableError,
)
from service.config.settings import LONGEST_LEASE_SECONDS, CheckpointSettings, StoreSettings
from service.failpoints import failpoint
from service.storage.chunks import SnapshotReader
from service.storage.connection import ServerPolicy
from service.storage.known_commits import KnownCommits
from service.storage.lease import Lease, read_freeze
from service.storage.lua import ACQUIRE
from service.storage.manifests import Entry, apply_retention, parse_entry, seal_entry
from service.storage.redis_admin import DEFAULT_RETENTION, RedisAdmin
from service.storage.redis_keys import Writer

LOAD_ATTEMPTS = 5
"""Attempts to load while another learner removes generations."""


class RedisStore(RedisAdmin):
    """The checkpoints of one model."""

    def __init__(
        self, settings: StoreSettings, name: str, checkpoint: CheckpointSettings = DEFAULT_RETENTION
    ) -> None:
        super().__init__(settings, name, checkpoint)
        keyspace = self._keyspace
        keys = keyspace.key("lease"), keyspace.key("token"), keyspace.key("frozen")
        self._lease = Lease(keyspace.server, keys, uuid.uuid4().hex, settings.lease_seconds)
        self._policy = ServerPolicy(keyspace.server.where)
        self._reader = SnapshotReader(keyspace.fetch)
        self._lock = threading.Lock()
        self._token = ""
        self._known = KnownCommits()

    @property
    def where(self) -> str:
        return self._keyspace.server.where

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
        return self._known.wants_whole

    def acquire(self) -> Acquired:
        """Ask for the lease and take the token. See `Store.acquire`."""
        keyspace, known, lease = self._keyspace, self._known, self._lease
        with self._lock:
            with keyspace.server.translate_errors("policy"):
                self._policy.check(keyspace.client, keyspace.key("head"))
            sent = time.monotonic()
            keys = [
                keyspace.key("lease"),
                keyspace.key("token"),
                keyspace.key("head"),
                keyspace.key("frozen"),
            ]
            longest = round(LONGEST_LEASE_SECONDS * 1000)
            arguments = lease.holder, lease.milliseconds, uuid.uuid4().hex, longest
            token, *rest = keyspace.eval_script("acquire", ACQUIRE, keys, *arguments)
            self._token = token.decode()
            known.chain = None
            if not token:
                lease.drop()
                return Acquired.HELD_ELSEWHERE
            lease.frozen = read_freeze(rest[0])
            head = [parse_entry(raw) for raw in rest[1]]
            known.adopt_unacknowledged(head)
            known.unacknowledged.clear()  # the rest have an older token: Redis will refuse them
            # A freeze discards the events learned after it. They must not become durable.
            known.began = known.knows(head) and lease.frozen is None
            known.head = head
            known.chain = None
            lease.hold(self._token, sent)
            return Acquired.CURRENT if known.began else Acquired.STALE

    def load(self) -> Loaded | None:
        with self._lock:
            for _ in range(LOAD_ATTEMPTS):
                head = self._keyspace.head()
                found, broken = self._newest_good(head)
                if not broken or self._keyspace.head() == head:
                    break  # otherwise another learner removed what we tried to read: try again
            if found is None and head:
                raise CorruptCheckpointError(
                    f"none of the {len(head)} checkpoints at {self.where} can be read "
                    f"({broken[0]}): "
                    "restore one with `onepass checkpoints import`, start empty with "
                    "`--start-fresh`, or use another name"
                )
            bad = {entry.raw for entry in head[: len(broken)]}
            self._known.begin(head, bad, found.manifest.commit if found else "")
            return found

    def _newest_good(self, head: list[Entry]) -> tuple[Loaded | None, list[str]]:
        broken: list[str] = []
        for entry in head:
            if entry.manifest is None:
                broken.append("a generation whose manifest is damaged")
                continue
            try:
                snapshot = SnapshotReader(self._keyspace.fetch).read(entry.manifest.parts)
            except SnapshotError as error:
                broken.append(f"generation {entry.manifest.generation}: {error}")
                continue
            return Loaded(entry.manifest, snapshot, tuple(broken)), broken
        return None, broken

    def forget(self) -> None:
        """Start empty, as an operator asked: the next generation replaces all existing ones."""
        with self._lock:
            head = self._keyspace.head()
            self._known.begin(head, {entry.raw for entry in head}, "")

    def begin_after(self, generation: int) -> None:
        with self._lock:
            self._known.begin_after(generation)

    def newest(self) -> Manifest | None:
        frozen, newest = self._keyspace.newest()
        self._lease.frozen = read_freeze(frozen)
        if newest is None or newest.manifest is not None:
            return newest.manifest if newest else None
        head = self._keyspace.head()
        good = [entry.manifest for entry in head if entry.manifest is not None]
        if head and not good:
            raise CorruptCheckpointError(
                f"{self._keyspace.key('head')} at {self.where} has no readable manifest"
            )
        return good[0] if good else None

    def read(self, manifest: Manifest) -> Snapshot:
        try:
            return self._reader.read(manifest.parts)
        except SnapshotError as error:
            raise CorruptCheckpointError(
                f"generation {manifest.generation} at {self._keyspace.server.where}: {error}"
            ) from error

    def save(self, snapshot: Snapshot, segments: Mapping[str, bytes] = NO_SEGMENTS) -> Manifest:
        """Commit a snapshot. A delta holds all changes since the last save that returned."""
        snapshot = snapshot.with_digest()
        encoded = encode(snapshot)
        with self._lock:
            if not self._token or not self._known.began:
                raise FencedError("acquire the store and load its newest checkpoint first")
            self._policy.warn_if_full(encoded.size)
            with self._keyspace.discarding_orphans():
                if self._known.unacknowledged:
                    self._known.adopt_unacknowledged(self._keyspace.head())
                manifest, answer = self._write(snapshot, encoded, segments)
                if answer == "CONFLICT" and self._known.adopt_unacknowledged(self._keyspace.head()):
                    manifest, answer = self._write(snapshot, encoded, segments)
        if answer == "INCOMPLETE":
            raise StoreUnavailableError(
                f"Redis at {self._keyspace.server.where} lost a snapshot that was being written"
            )
        if answer == "FENCED":
            raise self._report_fenced(
                "another learner or an operator has taken over, or the token was removed"
            )
        if answer != "OK":
            raise self._report_fenced(
                "the checkpoints that this learner wrote were removed or replaced"
            )
        return manifest

    def _write(
        self, snapshot: Snapshot, encoded: Encoded, segments: Mapping[str, bytes]
    ) -> tuple[Manifest, str]:
        keyspace, lease, known = self._keyspace, self._lease, self._known
        if not snapshot.whole and known.chain is None:
            raise self._report_fenced("a delta has nothing to build on")
        generation, commit = known.next_generation, uuid.uuid4().hex
        part = keyspace.put(keyspace.key(f"g:{generation}:{commit}"), encoded)
        keyspace.put_segments(segments)
        entry = seal_entry(
            manifest := Manifest(
                generation=generation,
                commit=commit,
                parent=known.commit,
                token=self._token,
                created=time.time(),
                events=snapshot.events,
                errors=snapshot.errors,
                state_digest=snapshot.state_digest,
                parts=(part,) if snapshot.whole else (*(known.chain or ()), part),
            )
        )
        keep, levels = self._checkpoint.keep, self._checkpoint.keep_levels
        plan = apply_retention(known.head, manifest, known.bad, keep, levels, keyspace.prefix)
        failpoint("before_commit")
        sent = time.monotonic()
        known.unacknowledged.append(entry)
        writer = Writer(self._token, self._token, lease.holder, lease.milliseconds)
        answer = keyspace.commit(writer, entry, known.newest, plan, segments)
        failpoint("after_commit")
        if answer == "OK":
            known.acknowledge(entry, [entry, *plan.kept])
            lease.extend(self._token, sent)
        else:
            known.unacknowledged.remove(entry)
        return manifest, answer

    def _report_fenced(self, why: str) -> FencedError:
        self._lease.disturb()
        self._known.chain = None
        return FencedError(f"{self._keyspace.server.where}: {why}")

    def close(self) -> None:
        """Release the lease and close the connections."""
        self._lease.close()
        self._keyspace.close()
