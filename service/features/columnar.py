"""Decode many rows at once if each has every declared column and nothing else."""

from itertools import chain
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import astuple

from learners.batch import BIAS, Array, Batch
from service.config.settings import Features, Limits
from service.features.reject import Reject


class ColumnarDecoder:
    """Decodes rows of all columns as one table. It makes the same batch as `Decoder`, faster."""

    def __init__(self, features: Features, limits: Limits) -> None:
        self._limits = limits
        self._columns = len(features.columns)
        self._bias = features.bias
        self._slots = np.arange(
            BIAS if features.bias else BIAS + 1, BIAS + 1 + self._columns, dtype=np.int32
        )
        plain = features.columns and not (features.flat or features.tree)
        self._decoder = _make_decoder(features.columns) if plain else None

    def read(self, data: bytes, most: int) -> Batch | Reject | None:
        """Decode the body of a batch request.

        Return None for any other body. `Decoder` then reads it row by row and finds what is wrong.
        """
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
        """Make a batch with one row for each row of the table.

        A number out of range gives a `Reject` with the index of its row.
        """
        if len(table) and self._columns > self._limits.max_features:
            return Reject("too_many", 0)
        in_range = (np.abs(table) <= self._limits.max_abs).all(axis=1)
        if not in_range.all():
            return Reject("range", int(in_range.argmin()))
        return Batch.from_columns(
            self._slots, np.column_stack([np.ones(len(table)), table]) if self._bias else table
        )


def _make_decoder(columns: tuple[str, ...]) -> msgspec.json.Decoder[Any] | None:
    """Make a typed decoder. Return None if a name needs JSON escapes, which it does not support."""
    fields = [f"column_{index}" for index in range(len(columns))]
    strict: Any = {"forbid_unknown_fields": True, "gc": False}
    names = dict(zip(fields, columns, strict=True))
    try:
        features = msgspec.defstruct(
            "Features", [(field, float) for field in fields], rename=names, **strict
        )
    except ValueError:
        return None
    instance: Any = msgspec.defstruct("Instance", [("features", features)], **strict)
    return msgspec.json.Decoder(
        msgspec.defstruct("Instances", [("instances", list[instance])], **strict)
    )
