"""No panel of the dashboards is empty: their queries are asked of a real Prometheus that scrapes a
real demo.
"""

import json
import re
import time

import pytest

from tests.deployed import (
    METRIC,
    annotation_queries,
    expressions,
    panel_queries,
    rules,
    variable_queries,
)
from tests.integration.scraped_demo import fill_variables, scraped_demo
from tests.waiting import wait_for

STORED = {"onepass_support_rows", "onepass_support_capacity_rows"}
ELSEWHERE = {"onepass_kafka_up", *STORED}
"""Series that a demo without Kafka and without a kernel learner lacks."""
SHOWN_SECONDS = 120
"""Seconds; the rule of the stream changes every five."""


@pytest.fixture(scope="module")
def watched_demo(tmp_path_factory):
    """(Prometheus, demo); the demo learns and is scraped."""
    with scraped_demo(tmp_path_factory.mktemp("prometheus")) as (prometheus, demo):
        check_all_series(prometheus)
        yield prometheus, demo


def check_all_series(prometheus):
    """Check first that all series exist: a query waits in vain for a series that the demo lacks."""
    asked = {
        name for expression in expressions() for name in METRIC.findall(expression)
    } - ELSEWHERE
    missing = asked

    def no_series_is_missing():
        nonlocal missing
        missing = asked - set(prometheus.ask("label/__name__/values"))
        return not missing

    try:
        wait_for(no_series_is_missing, "all series")
    except AssertionError:
        pytest.fail(f"a running demo has no {', '.join(sorted(missing))}", pytrace=False)


def is_empty(query, prometheus, demo):
    return not prometheus.values(fill_variables(query.expr, demo), instant=query.instant)


def wait_for_data(queries, prometheus, demo):
    """Wait until every query returns data at the same time."""
    left = queries

    def all_have_data():
        nonlocal left
        left = [query for query in left if is_empty(query, prometheus, demo)]
        left = left or [query for query in queries if is_empty(query, prometheus, demo)]
        return not left

    try:
        wait_for(all_have_data, "data for every query", SHOWN_SECONDS)
    except AssertionError:
        told = [f"{query.place}: {query.expr}" for query in left]
        pytest.fail("\n".join(["no data:", *told]), pytrace=False)


def test_every_panel_shows_data(watched_demo):
    wait_for_data(
        [query for query in panel_queries() if not STORED.intersection(METRIC.findall(query.expr))],
        *watched_demo,
    )


def test_annotations_mark_the_planted_drift_and_the_start(watched_demo):
    prometheus, demo = watched_demo
    wait_for_data(annotation_queries(), prometheus, demo)
    started = float(
        prometheus.ask("query", query="onepass_start_time_seconds")["result"][0]["value"][1]
    )
    for query in annotation_queries():
        expr = fill_variables(query.expr, demo)
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


def test_every_variable_has_a_value(watched_demo):
    prometheus, demo = watched_demo
    values = {}
    for query in variable_queries():
        asked = re.fullmatch(r"label_values\((.+), (\w+)\)", fill_variables(query.expr, demo))
        values[asked[2]] = prometheus.ask(f"label/{asked[2]}/values", **{"match[]": asked[1]})
    assert values == {"model": ["demo"], "instance": [f"127.0.0.1:{demo.port}"]}


def test_every_rule_is_healthy_and_only_drift_fires(watched_demo):
    prometheus, _ = watched_demo
    expected = sorted(rule.get("alert") or rule["record"] for rule in rules())

    def load_rules():
        groups = prometheus.ask("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    wait_for(
        lambda: all(rule["health"] == "ok" for rule in load_rules()), "every rule was evaluated"
    )
    assert sorted(rule["name"] for rule in load_rules()) == expected
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
        "an alert fires although the demo is healthy"
    )
    texts = json.dumps([alert["annotations"] for alert in firing])
    assert "no value" not in texts
    assert "error expanding" not in texts
