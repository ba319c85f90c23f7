"""Curves of errors as a picture, PNG or SVG: the one way to draw, for `replay --plot` and the pages in `docs/`.

A picture depends on what is drawn alone: no date, no random names. matplotlib is imported when something is drawn.
"""

import importlib.util
import io
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from learners.batch import Array, Ints
from service.errors import BadSettings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")
COLOURS = ("#0b62a4", "#d1495b", "#2e8b57", "#e08e0b", "#7b4fa3", "#1c9aa8", "#8c5a3c", "#c2569b", "#8a8f2a", "#55606e")
BASELINES = ("#333333", "#8a8a8a")
INK, QUIET, FAINT, SECTION = "#333333", "#666666", "#e4e4e4", "#f4f6f8"
UNSAID = {"svg": ("Date", "Creator"), "png": ("Software",)}
LINE = 0.18
"""Inches from a name to the next."""
RECENT = 1000
"""How many events "recent" is; of a short pass a twentieth."""
SIZE, SMALL = (9.6, 4.6), (4.8, 2.5)
"""Inches of a picture with one panel, and of each of several."""
STYLE: Any = {
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "onepass",
    "text.parse_math": False,  # a name may hold a dollar
    "path.simplify_threshold": 0.4,  # of a pixel
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.edgecolor": "#999999",
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
}


class Mark(NamedTuple):
    """A detector's alarm."""

    event: int
    worse: bool
    """False: the error fell."""
    detector: str = ""


class Curve(NamedTuple):
    """Errors along a pass; both ascend, and what lies between two points is not known."""

    name: str
    events: Ints
    errors: Ints
    """Of all events so far."""
    marks: Sequence[Mark] = ()


class Panel(NamedTuple):
    """One pair of axes."""

    title: str
    curves: Sequence[Curve]
    baselines: Sequence[Curve] = ()
    sections: Sequence[tuple[int, str]] = ()
    """Parts of the pass: the last event of each, and its name."""


