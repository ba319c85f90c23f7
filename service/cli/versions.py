"""What is to be said of generations, as plain values: the JSON of `onepass checkpoints`, and what its tables show."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import BIAS
from learners.hashing import SlotTable
from learners.learner import slot_arrays
from learners.registry import make
from service.checkpoints import Freeze, Manifest
from service.differences import changed
from service.lineage import Broken, Entry, Lineage, Lost, Run, history
from service.snapshot import Snapshot

LARGEST = 5
"""How many single changes of an array are named."""


def listed(manifest: Manifest | str, now: float) -> dict[str, Any]:
    """A generation in a list; a broken one has only words."""
    if isinstance(manifest, str):
        return {"broken": manifest}
    return {
        "generation": manifest.generation,
        "created": manifest.created,
        "age_seconds": round(max(0.0, now - manifest.created), 3),
        "events": manifest.events,
        "errors": manifest.errors,
        "error_rate": manifest.errors / max(1, manifest.events),
        "size": manifest.size,
        "parts": len(manifest.parts),
        "origin": manifest.origin,
        "state_digest": manifest.state_digest,
    }


def described(
    manifest: Manifest, snapshot: Snapshot, fetch: Callable[[str], bytes | None], freeze: Freeze | None, now: float
) -> dict[str, Any]:
    """All of a generation but the numbers in its arrays; `frozen` is of the model, now."""
    return {
        **listed(manifest, now),
        "frozen": None if freeze is None else {"since": freeze.since, "generation": freeze.generation},
        "commit": manifest.commit,
        "parent": manifest.parent,
        "model": snapshot.model,
        "classes": snapshot.classes,
        "positions": snapshot.bookmark.positions,
        "marks": snapshot.bookmark.marks,
        "rejects": dict(sorted(snapshot.rejects.items())),
        **_told(snapshot.lineage, fetch),
        "arrays": [
            {"name": name, "dtype": array.dtype.str, "shape": list(array.shape), "bytes": array.nbytes}
            for name, array in snapshot.arrays.items()
        ],
        "state_digest": snapshot.digested().state_digest,
    }


def _told(lineage: Lineage, fetch: Callable[[str], bytes | None]) -> dict[str, Any]:
    """A summary of the history, and every stretch that was passed over; a broken history is said so."""
    fetched: list[str] = []

    def counted(name: str) -> bytes | None:
        fetched.append(name)
        return fetch(name)

    entries: list[Entry] = list(lineage.entries)
    broken = None
    try:
        entries = list(history(lineage, counted))
    except Broken as error:
        broken = str(error)
    kinds = Counter(type(entry).__name__ for entry in entries)
    return {
        "lost": [
            {"partition": e.partition, "start": e.start, "end": e.end, "events": e.events, "reason": e.reason}
            for e in entries
            if isinstance(e, Lost)
        ],
        "lineage": {
            "runs": kinds["Run"],
            "records": sum(entry.records for entry in entries if isinstance(entry, Run)),
            "rolled_back": kinds["Rolled"],
            "frozen": kinds["Frozen"],
            "sealed_segments": len(fetched),
            "checksum": f"{lineage.checksum:08x}",
            "broken": broken,
        },
    }


def difference(one: tuple[int, Snapshot], other: tuple[int, Snapshot]) -> dict[str, Any]:
    """What happened from the one generation to the other."""
    (generation, before), (later, after) = one, other
    events, errors = after.events - before.events, after.errors - before.errors
    positions = sorted(before.bookmark.positions.keys() | after.bookmark.positions.keys())
    slots = _slots(after.model)
    arrays = [
        _change(name, before.arrays.get(name), after.arrays.get(name), slots)
        for name in sorted(before.arrays.keys() | after.arrays.keys())
        if name.startswith("state/")
    ]
    return {
        "from": generation,
        "to": later,
        "events": events,
        "errors": errors,
        "error_rate": errors / events if events > 0 else None,
        "positions": [_moved(key, before, after) for key in positions],
        "settings": changed(before.model, after.model),
        "stored": _stored(before, after),
        "classes_added": [name for name in after.classes if name not in before.classes],
        "rejects": {
            reason: after.rejects.get(reason, 0) - before.rejects.get(reason, 0)
            for reason in sorted(before.rejects.keys() | after.rejects.keys())
        },
        "arrays": sorted(arrays, key=lambda array: not array.get("per_slot")),
    }


def _stored(before: Snapshot, after: Snapshot) -> list[dict[str, Any]]:
    """Rows that a kernel model had and has in store, class by class; nothing of a model with weights."""
    of_two = after.model.get("label", {}).get("positive")
    found = []
    for name in sorted(before.arrays.keys() & after.arrays.keys()):
        if name.startswith("state/") and name.endswith("support/size"):
            one, other = before.arrays[name].reshape(-1), after.arrays[name].reshape(-1)
            labels = after.classes if other.size > 1 else [of_two]
            found += [
                {"label": label, "from": int(a), "to": int(b)} for label, a, b in zip(labels, one, other, strict=False)
            ]
    return found


def _moved(key: str, before: Snapshot, after: Snapshot) -> dict[str, Any]:
    start, end = before.bookmark.positions.get(key), after.bookmark.positions.get(key)
    counted = start is not None and end is not None and start.isdecimal() and end.isdecimal()
    return {"partition": key, "from": start, "to": end, "moved": int(end or 0) - int(start or 0) if counted else None}


class Slots(NamedTuple):
    """What is known of the slots."""

    dim: int | None
    names: dict[int, str]
    arrays: frozenset[str] | None = None
    """Those that have a number per slot."""


def _slots(model: dict[str, Any]) -> Slots:
    """Bias and declared columns have a slot each, by their place; names that were hashed are not looked up."""
    features = model.get("features")
    if features is None:
        return Slots(None, {})
    table = SlotTable(features["columns"], features["bits"], bias=features["bias"])
    names = {slot: name for name, slot in table.columns.items()}
    try:
        arrays = frozenset(f"state/{name}" for name in slot_arrays(make(model.get("learner"))))
    except ValueError:  # a learner of another version, which cannot be made here
        arrays = None
    return Slots(table.dim, names | ({BIAS: "bias"} if table.bias else {}), arrays)


def _change(name: str, one: NDArray[Any] | None, other: NDArray[Any] | None, slots: Slots) -> dict[str, Any]:
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return {"name": name, "from": _form(one), "to": _form(other)}
    width = one.shape[-1] if one.shape else 1
    per_slot = width > 1 if slots.dim is None else width == slots.dim
    if slots.arrays is not None:
        per_slot = name in slots.arrays
    names = slots.names if per_slot else {}
    before, after = np.ascontiguousarray(one).reshape(-1), np.ascontiguousarray(other).reshape(-1)
    bits = np.dtype(f"u{one.dtype.itemsize}")  # so that NaN is what it was, and 0 and -0 are two values
    places = np.flatnonzero(before.view(bits) != after.view(bits))
    with np.errstate(all="ignore"):
        moved = np.abs(after[places].astype(np.float64) - before[places].astype(np.float64))
        norm = float(np.sqrt(np.square(moved).sum()))
    order = np.argsort(-np.nan_to_num(moved, nan=np.inf), kind="stable")[:LARGEST]
    return {
        "name": name,
        "norm": _number(norm),
        "per_slot": per_slot,
        "slots": width,
        "changed": int(np.unique(places % width).size),
        "largest": [
            {"row": int(place // width), "slot": int(place % width)}
            | ({"name": names[place % width]} if place % width in names else {})
            | {"from": _number(before[place]), "to": _number(after[place])}
            for place in places[order]
        ],
    }


def _form(array: NDArray[Any] | None) -> str | None:
    return None if array is None else f"{array.dtype.str}{list(array.shape)}"


def _number(value: Any) -> float | int | str:
    """JSON has no word for NaN and infinity."""
    number: float | int = value.item() if isinstance(value, np.generic) else value
    return number if np.isfinite(number) else str(number)
