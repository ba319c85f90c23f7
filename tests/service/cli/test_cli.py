"""The command as its users have it: a process, its exit status, its one line of complaint, its
JSON.
"""

import json
import os
import socket
import subprocess
import sys
import warnings
from contextlib import closing

import pytest
import yaml
from redis import Redis

from learners.drift.registry import DETECTORS
from learners.registry import make
from service.__main__ import COMMANDS, main
from service.sources import open_source
from tests.service.cli.command_line import asked, check_refused

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka import KafkaAdminClient

ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith("ONEPASS_STORE")
}
SECONDS = 60


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "service", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


def together(*lines: tuple[str, ...]) -> list[tuple[int, str, str]]:
    """Run several at once: a start costs a second, and there are two cores at least."""
    return [finish(process) for process in [start(*line) for line in lines]]


def done(*arguments: str) -> str:
    status, out, err = finish(start(*arguments))
    assert status == 0, err
    return out


@pytest.mark.parametrize("command", [(), *((command,) for command in COMMANDS)])
def test_help_has_an_example(capsys, command):
    status, out, err = asked(capsys, *command, "--help")
    assert (status, err) == (0, "")
    assert "example:\n  onepass " in out


@pytest.mark.parametrize("bench", ["learners", "checkpoint", "serve"])
def test_the_help_of_a_bench_has_its_own_example(capsys, bench):
    out = asked(capsys, "bench", bench, "--help")[1]
    assert f"example:\n  onepass bench {bench} --quick\n" in out
    assert "prediction" in asked(capsys, "--help")[1].partition("  bench ")[2].partition("\n")[0]


def test_words_in_capitals_stay_so(capsys):
    assert "keys of the HTTP API" in asked(capsys, "keys", "--help")[1]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (("run", "--nonsense"), "--nonsense"),
        (("keys", "new", "--file", "k", "--nonsense=1"), "--nonsense=1"),
        (
            ("checkpoints", "rollback", "--to", "2", "--nonsense", "--config", "m.yaml"),
            "--nonsense",
        ),
        (("run", "--conf"), "--conf"),
        (("run",), "required: --config"),
    ],
)
def test_an_option_that_is_not_known_is_named_before_one_that_is_missing(capsys, line, named):
    status, out, err = asked(capsys, *line)
    assert (status, out) == (2, "")
    assert named in err
    assert ("unrecognized" in err) == ("nonsense" in named)


def test_help_says_what_is_read_and_measured(capsys):
    assert "Rebuild a checkpoint from its log" in asked(capsys, "audit", "--help")[1]
    out = asked(capsys, "bench", "--help")[1]
    for word in (
        "River",
        "learning pauses",
        "exit status: 1 if a bar is missed, except with --quick",
    ):
        assert word in out


def test_learners():
    learners = json.loads(done("learners", "--json"))
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


def test_detectors(capsys):
    status, out, _ = asked(capsys, "detectors", "--json")
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
    out = asked(capsys, "detectors")[1]
    assert "page-hinkley  (drift; Page, Continuous inspection schemes, 1954)" in out
    assert "    delta = 0.002: " in out
    assert "onepass detectors --json" in asked(capsys, "detectors", "--help")[1]


@pytest.fixture
def words(tmp_path):
    path = tmp_path / "words.csv"
    rows = [
        f"{n * 37 % 11 - 5},{'red' if n % 3 else 'blue'},{('ham', 'spam', 'ham', 'eggs')[n % 4]}"
        for n in range(200)
    ]
    path.write_text("\n".join(["size,colour,label", *rows]) + "\n")
    return path


def configuration(path, redis_url, **changes):
    settings = {
        "name": "m",
        "learner": {"kind": "scaled", "base": "pa1:C=0.1"},
        "features": {"columns": ["size"], "bits": 8},
        "label": {"positive": "spam", "negative": "ham"},
        "source": {"url": f"{redis_url}/events"},
        "store": {"url": redis_url},
        "api": {"port": 0},
    }
    path.write_text(yaml.safe_dump(settings | changes))
    return path


def test_wrong_usage_ends_with_2_and_one_line(tmp_path, redis_url):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        unknown, typo, busy, missing = together(
            ("nonsense",),
            ("run", "--config", configuration(tmp_path / "typo.yaml", redis_url, stroe={})),
            (
                "run",
                "--config",
                configuration(tmp_path / "busy.yaml", redis_url, api={"port": port}),
            ),
            ("replay", tmp_path / "none.csv"),
        )
    check_refused(unknown, "nonsense", "onepass --help")
    check_refused(typo, "'stroe'", "did you mean 'store'")
    check_refused(busy, str(port), "api.port")
    check_refused(missing, "none.csv")


