"""A server as a child process: `start` waits until it answers, `stop` ends it by its pid.

Invariant: at most one live server per log file, so never two on the same data. `start` returns only
when this child answers, and leaves no child behind if it raises.
"""

import fcntl
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from service.private_files import make_folder

HOST = "127.0.0.1"
START_SECONDS = 60.0
STOP_SECONDS = 20.0
LOCK_SECONDS = 5.0
POLL_SECONDS = 0.02
TAIL_LINES = 20
RANDOM = random.SystemRandom()
"""Not seeded: tests seed `random`, and two of their processes must not choose the same ports."""


class EmbeddedError(RuntimeError):
    """An embedded server cannot run; the first line says why or what to do."""


def free_port(*, other_than: int | None = None) -> int:
    """Return an unused port below the range that the kernel gives to outgoing connections.

    A reconnecting client could take a port of that range while its server is down, and the server
    could not come back.
    """
    for _ in range(1000):
        port = RANDOM.randrange(10_000, 30_000)
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        if port != other_than:
            return port
    raise EmbeddedError(f"no free port on {HOST}")


def tail(text: bytes) -> str:
    return "\n".join(text.decode(errors="replace").rstrip().splitlines()[-TAIL_LINES:])


class ServerProcess:
    """One server; `answers` decides from the child's log so far whether it is ready."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, answers: Callable[[bytes], bool]
    ) -> None:
        self.name = name
        self.command = tuple(command)
        self.log = log
        self._answers = answers
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        if self._child is None:
            raise EmbeddedError(f"{self.name} is not running")
        return self._child.pid

    def start(self) -> None:
        """Start or restart the server and wait until it answers."""
        if self.running:
            raise EmbeddedError(f"{self.name} is already running with pid {self.pid}")
        make_folder(self.log.parent)
        with self.log.open("ab") as log:
            self._lock(log)
            begin = log.tell()
            # In a new session: Ctrl-C must not end it before the parent has checkpointed.
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self._wait(self._child, begin)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the server does not end."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL: the server cannot write anything more."""
        self._end(signal.SIGKILL)

    def _end(self, sent: signal.Signals) -> None:
        if self._child is None:
            return
        self._child.send_signal(sent)
        try:
            self._child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        self._child = None

    def _lock(self, log: BinaryIO) -> None:
        # The child inherits the locked file as its output, so it holds the lock while it lives,
        # even if this process is killed and leaves the server behind.
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise EmbeddedError(
                        f"another {self.name} still runs on {self.log.parent}: "
                        "stop it or use another folder"
                    ) from None
                time.sleep(POLL_SECONDS)
            else:
                return

    def _wait(self, child: subprocess.Popen[bytes], begin: int) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            status = child.poll()
            with self.log.open("rb") as log:
                log.seek(begin)
                logged = log.read()
            if status is not None:
                raise EmbeddedError(
                    f"{self.name} ended with status {status} while starting; {self.log} says:\n"
                    f"{tail(logged)}"
                )
            if self._answers(logged):
                return
            if time.monotonic() > deadline:
                raise EmbeddedError(
                    f"{self.name} does not answer after {START_SECONDS:.0f} s; {self.log} says:\n"
                    f"{tail(logged)}"
                )
            time.sleep(POLL_SECONDS)
