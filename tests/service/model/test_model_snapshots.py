"""A model continues from its snapshot with the same bits, and refuses the snapshot of another
model.
"""

import re

import numpy as np
import pytest

import service.checkpoint.dirty_slots
from learners.evaluation.calibration import CELLS, fresh_calibration
from learners.registry import make
from learners.state import flatten, state_digest
from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import Snapshot, decode, merge
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder
from service.model.checkpoint_checks import MismatchError
from service.model.model import Model
from service.sources.base import BEGINNING
from tests.looped import looped
from tests.service.model.composed_models import (
    CASES,
    COLUMNS,
    GROW,
    HASHED,
    ONE_VS_REST,
    build,
    encode_all,
    every_case,
    everything,
    stream,
    take_snapshot,
)


@every_case
@pytest.mark.parametrize("cut", [0, 1, 30, 60])
def test_a_restored_model_continues_with_the_same_bits(case, cut):
    straight, first, second = build(*case), build(*case), build(*case)
    events = stream(case[2])
    straight.learn(events)
    first.learn(events[:cut])
    first.count_rejects(["type", "range", "type"])
    straight.count_rejects(["type", "range", "type"])
    second.learn(events[:7])
    second.count_rejects(["label"])
    second.restore(decode(encode_all(take_snapshot(first))))
    assert everything(second) == everything(first)
    second.learn(events[cut:])
    assert everything(second) == everything(straight)
    assert second.rejects == {"type": 2, "range": 1}


