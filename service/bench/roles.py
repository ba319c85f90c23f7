"""Real processes for a benchmark: roles of one model on a real Redis, and a producer that costs next to nothing."""

import json
import os
import signal
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from service.bench.bare import COLUMNS
from service.embedded.process import HOST, ServerProcess, free_port
from service.keys import digest_of, new_key

KEY = new_key()
HEADERS = (("Authorization", f"Bearer {KEY}"),)
"""Of every request; whoever has no keys takes no notice."""
EVENTS = 1000
PACE = 200
"""Appends per second of a paced producer."""


def instance(seed: int = 0) -> dict[str, Any]:
    values = np.random.default_rng(seed).exponential(size=len(COLUMNS)).round(4).tolist()
    return {"features": dict(zip(COLUMNS, values, strict=True))}


def _events() -> list[bytes]:
    """Ten positive numbers each and a label that a line tells, most of the time."""
    rows = [instance(seed) for seed in range(EVENTS)]
    sums = [sum(row["features"].values()) for row in rows]
    return [
        json.dumps(row | {"label": "yes" if total + (n % 7 == 0) * 5 > 10 else "no"}).encode()
        for n, (row, total) in enumerate(zip(rows, sums, strict=True))
    ]


class Stream:
    """A Redis stream that is filled with the same thousand events; the commands are bytes made once."""

    def __init__(self, port: int, name: str) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=30.0)
        self._commands = [_command(b"XADD", name.encode(), b"*", b"value", event) for event in _events()]
        self._next = 0

    def fill(self, events: int) -> None:
        while events:
            part = self._commands[self._next : self._next + min(events, EVENTS)]
            self._socket.sendall(b"".join(part))
            lines = 0
            while lines < 2 * len(part):  # each answer is a length and an id
                lines += self._socket.recv(1 << 16).count(b"\n")
            self._next = (self._next + len(part)) % EVENTS
            events -= len(part)

    @contextmanager
    def filling(self, rate: float) -> Iterator[None]:
        """So many events per second, meanwhile."""
        stop = threading.Event()

        def produce() -> None:
            started, sent = time.monotonic(), 0
            while not stop.wait(1 / PACE):
                due = int(rate * (time.monotonic() - started)) - sent
                self.fill(due)
                sent += due

        thread = threading.Thread(target=produce, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def close(self) -> None:
        self._socket.close()


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


class Role:
    """A process that answers HTTP."""

    def __init__(self, port: int, pid: int) -> None:
        self.port, self._pid = port, pid

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(_get(self.port, "/status"))
        return found

    @contextmanager
    def paused(self) -> Iterator[None]:
        """It stands still, meanwhile."""
        os.kill(self._pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._pid, signal.SIGCONT)


@contextmanager
def role(folder: Path, redis_url: str, what: str, stream: str) -> Iterator[Role]:
    """`onepass run`, `learn` or `serve` of the model of a stream, until it is ready."""
    port = free_port()
    keys = folder / "keys.yaml"
    known = {"name": "bench", "sha256": digest_of(KEY), "scopes": ["predict", "metrics"]}
    keys.write_text(yaml.safe_dump([known]), encoding="utf-8")
    values = {
        "name": stream,
        "learner": {"kind": "scaled", "base": "pa1"},
        "features": {"columns": list(COLUMNS), "bits": 0},
        "label": {"positive": "yes", "negative": "no"},
        "source": {"url": f"{redis_url}/{stream}"},
        "store": {"url": redis_url},
        "api": {"port": port, "keys_file": str(keys)},
    }
    config = folder / f"{what}-{stream}.yaml"
    config.write_text(yaml.safe_dump(values), encoding="utf-8")
    with _running(["service", what, "--config", str(config)], config.with_suffix(".log"), port, "/readyz") as pid:
        yield Role(port, pid)


@contextmanager
def bare(folder: Path) -> Iterator[Role]:
    port = free_port()
    with _running(["service.bench.bare", str(port)], folder / "bare.log", port, "/") as pid:
        yield Role(port, pid)


@contextmanager
def _running(command: list[str], log: Path, port: int, path: str) -> Iterator[int]:
    server = ServerProcess(command[0], [sys.executable, "-m", *command], log, lambda _: _answers(port, path))
    server.start()
    try:
        yield server.pid
    finally:
        server.stop()


def _answers(port: int, path: str) -> bool:
    try:
        _get(port, path)
    except urllib.error.HTTPError as error:
        return error.code == 404  # the bare one has no other path
    except OSError:
        return False
    return True


def _get(port: int, path: str) -> bytes:
    request = urllib.request.Request(f"http://{HOST}:{port}{path}", headers=dict(HEADERS))
    with urllib.request.urlopen(request, timeout=5) as reply:  # noqa: S310
        found: bytes = reply.read()
        return found
