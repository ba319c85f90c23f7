"""Four-phase drift: the paper's probabilities, each row at most once, and one stream of two labels
from every kind of file.
"""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.config.settings import Limits
from service.features.decoder import Decoder
from service.files import build_phases, events, features_of, scan
from service.files.drift_phases import draws, order_of, sections_of
from service.sources.file import FileSource
from tests.examples import examples
from tests.looped import looped
from tests.service.cli.command_line import check_refused, run_command

P1, P2, N1, N2 = range(4)
# Probabilities at the beginning and end of each phase, taken from the paper's text, not from the
# code.
PAPER = [
    {P1: (0.7, 0.5), N1: (0.3, 0.5)},
    {P1: (0.5, 0.3), P2: (0.0, 0.2), N1: (0.5, 0.5)},
    {P2: (0.5, 0.5), N1: (0.2, 0.0), N2: (0.3, 0.5)},
    {P2: (0.5, 0.3), N2: (0.5, 0.7)},
]
seeds = st.integers(0, 2**32)
whenever = examples(60)


def draw_phases(each, seed):
    return draws(each, np.random.default_rng(seed)).reshape(4, each)


@whenever
@given(st.integers(1, 400), seeds)
def test_a_class_occurs_only_in_phases_where_its_probability_is_not_0(each, seed):
    for phase, chances in zip(draw_phases(each, seed), PAPER, strict=True):
        assert set(phase.tolist()) <= chances.keys()


@whenever
@given(st.integers(2, 400), seeds)
def test_a_probability_of_0_at_an_end_excludes_the_class_there(each, seed):
    phases = draw_phases(each, seed)
    assert phases[1, 0] != P2
    assert phases[2, -1] != N1


@looped("phase", range(4))
def test_frequencies_match_those_of_the_paper(phase):
    """Every tenth of a phase, over 200 draws, is within five deviations of its binomial."""
    each, many = 100, 200
    found = np.array([draw_phases(each, seed)[phase] for seed in range(many)])
    along = np.arange(each) / (each - 1)
    for place in range(4):
        first, last = PAPER[phase].get(place, (0.0, 0.0))
        chances = first + (last - first) * along
        for part in range(0, each, 10):
            p = chances[part : part + 10]
            counted = (found[:, part : part + 10] == place).sum()
            deviation = np.sqrt(many * (p * (1 - p)).sum())
            assert abs(counted - many * p.sum()) <= 5 * deviation


def test_over_all_phases_each_class_fills_one_phase():
    counts = np.mean(
        [np.bincount(draw_phases(500, seed).ravel(), minlength=4) for seed in range(100)], axis=0
    )
    assert counts == pytest.approx([500] * 4, abs=5 * np.sqrt(500 / 2 / 100))


@whenever
@given(st.integers(1, 60), seeds)
def test_each_row_has_the_drawn_class_and_occurs_once(each, seed):
    generator = np.random.default_rng(seed)
    classes = draws(each, generator)
    of_row = np.random.default_rng(0).permutation(np.repeat(np.arange(4), 4 * each))
    order = order_of(classes, [np.flatnonzero(of_row == place) for place in range(4)], generator)
    assert of_row[order].tolist() == classes.tolist()
    assert np.unique(order).size == order.size == 4 * each


def test_sections_end_where_the_phases_end():
    assert sections_of(np.arange(40)) == [
        (10, "phase 1: P1, N1"),
        (20, "phase 2: P1, P2, N1"),
        (30, "phase 3: P2, N1, N2"),
        (40, "phase 4: P2, N2"),
    ]


ROWS = 1000
KINDS = ["csv", "jsonl", "svm"]
FOUR = {"csv": "ham,eggs,tea,jam", "jsonl": "ham,eggs,tea,jam", "svm": "1,2,3,4.0"}


def write_rows(folder, kind):
    """Write rows of five classes in turn; `size` is the row's number, which identifies it."""
    path = folder / f"d.{kind}.gz"
    names = ["ham", "eggs", "tea", "jam", "none"]
    lines = {
        "csv": ["size,label", *(f"{n},{names[n % 5]}" for n in range(ROWS))],
        "jsonl": [json.dumps({"size": n, "label": names[n % 5]}) for n in range(ROWS)],
        "svm": [f"{n % 5 + 1} 1:{n}" for n in range(ROWS)],
    }
    with gzip.open(path, "wt") as file:
        file.write("\n".join(lines[kind]) + "\n")
    return path


@looped("kind", KINDS)
def test_every_kind_of_file_gives_the_same_rows_and_two_labels(tmp_path, kind):
    file, label, order = build_phases(
        scan(write_rows(tmp_path, kind)), FOUR[kind], limit=400, seed=3
    )
    source = FileSource(file, order=order)
    values = [json.loads(record.value) for record in source.poll(0.0, 1000)]
    sizes = [next(iter(value["features"].values())) for value in values]
    assert sizes == order.tolist()
    assert [value["label"] for value in values] == [
        ("positive", "negative")[row % 5 > 1] for row in order.tolist()
    ]
    assert set(order % 5) == {0, 1, 2, 3}
    decoder = Decoder(features_of([file], 8), label, Limits())
    assert {decoder.event(json.dumps(value).encode()).label for value in values} == {
        "positive",
        "negative",
    }


