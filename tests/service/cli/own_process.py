"""Run the command as its users do: in a separate process, with its exit status and its output."""

import os
import subprocess
import sys

from tests.waiting import HANG_SECONDS

ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith("ONEPASS_STORE")
}


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "service", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=HANG_SECONDS)
    return process.returncode, out, err


def run_together(*lines: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Run several commands at once: a start costs a second, and there are at least two cores."""
    return [finish(process) for process in [start(*line) for line in lines]]


def run_in_process(*arguments: str) -> str:
    status, out, err = finish(start(*arguments))
    assert status == 0, err
    return out
