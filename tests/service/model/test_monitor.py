"""The monitor beside the model: alarms with their position, actions that depend only on the events,
and its checkpoints.
"""

import json
import re
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import service.model.drift_actions
import service.model.model
from learners.drift.registry import DETECTORS
from learners.registry import make
from learners.state import arrays_digest, state_digest
from service.checkpoint.snapshot import ALARMS, decode
from service.config.settings import Drift, Features, Label, Limits
from service.features.decoder import Decoder, Event
from service.model.alarms import KEPT, Alarm, Alarms, read_alarms
from service.model.checkpoint_checks import MismatchError
from service.model.drift_actions import STRETCH
from service.model.model import Model
from tests.examples import examples
from tests.looped import looped
from tests.service.model.monitored_model import (
    ACTING,
    FLIP,
    QUICK,
    STREAM,
    build_monitored,
    events,
    everything,
    no_clock,  # noqa: F401  # fixtures
    records,
    take_snapshot,
)


def test_a_flip_of_the_labels_raises_an_alarm_with_its_position():
    model = build_monitored(Drift(inputs=None))
    outcome = model.learn(events(), records(2200))
    worse = [alarm for alarm in outcome.alarms if alarm.change == "worse"]
    assert len(worse) == 1
    alarm = worse[0]
    assert FLIP < alarm.event <= FLIP + 200
    assert (alarm.detector, alarm.series, alarm.actions) == ("adwin", "error", ())
    assert (alarm.partition, alarm.position) == (
        str((alarm.event - 1) % 3),
        str(1000 + alarm.event - 1),
    )
    assert alarm.size > 0.1
    assert model.alarms.latest() == outcome.alarms
    assert model.monitor.counters.alarms.tolist() == [1]


def test_refused_events_do_not_shift_the_position_of_an_alarm():
    stream, places = events(), records(2300)
    for n in range(100):
        stream.insert(20 * n, Event([0, 1], [1.0, 1.0], "perhaps", 1.0))
    model, plain = build_monitored(), build_monitored()
    found = model.learn(stream, places).alarms
    assert [alarm.event for alarm in found] == [
        alarm.event for alarm in plain.learn(events()).alarms
    ]
    for alarm in found:
        learned = [
            place for place, one in zip(places, stream, strict=True) if one.label != "perhaps"
        ]
        assert alarm.position == learned[alarm.event - 1].position


def test_a_feature_that_moved_is_named():
    model = build_monitored(Drift(detectors=[], inputs=QUICK))
    alarms = model.learn(events(FLIP, shift=1000)).alarms
    assert [(alarm.detector, alarm.series, alarm.change) for alarm in alarms] == [
        ("inputs", "b", "moved")
    ]
    assert 1000 < alarms[0].event <= 1300
    assert alarms[0].psi > 0.25
    assert model.monitor.scores()["inputs"] > model.monitor.scores()["labels"]


@examples(8)
@given(st.lists(st.integers(1, 700), min_size=1, max_size=8))
def test_any_cut_into_batches_gives_the_same_alarms_and_actions(sizes):
    whole, cut = build_monitored(ACTING), build_monitored(ACTING)
    outcome = whole.learn(STREAM, records(len(STREAM)))
    assert {action for alarm in outcome.alarms for action in alarm.actions} == {
        "boost",
        "reset_scaler",
    }
    place, turn, alarms = 0, 0, []
    while place < len(STREAM):
        size = sizes[turn % len(sizes)]
        alarms += cut.learn(
            STREAM[place : place + size], records(len(STREAM))[place : place + size]
        ).alarms
        place, turn = place + size, turn + 1
    assert alarms == outcome.alarms
    assert everything(cut) == everything(whole)


def test_a_model_restored_anywhere_takes_the_same_actions():
    straight = build_monitored(ACTING)
    alarm = straight.learn(STREAM).alarms[0].event
    for cut in (0, alarm - 1, alarm, alarm + 1, alarm + STRETCH, alarm + 150):
        first, second = build_monitored(ACTING), build_monitored(ACTING)
        first.learn(STREAM[:cut])
        second.learn(STREAM[:70])
        second.restore(decode(everything(first)))
        assert everything(second) == everything(first)
        second.learn(STREAM[cut:])
        assert everything(second) == everything(straight), cut


