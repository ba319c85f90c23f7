"""A data file as a log of one partition. A position is the number of rows delivered.

The source delivers the rows that the file had when it was opened, and then ends. A bookmark has the
checksum of all rows before the position, so reading does not go on in another file or in another
order. If the file is changed in place while it is read, other than by appending, the reader stops.
If another file replaces it (by a rename), the reader continues with the old content. Rows in file
order are streamed. For another order, shuffled or given, all rows are kept in memory as bytes of
the file. Each row is converted when it is delivered.
"""

import os
import time
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from learners.batch import Ints
from service.files import Convert, DataFile, converter, format_of, rows, scan
from service.files.records import records
from service.sources.base import (
    Bookmark,
    Gap,
    Positions,
    Record,
    SourceLostError,
    SourceUnavailableError,
)

PARTITION = "0"
CHUNK = 1_000
"""Rows that `seek` reads at once."""
BLOCK = 1 << 20
"""Bytes that are read at once for a checksum."""


class Content(NamedTuple):
    """The content of a file at one time."""

    stat: os.stat_result
    """The status when the content was last checked."""
    size: int
    checksum: int
    """Checksum of the first `size` bytes."""

    def unchanged(self, now: os.stat_result) -> bool:
        """Whether the status shows that nobody wrote to the file since."""
        then = self.stat
        return (now.st_size, now.st_mtime_ns) == (then.st_size, then.st_mtime_ns)


class FileSource:
    """Delivers the rows of a data file as events. The JSON lines of a plain path pass unchanged."""

    def __init__(
        self,
        data: Path | DataFile,
        *,
        shuffle: int | None = None,
        order: Ints | None = None,
        limit: int | None = None,
        only: str | None = None,
    ) -> None:
        if isinstance(data, Path) and format_of(data) == "jsonl":
            self._file = DataFile(data, "jsonl", sum(1 for _ in records(data, "jsonl")))
            self._convert: Convert = list
        else:
            self._file = scan(data) if isinstance(data, Path) else data
            self._convert = converter(self._file)
        if only not in (None, PARTITION):
            raise SourceLostError(f"{self._file.path}: it has no partition {only}")
        most = self._file.rows if order is None else order.size
        self._size = self._end = most if limit is None else min(limit, most)
        self._at = self._checksum_at = self._checksum_before = 0
        self._polled: list[bytes] = []
        self._stream: Iterator[bytes] = iter(())
        self._content: Content | None = None
        self._rows: list[bytes] = []
        self._generator = None if shuffle is None else np.random.default_rng(shuffle)
        self._order = order
        if shuffle is not None or order is not None:
            self._rows = list(rows(self._file))
            if len(self._rows) != self._file.rows:
                raise SourceLostError(
                    f"{self._file.path}: changed since it was scanned; start again"
                )
        self.again()

    def again(self) -> None:
        """Begin another pass. With a shuffle the same generator draws another order."""
        if self._generator is not None:
            self._order = self._generator.permutation(self._file.rows)
        self._start_over()

    def seek(self, bookmark: Bookmark) -> None:
        position = bookmark.positions.get(PARTITION, "0")
        if not position.isdecimal() or int(position) > self._size:
            raise SourceLostError(
                f"{self._file.path}: position {position} is not among its {self._size} rows"
            )
        self._end = self._size
        self._start_over()
        while self._at < int(position):
            self._at += len(self._take(min(CHUNK, int(position) - self._at)))
        if bookmark.marks.get(PARTITION, str(self._checksum_at)) != str(self._checksum_at):
            raise SourceLostError(
                f"{self._file.path}: its first {position} rows differ from those that were read"
            )

    def stop_at_end(self, end: Positions | None = None) -> Positions:
        """Stop at the file's end, or at an earlier one if it is given."""
        wanted = self._size if end is None else int(end.get(PARTITION, self._at))
        if wanted > self._size:
            raise SourceLostError(
                f"{self._file.path}: it had {wanted} rows and has {self._size} now; restore the"
                " original file"
            )
        self._end = wanted
        return {PARTITION: str(wanted)}

    def poll(self, seconds: float, most: int) -> list[Record]:
        if self.at_end:
            time.sleep(seconds)
        first, self._checksum_before = self._at, self._checksum_at
        self._polled = self._take(max(0, min(most, self._end - first)))
        values = self._convert(self._polled)
        self._at += len(values)
        return [
            Record(PARTITION, str(at), str(at + 1), value) for at, value in enumerate(values, first)
        ]

    def bookmark(self, taken: int | None = None) -> Bookmark:
        at, checksum = self._at, self._checksum_at
        if taken is not None:
            at -= len(self._polled) - taken
            checksum = self._checksum_before
            for row in self._polled[:taken]:
                checksum = zlib.crc32(row, checksum)
        return Bookmark({PARTITION: str(at)}, {PARTITION: str(checksum)})

    def gaps(self) -> list[Gap]:
        """Return no gaps, because a file that lost rows is refused."""
        return []

    def checkpointed(self, positions: Positions) -> None:
        """Do nothing: no lag tool reads a file's positions."""

    @property
    def at_end(self) -> bool:
        return self._at >= self._end

    def lag(self) -> dict[str, int]:
        try:
            self._file.path.stat()
        except OSError as error:
            raise SourceUnavailableError(f"{self._file.path}: {error.strerror}") from error
        return {PARTITION: self._end - self._at}

    def close(self) -> None:
        self._stream = iter(())
        self._rows = []

    def _start_over(self) -> None:
        self._at = self._checksum_at = 0
        if self._order is None:
            self._content = _read_content(self._file.path, self._content)
            self._stream = rows(self._file)

    def _take(self, count: int) -> list[bytes]:
        if self._order is not None:
            batch = [self._rows[row] for row in self._order[self._at : self._at + count].tolist()]
        else:
            batch = list(islice(self._stream, count))
            self._check_content()
        if len(batch) < count:
            raise SourceLostError(f"{self._file.path}: has fewer rows than when it was opened")
        for row in batch:
            self._checksum_at = zlib.crc32(row, self._checksum_at)
        return batch

    def _check_content(self) -> None:
        """Raise `SourceLostError` if the bytes that the file had at the start have changed.

        More may have been appended.
        """
        known, path = self._content, self._file.path
        try:
            now = path.stat()
            if known is None or known.unchanged(now) or now.st_ino != known.stat.st_ino:
                return  # the file was replaced: the old content is still being read
            checksum = _checksum(path, known.size)
        except OSError:
            return  # the file was deleted: it is still being read
        if now.st_size < known.size:
            raise SourceLostError(f"{path}: has fewer rows than when it was opened")
        if checksum != known.checksum:
            raise SourceLostError(f"{path}: changed while it was read; restore the original file")
        self._content = known._replace(stat=now)


def _read_content(path: Path, known: Content | None) -> Content | None:
    """Return the content now. None if there is no file, which is an error when it is opened."""
    try:
        now = path.stat()
        if known is not None and known.stat.st_ino == now.st_ino and known.unchanged(now):
            return known
        return Content(now, now.st_size, _checksum(path, now.st_size))
    except OSError:
        return None


def _checksum(path: Path, size: int) -> int:
    checksum = 0
    with path.open("rb") as file:
        while size > 0 and (block := file.read(min(BLOCK, size))):
            checksum = zlib.crc32(block, checksum)
            size -= len(block)
    return checksum
