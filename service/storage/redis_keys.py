"""One model's keys in Redis, all in one cluster slot, and the calls that use them.

{m:NAME}:lease            the learner that holds the lease, with an expiry
{m:NAME}:token            <counter>:<nonce>, the fencing token; only its last owner may write
{m:NAME}:head             list of manifests, newest first, each after its SHA-256
{m:NAME}:g:GEN:COMMIT:I   a chunk of a snapshot; the name is unique, so it is never overwritten
{m:NAME}:l:SHA256         a segment of the lineage; never deleted
{m:NAME}:frozen           a freeze: an operator has stopped learning
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, NamedTuple

from service.checkpoint.snapshot import Encoded, SnapshotError
from service.checkpoint.store import CorruptCheckpointError, Part, StoreUnavailableError
from service.config.settings import StoreSettings
from service.errors import SettingsError
from service.failpoints import failpoint
from service.storage.chunks import chunk_keys, chunk_sizes, cut
from service.storage.connection import Server
from service.storage.lua import COMMIT, DISCARD
from service.storage.manifests import Entry, RetentionPlan, parse_entry

SECONDS, RETRIES = 10.0, 2
"""Timeout of a call, and how often the client repeats it."""
ORPHAN_MS = 600_000
"""Milliseconds after which Redis deletes a chunk or segment that no commit refers to."""
CHUNKS_PER_CALL = 4
"""Chunks that one round trip writes or reads."""


class Writer(NamedTuple):
    """The writer of a commit."""

    token: str | bytes
    token_after: str | bytes
    holder: str = ""
    """The holder of the lease, which the commit renews. An operator has none."""
    lease_ms: int = 0


class RedisKeyspace:
    """The keys of one model, and the calls that read and write them.

    Invariant: only `commit` makes data visible. Data that is not visible expires.
    """

    def __init__(self, settings: StoreSettings, name: str) -> None:
        self.prefix = f"{{m:{name}}}"
        self.server = Server(settings, self.prefix)
        self._client: Any = None
        self._uncommitted: list[Part] = []
        """Parts that are written but not known to be committed."""

    def key(self, name: str) -> str:
        return f"{self.prefix}:{name}"

    @property
    def client(self) -> Any:
        """The client, made at first use, because a client of a cluster connects immediately."""
        if self._client is None:
            self._client = self.server.client(SECONDS, RETRIES)
        return self._client

    def eval_script(
        self, call: str, script: str, keys: Iterable[str], *arguments: str | bytes | int
    ) -> Any:
        """Run a Lua script; `call` names the operation in errors."""
        key_list = list(keys)
        with self.server.translate_errors(call):
            return self.client.eval(script, len(key_list), *key_list, *arguments)

    def head(self) -> list[Entry]:
        """Read the list of manifests, newest first."""
        with self.server.translate_errors("head"):
            return [parse_entry(raw) for raw in self.client.lrange(self.key("head"), 0, -1)]

    def read_atomically(self, key: str) -> tuple[bytes | None, list[Entry]]:
        """Read a value and the list in one transaction."""
        with self.server.translate_errors("read_atomically"):
            # This works in a cluster too, because both keys are in one slot.
            pipeline = self.client.pipeline(transaction=True)
            value, head = pipeline.get(self.key(key)).lrange(self.key("head"), 0, -1).execute()
        return value, [parse_entry(raw) for raw in head]

    def newest(self) -> tuple[bytes | None, Entry | None]:
        """Read the freeze and the newest element of the list."""
        with self.server.translate_errors("newest"):
            pipeline = self.client.pipeline(transaction=False)
            frozen, raw = pipeline.get(self.key("frozen")).lindex(self.key("head"), 0).execute()
        return frozen, None if raw is None else parse_entry(raw)

    def put(self, blob: str, encoded: Encoded) -> Part:
        """Write a snapshot's chunks. They expire unless a commit follows."""
        part = Part(blob, encoded.size, encoded.sha256)
        self._uncommitted.append(part)
        with self.server.translate_errors("put"):
            for group in _groups(zip(chunk_keys(part), cut(encoded.buffers), strict=True)):
                pipeline = self.client.pipeline(transaction=False)
                for key, chunk in group:
                    pipeline.set(key, chunk, px=ORPHAN_MS)
                pipeline.execute()
                for _ in group:
                    failpoint("after_chunk")
        return part

    def put_segments(self, segments: Mapping[str, bytes]) -> None:
        """Write lineage segments. They expire unless a commit follows."""
        with self.server.translate_errors("put_segments"):
            for name, segment in segments.items():
                # `nx` keeps an existing segment without an expiry. A crash before the commit must
                # not let it expire.
                self.client.set(self.key(f"l:{name}"), segment, px=ORPHAN_MS, nx=True)

    def fetch(self, part: Part) -> bytes:
        """Read a part from its chunks. A missing or damaged chunk is a `SnapshotError`."""
        chunks: list[bytes] = []
        with self.server.translate_errors("fetch"):
            for group in _groups(zip(chunk_keys(part), chunk_sizes(part), strict=True)):
                found = self.client.mget([key for key, _ in group])
                for (key, size), chunk in zip(group, found, strict=True):
                    if chunk is None or len(chunk) != size:
                        raise SnapshotError(
                            f"{key} is {'missing' if chunk is None else 'of another length'}"
                        )
                    chunks.append(chunk)
        return b"".join(chunks)

    def commit(
        self,
        writer: Writer,
        entry: Entry,
        newest: bytes,
        plan: RetentionPlan,
        segments: Mapping[str, bytes],
    ) -> str:
        """Make `entry` the newest generation.

        Return `OK`, also if an earlier sending of this commit did it. `FENCED`, `CONFLICT` and
        `INCOMPLETE` mean that nothing has changed.
        """
        new = entry.named[-1]
        keys = [*chunk_keys(new), *(self.key(f"l:{name}") for name in segments)]
        sizes = [*chunk_sizes(new), *map(len, segments.values())]
        answer: bytes = self.eval_script(
            "commit",
            COMMIT,
            [self.key("token"), self.key("head"), self.key("lease"), *keys, *plan.unneeded],
            writer.token,
            writer.token_after,
            entry.raw,
            newest,
            writer.holder,
            writer.lease_ms,
            len(keys),
            *sizes,
            *plan.dropped,
        )
        if answer == b"OK":
            self._uncommitted.remove(new)
        return answer.decode()

    @contextmanager
    def discarding_orphans(self) -> Iterator[None]:
        """Delete parts that the block wrote and did not commit.

        If Redis does not answer now, the next use deletes them.
        """
        self._discard()
        try:
            yield
        finally:
            if self.server.answers:
                with suppress(StoreUnavailableError, SettingsError, CorruptCheckpointError):
                    self._discard()

    def _discard(self) -> None:
        while self._uncommitted:
            part = self._uncommitted[0]
            self.eval_script(
                "discard",
                DISCARD,
                [self.key("head"), *chunk_keys(part)],
                part.blob.rpartition(":")[2],
            )
            del self._uncommitted[0]

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def _groups(pairs: Iterable[tuple[str, Any]]) -> Iterator[list[tuple[str, Any]]]:
    rest = iter(pairs)
    while group := list(islice(rest, CHUNKS_PER_CALL)):
        yield group
