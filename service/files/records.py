"""Open a data file, plain or gzip, and split it into records: lines, or CSV rows of several lines.

A record is the file's bytes without the line end, so it can be stored, shuffled and converted
later.
"""

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Literal, TypeVar, cast

from service.errors import SettingsError

Format = Literal["svmlight", "csv", "jsonl"]
T = TypeVar("T")

SUFFIXES: dict[str, Format] = {
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    ".ndjson": "jsonl",
}
GZIP = b"\x1f\x8b"
SVMLIGHT_LINE = re.compile(rb"[-+.\deE]+(\s+(qid|\d+):\S+)*\s*(#.*)?")
MAX_RECORD = 64 << 20
"""Bytes of a CSV row over several lines. A longer row means that a quote was never closed."""


def format_of(path: Path) -> Format:
    """Detect the format by the name without `.gz`, else by the first line."""
    by_name = SUFFIXES.get(Path(path.name.lower().removesuffix(".gz")).suffix)
    if by_name is not None:
        return by_name
    first = next((line.strip() for line in _lines(path) if not _is_comment_or_blank(line)), None)
    if first is None:
        raise SettingsError(f"{path}: empty; give a file with rows")
    if first.startswith(b"{"):
        return "jsonl"
    if SVMLIGHT_LINE.fullmatch(first):
        return "svmlight"
    if b"," in first:
        return "csv"
    raise SettingsError(
        f"{path}: neither svmlight, CSV nor JSON lines by name or first line; "
        "name it .svm, .csv or .jsonl"
    )


def records(path: Path, form: Format) -> Iterator[tuple[int, bytes]]:
    """Yield line number (from 1) and bytes of each record.

    Blank lines and comment lines of svmlight are left out.
    """
    numbered = enumerate(_lines(path), 1)
    for number, line in numbered:
        record = line
        if form == "csv" and line.count(b'"') % 2:
            record = line + _rest_of_row(path, number, numbered)
        if record.isspace() or (form == "svmlight" and _is_comment_or_blank(record)):
            continue
        yield number, record.rstrip(b"\r\n")


def chunks(stream: Iterator[T], size: int = 1024) -> Iterator[list[T]]:
    while chunk := list(islice(stream, size)):
        yield chunk


def _is_comment_or_blank(line: bytes) -> bool:
    return line.isspace() or line.lstrip().startswith(b"#")


def _rest_of_row(path: Path, start: int, numbered: Iterator[tuple[int, bytes]]) -> bytes:
    """Read up to the line that closes the quote. A row has an even number of quotes (RFC 4180)."""
    rest: list[bytes] = []
    size = 0
    for _, line in numbered:
        rest.append(line)
        size += len(line)
        if line.count(b'"') % 2:
            return b"".join(rest)
        if size > MAX_RECORD:
            break
    raise SettingsError(
        f"{path}:{start}: a quote is opened and never closed; double the quotes inside a field"
    )


def _lines(path: Path) -> Iterator[bytes]:
    if path.exists() and not path.is_file():
        raise SettingsError(f"{path}: not a regular file; give one, because it is read repeatedly")
    try:
        with path.open("rb") as file, _decompress(file) as stream:
            yield next(stream, b"\n").removeprefix(codecs.BOM_UTF8)
            yield from stream
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise SettingsError(
            f"{path}: cannot be read ({reason}); give a whole file, plain or gzip"
        ) from error


def _decompress(file: io.BufferedReader) -> IO[bytes]:
    if file.peek(2)[:2] != GZIP:
        return file
    # GzipFile.readline is slow. A buffer makes it fast.
    return io.BufferedReader(cast("io.RawIOBase", gzip.GzipFile(fileobj=file)), 1 << 18)
