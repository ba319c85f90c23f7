"""Decode the JSON of an event or a request into an `Event`, or a `Reject` with the reason.

The log, HTTP and files all use this one decoder. It is pure: the same bytes and settings give the
same result. It never raises and never clips a value. A value of 0 means the same as an absent one
and is left out, so it does not matter which of the two a producer writes.
"""

import copy
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from learners.batch import BIAS, NO_TREE, NO_TREES, Batch, Trees
from learners.hashing import SlotTable
from service.config.settings import Features, Label, Limits, canonical_label
from service.features.columnar import ColumnarDecoder
from service.features.reject import Reject
from service.features.slot_names import SlotNames
from service.features.text import chunks, parse_tree, tokenize

LARGEST_LABEL = 10**15
"""Largest absolute value of a posted label that is a number. Beyond it two numbers may have the
same spelling, or very many digits."""

TOKENS_PER_FEATURE = 16
"""Tokens of one field, n-grams included, for each feature that an event may have. A text with more
tokens is rejected before all of it is counted."""

EXACT = 2.0**52
"""The sum of two whole numbers below it is exact."""

RESERVED = ("id", "ts", "weight")
"""Fields of the format that stand beside the features."""

NUMBERS = frozenset({int, float})


class Event(NamedTuple):
    """One row, with its label, its weight and its tree."""

    slots: list[int]
    values: list[float]
    label: str | None
    weight: float
    tree: Trees | None = None
    """Every event of a model with trees has one. Other events have None."""


class Named(NamedTuple):
    """A decoded request, with the names of its hashed features."""

    event: Event
    names: dict[int, dict[str, None]]
    """Names by slot, in the order of the request. Each value is a dictionary used as an ordered
    set, because a hostile request has very many names in one slot."""


