"""A data file as a log of one partition: a position is the number of rows delivered.

The file is taken as it is when opened and has an end; there the source is exhausted, asked to stop or not.
Without a shuffle rows are streamed; with one they are held as they lie in the file, converted when delivered.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path

import numpy as np

from service.files import Convert, DataFile, converter, format_of, rows, scan
from service.files.reading import records
from service.sources.contract import Positions, Record, SourceDown, SourceLost

PARTITION = "0"


class FileSource:
    """A path's JSON lines pass unchanged, whatever they hold; a scanned file's rows are made into events."""

    def __init__(self, data: Path | DataFile, *, shuffle: int | None = None, limit: int | None = None) -> None:
        if isinstance(data, Path) and format_of(data) == "jsonl":
            self._file = DataFile(data, "jsonl", sum(1 for _ in records(data, "jsonl")))
            self._convert: Convert = list
        else:
            self._file = scan(data) if isinstance(data, Path) else data
            self._convert = converter(self._file)
        self._end = self._file.rows if limit is None else min(limit, self._file.rows)
        self._at = 0
        self._stream: Iterator[bytes] = iter(())
        self._held: list[bytes] = []
        self._draws = None if shuffle is None else np.random.default_rng(shuffle)
        if self._draws is not None:
            self._held = list(rows(self._file))
            if len(self._held) != self._file.rows:
                raise SourceLost(f"{self._file.path}: changed since it was scanned; start again")
        self.again()

    def again(self) -> None:
        """Begin another pass; under a shuffle its order is drawn anew from the same generator."""
        if self._draws is not None:
            self._order = self._draws.permutation(self._file.rows)
        self._go_to(0)

    def seek(self, positions: Mapping[str, str]) -> None:
        position = positions.get(PARTITION, "0")
        if not position.isdecimal() or int(position) > self._end:
            raise SourceLost(f"{self._file.path}: position {position} is not among its {self._end} rows")
        self._go_to(int(position))

    def until_end(self) -> None:
        """Nothing to do: the end is the file's."""

    def poll(self, seconds: float, most: int) -> list[Record]:
        if self.exhausted:
            time.sleep(seconds)
        first = self._at
        values = self._convert(self._take(min(most, self._end - first)))
        self._at += len(values)
        return [Record(PARTITION, str(at), str(at + 1), value) for at, value in enumerate(values, first)]

    def positions(self) -> Positions:
        return {PARTITION: str(self._at)}

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

    def _go_to(self, at: int) -> None:
        self._at = at
        if self._draws is None:
            self._stream = islice(rows(self._file), at, None)

    def _take(self, count: int) -> list[bytes]:
        if self._draws is not None:
            return [self._held[row] for row in self._order[self._at : self._at + count].tolist()]
        taken = list(islice(self._stream, count))
        if len(taken) < count:
            raise SourceLost(f"{self._file.path}: has fewer rows than when it was opened")
        return taken
