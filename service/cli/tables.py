"""The same in words and tables, for people."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from service.checkpoints import Freeze

HEADINGS = ("generation", "age", "events", "error rate", "size", "parts", "origin", "state")
SHORT = 12
"""Digits of a digest that are shown in a table."""
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def age(seconds: float) -> str:
    for size, unit in UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def frozen(freeze: Freeze) -> str:
    ago = age(max(0.0, time.time() - freeze.since))
    return f"frozen since {moment(freeze.since)} ({ago} ago) at generation {freeze.generation}"


def counted(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns as wide as they need to be, numbers and all to the right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return ["  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True)) for row in (headings, *rows)]


def list_of(generations: Sequence[dict[str, Any]]) -> str:
    if not generations:
        return "no checkpoint yet"
    lines = table(HEADINGS, [_row(entry) for entry in generations if "broken" not in entry])
    return "\n".join(lines + [f"broken: {entry['broken']}" for entry in generations if "broken" in entry])


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    deltas = entry["parts"] - 1
    return (
        f"{entry['generation']:,}",
        age(entry["age_seconds"]),
        f"{entry['events']:,}",
        f"{entry['error_rate']:.4f}",
        size(entry["size"]),
        "base" if deltas <= 0 else f"base+{deltas}",
        entry["origin"],
        entry["state_digest"][:SHORT] if entry["state_digest"] else "-",
    )


def page(entry: dict[str, Any]) -> str:
    """One generation."""
    lineage = entry["lineage"]
    lines = [
        f"generation {entry['generation']:,}, {entry['origin']}",
        f"created    {moment(entry['created'])}, {age(entry['age_seconds'])} ago",
        f"events     {entry['events']:,}, {entry['errors']:,} errors ({entry['error_rate']:.4f})",
        f"state      {entry['state_digest']}",
        *(f"{part:10} {json.dumps(made_with)}" for part, made_with in entry["model"].items()),
        f"classes    {', '.join(entry['classes']) or '-'}",
        *(f"position   {partition}: {spelled(at)}" for partition, at in sorted(entry["positions"].items())),
        *(f"mark       {_mark(partition, mark)}" for partition, mark in sorted(entry["marks"].items())),
        f"rejects    {', '.join(f'{reason} {count:,}' for reason, count in entry['rejects'].items()) or '-'}",
        *(f"lost       {_lost(lost)}" for lost in entry["lost"]),
        f"history    {run_of(lineage)}, checksum {lineage['checksum']}",
        f"           {counted(lineage['sealed_segments'], 'sealed segment')} (older history, written once)",
        f"           rolled back {counted(lineage['rolled_back'], 'time')}",
        f"           frozen {counted(lineage['frozen'], 'time')}",
    ]
    if entry["frozen"]:
        lines.insert(1, f"now        {frozen(Freeze(**entry['frozen']))}: nothing is learned until unfreeze")
    if lineage["broken"]:
        lines.append(f"broken     {lineage['broken']}: only the newest entries are told")
    rows = [
        (array["name"], "x".join(map(str, array["shape"])) or "1", array["dtype"], size(array["bytes"]))
        for array in entry["arrays"]
    ]
    return "\n".join([*lines, *table(("array", "shape", "type", "size"), rows)])


def run_of(told: dict[str, Any]) -> str:
    return f"{counted(told['records'], 'record')} in {counted(told['runs'], 'run')}"


def _mark(partition: str, mark: str) -> str:
    return f"{partition}: {mark} (the record before the position)" if partition else f"log: {mark} (which log it is)"


def _lost(lost: dict[str, Any]) -> str:
    many = counted(lost["events"], "event") if lost["events"] else "events nobody can count"
    way = f"partition {lost['partition']} from {spelled(lost['start'])} to {spelled(lost['end'])}"
    return f"{way}: {many} ({lost['reason']})"


def changes(found: dict[str, Any]) -> str:
    """From one generation to another."""
    rate = "-" if found["error_rate"] is None else f"{found['error_rate']:.4f}"
    lines = [
        f"from generation {found['from']:,} to {found['to']:,}",
        f"events     {found['events']:+,}, errors {found['errors']:+,}, error rate between them {rate}",
        *(f"position   {_way(moved)}" for moved in found["positions"]),
        *(f"setting    {path}: {before} -> {after}" for path, (before, after) in found["settings"].items()),
        *(f"stored     {_rows(one)}" for one in found["stored"] if one["from"] != one["to"]),
        *(f"class      {name} is new" for name in found["classes_added"]),
        *(f"rejects    {reason} {count:+,}" for reason, count in found["rejects"].items() if count),
    ]
    still = [array["name"] for array in found["arrays"] if array.get("changed") == 0]
    for array in found["arrays"]:
        if array["name"] in still:
            continue
        lines += _moved(array) if "norm" in array else [f"array      {array['name']}: {array['from']} -> {array['to']}"]
    return "\n".join(lines + ([f"unchanged  {', '.join(still)}"] if still else []))


def _moved(array: dict[str, Any]) -> list[str]:
    """An array with a number per slot and its largest changes, a line each; any other in one line.

    Of a long array that has no names for its places, such as stored rows, single changes say nothing.
    """
    told = [f"{_place(one, array)}{_short(one['from'])} -> {_short(one['to'])}" for one in array["largest"]]
    places = f"{array['changed']:,} of {array['slots']:,} {'slots' if array['per_slot'] else 'places'} changed"
    head = f"array      {array['name']}: |change| {_short(array['norm'])}, {places}"
    if not array["per_slot"] and array["changed"] > len(told):
        return [head]
    if not array["per_slot"]:
        return [f"number     {array['name']}: {', '.join(told)}"]
    return [head, *(f"             {line}" for line in told)]


def _rows(one: dict[str, Any]) -> str:
    label = "" if one["label"] is None else f" of {one['label']}"
    return f"rows{label}: {one['from']:,} -> {one['to']:,}"


def _short(number: float | str) -> str:
    return number if isinstance(number, str) else f"{number:,}" if isinstance(number, int) else f"{number:.6g}"


def _way(moved: dict[str, Any]) -> str:
    far = "" if moved["moved"] is None else f" ({moved['moved']:+,})"
    return f"{moved['partition']}: {spelled(moved['from'])} -> {spelled(moved['to'])}{far}"


def _place(change: dict[str, Any], array: dict[str, Any]) -> str:
    what = "slot" if array["per_slot"] else "place"
    slot = f"{change['name']} (slot {change['slot']:,})" if "name" in change else f"{what} {change['slot']:,}"
    parts = [slot] * (array["slots"] > 1) + [f"row {change['row']:,}"] * (change["row"] > 0)
    return " of ".join(parts) + ": " if parts else ""


def spelled(position: str | None) -> str:
    if not position:
        return "its beginning"
    return f"{int(position):,}" if position.isdecimal() else position
