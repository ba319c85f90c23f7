"""The command answers wrong usage with exit status 2 and one line that says what to do."""

import socket
from contextlib import closing

import pytest

from service.__main__ import main
from tests.looped import looped
from tests.service.cli.command_line import check_refused, run_command
from tests.service.cli.own_process import run_together
from tests.service.cli.words import configuration, words_fixture  # noqa: F401  # a fixture


@looped(
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
def test_an_unknown_option_is_named_before_a_missing_one(capsys, line, named):
    status, out, err = run_command(capsys, *line)
    assert (status, out) == (2, "")
    assert named in err
    assert ("unrecognized" in err) == ("nonsense" in named)


def test_wrong_usage_ends_with_2_and_one_line(tmp_path, redis_url, capsys):
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        typo, busy = run_together(
            ("run", "--config", configuration(tmp_path / "typo.yaml", redis_url, stroe={})),
            (
                "run",
                "--config",
                configuration(tmp_path / "busy.yaml", redis_url, api={"port": port}),
            ),
        )
    check_refused(run_command(capsys, "nonsense"), "nonsense", "onepass --help")
    check_refused(typo, "'stroe'", "did you mean 'store'")
    check_refused(busy, str(port), "api.port")
    check_refused(run_command(capsys, "replay", tmp_path / "none.csv"), "none.csv")


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


@looped("line", WRONG.values(), ids=WRONG)
def test_each_wrong_usage_is_one_line(capsys, tmp_path, words, line):
    arguments, *expected = line

    def write_argument(argument):
        if isinstance(argument, dict):  # changed settings of a configuration
            return configuration(tmp_path / "m.yaml", "redis://127.0.0.1:1/0", **argument)
        return words if argument == "WORDS" else argument

    check_refused(run_command(capsys, *map(write_argument, arguments)), *expected)


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


@looped(("line", "words"), RENAMED.items(), ids=map(" ".join, RENAMED))
def test_an_old_flag_is_answered_with_the_new_one(capsys, line, words):
    with pytest.raises(SystemExit) as stopped:
        main(line)
    err = capsys.readouterr().err
    assert stopped.value.code == 2
    assert words in err
    assert err.count("\n") == 1
