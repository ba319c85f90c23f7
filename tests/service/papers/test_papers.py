"""`onepass papers`: what it prints and how it ends; `make papers` checks the figures themselves."""

import gzip
import json
import os
from itertools import islice

import numpy as np
import pytest

from learners.batch import Batch
from learners.registry import make
from service.__main__ import main
from service.bench.report import Bar
from service.cli import papers
from service.papers import mckenna_adult as mk_adult
from service.papers import mckenna_synthetic as mk_synthetic
from service.papers import mckenna_trec as mk_trec
from service.papers.experiment import (
    Experiment,
    Findings,
    Job,
    make_bar,
    mean_and_deviation,
    run_jobs,
)
from service.papers.projectron_variants import VARIANTS, Variant, run_variant
from service.papers.training import one_pass, permute

EVENTS = 300


@pytest.fixture(autouse=True)
def here(monkeypatch):
    """Runs jobs in this process, where data sets can be small."""
    monkeypatch.setattr(papers, "run_jobs", lambda jobs, done: [_done(job, done) for job in jobs])
    monkeypatch.setattr(mk_synthetic, "EVENTS", EVENTS)
    mk_synthetic._test_set.cache_clear()


def _done(job, done):
    done()
    return job.function(*job.arguments)


@pytest.fixture
def small(data, tmp_path):
    """Folder with the first lines of the data files."""
    for name in (mk_adult.TRAIN, mk_adult.TEST, mk_trec.FILE):
        with gzip.open(data / name) as whole:
            lines = list(islice(whole, EVENTS))
        if name == mk_trec.FILE:
            lines = [
                json.dumps(json.loads(line) | {"split": "test" if t % 5 == 4 else "train"}).encode()
                + b"\n"
                for t, line in enumerate(lines)
            ]
        with gzip.open(tmp_path / name, "wb") as file:
            file.writelines(lines)
    return tmp_path


def run_papers(capsys, *words):
    status = main(["papers", *map(str, words)])
    return status, *capsys.readouterr()


def test_all_papers_run_on_small_data(capsys, small):
    status, out, err = run_papers(capsys, "--quick", "--json", "--data", small)
    assert err == ""
    told = json.loads(out)
    assert told.keys() == {"machine", "results", "bars"}
    assert told["results"].keys() == papers.PAPERS.keys()
    assert status == 1, "300 rows cannot make thousands of support vectors"
    assert [bar["name"].partition(",")[0] for bar in told["bars"]] == [
        f"mk-adult: {row}" for row in mk_adult.BARS
    ]
    for bar in told["bars"]:
        assert bar.keys() == {"name", "value", "op", "goal", "ok"}
        assert (bar["op"], bar["goal"], bar["ok"]) == ("<=", 0.05, False)
    (adult,) = told["results"]["mk-adult"]["tables"].values()
    assert [row["row"] for row in adult] == [
        row for row in mk_adult.PRINTED if row != "Projectron++"
    ]
    (synthetic,) = told["results"]["mk-synthetic"]["tables"].values()
    assert [row["row"] for row in synthetic] == list(mk_synthetic.PRINTED)
    accuracies, by_class = told["results"]["mk-trec"]["tables"].values()
    assert (
        [row["row"] for row in accuracies]
        == [row["row"] for row in by_class]
        == list(mk_trec.ACCURACY)
    )
    for row in (*adult[1:], *synthetic[1:], *accuracies[2:]):
        assert 0.0 < row["accuracy"]["mean"] <= 100.0
        assert row["CPU s"]["mean"] > 0.0
    assert by_class[2]["Human, thesis"] == 79.06


def test_the_table_is_readable_without_json(capsys):
    status, out, err = run_papers(capsys, "mk-synthetic", "--quick")
    assert (status, err) == (0, "")
    head, *rows = out.partition("one pass\n")[2].splitlines()
    wanted = "row runs F1 F1, thesis accuracy accuracy, thesis SV SV, thesis CPU s CPU s, thesis"
    assert " ".join(head.split()) == wanted
    assert rows[0].split()[:5] == ["SVM", "0", "89.21", "±", "0.25"]
    assert rows[2].split()[:2] == ["Averaged", "2"]
    for remark in mk_synthetic.REMARKS:
        assert remark in out


