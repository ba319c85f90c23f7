"""The model: predicting and what is refused change nothing, and a snapshot goes on as if never put
down.
"""

import json
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import service.checkpoint.dirty_slots
import service.model.model
from learners.evaluation.calibration import (
    CELLS,
    Calibration,
    fresh_calibration,
    probabilities,
    restore_calibration,
)
from learners.registry import make
from learners.state import flatten, state_digest
from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import Snapshot, decode, encode, merge
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder, Event, batch
from service.model.checkpoint_checks import MismatchError
from service.model.model import Model
from service.model.results import Prediction
from service.sources.base import BEGINNING
from tests.looped import looped

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


def taken(model: Model) -> Snapshot:
    return model.snapshot(BEGINNING, Lineage(), whole=True)


def written(snapshot: Snapshot) -> bytes:
    return b"".join(encode(snapshot).buffers)


def everything(model: Model) -> bytes:
    """All that a model is, as bytes."""
    return written(taken(model))


@every_case
def test_predicting_changes_no_bit(case):
    model = build(*case)
    odd = [event(a=1e60), event(), event(a=-3, b=1e-300), event(b=5)]
    for part in ([], stream(case[2])):
        model.learn(part)
        before = everything(model)
        _, first = model.predict(batch([*stream(case[2])[:5], *odd]))
        assert everything(model) == before
        assert model.predict(batch([*stream(case[2])[:5], *odd]))[1] == first
        assert [
            model.predict(batch([one]))[1][0] for one in [*stream(case[2])[:5], *odd]
        ] == first, "alone or together"


@every_case
@settings(max_examples=10, derandomize=True, deadline=None)
@given(st.integers(0, 60), st.lists(st.sampled_from(range(8)), max_size=12))
def test_no_request_changes_a_bit(case, learned, asked):
    """Rows that are refused or empty, classes not seen, no class at all; the calibrator is in the
    snapshot too.
    """
    odd = [
        event(a=1e60),
        event(),
        event("new", a=-3, b=1e-300),
        event(weight=1e60, b=5),
        *stream(case[2], 60, 64),
    ]
    model = build(*case)
    model.learn([one for one in stream(case[2], 0, learned) if one.label != "z"])
    before = everything(model)
    _, first = model.predict(batch([odd[place] for place in asked]))
    assert everything(model) == before
    assert [model.predict(batch([odd[place]]))[1][0] for place in asked] == first
    assert everything(model) == before


@every_case
def test_examining_changes_no_bit(case):
    model = build(*case)
    # So that there is room for a class.
    model.learn([one for one in stream(case[2], 0, 20) if one.label != "z"])
    before = everything(model)
    model.score_labelled([*stream(case[2]), event("never seen", a=1)])
    assert everything(model) == before


@every_case
@pytest.mark.parametrize("cut", [0, 1, 30, 60])
def test_a_restored_model_goes_on_as_if_never_put_down(case, cut):
    straight, first, second = build(*case), build(*case), build(*case)
    events = stream(case[2])
    straight.learn(events)
    first.learn(events[:cut])
    first.count_rejects(["type", "range", "type"])
    straight.count_rejects(["type", "range", "type"])
    second.learn(events[:7])
    second.count_rejects(["label"])
    second.restore(decode(written(taken(first))))
    assert everything(second) == everything(first)
    second.learn(events[cut:])
    assert everything(second) == everything(straight)
    assert second.rejects == {"type": 2, "range": 1}


@every_case
def test_a_probability_is_that_of_the_calibrator_before_the_event(case):
    model, seen = build(*case), 0
    for one in [*stream(case[2]), event(stream(case[2])[0].label, weight=0.0, a=1)]:
        calibration = again(model.calibration)
        _, (answer,) = model.predict(batch([one]))
        model.learn([one])
        if answer.label is None:
            assert answer.probability is None
            continue
        seen += one.weight > 0
        scores = (
            np.array([answer.score])
            if answer.scores is None
            else np.array([[*answer.scores.values()]])
        )
        assert probabilities(calibration, scores).tolist() == [answer.probability]
        assert 0.0 < answer.probability < 1.0
        assert int(model.calibration.events[0]) == seen


def again(calibration: Calibration) -> Calibration:
    return restore_calibration(flatten(calibration))


def uncalibrated(snapshot: Snapshot) -> Snapshot:
    """As it was before there was a calibrator."""
    arrays = {
        name: array
        for name, array in snapshot.arrays.items()
        if not name.startswith("calibration/")
    }
    return snapshot._replace(arrays=arrays)


