"""A small snapshot and a delta that follows it, their bytes, and a comparison to the bit."""

import hashlib

import numpy as np

from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import Snapshot, encode
from service.sources.base import BEGINNING


def in_bytes(snapshot: Snapshot) -> bytes:
    encoded = encode(snapshot)
    data = b"".join(encoded.buffers)
    assert len(data) == encoded.size
    assert data[-32:].hex() == encoded.sha256 == hashlib.sha256(data[:-32]).hexdigest()
    return data


def bits(snapshot: Snapshot) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    return {
        name: (array.dtype.str, array.shape, array.tobytes())
        for name, array in snapshot.arrays.items()
    }


def check_same(one: Snapshot, other: Snapshot) -> None:
    assert one._replace(arrays={}) == other._replace(arrays={})
    assert bits(one) == bits(other)
    assert list(one.arrays) == list(other.arrays)


def small(arrays=None) -> Snapshot:
    counts = {"progress/events": np.array([3]), "progress/errors": np.array([1])}
    arrays = {"w": np.array([1.5, -2.0])} if arrays is None else arrays
    return Snapshot(
        {"learner": {"kind": "pa1"}},
        ["a"],
        BEGINNING,
        Lineage(),
        {"type": 1},
        "d" * 8,
        counts | arrays,
    )


def delta(change=lambda _: None, **arrays) -> Snapshot:
    arrays = {"slots": np.array([1, 3]), "w": np.array([7.0, 8.0])} | arrays
    snapshot = small(arrays)
    change(snapshot.arrays)
    return snapshot._replace(state_digest=None, sliced=("w",))
