"""`onepass bench drift`: the benefit and the cost of drift detection, one section each."""

from typing import Any

from service.bench.drift.cost import measure_cost
from service.bench.drift.detectors import measure_detectors
from service.bench.drift.inputs import measure_inputs
from service.bench.report import Bar, document

SECTIONS = (measure_detectors, measure_inputs, measure_cost)
"""Each returns its results by title, and its bars."""


def bench_drift(*, quick: bool) -> dict[str, Any]:
    """Run the whole benchmark and return one document."""
    results: dict[str, Any] = {}
    bars: list[Bar] = []
    for section in SECTIONS:
        figures, reached = section(quick=quick)
        results |= figures
        bars += reached
    return document(results, bars)
