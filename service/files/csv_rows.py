"""Scan and convert CSV with a header (RFC 4180).

Numeric columns become numbers, other columns become strings.

`?` and an empty cell mean that the value is absent. The scan decides the type of a column for the
whole file, so one word in the last row makes all cells of its column strings. For speed, rows are
converted in chunks, column by column, and each distinct cell once.
"""

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path

import msgspec

from service.errors import SettingsError
from service.files.datafile import DataFile, Labels, check_names, number
from service.files.records import MAX_RECORD, chunks, records

ABSENT = {"", "?"}
REMEMBERED = 200_000
"""Distinct cells that a scan or a converter caches, over all columns of a file."""
LONG = 64
"""Characters of the shortest cell that is not cached."""
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

# The limit of the csv module would refuse a long text. The decoder has the limit that applies.
csv.field_size_limit(2 * MAX_RECORD)

Columns = list[tuple[str, ...]]


def scan(
    path: Path, *, label: str, text: Sequence[str], drop: Sequence[str], tree: str | None = None
) -> DataFile:
    check_names(label, tree)
    stream = records(path, "csv")
    header = _read_header(path, stream, label, text, drop, tree)
    watched = {
        at: _Watch() for at, name in enumerate(header) if name not in {label, tree, *text, *drop}
    }
    room = REMEMBERED // len(header)
    labels, spellings = Labels(), set[str]()
    label_at, count = header.index(label), 0
    for chunk in chunks(stream):
        columns = _parse_columns([raw for _, raw in chunk], len(header))
        if columns is None:
            raise _malformed_row(path, chunk, len(header))
        for at, watch in watched.items():
            watch.see(columns[at], count, room)
        new = _see_labels(labels, columns[label_at], spellings)
        if len(spellings) < room:
            spellings |= new
        count += len(chunk)
    if not count:
        raise SettingsError(f"{path}: a header and no rows; give a file with rows")
    _check_finite(path, header, watched)
    return DataFile(
        path,
        "csv",
        count,
        label,
        columns=tuple(header[at] for at, watch in watched.items() if not watch.word),
        words=tuple(header[at] for at, watch in watched.items() if watch.word),
        text=tuple(text),
        drop=tuple(drop),
        tree=tree,
        header=header,
        labels=labels.names,
        more_labels=labels.more,
        signs=frozenset(labels.signs),
    )


def _see_labels(labels: Labels, cells: Sequence[str], known: set[str]) -> set[str]:
    """Add the labels of cells that are not `known`, in order. Return these cells."""
    new = set(cells) - known
    if new:
        for cell in dict.fromkeys(cells):
            if cell in new and cell.strip() not in ABSENT:
                labels.see(msgspec.json.decode(label_json(cell)))
    return new


def _check_finite(path: Path, header: tuple[str, ...], watched: dict[int, "_Watch"]) -> None:
    for at, watch in watched.items():
        if not watch.word and watch.infinite is not None:
            line = _find_line(path, watch.infinite)
            raise SettingsError(
                f"{path}:{line}: column {header[at]} is not a finite number; leave it empty or `?`"
            )


def converter(file: DataFile) -> Callable[[Sequence[bytes]], list[bytes]]:
    """Make a function that converts rows which `scan` has accepted."""
    room = REMEMBERED // len(file.header)
    kinds = {
        **dict.fromkeys(file.columns, _number_json),
        **dict.fromkeys((*file.words, *file.text), _string_json),
    }
    features = [
        (at, _Fragments(msgspec.json.encode(name) + b":", kinds[name], room).__getitem__)
        for at, name in enumerate(file.header)
        if name in kinds
    ]
    beside = [
        (
            file.header.index(name),
            _Fragments(b"," + msgspec.json.encode(name) + b":", write, room).__getitem__,
        )
        for name, write in ((file.label, label_json), (file.tree, _string_json))
        if name is not None
    ]

    def events(raws: Sequence[bytes]) -> list[bytes]:
        columns = _parse_columns(raws, len(file.header))
        if columns is None:
            raise ValueError("a row is malformed")
        rows = (
            zip(*(map(fragment, columns[at]) for at, fragment in features), strict=True)
            if features
            else repeat(())
        )
        others = zip(*(map(fragment, columns[at]) for at, fragment in beside), strict=True)
        return [
            b'{"features":{' + b",".join(filter(None, row)) + b"}" + b"".join(other) + b"}"
            for row, other in zip(rows, others, strict=bool(features))
        ]

    return events


