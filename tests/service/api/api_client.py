"""A client of the app without a network, and what every reply must satisfy."""

import asyncio
import json
import time
from typing import Any

import httpx
import jsonschema_rs
import pytest
from prometheus_client import CollectorRegistry

from service.api import Context, make_app
from service.checkpoint.store import Manifest, Part
from service.config.loader import parse
from service.features.decoder import Decoder, Event
from service.model.model import Model
from service.monitoring.health import Health
from service.monitoring.metrics import Metrics

CANARY = "canary-7f3a"
SETTINGS = {
    "name": "m",
    "learner": "pa1",
    "features": {"columns": ["amount", "age"], "text": ["note"], "bits": 8},
    "label": {"positive": "fraud", "negative": "fine"},
    "source": {"url": "redis://localhost:1/0/s"},
    "store": {"url": "redis://localhost:1/0"},
    "api": {"max_body_bytes": 1_000_000, "max_batch": 50},
}
EVENTS = [
    b'{"features": {"amount": 5, "note": "odd one"}, "label": "fraud"}',
    b'{"features": {"amount": -5, "note": "fine one"}, "label": "fine"}',
]


class Client:
    """The app without a network; an exception of the app is raised in the test."""

    def __init__(self, *, predicts=True, ready=True, log=None, keys=None, **changes) -> None:
        settings = parse(SETTINGS | changes, "test")
        decoder = Decoder(settings.features, settings.label, settings.limits)
        self.model = Model(settings.learner, settings.features, settings.label, decoder)
        if settings.label.classes == "binary":
            decoded = [decoder.event(data) for data in EVENTS]
            self.model.learn([event for event in decoded if isinstance(event, Event)])
        self.model.count_rejects(["type"])
        saved = Manifest(7, "c", "p", "t", time.time(), 2, 0, "digest", (Part("blob", 100, "sha"),))
        self.health = Health(
            ready=ready, source_up=True, store_up=True, lag={"0": 3, "1": 4}, checkpoint=saved
        )
        self.metrics = Metrics(CollectorRegistry(), settings.name)
        self.model.mark_saved(7)
        self.context = Context(settings, decoder, self.model, self.metrics, self.health, log)
        self.app = make_app(self.context, predicts=predicts, keys=keys)

    def ask(self, method: str, path: str, content: Any = None, **given: str) -> httpx.Response:
        headers = given if content is None else {"content-type": "application/json"} | given

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app)
            async with httpx.AsyncClient(
                transport=transport, base_url="http://localhost"
            ) as client:
                return await client.request(method, path, content=content, headers=headers)

        return asyncio.run(send())

    def get(self, path: str) -> httpx.Response:
        return self.ask("GET", path)

    def post(self, path: str, document: Any) -> httpx.Response:
        return self.ask("POST", path, json.dumps(document).encode())


@pytest.fixture(name="client")
def client_fixture():
    return Client()


def check_error(reply: httpx.Response, status: int) -> str:
    """Check that the reply has the one form of errors, and return its code."""
    assert reply.status_code == status
    assert reply.headers["content-type"] == "application/json"
    assert len(reply.content) <= 4096
    assert CANARY not in reply.text
    assert CANARY not in str(reply.headers)
    document = reply.json()
    assert document.keys() == {"error"}
    assert document["error"].keys() == {"code", "message"}
    assert all(isinstance(text, str) and text for text in document["error"].values())
    return document["error"]["code"]


def conforms(value: Any, schema: Any, document: Any) -> bool:
    return jsonschema_rs.is_valid(schema | {"components": document["components"]}, value)
