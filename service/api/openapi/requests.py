"""Build the shapes of requests from the settings of a model. A body that fits its shape is
accepted, and any other is refused.

JSON Schema cannot express three rules: the squares of a row's values add up to 1e100 at most, text
and lists give at most as many different words as a row may have features, and a tree's brackets
match.
"""

from typing import Any

import numpy as np

from learners.jit import LARGEST_VALUE
from service.api.v2.tensors import NUMBERS
from service.config.settings import Settings, canonical_label
from service.features.decoder import LARGEST_LABEL
from service.features.labels import Labels

Schema = dict[str, Any]

TREE = r"^\s*\([\s\S]*\)\s*$"
NUMERAL = r"^([+-]?[0-9]+(\.[0-9]+)?|true|false)$"


def bodies(settings: Settings, *, negative: bool) -> dict[str, Schema]:
    """Build the shapes of requests; `negative`: whether the learner takes values below 0."""
    shapes = _Bodies(settings, negative=negative)
    batch = {
        "type": "array",
        "items": {"$ref": "#/components/schemas/Instance"},
        "maxItems": settings.api.max_batch,
    }
    return {
        "Instance": shapes.instance(),
        "Instances": _closed({"instances": batch}, "instances"),
        "Event": shapes.event(),
        "V2Request": shapes.inference(),
    }


