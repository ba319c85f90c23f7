"""Put load on an HTTP server, from a separate process.

Closed loop: each connection sends the next request after its answer.
Open loop: requests are due on a schedule that does not wait for the server. A latency counts from
the time when its request was due. So it includes the time that the request waited for slow answers.
"""

import asyncio
import gc
import json
import subprocess
import sys
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import NamedTuple, cast

import uvloop

TICK_SECONDS = 0.001
LAST_SECONDS = 5.0
"""Seconds to wait at the end for answers that are still due."""
HEADER_END = b"\r\n\r\n"


@dataclass(frozen=True)
class Load:
    port: int
    path: str
    seconds: float
    connections: int
    rate: float | None = None
    """Requests due per second; None: a closed loop."""
    warm_seconds: float = 1.0
    """Seconds of warm-up before the clock starts."""
    headers: tuple[tuple[str, str], ...] = ()


class Report(NamedTuple):
    answered: int
    """Answers within the measured time; in an open loop, answers to requests due within it."""
    errors: int
    """Answers other than 200, lost connections and unanswered requests, including the warm-up."""
    per_second: float
    p50: float
    p99: float
    longest: float
    """Milliseconds."""


def run_load(load: Load, body: bytes) -> Report:
    """Run the load in a new process and return its report."""
    code = f"from {__name__} import print_report; print_report()"
    command = [sys.executable, "-c", code, json.dumps(asdict(load))]
    done = subprocess.run(command, input=body, stdout=subprocess.PIPE, check=True)
    return Report(**json.loads(done.stdout))


class Connection(asyncio.Protocol):
    """One connection with one request at a time; it reads an answer by its length."""

    def __init__(self, client: "Client") -> None:
        self._client = client
        self._buffer = b""
        self._due: float | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def send(self, due: float) -> None:
        self._due = due
        self._transport.write(self._client.request)

    def data_received(self, data: bytes) -> None:
        self._buffer = self._buffer + data if self._buffer else data
        head, end, rest = self._buffer.partition(HEADER_END)
        if not end:
            return
        length = _length(head)
        if len(rest) < length:
            return
        self._buffer = b""
        due, self._due = self._due, None
        fine = head.startswith(b"HTTP/1.1 200 ") and len(rest) == length and due is not None
        self._client.answered(self, due or 0.0, fine=fine)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._client.lost()


def _length(head: bytes) -> int:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ValueError("an answer has no Content-Length")


class Client:
    """All connections and their results."""

    def __init__(self, load: Load, body: bytes) -> None:
        self._load = load
        head = [f"POST {load.path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
        head += [
            f"Content-Length: {len(body)}",
            *(f"{name}: {value}" for name, value in load.headers),
        ]
        self.request = "\r\n".join(head).encode() + HEADER_END + body
        self._free: deque[Connection] = deque()
        self._waiting: deque[float] = deque()
        self._times: list[tuple[float, float]] = []
        self._asked = self._answered = self._errors = 0
        self._ended = False

    async def run(self) -> Report:
        loop = asyncio.get_running_loop()
        for _ in range(self._load.connections):
            _, connection = await loop.create_connection(
                lambda: Connection(self), "127.0.0.1", self._load.port
            )
            self._free.append(connection)
        started = time.perf_counter()
        begin, end = (
            started + self._load.warm_seconds,
            started + self._load.warm_seconds + self._load.seconds,
        )
        await (
            self._run_closed(end)
            if self._load.rate is None
            else self._run_open(started, end, self._load.rate)
        )
        self._ended = True
        give_up = time.perf_counter() + LAST_SECONDS
        while self._answered < self._asked:
            if time.perf_counter() >= give_up:
                break
            await asyncio.sleep(0.01)
        self._errors += self._asked - self._answered + len(self._waiting)
        return self._report(begin, end)

    async def _run_closed(self, end: float) -> None:
        for connection in [*self._free]:
            self._send(connection, time.perf_counter())
        await asyncio.sleep(end - time.perf_counter())

    async def _run_open(self, started: float, end: float, rate: float) -> None:
        sent = 0
        while (now := time.perf_counter()) < end:
            while (due := started + sent / rate) <= now:
                sent += 1
                if self._free:
                    self._send(self._free.popleft(), due)
                else:
                    self._waiting.append(due)
            await asyncio.sleep(TICK_SECONDS)

    def _send(self, connection: Connection, due: float) -> None:
        self._asked += 1
        connection.send(due)

    def answered(self, connection: Connection, due: float, *, fine: bool) -> None:
        now = time.perf_counter()
        self._answered += 1
        self._errors += not fine
        self._times.append((due, now))
        if self._load.rate is None:
            if not self._ended:
                self._send(connection, now)
        elif self._waiting:
            self._send(connection, self._waiting.popleft())
        else:
            self._free.append(connection)

    def lost(self) -> None:
        self._errors += not self._ended

    def _report(self, begin: float, end: float) -> Report:
        index = 1 if self._load.rate is None else 0
        latencies = sorted(
            1e3 * (pair[1] - pair[0]) for pair in self._times if begin <= pair[index] < end
        )
        if not latencies:
            return Report(0, self._errors + 1, 0.0, 0.0, 0.0, 0.0)
        p50, p99 = (latencies[int(share * (len(latencies) - 1))] for share in (0.5, 0.99))
        return Report(
            len(latencies),
            self._errors,
            len(latencies) / self._load.seconds,
            p50,
            p99,
            latencies[-1],
        )


def print_report() -> None:
    """Run in the new process. Its argument is the load as JSON, its input is the body."""
    gc.disable()  # a pause here would look like one of the server
    client = Client(Load(**json.loads(sys.argv[1])), sys.stdin.buffer.read())
    print(json.dumps(uvloop.run(client.run())._asdict()))
