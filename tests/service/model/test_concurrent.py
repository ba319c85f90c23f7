"""Learning and answering at the same time: each answer is that of one whole state, and requests
change nothing.
"""

import asyncio
import json
import random
import threading
from types import SimpleNamespace

import httpx
import pytest
from prometheus_client import CollectorRegistry

import service.model.model
import service.model.scheduling
from learners.registry import make
from service.api import Context, make_app
from service.checkpoint.lineage import Lineage
from service.config.loader import parse
from service.config.settings import Features, Label, Limits
from service.features.decoder import Decoder, batch
from service.model.model import Model
from service.model.scheduling import BETWEEN_LOOKS, FEW, LONGEST_WAIT, RequestGate
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics
from service.sources.base import BEGINNING
from tests.waiting import HANG_SECONDS, wait_for

COLUMNS = tuple("abcdefgh")
FEATURES = Features(columns=COLUMNS, bits=0)
ONE_VS_REST = {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
CASES = {
    "binary": (
        {"kind": "scaled", "base": {"kind": "averaged", "base": "pa1"}},
        Label(positive="x"),
    ),
    "classes": ({"kind": "scaled", "base": ONE_VS_REST}, Label(classes="grow", max_classes=3)),
}
EVENTS, POLL = 3_000, 250


def build(learner, label):
    decoder = Decoder(FEATURES, label, Limits())
    return Model(make(learner), FEATURES, label, decoder), decoder


def row(draws):
    return {name: round(draws.uniform(-3, 3), 3) for name in COLUMNS}


def documents():
    draws = random.Random(7)
    for n in range(EVENTS):
        features = row(draws)
        yield {
            "features": features | ({"a": 1e60} if n % 97 == 5 else {}),
            "label": "xyz"[int(features["b"] > 0)],
        }


def question():
    return json.dumps({"features": row(random.Random(1))}).encode()


def digest(model):
    return model.snapshot(BEGINNING, Lineage(), whole=True).with_digest().state_digest


class Learning:
    """Learn the stream in another thread, slice by slice, until its end; between two slices the
    test asks.
    """

    def __init__(self, model, events):
        self._model, self._events = model, events
        self._rounds, self._left = 0, False
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        for first in range(0, len(self._events), POLL):
            self._model.learn(self._events[first : first + POLL])
            wanted = self._rounds + 2  # the first question may have come before
            wait_for(lambda wanted=wanted: self._left or self._rounds >= wanted, "a question")

    def ask_again(self):
        """Count one question; return whether learning still runs."""
        self._rounds += 1
        return self._thread.is_alive()

    def __enter__(self):
        self._thread.start()
        return self.ask_again

    def __exit__(self, *_):
        self._left = True
        self._thread.join()


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES)
def learned_alone(request):
    """The settings, the events, and by version the answer of the state after that many events."""
    learner, label = request.param
    model, decoder = build(learner, label)
    events = [decoder.event(json.dumps(document).encode()) for document in documents()]
    asked = [decoder.instance(question())]
    truth = {}
    for event in [None, *events]:
        model.learn([] if event is None else [event])
        served, (answer,) = model.predict(batch(asked))
        truth[served.version] = answer
    return request.param, events, truth, digest(model)


@pytest.fixture
def case(learned_alone):
    """A fresh model and its decoder, its events, and the answers it must give."""
    settings, events, truth, expected = learned_alone
    return *build(*settings), events, truth, expected


def test_every_answer_is_of_the_state_after_some_event(case):
    model, decoder, events, truth, expected = case
    asked = [decoder.instance(question())]
    seen = set()
    with Learning(model, events) as ask_again:
        while ask_again():
            served, answers = model.predict(batch(asked * 3))
            assert answers == [truth[served.version]] * 3
            seen.add(served.version)
    served, answers = model.predict(batch(asked))
    assert answers == [truth[served.version]]
    assert served.version == max(truth)
    assert digest(model) == expected, "requests have changed the model"
    assert len(seen) > EVENTS / service.model.model.STRETCH / 20, (
        "hardly any state between the first and the last was seen"
    )


def test_every_http_answer_is_of_the_state_after_some_event(case):
    model, decoder, events, truth, expected = case
    settings = parse(
        {
            "name": "m",
            "learner": "pa1",
            "features": FEATURES.model_dump(),
            "source": {"url": "redis://localhost:1/0/s"},
            "store": {"url": "redis://localhost:1/0"},
        },
        "test",
    )
    health = Health(ready=True)
    app = make_app(
        Context(settings, decoder, model, Metrics(CollectorRegistry(), "m"), health), predicts=True
    )

    async def ask(ask_again):
        transport = httpx.ASGITransport(app)
        one = json.loads(question())
        batch = json.dumps({"instances": [one] * 200}).encode()
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            while ask_again():
                alone = (await client.post("/predict", content=question())).json()
                told = (await client.post("/predict/batch", content=batch)).json()["predictions"]
                for answer in [alone, *told]:
                    known = truth[answer["model"]["version"]]
                    assert (answer["label"], answer["score"], answer.get("scores")) == (
                        known.label,
                        known.score,
                        known.scores,
                    )
                assert all(answer == told[0] for answer in told), (
                    "a batch must be answered by one state"
                )

    with Learning(model, events) as ask_again:
        asyncio.run(ask(ask_again))
    assert digest(model) == expected


def test_the_learner_waits_until_no_request_is_open():
    gate, done = RequestGate(), []

    def wait(seconds):
        """Answer, and let another request arrive before the learner looks again."""
        assert 0.0 < seconds <= LONGEST_WAIT
        done.append("waited")
        gate.answered()
        if len(done) == 1:
            gate.arrived()

    gate._idle.wait = wait
    gate.arrived()
    for record in gate.iterate(range(3 * BETWEEN_LOOKS)):
        done.append(record)
        if record in {BETWEEN_LOOKS, 3 * BETWEEN_LOOKS - 1}:
            gate.arrived()
    cut = 2 * BETWEEN_LOOKS
    assert done == [
        "waited",
        "waited",
        *range(cut),
        "waited",
        *range(cut, 3 * BETWEEN_LOOKS),
        "waited",
    ]
    assert gate.poll_limit(500) == FEW, "a round with a wait must poll few"
    assert gate.poll_limit(500) == 500, "without requests a round must poll all"


def test_continuous_requests_slow_the_learner_down_but_never_stop_it(monkeypatch):
    gate, waits = RequestGate(), []
    gate._idle.wait = waits.append
    clock = SimpleNamespace(monotonic=lambda: sum(waits))
    monkeypatch.setattr(service.model.scheduling, "time", clock)
    gate.arrived()
    for most in (500, FEW):
        waits.clear()
        assert gate.poll_limit(500) == most
        assert [*gate.iterate(range(FEW))] == [*range(FEW)]
        assert waits == [LONGEST_WAIT], "it must wait once per round"


def test_an_answer_wakes_the_learner_and_an_open_request_cannot_stop_it():
    gate = RequestGate()
    gate.arrived()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.model.scheduling.LONGEST_WAIT", 10.0 * HANG_SECONDS)
        waiting = threading.Thread(target=lambda: [*gate.iterate([1])])
        waiting.start()
        wait_for(lambda: gate._idle._cond._waiters, "the learner waits")
        assert waiting.is_alive()
        gate.answered()
        waiting.join(HANG_SECONDS)
        assert not waiting.is_alive()
    gate.arrived()
    assert [*gate.iterate(range(100))] == [*range(100)], "an open request stopped the learner"
