"""Wire bytes to `Event` or `Reject`: the only place that knows the JSON, for the log, for HTTP and for files.

Pure: the same bytes and settings give the same answer, and nothing is ever raised or clipped. A value of 0 is the same
as an absent one and is left out, so that it does not matter which of the two a producer writes.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from learners.batch import BIAS, NO_TREE, NO_TREES, Batch, Trees
from learners.hashing import SlotTable
from service.column_tables import ColumnTables
from service.names import Names
from service.parses import tree_of
from service.reasons import Reject
from service.settings import Features, Label, Limits, canonical_label
from service.words import words

LARGEST_LABEL = 10**15
"""Of a label that is posted as a number: beyond it two numbers may be written alike, or with very many digits."""
RESERVED = ("id", "ts", "weight")
NUMBERS = frozenset({int, float})


class Event(NamedTuple):
    """One row and what came with it."""

    slots: list[int]
    values: list[float]
    label: str | None
    weight: float
    tree: Trees | None = None
    """Of a model with trees every event has one, of another none."""


class Decoder:
    """The decoder of one model's events; of those of the log it keeps up to `names` names of hashed features."""

    def __init__(self, features: Features, label: Label, limits: Limits, names: int = 0) -> None:
        self.slots = SlotTable(features.columns, features.bits, bias=features.bias)
        self.names = Names(names, self.slots)
        self._features, self.limits = features, limits
        self._text = frozenset(features.text)
        self._label, self._tree = label.field, features.tree
        self._beside = {*RESERVED, features.tree}
        self._none: dict[str, Any] | None = None if features.tree is None else {}  # what features left out are
        self._only_tree = features.tree is not None and not features.columns and not features.bits
        self._json = msgspec.json.Decoder()
        self._column_slots = [*([BIAS] if features.bias else []), *self.slots.columns.values()]
        columns = features.columns
        self.tables = ColumnTables(features, limits)
        self._columns: Callable[[dict[str, Any]], tuple[Any, ...]] = (
            itemgetter(*columns) if len(columns) > 1 else lambda given: tuple(given[name] for name in columns)
        )

    def event(self, data: bytes) -> Event | Reject:
        """A labelled event of the log; unknown fields beside the features are skipped, since producers add some."""
        document = self._document(data, self.limits.max_bytes)
        return document if isinstance(document, Reject) else self._labelled(document, self._log_features(document))

    def posted(self, data: bytes) -> Event | Reject:
        """A labelled event before it is in the log; unknown fields are refused, since a caller can mend them."""
        document = self._document(data, self.limits.max_bytes)
        if isinstance(document, Reject):
            return document
        if not isinstance(document.get("id", ""), str) or type(document.get("ts", 0)) not in {int, float, str}:
            return Reject("malformed")
        label = document.get(self._label)
        if isinstance(label, (int, float)) and not abs(label) <= LARGEST_LABEL:
            return Reject("label")
        if self._features.flat:
            named = {name: value for name, value in document.items() if name not in {self._label, *self._beside}}
            return self._labelled(document, named)
        if not document.keys() <= {"features", self._label, *self._beside}:
            return Reject("unknown_field")
        return self._labelled(document, document.get("features", self._none))

    def _labelled(self, document: dict[str, Any], features: Any) -> Event | Reject:
        label = document.get(self._label)
        if not isinstance(label, (bool, int, float, str)) or (isinstance(label, float) and not math.isfinite(label)):
            return Reject("label")
        weight = document.get("weight", 1.0)
        if type(weight) not in {int, float} or not 0.0 <= weight <= self.limits.max_abs:
            return Reject("weight")
        label = canonical_label(label)
        if len(label) > self.limits.max_name:
            return Reject("too_long")
        event = self._read(document, features, label, float(weight))
        if self.slots.met:
            self.names.heard(accepted=isinstance(event, Event))
        return event

    def instance(self, data: bytes) -> Event | Reject:
        """The body of a prediction request; unknown fields are refused, since a caller can mend them."""
        document = self._document(data, len(data))
        return document if isinstance(document, Reject) else self._instance(document)

    def instances(self, data: bytes, most: int) -> Batch | Reject:
        """The body of a batch request."""
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
            return document.get("features", self._none)
        fields = {name: value for name, value in document.items() if name != self._label and name not in self._beside}
        if self._features.bits:
            return fields
        return {name: value for name, value in fields.items() if name in self.slots.columns}

    def _instance(self, document: dict[str, Any]) -> Event | Reject:
        if self._features.flat:
            if self._label in document:  # it is no feature when learning, so it must not become one here
                return Reject("unknown_field")
            named = {name: value for name, value in document.items() if name not in self._beside}
            return self._read(document, named, None, 1.0)
        if not document.keys() <= {"features", "id", self._tree}:
            return Reject("unknown_field")
        if not isinstance(document.get("id", ""), str):
            return Reject("malformed")
        return self._read(document, document.get("features", self._none), None, 1.0)

    def _read(self, document: dict[str, Any], features: Any, label: str | None, weight: float) -> Event | Reject:
        try:
            event = self._row(features, label, weight)
        except OverflowError:  # an integer that no float is near
            return Reject("range")
        if self._tree is None or isinstance(event, Reject):
            return event
        tree = tree_of(document.get(self._tree), self.limits.max_nodes)
        return tree if isinstance(tree, Reject) else event._replace(tree=tree)

    def _row(self, features: Any, label: str | None, weight: float) -> Event | Reject:
        if not isinstance(features, dict):
            return Reject("malformed")
        if len(features) > self.limits.max_features:
            return Reject("too_many")
        columns = self.slots.columns
        if len(features) == len(columns) and (values := self._all_columns(features)):
            return _event(self._column_slots, values, label, weight)
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
        return _event(slots, values, label, weight)

    def _all_columns(self, features: dict[str, Any]) -> list[float] | None:
        """The values of a row that has all columns and nothing else, with no step of Python's for each of them.

        None for every other row, and for one that is to be rejected: why, is told feature by feature.
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
        """Add one feature that is not a column to the row; returns the reason if it cannot be."""
        if not self._features.bits:
            return "unknown_feature"
        if len(name) > self.limits.max_name:
            return "too_long"
        kind = type(value)
        if kind is float or kind is int:
            if abs(number := float(value)) > self.limits.max_abs:
                return "range"
            slot = self.slots.hashed(name)
            row[slot] = row.get(slot, 0.0) + number
            return ""
        if kind is str:
            tokens = words(value, self._features.ngrams) if name in self._text else (value,)
            return self._count(row, name, tokens)
        if kind is bool:
            return self._count(row, name, ("true" if value else "false",))
        if kind is list and all(type(token) is str for token in value):
            return self._count(row, name, value)
        return "type"

    def _count(self, row: dict[int, float], name: str, tokens: Iterable[str]) -> str:
        for token in tokens:
            if len(token) > self.limits.max_name and name not in self._text:
                return "too_long"
            slot = self.slots.hashed(f"{name}={token}")
            row[slot] = row.get(slot, 0.0) + 1.0
        return ""


def _event(slots: list[int], values: list[float], label: str | None, weight: float) -> Event:
    if 0.0 in values:
        slots = [slot for slot, value in zip(slots, values, strict=True) if value != 0.0]
        values = [value for value in values if value != 0.0]
    return Event(slots, values, label, weight)


def batch(events: Sequence[Event]) -> Batch:
    """Put events of one model together as rows for a learner."""
    trees = Trees.joined([event.tree or NO_TREE for event in events]) if events and events[0].tree else NO_TREES
    return Batch.from_rows([(event.slots, event.values) for event in events], [event.weight for event in events], trees)
