"""Draw the panels of a Grafana dashboard as a web page, from its layout, queries, units and colours
and from what Prometheus answers. Grafana itself is not needed.
"""

import math
from html import escape
from typing import NamedTuple

from tests.integration.scraped_demo import fill_variables

COLUMNS, CELL_WIDTH, CELL_HEIGHT = 24, 46, 30
"""Columns of Grafana's grid; width and height of a cell in pixels."""
PALETTE = ("#73bf69", "#f2cc0c", "#8ab8ff", "#ff780a", "#f2495c", "#5794f2", "#b877d9", "#fade2a")
COLOURS = {
    "green": "#73bf69",
    "yellow": "#f2cc0c",
    "orange": "#ff9830",
    "red": "#f2495c",
    "blue": "#5794f2",
    "purple": "#b877d9",
    "text": "#ccccdc",
}
STYLE = """
body{margin:0;padding:12px;background:#111217;color:#ccccdc;font:13px system-ui,sans-serif}
.board{position:relative}.panel{position:absolute;box-sizing:border-box;background:#181b1f;
border:1px solid #2c3235;border-radius:3px;padding:6px 9px;overflow:hidden}
h2{font-size:13px;font-weight:500;margin:0 0 4px}.stat{font-size:26px;text-align:center;
padding:18px 4px;border-radius:3px}svg{width:100%;display:block}.key{margin-right:14px}
.bar{height:16px;border-radius:2px}td,th{text-align:left;padding:2px 10px 2px 0;font-weight:400}
"""


class Series(NamedTuple):
    """One line of a panel."""

    name: str
    ref: str
    points: list[tuple[float, float]]
    labels: dict[str, str]

    @property
    def last(self):
        return self.points[-1][1]


def ask(target, prometheus, demo, span):
    """Yield the series of one query, at the end of the span or over all of it."""
    start, end = span
    expr = fill_variables(target["expr"], demo)
    if target["instant"]:
        found = prometheus.ask("query", query=expr, time=end)["result"]
    else:
        step = max(1.0, (end - start) / 240)
        found = prometheus.ask("query_range", query=expr, start=start, end=end, step=step)["result"]
    for one in found:
        points = [(at, float(value)) for at, value in one.get("values") or [one["value"]]]
        points = [point for point in points if math.isfinite(point[1])]
        if points:
            name = target["legendFormat"]
            for label, value in one["metric"].items():
                name = name.replace(f"{{{{{label}}}}}", value)
            yield Series(name, target["refId"], points, one["metric"])


def draw_board(board, prometheus, demo, span, most_rows=1000):
    """Return the HTML of a dashboard, without the panels that begin below `most_rows`."""
    panels = [panel for panel in board["panels"] if panel["gridPos"]["y"] < most_rows]
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in panels)
    drawn = "".join(_panel(panel, prometheus, demo, span) for panel in panels)
    size = f"width:{COLUMNS * CELL_WIDTH}px;height:{bottom * CELL_HEIGHT}px"
    return f'<style>{STYLE}</style><div class="board" style="{size}">{drawn}</div>'


def _panel(panel, prometheus, demo, span):
    place = panel["gridPos"]
    series = [one for target in panel["targets"] for one in ask(target, prometheus, demo, span)]
    draw = {"stat": _stat, "bargauge": _bars, "timeseries": _lines, "table": _table}[panel["type"]]
    empty = f'<p class="empty">{_defaults(panel)["noValue"]}</p>'
    body = draw(panel, series, span) if series else empty
    box = (
        f"left:{place['x'] * CELL_WIDTH}px;top:{place['y'] * CELL_HEIGHT}px;"
        f"width:{place['w'] * CELL_WIDTH - 6}px;height:{place['h'] * CELL_HEIGHT - 6}px"
    )
    return f'<div class="panel" style="{box}"><h2>{escape(panel["title"])}</h2>{body}</div>'


def _defaults(panel):
    return {"noValue": "No data", "unit": "none"} | panel["fieldConfig"]["defaults"]


