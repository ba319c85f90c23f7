"""`onepass replay` learns a file as `produce` and a learner do by way of a log."""

import json
import warnings
from contextlib import closing

from redis import Redis

from learners.registry import make
from service.sources import open_source
from tests.service.cli.command_line import asked, said
from tests.service.cli.own_process import done
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
    """One learner, two, several classes, and a test after the training."""
    spam = ("replay", words, "--positive", "spam")
    lines = (
        (*spam, "--learner", "pa1:C=0.1", "--scale", "gn", "--json"),
        (*spam, "--learner", "pa1:C=0.1", "--learner", "perceptron", "--json"),
        ("replay", words, "--multiclass", "--average", "avg", "--scale", "gn", "--json"),
        (*spam, "--test", words, "--limit", "50", "--shuffle", "3", "--json"),
    )
    return [asked(capsys, *line) for line in lines]


def check_one_line(outcome):
    status, out, err = outcome
    # On a busy machine loading kernels may take long enough to be announced.
    lines = [line for line in err.splitlines() if "compiling the kernels" not in line]
    assert (status, lines) == (0, []), "no progress bar where there is no terminal"
    assert out.count("\n") == 1


def test_replay(words, capsys):
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


def make_lines():
    """Events with three bad ones among them."""
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


def test_a_produced_stream_teaches_what_a_replay_does(tmp_path, redis_url, capsys):
    """The same bytes through Redis, with a bad event among them, and in two halves with a stop
    between them.
    """
    lines = make_lines()
    whole, first, second = (tmp_path / f"{name}.jsonl" for name in ("whole", "first", "second"))
    whole.write_text("\n".join(lines))
    first.write_text("\n".join(lines[:130]))
    second.write_text("\n".join(lines[130:]))
    config = configuration(tmp_path / "m.yaml", redis_url)

    said(capsys, "produce", first, "--to", f"{redis_url}/events")
    half = json.loads(done("learn", "--config", config, "--until-end"))
    assert half["events"] + half["rejects"] == 130
    out = said(capsys, "produce", second, "--to", f"{redis_url}/events")
    assert "170 events" in out
    status = json.loads(done("run", "--config", config, "--until-end"))
    replayed = json.loads(said(capsys, "replay", whole, "--config", config, "--json"))

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
