"""A snapshot's bytes ⇄ chunks of at most 1 MiB: a longer value would stop Redis, and every lease in it, too long."""

from collections.abc import Iterable, Iterator

from service.checkpoints import Part

LONGEST = 1024 * 1024
MOST = 65_536
"""Chunks of one part; more is no size of a snapshot but damage."""


def cut(buffers: Iterable[memoryview]) -> Iterator[bytes | memoryview]:
    """Chunks of exactly `LONGEST` but the last; only what lies across two buffers is copied."""
    gathered: list[memoryview] = []
    missing = LONGEST
    for buffer in buffers:
        rest = buffer
        while len(rest):
            gathered.append(rest[:missing])
            rest = rest[missing:]
            missing -= len(gathered[-1])
            if not missing:
                yield _one(gathered)
                gathered, missing = [], LONGEST
    if gathered:
        yield _one(gathered)


def _one(pieces: list[memoryview]) -> bytes | memoryview:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def chunk_keys(part: Part) -> list[str]:
    """None for a size that no snapshot has."""
    chunks = -(-part.size // LONGEST)
    return [f"{part.blob}:{number}" for number in range(chunks)] if 0 < chunks <= MOST else []


def chunk_sizes(part: Part) -> list[int]:
    chunks = len(chunk_keys(part))
    return [LONGEST] * (chunks - 1) + [part.size - LONGEST * (chunks - 1)] if chunks else []
