"""JSON lines. An object with `features` is an event already. Any other object becomes one.

Events and lines that are not objects keep their bytes. The decoder says what is wrong with them.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from service.errors import SettingsError
from service.files.datafile import DataFile, Labels, check_names
from service.files.records import records

BESIDE = ("id", "weight", "ts")
"""Fields of a flat object that become fields of the event, not features."""
NO_FEATURE = {*BESIDE, "split"}

FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])  # raw: every value keeps its digits
NULL = msgspec.Raw(b"null")


def scan(
    path: Path, *, label: str, text: Sequence[str], drop: Sequence[str], tree: str | None = None
) -> DataFile:
    check_names(label, tree)
    labels = Labels()
    count = 0
    unseen, treeless = set(text), tree is not None
    for _, raw in records(path, "jsonl"):
        count += 1
        fields = _fields(raw)
        if fields is None:
            continue
        unseen = set() if _is_event(fields) else unseen.difference(fields)
        treeless = treeless and tree not in fields
        try:
            labels.see(msgspec.json.decode(fields.get(label, NULL)))
        except (ValueError, RecursionError):  # out of range, not UTF-8 or nested too deeply
            continue
    if not count:
        raise SettingsError(f"{path}: empty; give a file with rows")
    if treeless:
        raise SettingsError(f"{path}: no line has the tree field {tree}")
    if unseen:
        raise SettingsError(f"{path}: no line has the text field {', '.join(sorted(unseen))}")
    return DataFile(
        path,
        "jsonl",
        count,
        label,
        text=tuple(text),
        drop=tuple(drop),
        tree=tree,
        labels=labels.names,
        more_labels=labels.more,
        signs=frozenset(labels.signs),
    )


def converter(file: DataFile) -> Callable[[bytes], bytes]:
    kept, left_out = set(file.text), {*NO_FEATURE, *file.drop, file.label, file.tree}
    named = [name for name in (file.label, file.tree) if name is not None]

    def event(raw: bytes) -> bytes:
        fields = _fields(raw)
        if fields is None or _is_event(fields):
            return raw
        present = {
            name: value for name, value in fields.items() if not _starts(value, b"n")
        }  # null: absent
        features = {name: value for name, value in present.items() if name not in left_out}
        if kept:
            features = {name: value for name, value in features.items() if name in kept}
        beside = {
            name: _as_text(value) if name == "id" else value
            for name in BESIDE
            if (value := present.get(name))
        }
        own = {name: fields[name] for name in named if name in fields}
        return msgspec.json.encode({"features": features, **own, **beside})

    return event


def _fields(raw: bytes) -> dict[str, msgspec.Raw] | None:
    try:
        return FIELDS.decode(raw)
    except (ValueError, RecursionError):  # not JSON, not an object, or a name is not UTF-8
        return None


def _is_event(fields: dict[str, msgspec.Raw]) -> bool:
    features = fields.get("features")
    return features is not None and _starts(features, b"{")


def _as_text(value: msgspec.Raw) -> msgspec.Raw:
    """Make a string of an id, because an event needs one and files often have numbers."""
    return (
        value
        if _starts(value, b'"')
        else msgspec.Raw(msgspec.json.encode(bytes(value).decode(errors="replace")))
    )


def _starts(value: msgspec.Raw, byte: bytes) -> bool:
    return bytes(memoryview(value)[:1]) == byte
