"""From a path to events: scan the file once, then convert its rows, all at once or as they are asked for.

Conversion depends on the row and the scan only, so any order and any cut of the rows give the same bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from service.errors import BadSettings
from service.files import delimited, jsonl, svmlight
from service.files.datafile import DataFile
from service.files.reading import chunks, format_of, records
from service.settings import canonical_label

Convert = Callable[[Sequence[bytes]], list[bytes]]


def scan(
    path: Path,
    *,
    label: str = "label",
    text: Sequence[str] = (),
    drop: Sequence[str] = (),
    tree: str | None = None,
) -> DataFile:
    """One pass over the file: rows, features and labels; a file that is wrong stops here, with the line."""
    form = format_of(path)
    if form == "csv":
        return delimited.scan(path, label=label, text=text, drop=drop, tree=tree)
    if form == "jsonl":
        return jsonl.scan(path, label=label, text=text, drop=drop, tree=tree)
    if tree is not None:
        raise BadSettings(f"{path}: svmlight has no trees; write JSON lines with the tree as a field")
    if text or drop:
        raise BadSettings(f"{path}: svmlight has no names for --text or --drop; leave them out")
    return svmlight.scan(path, label=label)


def rows(file: DataFile) -> Iterator[bytes]:
    """The rows as they lie in the file, ready to be held or converted."""
    stream = records(file.path, file.format)
    if file.format == "csv":
        next(stream, None)  # the header
    for _, raw in stream:
        yield raw


def converter(file: DataFile) -> Convert:
    """Turns rows into event bytes; one converter serves one thread."""
    if file.format == "csv":
        convert = delimited.converter(file)
    else:
        convert = _each(svmlight.converter(file) if file.format == "svmlight" else jsonl.converter(file))

    renamed = _renaming(file)

    def checked(raws: Sequence[bytes]) -> list[bytes]:
        try:
            return renamed(convert(raws)) if raws else []
        except ValueError as error:
            raise BadSettings(f"{file.path}: changed since it was scanned ({error}); start again") from error

    return checked


def events(file: DataFile) -> Iterator[bytes]:
    """Event bytes in file order."""
    convert = converter(file)
    for chunk in chunks(rows(file)):
        yield from convert(chunk)


def label_in(event: bytes, field: str) -> str | None:
    """An event's label as the decoder spells it; None for what has none."""
    try:
        label = msgspec.json.decode(jsonl.FIELDS.decode(event)[field])
    except (ValueError, RecursionError, KeyError):
        return None
    return canonical_label(label) if isinstance(label, (bool, int, float, str)) else None


def _renaming(file: DataFile) -> Convert:
    """Puts another name in the label's place; everything beside it keeps its bytes."""
    if not file.renamed:
        return list
    names = {label: msgspec.Raw(msgspec.json.encode(name)) for label, name in file.renamed}

    def rename(event: bytes) -> bytes:
        name = names.get(label_in(event, file.label) or "")
        return event if name is None else msgspec.json.encode({**jsonl.FIELDS.decode(event), file.label: name})

    return _each(rename)


def _each(event: Callable[[bytes], bytes]) -> Convert:
    return lambda raws: [event(raw) for raw in raws]
