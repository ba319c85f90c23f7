"""`onepass bench checkpoint`: how long learning stands still for a checkpoint, and how much of the model it holds."""

import statistics
import time
from typing import Any

import numpy as np

from learners.batch import Ints
from learners.registry import make
from learners.state import flatten
from service.bench.checkpoint_store import stored
from service.bench.report import Bar, document
from service.events import Decoder, Event
from service.lineage import Lineage
from service.model import Model
from service.settings import Features, Label, Limits
from service.snapshot import Snapshot
from service.sources.contract import BEGINNING

SMALL, LARGE = 18, 24
"""Bits of the features: a model that is copied whole, and one of which the touched slots are."""

TOUCHED = 0.01
"""Share of the slots that are touched between two checkpoints."""

LEARNERS = {"pa1": "pa1", "scaled pa1": {"kind": "scaled", "base": "pa1"}}


def bench_checkpoint(*, quick: bool) -> dict[str, Any]:
    """The whole benchmark as one document."""
    pauses = _pauses(5 if quick else 15)
    figures, bars = stored(quick=quick)
    return document({"pauses": pauses, **figures}, [*_pause_bars(pauses), *bars])


def _pauses(rounds: int) -> dict[str, dict[str, dict[str, float]]]:
    """Median pause and the bytes of each form of checkpoint, by learner; those of one size take turns.

    Not the sizes: what a copy costs depends on the memory given back before, and no process has models of both.
    """
    draws = np.random.default_rng(0)
    table: dict[str, dict[str, dict[str, float]]] = {}
    for bits in (SMALL, LARGE):
        models = {name: _model(spec, bits) for name, spec in LEARNERS.items()}
        times: dict[tuple[str, str], list[float]] = {}
        for _ in range(rounds):
            for name, model in models.items():
                for form in ("whole", "delta"):
                    model.learn(_events(draws, 1 << bits))
                    seconds, size = _pause(model, whole=form == "whole")
                    taken = times.setdefault((form, name), [])
                    taken.append(1e3 * seconds)
                    table.setdefault(f"{form} 2^{bits}", {})[name] = {
                        "milliseconds": statistics.median(taken),
                        "longest": max(taken),
                        "megabytes": size / 1e6,
                    }
    return table


def _model(spec: Any, bits: int) -> Model:
    features, label = Features(bits=bits), Label()
    model = Model(make(spec), features, label, Decoder(features, label, Limits()))
    for array in flatten(model.state).values():
        np.add(array, 0, out=array)  # every page is there before the clock runs
    _frozen(model, whole=True)
    return model


def _events(draws: np.random.Generator, dim: int) -> list[Event]:
    """Some hundred rows that touch the share of all slots, anywhere."""
    slots: Ints = 1 + draws.integers(dim - 1, size=round(1.006 * TOUCHED * dim))  # some are drawn twice
    rows = [np.unique(row).tolist() for row in np.array_split(slots, 200)]
    return [Event([0, *row], [1.0] * (len(row) + 1), str(n % 2), 1.0) for n, row in enumerate(rows)]


def _pause(model: Model, *, whole: bool) -> tuple[float, int]:
    """Seconds for which the model learns nothing, and the bytes of the copy."""
    started = time.perf_counter()
    frozen = _frozen(model, whole=whole)
    seconds = time.perf_counter() - started
    return seconds, sum(array.nbytes for array in frozen.arrays.values())


def _frozen(model: Model, *, whole: bool) -> Snapshot:
    return model.snapshot(BEGINNING, Lineage(), whole=whole)


def _pause_bars(pauses: dict[str, dict[str, dict[str, float]]]) -> list[Bar]:
    bars = []
    for name in LEARNERS:
        whole, large, delta = (
            pauses[form][name] for form in (f"whole 2^{SMALL}", f"whole 2^{LARGE}", f"delta 2^{LARGE}")
        )
        bars += [
            Bar(f"{name}: pause at 2^{SMALL} slots, whole, in ms", whole["milliseconds"], "<=", 5.0),
            Bar(f"{name}: pause at 2^{LARGE} slots, 1 % touched, in ms", delta["milliseconds"], "<=", 50.0),
            Bar(f"{name}: bytes of that delta over the model's", delta["megabytes"] / large["megabytes"], "<=", 0.05),
        ]
    return bars
