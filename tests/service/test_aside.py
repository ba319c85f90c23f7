"""Work in a thread: in turn, and only for who is still there."""

import asyncio
from types import SimpleNamespace

import pytest
from starlette.requests import ClientDisconnect

from learners.registry import make
from service.api.aside import worked

CONTEXT = SimpleNamespace(settings=SimpleNamespace(learner=make("rbp"), features=SimpleNamespace(bits=0)))


def asked(*, gone):
    done = []
    request = SimpleNamespace(scope={"gone": lambda: gone})
    answer = asyncio.run(worked(CONTEXT, request, b"body", lambda body: done.append(body) or len(body)))
    return answer, done


def test_what_a_client_waits_for_is_done():
    assert asked(gone=False) == (4, [b"body"])


def test_nothing_is_done_for_one_that_has_gone():
    with pytest.raises(ClientDisconnect):
        asked(gone=True)
