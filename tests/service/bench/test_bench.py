"""The benchmark reports what it measured, on which machine, and which bars it reached; the bars
themselves are for `make bench`.
"""

import gzip
import json
import logging
import os

import pytest

from service.__main__ import main
from service.bench import checkpoint, kernels, learners
from service.bench import checkpoint as checkpoint_store
from service.bench.learners import bench_learners, dense_events, linear_kinds, token_events
from service.bench.report import Bar, Ticks, document, read_ticks, stolen_share
from service.cli.bench import BENCHES, Bench
from tests.chaos.scale import CHAOS


def test_bench_learners_measures_every_learner_and_its_peers(monkeypatch):
    if not CHAOS:
        measure = learners.time_interleaved
        monkeypatch.setattr(learners, "time_interleaved", lambda jobs, _: measure(jobs, 1))
        monkeypatch.setattr(learners, "dense_events", lambda _: dense_events(1_000))
        monkeypatch.setattr(learners, "token_events", lambda _: token_events(500))
    found = bench_learners(quick=True)
    speeds = found["results"]["events_per_second"]
    for stream in ("dense10", "tokens60"):
        assert {*linear_kinds(), "scaled pa1"} == speeds[stream].keys()
        assert all(row["onepass"] > 0 for row in speeds[stream].values())
        assert {"river", "vowpalwabbit"} <= speeds[stream]["pa1"].keys()
    assert found["results"]["microseconds_by_dimension"].keys() == {*linear_kinds()} - {"pa-l1"}
    assert found["machine"].keys() == {"cpu", "system", "python"}
    for bar in found["bars"]:
        assert bar.keys() == {"name", "value", "op", "goal", "ok"}
    assert len(found["bars"]) == 3 + 2 * (len(linear_kinds()) - 1)


@pytest.mark.parametrize("folder", ["nowhere", "here"])
def test_bench_kernels_measures_two_ways_that_agree(monkeypatch, tmp_path, folder):
    question = (
        "(SYNT##root(POS##WP(LEX##who::w))(SYNT##cop(POS##VBD(LEX##be::v)))(POS##NN(LEX##she::p)))"
    )
    with gzip.open(tmp_path / kernels.QUESTIONS, "wt") as file:
        file.write(f'{{"grct": "{question}"}}\n' * 60)
    monkeypatch.setenv("ONEPASS_DATA", str(tmp_path if folder == "here" else tmp_path / folder))
    monkeypatch.setattr(kernels, "STORED", 30)
    monkeypatch.setattr(kernels, "TREES", 30)
    monkeypatch.setattr(
        kernels, "run_in_one_thread", lambda function, *arguments: function(*arguments)
    )
    found = kernels.bench_kernels(quick=True)
    rows, pairs = found["results"].values()
    assert rows.keys() == {"onepass", "numpy", "ratio"}
    assert pairs.keys() == {"onepass", "recursion", "ratio"}
    assert all(figure > 0.0 for figure in (*rows.values(), *pairs.values()))
    assert [(bar["op"], bar["goal"]) for bar in found["bars"]] == [("<=", 2.0), (">=", 50.0)]


def test_matrix_products_are_measured_in_one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    assert kernels.run_in_one_thread(os.getenv, "OPENBLAS_NUM_THREADS") == "1"
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "OPENBLAS_NUM_THREADS" not in os.environ


