"""A model on a real port, a client of it, and a layer between them that counts."""

import json
from collections import Counter
from functools import partial

import pytest

from service.api.log_appender import Appender
from service.client import Client as HastyClient
from tests.service.api import api_client
from tests.service.api.serving import serve
from tests.waiting import HANG_SECONDS

KEY = "op_canary-key-4711"
Client = partial(HastyClient, timeout=HANG_SECONDS)
"""The default client of the tests; its usual ten seconds may be too few on a busy machine."""
ROW = {"amount": 3, "note": "odd", "tags": ["a", "b"], "new": True}


class Before:
    """A layer before the app: it counts requests, and refuses as many of them as the test lists."""

    def __init__(self, app) -> None:
        self._app = app
        self.paths, self.connections, self.headers = Counter(), set(), []
        self.refusals = []

    async def __call__(self, scope, receive, send):
        self.paths[scope["path"]] += 1
        self.connections.add(scope["client"])
        self.headers.append(dict(scope["headers"]))
        if not self.refusals:
            await self._app(scope, receive, send)
            return
        status, headers = self.refusals.pop()
        body = json.dumps({"error": {"code": "busy", "message": "later"}}).encode()
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@pytest.fixture(name="service")
def service_fixture(log):
    """A served model."""
    appender = Appender(log)
    made = api_client.Client(log=appender)
    made.before = Before(made.app)
    with serve(made.before) as address:
        made.url = f"http://{address}"
        yield made
    appender.close()


@pytest.fixture(name="client")
def client_fixture(service):
    with Client(service.url, key=KEY) as made:
        yield made