def label_json(cell: str) -> bytes:
    """Encode a label as JSON: as a number or true/false if it reads as one, else as a string."""
    if cell.strip().lower() in {"true", "false"}:
        return cell.strip().lower().encode()
    value = number(cell)
    return _string_json(cell) if value is None or not math.isfinite(value) else _number_json(cell)


def _string_json(cell: str) -> bytes:
    return msgspec.json.encode(cell)


def _number_json(cell: str) -> bytes:
    """Encode a number as JSON. Keep the file's digits if they are valid JSON."""
    return (cell if JSON_NUMBER.fullmatch(cell) else repr(float(cell))).encode()


class _Watch:
    """Finds whether a column holds only numbers. It parses each distinct cell once."""

    def __init__(self) -> None:
        self.word = False
        self.infinite: int | None = None
        self._seen: set[str] = set()

    def see(self, cells: tuple[str, ...], first_row: int, room: int) -> None:
        if self.word:
            return
        new = set(cells) - self._seen
        for cell in new:
            value = number(cell)
            if value is None:
                self.word = self.word or cell.strip() not in ABSENT
            elif not math.isfinite(value):
                row = first_row + cells.index(cell)
                self.infinite = row if self.infinite is None else min(row, self.infinite)
        if len(self._seen) < room:
            self._seen |= new


class _Fragments(dict[str, bytes]):
    """Maps a cell to its JSON `"name":value`, an absent cell to nothing.

    It caches short cells, up to `room` of them.
    """

    def __init__(self, prefix: bytes, write: Callable[[str], bytes], room: int) -> None:
        super().__init__()
        self._prefix = prefix
        self._write = write
        self._room = room

    def __missing__(self, cell: str) -> bytes:
        fragment = b"" if cell.strip() in ABSENT else self._prefix + self._write(cell)
        if len(self) < self._room and len(cell) < LONG:
            self[cell] = fragment
        return fragment


def _read_header(
    path: Path,
    stream: Iterator[tuple[int, bytes]],
    label: str,
    text: Sequence[str],
    drop: Sequence[str],
    tree: str | None,
) -> tuple[str, ...]:
    """Read the header, and check the names that were given on the command line."""
    first = next(stream, None)
    if first is None:
        raise SettingsError(f"{path}: empty; give a file with a header and rows")
    header = _parse_row(path, *first)
    columns = f"its columns are {', '.join(header)}"
    trees = [] if tree is None else [tree]
    for what, wanted in (("label", [label]), ("text", text), ("drop", drop), ("tree", trees)):
        for name in wanted:
            if name not in header:
                raise SettingsError(f"{path}: no column {name} for --{what}; {columns}")
    if len(set(header)) != len(header):
        raise SettingsError(f"{path}: a column name twice in the header; {columns}")
    if label in {*text, *drop}:
        raise SettingsError(f"{path}: the label {label} can be neither text nor dropped")
    if tree in {*text, *drop}:
        raise SettingsError(f"{path}: the tree {tree} can be neither text nor dropped")
    if not set(header) - {label, *drop}:
        raise SettingsError(f"{path}: no feature beside the label; {columns}")
    return header


def _parse_columns(raws: Sequence[bytes], width: int) -> Columns | None:
    """Parse a chunk into columns. Return None if a row is malformed."""
    try:
        rows = list(csv.reader(map(bytes.decode, raws), strict=True))
        columns = list(zip(*rows, strict=True))
    except ValueError:  # not UTF-8, or rows of different lengths
        return None
    except csv.Error:
        return None
    return columns if len(rows) == len(raws) and len(columns) == width else None


def _parse_row(path: Path, line: int, raw: bytes) -> tuple[str, ...]:
    try:
        return tuple(next(csv.reader([raw.decode()], strict=True)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}:{line}: not CSV in UTF-8 ({error})") from error


def _malformed_row(path: Path, chunk: Sequence[tuple[int, bytes]], width: int) -> SettingsError:
    """Make the error that names the malformed row of the chunk."""
    for line, raw in chunk:
        fields = len(_parse_row(path, line, raw))
        if fields != width:
            return SettingsError(f"{path}:{line}: {fields} fields where the header has {width}")
    return SettingsError(f"{path}:{chunk[0][0]}: malformed CSV from here on")


def _find_line(path: Path, row: int) -> int:
    """Find the line on which a row begins. Rows count from 0 after the header."""
    return next(line for at, (line, _) in enumerate(records(path, "csv"), -1) if at == row)
