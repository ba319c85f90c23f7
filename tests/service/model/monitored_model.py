"""A model with a monitor, a stream that drifts, and the whole model as bytes."""

import numpy as np
import pytest

import service.model.drift_actions
import service.model.model
from learners.registry import make
from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import encode
from service.config.settings import Drift, Features, Label, Limits
from service.features.decoder import Decoder, Event
from service.model.model import Model
from service.sources.base import BEGINNING, Record

FEATURES = Features(columns=("a", "b"), bits=4)
LABEL = Label(positive="yes", negative="no")
SCALED = {"kind": "scaled", "base": {"kind": "pa1", "C": 0.1}}
FLIP = 1500
"""The event after which the labels mean the opposite."""
QUICK = {"features": 8, "window": 100, "reference": 200}
ACTING = Drift(
    on_error=["boost", "reset_scaler"], on_inputs=["boost"], boost_events=100, inputs=QUICK
)


@pytest.fixture(autouse=True)
def no_clock(monkeypatch):
    monkeypatch.setattr(service.model.drift_actions.time, "time", lambda: 1.0)


def build_monitored(drift=Drift(), learner=SCALED) -> Model:  # noqa: B008  # frozen
    return Model(make(learner), FEATURES, LABEL, Decoder(FEATURES, LABEL, Limits()), drift)


def events(count=2200, shift=None, seed=0) -> list[Event]:
    """Return events with two columns and noise; the sign of the first column decides, and from FLIP
    on the opposite sign.
    """
    draws = np.random.default_rng(seed)
    found = []
    for n in range(count):
        a, b = draws.normal(size=2)
        yes = (a + 0.2 * draws.normal() > 0) != (n >= FLIP)
        if shift is not None and n >= shift:
            b += 2.0
        found.append(Event([0, 1, 2], [1.0, a, b], "yes" if yes else "no", 1.0))
    return found


def records(count) -> list[Record]:
    return [Record(str(n % 3), str(1000 + n), str(1001 + n), b"") for n in range(count)]


def take_snapshot(model):
    return model.snapshot(BEGINNING, Lineage(), whole=True)


def everything(model) -> bytes:
    return b"".join(encode(take_snapshot(model)).buffers)


STREAM = events(shift=1200)
