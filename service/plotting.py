"""Draw error curves as PNG or SVG, for `replay --plot` and the pages in `docs/`.

A picture depends only on its data: it has no date and no random names. matplotlib is imported at
the first use. `AlarmRecorder` collects the alarms of a pass, which the model itself does not keep.
"""

import importlib.util
import io
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from learners.batch import Array, Ints
from learners.evaluation.history import whole
from learners.evaluation.quality import EVENTS, NO_CHANGE
from service.errors import SettingsError
from service.model.alarms import Alarm
from service.model.model import Model
from service.sources.base import Entry, Position

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".svg")
COLOURS = (
    *("#0b62a4", "#d1495b", "#2e8b57", "#e08e0b", "#7b4fa3"),
    *("#1c9aa8", "#8c5a3c", "#c2569b", "#8a8f2a", "#55606e"),
)
BASELINE_NAMES = ("majority", "no change")
BASELINE_COLOURS = ("#333333", "#8a8a8a")
INK, QUIET, FAINT, SECTION = "#333333", "#666666", "#e4e4e4", "#f4f6f8"
NO_METADATA = {"svg": ("Date", "Creator"), "png": ("Software",)}
"""Metadata fields that matplotlib would write and that change between runs."""
LINE = 0.18
"""Inches between two curve names."""
RECENT = 1000
"""Events in the recent window; a short pass uses a twentieth of its events."""
SIZE, SMALL = (9.6, 4.6), (4.8, 2.5)
"""Inches: size of a picture with one panel, and of each panel of several."""
STYLE: Any = {
    "svg.fonttype": "none",  # keep text as text
    "svg.hashsalt": "onepass",
    "text.parse_math": False,  # a name may contain a dollar sign
    "path.simplify_threshold": 0.4,  # pixels
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
    """An alarm of a detector."""

    event: int
    worse: bool
    """Whether the error rose; False if it fell."""
    detector: str = ""


class Curve(NamedTuple):
    """Cumulative errors along a pass, at some points."""

    name: str
    events: Ints
    errors: Ints
    """Errors among all events so far."""
    marks: Sequence[Mark] = ()


class Panel(NamedTuple):
    """The content of one pair of axes."""

    title: str
    curves: Sequence[Curve]
    baselines: Sequence[Curve] = ()
    sections: Sequence[tuple[int, str]] = ()
    """Sections of the pass: the last event and the name of each."""


class AlarmRecorder:
    """Keeps all alarms of a pass in memory; a model keeps only its newest."""

    def __init__(self) -> None:
        self.alarms: list[Alarm] = []

    def append(self, entries: Sequence[Entry]) -> list[Position]:
        self.alarms += [_parse_alarm(entry.value) for entry in entries]
        return [Position("0", str(len(self.alarms))) for _ in entries]

    def close(self) -> None: ...


def check_picture(path: Path) -> None:
    """Refuse a path that cannot be written, before the pass starts."""
    if path.suffix.lower() not in SUFFIXES:
        raise SettingsError(f"--plot {path}: the name must end in {' or '.join(SUFFIXES)}")
    if path.is_dir() or not path.parent.is_dir():
        reason = "is a folder" if path.is_dir() else "there is no such folder"
        raise SettingsError(f"--plot {path}: {reason}")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise SettingsError(f"--plot {path}: cannot be written; choose another path")
    if importlib.util.find_spec("matplotlib") is None:
        raise SettingsError(
            "--plot needs matplotlib: pip install matplotlib, or the extra onepass[plot]"
        )


def curves_of(model: Model, name: str, recorder: AlarmRecorder) -> tuple[Curve, list[Curve]]:
    """Return the model's curve, and the baselines' over the same events."""
    newest = model.monitor.quality.totals[EVENTS : NO_CHANGE + 1]
    points = whole(model.monitor.history)
    if newest[EVENTS] and (not len(points) or points[-1, EVENTS] != newest[EVENTS]):
        points = np.vstack([points, newest])
    events, errors, *baseline_errors = points.T
    error_alarms = [alarm for alarm in recorder.alarms if alarm.change != "moved"]
    marks = [Mark(alarm.event, alarm.change == "worse", alarm.detector) for alarm in error_alarms]
    return Curve(name, events, errors, marks), [
        Curve(baseline, events, counts)
        for baseline, counts in zip(BASELINE_NAMES, baseline_errors, strict=True)
    ]


def draw(path: Path, panels: Sequence[Panel], *, recent: bool = True) -> None:
    """Write the panels, two per row; with `recent`, thin lines show the recent error."""
    import matplotlib as mpl  # noqa: PLC0415  (optional, and takes half a second)
    from matplotlib.figure import Figure  # noqa: PLC0415

    logging.getLogger("matplotlib").setLevel(logging.WARNING)  # it logs its font search
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    width, height = SIZE if len(panels) == 1 else (SMALL[0] * across, SMALL[1] * down)
    with mpl.rc_context():
        mpl.rcdefaults()  # ignore the user's matplotlibrc
        mpl.rcParams.update(STYLE)
        figure = Figure(figsize=(width, height), facecolor="white", layout="constrained")
        all_axes = figure.subplots(down, across, squeeze=False).flatten().tolist()
        for axes, panel in zip(all_axes, panels, strict=False):
            _draw_panel(axes, panel, recent=recent)
        for axes in all_axes[len(panels) :]:
            axes.set_axis_off()
        if len(panels) > 1:
            figure.set_layout_engine("constrained", h_pad=0.1, w_pad=0.1)
        written = io.BytesIO()
        form = path.suffix.lower().removeprefix(".")
        figure.savefig(written, format=form, dpi=150, metadata=dict.fromkeys(NO_METADATA[form]))
    path.write_bytes(written.getvalue())


def error_rates(curve: Curve) -> Array:
    """Return the error rate over all events so far, at each point."""
    return np.asarray(curve.errors / np.maximum(1, curve.events), np.float64)


def recent_rates(curve: Curve, window: int) -> Array:
    """Return the error rate since the last point at least `window` events back, or the start."""
    events, errors = np.append(0, curve.events), np.append(0, curve.errors)
    back = np.maximum(0, np.searchsorted(events, events[1:] - window, side="right") - 1)
    rates = (errors[1:] - errors[back]) / np.maximum(1, events[1:] - events[back])
    return np.asarray(rates, np.float64)


def choose_window(curves: Sequence[Curve]) -> int:
    """Return the events of the recent window: RECENT if the pass is long and has close points."""
    longest = max(int(curve.events[-1]) for curve in curves)
    widest = max(int(np.diff(curve.events, prepend=0).max()) for curve in curves)
    return max(1, min(RECENT, longest // 20), widest)


def spread(wanted: Sequence[float], room: float) -> list[float]:
    """Move ascending heights at least `room` apart: first up, then down again below 1."""
    heights: list[float] = []
    for height in wanted:
        heights.append(max(height, heights[-1] + room) if heights else height)
    top = 1.0
    for index in reversed(range(len(heights))):
        heights[index] = min(heights[index], top)
        top = heights[index] - room
    return heights


def _draw_panel(axes: "Axes", panel: Panel, *, recent: bool) -> None:
    window = choose_window(panel.curves)
    labels: list[tuple[float, str, str]] = []
    style: dict[str, Any]
    highest = 0.05
    for number, curve in enumerate(panel.curves):
        colour = COLOURS[number % len(COLOURS)]
        rates = error_rates(curve)
        style = {"color": colour, "linewidth": 1.9, "zorder": 3}
        axes.plot(curve.events, rates, gid=f"curve-{number + 1}", **style)
        if recent:
            late = recent_rates(curve, window)
            style = {"color": colour, "linewidth": 0.8, "alpha": 0.55}
            axes.plot(curve.events, late, gid=f"recent-{number + 1}", **style)
            highest = max(highest, _highest_rate(curve, late))
        labels.append((float(rates[-1]), f"{curve.name}  {rates[-1]:.3f}", colour))
        highest = max(highest, _highest_rate(curve, rates))
        _draw_marks(axes, curve.marks, number, len(panel.curves), colour)
    for number, curve in enumerate(panel.baselines):
        colour = BASELINE_COLOURS[number % len(BASELINE_COLOURS)]
        rates = error_rates(curve)
        style = {"color": colour, "linewidth": 1.3, "linestyle": (0, (5, 3))}
        axes.plot(curve.events, rates, gid=f"baseline-{number + 1}", **style)
        labels.append((float(rates[-1]), f"{curve.name}  {rates[-1]:.3f}", colour))
        highest = max(highest, _highest_rate(curve, rates))
    _draw_frame(axes, panel, highest * 1.06, window if recent else None)
    _name_curves(axes, labels, highest * 1.06)


def _highest_rate(curve: Curve, rates: Array) -> float:
    """Return the highest rate after the first twentieth, where few events make large rates."""
    later = rates[curve.events >= curve.events[-1] / 20]
    return float(later.max())


def _draw_marks(axes: "Axes", marks: Sequence[Mark], number: int, curves: int, colour: str) -> None:
    """Draw alarms as vertical lines; with several curves, each curve has a lane at the bottom."""
    low, high = 0.0, 1.0
    if curves > 1:
        low = 0.045 * (curves - 1 - number)
        high = 0.045 * (curves - number) - 0.008
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


def _draw_frame(axes: "Axes", panel: Panel, top: float, window: int | None) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator  # noqa: PLC0415

    axes.set_xlim(0, max(int(curve.events[-1]) for curve in panel.curves))
    axes.set_ylim(0, top)
    axes.grid(axis="y", color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at:,.0f}"))
    axes.tick_params(length=3)
    pad = 18 if panel.sections else 8
    axes.set_title(panel.title, loc="left", fontweight="bold", fontsize=11, pad=pad)
    start, across = 0, axes.get_xaxis_transform()
    for number, (end, name) in enumerate(panel.sections):
        if number % 2:
            axes.axvspan(start, end, color=SECTION, linewidth=0, zorder=0)
        style: Any = {"ha": "center", "va": "bottom", "fontsize": 8, "color": QUIET}
        axes.text((start + end) / 2, 1.015, name, transform=across, **style)
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


def _name_curves(axes: "Axes", labels: Sequence[tuple[float, str, str]], top: float) -> None:
    """Write the name of each curve at its right end."""
    inches = axes.get_window_extent().height / axes.figure.dpi  # before the layout, close enough
    ordered = sorted(labels)
    heights = spread([value / top for value, _, _ in ordered], LINE / inches)
    for (_, text, colour), at in zip(ordered, heights, strict=True):
        style: Any = {"va": "center", "color": colour}
        axes.annotate(text, (1, at), (6, 0), "axes fraction", "offset points", **style)


def _parse_alarm(value: bytes) -> Alarm:
    fields = msgspec.json.decode(value)
    del fields["model"]
    return msgspec.convert(fields, Alarm)
