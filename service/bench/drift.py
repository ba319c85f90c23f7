"""`onepass bench drift`: what seeing a change of the world is worth, and what it costs; a section each."""

from typing import Any

from service.bench.drift_cost import cost
from service.bench.drift_detectors import detectors
from service.bench.drift_inputs import moved_inputs
from service.bench.report import Bar, document

SECTIONS = (detectors, moved_inputs, cost)
"""Each gives its results by title, and its bars."""


def bench_drift(*, quick: bool) -> dict[str, Any]:
    """The whole benchmark as one document."""
    results: dict[str, Any] = {}
    bars: list[Bar] = []
    for section in SECTIONS:
        figures, reached = section(quick=quick)
        results |= figures
        bars += reached
    return document(results, bars)
