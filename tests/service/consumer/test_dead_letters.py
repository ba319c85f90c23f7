"""Logs beside the source: the consumer waits for a configured log, and for no other."""

import logging

import pytest

import service.consumer.dead_letters
from service.consumer.dead_letters import SideOutputs, SideOutputUnavailableError
from service.features.reject import Reject
from service.model.alarms import Alarm
from service.sources.base import Position, Record, SourceUnavailableError

ALARM = Alarm(7, "adwin", "error", "worse", 0.5, None, "0", "6", ("boost",), 1.0)
RECORD = Record("0", "6", "7", b"x")


class Sink:
    """A log that fails its first appends."""

    def __init__(self, faults=0):
        self.faults, self.entries, self.opened = faults, [], 0

    def open(self):
        self.opened += 1
        return self

    def append(self, entries):
        if self.faults:
            self.faults -= 1
            raise SourceUnavailableError("no room")
        self.entries += entries
        return [Position("0", "1") for _ in entries]

    def close(self): ...


def test_a_configured_alarm_log_is_waited_for():
    dead, alarms = Sink(), Sink(faults=2)
    outputs = SideOutputs("m", dead.open, alarms.open)
    outputs.add([(RECORD, Reject("type"))], [ALARM])
    for _ in range(2):
        with pytest.raises(SideOutputUnavailableError, match="no room"):
            outputs.flush()
        assert len(outputs) == 1, "the rejected event must not be sent again"
    outputs.flush()
    assert [len(sink.entries) for sink in (dead, alarms)] == [1, 1]
    assert not outputs


def test_an_alarm_log_that_is_not_configured_is_not_waited_for(caplog, monkeypatch):
    sink, now = Sink(faults=1), [1000.0]
    monkeypatch.setattr(service.consumer.dead_letters.time, "monotonic", lambda: now[0])
    outputs = SideOutputs("m", open_alarms=sink.open, wait_for_alarms=False)
    outputs.add([], [ALARM])
    outputs.flush()
    assert not outputs
    assert "cannot be written" in caplog.text
    outputs.add([], [ALARM])
    outputs.flush()
    assert sink.opened == 1, "a retry must wait"
    now[0] += service.consumer.dead_letters.OPTIONAL_RETRY_SECONDS + 1
    outputs.add([], [ALARM])
    outputs.flush()
    assert len(sink.entries) == 1


def test_dead_letters_are_always_waited_for():
    outputs = SideOutputs("m", Sink(faults=1).open, wait_for_alarms=False)
    outputs.add([(RECORD, Reject("type"))], [])
    with pytest.raises(SideOutputUnavailableError):
        outputs.flush()
    assert len(outputs) == 1


def test_alarms_are_logged_but_only_five_per_batch(caplog):
    caplog.set_level(logging.INFO)
    outputs = SideOutputs("m")
    outputs.add([], [ALARM] * 8)
    told = [record.getMessage() for record in caplog.records]
    assert (
        told[0] == "drift at event 7, partition 0, position 6: 'error' rose by 0.50 (adwin); boost"
    )
    assert told[-1] == "3 more alarms in the same batch"
    assert len(told) == 6
    caplog.clear()
    SideOutputs("m", quiet=True).add([], [ALARM])
    assert not caplog.records


def test_a_dead_letter_of_a_tree_has_the_position_of_the_error():
    sink = Sink()
    outputs = SideOutputs("m", sink.open)
    outputs.add([(RECORD, Reject("tree", character=17)), (RECORD, Reject("tree"))], [])
    outputs.flush()
    place = (("reason", b"tree"), ("partition", b"0"), ("position", b"6"))
    assert [entry.headers for entry in sink.entries] == [(*place, ("character", b"17")), place]


def test_only_the_first_reject_of_each_reason_is_logged(caplog):
    outputs = SideOutputs("m")
    for reason in ("tree", "tree", "label", "tree"):
        outputs.add([(RECORD, Reject(reason))], [])
    told = [record.getMessage() for record in caplog.records]
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
    assert told[0].startswith("an event was rejected (tree): the tree is missing")
    assert "partition 0, position 6" in told[0]
    assert "(label)" in told[1]
    SideOutputs("m", quiet=True).add([(RECORD, Reject("tree"))], [])
    assert len(caplog.records) == 2
