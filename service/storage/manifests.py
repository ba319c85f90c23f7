"""The list of manifests, newest first, and the retention of generations.

Each element is a manifest after its own SHA-256, so any flipped bit is found. Retention keeps the
newest generations and fewer and fewer older ones, so an operator can roll back far. Once a
generation is not retained, it is never retained later.
"""

import hashlib
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from service.checkpoint.store import Manifest, Part
from service.storage.chunks import chunk_keys

STEP = 8
"""Ratio of the spacings of two successive levels of retention."""
DIGITS = 64
"""Characters of a SHA-256 in hexadecimal."""


class Entry(NamedTuple):
    """One element of the list of manifests."""

    raw: bytes
    manifest: Manifest | None
    """None if the element is damaged."""
    named: tuple[Part, ...] = ()
    """The parts that the manifest names, as far as a damaged one can be parsed."""


class RetentionPlan(NamedTuple):
    """Which elements of the list a new generation keeps and removes."""

    kept: list[Entry]
    dropped: list[bytes]
    unneeded: list[str]
    """Keys of chunks that no kept generation needs."""


def seal_entry(manifest: Manifest) -> Entry:
    """Encode a manifest after its SHA-256."""
    text = msgspec.json.encode(manifest)
    return Entry(hashlib.sha256(text).hexdigest().encode() + text, manifest, manifest.parts)


def parse_entry(raw: bytes) -> Entry:
    """Decode an element of the list and check its SHA-256."""
    text = raw[DIGITS:]
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Entry(raw, None)
    good = hashlib.sha256(text).hexdigest().encode() == raw[:DIGITS]
    return Entry(raw, manifest if good else None, manifest.parts)


def newest_generation(head: Sequence[Entry]) -> int:
    """Number of the newest generation. Each damaged element above a good one counts as one more."""
    numbered = (
        entry.manifest.generation + above for above, entry in enumerate(head) if entry.manifest
    )
    return max(numbered, default=len(head))


def apply_retention(
    head: Sequence[Entry],
    new: Manifest,
    bad: Collection[bytes],
    keep: int,
    levels: int,
    prefix: str,
) -> RetentionPlan:
    """Plan the list after `new`. Damaged elements and those in `bad` are always removed."""
    kept: list[Entry] = []
    dropped: list[Entry] = []
    for entry in head:
        good = entry.manifest is not None and entry.raw not in bad
        wanted = (
            good
            and entry.manifest
            and is_retained(entry.manifest.generation, new.generation, keep, levels)
        )
        (kept if wanted else dropped).append(entry)
    needed = {part.blob for part in new.parts} | {
        part.blob for entry in kept for part in entry.named
    }
    # A damaged manifest may name any key. Only chunks of this model are removed.
    unneeded = {
        key
        for entry in dropped
        for part in entry.named
        if part.blob not in needed and part.blob.startswith(f"{prefix}:g:")
        for key in chunk_keys(part)
    }
    return RetentionPlan(kept, [entry.raw for entry in dropped], sorted(unneeded))


def is_retained(generation: int, newest: int, keep: int, levels: int) -> bool:
    """Whether a generation is kept once `newest` exists.

    The `keep` newest generations are kept. Level 1 keeps multiples of 8, level 2 multiples of 64,
    level 3 multiples of 512, and so on, each as long as it is younger than two spacings.
    """
    age = newest - generation
    spacings = (STEP**level for level in range(1, levels + 1))
    return age < keep or any(
        generation % spacing == 0 and age < 2 * spacing for spacing in spacings
    )
