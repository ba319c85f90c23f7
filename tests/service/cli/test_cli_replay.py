"""`onepass replay` learns a file exactly as `produce` and a learner do through a log."""

import json
import warnings
from contextlib import closing

from redis import Redis

from learners.registry import make
from service.sources import open_source
from tests.service.cli.command_line import run_command, run_successfully
from tests.service.cli.own_process import run_in_process
from tests.service.cli.words import configuration, words_fixture  # noqa: F401  # a fixture

with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
    from kafka import KafkaAdminClient

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


def replay_in_four_ways(capsys, words):
    """Replay with one learner, with two, with several classes, and with a test after
    the training.
    """
    spam = ("replay", words, "--positive", "spam")
    lines = (
        (*spam, "--learner", "pa1:C=0.1", "--scale", "gn", "--json"),
        (*spam, "--learner", "pa1:C=0.1", "--learner", "perceptron", "--json"),
        ("replay", words, "--multiclass", "--average", "avg", "--scale", "gn", "--json"),
        (*spam, "--test", words, "--limit", "50", "--shuffle", "3", "--json"),
    )
    return [run_command(capsys, *line) for line in lines]


def check_one_line(outcome):
    status, out, err = outcome
    # On a busy machine loading kernels may take long enough to be announced.
    lines = [line for line in err.splitlines() if "compiling the kernels" not in line]
    assert (status, lines) == (0, []), "without a terminal there must be no progress bar"
    assert out.count("\n") == 1


def test_replay_reports_errors_digest_and_test(words, capsys):
    one, two, multiclass, tested = replay_in_four_ways(capsys, words)
    for outcome in (one, two, multiclass, tested):
        check_one_line(outcome)
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


def test_replay_is_readable_without_json(words, capsys):
    status, out, err = run_command(capsys, "replay", words, "--positive", "spam")
    assert (status, err) == (0, "")
    assert "200 events, " in out
    assert "\nstate " in out


def test_produce_says_that_it_created_the_topic(words, kafka, make_topic, capsys):
    there = make_topic(1)
    missing = f"{there}-more"
    line = ("produce", words, "--to", missing)
    status, out, err = run_command(capsys, *line, "--partitions", "3")
    assert (status, err) == (0, "")
    assert f"created topic {missing.rpartition('/')[2]} with 3 partitions\n" in out
    assert "made" not in run_command(capsys, *line)[1]
    with closing(open_source(missing, "earliest")) as source:
        assert len(source.lag()) == 3
    with KafkaAdminClient(bootstrap_servers=kafka.bootstrap) as admin:
        admin.delete_topics([missing.rpartition("/")[2]])
    status, out, err = run_command(capsys, "produce", words, "--to", there, "--partitions", "3")
    assert status == 0
    assert "exists already: --partitions has no effect" in err
    assert out == f"200 events to {there}\n"


def make_lines():
    """Return events, three of them bad."""
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
    return lines


def test_a_produced_stream_gives_the_state_of_a_replay(tmp_path, redis_url, capsys):
    """The same bytes go through Redis, with bad events among them, in two halves with a stop
    between them.
    """
    lines = make_lines()
    whole, first, second = (tmp_path / f"{name}.jsonl" for name in ("whole", "first", "second"))
    whole.write_text("\n".join(lines))
    first.write_text("\n".join(lines[:130]))
    second.write_text("\n".join(lines[130:]))
    config = configuration(tmp_path / "m.yaml", redis_url)

    run_successfully(capsys, "produce", first, "--to", f"{redis_url}/events")
    half = json.loads(run_in_process("learn", "--config", config, "--until-end"))
    assert half["events"] + half["rejects"] == 130
    out = run_successfully(capsys, "produce", second, "--to", f"{redis_url}/events")
    assert "170 events" in out
    status = json.loads(run_in_process("run", "--config", config, "--until-end"))
    replayed = json.loads(run_successfully(capsys, "replay", whole, "--config", config, "--json"))

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