def _stat(panel, series, _):
    value, filled = series[0].last, panel["options"]["colorMode"] == "background"
    style = "background" if filled else "color"
    colour = _threshold(panel, value)
    dark = ";color:#111217" if filled else ""
    return f'<div class="stat" style="{style}:{colour}{dark}">{_text(panel, value)}</div>'


def _bars(panel, series, _):
    most = max(one.last for one in series) or 1.0
    rows = ""
    for one in sorted(series, key=lambda one: -one.last):
        bar = f"width:{100 * one.last / most:.0f}%;background:{_threshold(panel, one.last)}"
        rows += f"<div>{escape(one.name)} {_text(panel, one.last)}</div>"
        rows += f'<div class="bar" style="{bar}"></div>'
    return rows


def _table(panel, series, _):
    names = {target["refId"] for target in panel["targets"]}
    rows = {}
    for one in series:
        key = tuple(sorted(one.labels.items()))
        rows.setdefault(key, {})[one.ref] = _text(panel, one.last)
    body = "".join(
        f"<tr><td>{escape(' '.join(value for _, value in key))}</td>"
        + "".join(f"<td>{cells.get(name, '')}</td>" for name in sorted(names))
        + "</tr>"
        for key, cells in rows.items()
    )
    return f"<table>{body}</table>"


def _lines(panel, series, span):
    place = panel["gridPos"]
    width, height = place["w"] * CELL_WIDTH - 26, place["h"] * CELL_HEIGHT - 78
    values = [value for one in series for _, value in one.points]
    low = min(_defaults(panel).get("min", min(values)), *values)
    high = max(*values, low + 1e-9)
    drawn, keys = "", ""
    for number, one in enumerate(series):
        colour, dashed = _style(panel, one, number)
        points = " ".join(
            f"{(at - span[0]) / (span[1] - span[0]) * width:.1f},"
            f"{height - (value - low) / (high - low) * height:.1f}"
            for at, value in one.points
        )
        dash = ' stroke-dasharray="6 4"' if dashed else ""
        drawn += f'<polyline points="{points}" fill="none" stroke="{colour}"{dash}/>'
        keys += f'<span class="key" style="color:{colour}">{escape(one.name)}</span>'
    scale = f"{_text(panel, high)} at most, {_text(panel, low)} at least"
    view = f'viewBox="0 0 {width} {height}" height="{height}"'
    return f"<svg {view}>{drawn}</svg><div>{keys}</div><small>{scale}</small>"


def _style(panel, one, number):
    """Return the colour of a series, and whether its line is dashed."""
    colour, dashed = PALETTE[number % len(PALETTE)], False
    for override in panel["fieldConfig"]["overrides"]:
        if override["matcher"] == {"id": "byFrameRefID", "options": one.ref}:
            for change in override["properties"]:
                if change["id"] == "color":
                    colour = COLOURS.get(change["value"]["fixedColor"], colour)
                dashed = dashed or change["id"] == "custom.lineStyle"
    return colour, dashed


def _threshold(panel, value):
    steps = _defaults(panel).get("thresholds", {}).get("steps", [])
    for mapping in _defaults(panel).get("mappings", []):
        if found := mapping["options"].get(f"{value:g}"):
            return COLOURS[found["color"]]
    reached = [step for step in steps if step["value"] is None or value >= step["value"]]
    return COLOURS[reached[-1]["color"]] if reached else PALETTE[0]


def _text(panel, value):
    """Return the value in its panel's unit, or the text that the panel maps it to."""
    given = _defaults(panel)
    for mapping in given.get("mappings", []):
        if found := mapping["options"].get(f"{value:g}"):
            return escape(found["text"])
    if given["unit"] == "percentunit":
        return f"{100 * value:.{given.get('decimals', 1)}f}%"
    if given["unit"].startswith("suffix:"):
        return f"{value:.0f} {escape(given['unit'].removeprefix('suffix:'))}"
    if given["unit"] == "s":
        return f"{value:.3g} s"
    return f"{value:,.{given['decimals']}f}" if "decimals" in given else f"{value:,.4g}"