def drop_calibration(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot as versions without a calibrator wrote it."""
    arrays = {
        name: array
        for name, array in snapshot.arrays.items()
        if not name.startswith("calibration/")
    }
    return snapshot._replace(arrays=arrays)


# With the other learners an event touches all slots.
@pytest.mark.parametrize("name", ["pa1", "scaled", "averaged", "one_vs_rest"])
def test_a_snapshot_without_a_calibrator_gets_a_fresh_one(name, monkeypatch):
    case = CASES[name]
    monkeypatch.setattr(service.checkpoint.dirty_slots, "SMALLEST_DELTA", 1)  # every model is large
    monkeypatch.setattr(service.checkpoint.dirty_slots, "LARGEST_SHARE", 1.0)
    first, second = build(*case), build(*case)
    first.learn(stream(case[2], 0, 20))
    base = drop_calibration(take_snapshot(first))
    first.learn(stream(case[2], 20, 21))
    delta = first.snapshot(BEGINNING, Lineage(), whole=False)
    assert not delta.whole
    second.learn(stream(case[2], 0, 7))
    second.restore(merge(base, drop_calibration(delta)))
    assert state_digest(second.state) == state_digest(first.state)
    assert state_digest(second.calibration) == state_digest(fresh_calibration())
    second.learn(stream(case[2], 21, 22))
    assert second.snapshot(BEGINNING, Lineage(), whole=False).whole, (
        "a delta must not have other arrays than its base"
    )
    second.learn(stream(case[2], 22, 23))
    assert not second.snapshot(BEGINNING, Lineage(), whole=False).whole


def test_a_reset_model_has_a_fresh_calibrator():
    model = build("pa1")
    model.learn(stream(Label()))
    model.reset()
    assert everything(model) == everything(build("pa1"))


def test_a_snapshot_is_a_copy():
    model = build("pa1")
    model.learn(stream(Label(), 0, 20))
    snapshot = take_snapshot(model)
    before = encode_all(snapshot)
    model.learn(stream(Label(), 20, 40))
    model.count_rejects(["type"])
    assert encode_all(snapshot) == before


def test_a_restored_model_does_not_write_into_the_snapshot():
    model, other = build("pa1"), build("pa1")
    model.learn(stream(Label(), 0, 20))
    snapshot = take_snapshot(model)
    before = encode_all(snapshot)
    other.restore(snapshot)
    other.learn(stream(Label(), 20, 40))
    assert encode_all(snapshot) == before


OTHERS = {
    "learner": (
        ("pa2", HASHED, Label()),
        'learner.kind is "pa2" in the configuration and "pa1" in the checkpoint',
    ),
    "learner's parameter": (
        ("pa1:C=2", HASHED, Label()),
        "learner.C is 2.0 in the configuration and 1.0",
    ),
    "features": (("pa1", COLUMNS, Label()), "features.bits is 0 in the configuration and 4"),
    "columns swapped": (
        ("pa1", Features(columns=("b", "a"), bits=4), Label()),
        'features.columns[0] is "b"',
    ),
    "label": (
        ("pa1", HASHED, Label(positive="x")),
        'label.positive is "x" in the configuration and not set',
    ),
}


@looped("other", OTHERS)
def test_a_snapshot_of_another_model_is_refused(other):
    case, words = OTHERS[other]
    snapshot = take_snapshot(build("pa1"))
    model = build(*case)
    before = everything(model)
    with pytest.raises(MismatchError, match=re.escape(words)):
        model.restore(snapshot)
    assert everything(model) == before


def test_arrays_that_do_not_fit_are_refused():
    snapshot = take_snapshot(build("pa1"))
    snapshot.arrays.pop(next(name for name in snapshot.arrays if name.startswith("state/")))
    with pytest.raises(MismatchError, match="do not fit"):
        build("pa1").restore(snapshot)


HOSTILE = {
    "an array of no part": (
        lambda s: s._replace(arrays=s.arrays | {"evil/x": np.zeros(1)}),
        "does not have: 'evil/x'",
    ),
    "an array of a strange name": (
        lambda s: s._replace(arrays=s.arrays | {"a\nb": np.zeros(1)}),
        r"does not have: 'a\\nb'",
    ),
    "an array too many": (
        lambda s: s._replace(arrays=s.arrays | {"state/x": np.zeros(1)}),
        "does not have: 'state/x'",
    ),
    "outcomes that are none": (
        lambda s: s._replace(arrays=s.arrays | {"progress/recent": np.full(1000, 255, np.uint8)}),
        "impossible outcomes",
    ),
    "a calibration that is none": (
        lambda s: s._replace(arrays=s.arrays | {"calibration/mass": np.full(CELLS, np.nan)}),
        "corrupt checkpoint: calibration",
    ),
    "a negative count": (
        lambda s: s._replace(
            arrays=s.arrays | {"calibration/came": -1 - s.arrays["calibration/came"]}
        ),
        "corrupt checkpoint: calibration",
    ),
    "a calibration of another shape": (
        lambda s: s._replace(arrays=s.arrays | {"calibration/rate": np.zeros(CELLS + 1)}),
        "rate is float64",
    ),
    "half a calibration": (
        lambda s: s._replace(
            arrays={name: array for name, array in s.arrays.items() if name != "calibration/rate"}
        ),
        "do not fit",
    ),
    "too many classes": (
        lambda s: s._replace(classes=["x", "y", "z", "q"]),
        "4 classes, the configuration allows 3",
    ),
    "a class twice": (lambda s: s._replace(classes=["x", "x"]), "a class twice"),
    "classes without names": (lambda s: s._replace(classes=["x"]), "a class has no name"),
    **{
        f"no settings of the {part}": (
            lambda s, part=part: s._replace(
                model={name: s.model[name] for name in s.model if name != part}
            ),
            f"with which settings of '{part}'",
        )
        for part in ("learner", "features", "label")
    },
    "strange settings": (lambda s: s._replace(model=s.model | {"a\nb": 1}), "a b is "),
}


@looped("scaled", [False, True])
@looped(("change", "words"), HOSTILE.values(), ids=HOSTILE)
def test_an_impossible_snapshot_is_refused(change, words, scaled):
    case = ({"kind": "scaled", "base": ONE_VS_REST} if scaled else ONE_VS_REST, HASHED, GROW)
    first, second = build(*case), build(*case)
    first.learn(stream(GROW))
    second.learn(stream(GROW, 0, 7))
    before = everything(second)
    with pytest.raises(MismatchError, match=words) as caught:
        second.restore(change(take_snapshot(first)))
    assert "\n" not in str(caught.value)
    assert everything(second) == before


def test_a_binary_model_refuses_a_snapshot_with_classes():
    with pytest.raises(MismatchError, match="1 classes, the configuration allows 0"):
        build("pa1").restore(take_snapshot(build("pa1"))._replace(classes=["x"]))


def test_a_snapshot_of_a_model_with_other_limits_is_refused():
    """Other limits reject other events of the same log."""
    narrow = Model(make("pa1"), HASHED, Label(), Decoder(HASHED, Label(), Limits(max_features=3)))
    snapshot = take_snapshot(build("pa1"))
    with pytest.raises(
        MismatchError, match=r"limits\.max_features is 3 in the configuration and 10000"
    ):
        narrow.restore(snapshot)
    older = {part: snapshot.model[part] for part in snapshot.model if part != "limits"}
    narrow.restore(snapshot._replace(model=older))


@every_case
def test_every_array_of_the_state_is_in_the_snapshot(case):
    model = build(*case)
    model.learn(stream(case[2]))
    arrays = take_snapshot(model).arrays
    assert {f"state/{name}" for name in flatten(model.state)} <= arrays.keys()
    assert {f"progress/{name}" for name in flatten(model.progress)} <= arrays.keys()
    assert {f"calibration/{name}" for name in flatten(model.calibration)} <= arrays.keys()
