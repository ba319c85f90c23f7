"""Decoders, and the event or reject that a decoder makes of given features."""

import json

from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder, Event
from service.features.reject import Reject

FEATURES = Features(columns=("amount", "age"), text=("note",), bits=18)
SMALL = Limits(max_bytes=400, max_features=5, max_name=8, max_abs=1000.0)

LEARNERS_OWN = {"numeric", "negative"}


def decoder(features=FEATURES, label=Label(), limits=Limits()) -> Decoder:  # noqa: B008  # frozen
    return Decoder(features, label, limits)


def event(features, decode=None, **beside) -> Event | Reject:
    document = {"features": features, "label": 1} | beside
    return (decode or decoder()).event(json.dumps(document).encode())


def row(found: Event | Reject) -> dict[int, float]:
    assert isinstance(found, Event), found
    return dict(zip(found.slots, found.values, strict=True))


BITS_0 = decoder(Features(columns=("amount",), bits=0))
TIGHT = decoder(limits=SMALL)

FLAT = decoder(Features(columns=("amount", "age"), text=("note",), flat=True), Label(field="y"))
