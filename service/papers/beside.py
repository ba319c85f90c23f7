"""Rows of a table as it was printed, with ours beside them."""

from collections.abc import Mapping
from typing import Any

from service.papers.experiment import printed, spread
from service.papers.passes import Outcome

Figure = tuple[float, float | None]


def beside(passes: list[Outcome], wanted: Mapping[str, tuple[Figure, Figure, Figure, Figure]]) -> list[dict[str, Any]]:
    """F1, accuracy, support vectors and CPU seconds; a row that was not run, but for a quoted one, is left out."""
    rows: list[dict[str, Any]] = []
    for row, theirs in wanted.items():
        mine = [outcome for outcome in passes if outcome.row == row]
        if not mine and row != "SVM":
            continue
        ours = {
            "F1": [outcome.f1 for outcome in mine],
            "accuracy": [outcome.accuracy for outcome in mine],
            "SV": [float(outcome.support) for outcome in mine],
            "CPU s": [outcome.seconds for outcome in mine],
        }
        cells: dict[str, Any] = {"row": row, "runs": len(mine)}
        for (name, figures), figure in zip(ours.items(), theirs, strict=True):
            cells |= {name: spread(figures) if figures else None, f"{name}, thesis": printed(*figure)}
        rows.append(cells)
    return rows
