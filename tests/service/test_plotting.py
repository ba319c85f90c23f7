"""Plots: a line for each learner and baseline, a mark for each alarm, the same bytes each time;
wrong usage is refused before any work.
"""

import importlib.util
import json
import os
import struct
import subprocess
import sys
from itertools import pairwise
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.registry import make
from service.cli.replay.command import _name
from service.plotting import Curve, Mark, Panel, choose_window, draw, recent_rates, spread
from tests.examples import examples
from tests.service.cli.command_line import check_refused, run_command

SVG = "{http://www.w3.org/2000/svg}"
whenever = examples(100)


def straight(name="pa1", rate=0.1, events=5000, marks=()):
    at = np.arange(50, events + 1, 50)
    return Curve(name, at, (at * rate).astype(np.int64), marks)


def groups(path):
    """Return the drawn groups by name, with the points of their paths."""
    root = ET.parse(path).getroot()
    return {
        group.get("id"): [p.get("d") for p in group.iter(f"{SVG}path")]
        for group in root.iter(f"{SVG}g")
    }


def texts(path):
    return ["".join(text.itertext()) for text in ET.parse(path).getroot().iter(f"{SVG}text")]


def vertices(drawn):
    words = drawn.replace("M", " ").replace("L", " ").split()
    return np.array([float(word) for word in words]).reshape(-1, 2)


def test_each_learner_and_baseline_is_drawn_as_a_line(tmp_path):
    path = tmp_path / "p.svg"
    curves = [straight("pa1", 0.1), straight("arow", 0.2), straight("a $name$ <&>", 0.15)]
    draw(
        path,
        [Panel("electricity", curves, [straight("majority", 0.4), straight("no change", 0.3)])],
    )
    drawn = groups(path)
    for name in (
        "curve-1",
        "curve-2",
        "curve-3",
        "recent-1",
        "recent-2",
        "recent-3",
        "baseline-1",
        "baseline-2",
    ):
        assert len(drawn[name]) == 1, name
    assert "curve-4" not in drawn
    assert {
        "electricity",
        "pa1  0.100",
        "arow  0.200",
        "a $name$ <&>  0.150",
        "majority  0.400",
    } <= set(texts(path))


def test_a_line_goes_through_its_points(tmp_path):
    """A constant error is a level line, and an error twice as high is drawn twice as high."""
    path = tmp_path / "p.svg"
    draw(path, [Panel("t", [straight(rate=0.1)], [straight(rate=0.2), straight(rate=0.4)])])
    drawn = groups(path)
    low, middle, high = (
        vertices(drawn[name][0])[:, 1] for name in ("curve-1", "baseline-1", "baseline-2")
    )
    for line in (low, middle, high):
        assert np.ptp(line) < 0.5
    assert middle[-1] - high[-1] == pytest.approx(2 * (low[-1] - middle[-1]), abs=0.2)


def test_alarms_of_one_learner_span_the_panel_and_of_several_use_lanes(tmp_path):
    marks = [Mark(1000, worse=True), Mark(2500, worse=True), Mark(4000, worse=False)]
    one, two = tmp_path / "1.svg", tmp_path / "2.svg"
    draw(one, [Panel("t", [straight(marks=marks)])])
    draw(two, [Panel("t", [straight(marks=marks), straight("arow", marks=marks[:1])])])
    drawn = groups(one)
    assert (len(drawn["worse-1"]), len(drawn["better-1"])) == (2, 1)
    first, second = (vertices(line) for line in drawn["worse-1"])
    assert second[0, 0] - first[0, 0] == pytest.approx(
        vertices(drawn["better-1"][0])[0, 0] - second[0, 0], abs=0.1
    )
    lanes = groups(two)
    assert (len(lanes["worse-1"]), len(lanes["worse-2"])) == (2, 1)
    tall, upper, lower = (
        vertices(line[0])[:, 1] for line in (drawn["worse-1"], lanes["worse-1"], lanes["worse-2"])
    )
    assert np.ptp(upper) < np.ptp(tall) / 10
    assert upper.max() < lower.min(), "the first learner's lane must be on top"
    assert any("drift alarm" in text for text in texts(one))


def test_the_legend_names_the_detectors_of_the_alarms(tmp_path):
    marks = [Mark(1000, worse=True, detector="ddm"), Mark(2000, worse=True, detector="adwin")]
    draw(
        tmp_path / "p.svg", [Panel("t", [straight(marks=marks), straight("arow", marks=marks[:1])])]
    )
    assert any(
        "upright: drift alarm of adwin or ddm, dotted" in text for text in texts(tmp_path / "p.svg")
    )