def test_bench_checkpoint_measures_pauses_and_bytes(monkeypatch):
    monkeypatch.setattr(checkpoint, "SMALL", 10)
    monkeypatch.setattr(checkpoint, "LARGE", 21)
    monkeypatch.setattr(checkpoint, "measure_store", lambda *, quick: ({"quick": quick}, []))
    found = checkpoint.bench_checkpoint(quick=True)
    pauses = found["results"]["pauses"]
    assert pauses.keys() == {"whole 2^10", "delta 2^10", "whole 2^21", "delta 2^21"}
    for row in pauses.values():
        assert row.keys() == {"pa1", "scaled pa1"}
        assert all(figures["milliseconds"] > 0.0 for figures in row.values())
    assert pauses["delta 2^10"]["pa1"]["megabytes"] == pauses["whole 2^10"]["pa1"]["megabytes"], (
        "a small model must be copied whole"
    )
    shares = [bar for bar in found["bars"] if "bytes" in bar["name"]]
    assert len(found["bars"]) == 6
    assert len(shares) == 2
    assert all(0.01 <= bar["value"] <= bar["goal"] for bar in shares)


def test_throughput_is_measured_in_pairs_without_log_lines(redis_url, caplog):
    caplog.set_level(logging.INFO)
    table = checkpoint_store.measure_throughput(redis_url, events=2_000, rounds=2)
    assert table.keys() == {"pa1", "scaled pa1"}
    for row in table.values():
        assert row.keys() == {"every second", "none", "share", "from", "to"}
        assert all(figure > 0.0 for figure in row.values())
        assert row["from"] <= row["share"] <= row["to"]
    assert [record.message for record in caplog.records if record.name == "onepass"] == []


def test_every_learner_of_the_store_bench_has_its_bar(monkeypatch):
    monkeypatch.setattr(checkpoint_store, "_measure_restore", lambda *_: {"seconds": 1.0})
    speeds = {"pa1": {"share": 0.95}, "scaled pa1": {"share": 0.5}}
    monkeypatch.setattr(checkpoint_store, "measure_throughput", lambda *_, **__: speeds)
    _, bars = checkpoint_store.measure_store(quick=True)
    assert [(bar.name.partition(":")[0], bar.ok) for bar in bars[1:]] == [
        ("pa1", True),
        ("scaled pa1", False),
    ]


def test_a_missed_bar_fails_except_with_quick(monkeypatch, capsys):
    results = {"speeds": {"pa1": {"every second": 25_123.456, "share": 0.51234}}}
    monkeypatch.setitem(
        BENCHES, "checkpoint", Bench(lambda **_: document(results, [Bar("a", 1, ">=", 2)]), "")
    )
    assert main(["bench", "checkpoint"]) == 1
    out = capsys.readouterr().out
    assert "every second 25,123  share 0.512" in out
    assert "MISSED a: 1 >= 2" in out
    assert main(["bench", "checkpoint", "--quick"]) == 0
    assert "MISSED" in capsys.readouterr().out


def test_a_bar_compares_its_value_with_its_goal():
    assert Bar("a", 2.0, ">=", 2.0).ok
    assert not Bar("a", 1.9, ">=", 2.0).ok
    assert Bar("a", 2.0, "<=", 2.0).ok
    assert not Bar("a", 2.1, "<=", 2.0).ok


def test_time_stolen_by_the_hypervisor_is_reported(monkeypatch, capsys, tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu  100 0 50 800 10 0 0 40 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n")
    assert read_ticks(stat) == Ticks(40, 1000)
    assert stolen_share(read_ticks(stat), Ticks(90, 1200)) == 0.25
    assert stolen_share(read_ticks(stat), read_ticks(stat)) == 0.0
    assert read_ticks(tmp_path / "none") is None
    assert stolen_share(None, None) is None
    readings = iter([Ticks(40, 1000), Ticks(90, 1200)] * 2 + [None, None])
    monkeypatch.setattr("service.bench.report.read_ticks", lambda: next(readings))
    monkeypatch.setitem(BENCHES, "serve", Bench(lambda **_: document({}, []), ""))
    assert main(["bench", "serve", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["machine"]["stolen"] == 0.25
    assert main(["bench", "serve"]) == 0
    assert "25.0% of its CPU time stolen" in capsys.readouterr().out
    assert main(["bench", "serve"]) == 0
    assert "stolen" not in capsys.readouterr().out
