"""Describe and compare generations as plain values, for `onepass checkpoints` and `/admin`."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from learners.batch import BIAS
from learners.hashing import SlotTable
from learners.learner import slot_arrays
from learners.registry import make
from service.checkpoint.lineage import Entry, Lineage, LineageError, Lost, Run, history
from service.checkpoint.snapshot import Snapshot
from service.checkpoint.store import Freeze, Manifest
from service.config.diff import diff_values
from service.config.renamed import current_spec

LARGEST = 5
"""Number of largest changes of an array to list."""


class Slots(NamedTuple):
    """Layout of the slots, as far as a checkpoint's settings give it."""

    dim: int | None
    names: dict[int, str]
    arrays: frozenset[str] | None = None
    """Names of the arrays with one number per slot."""


def summarize_manifest(manifest: Manifest | str, now: float) -> dict[str, Any]:
    """One row of the list of generations. A damaged manifest has only its error text."""
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


def describe_freeze(freeze: Freeze | None) -> dict[str, Any] | None:
    """Since when, and at which generation, learning is frozen; None if it is not."""
    return None if freeze is None else {"since": freeze.since, "generation": freeze.generation}


def describe_generation(
    manifest: Manifest,
    snapshot: Snapshot,
    fetch: Callable[[str], bytes | None],
    freeze: Freeze | None,
    now: float,
) -> dict[str, Any]:
    """Describe everything about a generation except the numbers in its arrays."""
    return {
        **summarize_manifest(manifest, now),
        "frozen": describe_freeze(freeze),
        "commit": manifest.commit,
        "parent": manifest.parent,
        "model": snapshot.model,
        "classes": snapshot.classes,
        "positions": snapshot.bookmark.positions,
        "marks": snapshot.bookmark.marks,
        "rejects": dict(sorted(snapshot.rejects.items())),
        **_describe_lineage(snapshot.lineage, fetch),
        "arrays": [
            {
                "name": name,
                "dtype": array.dtype.str,
                "shape": list(array.shape),
                "bytes": array.nbytes,
            }
            for name, array in snapshot.arrays.items()
        ],
        "state_digest": snapshot.with_digest().state_digest,
    }


def compare_generations(one: tuple[int, Snapshot], other: tuple[int, Snapshot]) -> dict[str, Any]:
    """List what changed from one generation to a later one."""
    generation, before = one
    later, after = other
    events = after.events - before.events
    errors = after.errors - before.errors
    positions = sorted(before.bookmark.positions.keys() | after.bookmark.positions.keys())
    slots = _slots_of(after.model)
    arrays = [
        _compare_array(name, before.arrays.get(name), after.arrays.get(name), slots)
        for name in sorted(before.arrays.keys() | after.arrays.keys())
        if name.startswith("state/")
    ]
    return {
        "from": generation,
        "to": later,
        "events": events,
        "errors": errors,
        "error_rate": errors / events if events > 0 else None,
        "positions": [_compare_position(key, before, after) for key in positions],
        "settings": diff_values(current_spec(before.model), current_spec(after.model)),
        "stored": _compare_support(before, after),
        "classes_added": [name for name in after.classes if name not in before.classes],
        "rejects": {
            reason: after.rejects.get(reason, 0) - before.rejects.get(reason, 0)
            for reason in sorted(before.rejects.keys() | after.rejects.keys())
        },
        "arrays": sorted(arrays, key=lambda array: not array.get("per_slot")),
    }


