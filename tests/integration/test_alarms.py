"""Alarms in the log beside the source have their position, kill -9 loses none, and a replay repeats
their actions to the bit.
"""

import json
from itertools import islice

import pytest

from service.embedded.payments import DRIFT_EVERY, payments
from service.sources import create_log, open_sink, open_source
from service.sources.base import Entry
from tests.integration.processes import Process, onepass, write_config
from tests.waiting import wait_for

EVENTS = 22_000
DRIFT = {
    "detectors": ["adwin", "ddm"],
    "inputs": {"window": 200, "reference": 500},
    "on_error": ["boost", "reset_scaler"],
    "on_inputs": ["boost"],
    "boost_events": 500,
}
LEARNER = {"kind": "scaled", "base": {"kind": "pa1", "C": 0.03}}


@pytest.fixture(params=["redis", "kafka"])
def log(request):
    if request.param == "kafka":
        return request.getfixturevalue("topic")
    return f"{request.getfixturevalue('redis_url')}/payments"


def read_alarms(url):
    """Return every alarm, by its position, detector and series; an alarm that is repeated is the
    same.
    """
    source, found = open_source(url, "earliest"), {}
    while sum(source.lag().values()):
        for record in source.poll(1.0, 500):
            alarm = json.loads(record.value)
            del alarm["at"]
            key = (alarm["position"], alarm["detector"], alarm["series"])
            assert found.setdefault(key, alarm) == alarm
    source.close()
    return sorted(
        found.values(), key=lambda alarm: (alarm["event"], alarm["detector"], alarm["series"])
    )


def append_all(url, events):
    """Append all events to a new log; return the position of each."""
    create_log(url)
    sink = open_sink(url)
    places = [
        place
        for first in range(0, EVENTS, 1000)
        for place in sink.append([Entry(e) for e in events[first : first + 1000]])
    ]
    sink.close()
    return places


def kill_after(passed, config):
    """Let a learner pass this many events, then kill it."""
    learner = Process(["learn"], config)

    def has_passed():
        status, document = learner.get("/status")
        return status == 200 and document["events"] >= passed

    wait_for(has_passed, f"{passed} events")
    learner.kill()


def check_alike(alarms, again, places):
    """The replay repeats the alarms, except for their positions in the log."""
    assert len(alarms) == len(again) > 0
    for alarm, other in zip(
        alarms, sorted(again, key=lambda a: (a["event"], a["detector"], a["series"])), strict=True
    ):
        place = places[alarm["event"] - 1]
        assert (alarm.pop("partition"), alarm.pop("position"), alarm.pop("model")) == (
            *place,
            "payments",
        )
        assert alarm == {
            name: value for name, value in other.items() if name not in {"partition", "position"}
        }


def test_kill_9_loses_no_alarm_and_changes_no_action(log, redis_url, tmp_path):
    events = list(islice(payments(5, 0), EVENTS))
    places = append_all(log, events)
    config = write_config(
        tmp_path / "c.yaml", log, redis_url, lease=0.5, learner=LEARNER, drift=DRIFT
    )
    for passed in (DRIFT_EVERY - 2000, DRIFT_EVERY + 100, 2 * DRIFT_EVERY + 300):
        kill_after(passed, config)
    status, output = Process(["learn", "--until-end"], config).finish()
    final = json.loads(output)
    assert status == 0
    assert final["events"] == EVENTS

    (tmp_path / "events.jsonl").write_bytes(b"\n".join(events) + b"\n")
    replayed = json.loads(
        onepass("replay", tmp_path / "events.jsonl", "--config", config, "--json").stdout
    )
    assert final["checkpoint"]["state_digest"] == replayed["state_digest"]
    assert final["quality"] == replayed["quality"]

    alarms, again = read_alarms(f"{log}.alarms"), replayed["alarms"]
    check_alike(alarms, again, places)
    worse = [
        alarm["event"]
        for alarm in alarms
        if alarm["detector"] == "adwin" and alarm["change"] == "worse"
    ]
    assert any(DRIFT_EVERY < event <= DRIFT_EVERY + 200 for event in worse)
    latest = [alarm["event"] for alarm in final["drift"]["alarms"]]
    assert latest == [alarm["event"] for alarm in again][-len(latest) :]
