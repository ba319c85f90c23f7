"""Format what `onepass checkpoints` and `onepass audit` print without `--json`."""

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from service.checkpoint.store import Freeze

HEADINGS = ("generation", "age", "events", "error rate", "size", "parts", "origin", "state")
SHORT = 12
"""Characters of a digest to show in a table."""
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))


def format_list(generations: Sequence[dict[str, Any]]) -> str:
    if not generations:
        return "no checkpoint yet"
    lines = table(HEADINGS, [_format_row(entry) for entry in generations if "broken" not in entry])
    return "\n".join(
        lines + [f"broken: {entry['broken']}" for entry in generations if "broken" in entry]
    )


def format_generation(entry: dict[str, Any]) -> str:
    """Describe one generation, a line per fact."""
    lineage = entry["lineage"]
    rejects = ", ".join(f"{reason} {count:,}" for reason, count in entry["rejects"].items())
    segments = count_words(lineage["sealed_segments"], "sealed segment")
    lines = [
        f"generation {entry['generation']:,}, {entry['origin']}",
        f"created    {format_time(entry['created'])}, {format_age(entry['age_seconds'])} ago",
        f"events     {entry['events']:,}, {entry['errors']:,} errors ({entry['error_rate']:.4f})",
        f"state      {entry['state_digest']}",
        *(f"{part:10} {json.dumps(spec)}" for part, spec in entry["model"].items()),
        f"classes    {', '.join(entry['classes']) or '-'}",
        *(
            f"position   {partition}: {format_position(at)}"
            for partition, at in sorted(entry["positions"].items())
        ),
        *(
            f"mark       {_format_mark(partition, mark)}"
            for partition, mark in sorted(entry["marks"].items())
        ),
        f"rejects    {rejects or '-'}",
        *(f"lost       {_format_lost(lost)}" for lost in entry["lost"]),
        f"history    {count_records(lineage)}, checksum {lineage['checksum']}",
        f"           {segments} (older history, written once)",
        f"           rolled back {count_words(lineage['rolled_back'], 'time')}",
        f"           frozen {count_words(lineage['frozen'], 'time')}",
    ]
    if entry["frozen"]:
        freeze = format_freeze(Freeze(**entry["frozen"]))
        lines.insert(1, f"now        {freeze}: nothing is learned until unfreeze")
    if lineage["broken"]:
        lines.append(f"broken     {lineage['broken']}: only the newest entries are shown")
    rows = list(map(_format_array_row, entry["arrays"]))
    return "\n".join([*lines, *table(("array", "shape", "type", "size"), rows)])


def format_difference(difference: dict[str, Any]) -> str:
    """Describe what changed from one generation to another, a line per fact."""
    rate = "-" if difference["error_rate"] is None else f"{difference['error_rate']:.4f}"
    errors = f"errors {difference['errors']:+,}, error rate {rate}"
    lines = [
        f"from generation {difference['from']:,} to {difference['to']:,}",
        f"events     {difference['events']:+,}, {errors}",
        *(f"position   {_format_move(moved)}" for moved in difference["positions"]),
        *(
            f"setting    {path}: {before} -> {after}"
            for path, (before, after) in difference["settings"].items()
        ),
        *(
            f"stored     {_format_support(one)}"
            for one in difference["stored"]
            if one["from"] != one["to"]
        ),
        *(f"class      {name} is new" for name in difference["classes_added"]),
        *(
            f"rejects    {reason} {count:+,}"
            for reason, count in difference["rejects"].items()
            if count
        ),
    ]
    unchanged = [array["name"] for array in difference["arrays"] if array.get("changed") == 0]
    for array in difference["arrays"]:
        if array["name"] in unchanged:
            continue
        if "norm" in array:
            lines += _format_array(array)
        else:
            lines.append(f"array      {array['name']}: {array['from']} -> {array['to']}")
    return "\n".join(lines + ([f"unchanged  {', '.join(unchanged)}"] if unchanged else []))


