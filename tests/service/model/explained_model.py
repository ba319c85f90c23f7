"""A model that has learned, behind an app that explains it."""

import asyncio
import json

import httpx
from prometheus_client import CollectorRegistry

from service.api import Context, make_app
from service.config.loader import parse
from service.features.decoder import Decoder
from service.model.model import Model
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics

BASE = {
    "name": "m",
    "features": {"columns": ["amount", "age"], "text": ["note"], "ngrams": 2, "bits": 12},
    "label": {"positive": "x", "negative": "y"},
    "source": {"url": "redis://localhost:1/0/s"},
    "store": {"url": "redis://localhost:1/0"},
}


COLUMNS = {"columns": ["amount", "age", "third"], "bits": 0}
GROW = {"classes": "grow", "max_classes": 3}


class Client:
    """The app without a network, with a learner's decoder and a door's."""

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
