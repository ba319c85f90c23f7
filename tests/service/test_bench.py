"""The benchmark says what it measured, on what, and which bars it reached; the bars themselves are for `make bench`."""

from learners.registry import LEARNERS
from service.bench import checkpoint
from service.bench.learners import bench_learners
from service.bench.report import Bar


def test_bench_learners_measures_every_learner_and_its_peers():
    document = bench_learners(quick=True)
    speeds = document["results"]["events_per_second"]
    for stream in ("dense10", "tokens60"):
        assert {*LEARNERS, "scaled pa1"} == speeds[stream].keys()
        assert all(row["onepass"] > 0 for row in speeds[stream].values())
        assert {"river", "vowpalwabbit"} <= speeds[stream]["pa1"].keys()
    assert document["results"]["microseconds_by_dimension"].keys() == LEARNERS.keys() - {"pa-l1"}
    assert document["machine"].keys() == {"cpu", "system", "python"}
    for bar in document["bars"]:
        assert bar.keys() == {"name", "value", "op", "goal", "ok"}
    assert len(document["bars"]) == 3 + 2 * (len(LEARNERS) - 1)


def test_bench_checkpoint_measures_pauses_and_bytes(monkeypatch):
    monkeypatch.setattr(checkpoint, "SMALL", 10)
    monkeypatch.setattr(checkpoint, "LARGE", 18)
    monkeypatch.setattr(checkpoint, "stored", lambda *, quick: ({"quick": quick}, []))
    document = checkpoint.bench_checkpoint(quick=True)
    pauses = document["results"]["pauses"]
    assert pauses.keys() == {"whole 2^10", "delta 2^10", "whole 2^18", "delta 2^18"}
    for row in pauses.values():
        assert row.keys() == {"pa1", "scaled pa1"}
        assert all(figures["milliseconds"] > 0.0 for figures in row.values())
    assert pauses["delta 2^10"]["pa1"]["megabytes"] == pauses["whole 2^10"]["pa1"]["megabytes"], "small: always whole"
    shares = [bar for bar in document["bars"] if "bytes" in bar["name"]]
    assert len(document["bars"]) == 6
    assert len(shares) == 2
    assert all(0.01 <= bar["value"] <= bar["goal"] for bar in shares)


def test_a_bar_is_reached_or_not():
    assert Bar("a", 2.0, ">=", 2.0).ok
    assert not Bar("a", 1.9, ">=", 2.0).ok
    assert Bar("a", 2.0, "<=", 2.0).ok
    assert not Bar("a", 2.1, "<=", 2.0).ok