def format_freeze(freeze: Freeze) -> str:
    ago = format_age(max(0.0, time.time() - freeze.since))
    return f"frozen since {format_time(freeze.since)} ({ago} ago) at generation {freeze.generation}"


def format_age(seconds: float) -> str:
    for size, unit in UNITS:
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"


def format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def format_size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:,.0f} {unit}" if unit == "B" else f"{count:,.1f} {unit}"
        count /= 1000
    return f"{count:,.1f} GB"


def format_position(position: str | None) -> str:
    if not position:
        return "the beginning"
    return f"{int(position):,}" if position.isdecimal() else position


def count_records(lineage: dict[str, Any]) -> str:
    return f"{count_words(lineage['records'], 'record')} in {count_words(lineage['runs'], 'run')}"


def count_words(number: int, word: str) -> str:
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Format a table with right-aligned columns, each as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return [
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in (headings, *rows)
    ]


def _format_row(entry: dict[str, Any]) -> tuple[str, ...]:
    deltas = entry["parts"] - 1
    return (
        f"{entry['generation']:,}",
        format_age(entry["age_seconds"]),
        f"{entry['events']:,}",
        f"{entry['error_rate']:.4f}",
        format_size(entry["size"]),
        "base" if deltas <= 0 else f"base+{deltas}",
        entry["origin"],
        entry["state_digest"][:SHORT] if entry["state_digest"] else "-",
    )


def _format_array_row(array: dict[str, Any]) -> tuple[str, ...]:
    shape = "x".join(map(str, array["shape"])) or "1"
    return array["name"], shape, array["dtype"], format_size(array["bytes"])


def _format_mark(partition: str, mark: str) -> str:
    if not partition:
        return f"log: {mark} (which log it is)"
    return f"{partition}: {mark} (the record before the position)"


def _format_lost(lost: dict[str, Any]) -> str:
    events = (
        count_words(lost["events"], "event") if lost["events"] else "an unknown number of events"
    )
    stretch = f"from {format_position(lost['start'])} to {format_position(lost['end'])}"
    return f"partition {lost['partition']} {stretch}: {events} ({lost['reason']})"


def _format_move(moved: dict[str, Any]) -> str:
    far = "" if moved["moved"] is None else f" ({moved['moved']:+,})"
    start, end = format_position(moved["from"]), format_position(moved["to"])
    return f"{moved['partition']}: {start} -> {end}{far}"


def _format_support(one: dict[str, Any]) -> str:
    label = "" if one["label"] is None else f" of {one['label']}"
    return f"rows{label}: {one['from']:,} -> {one['to']:,}"


def _format_array(array: dict[str, Any]) -> list[str]:
    """Describe an array in one line; if it has one number per slot, list its largest changes too.

    Single changes of a long array without slots, such as stored rows, would say nothing.
    """
    changes = [
        f"{_format_index(one, array)}{_format_number(one['from'])} -> {_format_number(one['to'])}"
        for one in array["largest"]
    ]
    what = "slots" if array["per_slot"] else "elements"
    changed = f"{array['changed']:,} of {array['slots']:,} {what} changed"
    head = f"array      {array['name']}: |change| {_format_number(array['norm'])}, {changed}"
    if not array["per_slot"] and array["changed"] > len(changes):
        return [head]
    if not array["per_slot"]:
        return [f"number     {array['name']}: {', '.join(changes)}"]
    return [head, *(f"             {line}" for line in changes)]


def _format_index(change: dict[str, Any], array: dict[str, Any]) -> str:
    what = "slot" if array["per_slot"] else "element"
    slot = (
        f"{change['name']} (slot {change['slot']:,})"
        if "name" in change
        else f"{what} {change['slot']:,}"
    )
    parts = [slot] * (array["slots"] > 1) + [f"row {change['row']:,}"] * (change["row"] > 0)
    return " of ".join(parts) + ": " if parts else ""


def _format_number(number: float | str) -> str:
    return (
        number
        if isinstance(number, str)
        else f"{number:,}"
        if isinstance(number, int)
        else f"{number:.6g}"
    )
