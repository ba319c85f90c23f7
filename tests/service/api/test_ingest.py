"""POST /events appends exactly the sent bytes to the log, and nothing else; a log in trouble is
reported.
"""

import asyncio
import json

import httpx
import pytest

from service.api import ingest
from service.api import log_appender as appender
from tests.service.api.api_client import CANARY, EVENTS, Client, check_error
from tests.service.api.ingest_log import (  # noqa: F401  # fixtures
    client_fixture,
    log_fixture,
    make_client_fixture,
)
from tests.waiting import wait_for

JSON = {"content-type": "application/json"}
GOOD = (
    b'{"label" : "fraud", "features": {"amount":1.50, "note": "x"},'
    b'"id":"7", "ts": 12.5, "weight": 2 }\n'
)


def post_at_once(client, bodies):
    async def send():
        transport = httpx.ASGITransport(client.app)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", timeout=60
        ) as asking:
            return await asyncio.gather(
                *(asking.post("/events", content=body, headers=JSON) for body in bodies)
            )

    return asyncio.run(send())


def test_the_exact_bytes_are_appended_and_the_model_is_not_touched(client, log):
    before = client.model.version()
    for place, body in enumerate([GOOD, *EVENTS]):
        reply = client.ask("POST", "/events", body)
        assert reply.status_code == 202
        assert reply.json() == {"position": {"partition": "3", "position": str(place)}}
    assert log.values == [GOOD, *EVENTS]
    assert log.opened == 1, "each event opened a connection"
    assert client.model.version() == before


def event(**changes):
    return json.dumps({"features": {"amount": 1}, "label": "fraud"} | changes).encode()


WRONG = {
    "not JSON": (b"{", "malformed"),
    "empty": (b"", "malformed"),
    "no label": (b'{"features": {}}', "label"),
    "null label": (event(label=None), "label"),
    "unknown label": (event(label=CANARY), "label"),
    "no features": (b'{"label": "fraud"}', "malformed"),
    "unknown field": (event(**{CANARY: 1}), "unknown_field"),
    "column a string": (event(features={"amount": CANARY}), "type"),
    "beyond the limit": (event(features={"amount": 1e101}), "range"),
    "beyond the learner": (event(features={"amount": 1e60}), "numeric"),
    "weight": (event(weight=-1), "weight"),
    "weight beyond the learner": (event(weight=1e60), "numeric"),
    "id": (event(id=7), "malformed"),
    "ts": (event(ts=[]), "malformed"),
    "ts a boolean": (event(ts=True), "malformed"),
    "two events": (GOOD + GOOD, "malformed"),
    "long name": (event(features={CANARY * 100: 1}), "too_long"),
}


@pytest.mark.parametrize(("body", "code"), WRONG.values(), ids=WRONG)
def test_an_event_that_could_not_be_learned_never_reaches_the_log(client, log, body, code):
    assert check_error(client.ask("POST", "/events", body), 422) == code
    assert (log.values, log.opened) == ([], 0)


def test_a_posted_event_has_the_length_limit_of_the_log(make_client, log):
    client = make_client(limits={"max_bytes": 100})
    assert client.ask("POST", "/events", event(id="7")).status_code == 202
    assert check_error(client.ask("POST", "/events", event(id="7" * 100)), 422) == "too_long"
    assert check_error(client.ask("POST", "/events", b"x" * 1_000_001), 413) == "too_large"
    assert log.values == [event(id="7")]


def test_flat_events_are_accepted(make_client, log):
    client = make_client(features={"columns": ["amount", "age"], "bits": 0, "flat": True})
    good = b'{"amount": 1, "label": "fraud", "weight": 2}'
    assert client.ask("POST", "/events", good).status_code == 202
    assert (
        check_error(client.ask("POST", "/events", b'{"amuont": 1, "label": "fraud"}'), 422)
        == "unknown_feature"
    )
    assert log.values == [good]


def test_every_accepted_event_is_learned(make_client, log):
    learner = {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
    client = make_client(learner=learner, label={"classes": "grow", "max_classes": 3})
    assert client.ask("POST", "/events", event(label=7)).status_code == 202
    outcome = client.model.learn([client.context.decoder.event(value) for value in log.values])
    assert (outcome.learned, outcome.refused) == (1, [])


def test_the_next_event_reopens_a_log_that_is_down(client, log, caplog):
    assert client.ask("POST", "/events", GOOD).status_code == 202
    log.down = True
    for _ in range(3):
        reply = client.ask("POST", "/events", GOOD)
        assert check_error(reply, 503) == "log_down"
        assert reply.headers["retry-after"] == "1"
        assert client.post("/predict", {"features": {}}).status_code == 200
    assert log.closed == 1
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1, (
        "the warning must be logged once"
    )
    log.down = False
    assert client.ask("POST", "/events", GOOD).json()["position"]["position"] == "1"
    assert log.opened == 4


def test_a_request_does_not_wait_for_a_log_that_hangs(client, log, monkeypatch):
    monkeypatch.setattr(ingest, "SECONDS", 0.2)
    log.open.clear()
    replies, stuck = [], event(id="stuck")

    # One alone: an abandoned event that the appender has not taken yet is not appended.
    def log_holds_one():
        replies.append(client.ask("POST", "/events", stuck))
        return log.holds.is_set()

    wait_for(log_holds_one, "that the log holds one")
    replies += post_at_once(client, [event(id=str(number)) for number in range(20)])
    assert {check_error(reply, 503) for reply in replies} == {"log_down"}
    assert log.values == [], "the log answered before the replies"
    log.open.set()
    assert client.ask("POST", "/events", GOOD).status_code == 202
    assert log.values == [stuck, GOOD], "an abandoned event was appended"


def test_a_full_queue_is_refused_at_once(client, log, monkeypatch):
    monkeypatch.setattr(ingest, "SECONDS", 1.0)
    log.open.clear()
    replies = post_at_once(
        client, [event(id=str(number)) for number in range(2 * appender.WAITING + 50)]
    )
    codes = [check_error(reply, 503) for reply in replies]
    assert codes.count("busy") >= 50
    assert set(codes) == {"busy", "log_down"}
    log.open.set()


def test_events_are_appended_together_and_each_gets_its_position(client, log):
    bodies = [event(id=str(number)) for number in range(100)]
    replies = post_at_once(client, bodies)
    assert {reply.status_code for reply in replies} == {202}
    assert [log.values[int(reply.json()["position"]["position"])] for reply in replies] == bodies
    assert len(log.sizes) < 100


def test_an_event_too_long_for_the_log_fails_alone(client, log):
    long = event(features={"note": "x" * 300_000})
    replies = post_at_once(
        client, [event(id="1"), long, *(event(id=str(number)) for number in range(20))]
    )
    assert [reply.status_code for reply in replies] == [202, 503, *([202] * 20)]
    assert len(log.values) == 21


def test_a_service_that_reads_a_file_refuses_events():
    assert check_error(Client().ask("POST", "/events", GOOD), 503) == "no_log"


def test_events_are_accepted_before_the_model_is_ready(client, log):
    client.health.ready = False
    assert client.ask("POST", "/events", GOOD).status_code == 202
    assert log.values == [GOOD]
