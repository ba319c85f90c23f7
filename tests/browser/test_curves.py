"""The page's curves: the differences of counts, and a picture for every history."""

import math
import random

import pytest

from tests.looped import looped


def history(points):
    names = ("events", "errors", "majority", "no_change")
    return {name: [point[n] for point in points] for n, name in enumerate(names)}


def life(seed, points, step, first=0):
    draws = random.Random(seed)
    counts = [first, first // 10, first // 3, first // 2]
    told = []
    for _ in range(points):
        counts = [counts[0] + step, *(count + draws.randrange(step + 1) for count in counts[1:])]
        told.append(tuple(counts))
    return told


def since(points, n, column):
    """Return the error over the last 1,000 events before point n, or since the point before it;
    None where that is not known.
    """
    step = points[1][0] - points[0][0] if len(points) > 1 else 0
    known = ([(0, 0, 0, 0)] if points[0][0] <= max(1000, step) else []) + points[:n]
    old = [point for point in known if points[n][0] - point[0] >= 1000] or [
        p for p in known[:1] if p[0] == 0
    ]
    return (points[n][column] - old[-1][column]) / (points[n][0] - old[-1][0]) if old else None


@looped(
    "points",
    [
        life(1, 1, 200),
        life(2, 3, 200),
        life(3, 40, 200),
        life(4, 256, 200, 80_000),
        life(5, 200, 6400),
        life(6, 9, 333),
    ],
    ids=["one", "few", "begin", "long since", "thinned", "odd"],
)
def test_each_point_is_the_error_of_the_events_before_it(shell, points):
    curves = shell.evaluate("curvesOf", history(points))
    assert curves["events"][-1] == points[-1][0]
    shown = points[len(points) - len(curves["events"]) :]
    assert len(points) - len(shown) <= 1, (
        "only the first point of a life that began before may have no difference"
    )
    for n, point in enumerate(shown):
        assert curves["cumulative"][n] == pytest.approx(point[1] / point[0])
        for column, name in enumerate(("recent", "majority", "no_change"), 1):
            expected = since(points, points.index(point), column)
            if expected is None:
                assert math.isnan(curves[name][n])
            else:
                assert curves[name][n] == pytest.approx(expected)


DRAW = """([points, alarms, width]) => {
  const { picture } = chart(curvesOf(points), alarms, width, null);
  return picture.outerHTML;
}"""


@looped("width", [280, 760, 1100])
@looped(
    "points", [life(1, 1, 200), life(2, 2, 200), life(3, 256, 200, 10**9)], ids=["1", "2", "256"]
)
def test_the_picture_has_no_nan_and_no_infinity(shell, points, width):
    alarms = [
        {
            "event": points[-1][0] - 100,
            "change": change,
            "series": "<b>",
            "detector": "adwin",
            "size": 0.2,
        }
        for change in ("worse", "better", "moved")
    ]
    picture = shell.evaluate(DRAW, [history(points), alarms, width])
    assert "NaN" not in picture
    assert "Infinity" not in picture
    assert "undefined" not in picture
    assert "<b>" not in picture
    assert picture.count('class="drift') == 3


def test_alarms_outside_the_shown_range_are_left_out(shell):
    alarms = [{"event": 5, "change": "worse", "series": "error", "detector": "adwin", "size": 0.2}]
    picture = shell.evaluate(DRAW, [history(life(4, 256, 200, 80_000)), alarms, 700])
    assert 'class="drift' not in picture


@looped("told", [None, {}, history([])], ids=["none", "empty", "no points"])
def test_without_points_there_are_no_curves(shell, told):
    assert shell.evaluate("curvesOf", told)["events"] == []


NAMED = """([points]) => {
  const curves = curvesOf(points);
  const named = (place) => [...place.querySelectorAll("[title]")].filter((one) => one.title)
    .map((one) => [one.textContent.trim(), one.title]);
  const list = make("ul", "", ...legend(curves, null));
  return [named(list), named(pointsTable(curves)), \
chart(curves, [], 700, null).picture.getAttribute("aria-label")];
}"""


def test_legend_table_and_label_name_and_explain_the_baselines(shell):
    legend, heads, label = shell.evaluate(NAMED, [history(life(3, 40, 200))])
    meaning = {
        "majority": "always the most frequent label so far",
        "no change": "the last label again",
    }
    assert dict(legend) == dict(heads) == meaning
    assert all(f"{name} ({words})" in label for name, words in meaning.items())
