"""What a benchmark says: on which machine, what came out, and which bars were reached."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Bar(NamedTuple):
    """A figure beside what it should be."""

    name: str
    value: float
    op: str
    goal: float

    @property
    def ok(self) -> bool:
        return self.value <= self.goal if self.op == "<=" else self.value >= self.goal


def document(results: Any, bars: list[Bar]) -> dict[str, Any]:
    return {"machine": machine(), "results": results, "bars": [bar._asdict() | {"ok": bar.ok} for bar in bars]}


def machine() -> dict[str, str]:
    """Enough to know what the figures mean."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {"cpu": model or platform.machine(), "system": platform.system(), "python": platform.python_version()}


def interleaved(jobs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each job; all of them take turns, so that a noisy moment hits every one."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            started = time.process_time()
            job()
            times[name].append(time.process_time() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}
