"""From a path to events: scan the file once, then convert its rows, all at once or as they are asked for.

Conversion depends on the row and the scan only, so any order and any cut of the rows give the same bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from service.errors import BadSettings
from service.files import delimited, jsonl, svmlight
from service.files.datafile import DataFile
from service.files.reading import chunks, format_of, records

Convert = Callable[[Sequence[bytes]], list[bytes]]


def scan(path: Path, *, label: str = "label", text: Sequence[str] = (), drop: Sequence[str] = ()) -> DataFile:
    """One pass over the file: rows, features and labels; a file that is wrong stops here, with the line."""
    form = format_of(path)
    if form == "csv":
        return delimited.scan(path, label=label, text=text, drop=drop)
    if form == "jsonl":
        return jsonl.scan(path, label=label, text=text, drop=drop)
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

    def checked(raws: Sequence[bytes]) -> list[bytes]:
        try:
            return convert(raws) if raws else []
        except ValueError as error:
            raise BadSettings(f"{file.path}: changed since it was scanned ({error}); start again") from error

    return checked


def events(file: DataFile) -> Iterator[bytes]:
    """Event bytes in file order."""
    convert = converter(file)
    for chunk in chunks(rows(file)):
        yield from convert(chunk)


def _each(event: Callable[[bytes], bytes]) -> Convert:
    return lambda raws: [event(raw) for raw in raws]
