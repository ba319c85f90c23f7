"""A model learns and counts its events; predictions and refused events change nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import service.model.model
from learners.evaluation.calibration import Calibration, probabilities, restore_calibration
from learners.state import flatten
from service.config.settings import Label
from service.features.decoder import batch
from service.model.results import Prediction
from tests.examples import examples
from tests.looped import looped
from tests.service.model.composed_models import (
    CASES,
    GROW,
    HASHED,
    ONE_VS_REST,
    build,
    event,
    every_case,
    everything,
    stream,
    take_snapshot,
)


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
        ] == first, "a row must get the same answer alone and in a batch"


@every_case
@examples(10)
@given(st.integers(0, 60), st.lists(st.sampled_from(range(8)), max_size=12))
def test_no_request_changes_a_bit(case, learned, asked):
    """Some rows are refused or empty, some classes unseen; the snapshot includes the calibrator."""
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
def test_scoring_labelled_events_changes_no_bit(case):
    model = build(*case)
    # Leave room for a class.
    model.learn([one for one in stream(case[2], 0, 20) if one.label != "z"])
    before = everything(model)
    model.score_labelled([*stream(case[2]), event("never seen", a=1)])
    assert everything(model) == before


@every_case
def test_a_probability_is_that_of_the_calibrator_before_the_event(case):
    model, seen = build(*case), 0
    for one in [*stream(case[2]), event(stream(case[2])[0].label, weight=0.0, a=1)]:
        calibration = copy_calibration(model.calibration)
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


def copy_calibration(calibration: Calibration) -> Calibration:
    return restore_calibration(flatten(calibration))


@every_case
@examples(10)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=20))
def test_any_cut_into_batches_gives_the_same_model(case, sizes):
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
def test_slices_of_a_batch_change_neither_model_nor_places(case, monkeypatch):
    events = stream(case[2], 0, 40)
    events[7:7] = [event("x", a=1e60)]
    events[20:20] = [event(None, a=1), event("x", b=1e60), event(None, b=1)]
    whole, sliced = build(*case), build(*case)
    outcome = whole.learn(events)
    monkeypatch.setattr(service.model.model, "STRETCH", 3)
    assert sliced.learn(events)[:7] == outcome[:7]
    assert outcome.refused == [(7, "numeric"), (20, "label"), (21, "numeric"), (22, "label")]
    assert everything(sliced) == everything(whole)


def test_outcomes_and_baselines_are_counted():
    model = build("perceptron")
    events = [
        event("1", a=1),
        event("-1", a=1),
        event("-1", a=1),
        event("1", b=1),
        event("-1", a=1),
    ]
    # Weights of (bias, a, b) after each event: (1,1,0), since a score of 0 moves but counts as +1;
    # (0,0,0); (-1,-1,0); (0,-1,1), each after an error; the last event is predicted right. The
    # majority baseline says nothing, 1, 1 (a tie: it was first), -1, -1; the no-change baseline
    # says the label before.
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


def test_a_refused_event_adds_no_class():
    model, clean = build(ONE_VS_REST, label=GROW), build(ONE_VS_REST, label=GROW)
    events = [event("x", a=1), event("y", b=1)]
    assert model.learn([event("odd", a=1e60), *events]).refused == [(0, "numeric")]
    clean.learn(events)
    assert model.labels.names == ["x", "y"]
    assert everything(model) == everything(clean)


def test_an_empty_batch_changes_nothing():
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
    assert take_snapshot(model).rejects == {"type": 2, "range": 1}


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


def test_before_the_first_class_a_prediction_has_no_label():
    model = build(ONE_VS_REST, label=GROW)
    assert model.predict(batch([event(a=1), event()]))[1] == [Prediction(None, None, None, {})] * 2


def test_classes_grow_up_to_the_limit():
    model = build(ONE_VS_REST, label=GROW)
    outcome = model.learn([event(label, a=n) for n, label in enumerate("yxyzwx")])
    assert outcome.refused == [(4, "label")]
    assert model.labels.names == ["y", "x", "z"]
    assert outcome.errors >= 3, "the first event of a class must count as an error"
    assert {model.predict(batch([event(a=n)]))[1][0].label for n in range(6)} <= {"x", "y", "z"}
    assert take_snapshot(model).classes == ["y", "x", "z"]


def test_an_unseen_class_is_an_error_in_a_test():
    model = build(ONE_VS_REST, label=GROW)
    model.learn([event("x", a=1), event("y", b=1)])
    y, scores = model.score_labelled(
        [event("x", a=1), event("new", a=1), event("x", a=1e60), event(None, a=1)]
    )
    assert y.tolist() == [0.0, 2.0]
    assert scores.shape == (2, 3)


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


@looped(("learner", "features", "label", "word"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_combinations_that_cannot_learn_are_refused(learner, features, label, word):
    with pytest.raises(ValueError, match=word):
        build(learner, features, label)
