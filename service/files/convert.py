"""Convert a data file to events: scan the file once, then convert its rows.

The conversion of a row depends only on the row and the scan. So any order and any batches of rows
give the same bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from service.config.settings import canonical_label
from service.errors import SettingsError
from service.files import csv_rows, jsonl, svmlight
from service.files.datafile import DataFile
from service.files.records import chunks, format_of, records

Convert = Callable[[Sequence[bytes]], list[bytes]]


def scan(
    path: Path,
    *,
    label: str = "label",
    text: Sequence[str] = (),
    drop: Sequence[str] = (),
    tree: str | None = None,
) -> DataFile:
    """Read the file once to find its rows, features and labels.

    A malformed file raises `SettingsError` with the line.
    """
    form = format_of(path)
    if form == "csv":
        return csv_rows.scan(path, label=label, text=text, drop=drop, tree=tree)
    if form == "jsonl":
        return jsonl.scan(path, label=label, text=text, drop=drop, tree=tree)
    if tree is not None:
        raise SettingsError(
            f"{path}: svmlight has no trees; write JSON lines with the tree as a field"
        )
    if text or drop:
        raise SettingsError(f"{path}: svmlight has no names for --text or --drop; leave them out")
    return svmlight.scan(path, label=label)


def rows(file: DataFile) -> Iterator[bytes]:
    """Yield the rows as bytes of the file."""
    stream = records(file.path, file.format)
    if file.format == "csv":
        next(stream, None)  # the header
    for _, raw in stream:
        yield raw


def converter(file: DataFile) -> Convert:
    """Make a function that converts rows to events. Each thread needs its own."""
    if file.format == "csv":
        convert = csv_rows.converter(file)
    else:
        convert = _convert_each(
            svmlight.converter(file) if file.format == "svmlight" else jsonl.converter(file)
        )

    rename = _make_renamer(file)

    def convert_rows(raws: Sequence[bytes]) -> list[bytes]:
        try:
            return rename(convert(raws)) if raws else []
        except ValueError as error:
            raise SettingsError(
                f"{file.path}: changed since it was scanned ({error}); start again"
            ) from error

    return convert_rows


def events(file: DataFile) -> Iterator[bytes]:
    """Yield the events in file order."""
    convert = converter(file)
    for chunk in chunks(rows(file)):
        yield from convert(chunk)


def label_in(event: bytes, field: str) -> str | None:
    """Return the label of an event as the decoder spells it. None if it has none."""
    try:
        label = msgspec.json.decode(jsonl.FIELDS.decode(event)[field])
    except (ValueError, RecursionError, KeyError):
        return None
    return canonical_label(label) if isinstance(label, (bool, int, float, str)) else None


def _make_renamer(file: DataFile) -> Convert:
    """Make a function that renames labels and keeps all other bytes."""
    if not file.renamed:
        return list
    names = {label: msgspec.Raw(msgspec.json.encode(name)) for label, name in file.renamed}

    def rename(event: bytes) -> bytes:
        name = names.get(label_in(event, file.label) or "")
        return (
            event
            if name is None
            else msgspec.json.encode({**jsonl.FIELDS.decode(event), file.label: name})
        )

    return _convert_each(rename)


def _convert_each(convert: Callable[[bytes], bytes]) -> Convert:
    return lambda raws: [convert(raw) for raw in raws]
