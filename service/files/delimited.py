"""CSV with a header (RFC 4180): numeric columns stay numbers, other ones are words, `?` and empty are absent.

A column is one or the other over the whole file, so a word in the last row makes strings of all: the scan
decides. Rows are handled a chunk at a time, column by column, each distinct cell once; that makes it fast.
"""

import csv
import math
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path

import msgspec

from service.errors import BadSettings
from service.files.datafile import DataFile, Labels, check_names, number
from service.files.reading import MAX_RECORD, chunks, records

ABSENT = {"", "?"}
REMEMBERED = 200_000
"""Cells remembered over all columns of a file, scanning or converting."""
LONG = 64
"""Characters from which a cell is not worth remembering."""
JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")

# The module's own limit would stop at a long text; the decoder has the limit that counts.
csv.field_size_limit(2 * MAX_RECORD)

Columns = list[tuple[str, ...]]


def scan(path: Path, *, label: str, text: Sequence[str], drop: Sequence[str], tree: str | None = None) -> DataFile:
    check_names(label, tree)
    stream = records(path, "csv")
    header = _header(path, stream, label, text, drop, tree)
    watched = {at: _Watch() for at, name in enumerate(header) if name not in {label, tree, *text, *drop}}
    room = REMEMBERED // len(header)
    labels, spellings = Labels(), set[str]()
    count = 0
    for chunk in chunks(stream):
        columns = _cells([raw for _, raw in chunk], len(header))
        if columns is None:
            raise _blame(path, chunk, len(header))
        for at, watch in watched.items():
            watch.see(columns[at], count, room)
        if new := set(columns[header.index(label)]) - spellings:
            for cell in dict.fromkeys(columns[header.index(label)]):
                if cell in new and cell.strip() not in ABSENT:
                    labels.see(msgspec.json.decode(label_json(cell)))
            if len(spellings) < room:
                spellings |= new
        count += len(chunk)
    if not count:
        raise BadSettings(f"{path}: a header and no rows; give a file with rows")
    for at, watch in watched.items():
        if not watch.word and watch.infinite is not None:
            line = _line_of(path, watch.infinite)
            raise BadSettings(f"{path}:{line}: column {header[at]} is not a finite number; leave it empty or `?`")
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


def converter(file: DataFile) -> Callable[[Sequence[bytes]], list[bytes]]:
    """Makes events of rows that `scan` has passed."""
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
        (file.header.index(name), _Fragments(b"," + msgspec.json.encode(name) + b":", write, room).__getitem__)
        for name, write in ((file.label, label_json), (file.tree, _string_json))
        if name is not None
    ]

    def events(raws: Sequence[bytes]) -> list[bytes]:
        columns = _cells(raws, len(file.header))
        if columns is None:
            raise ValueError("a row is malformed")
        rows = zip(*(map(fragment, columns[at]) for at, fragment in features), strict=True) if features else repeat(())
        others = zip(*(map(fragment, columns[at]) for at, fragment in beside), strict=True)
        return [
            b'{"features":{' + b",".join(filter(None, row)) + b"}" + b"".join(other) + b"}"
            for row, other in zip(rows, others, strict=bool(features))
        ]

    return events


def label_json(cell: str) -> bytes:
    """A label as JSON: a number or true/false where it reads as one, so that its sign can decide."""
    if cell.strip().lower() in {"true", "false"}:
        return cell.strip().lower().encode()
    value = number(cell)
    return _string_json(cell) if value is None or not math.isfinite(value) else _number_json(cell)


def _string_json(cell: str) -> bytes:
    return msgspec.json.encode(cell)


def _number_json(cell: str) -> bytes:
    """The same number as JSON spells it, with the file's own digits where they are JSON."""
    return (cell if JSON_NUMBER.fullmatch(cell) else repr(float(cell))).encode()


class _Watch:
    """Whether a column holds numbers only, looking at each distinct cell once."""

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
    """`"name":value` of a cell, nothing for an absent one; short cells are remembered while there is room."""

    def __init__(self, prefix: bytes, write: Callable[[str], bytes], room: int) -> None:
        super().__init__()
        self._prefix, self._write, self._room = prefix, write, room

    def __missing__(self, cell: str) -> bytes:
        fragment = b"" if cell.strip() in ABSENT else self._prefix + self._write(cell)
        if len(self) < self._room and len(cell) < LONG:
            self[cell] = fragment
        return fragment


def _header(
    path: Path,
    stream: Iterator[tuple[int, bytes]],
    label: str,
    text: Sequence[str],
    drop: Sequence[str],
    tree: str | None,
) -> tuple[str, ...]:
    first = next(stream, None)
    if first is None:
        raise BadSettings(f"{path}: empty; give a file with a header and rows")
    header = _row(path, *first)
    found = f"its columns are {', '.join(header)}"
    trees = [] if tree is None else [tree]
    for what, wanted in (("label", [label]), ("text", text), ("drop", drop), ("tree", trees)):
        for name in wanted:
            if name not in header:
                raise BadSettings(f"{path}: no column {name} for --{what}; {found}")
    if len(set(header)) != len(header):
        raise BadSettings(f"{path}: a column name twice in the header; {found}")
    if label in {*text, *drop}:
        raise BadSettings(f"{path}: the label {label} can be neither text nor dropped")
    if tree in {*text, *drop}:
        raise BadSettings(f"{path}: the tree {tree} can be neither text nor dropped")
    if not set(header) - {label, *drop}:
        raise BadSettings(f"{path}: no feature beside the label; {found}")
    return header


def _cells(raws: Sequence[bytes], width: int) -> Columns | None:
    """The chunk column by column; None if a row is malformed."""
    try:
        rows = list(csv.reader(map(bytes.decode, raws), strict=True))
        columns = list(zip(*rows, strict=True))
    except ValueError:  # not UTF-8, or rows of different lengths
        return None
    except csv.Error:
        return None
    return columns if len(rows) == len(raws) and len(columns) == width else None


def _row(path: Path, line: int, raw: bytes) -> tuple[str, ...]:
    try:
        return tuple(next(csv.reader([raw.decode()], strict=True)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise BadSettings(f"{path}:{line}: not CSV in UTF-8 ({error})") from error


def _blame(path: Path, chunk: Sequence[tuple[int, bytes]], width: int) -> BadSettings:
    """Says which row of the chunk is malformed."""
    for line, raw in chunk:
        found = len(_row(path, line, raw))
        if found != width:
            return BadSettings(f"{path}:{line}: {found} fields where the header has {width}")
    return BadSettings(f"{path}:{chunk[0][0]}: malformed CSV from here on")


def _line_of(path: Path, row: int) -> int:
    """The line on which a row begins, rows counted from 0 after the header."""
    return next(line for at, (line, _) in enumerate(records(path, "csv"), -1) if at == row)