def test_without_alarms_the_legend_does_not_mention_them(tmp_path):
    draw(tmp_path / "p.svg", [Panel("t", [straight()])])
    assert not any("alarm" in text for text in texts(tmp_path / "p.svg"))
    assert not any(
        name and name.startswith(("worse", "better")) for name in groups(tmp_path / "p.svg")
    )


def test_panels_and_sections_are_drawn_with_their_titles(tmp_path):
    panels = [Panel(f"family {n}", [straight(f"kind{n}")]) for n in range(3)]
    draw(
        tmp_path / "p.svg",
        [*panels[:2], panels[2]._replace(sections=[(2500, "early"), (5000, "late")])],
        recent=False,
    )
    assert {"family 0", "family 1", "family 2", "early", "late"} <= set(texts(tmp_path / "p.svg"))
    assert not any(name and name.startswith("recent") for name in groups(tmp_path / "p.svg"))


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_drawing_is_deterministic_to_the_byte(tmp_path, suffix):
    panel = Panel("t", [straight(marks=[Mark(1000, worse=True)])], [straight("majority", 0.4)])
    paths = [tmp_path / f"{n}.{suffix}" for n in range(2)]
    for path in paths:
        draw(path, [panel])
    first, second = (path.read_bytes() for path in paths)
    assert first == second
    assert b"date" not in first.lower()


@pytest.mark.parametrize("name", ["p.png", "P.PNG"])
def test_a_png_has_its_format_and_size(tmp_path, name):
    draw(tmp_path / name, [Panel("t", [straight()])])
    written = (tmp_path / name).read_bytes()
    assert written[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", written[16:24]) == (1440, 690)


@whenever
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.08))
def test_names_are_spread_apart_within_the_panel(heights, room):
    wanted = sorted(heights)
    at = spread(wanted, room)
    # Up to twelve sums of heights, with a rounding each. No result is ever above 1.
    assert all(after - before >= room * (1 - 1e-9) for before, after in pairwise(at))
    assert at[-1] <= 1
    assert at[0] >= min(wanted[0], 1 - room * (len(at) - 1)) - 1e-9
    if all(after - before >= room for before, after in pairwise(wanted)):
        assert at == pytest.approx(wanted, abs=1e-12)


@whenever
@given(
    st.lists(st.integers(1, 30), min_size=1, max_size=60),
    st.integers(1, 100),
    st.integers(0, 2**32),
)
def test_a_recent_error_is_that_of_the_events_since_a_point(gaps, window, seed):
    """The expected error is counted from single outcomes; the curve has only its points."""
    events = np.cumsum(gaps)
    wrong = np.random.default_rng(seed).integers(2, size=events[-1])
    curve = Curve("x", events, np.cumsum(wrong)[events - 1])
    points = [0, *events.tolist()]
    for at, rate in zip(events.tolist(), recent_rates(curve, window).tolist(), strict=True):
        since = max([point for point in points if point <= at - window], default=0)
        # The counts are exact; the quotient is that of a mean.
        assert rate == pytest.approx(wrong[since:at].mean())


def test_the_window_of_recent_events_fits_the_curve():
    long, short = np.arange(200, 50_001, 200), np.arange(10, 2001, 10)
    assert choose_window([Curve("x", long, long)]) == 1000
    assert choose_window([Curve("x", short, short)]) == 100
    assert choose_window([Curve("x", long * 20, long)]) == 4000


def test_a_learner_is_named_by_its_shorthand():
    assert _name(make("pa1")) == "pa1"
    assert _name(make("pa1:C=0.1")) == "pa1:C=0.1"
    nested = {"kind": "scaled", "base": {"kind": "averaged", "mode": "vote", "base": "pa2"}}
    assert _name(make(nested)) == "scaled(averaged:mode=vote(pa2))"


@pytest.fixture
def stream(tmp_path):
    """2,000 events; after half of them the classes are swapped."""
    path = tmp_path / "d.csv"
    values = np.random.default_rng(0).normal(size=2000)
    signs = np.where(np.arange(2000) < 1000, 1, -1) * np.sign(values)
    rows = [
        f"{value},{int(sign)}" for value, sign in zip(values.tolist(), signs.tolist(), strict=True)
    ]
    path.write_text("\n".join(["x,label", *rows]) + "\n")
    return path


