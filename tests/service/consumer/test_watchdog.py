"""The watchdog ends a process whose client hangs, renews a client that delivers nothing, and leaves
a quiet topic alone.
"""

from types import SimpleNamespace

import pytest

from service.consumer.watchdog import STALLED_SECONDS, Watchdog
from service.monitoring.health import Health

HUNG_SECONDS = 30.0


NOW = 1000.0


@pytest.fixture
def parts(monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: NOW)
    monkeypatch.setattr("service.monitoring.health.time", clock)
    health, seen = Health(moved_at=NOW), []
    return health, Watchdog(health, lambda: seen.append("renewed"), seen.append), seen


def test_a_healthy_process_is_left_alone(parts):
    health, watchdog, seen = parts
    health.lag = {"0": 10}
    watchdog.check(NOW)
    with health.in_log():
        watchdog.check(NOW + HUNG_SECONDS / 2)
    assert seen == []


def test_a_call_that_hangs_ends_the_process(parts):
    health, watchdog, seen = parts
    with health.in_log():
        watchdog.check(NOW + HUNG_SECONDS + 1)
    assert seen == [1]
    watchdog.check(NOW + HUNG_SECONDS + 1)
    assert seen == [1], "a call that returned must not count as hanging"
    with health.in_log(300.0):
        watchdog.check(NOW + 299.0)
    assert seen == [1], "a call with a longer limit must not count as hanging"


def test_a_client_that_delivers_nothing_despite_lag_is_renewed(parts):
    health, watchdog, seen = parts
    health.lag = {"0": 0, "1": 3}
    late = NOW + STALLED_SECONDS + 1
    watchdog.check(late)
    watchdog.check(late + 1)
    assert seen == ["renewed"], "after a renewal the client needs time again"
    watchdog.check(late + STALLED_SECONDS)
    assert seen == ["renewed"] * 2


def test_a_quiet_topic_is_left_alone(parts):
    health, watchdog, seen = parts
    health.lag = {"0": 0, "1": 0}
    watchdog.check(NOW + 100 * STALLED_SECONDS)
    assert seen == []
