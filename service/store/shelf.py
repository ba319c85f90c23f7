"""One model's keys in Redis, all in one cluster slot, and every word spoken about them.

{m:NAME}:lease            who learns now, for a while
{m:NAME}:token            <counter>:<nonce>, the fencing number: who took it last may write
{m:NAME}:head             list of manifests, newest first, each behind its SHA-256
{m:NAME}:g:GEN:COMMIT:I   a chunk of a snapshot; its name is never used again, so never overwritten
{m:NAME}:l:SHA256         a sealed segment of the history; never deleted
{m:NAME}:frozen           an operator's word that nothing is learned
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, NamedTuple

from service.checkpoints import Corrupt, Part, StoreDown
from service.errors import BadSettings
from service.failpoints import reach
from service.settings import StoreSettings
from service.snapshot import BadSnapshot, Encoded
from service.store.chunks import chunk_keys, chunk_sizes, cut
from service.store.connection import Server
from service.store.head import Entry, Room, opened
from service.store.scripts import COMMIT, DISCARD

SECONDS, RETRIES = 10.0, 2
ASIDE_MS = 600_000
"""What was written and never switched in is forgotten after this time, if nobody lets go of it before."""
GROUP = 4
"""Chunks on their way at once."""


class Writer(NamedTuple):
    """In whose name a commit is made."""

    token: str | bytes
    token_after: str | bytes
    holder: str = ""
    """Of the lease, which is then renewed."""
    lease_ms: int = 0


class Shelf:
    """Invariant: nothing is visible but by `commit`; what is not visible expires."""

    def __init__(self, settings: StoreSettings, name: str) -> None:
        self.prefix = f"{{m:{name}}}"
        self.server = Server(settings, self.prefix)
        self._client: Any = None
        self._aside: list[Part] = []
        """Written, and not known to be switched in."""

    def key(self, name: str) -> str:
        return f"{self.prefix}:{name}"

    @property
    def client(self) -> Any:
        """Made when first needed: a cluster's connects at once."""
        if self._client is None:
            self._client = self.server.client(SECONDS, RETRIES)
        return self._client

    def decide(self, call: str, script: str, keys: Iterable[str], *arguments: str | bytes | int) -> Any:
        named = list(keys)
        with self.server.translated(call):
            return self.client.eval(script, len(named), *named, *arguments)

    def head(self) -> list[Entry]:
        with self.server.translated("head"):
            return [opened(raw) for raw in self.client.lrange(self.key("head"), 0, -1)]

    def look(self, key: str) -> tuple[bytes | None, list[Entry]]:
        """A value and the list, at one moment."""
        with self.server.translated("look"):
            # In a cluster too: both keys are in one slot.
            pipeline = self.client.pipeline(transaction=True)
            value, head = pipeline.get(self.key(key)).lrange(self.key("head"), 0, -1).execute()
        return value, [opened(raw) for raw in head]

    def newest(self) -> tuple[bytes | None, Entry | None]:
        """The operator's word, and the newest of the list."""
        with self.server.translated("newest"):
            pipeline = self.client.pipeline(transaction=False)
            frozen, raw = pipeline.get(self.key("frozen")).lindex(self.key("head"), 0).execute()
        return frozen, None if raw is None else opened(raw)

    def put(self, blob: str, encoded: Encoded) -> Part:
        part = Part(blob, encoded.size, encoded.sha256)
        self._aside.append(part)
        with self.server.translated("put"):
            for group in _groups(zip(chunk_keys(part), cut(encoded.buffers), strict=True)):
                pipeline = self.client.pipeline(transaction=False)
                for key, chunk in group:
                    pipeline.set(key, chunk, px=ASIDE_MS)
                pipeline.execute()
                for _ in group:
                    reach("after_chunk")
        return part

    def put_segments(self, segments: Mapping[str, bytes]) -> None:
        with self.server.translated("put_segments"):
            for name, segment in segments.items():
                # One that is there already stays as it is: a crash before the commit must not let it expire.
                self.client.set(self.key(f"l:{name}"), segment, px=ASIDE_MS, nx=True)

    def fetch(self, part: Part) -> bytes:
        chunks: list[bytes] = []
        with self.server.translated("fetch"):
            for group in _groups(zip(chunk_keys(part), chunk_sizes(part), strict=True)):
                found = self.client.mget([key for key, _ in group])
                for (key, size), chunk in zip(group, found, strict=True):
                    if chunk is None or len(chunk) != size:
                        raise BadSnapshot(f"{key} is {'missing' if chunk is None else 'of another length'}")
                    chunks.append(chunk)
        return b"".join(chunks)

    def commit(self, writer: Writer, entry: Entry, newest: bytes, room: Room, segments: Mapping[str, bytes]) -> str:
        """`OK`, also when it was done before; `FENCED`, `CONFLICT` or `INCOMPLETE` when nothing was done."""
        new = entry.named[-1]
        keys = [*chunk_keys(new), *(self.key(f"l:{name}") for name in segments)]
        sizes = [*chunk_sizes(new), *map(len, segments.values())]
        answer: bytes = self.decide(
            "commit",
            COMMIT,
            [self.key("token"), self.key("head"), self.key("lease"), *keys, *room.unneeded],
            writer.token,
            writer.token_after,
            entry.raw,
            newest,
            writer.holder,
            writer.lease_ms,
            len(keys),
            *sizes,
            *room.dropped,
        )
        if answer == b"OK":
            self._aside.remove(new)
        return answer.decode()

    @contextmanager
    def tidied(self) -> Iterator[None]:
        """What is put aside inside and not switched in gives its room back: now if Redis answers, else next time."""
        self._discard()
        try:
            yield
        finally:
            if self.server.answers:
                with suppress(StoreDown, BadSettings, Corrupt):
                    self._discard()

    def _discard(self) -> None:
        while self._aside:
            part = self._aside[0]
            self.decide("discard", DISCARD, [self.key("head"), *chunk_keys(part)], part.blob.rpartition(":")[2])
            del self._aside[0]

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def _groups(pairs: Iterable[tuple[str, Any]]) -> Iterator[list[tuple[str, Any]]]:
    waiting = iter(pairs)
    while group := list(islice(waiting, GROUP)):
        yield group
