"""Trees in data files: read from a field of JSON lines or a column of CSV, decoded and replayed
like any event.
"""

import csv
import json

import pytest
import yaml

from service.config.settings import Features, Label, Limits
from service.errors import SettingsError
from service.features.decoder import Decoder
from service.files import events, features_of, scan
from service.sources import open_source
from service.sources.file import FileSource
from tests.looped import looped
from tests.service.cli.command_line import run_command
from tests.service.operations.checkpoint_history import World

TREE = "k-perceptron:kernel=tree,max_support=50,nodes=8"
BOTH = "k-perceptron:kernel=tree+linear,max_support=50,nodes=8"


def text(n):
    """Return a tree that shows which of three classes event n has."""
    return f"(S (NP (D {'abc'[n % 3]}) (N n{n * 7 % 5})) (VP v{n * 3 % 4}))"


ROWS = [
    {"parse": text(n), "words": "x" * 300, "size": n % 7, "label": ("ham", "eggs", "tea")[n % 3]}
    for n in range(90)
]


@pytest.fixture
def jsonl(tmp_path):
    path = tmp_path / "trees.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


@pytest.fixture
def delimited(tmp_path):
    path = tmp_path / "trees.csv"
    with path.open("w", newline="") as file:
        rows = csv.DictWriter(file, ROWS[0])
        rows.writeheader()
        rows.writerows(ROWS)
    return path


def replay(capsys, *arguments):
    status, out, err = run_command(capsys, "replay", *arguments, "--json")
    assert status == 0, err
    return json.loads(out)


def check_refused(capsys, *arguments):
    status, out, err = run_command(capsys, "replay", *arguments)
    assert (status, out) == (2, "")
    assert err.count("\n") == 1
    return err


# Files.


def test_a_tree_gets_its_own_field_beside_the_features(jsonl, delimited):
    for path in (jsonl, delimited):
        first = json.loads(next(events(scan(path, tree="parse"))))
        assert first == {
            "features": {"words": "x" * 300, "size": 0},
            "label": "ham",
            "parse": ROWS[0]["parse"],
        }
    assert "parse" in json.loads(next(events(scan(jsonl))))["features"], (
        "without `tree` the field must be a feature"
    )


def test_a_file_with_only_trees_is_read(tmp_path):
    path = tmp_path / "alone.csv"
    path.write_text('parse,label\n(A b),1\n,0\n"(A ""b"")",1\n')
    wanted = [{"parse": "(A b)", "label": 1}, {"label": 0}, {"parse": '(A "b")', "label": 1}]
    assert [json.loads(event) for event in events(scan(path, tree="parse"))] == [
        {"features": {}} | row for row in wanted
    ]
    path = tmp_path / "alone.jsonl"
    path.write_text("\n".join(map(json.dumps, wanted)))
    assert [json.loads(event) for event in events(scan(path, tree="parse"))] == [
        {"features": {}} | row for row in wanted
    ]


def test_the_features_of_a_file_exclude_its_tree(jsonl, delimited):
    assert features_of([scan(jsonl, tree="parse")], 18) == Features(tree="parse")
    assert features_of([scan(jsonl, tree="parse")], 18, only_tree=True) == Features(
        bits=0, tree="parse"
    )
    assert features_of([scan(delimited, tree="parse")], 9) == Features(
        columns=("size",), bits=9, tree="parse"
    )


@looped(
    ("name", "content", "tree", "words"),
    [
        ("x.svm", "+1 1:1\n", "t", "svmlight has no trees"),
        ("x.jsonl", '{"a": 1, "label": 1}\n', "t", "no line has the tree field t"),
        ("x.jsonl", '{"id": 1, "label": 1}\n', "id", "--tree id: events use that field"),
        ("x.jsonl", '{"label": 1}\n', "label", "--tree label: that is the label"),
        ("x.csv", "a,label\n1,1\n", "t", "no column t for --tree"),
        ("x.csv", "a,label\n1,1\n", "label", "that is the label"),
    ],
)
def test_a_file_without_the_tree_field_is_refused(tmp_path, name, content, tree, words):
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(SettingsError, match=words):
        scan(path, tree=tree)


def test_the_tree_column_cannot_be_text_or_dropped(delimited):
    for more in ({"text": ["parse"]}, {"drop": ["parse"]}):
        with pytest.raises(SettingsError, match="neither text nor dropped"):
            scan(delimited, tree="parse", **more)


def test_lines_of_a_file_as_a_log_keep_their_trees(tmp_path):
    path = tmp_path / "log.jsonl"
    line = json.dumps({"tree": text(1), "label": 1}).encode()
    path.write_bytes(line + b"\n")
    (record,) = FileSource(path).poll(0.0, 5)
    assert record.value == line
    event = Decoder(Features(bits=0, tree="tree"), Label(), Limits()).event(record.value)
    assert event.tree.productions.size == 5


# Replay.