WRONG = {
    "flag": (("replay", "WORDS", "--nonsense"), "--nonsense", "onepass replay --help"),
    "no data": (("replay",), "DATA", "onepass replay --help"),
    "no config": (("run",), "--config", "onepass run --help"),
    "config missing": (("run", "--config", "none.yaml"), "none.yaml", "--config"),
    "until the end of nothing": (("serve", "--until-end", "--config", {}), "--until-end"),
    "learner kind": (("learn", "--config", {"learner": "pa11"}), "'pa11'", "did you mean 'pa1'"),
    "learner parameter": (("learn", "--config", {"learner": "pa1:c=1"}), "'c'", "did you mean 'C'"),
    "store": (("serve", "--config", {"store": {"url": "localhost:1"}}), "store.url"),
    "source": (("learn", "--config", {"source": {"url": "localhost:1"}}), "kafka://"),
    "classes": (("learn", "--config", {"label": {"classes": "grow"}}), "one_vs_rest"),
    "words": (("replay", "WORDS"), "ham, spam, eggs", "--positive V", "--multiclass"),
    "no such positive": (("replay", "WORDS", "--positive", "tea"), "tea", "ham, spam, eggs"),
    "flag's learner": (
        ("replay", "WORDS", "--positive", "ham", "--learner", "pa1:c=1"),
        "did you mean 'C'",
    ),
    "bits": (("replay", "WORDS", "--positive", "ham", "--bits", "99"), "bits"),
    "memory": (
        (
            "replay",
            "WORDS",
            "--positive",
            "ham",
            "--learner",
            "k-perceptron:max_support=1048576,width=1048576",
        ),
        "does not fit the memory",
        "max_support",
    ),
    "one_vs_rest alone": (
        (
            "replay",
            "WORDS",
            "--positive",
            "ham",
            "--learner",
            '{"kind": "one_vs_rest", "base": "pa1"}',
        ),
        "classes",
    ),
    "flag and config": (
        ("replay", "WORDS", "--learner", "pa1", "--config", {}),
        "--learner",
        "--config",
    ),
    "produce to nowhere": (("produce", "WORDS", "--to", "nowhere"), "kafka://"),
    "produce to a file": (("produce", "WORDS", "--to", "file:///x"), "kafka://"),
    "partitions of a stream": (
        ("produce", "WORDS", "--to", "redis://127.0.0.1:1/0/s", "--partitions", "2"),
        "--partitions",
    ),
    "no partitions": (
        ("produce", "WORDS", "--to", "kafka://127.0.0.1:1/t", "--partitions", "0"),
        "--partitions",
    ),
    "rate": (("produce", "WORDS", "--to", "redis://127.0.0.1:1/0/s", "--rate", "0"), "--rate"),
}


@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG)
def test_each_wrong_usage_is_one_line(capsys, tmp_path, words, line):
    arguments, *expected = line

    def spelled(argument):
        if isinstance(argument, dict):  # what a configuration has otherwise
            return configuration(tmp_path / "m.yaml", "redis://127.0.0.1:1/0", **argument)
        return words if argument == "WORDS" else argument

    check_refused(asked(capsys, *map(spelled, arguments)), *expected)


KEYS = {
    "events",
    "errors",
    "error_rate",
    "updates",
    "rejects",
    "events_per_second",
    "learner",
    "state_digest",
}


def test_replay(words):
    one, two, multiclass, tested = together(
        (
            "replay",
            words,
            "--positive",
            "spam",
            "--learner",
            "pa1:C=0.1",
            "--scale",
            "gn",
            "--json",
        ),
        (
            "replay",
            words,
            "--positive",
            "spam",
            "--learner",
            "pa1:C=0.1",
            "--learner",
            "perceptron",
            "--json",
        ),
        ("replay", words, "--multiclass", "--average", "avg", "--scale", "gn", "--json"),
        (
            "replay",
            words,
            "--positive",
            "spam",
            "--test",
            words,
            "--limit",
            "50",
            "--shuffle",
            "3",
            "--json",
        ),
    )
    for status, out, err in (one, two, multiclass, tested):
        # On a busy machine loading kernels may take long enough to be announced.
        lines = [line for line in err.splitlines() if "compiling the kernels" not in line]
        assert (status, lines) == (0, []), "no progress bar where there is no terminal"
        assert out.count("\n") == 1
    run = json.loads(one[1])
    assert run.keys() >= KEYS
    assert (run["events"], run["rejects"]) == (200, 0)
    assert run["error_rate"] == run["errors"] / 200
    assert len(run["state_digest"]) == 64
    assert run["learner"]["base"] == make("pa1:C=0.1").model_dump()
    runs = json.loads(two[1])["runs"]
    assert [one["learner"]["kind"] for one in runs] == ["pa1", "perceptron"]
    assert all(one.keys() >= KEYS for one in runs)
    assert runs[0]["state_digest"] != runs[1]["state_digest"]
    learner = json.loads(multiclass[1])["learner"]
    order = [learner["kind"], learner["base"]["kind"], learner["base"]["base"]["kind"]]
    assert order == ["scaled", "one_vs_rest", "averaged"]
    assert json.loads(multiclass[1])["events"] == 200
    limited = json.loads(tested[1])
    assert limited["events"] == 50
    assert limited["test"].keys() == {"events", "accuracy", "precision", "recall", "f1"}
    assert limited["test"]["events"] == 200


