"""A model that has learned, behind an app that explains it."""

import asyncio
import json
import threading

import httpx
import pytest
from prometheus_client import CollectorRegistry

from service.api import Context, make_app
from service.checkpoint.lineage import Lineage
from service.config.loader import parse
from service.features.decoder import Decoder, instance_with_names
from service.model.explain import explain
from service.model.model import Model
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics
from service.sources.base import BEGINNING

BASE = {
    "name": "m",
    "features": {"columns": ["amount", "age"], "text": ["note"], "ngrams": 2, "bits": 12},
    "label": {"positive": "x", "negative": "y"},
    "source": {"url": "redis://localhost:1/0/s"},
    "store": {"url": "redis://localhost:1/0"},
}


COLUMNS = {"columns": ["amount", "age", "third"], "bits": 0}
GROW = {"classes": "grow", "max_classes": 3}
ONE_VS_REST = {"kind": "one_vs_rest", "max_classes": 3, "base": "pa1"}
CASES = {
    "pa1": {"learner": "pa1"},
    "scaled, centred": {"learner": {"kind": "scaled", "base": "pa1"}, "features": COLUMNS},
    "scaled, hashed": {"learner": {"kind": "scaled", "base": "arow"}},
    "mbw": {"learner": "mbw"},
    "selected mbw": {
        "learner": {
            "kind": "selected",
            "selector": "efs",
            "every": 5,
            "K": 12,
            "base": {"kind": "averaged", "base": "mbw"},
        }
    },
    "fs": {"learner": "fs", "features": COLUMNS},
    "fs2, hashed": {"learner": "fs2"},
    "fs3": {"learner": "fs3", "features": COLUMNS},
    "averaged": {"learner": {"kind": "averaged", "base": "sgd-log"}},
    "one_vs_rest": {"learner": ONE_VS_REST, "label": GROW},
    "all": {
        "learner": {
            "kind": "scaled",
            "base": ONE_VS_REST | {"base": {"kind": "averaged", "base": "pa2"}},
        },
        "label": GROW,
        "features": COLUMNS,
    },
    "without bias": {"learner": "pa1", "features": BASE["features"] | {"bias": False}},
}


class Client:
    """The app without a network; the learner's decoder and the API's decoder are separate."""

    def __init__(self, *, events=True, **changes) -> None:
        settings = parse(BASE | {"learner": "pa1"} | changes, "test")
        self.settings = settings
        self.decoder = Decoder(
            settings.features, settings.label, settings.limits, settings.max_feature_names
        )
        door = Decoder(settings.features, settings.label, settings.limits)
        self.model = Model(settings.learner, settings.features, settings.label, self.decoder)
        if events:
            self.learn(*(event(n, settings) for n in range(40)))
        self.health = Health(ready=True)
        context = Context(
            settings, door, self.model, Metrics(CollectorRegistry(), "m"), self.health
        )
        self.app = make_app(context, predicts=True)

    def learn(self, *documents):
        self.model.learn(
            [self.decoder.event(json.dumps(document).encode()) for document in documents]
        )

    def ask(self, method, path, document=None):
        return asyncio.run(self.send(method, path, document))

    async def send(self, method, path, document=None):
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app), base_url="http://localhost"
        ) as client:
            return await client.request(
                method, path, content=None if document is None else json.dumps(document)
            )

    def explain(self, **features):
        reply = self.ask("POST", "/explain", {"features": features})
        assert reply.status_code == 200, reply.text
        return reply.json()


def row(n, features):
    hashed = {
        "note": f"word{n % 5} odd{n % 3}",
        "kind": "abc"[n % 3],
        "flag": n % 2 == 0,
        "n": n % 4 + 1,
    }
    return {"amount": n * 37 % 11 + 1, "age": n * 53 % 17 / 4, **(hashed if features.bits else {})}


def event(n, settings):
    names = "xyz" if settings.label.classes == "grow" else "xy"
    return {"features": row(n, settings.features), "label": names[n * 7 % 5 % len(names)]}


def everything(client):
    """Return the whole model as bytes."""
    snapshot = client.model.snapshot(BEGINNING, Lineage(), whole=True)
    return [(name, array.tobytes()) for name, array in snapshot.arrays.items()]


def check_explanations_while_it_learns(client, total, near=1e-12):
    """Learn in another thread; each explanation must be of the state that answered."""
    stop = threading.Event()

    def learn():
        n = 0
        while not stop.is_set():
            client.learn(
                {
                    "features": {"amount": 1 + n % 3, "kind": "ab"[n % 2]},
                    "label": "xy"[n * 7 % 5 % 2],
                }
            )
            n += 1

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        named = instance_with_names(client.decoder, b'{"features": {"amount": 2, "kind": "a"}}')
        for _ in range(300):
            _, answer, explanation = explain(client.model, named)
            assert total(explanation) == pytest.approx(answer.score, rel=1e-9, abs=near)
    finally:
        stop.set()
        thread.join()