class Decoder:
    """Decodes the events of one model. It keeps up to `names` names of hashed features, from
    labelled events.
    """

    def __init__(self, features: Features, label: Label, limits: Limits, names: int = 0) -> None:
        self.slots = SlotTable(features.columns, features.bits, bias=features.bias)
        self.names = SlotNames(names, self.slots)
        self._features, self.limits = features, limits
        self._text = frozenset(features.text)
        self._label, self._tree = label.field, features.tree
        self._beside = {*RESERVED, features.tree}
        # The features of an event without the field `features`. With a tree they may be left out.
        self._no_features: dict[str, Any] | None = None if features.tree is None else {}
        self._only_tree = features.tree is not None and not features.columns and not features.bits
        self._json = msgspec.json.Decoder()
        self._column_slots = [*([BIAS] if features.bias else []), *self.slots.columns.values()]
        columns = features.columns
        self.tables = ColumnarDecoder(features, limits)
        self._columns: Callable[[dict[str, Any]], tuple[Any, ...]] = (
            itemgetter(*columns)
            if len(columns) > 1
            else lambda given: tuple(given[name] for name in columns)
        )

    def event(self, data: bytes) -> Event | Reject:
        """Decode a labelled event of the log. Skip unknown fields, because producers add some."""
        document = self._document(data, self.limits.max_bytes)
        return (
            document
            if isinstance(document, Reject)
            else self._decode_labelled(document, self._log_features(document))
        )

    def posted(self, data: bytes) -> Event | Reject:
        """Decode a labelled event before it is in the log.

        Reject unknown fields, because the caller can correct them.
        """
        document = self._document(data, self.limits.max_bytes)
        if isinstance(document, Reject):
            return document
        if not isinstance(document.get("id", ""), str) or type(document.get("ts", 0)) not in {
            int,
            float,
            str,
        }:
            return Reject("malformed")
        label = document.get(self._label)
        if isinstance(label, (int, float)) and not abs(label) <= LARGEST_LABEL:
            return Reject("label")
        if self._features.flat:
            named = {
                name: value
                for name, value in document.items()
                if name not in {self._label, *self._beside}
            }
            return self._decode_labelled(document, named)
        if not document.keys() <= {"features", self._label, *self._beside}:
            return Reject("unknown_field")
        return self._decode_labelled(document, document.get("features", self._no_features))

    def _decode_labelled(self, document: dict[str, Any], features: Any) -> Event | Reject:
        label = document.get(self._label)
        if not isinstance(label, (bool, int, float, str)) or (
            isinstance(label, float) and not math.isfinite(label)
        ):
            return Reject("label")
        weight = document.get("weight", 1.0)
        if type(weight) not in {int, float} or not 0.0 <= weight <= self.limits.max_abs:
            return Reject("weight")
        label = canonical_label(label)
        if len(label) > self.limits.max_name:
            return Reject("too_long")
        event = self._read(document, features, label, float(weight))
        if self.slots.met:
            self.names.commit(accepted=isinstance(event, Event))
        return event

    def instance(self, data: bytes) -> Event | Reject:
        """Decode the body of a prediction request.

        Reject unknown fields, because the caller can correct them.
        """
        document = self._document(data, len(data))
        return document if isinstance(document, Reject) else self._instance(document)

    def instances(self, data: bytes, most: int) -> Batch | Reject:
        """Decode the body of a batch request."""
        if (table := self.tables.read(data, most)) is not None:
            return table
        document = self._document(data, len(data))
        if isinstance(document, Reject):
            return document
        rows = document.get("instances")
        if not isinstance(rows, list):
            return Reject("malformed")
        if document.keys() != {"instances"}:
            return Reject("unknown_field")
        if len(rows) > most:
            return Reject("too_many_instances")
        events: list[Event] = []
        for place, row in enumerate(rows):
            event = self._instance(row) if isinstance(row, dict) else Reject("malformed")
            if isinstance(event, Reject):
                return event._replace(place=place)
            events.append(event)
        return batch(events)

    def _document(self, data: bytes, longest: int) -> dict[str, Any] | Reject:
        if len(data) > longest:
            return Reject("too_long")
        try:
            document = self._json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return Reject("range" if "out of range" in str(error) else "malformed")
        return document if isinstance(document, dict) else Reject("malformed")

    def _log_features(self, document: dict[str, Any]) -> Any:
        if self._only_tree:
            return {}
        if not self._features.flat:
            return document.get("features", self._no_features)
        fields = {
            name: value
            for name, value in document.items()
            if name != self._label and name not in self._beside
        }
        if self._features.bits:
            return fields
        return {name: value for name, value in fields.items() if name in self.slots.columns}

    def _instance(self, document: dict[str, Any]) -> Event | Reject:
        if self._features.flat:
            # The label is no feature when the model learns, so it must not become one here.
            if self._label in document:
                return Reject("unknown_field")
            named = {name: value for name, value in document.items() if name not in self._beside}
            return self._read(document, named, None, 1.0)
        if not document.keys() <= {"features", "id", self._tree}:
            return Reject("unknown_field")
        if not isinstance(document.get("id", ""), str):
            return Reject("malformed")
        return self._read(document, document.get("features", self._no_features), None, 1.0)

    def _read(
        self, document: dict[str, Any], features: Any, label: str | None, weight: float
    ) -> Event | Reject:
        try:
            event = self._row(features, label, weight)
        except OverflowError:  # an integer beyond the range of float
            return Reject("range")
        if self._tree is None or isinstance(event, Reject):
            return event
        tree = parse_tree(document.get(self._tree), self.limits.max_nodes)
        return tree if isinstance(tree, Reject) else event._replace(tree=tree)

    def _row(self, features: Any, label: str | None, weight: float) -> Event | Reject:
        if not isinstance(features, dict):
            return Reject("malformed")
        if len(features) > self.limits.max_features:
            return Reject("too_many")
        columns = self.slots.columns
        if len(features) == len(columns) and (values := self._all_columns(features)):
            return _make_event(self._column_slots, values, label, weight)
        row: dict[int, float] = {}
        for name, value in features.items():
            column = columns.get(name)
            if column is None:
                if reason := self._put(row, name, value):
                    return Reject(reason)
            elif type(value) is not float and type(value) is not int:
                return Reject("type")
            elif abs(number := float(value)) <= self.limits.max_abs:
                row[column] = number
            else:
                return Reject("range")
        if len(row) > self.limits.max_features:
            return Reject("too_many")
        slots = sorted(row)
        values = [row[slot] for slot in slots]
        if self.slots.bias:
            slots.insert(0, BIAS)
            values.insert(0, 1.0)
        return _make_event(slots, values, label, weight)

    def _all_columns(self, features: dict[str, Any]) -> list[float] | None:
        """Return the values of a row that has all columns and nothing else, without a Python loop.

        Return None for any other row and for a row to reject. The caller then reads it feature by
        feature and finds the reason.
        """
        try:
            values = self._columns(features)
            kinds = set(map(type, values))
            if not kinds <= NUMBERS or math.hypot(*values) > self.limits.max_abs:
                return None
        except (KeyError, OverflowError):
            return None
        numbers: Iterable[float] = map(float, values) if int in kinds else values
        return [1.0, *numbers] if self.slots.bias else [*numbers]

    def _put(self, row: dict[int, float], name: str, value: Any) -> str:
        """Add one feature that is not a column to the row. Return the reason if it is rejected."""
        if not self._features.bits:
            return "unknown_feature"
        if len(name) > self.limits.max_name:
            return "too_long"
        kind = type(value)
        if kind is float or kind is int:
            if abs(number := float(value)) > self.limits.max_abs:
                return "range"
            slot = self.slots.hash_slot(name)
            row[slot] = row.get(slot, 0.0) + number
            return ""
        if kind is str and name in self._text:
            return self._count(row, name, tokenize(value, self._features.ngrams))
        if kind is str:
            tokens: list[str] = [value]
        elif kind is bool:
            tokens = ["true" if value else "false"]
        elif kind is list and all(type(token) is str for token in value):
            tokens = value
        else:
            return "type"
        if name not in self._text and any(len(token) > self.limits.max_name for token in tokens):
            return "too_long"
        return self._count(row, name, chunks(tokens))

    def _count(self, row: dict[int, float], name: str, tokens: Iterable[list[str]]) -> str:
        """Count tokens into the row. Stop as soon as there are too many slots or tokens."""
        left = TOKENS_PER_FEATURE * self.limits.max_features
        for chunk in tokens:
            left -= len(chunk)
            if left < 0:
                return "too_many"
            for token, count in Counter(chunk).items():
                slot = self.slots.hash_slot(f"{name}={token}")
                row[slot] = _add_ones(row.get(slot, 0.0), count)
            if len(row) > self.limits.max_features:
                break  # `_row` rejects it after the other fields, which may have another reason
        return ""


