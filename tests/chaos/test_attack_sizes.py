"""More labels and features than a model has room for: memory, pages and metrics stay small."""

import json
import urllib.request

from redis import Redis

from tests.chaos.measuring import Stopwatch
from tests.chaos.memory import rss_mb
from tests.chaos.scale import CHAOS
from tests.integration.processes import Process, onepass, write_config
from tests.waiting import HANG_SECONDS, wait_for

LABELS = 100_000 if CHAOS else 5_000
FEATURES = 1_000_000 if CHAOS else 100_000
ONE_EVENT = 1_000_000
AT_ONCE = 500
PAGES = {
    "/status": 20_000,
    "/metrics": 50_000,
    "/history": 50_000,
    "/weights": 20_000,
    "/": 100_000,
}
"""Bytes that each answer may have, whatever the stream contains."""
MIB = 64
"""MiB that a process may grow by; 100,000 labels or a million names would take more."""
GROWING = {
    "learner": {"kind": "one_vs_rest", "base": "pa1"},
    "features": {"columns": ["amount"], "bits": 0},
    "label": {"field": "label", "classes": "grow"},
}


def write_stream(redis_url, values):
    with Redis.from_url(redis_url) as client:
        pipeline = client.pipeline(transaction=False)
        for number, value in enumerate(values, 1):
            pipeline.xadd("events", {"value": value})
            if number % AT_ONCE == 0:
                pipeline.execute()
        pipeline.execute()


def count_taken(process):
    answer = process.get("/status")[1]
    return answer["events"] + answer["rejects"]


def count_dead_letters(redis_url):
    with Redis.from_url(redis_url) as client:
        return client.xlen("events.dead")


def check_pages(process):
    """Check that every page is small; return the seconds of the slowest."""
    seconds = []
    for path, most in PAGES.items():
        watch = Stopwatch()
        with urllib.request.urlopen(
            f"http://127.0.0.1:{process.port}{path}", timeout=HANG_SECONDS
        ) as reply:
            body = reply.read()
        seconds.append(watch.seconds)
        assert len(body) < most, f"{path} has {len(body):,} bytes"
    return max(seconds)


def read_series(process):
    """Return the series on /metrics, each with its labels."""
    with urllib.request.urlopen(
        f"http://127.0.0.1:{process.port}/metrics", timeout=HANG_SECONDS
    ) as reply:
        lines = reply.read().decode().splitlines()
    return {line.rpartition(" ")[0] for line in lines if not line.startswith("#")}


def watch(config, redis_url, values, first):
    """Learn the first values, then the rest; return the growth in MiB, the last status and the
    slowest page.
    """
    write_stream(redis_url, values[:first])
    process = Process(["run"], config)
    try:
        process.answers("/readyz", 200)
        wait_for(lambda: count_taken(process) >= first, "the first events")
        # The metrics of the newest checkpoint exist only after the first one.
        wait_for(lambda: process.get("/status")[1]["checkpoint"]["generation"], "a checkpoint")
        check_pages(process)
        before, known = rss_mb(process.pid), read_series(process)
        write_stream(redis_url, values[first:])
        wait_for(lambda: count_taken(process) >= len(values), "all events", 600)
        # Rejects are counted before their dead letters are written.
        rejects = process.get("/status")[1]["rejects"]
        wait_for(lambda: count_dead_letters(redis_url) >= rejects, "their dead letters")
        slowest = check_pages(process)
        new = read_series(process) - known
        assert not new, f"a metric has a new label: {sorted(new)[:5]}"
        return rss_mb(process.pid) - before, process.get("/status")[1], slowest
    finally:
        process.kill()


def test_labels_beyond_max_classes_are_rejected_within_flat_memory(
    redis_url, tmp_path, record_figures
):
    config = write_config(
        tmp_path / "c.yaml", f"{redis_url}/events", redis_url, seconds=1.0, **GROWING
    )
    values = [
        json.dumps({"features": {"amount": n % 97}, "label": f"class-{n}"}) for n in range(LABELS)
    ]
    grown, status, slowest = watch(config, redis_url, values, 1_000)
    assert (status["events"], status["rejects_by_reason"]) == (64, {"label": LABELS - 64})
    assert grown < MIB
    assert count_dead_letters(redis_url) == LABELS - 64
    assert "an event was rejected (label)" in config.with_suffix(".log").read_text()
    record_figures(
        "labels beyond max_classes",
        labels=LABELS,
        lost=0,
        grown_mib=round(grown),
        slowest_page=round(slowest, 2),
    )


def test_a_setting_above_the_class_limit_is_refused(redis_url, tmp_path):
    label = {"field": "label", "classes": "grow", "max_classes": 100_000}
    config = write_config(
        tmp_path / "c.yaml", f"{redis_url}/events", redis_url, **{**GROWING, "label": label}
    )
    done = onepass("learn", "--config", config)
    assert done.returncode == 2
    assert "label.max_classes" in done.stderr
    assert "65536" in done.stderr


def test_endless_feature_names_leave_memory_flat(redis_url, tmp_path, record_figures):
    bits = {"bits": 18}
    config = write_config(
        tmp_path / "c.yaml", f"{redis_url}/events", redis_url, seconds=1.0, features=bits
    )
    each = 100
    values = [
        json.dumps({"features": {f"name-{n}-{k}": 1 for k in range(each)}, "label": "fraud"})
        for n in range(FEATURES // each)
    ]
    small = json.dumps({"features": {f"{k}": 1 for k in range(20_000)}, "label": "fraud"})
    large = json.dumps({"features": {f"name-{k}": 1 for k in range(ONE_EVENT)}, "label": "fraud"})
    tokens = json.dumps({"features": {"tags": [f"{k}" for k in range(100_000)]}, "label": "fraud"})
    values = [*values[:700], small, large, tokens, *values[700:]]
    grown, status, slowest = watch(config, redis_url, values, 703)
    assert status["events"] == len(values) - 3
    assert status["rejects_by_reason"] == {"too_long": 1, "too_many": 2}
    assert grown < MIB
    title = "distinct features in a stream, a million in one event"
    record_figures(
        title, features=FEATURES, lost=0, grown_mib=round(grown), slowest_page=round(slowest, 2)
    )