def test_a_missed_bar_is_shown_and_sets_the_status(capsys, monkeypatch):
    bars = [Bar("a", 1.0, "<=", 2.0), Bar("b", 3.0, "<=", 2.0)]

    def jobs(folder, *, quick):
        del folder
        return [Job(int, (quick,))]

    bare = Experiment("", "", (), jobs, lambda done: Findings({}, bars[: 2 - sum(done)], []))
    monkeypatch.setattr(papers, "_load_experiment", lambda _: bare)
    assert run_papers(capsys, "mk-trec", "--quick")[0] == 0
    status, out, _ = run_papers(capsys, "mk-trec")
    assert status == 1
    assert "ok     mk-trec: a" in out
    assert "MISSED mk-trec: b 3 <= 2" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("mk-adlt",), "unknown paper 'mk-adlt'; did you mean 'mk-adult'?"),
        (("mk-synthetic", "zz"), "known: mk-adult, mk-synthetic, mk-trec"),
        (("mk-trec",), "give --data DIR or set ONEPASS_DATA"),
        (("mk-adult", "--data", "."), "mk-adult needs a9a_train.svm.gz, which is not in ."),
    ],
)
def test_wrong_usage_is_refused_in_one_line(capsys, monkeypatch, words, said):
    monkeypatch.delenv("ONEPASS_DATA", raising=False)
    status, out, err = run_papers(capsys, *words)
    assert (status, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_the_environment_names_the_data_folder(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("ONEPASS_DATA", str(tmp_path))
    assert f"is not in {tmp_path}" in run_papers(capsys, "mk-adult")[2]


def test_jobs_run_in_other_processes_and_return_in_order():
    done = []
    jobs = [Job(sorted, (word,)) for word in ("cba", "fed")] + [Job(os.getpid, ())]
    *words, other = run_jobs(jobs, lambda: done.append(1))
    assert words == [["a", "b", "c"], ["d", "e", "f"]]
    assert other != os.getpid()
    assert len(done) == 3


def test_rows_are_permuted_with_their_weights():
    X = Batch.from_rows([([0, 2], [1.0, 5.0]), ([], []), ([1], [7.0])], [1.0, 2.0, 3.0])
    assert all(
        np.array_equal(a, b)
        for a, b in zip(permute(X, np.array([0, 1, 2])), X, strict=True)
        if len(a) != 5
    )
    turned = permute(X, np.array([2, 0, 1]))
    assert [turned.rows(t, t + 1).values.tolist() for t in range(3)] == [[7.0], [1.0, 5.0], []]
    assert turned.indices.tolist() == [1, 0, 2]
    assert turned.weights.tolist() == [3.0, 1.0, 2.0]


def test_rows_are_permuted_with_their_trees(small):
    data = mk_trec._data(small)
    order = np.random.default_rng(3).permutation(data.y.size)
    turned = permute(data.X, order).validate(1)
    for t, was in enumerate(order):
        mine, theirs = turned.trees.rows(t, t + 1), data.X.trees.rows(was, was + 1)
        assert all(np.array_equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_the_synthetic_data_match_the_thesis(monkeypatch):
    monkeypatch.setattr(mk_synthetic, "EVENTS", 20_000)
    X, y = mk_synthetic.draw(0)
    x = X.values.reshape(-1, 3)[:, 1:]
    # 1 is √5 deviations from 0, so a hundredth of the rows is on the wrong side.
    side = np.where(x[:, 0] > 0.0, 1.0, -1.0)
    assert np.mean(side != y) == pytest.approx(0.1, abs=0.02)
    assert x[side > 0].mean(axis=0) == pytest.approx([1.0, 1.0], abs=0.07)
    assert x[side < 0].var(axis=0) == pytest.approx([0.2, 2.0], abs=0.15)


def test_bars_compare_means_within_a_relative_distance():
    assert mean_and_deviation([1.0, 3.0]) == {"mean": 2.0, "sd": pytest.approx(2**0.5)}
    assert mean_and_deviation([4]) == {"mean": 4.0}
    assert make_bar("n", 104.0, 100.0, 0.05).ok
    assert make_bar("n", 96.0, 100.0, 0.05).ok
    assert not make_bar("n", 94.0, 100.0, 0.05).ok


def test_the_plain_projectron_keeps_as_many_rows_as_ours():
    """So differences between its variants are due to their comparisons."""
    X, y = mk_synthetic.draw(1)
    data = mk_synthetic.Data(X, y, X, y, mk_synthetic.SimpleNamespace(dense=True, bias=True, dim=3))
    ours = one_pass("", 0, make("projectron++:eta=0.1,gamma=2,max_support=300"), data)
    plain = run_variant(
        Variant("δ ≤ η", squared=False, eta=None, type="float64"), X, y, gamma=2.0, eta=0.1
    )
    assert plain.support == ours.support > 20
    assert run_variant(VARIANTS["squared"], X, y, gamma=2.0, eta=0.1).support < plain.support
