"""A real Prometheus that scrapes a real demo and answers queries as Grafana sends them."""

import math
import os
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from contextlib import contextmanager

import pytest
import yaml

from service.cli.demo import PAYMENT
from service.sources import open_sink
from service.sources.base import Entry
from tests.deployed import DEPLOY, read_yaml
from tests.integration.demo import Demo
from tests.integration.processes import Http, free_port
from tests.waiting import HANG_SECONDS, wait_for


class Prometheus(Http):
    """Debian's Prometheus with the rules of `deploy/`; it scrapes once a second."""

    def __init__(self, binary, folder, target):
        self.port = free_port()
        config = read_yaml(DEPLOY / "prometheus" / "prometheus.yml")
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(DEPLOY / "prometheus" / glob) for glob in config["rule_files"]]
        for scrape in config["scrape_configs"]:
            scrape["static_configs"] = [{"targets": [target]}]
        path = folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        self.log = folder / "prometheus.log"
        options = {"config.file": path, "storage.tsdb.path": folder / "data", "log.level": "warn"}
        options["web.listen-address"] = f"127.0.0.1:{self.port}"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [binary, *(f"--{name}={value}" for name, value in options.items())],
                stdout=log,
                stderr=log,
            )

    def ask(self, path, **parameters):
        status, reply = self.get(f"/api/v1/{path}?{urllib.parse.urlencode(parameters, doseq=True)}")
        assert status == 200, f"{path} {parameters}: {reply}"
        return reply["data"]

    def values(self, expr, *, instant):
        """Return the finite values of a query, now or over the last seconds."""
        if instant:
            found = [[series["value"]] for series in self.ask("query", query=expr)["result"]]
        else:
            now = time.time()
            data = self.ask("query_range", query=expr, start=now - 10, end=now, step=2)
            found = [series["values"] for series in data["result"]]
        numbers = [float(value) for series in found for _, value in series]
        return [number for number in numbers if math.isfinite(number)]


class Busy(Demo):
    """A demo with one caller that asks for predictions and one that sends invalid events."""

    def __init__(self, folder, port):
        super().__init__(folder, port=port)
        self._stop = threading.Event()
        self._callers = [
            threading.Thread(target=target) for target in (self._predict, self._reject)
        ]
        for caller in self._callers:
            caller.start()

    def _predict(self):
        while not self._stop.wait(0.05):
            self.get("/predict", PAYMENT.encode())

    def _reject(self):
        sink = None
        while not self._stop.wait(0.2):
            if sink is None and self.events():  # the stream exists
                sink = open_sink(self.stream)
            if sink is not None:
                sink.append([Entry(b"no event"), Entry(b'{"features": {}}')])
        if sink is not None:
            sink.close()

    def close(self):
        self._stop.set()
        for caller in self._callers:
            caller.join()
        self.stop()


@contextmanager
def scraped_demo(folder):
    """Run Prometheus and the demo that it scrapes, from the demo's first event on."""
    binary = shutil.which("prometheus")
    if binary is None and os.environ.get("CI") == "true":
        pytest.fail("no Prometheus: apt-get install prometheus", pytrace=False)
    if binary is None:
        pytest.skip("THE DASHBOARDS WERE NOT TESTED: apt-get install prometheus")
    port = free_port()
    # Prometheus starts before the demo; otherwise it might miss the demo's start.
    prometheus = Prometheus(binary, folder, f"127.0.0.1:{port}")
    try:
        demo = Busy(folder, port)
        try:
            wait_for(demo.events, "the first event")
            wait_for(lambda: ready(prometheus), "Prometheus is ready")
            yield prometheus, demo
        finally:
            demo.close()
    finally:
        prometheus.process.terminate()
        prometheus.process.wait(HANG_SECONDS)


def ready(prometheus):
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{prometheus.port}/-/ready", timeout=HANG_SECONDS
        ) as reply:
            return reply.status == 200
    except OSError:
        return False


def fill_variables(expr, demo):
    """Fill in the variables as Grafana does, with one model and one process chosen."""
    for variable, value in (
        ("$model", "demo"),
        ("$instance", f"127.0.0.1:{demo.port}"),
        ("$__rate_interval", "20s"),
    ):
        expr = expr.replace(variable, value)
    assert "$" not in expr
    return expr
