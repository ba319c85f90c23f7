"""A data file as a log of one partition: a position is the number of rows delivered.

The file is taken as it is when opened and has an end; there the source is exhausted, asked to stop or not. A bookmark
carries the checksum of all rows before the position, so another file, or another order of it, is not gone on with.
In file order rows are streamed; in another, shuffled or given, they are held as they lie in the file, converted when
delivered.
"""

import time
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from learners.batch import Ints
from service.files import Convert, DataFile, converter, format_of, rows, scan
from service.files.reading import records
from service.sources.contract import Bookmark, Gap, Positions, Record, SourceDown, SourceLost

PARTITION = "0"
CHUNK = 1_000


class FileSource:
    """A path's JSON lines pass unchanged, whatever they hold; a scanned file's rows are made into events."""

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
            raise SourceLost(f"{self._file.path}: it has no partition {only}")
        most = self._file.rows if order is None else order.size
        self._size = self._end = most if limit is None else min(limit, most)
        self._at = self._sum = 0
        self._stream: Iterator[bytes] = iter(())
        self._held: list[bytes] = []
        self._draws = None if shuffle is None else np.random.default_rng(shuffle)
        self._order = order
        if shuffle is not None or order is not None:
            self._held = list(rows(self._file))
            if len(self._held) != self._file.rows:
                raise SourceLost(f"{self._file.path}: changed since it was scanned; start again")
        self.again()

    def again(self) -> None:
        """Begin another pass; under a shuffle its order is drawn anew from the same generator."""
        if self._draws is not None:
            self._order = self._draws.permutation(self._file.rows)
        self._start_over()

    def seek(self, bookmark: Bookmark) -> None:
        position = bookmark.positions.get(PARTITION, "0")
        if not position.isdecimal() or int(position) > self._size:
            raise SourceLost(f"{self._file.path}: position {position} is not among its {self._size} rows")
        self._end = self._size
        self._start_over()
        while self._at < int(position):
            self._at += len(self._take(min(CHUNK, int(position) - self._at)))
        if bookmark.marks.get(PARTITION, str(self._sum)) != str(self._sum):
            raise SourceLost(f"{self._file.path}: its first {position} rows are others than those that were read")

    def until_end(self, end: Positions | None = None) -> Positions:
        """The file's end, unless an earlier one is given."""
        wanted = self._size if end is None else int(end.get(PARTITION, self._at))
        if wanted > self._size:
            raise SourceLost(f"{self._file.path}: it had {wanted} rows and has {self._size}; give the file as it was")
        self._end = wanted
        return {PARTITION: str(wanted)}

    def poll(self, seconds: float, most: int) -> list[Record]:
        if self.exhausted:
            time.sleep(seconds)
        first = self._at
        values = self._convert(self._take(max(0, min(most, self._end - first))))
        self._at += len(values)
        return [Record(PARTITION, str(at), str(at + 1), value) for at, value in enumerate(values, first)]

    def bookmark(self) -> Bookmark:
        return Bookmark({PARTITION: str(self._at)}, {PARTITION: str(self._sum)})

    def gaps(self) -> list[Gap]:
        """None: a file that has lost rows is refused."""
        return []

    def settled(self, positions: Positions) -> None:
        """Nobody else looks at a file's positions."""

    @property
    def exhausted(self) -> bool:
        return self._at >= self._end

    def lag(self) -> dict[str, int]:
        try:
            self._file.path.stat()
        except OSError as error:
            raise SourceDown(f"{self._file.path}: {error.strerror}") from error
        return {PARTITION: self._end - self._at}

    def close(self) -> None:
        self._stream = iter(())
        self._held = []

    def _start_over(self) -> None:
        self._at = self._sum = 0
        if self._order is None:
            self._stream = rows(self._file)

    def _take(self, count: int) -> list[bytes]:
        if self._order is not None:
            taken = [self._held[row] for row in self._order[self._at : self._at + count].tolist()]
        else:
            taken = list(islice(self._stream, count))
        if len(taken) < count:
            raise SourceLost(f"{self._file.path}: has fewer rows than when it was opened")
        for row in taken:
            self._sum = zlib.crc32(row, self._sum)
        return taken