def _describe_lineage(lineage: Lineage, fetch: Callable[[str], bytes | None]) -> dict[str, Any]:
    """Summarize the lineage and list the skipped stretches; `broken`: why it is incomplete."""
    fetched: list[str] = []

    def fetch_and_count(name: str) -> bytes | None:
        fetched.append(name)
        return fetch(name)

    entries: list[Entry] = list(lineage.entries)
    broken = None
    try:
        entries = list(history(lineage, fetch_and_count))
    except LineageError as error:
        broken = str(error)
    kinds = Counter(type(entry).__name__ for entry in entries)
    return {
        "lost": [
            {
                "partition": entry.partition,
                "start": entry.start,
                "end": entry.end,
                "events": entry.events,
                "reason": entry.reason,
            }
            for entry in entries
            if isinstance(entry, Lost)
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


def _compare_support(before: Snapshot, after: Snapshot) -> list[dict[str, Any]]:
    """Stored rows of a kernel model before and after, per class; empty for a model with weights."""
    positive = after.model.get("label", {}).get("positive")
    changes = []
    for name in sorted(before.arrays.keys() & after.arrays.keys()):
        if name.startswith("state/") and name.endswith("support/size"):
            one, other = before.arrays[name].reshape(-1), after.arrays[name].reshape(-1)
            labels = after.classes if other.size > 1 else [positive]
            changes += [
                {"label": label, "from": int(a), "to": int(b)}
                for label, a, b in zip(labels, one, other, strict=False)
            ]
    return changes


def _compare_position(key: str, before: Snapshot, after: Snapshot) -> dict[str, Any]:
    start = before.bookmark.positions.get(key)
    end = after.bookmark.positions.get(key)
    countable = start is not None and end is not None and start.isdecimal() and end.isdecimal()
    moved = int(end or 0) - int(start or 0) if countable else None
    return {"partition": key, "from": start, "to": end, "moved": moved}


def _slots_of(model: dict[str, Any]) -> Slots:
    """Bias and declared columns have one slot each; hashed names are not looked up."""
    features = model.get("features")
    if features is None:
        return Slots(None, {})
    table = SlotTable(features["columns"], features["bits"], bias=features["bias"])
    names = {slot: name for name, slot in table.columns.items()}
    try:
        arrays = frozenset(f"state/{name}" for name in slot_arrays(make(model.get("learner"))))
    except ValueError:  # another version's learner, unknown here
        arrays = None
    return Slots(table.dim, names | ({BIAS: "bias"} if table.bias else {}), arrays)


def _compare_array(
    name: str, one: NDArray[Any] | None, other: NDArray[Any] | None, slots: Slots
) -> dict[str, Any]:
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return {"name": name, "from": _dtype_and_shape(one), "to": _dtype_and_shape(other)}
    width = one.shape[-1] if one.shape else 1
    per_slot = width > 1 if slots.dim is None else width == slots.dim
    if slots.arrays is not None:
        per_slot = name in slots.arrays
    names = slots.names if per_slot else {}
    before = np.ascontiguousarray(one).reshape(-1)
    after = np.ascontiguousarray(other).reshape(-1)
    bits = np.dtype(f"u{one.dtype.itemsize}")  # compare bits: NaN equals itself, 0 and -0 differ
    changed = np.flatnonzero(before.view(bits) != after.view(bits))
    with np.errstate(all="ignore"):
        moved = np.abs(after[changed].astype(np.float64) - before[changed].astype(np.float64))
        norm = float(np.sqrt(np.square(moved).sum()))
    order = np.argsort(-np.nan_to_num(moved, nan=np.inf), kind="stable")[:LARGEST]
    return {
        "name": name,
        "norm": _number(norm),
        "per_slot": per_slot,
        "slots": width,
        "changed": int(np.unique(changed % width).size),
        "largest": [
            {"row": int(index // width), "slot": int(index % width)}
            | ({"name": names[index % width]} if index % width in names else {})
            | {"from": _number(before[index]), "to": _number(after[index])}
            for index in changed[order]
        ],
    }


def _dtype_and_shape(array: NDArray[Any] | None) -> str | None:
    return None if array is None else f"{array.dtype.str}{list(array.shape)}"


def _number(value: Any) -> float | int | str:
    """Write NaN and infinity as text, because JSON has no such numbers."""
    number: float | int = value.item() if isinstance(value, np.generic) else value
    return number if np.isfinite(number) else str(number)
