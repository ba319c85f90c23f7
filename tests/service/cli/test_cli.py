"""The help and the lists of the command describe its parts."""

import json

from learners.drift.registry import DETECTORS
from service.__main__ import COMMANDS
from tests.looped import looped
from tests.service.cli.command_line import run_command, run_successfully


@looped("command", [(), *((command,) for command in COMMANDS)])
def test_help_has_an_example(capsys, command):
    status, out, err = run_command(capsys, *command, "--help")
    assert (status, err) == (0, "")
    assert "example:\n  onepass " in out


@looped("bench", ["learners", "checkpoint", "serve"])
def test_the_help_of_each_bench_has_its_own_example(capsys, bench):
    out = run_command(capsys, "bench", bench, "--help")[1]
    assert f"example:\n  onepass bench {bench} --quick\n" in out
    assert (
        "prediction" in run_command(capsys, "--help")[1].partition("  bench ")[2].partition("\n")[0]
    )


def test_help_keeps_words_in_capitals(capsys):
    assert "keys of the HTTP API" in run_command(capsys, "keys", "--help")[1]


def test_help_says_what_a_command_reads_and_measures(capsys):
    assert "Rebuild a checkpoint from its log" in run_command(capsys, "audit", "--help")[1]
    out = run_command(capsys, "bench", "--help")[1]
    for word in (
        "River",
        "learning pauses",
        "exit status: 1 if a bar is missed, except with --quick",
    ):
        assert word in out


def test_learners_lists_every_kind_with_its_parameters(capsys):
    learners = json.loads(run_successfully(capsys, "learners", "--json"))
    kinds = [learner["kind"] for learner in learners]
    assert {"perceptron", "pa", "pa1", "pa2", "scaled", "averaged", "one_vs_rest"} <= set(kinds)
    assert len(set(kinds)) == len(kinds)
    for learner in learners:
        assert learner["family"], learner
        assert learner["paper"], learner
        for parameter in learner["parameters"]:
            assert parameter.keys() >= {"name", "default", "help"}
            assert parameter["name"]
            assert parameter["help"], (learner["kind"], parameter)
    (pa1,) = [learner for learner in learners if learner["kind"] == "pa1"]
    assert {parameter["name"]: parameter["default"] for parameter in pa1["parameters"]} == {
        "J": 1.0,
        "epsilon": 1.0,
        "update_on": "margin",
        "C": 1.0,
    }


def test_detectors_lists_every_kind_with_its_parameters(capsys):
    status, out, _ = run_command(capsys, "detectors", "--json")
    detectors = {detector.pop("kind"): detector for detector in json.loads(out)}
    assert (status, detectors.keys()) == (0, DETECTORS.keys())
    for detector in detectors.values():
        assert detector["rule"]
        assert detector["paper"]
        assert detector["when"].startswith("Choose it")
        assert all(parameter["help"] for parameter in detector["parameters"])
    defaults = {
        parameter["name"]: parameter["default"] for parameter in detectors["hddm-w"]["parameters"]
    }
    assert defaults == {"alpha_d": 0.001, "alpha_w": 0.005, "two_sided": False, "lam": 0.05}
    out = run_command(capsys, "detectors")[1]
    assert "page-hinkley  (drift; Page, Continuous inspection schemes, 1954)" in out
    assert "    delta = 0.002: " in out
    assert "onepass detectors --json" in run_command(capsys, "detectors", "--help")[1]
