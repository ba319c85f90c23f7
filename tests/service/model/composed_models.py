"""Models of every composition of a learner, a stream for each, and all of a model's bytes."""

import json

import pytest

from learners.registry import make
from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import Snapshot, encode
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder, Event
from service.model.model import Model
from service.sources.base import BEGINNING

COLUMNS = Features(columns=("a", "b"), bits=0)
HASHED = Features(columns=("a", "b"), bits=4)
GROW = Label(classes="grow", max_classes=3)
ONE_VS_REST = {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
CASES = {
    "pa1": ("pa1", HASHED, Label()),
    "scaled": ({"kind": "scaled", "base": "pa1"}, HASHED, Label(positive="x")),
    "scaled, centred": (
        {"kind": "scaled", "base": "perceptron"},
        COLUMNS,
        Label(positive="x", negative="y"),
    ),
    "averaged": ({"kind": "averaged", "base": "sgd-log"}, HASHED, Label(positive="x")),
    "one_vs_rest": (ONE_VS_REST, HASHED, GROW),
    "all": (
        {"kind": "scaled", "base": ONE_VS_REST | {"base": {"kind": "averaged", "base": "pa2"}}},
        COLUMNS,
        GROW,
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def build(learner, features=HASHED, label=Label()) -> Model:  # noqa: B008  # frozen
    return Model(make(learner), features, label, Decoder(features, label, Limits()))


def event(label=None, weight=1.0, **features) -> Event:
    decoder = Decoder(HASHED, Label(), Limits())
    document = {"features": features, "label": label or "", "weight": weight}
    return decoder.event(json.dumps(document).encode())._replace(label=label)


def stream(label: Label, first: int = 0, last: int = 60) -> list[Event]:
    names = "xyz" if label.classes == "grow" else "xy" if label.positive else ("1", "-1")
    return [
        event(names[n * 7 % 5 % len(names)], a=n * 37 % 11 - 5, b=n * 53 % 17 / 4)
        for n in range(first, last)
    ]


def take_snapshot(model: Model) -> Snapshot:
    return model.snapshot(BEGINNING, Lineage(), whole=True)


def encode_all(snapshot: Snapshot) -> bytes:
    return b"".join(encode(snapshot).buffers)


def everything(model: Model) -> bytes:
    """Return the whole model as bytes."""
    return encode_all(take_snapshot(model))
