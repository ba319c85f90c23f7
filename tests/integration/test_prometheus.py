"""Dashboards that are never empty: what they ask is asked of a real Prometheus that scrapes a real
demo.
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
from tests.integration.scraped_demo import chosen, scraped_demo
from tests.waiting import wait_for

STORED = {"onepass_support_rows", "onepass_support_capacity_rows"}
ELSEWHERE = {"onepass_kafka_up", *STORED}
"""Series that a demo without Kafka and without a kernel learner has not."""
SHOWN_SECONDS = 120
"""The rule of the stream changes every five."""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    """(Prometheus, demo), the demo learning and scraped."""
    with scraped_demo(tmp_path_factory.mktemp("prometheus")) as (prometheus, demo):
        has_all_series(prometheus)
        yield prometheus, demo


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
