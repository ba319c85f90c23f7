"""The serving bench: its load reports a server's behaviour truthfully, and its document has every
bar.
"""

import asyncio
import json
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import ClassVar

import pytest

from service.bench import serve
from service.bench.serve import latency
from service.bench.serve import load as serve_load
from service.bench.serve.load import Client, Load, run_load
from service.bench.serve.setup import Setup
from tests.chaos.scale import CHAOS
from tests.waiting import HANG_SECONDS

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"
HEADERS = (("Authorization", "me"),)
ANSWER_SECONDS = 0.001


class Clock:
    """One clock for a load and its server, in one loop: an answer takes a millisecond; otherwise
    time passes only while the load sleeps and no answer is due.
    """

    def __init__(self):
        self.now, self.idle = 1000.0, lambda: True
        self._sleep = asyncio.sleep
        self.get_running_loop = asyncio.get_running_loop

    def perf_counter(self):
        return self.now

    async def sleep(self, seconds):
        wake = self.now + seconds
        while self.now < wake:
            await self._sleep(0)
            if self.idle():
                self.now = wake


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(serve_load, "time", clock)
    monkeypatch.setattr(serve_load, "asyncio", clock)
    return clock


class Kept(serve_load.Connection):
    """A connection that the test closes before its loop ends; in a separate process it ends with
    the process.
    """

    transports: ClassVar[list] = []

    def connection_made(self, transport):
        super().connection_made(transport)
        self.transports.append(transport)


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    monkeypatch.setattr(serve_load, "Connection", Kept)


async def run_here(client):
    try:
        return await client.run()
    finally:
        while Kept.transports:
            Kept.transports.pop().abort()
        await asyncio.sleep(0)


class Server(asyncio.Protocol):
    """Answers every request in two pieces, as the test configures it."""

    answer = GOOD
    stall_at = -1
    close_at = -1

    def __init__(self, counted, clock):
        self._counted, self._clock = counted, clock

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        assert data.endswith(b"\r\n\r\nbody")
        assert b"\r\nAuthorization: me\r\n" in data
        self._counted.append(data)
        self._clock.now += 0.4 if len(self._counted) == self.stall_at else ANSWER_SECONDS
        if len(self._counted) == self.close_at:
            self._transport.close()
            return
        self._transport.write(self.answer[:20])
        self._transport.write(self.answer[20:])


def load(clock, rate=None, connections=4, **how):
    """Return the report, and the number of requests that the server received."""
    kind = type("Told", (Server,), how)
    counted = []

    async def run():
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: kind(counted, clock), "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        settings = Load(port, "/predict", 0.8, connections, rate, 0.2, HEADERS)
        client = Client(settings, b"body")
        closed = kind.close_at > 0
        clock.idle = lambda: client._answered + (closed and client._errors) >= client._asked
        report = await run_here(client)
        listening.close()
        return report

    return asyncio.run(run()), len(counted)


def test_a_closed_loop_counts_answers(clock):
    report, counted = load(clock)
    assert report.errors == 0
    assert counted == pytest.approx(1.0 / ANSWER_SECONDS, abs=5)
    assert report.answered == pytest.approx(0.8 / ANSWER_SECONDS, abs=5)
    assert report.per_second == pytest.approx(report.answered / 0.8)
    assert 0 < report.p50 <= report.p99 <= report.longest <= 5


def test_an_open_loop_keeps_its_schedule(clock):
    report, counted = load(clock, rate=200.0)
    assert report.errors == 0
    assert report.answered == pytest.approx(160, abs=2)
    assert counted == pytest.approx(200, abs=2)


def test_a_stall_delays_every_request_that_was_due_meanwhile(clock):
    """A load that waited for the server would have only one slow request."""
    report, _ = load(clock, rate=200.0, connections=1, stall_at=100)
    assert report.errors == 0
    assert report.longest >= 399
    assert report.p99 >= 300, "80 of 160 requests were due during the stall"