def test_replay_in_words(words, capsys):
    status, out, err = asked(capsys, "replay", words, "--positive", "spam")
    assert (status, err) == (0, "")
    assert "200 events, " in out
    assert "\nstate " in out


def test_produce_says_that_it_made_the_topic(words, kafka, make_topic, capsys):
    there = make_topic(1)
    missing = f"{there}-more"
    line = ("produce", words, "--to", missing)
    status, out, err = asked(capsys, *line, "--partitions", "3")
    assert (status, err) == (0, "")
    assert f"created topic {missing.rpartition('/')[2]} with 3 partitions\n" in out
    assert "made" not in asked(capsys, *line)[1]
    with closing(open_source(missing, "earliest")) as source:
        assert len(source.lag()) == 3
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap) as admin:
        admin.delete_topics([missing.rpartition("/")[2]])
    status, out, err = asked(capsys, "produce", words, "--to", there, "--partitions", "3")
    assert status == 0
    assert "exists already: --partitions has no effect" in err
    assert out == f"200 events to {there}\n"


def test_a_produced_stream_teaches_what_a_replay_does(tmp_path, redis_url):
    """The same bytes through Redis, with a bad event among them, and in two halves with a stop
    between them.
    """
    lines = [
        json.dumps(
            {
                "features": {"size": n * 37 % 11 - 5, "colour": "rb"[n % 2]},
                "label": ("ham", "spam")[n * 7 % 5 % 2],
            }
        )
        for n in range(300)
    ]
    lines[20], lines[77], lines[201] = (
        "no json",
        lines[77].replace("spam", "eggs").replace("ham", "eggs"),
        "[]",
    )
    whole, first, second = (tmp_path / f"{name}.jsonl" for name in ("whole", "first", "second"))
    whole.write_text("\n".join(lines))
    first.write_text("\n".join(lines[:130]))
    second.write_text("\n".join(lines[130:]))
    config = configuration(tmp_path / "m.yaml", redis_url)

    done("produce", first, "--to", f"{redis_url}/events")
    half = json.loads(done("learn", "--config", config, "--until-end"))
    assert half["events"] + half["rejects"] == 130
    out = done("produce", second, "--to", f"{redis_url}/events")
    assert "170 events" in out
    status = json.loads(done("run", "--config", config, "--until-end"))
    replayed = json.loads(done("replay", whole, "--config", config, "--json"))

    assert status["checkpoint"]["state_digest"] == replayed["state_digest"]
    for key in (
        "events",
        "errors",
        "error_rate",
        "updates",
        "rejects",
        "rejects_by_reason",
        "learner",
    ):
        assert status[key] == replayed[key], key
    assert replayed["rejects_by_reason"] == {"label": 1, "malformed": 2}
    assert status["lag"] == 0
    with Redis.from_url(redis_url) as client:
        letters = [fields for _, fields in client.xrange("events.dead")]
    assert [letter[b"value"].decode() for letter in letters] == [lines[20], lines[77], lines[201]]
    assert [letter[b"h:reason"] for letter in letters] == [b"malformed", b"label", b"malformed"]


RENAMED = {
    (
        "checkpoints",
        "rollback",
        "--to",
        "1",
        "--from-then",
        "--config",
        "m.yaml",
    ): "--from-then is now --rewind",
    ("checkpoints", "rollback", "--to", "1", "--keep-position", "--config", "m.yaml"): (
        "--keep-position is now --keep-offsets"
    ),
    ("checkpoints", "rollback", "--to", "1", "--rewind", "--keep-position", "--config", "m.yaml"): (
        "--keep-position is now --keep-offsets"
    ),
    (
        "checkpoints",
        "import",
        "f.onepass",
        "--over",
        "--config",
        "m.yaml",
    ): "--over is now --replace",
    ("replay", "--lineage", "--config", "m.yaml"): "--lineage is now the command `onepass audit`",
    (
        "replay",
        "data.csv",
        "--lineage",
        "--config",
        "m.yaml",
    ): "--lineage is now the command `onepass audit`",
}


@pytest.mark.parametrize(("line", "words"), RENAMED.items(), ids=map(" ".join, RENAMED))
def test_an_old_flag_is_answered_with_the_new_one(capsys, line, words):
    with pytest.raises(SystemExit) as stopped:
        main(line)
    err = capsys.readouterr().err
    assert stopped.value.code == 2
    assert words in err
    assert err.count("\n") == 1
