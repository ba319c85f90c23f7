"""Dashboards that are never empty: what they ask is asked of a real Prometheus that scrapes a real
demo.
"""

import json
import math
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest
import yaml

from service.cli.demo import PAYMENT
from service.sources import open_sink
from service.sources.base import Entry
from tests.deployed import (
    DEPLOY,
    METRIC,
    annotation_queries,
    expressions,
    panel_queries,
    read_yaml,
    rules,
    variable_queries,
)
from tests.integration.demo import Demo
from tests.integration.processes import Http, free_port
from tests.waiting import HANG_SECONDS, wait_for

STORED = {"onepass_support_rows", "onepass_support_capacity_rows"}
ELSEWHERE = {"onepass_kafka_up", *STORED}
"""Series that a demo without Kafka and without a kernel learner has not."""
SHOWN_SECONDS = 120
"""The rule of the stream changes every five."""


class Prometheus(Http):
    """Debian's, with the rules of `deploy/`, looking once a second."""

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
        """The finite values that a query brings now, or over the last seconds."""
        if instant:
            found = [[series["value"]] for series in self.ask("query", query=expr)["result"]]
        else:
            now = time.time()
            data = self.ask("query_range", query=expr, start=now - 10, end=now, step=2)
            found = [series["values"] for series in data["result"]]
        numbers = [float(value) for series in found for _, value in series]
        return [number for number in numbers if math.isfinite(number)]


class Busy(Demo):
    """With somebody who asks it for predictions, and somebody who sends it what is no event."""

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
            if sink is None and self.events():  # the stream is there
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


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """(Prometheus, demo), the demo learning and scraped."""
    binary = shutil.which("prometheus")
    if binary is None and os.environ.get("CI") == "true":
        pytest.fail("no Prometheus: apt-get install prometheus", pytrace=False)
    if binary is None:
        pytest.skip("THE DASHBOARDS WERE NOT TESTED: apt-get install prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    port = free_port()
    # It looks before the demo is there: otherwise it might miss the start.
    prometheus = Prometheus(binary, folder, f"127.0.0.1:{port}")
    try:
        demo = Busy(folder, port)
        try:
            wait_for(demo.events, "the first event")
            wait_for(lambda: ready(prometheus), "Prometheus is ready")
            has_all_series(prometheus)
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


def has_all_series(prometheus):
    """Before anything is waited for: a series that the demo does not have will not come."""
    asked = {
        name for expression in expressions() for name in METRIC.findall(expression)
    } - ELSEWHERE
    missing = asked

    def there():
        nonlocal missing
        missing = asked - set(prometheus.ask("label/__name__/values"))
        return not missing

    try:
        wait_for(there, "all series")
    except AssertionError:
        pytest.fail(f"a running demo has no {', '.join(sorted(missing))}", pytrace=False)


def chosen(expr, demo):
    """As Grafana asks, with one model and one process chosen."""
    for variable, value in (
        ("$model", "demo"),
        ("$instance", f"127.0.0.1:{demo.port}"),
        ("$__rate_interval", "20s"),
    ):
        expr = expr.replace(variable, value)
    assert "$" not in expr
    return expr


def empty(query, prometheus, demo):
    return not prometheus.values(chosen(query.expr, demo), instant=query.instant)


def all_filled(queries, prometheus, demo):
    """Wait until all of them bring something at once."""
    left = queries

    def filled():
        nonlocal left
        left = [query for query in left if empty(query, prometheus, demo)]
        left = left or [query for query in queries if empty(query, prometheus, demo)]
        return not left

    try:
        wait_for(filled, "data for every query", SHOWN_SECONDS)
    except AssertionError:
        told = [f"{query.place}: {query.expr}" for query in left]
        pytest.fail("\n".join(["no data:", *told]), pytrace=False)


def test_every_panel_shows_something(seen):
    all_filled(
        [query for query in panel_queries() if not STORED.intersection(METRIC.findall(query.expr))],
        *seen,
    )


def test_every_annotation_is_answered_and_the_planted_drift_and_the_start_are_marked(seen):
    prometheus, demo = seen
    all_filled(annotation_queries(), prometheus, demo)
    started = float(
        prometheus.ask("query", query="onepass_start_time_seconds")["result"][0]["value"][1]
    )
    for query in annotation_queries():
        expr = chosen(query.expr, demo)
        if query.place.endswith("Drift alarms"):
            wait_for(lambda expr=expr: max(prometheus.values(expr, instant=False)) > 0, query.place)
        elif query.place.endswith("Restarts"):
            end = min(time.time(), started + 120)
            data = prometheus.ask("query_range", query=expr, start=started, end=end, step=1)
            moments = [
                at - started
                for series in data["result"]
                for at, value in series["values"]
                if value == "1"
            ]
            assert moments, query.place
            assert max(moments) <= 61, query.place
        else:
            assert set(prometheus.values(expr, instant=False)) == {0.0}, query.place


def test_every_variable_has_a_value(seen):
    prometheus, demo = seen
    values = {}
    for query in variable_queries():
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", chosen(query.expr, demo))
        values[asked[2]] = prometheus.ask(f"label/{asked[2]}/values", **{"match[]": asked[1]})
    assert values == {"model": ["demo"], "instance": [f"127.0.0.1:{demo.port}"]}


def test_every_rule_is_loaded_and_healthy_and_only_drift_is_told(seen):
    prometheus, _ = seen
    expected = sorted(rule.get("alert") or rule["record"] for rule in rules())

    def loaded():
        groups = prometheus.ask("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    wait_for(lambda: all(rule["health"] == "ok" for rule in loaded()), "every rule was evaluated")
    assert sorted(rule["name"] for rule in loaded()) == expected
    drift = wait_for(
        lambda: [
            alert
            for alert in prometheus.ask("alerts")["alerts"]
            if alert["labels"]["alertname"] == "OnepassDrift"
        ],
        "the alert OnepassDrift",
        SHOWN_SECONDS,
    )
    assert {alert["labels"]["model"] for alert in drift} == {"demo"}
    firing = [alert for alert in prometheus.ask("alerts")["alerts"] if alert["state"] == "firing"]
    assert [alert for alert in firing if alert["labels"]["severity"] != "info"] == [], (
        "the demo is well"
    )
    texts = json.dumps([alert["annotations"] for alert in firing])
    assert "no value" not in texts
    assert "error expanding" not in texts
