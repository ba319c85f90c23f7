"""`onepass` as its users run it: a process with a configuration, watched from outside."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import yaml


def wait_for(condition, seconds, what):
    """Poll until the condition gives something true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {seconds} s: {what}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


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
TESTS_OWN = ("ONEPASS_CHAOS", "ONEPASS_MEASURED", "ONEPASS_ENDURANCE", "ONEPASS_SCREENSHOTS")


def environment():
    """For a process of `onepass`, which refuses variables of its prefix that are no settings."""
    return {name: value for name, value in os.environ.items() if name not in TESTS_OWN}


class Http:
    """What a role answers on its port."""

    port: int

    def get(self, path, data=None):
        """Status and JSON of a request; status 0 while nobody listens."""
        url = f"http://127.0.0.1:{self.port}{path}"
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, data, JSON), timeout=10
            ) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())
        except OSError:
            return 0, None

    def answers(self, path, status, seconds=20):
        return wait_for(lambda: self.get(path)[0] == status, seconds, f"{path} answers {status}")


class Process(Http):
    """A running role, and its HTTP side."""

    def __init__(self, arguments, config):
        self.port = yaml.safe_load(config.read_text())["api"]["port"]
        self._log = config.with_suffix(".log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service", *arguments, "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment(),
        )

    def finish(self, seconds=60):
        """Wait for the end; the exit status and what was printed."""
        output, _ = self.process.communicate(timeout=seconds)
        self._log.close()
        return self.process.returncode, output.decode()

    def kill(self):
        self.process.kill()
        self.finish()


@contextmanager
def running(role, config, *flags):
    process = Process([role, *flags], config)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.process.send_signal(signal.SIGTERM)
            try:
                process.finish(15)
            except subprocess.TimeoutExpired:
                process.kill()


def onepass(*arguments, seconds=120, **options):
    """Run a command to its end; the options are those of `subprocess.run`."""
    return subprocess.run(
        [sys.executable, "-m", "service", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        env=environment(),
        **options,
    )
