"""`onepass` as its users run it, but started within milliseconds.

A zygote is a process that has `onepass` imported and its kernels loaded, and forks one process per
command line.

A start then costs milliseconds instead of seconds, so hundreds of kills fit into minutes. What runs
in the fork is the command as users have it, `service.__main__.main`; it is a process of its own,
killed, stopped and reaped as any other.
"""

import atexit
import functools
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
from pathlib import Path

from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent
MODULES = (
    "service.__main__",
    "service.cli.run",
    "service.cli.audit",
    "service.cli.demo",
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
            [sys.executable, "-m", "tests.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )
        atexit.register(self.close)

    def fork(self, arguments, output, errors, failpoint="", **world):
        """The pid of a new `onepass ARGUMENTS`; `user` is who runs it, `cgroup` the control group
        it joins.
        """
        question = {"run": list(map(str, arguments)), "output": str(output), "errors": str(errors)}
        question |= {"failpoint": failpoint, "variables": environment()}
        return self._ask({**question, **world})

    def status(self, pid):
        """None while it runs, then its exit status, negative for the signal that ended it."""
        return self._ask({"status": pid})

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, question):
        with self._lock:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())


zygote = functools.cache(Zygote)
"""The one of this process; started when it is first asked."""

TESTS_OWN = tuple(
    f"ONEPASS_{name}" for name in ("CHAOS", "MEASURED", "ENDURANCE", "SCREENSHOTS", "PROPERTIES")
)


def environment():
    """For a process of `onepass`, which refuses variables of its prefix that are no settings."""
    return {name: value for name, value in os.environ.items() if name not in TESTS_OWN}


START_SECONDS = 150
"""Kernels may have to be compiled first, on a busy machine."""


class Fork:
    """A process `onepass ARGUMENTS`."""

    def __init__(self, arguments, output, errors, failpoint="", **world):
        self._line = " ".join(map(str, arguments))
        self.pid = zygote().fork(arguments, output, errors, failpoint, **world)
        self._status = None

    @property
    def status(self):
        """None while it runs, then the exit status, negative for a signal."""
        if self._status is None:
            self._status = zygote().status(self.pid)
        return self._status

    def signal(self, number):
        if self.status is None:
            os.kill(self.pid, number)

    def ended(self):
        """Wait for the end; the exit status."""
        wait_for(lambda: self.status is not None, f"onepass {self._line} ends", START_SECONDS)
        return self.status


def _serve():
    """Answer until the tests close our input; then end what is left."""
    running, ended = set(), {}
    for line in sys.stdin:
        question = json.loads(line)
        if "run" in question:
            pid = os.fork()
            if pid == 0:
                _become(**question)
            running.add(pid)
            ended.pop(pid, None)  # of an earlier process with this number
            answer = pid
        else:
            answer = _status(question["status"], running, ended)
        print(json.dumps(answer), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _status(asked, running, ended):
    """Asked as often as one likes: the system tells it only once, and two threads may want it."""
    if asked in running:
        pid, status = os.waitpid(asked, os.WNOHANG)
        if pid:
            running.remove(pid)
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended.get(asked)


def _become(run, output, errors, failpoint, variables, user=None, cgroup=None):
    status = 1
    try:
        os.environ.clear()
        os.environ.update(variables)
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
