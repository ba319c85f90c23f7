"""Run `onepass` as its users do: a process with a configuration, watched from outside."""

import json
import signal
import subprocess
import tempfile
import urllib.error
import urllib.request
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import yaml

from service.embedded.process import free_port
from tests.waiting import HANG_SECONDS, wait_for
from tests.zygote import START_SECONDS, Fork


def write_config(path, source, redis_url, *, seconds=0.2, events=1000, lease=10.0, **changes):
    values = {
        "name": "payments",
        "learner": {
            "kind": "scaled",
            "base": {"kind": "averaged", "base": {"kind": "pa1", "C": 0.1}},
        },
        "features": {
            "columns": ["amount", "age_days", "hour", "distance_km", "attempts"],
            "bits": 10,
        },
        "label": {"field": "label", "positive": "fraud"},
        "source": {"url": source},
        "store": {"url": redis_url, "lease_seconds": lease},
        "checkpoint": {"interval_seconds": seconds, "interval_events": events},
        "api": {"port": free_port()},
    }
    path.write_text(yaml.safe_dump(values | changes))
    return path


JSON = {"Content-Type": "application/json"}


class Http:
    """The HTTP side of a process."""

    port: int

    def get(self, path, data=None):
        """Return the status and the JSON of a reply; status 0 while nobody listens."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, data, JSON), timeout=HANG_SECONDS
            ) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
        except OSError:
            return 0, None

    def answers(self, path, status):
        wait_for(lambda: self.get(path)[0] == status, f"{path} answers {status}", START_SECONDS)

    def metrics(self):
        """Return every onepass series by name and labels without the model, e.g.
        `events_total{result="learned"}`; nothing while nobody listens.
        """
        try:
            with urllib.request.urlopen(
                f"http://127.0.0.1:{self.port}/metrics", timeout=HANG_SECONDS
            ) as reply:
                lines = reply.read().decode().splitlines()
        except OSError:
            return {}
        series = (
            line.removeprefix("onepass_").rpartition(" ")
            for line in lines
            if line.startswith("onepass_")
        )
        return {_short(name): float(value) for name, _, value in series}


def _short(name):
    series, _, labels = name.partition("{")
    kept = [
        label
        for label in labels.removesuffix("}").split(",")
        if label and not label.startswith("model=")
    ]
    return series + (f"{{{','.join(kept)}}}" if kept else "")


NUMBERS = count(1)
"""Numbers of processes: the processes of one configuration share a log file, but each prints to its
own file.
"""


class Process(Http, Fork):
    """A running role, and its HTTP side."""

    def __init__(self, arguments, config, failpoint="", **world):
        self.port = yaml.safe_load(config.read_text())["api"]["port"]
        self.log = config.with_suffix(".log")
        self.output = config.with_suffix(f".{next(NUMBERS)}.out")
        line = [*arguments, "--config", config]
        super().__init__(line, self.output, self.log, failpoint, **world)

    def finish(self):
        """Wait for the end; return the exit status and the output."""
        return self.ended(), self.output.read_text()

    def said(self):
        """Return the end of the log."""
        return self.log.read_text()[-2000:]

    def kill(self):
        self.signal(signal.SIGKILL)
        return self.ended()


@contextmanager
def running(role, config, *flags):
    process = Process([role, *flags], config)
    try:
        yield process
    finally:
        process.signal(signal.SIGTERM)
        try:
            process.ended()
        except AssertionError:
            process.kill()
            raise


def onepass(*arguments):
    """Run a command to its end; return what `subprocess.run` would."""
    with tempfile.TemporaryDirectory() as folder:
        output, errors = Path(folder, "output"), Path(folder, "errors")
        status = Fork(arguments, output, errors).ended()
        return subprocess.CompletedProcess(
            arguments, status, output.read_text(), errors.read_text()
        )
