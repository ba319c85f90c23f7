"""The list of generations, newest first: each element is a manifest behind its own SHA-256; any flip is seen."""

import hashlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from service.checkpoints import Manifest, Part
from service.store.chunks import chunk_keys
from service.store.schedule import stays

DIGITS = 64


class Entry(NamedTuple):
    """One element of the list."""

    raw: bytes
    manifest: Manifest | None
    """None if it is damaged."""
    named: tuple[Part, ...] = ()
    """Parts that belong to it; of a damaged one those it seems to name."""


def sealed(manifest: Manifest) -> Entry:
    text = msgspec.json.encode(manifest)
    return Entry(hashlib.sha256(text).hexdigest().encode() + text, manifest, manifest.parts)


def opened(raw: bytes) -> Entry:
    text = raw[DIGITS:]
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Entry(raw, None)
    good = hashlib.sha256(text).hexdigest().encode() == raw[:DIGITS]
    return Entry(raw, manifest if good else None, manifest.parts)


def count(head: Sequence[Entry]) -> int:
    """The newest generation's number; a damaged one above a good one counts as one more."""
    numbered = (entry.manifest.generation + above for above, entry in enumerate(head) if entry.manifest)
    return max(numbered, default=len(head))


class Room(NamedTuple):
    """What a new generation leaves of the list."""

    kept: list[Entry]
    dropped: list[bytes]
    unneeded: list[str]
    """Keys of chunks that no generation needs any more."""


def make_room(
    head: Sequence[Entry], new: Manifest, bad: Collection[bytes], keep: int, levels: int, prefix: str
) -> Room:
    """By the schedule; damaged ones and those in `bad` go whatever their number."""
    kept: list[Entry] = []
    dropped: list[Entry] = []
    for entry in head:
        good = entry.manifest is not None and entry.raw not in bad
        wanted = good and entry.manifest and stays(entry.manifest.generation, new.generation, keep, levels)
        (kept if wanted else dropped).append(entry)
    needed = {part.blob for part in new.parts} | {part.blob for entry in kept for part in entry.named}
    # A damaged manifest may name anything: only what is this model's own is let go.
    unneeded = {
        key
        for entry in dropped
        for part in entry.named
        if part.blob not in needed and part.blob.startswith(f"{prefix}:g:")
        for key in chunk_keys(part)
    }
    return Room(kept, [entry.raw for entry in dropped], sorted(unneeded))
