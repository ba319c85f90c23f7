"""A process that has `onepass` imported and its kernels loaded, and forks one process per command
line.

A start then costs milliseconds instead of seconds, so hundreds of kills fit into minutes. What runs
in the fork is the command as users have it, `service.__main__.main`; it is a process of its own,
killed, stopped and reaped as any other.
"""

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from contextlib import contextmanager
from pathlib import Path

from tests.integration.processes import environment

ROOT = Path(__file__).parents[2]
MODULES = (
    "service.__main__",
    "service.cli.run",
    "service.cli.audit",
    "service.cli.replay.command",
    "service.sources.file",
    "service.sources.kafka.confluent",
    "service.sources.kafka.kafka_python",
    "service.sources.redis_streams.source",
)
LATER = (
    "encodings.idna",
    "numba.core.boxing",
    "numba.core.runtime.context",
    "uvicorn.lifespan.off",
    "uvicorn.loops.auto",
    "uvicorn.loops.uvloop",
)
"""What a running service imports by and by; another user may not be able to read them."""


class Zygote:
    """The side of the tests: asks for forks and for what became of them, from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )

    def fork(self, arguments, output, errors, failpoint="", **world):
        """The pid of a new `onepass ARGUMENTS`; `user` is who runs it, `cgroup` the control group
        it joins.
        """
        question = {"run": list(map(str, arguments)), "output": str(output), "errors": str(errors)}
        return self._ask({**question, "failpoint": failpoint, **world})

    def status(self, pid):
        """None while it runs, then its exit status, negative for the signal that ended it; only
        once.
        """
        return self._ask({"status": pid})

    def close(self):
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()

    def _ask(self, question):
        with self._lock:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


@contextmanager
def zygote():
    ready = Zygote()
    try:
        yield ready
    finally:
        ready.close()


def _serve():
    """Answer until the tests close our input; then end what is left."""
    running = set()
    for line in sys.stdin:
        question = json.loads(line)
        if "run" in question:
            pid = os.fork()
            if pid == 0:
                _become(**question)
            running.add(pid)
            answer = pid
        else:
            pid, status = os.waitpid(question["status"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
            running.discard(pid)
        print(json.dumps(answer), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _become(run, output, errors, failpoint, user=None, cgroup=None):
    status = 1
    try:
        if cgroup is not None:
            Path(cgroup, "cgroup.procs").write_text(str(os.getpid()))
        for place, (path, flags) in enumerate(
            (
                (os.devnull, os.O_RDONLY),
                (output, os.O_WRONLY | os.O_CREAT),
                (errors, os.O_WRONLY | os.O_CREAT),
            )
        ):
            os.dup2(os.open(path, flags | (os.O_APPEND if place else 0), 0o600), place)
        if user is not None:
            for module in LATER:
                importlib.import_module(module)
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
        importlib.import_module("service.failpoints").arm(failpoint)
        status = importlib.import_module("service.__main__").main(run)
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except Exception:  # noqa: BLE001 - the process ends here, and its log shall say why
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _ready():
    importlib.import_module("service.kernel_cache").use_kernel_cache()
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        for module in MODULES:
            importlib.import_module(module)
    make = importlib.import_module("learners.registry").make
    warm = importlib.import_module("learners.warmup")
    model = importlib.import_module("tests.chaos.events").MODEL
    warm.warm(make({**model["learner"], "center": False}))
    gc.freeze()


if __name__ == "__main__":
    _ready()
    _serve()