def test_only_the_bytes_of_the_label_change(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text(
        "".join(
            f'{{"features": {{"a": 1.50e0}}, "label": "{n % 4}", "weight": 0.10}}\n'
            for n in range(40)
        )
    )
    file, _, _ = build_phases(scan(path), "0,1,2,3", limit=4, seed=0)
    assert set(events(file)) == {
        b'{"features":{"a": 1.50e0},"label":"%b","weight":0.10}' % sign
        for sign in (b"positive", b"negative")
    }


def test_reading_resumes_at_a_bookmark_in_the_order(tmp_path):
    file, _, order = build_phases(scan(write_rows(tmp_path, "csv")), FOUR["csv"], limit=400, seed=3)
    one, other = FileSource(file, order=order), FileSource(file, order=order)
    one.poll(0.0, 150)
    other.seek(one.bookmark())
    assert one.poll(0.0, 1000) == other.poll(0.0, 1000) != []
    assert one.at_end


def test_without_a_limit_a_phase_has_four_fifths_of_the_rarest_class(tmp_path):
    path = write_rows(tmp_path, "jsonl")
    assert build_phases(scan(path), FOUR["jsonl"], limit=None, seed=0)[2].size == 4 * 160
    assert build_phases(scan(path), FOUR["jsonl"], limit=403, seed=0)[2].size == 400


def replay(capsys, *arguments):
    status, out, err = run_command(capsys, "replay", *arguments, "--json")
    assert (status, err) == (0, "")
    return json.loads(out)


@looped("kind", KINDS)
def test_each_seed_gives_one_stream(tmp_path, capsys, kind):
    path = write_rows(tmp_path, kind)
    line = (path, "--phases", FOUR[kind], "--limit", "400")
    first, same, other, none = (
        replay(capsys, *line, *seed)
        for seed in [("--shuffle", "0"), ("--shuffle", "0"), ("--shuffle", "1"), ()]
    )
    assert first["events"] == 400
    assert (
        first["state_digest"]
        == same["state_digest"]
        == none["state_digest"]
        != other["state_digest"]
    )


WRONG = {
    "three": (("--phases", "ham,eggs,tea"), "P1,P2,N1,N2", "not 3"),
    "twice": (("--phases", "ham,eggs,tea,ham"), "four different labels"),
    "misspelt": (("--phases", "ham,eggs,tea,jamm"), "jamm", "did you mean 'jam'"),
    "unlike any": (("--phases", "ham,eggs,tea,12345"), "12345", "eggs, ham, jam, none, tea"),
    "too long": (
        ("--phases", FOUR["csv"], "--limit", "799"),
        "has 200 rows",
        "give --limit 636 or less",
    ),
    "far too long": (
        ("--phases", FOUR["csv"], "--limit", "999999999999"),
        "have 800 rows",
        "give --limit 640 or less",
    ),
    "too short": (("--phases", FOUR["csv"], "--limit", "3"), "--limit", "at least 4"),
    "config": (("--phases", FOUR["csv"], "--config", "m.yaml"), "not go with --config"),
    "multiclass": (("--phases", FOUR["csv"], "--multiclass"), "not go with --multiclass"),
    "positive": (("--phases", FOUR["csv"], "--positive", "ham"), "not go with --positive"),
    "test": (("--phases", FOUR["csv"], "--test", "d.csv"), "not go with --test"),
    "passes": (("--phases", FOUR["csv"], "--passes", "2"), "not go with --passes"),
    "lineage": (("--phases", FOUR["csv"], "--lineage", "--config", "m.yaml"), "--lineage"),
    "seed": (("--phases", FOUR["csv"], "--shuffle", "-1"), "--shuffle", "0 or more"),
}


@looped("line", WRONG.values(), ids=WRONG)
def test_impossible_phases_are_refused_in_one_line(tmp_path, capsys, line):
    arguments, *words = line
    check_refused(run_command(capsys, "replay", write_rows(tmp_path, "csv"), *arguments), *words)


def test_the_limit_that_the_hint_names_works(tmp_path, capsys):
    path = write_rows(tmp_path, "csv")
    assert replay(capsys, path, "--phases", FOUR["csv"], "--limit", "640")["events"] == 640


NEWS = "rec.sport.baseball,rec.sport.hockey,rec.autos,rec.motorcycles"


def test_the_streams_of_the_paper_can_be_replayed(data, capsys):
    """They have 800 articles per phase, and 500 digits."""
    news = data / "20news_19997_comp_rec.jsonl.gz"
    run = replay(
        capsys, news, "--text", "text", "--phases", NEWS, "--limit", "3200", "--shuffle", "0"
    )
    assert (run["events"], run["rejects"]) == (3200, 0)
    run = replay(
        capsys,
        data / "usps_train.csv.gz",
        "--phases",
        "3,7,8,9",
        "--limit",
        "2000",
        "--shuffle",
        "0",
    )
    assert (run["events"], run["rejects"]) == (2000, 0)
    assert run["error_rate"] < 0.1