class _Bodies:
    """The shapes of one model's requests."""

    def __init__(self, settings: Settings, *, negative: bool) -> None:
        self._settings = settings
        most = min(settings.limits.max_abs, LARGEST_VALUE)
        self._number: Schema = {
            "type": "number",
            "minimum": -most if negative else 0,
            "maximum": most,
        }
        if not negative:
            self._number["description"] = (
                "Not below 0; for features hashed into one slot, their sum"
            )
        self._weight: Schema = {
            "anyOf": [
                {"const": 0},
                {"type": "number", "minimum": 1 / LARGEST_VALUE, "maximum": most},
            ]
        }

    def instance(self) -> Schema:
        if not self._settings.features.flat:
            shape = {"features": self._features(), "id": {"type": "string"}} | self._tree()
            return _closed(shape, *(self._tree() or ["features"]))
        # Fields of an event that are no features. They may stand beside the features, but the label
        # may not.
        beside: Schema = {"id": {}, "ts": {}, "weight": {}} | self._tree()
        return self._features(beside, {self._settings.label.field}) | _required(*self._tree())

    def event(self) -> Schema:
        beside: Schema = {
            self._settings.label.field: self._label(),
            "id": {"type": "string"},
            "ts": {"type": ["number", "string"]},
            "weight": self._weight,
        } | self._tree()
        if self._settings.features.flat:
            return self._features(beside) | _required(self._settings.label.field, *self._tree())
        needed = self._tree() or ["features"]
        return _closed(
            {"features": self._features(), **beside}, *needed, self._settings.label.field
        )

    def inference(self) -> Schema:
        columns, most = len(self._settings.features.columns), self._settings.api.max_batch
        columns *= self._settings.features.tree is None
        rows: Schema = {"type": "integer", "minimum": 0, "maximum": most}
        texts: Schema = {"type": "string", "contentMediaType": "application/json"}
        inputs = [
            _tensor(
                "instances", "BYTES", [rows], {"type": "array", "items": texts, "maxItems": most}
            )
        ]
        for datatype in NUMBERS if columns else ():
            number = self._of_datatype(datatype)
            flat = {"type": "array", "items": number, "maxItems": most * columns}
            row = {"type": "array", "items": number, "minItems": columns, "maxItems": columns}
            data = {"anyOf": [flat, {"type": "array", "items": row, "maxItems": most}]}
            inputs.append(_tensor("features", datatype, [rows, {"const": columns}], data))
        names = [
            "label",
            "score",
            "probability",
            *(["scores"] if self._settings.label.classes == "grow" else []),
        ]
        choice = _parameters(binary_data={"type": "boolean"}, classification=False)
        wanted = _closed({"name": {"enum": names}, "parameters": choice}, "name")
        asked: Schema = {
            "id": {"type": ["string", "null"]},
            "parameters": _parameters(binary_data_output={"type": "boolean"}),
            "inputs": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"oneOf": inputs}},
            "outputs": {"anyOf": [{"type": "array", "items": wanted}, {"type": "null"}]},
        }
        description = (
            "A shape must fit its data, and an element of `instances` (BYTES) is an `Instance` as"
            " JSON."
        )
        if columns:
            description += (
                f" `features` are numbers of one of the datatypes {', '.join(NUMBERS)}, in the"
                " order of the columns."
            )
        return _closed(asked, "inputs") | {"description": description}

    def _of_datatype(self, datatype: str) -> Schema:
        kind = np.dtype(NUMBERS[datatype])
        own: np.finfo[Any] | np.iinfo[Any] = np.finfo(kind) if kind.kind == "f" else np.iinfo(kind)
        low, high = self._number["minimum"], self._number["maximum"]
        if kind.kind == "f":
            return self._number | {
                "minimum": max(low, float(own.min)),
                "maximum": min(high, float(own.max)),
            }
        return {
            "type": "integer",
            "minimum": max(low, int(own.min)),
            "maximum": min(high, int(own.max)),
        }

    def _features(self, beside: Schema | None = None, without: set[str] | None = None) -> Schema:
        """An object of named features, with other fields among them where events are flat."""
        features, limits = self._settings.features, self._settings.limits
        named: Schema = {name: self._value(text=True) for name in features.text}
        named |= dict.fromkeys(features.columns, self._number)
        named |= dict.fromkeys(without or (), False)
        longest = max(limits.max_name, *(len(name) for name in features.columns), 0)
        return {
            "type": "object",
            "properties": named | (beside or {}),
            "additionalProperties": self._value(text=False) if features.bits else False,
            "maxProperties": limits.max_features,
            "propertyNames": {"maxLength": longest},
            "description": "The squares of all values may add up to 1e100 at most.",
        }

    def _tree(self) -> Schema:
        """The field of the tree, by its name; empty if events have no tree."""
        name, most = self._settings.features.tree, self._settings.limits.max_nodes
        description = (
            f"A parse such as (S (NP (PRP I)) (VP (VBP run))): its brackets match, and at most"
            f" {most} nodes have children."
        )
        return (
            {}
            if name is None
            else {name: {"type": "string", "pattern": TREE, "description": description}}
        )

    def _value(self, *, text: bool) -> Schema:
        word: Schema = {"type": "string"} | (
            {} if text else {"maxLength": self._settings.limits.max_name}
        )
        return {
            "anyOf": [self._number, word, {"type": "boolean"}, {"type": "array", "items": word}]
        }

    def _label(self) -> Schema:
        label, longest = self._settings.label, self._settings.limits.max_name
        if label.positive is not None and label.negative is not None:
            return {"enum": [*_spellings(label.positive), *_spellings(label.negative)]}
        number: Schema = {"type": "number", "minimum": -LARGEST_LABEL, "maximum": LARGEST_LABEL}
        text: Schema = {"type": "string", "maxLength": longest}
        if label.classes == "binary" and Labels(label).number("a word") is None:
            text["pattern"] = NUMERAL
        return {"anyOf": [{"type": "boolean"}, number, text]}


def _spellings(label: str) -> list[Any]:
    """List every JSON value that means this label."""
    found: list[Any] = [label]
    if label in {"true", "false"}:
        found.append(label == "true")
    for kind in (int, float):
        try:
            number = kind(label)
        except ValueError:
            continue
        if canonical_label(number) == label:
            return [*found, number]
    return found


def _closed(properties: Schema, *required: str) -> Schema:
    return {
        "type": "object",
        "required": [*required],
        "additionalProperties": False,
        "properties": properties,
    }


def _required(*names: str) -> Schema:
    return {"required": [*names]} if names else {}


def _parameters(**known: Schema | bool) -> Schema:
    return {"type": "object", "properties": known}


def _tensor(name: str, datatype: str, shape: list[Schema], data: Schema) -> Schema:
    properties = {
        "name": {"const": name},
        "datatype": {"const": datatype},
        "shape": {"type": "array", "prefixItems": shape, "items": False, "minItems": len(shape)},
        "parameters": _parameters(binary_data_size=False),
        "data": data,
    }
    return _closed(properties, *(field for field in properties if field != "parameters"))
