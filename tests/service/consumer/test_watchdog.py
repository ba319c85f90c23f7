"""The watchdog: a hanging client ends the process, one that brings nothing is renewed, a quiet
topic is left alone.
"""

from types import SimpleNamespace

import pytest

from service.consumer.watchdog import STALLED_SECONDS, Watchdog
from service.monitoring.health import Health

HUNG_SECONDS = 30.0


NOW = 1000.0


@pytest.fixture
def watched(monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: NOW)
    monkeypatch.setattr("service.monitoring.health.time", clock)
    health, seen = Health(moved_at=NOW), []
    return health, Watchdog(health, lambda: seen.append("renewed"), seen.append), seen


def test_all_is_well(watched):
    health, watchdog, seen = watched
    health.lag = {"0": 10}
    watchdog.check(NOW)
    with health.in_log():
        watchdog.check(NOW + HUNG_SECONDS / 2)
    assert seen == []


def test_a_call_that_does_not_come_back_ends_the_process(watched):
    health, watchdog, seen = watched
    with health.in_log():
        watchdog.check(NOW + HUNG_SECONDS + 1)
    assert seen == [1]
    watchdog.check(NOW + HUNG_SECONDS + 1)
    assert seen == [1], "it came back"
    with health.in_log(300.0):
        watchdog.check(NOW + 299.0)
    assert seen == [1], "some calls may take longer"


def test_nothing_comes_though_there_is_more(watched):
    health, watchdog, seen = watched
    health.lag = {"0": 0, "1": 3}
    late = NOW + STALLED_SECONDS + 1
    watchdog.check(late)
    watchdog.check(late + 1)
    assert seen == ["renewed"], "once, then there is time again"
    watchdog.check(late + STALLED_SECONDS)
    assert seen == ["renewed"] * 2


def test_a_quiet_topic_is_left_alone(watched):
    health, watchdog, seen = watched
    health.lag = {"0": 0, "1": 0}
    watchdog.check(NOW + 100 * STALLED_SECONDS)
    assert seen == []