def batch(events: Sequence[Event]) -> Batch:
    """Make a batch of rows for a learner from events of one model."""
    trees = (
        Trees.concatenate([event.tree or NO_TREE for event in events])
        if events and events[0].tree
        else NO_TREES
    )
    return Batch.from_rows(
        [(event.slots, event.values) for event in events], [event.weight for event in events], trees
    )


def instance_with_names(decoder: Decoder, data: bytes) -> Named | Reject:
    """Decode a request as `Decoder.instance` does, and collect the names of its hashed features."""
    slots = _NamingSlotTable(decoder.slots)
    reader = copy.copy(decoder)
    reader.slots = slots
    event = reader.instance(data)
    return event if isinstance(event, Reject) else Named(event, slots.names)


def _add_ones(value: float, count: int) -> float:
    """Add 1.0 to `value`, `count` times. The shortcut gives the same bits as the loop."""
    if abs(value) < EXACT and value.is_integer():
        return value + count
    for _ in range(count):
        value += 1.0
    return value


def _make_event(slots: list[int], values: list[float], label: str | None, weight: float) -> Event:
    if 0.0 in values:
        slots = [slot for slot, value in zip(slots, values, strict=True) if value != 0.0]
        values = [value for value in values if value != 0.0]
    return Event(slots, values, label, weight)


class _NamingSlotTable(SlotTable):
    """A table that shares its data with another table, and collects every hashed name."""

    def __init__(self, other: SlotTable) -> None:
        self.__dict__.update(other.__dict__)
        self.names: dict[int, dict[str, None]] = {}

    def hash_slot(self, name: str) -> int:
        slot = super().hash_slot(name)
        self.names.setdefault(slot, {})[name] = None
        return slot