def test_boost_multiplies_weights_from_the_next_stretch_for_a_while():
    drift = Drift(inputs=None, on_error=["boost"], boost_factor=3.0, boost_events=100)
    acting, plain = (
        build_monitored(drift, "pa1:C=0.01"),
        build_monitored(Drift(inputs=None), "pa1:C=0.01"),
    )
    stream = events()
    alarm = next(
        alarm
        for alarm in build_monitored(drift, "pa1:C=0.01").learn(stream).alarms
        if alarm.actions
    )
    begins = -(-alarm.event // STRETCH) * STRETCH
    acting.learn(stream[:begins])
    plain.learn(stream[:begins])
    assert state_digest(acting.state) == state_digest(plain.state)
    by_hand = [one._replace(weight=3.0) for one in stream[begins : begins + 100]]
    acting.learn(stream[begins : begins + 100])
    plain.learn(by_hand)
    assert state_digest(acting.state) == state_digest(plain.state)
    assert int(acting.monitor.counters.raised[0]) == 0


def test_reset_scaler_forgets_only_the_means():
    drift = Drift(inputs=None, on_error=["reset_scaler"])
    stream, acting = events(), build_monitored(drift)
    alarm = next(alarm for alarm in build_monitored(drift).learn(stream).alarms if alarm.actions)
    begins = -(-alarm.event // STRETCH) * STRETCH
    acting.learn(stream[:begins])
    before = acting.learner.weights(acting.state, 0)
    assert acting.state.events[0] == begins
    acting.learn([stream[begins]._replace(weight=0.0)])
    assert acting.state.events[0] == 0
    assert not acting.state.mean.any()
    assert (acting.learner.weights(acting.state, 0) == before).all()
    assert take_snapshot(acting).whole


def test_a_restored_model_may_have_other_detectors_without_actions():
    first, second = (
        build_monitored(Drift(detectors=["adwin"])),
        build_monitored(Drift(detectors=["ddm", "adwin:delta=0.1"])),
    )
    first.learn(STREAM)
    second.restore(decode(everything(first)))
    assert state_digest(second.monitor.quality) == state_digest(first.monitor.quality)
    assert state_digest(second.monitor.history) == state_digest(first.monitor.history)
    assert [state_digest(state) for state in second.monitor.detector_states] == [
        state_digest(detector.init()) for detector in second.monitor.drift.detectors
    ]
    assert second.alarms.latest() == first.alarms.latest()
    assert take_snapshot(second).whole, "a delta cannot build on other arrays"


@pytest.mark.parametrize("acting_first", [True, False])
def test_a_model_with_other_actions_refuses_the_checkpoint(acting_first):
    pair = [build_monitored(ACTING), build_monitored(Drift())]
    first, second = pair if acting_first else pair[::-1]
    first.learn(STREAM[:100])
    with pytest.raises(MismatchError, match=r"other settings: .*on_error"):
        second.restore(decode(everything(first)))


def test_a_checkpoint_of_an_earlier_version_continues():
    first, second = build_monitored(), build_monitored()
    first.learn(STREAM[:500])
    snapshot = take_snapshot(first)
    parts = ("quality/", "history/", "drift/", ALARMS)
    older = {name: array for name, array in snapshot.arrays.items() if not name.startswith(parts)}
    model = {part: made for part, made in snapshot.model.items() if part != "drift"}
    second.restore(snapshot._replace(arrays=older, model=model))
    assert second.progress.error_rate == first.progress.error_rate
    second.learn(STREAM[500:600])
    assert int(second.monitor.quality.totals[0]) == 100
    assert not second.alarms.latest()
    with pytest.raises(MismatchError, match="on_error"):
        build_monitored(ACTING).restore(snapshot._replace(arrays=older, model=model))


def change_array(name, change):
    return lambda s: s._replace(arrays=s.arrays | {name: change(s.arrays[name].copy())})


HOSTILE = {
    "alarms that are none": (
        lambda s: s._replace(arrays=s.arrays | {ALARMS: np.zeros(3, np.uint8)}),
        "alarms are",
    ),
    "alarms of another type": (
        lambda s: s._replace(arrays=s.arrays | {ALARMS: np.zeros(3)}),
        "wrong type",
    ),
    "alarms of another shape": (
        lambda s: s._replace(
            arrays=s.arrays | {ALARMS: np.array([[json.dumps([]).encode()[0]]], np.uint8)}
        ),
        "wrong type or shape",
    ),
    "a count below 0": (change_array("drift/tally/alarms", lambda a: a - 10), "counters"),
    "an action that is none": (change_array("drift/tally/pending", lambda a: a + 2), "counters"),
    "events left below 0": (change_array("drift/tally/raised", lambda a: a - 1), "counters"),
    "buckets that there cannot be": (change_array("drift/adwin/used", lambda a: a + 1000), "adwin"),
    "a watch that cannot be": (
        change_array("drift/inputs/seen", lambda a: a + 10**9),
        "drift inputs",
    ),
    "quality that cannot be": (change_array("quality/totals", lambda a: -1 - a), "quality"),
    "a history that cannot be": (change_array("history/marked", lambda a: a * 0), "history"),
    "half a detector": (
        lambda s: s._replace(arrays={n: a for n, a in s.arrays.items() if n != "drift/adwin/sums"}),
        "do not fit",
    ),
}


@looped(("change", "words"), HOSTILE.values(), ids=HOSTILE)
def test_an_impossible_monitor_is_refused_and_changes_nothing(change, words):
    first, second = build_monitored(), build_monitored()
    first.learn(STREAM)
    second.learn(STREAM[:10])
    before = everything(second)
    with pytest.raises(MismatchError, match=re.escape(words)):
        second.restore(change(decode(everything(first))))
    assert everything(second) == before


def test_actions_that_would_do_nothing_are_refused():
    with pytest.raises(ValueError, match="cannot weigh"):
        build_monitored(Drift(on_error=["boost"]), "pa")
    with pytest.raises(ValueError, match="needs a learner of kind scaled"):
        build_monitored(Drift(on_inputs=["reset_scaler"]), "pa1")


WRONG = {
    "a kind twice": ({"detectors": ["adwin", "adwin:delta=0.1"]}, "twice"),
    "no such kind": ({"detectors": ["adwim"]}, "did you mean 'adwin'"),
    "no list": ({"detectors": "adwin"}, "must be a list"),
    "a parameter that there is not": ({"detectors": ["adwin:detla=1"]}, "did you mean 'delta'"),
    "an action twice": ({"on_error": ["boost", "boost"]}, "twice"),
    "no detector to act on": ({"detectors": [], "on_error": ["boost"]}, "needs a detector"),
    "no inputs to act on": ({"inputs": None, "on_inputs": ["boost"]}, "needs inputs"),
    "an action that there is not": ({"on_error": ["panic"]}, "boost"),
}


@looped(("values", "words"), WRONG.values(), ids=WRONG)
def test_impossible_drift_settings_are_refused(values, words):
    with pytest.raises(ValueError, match=words):
        Drift(**values)


def an_alarm(n, **fields) -> Alarm:
    return Alarm(n, "adwin", "error", "worse", 0.25, None, "0", str(n), (), 1.5, **fields)


def test_only_the_newest_alarms_are_kept_and_restored():
    alarms = Alarms()
    alarms.extend([an_alarm(n) for n in range(100)])
    assert [alarm.event for alarm in alarms.latest()] == list(range(100 - KEPT, 100))
    assert read_alarms(alarms.array()).latest() == alarms.latest()


def test_an_alarm_becomes_a_record_of_the_log():
    entry = an_alarm(7).entry("fraud")
    assert entry.key == b"fraud:0:7:adwin:error"
    assert msgspec.json.decode(entry.value) == {
        "model": "fraud",
        "event": 7,
        "detector": "adwin",
        "series": "error",
        "change": "worse",
        "size": 0.25,
        "psi": None,
        "partition": "0",
        "position": "7",
        "actions": [],
        "at": 1.5,
    }


GOLDEN = Path(__file__).parents[1] / "golden" / "judged-2.bin"
EVERYTHING = Drift(
    detectors=list(DETECTORS), inputs=QUICK | {"features": 1}, on_error=["boost"], boost_events=100
)
AT_GOLDEN = "8f5309816f04e404dccfe516b046d81e87c9923d31c7a7d8fc24249a61427de6"
AFTER_GOLDEN = "817bf241a3e29af2fee940b1d2e5e31113e4e6b59bd8ebbc31356d26633cacdf"


def digest_monitor(model):
    """Return the digest under the old name of the action: when the golden digests were taken,
    `boost` was called `raise`.
    """
    alarms = np.frombuffer(model.alarms.array().tobytes().replace(b'"boost"', b'"raise"'), np.uint8)
    return arrays_digest(model.monitor.arrays() | {ALARMS: alarms})


def test_the_golden_checkpoint_continues_with_the_same_bits():
    """Names and meanings of arrays are the format, so every later version must continue with the
    same bits.
    """
    model = build_monitored(EVERYTHING, "pa1")
    model.restore(decode(GOLDEN.read_bytes()))
    assert digest_monitor(model) == AT_GOLDEN
    assert int(model.progress.events[0]) == 1600
    model.learn(STREAM[1600:])
    assert digest_monitor(model) == AFTER_GOLDEN


def test_the_arrays_match_the_golden_file():
    model = build_monitored(EVERYTHING, "pa1")
    model.learn(STREAM[:1600])
    assert digest_monitor(model) == AT_GOLDEN


def test_a_very_long_feature_name_is_cut_in_alarms():
    """A word can have any length; uncut, it once made a checkpoint that its own writer refused."""
    features, label = Features(text=("note",), bits=8), Label(positive="yes")

    def feed(model, decoder, first, last):
        words = ["x" * 5000 if n == 0 or n >= 600 else "short" for n in range(first, last)]
        lines = [
            json.dumps({"features": {"note": word}, "label": "yes"}).encode() for word in words
        ]
        return model.learn([decoder.event(line) for line in lines]).alarms

    made = [Decoder(features, label, Limits(), 100) for _ in range(2)]
    model, again = (
        Model(make("pa1"), features, label, decoder, Drift(inputs=QUICK)) for decoder in made
    )
    (alarm,) = [
        alarm for alarm in feed(model, made[0], 0, 900) if alarm.series.startswith("note=xx")
    ]
    assert len(alarm.series) == service.model.drift_actions.LONGEST
    again.restore(decode(everything(model)))
    assert again.alarms.latest() == model.alarms.latest()


def test_the_message_of_an_alarm_names_place_and_change():
    assert (
        an_alarm(20_032).message
        == "drift at event 20,032, partition 0, position 20032: 'error' rose by 0.25 (adwin)"
    )


@pytest.mark.parametrize("missing", ["quality/", "history/"])
def test_quality_and_history_are_reset_together(missing):
    first, second = build_monitored(), build_monitored()
    first.learn(STREAM[:700])
    snapshot = take_snapshot(first)
    kept = {name: array for name, array in snapshot.arrays.items() if not name.startswith(missing)}
    second.restore(snapshot._replace(arrays=kept))
    second.learn(STREAM[700:])
    again = build_monitored()
    again.restore(decode(everything(second)))
    assert everything(again) == everything(second)


def test_a_large_batch_is_monitored_in_parts_with_the_same_result(monkeypatch):
    whole, parts = build_monitored(), build_monitored()
    monkeypatch.setattr(service.model.model, "LOOKED_AT", 100)
    alarms = parts.learn(STREAM).alarms
    monkeypatch.setattr(service.model.model, "LOOKED_AT", 10**9)
    assert whole.learn(STREAM).alarms == alarms
    assert everything(whole) == everything(parts)