@pytest.mark.parametrize(
    "how",
    [
        {"answer": b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy"},
        {"answer": GOOD + b"more"},
        {"close_at": 50},
    ],
    ids=["status", "length", "closed"],
)
def test_a_bad_answer_counts_as_an_error(clock, how):
    report, _ = load(clock, rate=200.0, **how)
    assert report.errors > 0


@contextmanager
def serve_in_thread():
    """Run a server in a thread, with a clock that nobody reads."""
    counted, ready, loop, ports = [], threading.Event(), asyncio.new_event_loop(), []

    async def run():
        answering = lambda: Server(counted, SimpleNamespace(now=0.0))  # noqa: E731
        listening = await loop.create_server(answering, "127.0.0.1", 0)
        ports.append(listening.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        listening.close()

    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=[run()])
    thread.start()
    assert ready.wait(HANG_SECONDS)
    try:
        yield ports[0], counted
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_a_load_runs_in_a_separate_process():
    with serve_in_thread() as (port, counted):
        report = run_load(Load(port, "/predict", 0.2, 4, None, 0.0, HEADERS), b"body")
    assert counted
    assert report.answered <= len(counted)


def load_here(load, body):
    return asyncio.run(run_here(Client(replace(load, warm_seconds=0.1), body)))


@pytest.fixture
def small(monkeypatch):
    """Runs loads in this process, and starts each role of a model only once."""
    monkeypatch.setattr(serve, "QUICK", serve.Plan(1, 1, 0.2, 0.2, 2_000))
    monkeypatch.setattr(serve, "FIRST_EVENTS", 2_000)
    monkeypatch.setattr(serve, "BACKLOG", 2_000)
    monkeypatch.setattr(serve, "MANY", 8)
    monkeypatch.setattr(serve_load, "LAST_SECONDS", float(HANG_SECONDS))

    together = serve.measure_together
    monkeypatch.setattr(serve, "measure_together", lambda setup, _: together(setup, 2_000.0))
    for module in (serve, latency):
        monkeypatch.setattr(module, "run_load", load_here)
    with ExitStack() as stack:
        started, role, bare = {}, Setup.role, Setup.bare

        @contextmanager
        def kept(what, begin):
            if what not in started:
                started[what] = stack.enter_context(begin())
            yield started[what]

        def kept_role(setup, what, stream):
            if what != "serve":
                return role(setup, what, stream)
            return kept((what, stream), lambda: role(setup, what, stream))

        monkeypatch.setattr(Setup, "role", kept_role)
        monkeypatch.setattr(Setup, "bare", lambda setup: kept("bare", lambda: bare(setup)))
        yield


@pytest.mark.usefixtures("small" if not CHAOS else "tmp_path")
def test_the_whole_bench_has_every_figure_and_bar(monkeypatch):
    if CHAOS:
        monkeypatch.setattr(serve, "QUICK", serve.Plan(1, 1, 0.4, 0.4, 40_000))
        monkeypatch.setattr(serve, "MANY", 50)
    found = json.loads(json.dumps(serve.bench_serve(quick=True)))
    assert found["results"].keys() >= {
        "requests per second",
        "1,000 clients",
        "promptness",
        "learn and serve",
        "run",
    }
    for seconds in found["results"]["promptness"].values():
        assert 0 < seconds["from"] <= seconds["median"] <= seconds["to"]
    for bar in found["bars"]:
        assert bar.keys() == {"name", "value", "op", "goal", "ok"}
        assert bar["ok"] or "errors" not in bar["name"], bar
    assert [bar["goal"] for bar in found["bars"]] == [
        *(0.9, 100_000, 0, 0),
        *(3.0, 2.0),
        *(10.0, 0),
        *(15.0, 0, 1),
    ]
    for roles in ("learn and serve", "run"):
        assert found["results"][roles]["latency"]["p99 ms"] > 0
        assert "events per second" in found["results"][roles]["learner"]