# An event of the others touches all.
@pytest.mark.parametrize("name", ["pa1", "scaled", "averaged", "one_vs_rest"])
def test_a_snapshot_without_a_calibrator_is_taken_up_with_a_fresh_one(name, monkeypatch):
    case = CASES[name]
    monkeypatch.setattr(service.checkpoint.dirty_slots, "SMALLEST_DELTA", 1)  # every model is large
    monkeypatch.setattr(service.checkpoint.dirty_slots, "LARGEST_SHARE", 1.0)
    first, second = build(*case), build(*case)
    first.learn(stream(case[2], 0, 20))
    base = uncalibrated(taken(first))
    first.learn(stream(case[2], 20, 21))
    delta = first.snapshot(BEGINNING, Lineage(), whole=False)
    assert not delta.whole
    second.learn(stream(case[2], 0, 7))
    second.restore(merge(base, uncalibrated(delta)))
    assert state_digest(second.state) == state_digest(first.state)
    assert state_digest(second.calibration) == state_digest(fresh_calibration())
    second.learn(stream(case[2], 21, 22))
    assert second.snapshot(BEGINNING, Lineage(), whole=False).whole, (
        "a delta would have other arrays than its base"
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
    snapshot = taken(model)
    before = written(snapshot)
    model.learn(stream(Label(), 20, 40))
    model.count_rejects(["type"])
    assert written(snapshot) == before


def test_a_restored_model_does_not_write_into_the_snapshot():
    model, other = build("pa1"), build("pa1")
    model.learn(stream(Label(), 0, 20))
    snapshot = taken(model)
    before = written(snapshot)
    other.restore(snapshot)
    other.learn(stream(Label(), 20, 40))
    assert written(snapshot) == before


@every_case
@settings(max_examples=10, derandomize=True, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_how_events_are_batched_does_not_matter(case, sizes):
    whole, cut = build(*case), build(*case)
    events = [
        event("x", a=1e60),
        *stream(case[2], 0, 20),
        event("q", a=1),
        *stream(case[2], 20, 40),
    ]
    outcome = whole.learn(events)
    place, refused, counts = 0, [], [0] * 5
    while place < len(events):
        size = sizes[place % len(sizes)]
        part = cut.learn(events[place : place + size])
        refused += [(place + at, reason) for at, reason in part.refused]
        counts = [total + more for total, more in zip(counts, part[:5], strict=True)]
        place += size
    assert everything(cut) == everything(whole)
    assert (*counts, refused, []) == outcome[:7]


@every_case
def test_slices_change_nothing_and_places_are_those_of_the_whole(case, monkeypatch):
    events = stream(case[2], 0, 40)
    events[7:7] = [event("x", a=1e60)]
    events[20:20] = [event(None, a=1), event("x", b=1e60), event(None, b=1)]
    whole, sliced = build(*case), build(*case)
    outcome = whole.learn(events)
    monkeypatch.setattr(service.model.model, "STRETCH", 3)
    assert sliced.learn(events)[:7] == outcome[:7]
    assert outcome.refused == [(7, "numeric"), (20, "label"), (21, "numeric"), (22, "label")]
    assert everything(sliced) == everything(whole)


def test_counts():
    model = build("perceptron")
    events = [
        event("1", a=1),
        event("-1", a=1),
        event("-1", a=1),
        event("1", b=1),
        event("-1", a=1),
    ]
    # Weights of (bias, a, b) after each: (1,1,0), since a score of 0 moves but counts as +1;
    # (0,0,0); (-1,-1,0); (0,-1,1), each after an error; and the last event finds them right. The
    # majority says nothing, 1, 1 (a tie: it was first), -1, -1; no change says what came before.
    assert model.learn(events)[:7] == (5, 3, 4, 4, 4, [], [])
    assert int(model.progress.events[0]) == 5
    assert int(model.progress.errors[0]) == 3
    assert model.updates() == 4
    assert model.norm() == pytest.approx(2**0.5)
    assert model.dropped() == 0


def test_refused_events_are_named_and_change_nothing():
    model, clean = (
        build("pa1", label=Label(positive="x", negative="y")),
        build("pa1", label=Label(positive="x", negative="y")),
    )
    good = [event("x", a=1), event("y", b=2)]
    odd = [event("z", a=1), event("x", a=1e60), event(None, a=1), event("x", weight=1e60, a=1)]
    outcome = model.learn([odd[0], good[0], odd[1], odd[2], good[1], odd[3]])
    assert outcome.refused == [(0, "label"), (2, "numeric"), (3, "label"), (5, "numeric")]
    assert outcome.learned == 2
    clean.learn(good)
    assert everything(model) == everything(clean)


def test_a_refused_event_brings_no_class():
    model, clean = build(ONE_VS_REST, label=GROW), build(ONE_VS_REST, label=GROW)
    events = [event("x", a=1), event("y", b=1)]
    assert model.learn([event("odd", a=1e60), *events]).refused == [(0, "numeric")]
    clean.learn(events)
    assert model.labels.names == ["x", "y"]
    assert everything(model) == everything(clean)


def test_an_empty_batch():
    for learner, features, label in CASES.values():
        model = build(learner, features, label)
        before = everything(model)
        assert model.learn([])[:7] == (0, 0, 0, 0, 0, [], [])
        assert model.predict(batch([]))[1] == []
        assert everything(model) == before


def test_rejects_are_counted_by_reason():
    model = build("pa1")
    model.count_rejects(["type", "range"])
    model.count_rejects(["type"])
    assert model.rejects == {"type": 2, "range": 1}
    assert taken(model).rejects == {"type": 2, "range": 1}


def test_predictions_are_labels_with_the_version():
    model = build("perceptron", label=Label(positive="fraud", negative="fine"))
    assert model.predict(batch([event(a=1)]))[1] == [Prediction("fraud", 0.0, 0.5)]
    model.learn([event("fine", a=1), event("fraud", b=1)])
    served, (first, second) = model.predict(batch([event(a=1), event(b=5)]))
    assert (first.label, served.version) == ("fine", 2)
    assert first.score < 0.0
    assert second.label == "fraud"


def test_a_refused_row_is_answered_with_the_reason():
    _, (fine, refused) = build("pa1").predict(batch([event(a=1), event(a=1e60)]))
    assert isinstance(fine, Prediction)
    assert refused == "numeric"


def test_before_any_class_there_is_no_answer():
    model = build(ONE_VS_REST, label=GROW)
    assert model.predict(batch([event(a=1), event()]))[1] == [Prediction(None, None, None, {})] * 2


def test_classes_grow_up_to_the_limit():
    model = build(ONE_VS_REST, label=GROW)
    outcome = model.learn([event(label, a=n) for n, label in enumerate("yxyzwx")])
    assert outcome.refused == [(4, "label")]
    assert model.labels.names == ["y", "x", "z"]
    assert outcome.errors >= 3, "the event that brings a class is an error"
    assert {model.predict(batch([event(a=n)]))[1][0].label for n in range(6)} <= {"x", "y", "z"}
    assert taken(model).classes == ["y", "x", "z"]


def test_a_class_never_seen_is_an_error_of_the_test():
    model = build(ONE_VS_REST, label=GROW)
    model.learn([event("x", a=1), event("y", b=1)])
    y, scores = model.score_labelled(
        [event("x", a=1), event("new", a=1), event("x", a=1e60), event(None, a=1)]
    )
    assert y.tolist() == [0.0, 2.0]
    assert scores.shape == (2, 3)


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


@pytest.mark.parametrize("other", OTHERS)
def test_a_snapshot_of_another_model_is_refused(other):
    case, words = OTHERS[other]
    snapshot = taken(build("pa1"))
    model = build(*case)
    before = everything(model)
    with pytest.raises(MismatchError, match=re.escape(words)):
        model.restore(snapshot)
    assert everything(model) == before


def test_arrays_that_do_not_fit_are_refused():
    snapshot = taken(build("pa1"))
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
def test_a_snapshot_that_cannot_be_is_refused(change, words, scaled):
    case = ({"kind": "scaled", "base": ONE_VS_REST} if scaled else ONE_VS_REST, HASHED, GROW)
    first, second = build(*case), build(*case)
    first.learn(stream(GROW))
    second.learn(stream(GROW, 0, 7))
    before = everything(second)
    with pytest.raises(MismatchError, match=words) as caught:
        second.restore(change(taken(first)))
    assert "\n" not in str(caught.value)
    assert everything(second) == before


def test_a_binary_model_has_no_classes():
    with pytest.raises(MismatchError, match="1 classes, the configuration allows 0"):
        build("pa1").restore(taken(build("pa1"))._replace(classes=["x"]))


def test_other_limits_are_another_model():
    """They reject other events of the same log."""
    narrow = Model(make("pa1"), HASHED, Label(), Decoder(HASHED, Label(), Limits(max_features=3)))
    snapshot = taken(build("pa1"))
    with pytest.raises(
        MismatchError, match=r"limits\.max_features is 3 in the configuration and 10000"
    ):
        narrow.restore(snapshot)
    older = {part: snapshot.model[part] for part in snapshot.model if part != "limits"}
    narrow.restore(snapshot._replace(model=older))


IMPOSSIBLE = {
    "classes without one_vs_rest": ("pa1", HASHED, GROW, "needs a learner of kind one_vs_rest"),
    "one_vs_rest without classes": (ONE_VS_REST, HASHED, Label(), "needs label.classes: grow"),
    "inside scaled": (
        {"kind": "scaled", "base": ONE_VS_REST},
        HASHED,
        Label(),
        "needs label.classes: grow",
    ),
    "too few classes": (ONE_VS_REST, HASHED, Label(classes="grow", max_classes=4), "max_classes 3"),
    "centred and hashed": (
        {"kind": "scaled", "center": True, "base": "pa1"},
        HASHED,
        Label(),
        "center",
    ),
}


@pytest.mark.parametrize(
    ("learner", "features", "label", "word"), IMPOSSIBLE.values(), ids=IMPOSSIBLE
)
def test_combinations_that_cannot_learn_are_refused(learner, features, label, word):
    with pytest.raises(ValueError, match=word):
        build(learner, features, label)


@every_case
def test_every_array_of_the_state_is_in_the_snapshot(case):
    model = build(*case)
    model.learn(stream(case[2]))
    arrays = taken(model).arrays
    assert {f"state/{name}" for name in flatten(model.state)} <= arrays.keys()
    assert {f"progress/{name}" for name in flatten(model.progress)} <= arrays.keys()
    assert {f"calibration/{name}" for name in flatten(model.calibration)} <= arrays.keys()