def check_picture(path: Path) -> None:
    """Refuse what could not be written, before there is work to lose."""
    if path.suffix.lower() not in SUFFIXES:
        raise BadSettings(f"--plot {path}: the name must end in {' or '.join(SUFFIXES)}")
    if path.is_dir() or not path.parent.is_dir():
        raise BadSettings(f"--plot {path}: {'is a folder' if path.is_dir() else 'there is no such folder'}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadSettings(f"--plot {path}: cannot be written; give a place that can")
    if importlib.util.find_spec("matplotlib") is None:
        raise BadSettings("--plot needs matplotlib: pip install matplotlib, or the extra onepass[plot]")


def draw(path: Path, panels: Sequence[Panel], *, recent: bool = True) -> None:
    """Write the panels, two in a row if there are several; with `recent`, thin lines of the last events' error."""
    import matplotlib as mpl  # noqa: PLC0415  (half a second, and optional)
    from matplotlib.figure import Figure  # noqa: PLC0415

    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it tells of its fonts
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    width, height = SIZE if len(panels) == 1 else (SMALL[0] * across, SMALL[1] * down)
    with mpl.rc_context():
        mpl.rcdefaults()  # not what a user's own file says
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
        places = figure.subplots(down, across, squeeze=False).flatten().tolist()
        for place, panel in zip(places, panels, strict=False):
            _panel(place, panel, recent=recent)
        for place in places[len(panels) :]:
            place.set_axis_off()
        if len(panels) > 1:
            figure.set_layout_engine("constrained", h_pad=0.1, w_pad=0.1)
        written = io.BytesIO()
        form = path.suffix.lower().removeprefix(".")
        figure.savefig(written, format=form, dpi=150, metadata=dict.fromkeys(UNSAID[form]))
    path.write_bytes(written.getvalue())


def error_rates(curve: Curve) -> Array:
    """Of all events so far."""
    return np.asarray(curve.errors / np.maximum(1, curve.events), np.float64)


def recent_rates(curve: Curve, window: int) -> Array:
    """Error since the last point that lies at least `window` events back, or since the beginning."""
    events, errors = np.append(0, curve.events), np.append(0, curve.errors)
    back = np.maximum(0, np.searchsorted(events, events[1:] - window, side="right") - 1)
    return np.asarray((errors[1:] - errors[back]) / np.maximum(1, events[1:] - events[back]), np.float64)


def window_of(curves: Sequence[Curve]) -> int:
    """How many events a recent error is of: RECENT if the pass is long and its points lie close enough."""
    longest = max(int(curve.events[-1]) for curve in curves)
    widest = max(int(np.diff(curve.events, prepend=0).max()) for curve in curves)
    return max(1, min(RECENT, longest // 20), widest)


def _panel(axes: "Axes", panel: Panel, *, recent: bool) -> None:
    window = window_of(panel.curves)
    labels: list[tuple[float, str, str]] = []
    highest = 0.05
    for number, curve in enumerate(panel.curves):
        colour = COLOURS[number % len(COLOURS)]
        rates = error_rates(curve)
        axes.plot(curve.events, rates, color=colour, linewidth=1.9, zorder=3, gid=f"curve-{number + 1}")
        if recent:
            late = recent_rates(curve, window)
            axes.plot(curve.events, late, color=colour, linewidth=0.8, alpha=0.55, gid=f"recent-{number + 1}")
            highest = max(highest, _top(curve, late))
        labels.append((float(rates[-1]), f"{curve.name}  {rates[-1]:.3f}", colour))
        highest = max(highest, _top(curve, rates))
        _marks(axes, curve.marks, number, len(panel.curves), colour)
    for number, curve in enumerate(panel.baselines):
        colour, rates = BASELINES[number % len(BASELINES)], error_rates(curve)
        axes.plot(curve.events, rates, color=colour, linewidth=1.3, linestyle=(0, (5, 3)), gid=f"baseline-{number + 1}")
        labels.append((float(rates[-1]), f"{curve.name}  {rates[-1]:.3f}", colour))
        highest = max(highest, _top(curve, rates))
    _frame(axes, panel, highest * 1.06, window if recent else None)
    _name(axes, labels, highest * 1.06)


def _top(curve: Curve, rates: Array) -> float:
    """The highest of a line, its first twentieth left out: a first event can be all wrong."""
    settled = rates[curve.events >= curve.events[-1] / 20]
    return float(settled.max())


def _marks(axes: "Axes", marks: Sequence[Mark], number: int, curves: int, colour: str) -> None:
    """Alarms as lines across the panel; of several curves, each in a lane of its own at the bottom."""
    low, high = (0.0, 1.0) if curves == 1 else (0.045 * (curves - 1 - number), 0.045 * (curves - number) - 0.008)
    for worse in (True, False):
        if events := [mark.event for mark in marks if mark.worse == worse]:
            axes.vlines(
                events,
                low,
                high,
                colors=colour,
                linewidth=1.5 if curves > 1 else 0.9,
                linestyles="solid" if worse else "dotted",
                transform=axes.get_xaxis_transform(),
                gid=f"{'worse' if worse else 'better'}-{number + 1}",
            )


def _frame(axes: "Axes", panel: Panel, top: float, window: int | None) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415

    axes.set_xlim(0, max(int(curve.events[-1]) for curve in panel.curves))
    axes.set_ylim(0, top)
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:,.0f}"))
    axes.tick_params(length=3)
    axes.set_title(panel.title, loc="left", fontweight="bold", fontsize=11, pad=18 if panel.sections else 8)
    start, across = 0, axes.get_xaxis_transform()
    for number, (end, name) in enumerate(panel.sections):
        if number % 2:
            axes.axvspan(start, end, color=SECTION, linewidth=0, zorder=0)
        axes.text((start + end) / 2, 1.015, name, transform=across, ha="center", va="bottom", fontsize=8, color=QUIET)
        start = end
    if window is None:
        return
    axes.set_ylabel("error")
    words = f"events;  thick: error of all so far, thin: of the last {window:,}"
    marks = [mark for curve in panel.curves for mark in curve.marks]
    if marks:
        whose = " or ".join(sorted({mark.detector for mark in marks if mark.detector}))
        words += f", upright: drift alarm{whose and f' of {whose}'}, dotted where the error fell"
    axes.set_xlabel(words, color=QUIET, fontsize=8.5)


def _name(axes: "Axes", labels: Sequence[tuple[float, str, str]], top: float) -> None:
    """Each line's name at its right end."""
    inches = axes.get_window_extent().height / axes.figure.dpi  # before the layout; near enough
    ordered = sorted(labels)
    heights = spread([value / top for value, _, _ in ordered], LINE / inches)
    for (_, text, colour), at in zip(ordered, heights, strict=True):
        axes.annotate(text, (1, at), (6, 0), "axes fraction", "offset points", va="center", color=colour)


def spread(wanted: Sequence[float], room: float) -> list[float]:
    """Ascending heights moved apart to `room` at least: up, and where that ends over 1, down again."""
    at: list[float] = []
    for height in wanted:
        at.append(max(height, at[-1] + room) if at else height)
    top = 1.0
    for place in reversed(range(len(at))):
        at[place] = min(at[place], top)
        top = at[place] - room
    return at