def test_a_replay_with_a_tree_kernel_alone_ignores_other_fields(capsys, jsonl, delimited):
    """One of the other fields has a text that would be too long for a name."""
    run = replay(capsys, jsonl, "--tree", "parse", "--multiclass", "--learner", TREE)
    assert (run["events"], run["rejects"]) == (90, 0)
    assert run["errors"] < 20
    assert (
        run["state_digest"]
        == replay(capsys, delimited, "--tree", "parse", "--multiclass", "--learner", TREE)[
            "state_digest"
        ]
    ), "the format of the file must not matter"


def test_a_replay_with_a_kernel_sum_uses_other_fields_as_features(capsys, jsonl):
    line = (jsonl, "--tree", "parse", "--positive", "ham", "--learner", BOTH)
    assert replay(capsys, *line)["rejects_by_reason"] == {"too_long": 90}
    run = replay(capsys, *line, "--drop", "words")
    assert (run["events"], run["rejects"]) == (90, 0)
    alone = replay(capsys, jsonl, "--tree", "parse", "--positive", "ham", "--learner", TREE)
    assert run["state_digest"] != alone["state_digest"]


def test_trees_can_be_replayed_shuffled_in_passes_and_tested(capsys, jsonl):
    line = (jsonl, "--tree", "parse", "--multiclass", "--learner", TREE, "--shuffle", 3)
    run = replay(capsys, *line, "--passes", 3, "--test", jsonl)
    assert [part["events"] for part in run["passes"]] == [90] * 3
    assert run["passes"][-1]["errors"] < run["passes"][0]["errors"] == run["errors"]
    assert run["test"]["events"] == 90
    assert run["test"]["accuracy"] > 0.95
    limited = replay(capsys, *line, "--limit", 30)
    assert limited["events"] == 30


def test_bad_trees_are_rejected_and_the_others_learned(capsys, tmp_path):
    path = tmp_path / "some.jsonl"
    bad = ["(", None, 7, "", "(A b) c"]
    rows = [
        {"parse": parse, "label": n % 2}
        for n, parse in enumerate([text(n) for n in range(20)] + bad)
    ]
    path.write_text("\n".join(map(json.dumps, [*rows, {"label": 1}])))
    run = replay(capsys, path, "--tree", "parse", "--learner", TREE)
    assert (run["events"], run["rejects_by_reason"]) == (20, {"tree": 6})


@looped(
    ("arguments", "words"),
    [
        (("--learner", "pa1"), ("pa1 takes no trees", "kernel such as tree")),
        ((), ("pa1 takes no trees",)),
        (("--learner", TREE, "--text", "words"), ("--text", "leave it out")),
        (("--learner", TREE, "--bits", 4), ("--bits", "leave it out")),
        (("--learner", TREE, "--learner", "pa1"), ("pa1 takes no trees",)),
        (
            ("--learner", TREE, "--learner", "k-pa1:kernel=tree+linear"),
            ("uses only the tree", "replay them separately"),
        ),
    ],
)
def test_flags_that_do_not_fit_a_tree_are_refused(capsys, jsonl, arguments, words):
    err = check_refused(capsys, jsonl, "--tree", "parse", "--positive", "ham", *arguments)
    assert all(word in err for word in words)


def test_a_tree_kernel_without_the_flag_is_refused(capsys, jsonl):
    assert "--tree" in check_refused(capsys, jsonl, "--positive", "ham", "--learner", TREE)


class TreeWorld(World):
    """A world whose events have trees."""

    def __init__(self, folder, redis_url):
        super().__init__(folder, redis_url)
        self.close()
        self.path.write_text(
            "".join(json.dumps({"parse": text(n), "label": n % 3 % 2}) + "\n" for n in range(60))
        )
        self.values["learner"] = TREE
        self.values["features"] = {"bits": 0, "tree": "parse"}
        self.values["label"] = {"positive": "1", "negative": "0"}
        self.config.write_text(yaml.safe_dump(self.values))


def test_the_configuration_names_the_tree_field(capsys, tmp_path, redis_url):
    world = TreeWorld(tmp_path, redis_url)
    run = replay(capsys, world.path, "--config", world.config)
    flags = replay(capsys, world.path, "--tree", "parse", "--positive", 1, "--learner", TREE)
    assert run["events"] == 60
    assert run["state_digest"] == flags["state_digest"]
    err = check_refused(capsys, world.path, "--config", world.config, "--tree", "parse")
    assert "--tree and --config set the same thing" in err


def test_produced_events_have_their_trees(capsys, jsonl, redis_url):
    url = f"{redis_url}/trees"
    status, _, err = run_command(
        capsys, "produce", jsonl, "--to", url, "--tree", "parse", "--drop", "words"
    )
    assert status == 0, err
    log = open_source(url, "earliest")
    log.stop_at_end()
    found = log.poll(1.0, 100)
    log.close()
    assert [record.value for record in found] == list(
        events(scan(jsonl, tree="parse", drop=["words"]))
    )
