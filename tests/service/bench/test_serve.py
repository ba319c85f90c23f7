"""The bench of serving: its load tells the truth about a server, and its document has every bar."""

import asyncio
import json
import threading
import time
from contextlib import contextmanager

import pytest

from service.bench import serve
from service.bench.serve.load import Load, run_load

GOOD = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine"


class Server(asyncio.Protocol):
    """Answers every request in two pieces; how, is told by the test."""

    answer = GOOD
    stall_at = -1
    close_at = -1

    def __init__(self, counted):
        self._counted = counted

    def connection_made(self, transport):
        self._transport = transport

    def data_received(self, data):
        assert data.endswith(b"\r\n\r\nbody")
        assert b"\r\nAuthorization: me\r\n" in data
        self._counted.append(data)
        if len(self._counted) == self.stall_at:
            time.sleep(0.4)
        if len(self._counted) == self.close_at:
            self._transport.close()
            return
        self._transport.write(self.answer[:20])
        self._transport.write(self.answer[20:])


@contextmanager
def server(**how):
    kind = type("PredictionReply", (Server,), how)
    counted, ready, loop = [], threading.Event(), asyncio.new_event_loop()
    ports = []

    async def run():
        listening = await loop.create_server(lambda: kind(counted), "127.0.0.1", 0)
        ports.append(listening.sockets[0].getsockname()[1])
        ready.set()
        await stop.wait()
        listening.close()

    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=[run()])
    thread.start()
    ready.wait(10)
    try:
        yield ports[0], counted
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def load(port, **changes):
    usual = {
        "seconds": 0.8,
        "connections": 4,
        "warm_seconds": 0.2,
        "headers": (("Authorization", "me"),),
    }
    return run_load(Load(port, "/predict", **(usual | changes)), b"body")


def test_a_closed_loop_counts_answers():
    with server() as (port, counted):
        report = load(port)
    assert report.errors == 0
    assert 0 < report.answered <= len(counted)
    assert report.per_second == pytest.approx(report.answered / 0.8)
    assert 0 < report.p50 <= report.p99 <= report.longest


def test_an_open_loop_keeps_to_its_schedule():
    with server() as (port, counted):
        report = load(port, rate=200.0)
    assert report.errors == 0
    assert report.answered == pytest.approx(160, abs=2)
    assert len(counted) == pytest.approx(200, abs=2)


def test_a_stall_is_felt_by_all_that_were_due_meanwhile():
    """A load that waited with the server would have one slow request."""
    with server(stall_at=100) as (port, _):
        report = load(port, rate=200.0, connections=1)
    assert report.errors == 0
    assert report.longest >= 400
    assert report.p99 >= 300, "80 of 160 requests were due while nothing was answered"


@pytest.mark.parametrize(
    "how",
    [
        {"answer": b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy"},
        {"answer": GOOD + b"more"},
        {"close_at": 50},
    ],
    ids=["status", "length", "closed"],
)
def test_what_is_not_a_good_answer_is_an_error(how):
    with server(**how) as (port, _):
        assert load(port, rate=200.0).errors > 0


def test_the_whole_bench(monkeypatch):
    monkeypatch.setattr(serve, "QUICK", serve.Plan(1, 1, 0.4, 0.4, 40_000))
    monkeypatch.setattr(serve, "MANY", 50)
    found = json.loads(json.dumps(serve.bench_serve(quick=True)))
    assert found["results"].keys() >= {
        "requests per second",
        "1,000 clients",
        "learn and serve",
        "run",
    }
    for bar in found["bars"]:
        assert bar.keys() == {"name", "value", "op", "goal", "ok"}
        assert bar["ok"] or "errors" not in bar["name"], bar
    assert [bar["goal"] for bar in found["bars"]] == [0.9, 100_000, 0, 0, 10.0, 0, 15.0, 0, 1]
    for roles in ("learn and serve", "run"):
        assert found["results"][roles]["latency"]["p99 ms"] > 0
        assert "events per second" in found["results"][roles]["learner"]
