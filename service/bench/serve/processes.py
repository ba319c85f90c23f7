"""Real processes for a benchmark: roles of a model on a real Redis, and a cheap producer."""

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
from http import HTTPStatus
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from service.bench.serve.bare_fastapi import COLUMNS
from service.embedded.process import HOST, ServerProcess, free_port
from service.server.api_keys import digest_of, new_key

KEY = new_key()
HEADERS = (("Authorization", f"Bearer {KEY}"),)
"""Header of every request; a server without keys ignores it."""
EVENTS = 1000
PACE = 200
"""Appends per second of a paced producer."""


def instance(seed: int = 0) -> dict[str, Any]:
    values = np.random.default_rng(seed).exponential(size=len(COLUMNS)).round(4).tolist()
    return {"features": dict(zip(COLUMNS, values, strict=True))}


def _make_events() -> list[bytes]:
    """Draw events of ten positive numbers and a mostly linear label."""
    rows = [instance(seed) for seed in range(EVENTS)]
    sums = [sum(row["features"].values()) for row in rows]
    return [
        json.dumps(row | {"label": "yes" if total + (n % 7 == 0) * 5 > 10 else "no"}).encode()
        for n, (row, total) in enumerate(zip(rows, sums, strict=True))
    ]


class Stream:
    """Fills a Redis stream with the same thousand events; the commands are prepared bytes."""

    def __init__(self, port: int, name: str) -> None:
        self._socket = socket.create_connection((HOST, port), timeout=30.0)
        self._commands = [
            _encode_command(b"XADD", name.encode(), b"*", b"value", event)
            for event in _make_events()
        ]
        self._next = 0

    def fill(self, events: int) -> None:
        while events:
            part = self._commands[self._next : self._next + min(events, EVENTS)]
            self._socket.sendall(b"".join(part))
            lines = 0
            while lines < 2 * len(part):  # each reply has two lines: a length and an id
                lines += self._socket.recv(1 << 16).count(b"\n")
            self._next = (self._next + len(part)) % EVENTS
            events -= len(part)

    @contextmanager
    def filling(self, rate: float) -> Iterator[None]:
        """Append this many events per second while the block runs."""
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


def _encode_command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(
        b"$%d\r\n%b\r\n" % (len(word), word) for word in words
    )


class Role:
    """A process that answers HTTP."""

    def __init__(self, port: int, pid: int) -> None:
        self.port = port
        self._pid = pid

    def status(self) -> dict[str, Any]:
        status_document: dict[str, Any] = json.loads(_get(self.port, "/status"))
        return status_document

    def served_generation(self) -> int | None:
        """Return the generation that answers a prediction; None as long as none does."""
        try:
            reply = json.loads(_get(self.port, "/predict", json.dumps(instance()).encode()))
        except urllib.error.HTTPError as error:
            if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                raise
            return None
        generation: int = reply["model"]["generation"]
        return generation

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the process while the block runs."""
        os.kill(self._pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self._pid, signal.SIGCONT)


@contextmanager
def role(folder: Path, redis_url: str, command: str, stream: str) -> Iterator[Role]:
    """Start `onepass run`, `learn` or `serve` and wait until it is ready."""
    port = free_port()
    keys = folder / "keys.yaml"
    key = {"name": "bench", "sha256": digest_of(KEY), "scopes": ["predict", "metrics"]}
    keys.write_text(yaml.safe_dump([key]), encoding="utf-8")
    values = {
        "name": stream,
        "learner": {"kind": "scaled", "base": "pa1"},
        "features": {"columns": list(COLUMNS), "bits": 0},
        "label": {"positive": "yes", "negative": "no"},
        "source": {"url": f"{redis_url}/{stream}"},
        "store": {"url": redis_url},
        "api": {"port": port, "keys_file": str(keys)},
    }
    config = folder / f"{command}-{stream}.yaml"
    config.write_text(yaml.safe_dump(values), encoding="utf-8")
    with _run_server(
        ["service", command, "--config", str(config)], config.with_suffix(".log"), port, "/readyz"
    ) as pid:
        yield Role(port, pid)


@contextmanager
def bare(folder: Path) -> Iterator[Role]:
    port = free_port()
    with _run_server(
        ["service.bench.serve.bare_fastapi", str(port)], folder / "bare.log", port, "/"
    ) as pid:
        yield Role(port, pid)


@contextmanager
def _run_server(command: list[str], log: Path, port: int, path: str) -> Iterator[int]:
    server = ServerProcess(
        command[0], [sys.executable, "-m", *command], log, lambda _: _answers(port, path)
    )
    server.start()
    try:
        yield server.pid
    finally:
        server.stop()


def _answers(port: int, path: str) -> bool:
    try:
        _get(port, path)
    except urllib.error.HTTPError as error:
        return error.code == 404  # the bare server has no other path
    except OSError:
        return False
    return True


def _get(port: int, path: str, data: bytes | None = None) -> bytes:
    headers = dict(HEADERS) | {"Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{HOST}:{port}{path}", data, headers)
    with urllib.request.urlopen(request, timeout=5) as reply:  # noqa: S310
        body: bytes = reply.read()
        return body
