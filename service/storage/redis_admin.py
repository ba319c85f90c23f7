"""What an operator does to the checkpoints while a learner runs: list, restate, freeze."""

import time
import uuid
from collections.abc import Mapping

import msgspec

from service.checkpoint.snapshot import Encoded, Snapshot, encode
from service.checkpoint.store import (
    NO_SEGMENTS,
    FencedError,
    Freeze,
    Manifest,
    StoreUnavailableError,
)
from service.config.settings import CheckpointSettings, StoreSettings
from service.storage.lease import read_freeze
from service.storage.lua import FENCE, FREEZE
from service.storage.manifests import (
    Entry,
    apply_retention,
    newest_generation,
    parse_entry,
    seal_entry,
)
from service.storage.redis_keys import RedisKeyspace, Writer

TRIES = 20
"""Attempts to write, each of which fails if a learner writes in between. A learner writes once a
second, and an attempt takes milliseconds. From the second attempt on the learner is fenced first.
"""

DEFAULT_RETENTION = CheckpointSettings()


class RedisAdmin:
    """An operator's access to the checkpoints of one model.

    Invariant: every change by an operator fences the running learner.
    """

    def __init__(
        self, settings: StoreSettings, name: str, checkpoint: CheckpointSettings = DEFAULT_RETENTION
    ) -> None:
        self._settings = settings
        self._checkpoint = checkpoint
        self._keyspace = RedisKeyspace(settings, name)

    def generations(self) -> list[Manifest | str]:
        """List the manifests, newest first. A damaged one is a sentence that says so."""
        return [
            entry.manifest
            or f"a damaged manifest of {len(entry.raw)} bytes, position {index} in the list"
            for index, entry in enumerate(self._keyspace.head())
        ]

    def segment(self, name: str) -> bytes | None:
        """Read a segment of the lineage. Return None if it is not there."""
        with self._keyspace.server.translate_errors("segment"):
            found: bytes | None = self._keyspace.client.get(self._keyspace.key(f"l:{name}"))
        return found

    def restate(
        self,
        snapshot: Snapshot,
        segments: Mapping[str, bytes] = NO_SEGMENTS,
        origin: str = "restated",
        *,
        after: str | None = None,
    ) -> Manifest:
        """Make a whole snapshot the newest generation. A running learner must continue from it.

        With `after`, do it only while that commit is the newest. Otherwise raise `FencedError`.
        """
        if not snapshot.whole:
            raise ValueError("only a whole snapshot can be restated")
        snapshot = snapshot.with_digest()
        encoded = encode(snapshot)
        with self._keyspace.discarding_orphans():
            return self._write_restated(snapshot, encoded, segments, origin, after)

    def _write_restated(
        self,
        snapshot: Snapshot,
        encoded: Encoded,
        segments: Mapping[str, bytes],
        origin: str,
        after: str | None,
    ) -> Manifest:
        keyspace, commit = self._keyspace, uuid.uuid4().hex
        # Write the chunks once and before reading the list. The learner then has little time to
        # write in between.
        first = newest_generation(keyspace.head()) + 1
        part = keyspace.put(keyspace.key(f"g:{first}:{commit}"), encoded)
        keyspace.put_segments(segments)
        for overtaken in range(TRIES):
            token, head = self._fence() if overtaken else keyspace.read_atomically("token")
            newest = newest_generation(head)
            parent = next((entry.manifest.commit for entry in head if entry.manifest), "")
            if after not in {None, parent}:
                raise FencedError(
                    f"{keyspace.server.where}: generation {newest} was written meanwhile: "
                    "list the checkpoints and decide again"
                )
            manifest = Manifest(
                generation=newest + 1,
                commit=commit,
                parent=parent,
                token=_next_token(token),
                created=time.time(),
                events=snapshot.events,
                errors=snapshot.errors,
                state_digest=snapshot.state_digest,
                parts=(part,),
                origin=origin,
            )
            if self._commit(token or b"", head, manifest, segments):
                return manifest
        raise self._report_overtaken()

    def _commit(
        self,
        token: bytes,
        head: list[Entry],
        manifest: Manifest,
        segments: Mapping[str, bytes],
    ) -> bool:
        """Commit a restated generation. Return False if a learner wrote in between."""
        keyspace = self._keyspace
        keep, levels = self._checkpoint.keep, self._checkpoint.keep_levels
        plan = apply_retention(head, manifest, (), keep, levels, keyspace.prefix)
        writer = Writer(token, manifest.token)
        newest = head[0].raw if head else b""
        answer = keyspace.commit(writer, seal_entry(manifest), newest, plan, segments)
        if answer == "INCOMPLETE":
            raise StoreUnavailableError(
                f"Redis at {keyspace.server.where} lost a snapshot that was being written"
            )
        return answer == "OK"

    def _report_overtaken(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"the learner at {self._keyspace.server.where} wrote before each of {TRIES} tries: "
            "try again"
        )

    def _fence(self) -> tuple[bytes, list[Entry]]:
        """Take the token. The learner must acquire it again before its next write.

        That leaves time for our write, even if the learner writes without a pause.
        """
        keys = [self._keyspace.key("token"), self._keyspace.key("head")]
        token, head = self._keyspace.eval_script("fence", FENCE, keys, uuid.uuid4().hex)
        return token, [parse_entry(raw) for raw in head]

    def freeze(self) -> Freeze:
        """Let nothing learned become durable until `unfreeze`. Keep an earlier freeze."""
        keyspace = self._keyspace
        keys = [keyspace.key("token"), keyspace.key("head"), keyspace.key("frozen")]
        for overtaken in range(TRIES):
            head = self._fence()[1] if overtaken else keyspace.head()
            wanted = msgspec.json.encode(Freeze(time.time(), newest_generation(head)))
            freeze = read_freeze(
                keyspace.eval_script(
                    "freeze", FREEZE, keys, wanted, head[0].raw if head else b"", uuid.uuid4().hex
                )
            )
            if freeze is not None:
                return freeze
        raise self._report_overtaken()

    def unfreeze(self) -> Freeze | None:
        """Remove the freeze and return it. Return None if there was none."""
        with self._keyspace.server.translate_errors("unfreeze"):
            freeze = read_freeze(self._keyspace.client.get(self._keyspace.key("frozen")))
            self._keyspace.client.unlink(self._keyspace.key("frozen"))
        return freeze


def _next_token(token: bytes | None) -> str:
    counter = (token or b"").partition(b":")[0]
    return f"{int(counter) + 1 if counter.isdigit() else 1}:{uuid.uuid4().hex}"
