"""Work in another thread: in order of size, and only while the client is connected."""

import asyncio
import threading
from types import SimpleNamespace

import pytest
from starlette.requests import ClientDisconnect

from learners.registry import make
from service.api.predict import EXPLAINED, run_or_offload
from service.config.settings import Features
from tests.looped import looped
from tests.waiting import HANG_SECONDS

KERNEL = make("rbp")
COLUMNS = Features(columns=("a",), bits=0)


def run_work(*, gone):
    done = []
    answer = asyncio.run(
        work_for(COLUMNS, b"body", lambda body: done.append(body) or len(body), KERNEL, gone=gone)
    )
    return answer, done


def work_for(features, body, work, learner=None, *, gone=False, times=1):
    context = SimpleNamespace(
        settings=SimpleNamespace(learner=learner or make("pa1"), features=features)
    )
    return run_or_offload(context, SimpleNamespace(scope={"gone": lambda: gone}), body, work, times)


def thread_of(features, size, times=1):
    """Return the name of the thread that works on a body of `size` bytes."""
    name = asyncio.run(
        work_for(features, bytes(size), lambda _: threading.current_thread().name, times=times)
    )
    return name.rpartition("_")[0] or "loop"


@looped(
    ("features", "loop", "aside"),
    [
        (COLUMNS, 262_144, 4_194_304),
        (Features(), 16_384, 262_144),
        (Features(text=("note",)), 16_384 // 3, 262_144 // 3),
        (Features(text=("note",), ngrams=5), 16_384 // 15, 262_144 // 15),
    ],
)
def test_slow_work_is_not_done_on_the_event_loop(features, loop, aside):
    for size, name in (
        (0, "loop"),
        (loop, "loop"),
        (loop + 1, "aside"),
        (aside, "aside"),
        (aside + 1, "long-aside"),
    ):
        assert thread_of(features, size) == name
    assert thread_of(features, loop, EXPLAINED) == "aside"


def test_very_long_requests_hold_up_only_very_long_ones():
    async def scenario():
        go, order = threading.Event(), []
        long = asyncio.create_task(
            work_for(
                Features(), bytes(300_000), lambda _: go.wait(HANG_SECONDS) and order.append("long")
            )
        )
        await asyncio.sleep(0)
        await work_for(Features(), bytes(100_000), lambda _: order.append("middle"))
        await work_for(Features(), bytes(100), lambda _: order.append("short"))
        go.set()
        await long
        return order

    assert asyncio.run(scenario()) == ["middle", "short", "long"]


def test_work_for_a_connected_client_is_done():
    assert run_work(gone=False) == (4, [b"body"])


def test_no_work_is_done_for_a_disconnected_client():
    with pytest.raises(ClientDisconnect):
        run_work(gone=True)
