"""Rows that have every declared column and nothing else, many at once: a table, with no step for each row."""

from itertools import chain
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import astuple

from learners.batch import BIAS, Array, Batch
from service.reasons import Reject
from service.settings import Features, Limits


class ColumnTables:
    """What `Decoder` makes of such rows one by one, in a fraction of the time."""

    def __init__(self, features: Features, limits: Limits) -> None:
        self._limits = limits
        self._columns = len(features.columns)
        self._bias = features.bias
        self._slots = np.arange(BIAS if features.bias else BIAS + 1, BIAS + 1 + self._columns, dtype=np.int32)
        plain = features.columns and not (features.flat or features.tree)
        self._decoder = _decoder(features.columns) if plain else None

    def read(self, data: bytes, most: int) -> Batch | Reject | None:
        """The body of a batch request; None if it is any other: read row by row, it can say what is wrong."""
        if self._decoder is None:
            return None
        try:
            rows = self._decoder.decode(data).instances
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        if len(rows) > most:
            return None
        numbers = chain.from_iterable([astuple(row.features) for row in rows])
        table = np.fromiter(numbers, np.float64, len(rows) * self._columns)
        return self.batch(table.reshape(len(rows), self._columns))

    def batch(self, table: Array) -> Batch | Reject:
        """A row of the batch for each of the table; what is out of range is named by its place."""
        if len(table) and self._columns > self._limits.max_features:
            return Reject("too_many", 0)
        fine = (np.abs(table) <= self._limits.max_abs).all(axis=1)
        if not fine.all():
            return Reject("range", int(fine.argmin()))
        return Batch.of_columns(self._slots, np.column_stack([np.ones(len(table)), table]) if self._bias else table)


def _decoder(columns: tuple[str, ...]) -> msgspec.json.Decoder[Any] | None:
    """None where a name has a character that JSON escapes, which such a decoder does not know."""
    fields = [f"column_{place}" for place in range(len(columns))]
    strict: Any = {"forbid_unknown_fields": True, "gc": False}
    names = dict(zip(fields, columns, strict=True))
    try:
        features = msgspec.defstruct("Features", [(field, float) for field in fields], rename=names, **strict)
    except ValueError:
        return None
    instance: Any = msgspec.defstruct("Instance", [("features", features)], **strict)
    return msgspec.json.Decoder(msgspec.defstruct("Instances", [("instances", list[instance])], **strict))
