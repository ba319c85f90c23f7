"""`onepass` as its users run it, but started within milliseconds.

A zygote is a process that has imported `onepass` and loaded its kernels. It forks one process per
command line.

A start then costs milliseconds instead of seconds, so hundreds of kills fit into minutes. The fork
runs the same command as users do, `service.__main__.main`; it is a normal process, which is killed,
stopped and reaped like any other.
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
"""Modules that a running service imports later; another user may not be able to read them."""


class Zygote:
    """The tests' end of the zygote: asks it for forks and for their statuses, from any thread."""

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
        """Start `onepass ARGUMENTS` and return its pid; `user` runs it, `cgroup` is the control
        group it joins.
        """
        question = {"run": list(map(str, arguments)), "output": str(output), "errors": str(errors)}
        question |= {"failpoint": failpoint, "variables": environment()}
        return self._ask({**question, **world})

    def status(self, pid):
        """Return None while the process runs, then its exit status, negative for the signal that
        ended it.
        """
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
"""Return this process's zygote; the first call starts it."""

TESTS_OWN = tuple(
    f"ONEPASS_{name}" for name in ("CHAOS", "MEASURED", "ENDURANCE", "SCREENSHOTS", "PROPERTIES")
)


def environment():
    """Return the environment of a process of `onepass`, which refuses variables of its prefix that
    are not settings.
    """
    return {name: value for name, value in os.environ.items() if name not in TESTS_OWN}


START_SECONDS = 150
"""Seconds; on a busy machine kernels may have to be compiled first."""


class Fork:
    """A process `onepass ARGUMENTS`."""

    def __init__(self, arguments, output, errors, failpoint="", **world):
        self._line = " ".join(map(str, arguments))
        self.pid = zygote().fork(arguments, output, errors, failpoint, **world)
        self._status = None

    @property
    def status(self):
        """None while the process runs, then its exit status, negative for a signal."""
        if self._status is None:
            self._status = zygote().status(self.pid)
        return self._status

    def signal(self, number):
        if self.status is None:
            os.kill(self.pid, number)

    def ended(self):
        """Wait for the end and return the exit status."""
        wait_for(lambda: self.status is not None, f"onepass {self._line} ends", START_SECONDS)
        return self.status


def _serve():
    """Answer until the tests close stdin; then kill the processes that still run."""
    running, ended = set(), {}
    for line in sys.stdin:
        question = json.loads(line)
        if "run" in question:
            pid = os.fork()
            if pid == 0:
                _become(**question)
            running.add(pid)
            ended.pop(pid, None)  # an earlier process may have had this pid
            answer = pid
        else:
            answer = _status(question["status"], running, ended)
        print(json.dumps(answer), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _status(asked, running, ended):
    """Return the status, as often as asked: the system reports it only once, and two threads may
    want it.
    """
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