def test_replay_draws_every_learner_beside_the_baselines(stream, tmp_path, capsys):
    line = (
        "replay",
        stream,
        "--learner",
        "pa1",
        "--learner",
        "pa1:C=0.01",
        "--learner",
        "perceptron",
        "--json",
    )
    status, out, err = run_command(capsys, *line, "--plot", tmp_path / "p.svg")
    assert (status, err) == (0, "")
    runs = json.loads(out)["runs"]
    shown = texts(tmp_path / "p.svg")
    for name, run in zip(("pa1", "pa1:C=0.01", "perceptron"), runs, strict=True):
        assert f"{name}  {run['error_rate']:.3f}" in shown
    assert {"curve-1", "curve-2", "curve-3", "baseline-1", "baseline-2"} <= groups(
        tmp_path / "p.svg"
    ).keys()
    assert "curve-4" not in groups(tmp_path / "p.svg")
    plain = run_command(capsys, *line)[1]
    for with_plot, without in zip(runs, json.loads(plain)["runs"], strict=True):
        del with_plot["events_per_second"], without["events_per_second"]
        assert with_plot == without, "drawing must not change the results"


def test_baselines_are_counted_from_the_first_event(tmp_path, capsys):
    """Ten events of one class, then ten of the other: the errors can be counted by hand."""
    path = tmp_path / "d.csv"
    path.write_text("x,label\n" + "1,1\n" * 10 + "1,-1\n" * 10)
    assert run_command(capsys, "replay", path, "--plot", tmp_path / "p.svg")[0] == 0
    assert {"majority  0.550", "no change  0.100"} <= set(texts(tmp_path / "p.svg")), (
        "each baseline must be wrong at the first event"
    )


WRONG = {
    "no suffix": ("p", "end in .png or .svg"),
    "another suffix": ("p.pdf", "end in .png or .svg"),
    "no folder": ("none/p.png", "no such folder"),
    "a folder": ("folder.svg", "is a folder"),
    "a file as a folder": ("d.csv/p.png", "no such folder"),
}


@pytest.mark.usefixtures("stream")
@pytest.mark.parametrize("line", WRONG.values(), ids=WRONG)
def test_an_impossible_path_is_refused_before_the_work(tmp_path, capsys, line):
    name, words = line
    (tmp_path / "folder.svg").mkdir()
    before = sorted(tmp_path.rglob("*"))
    check_refused(
        run_command(capsys, "replay", tmp_path / "absent.csv", "--plot", tmp_path / name), words
    )
    assert sorted(tmp_path.rglob("*")) == before


def test_an_unwritable_folder_is_refused(stream, tmp_path, capsys, monkeypatch):
    allowed = os.access
    # Root may write everywhere.
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path and allowed(path, mode))
    check_refused(
        run_command(capsys, "replay", stream, "--plot", tmp_path / "p.png"), "cannot be written"
    )


def test_audit_refuses_to_draw(tmp_path, capsys):
    line = ("audit", "--config", tmp_path / "m.yaml", "--plot", tmp_path / "p.png")
    check_refused(run_command(capsys, *line), "unrecognized", "--plot")


def test_without_matplotlib_the_command_says_what_to_install(stream, tmp_path, capsys, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "matplotlib" else found(name, *more),
    )
    check_refused(
        run_command(capsys, "replay", stream, "--plot", tmp_path / "p.png"),
        "pip install matplotlib",
        "onepass[plot]",
    )


def test_without_a_plot_matplotlib_is_not_imported(stream):
    script = (
        "import sys; from service.__main__ import main; status = main(['replay',"
        f" {str(stream)!r}]); sys.exit(status or 'matplotlib' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", script], stdout=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )


def test_a_replay_without_events_draws_nothing_and_reports_the_rest(tmp_path, capsys):
    path = tmp_path / "d.jsonl"
    path.write_text('{"x": 1e200, "label": 1}\n{"x": 1e200, "label": -1}\n')
    status, out, err = run_command(capsys, "replay", path, "--plot", tmp_path / "p.png")
    assert status == 0
    assert "2 rejects" in out
    assert "is not written" in err
    assert not (tmp_path / "p.png").exists()


def test_the_errors_on_electricity_are_drawn(data, tmp_path, capsys):
    line = (
        "replay",
        data / "electricity.csv.gz",
        "--positive",
        "UP",
        "--scale",
        "gn",
        "--plot",
        tmp_path / "p.svg",
    )
    assert run_command(capsys, *line)[0] == 0
    assert {"majority  0.425", "no change  0.147", "scaled(pa1)  0.077"} <= set(
        texts(tmp_path / "p.svg")
    )
