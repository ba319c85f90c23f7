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


class Ticks(NamedTuple):
    """CPU time of the machine since it was started, over all its cores."""

    stolen: int
    """Taken by the hypervisor while there was work."""
    total: int


def document(results: Any, bars: list[Bar]) -> dict[str, Any]:
    return {"machine": machine(), "results": results, "bars": [bar._asdict() | {"ok": bar.ok} for bar in bars]}


def measured(bench: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """A benchmark's document, with the share of CPU time that was stolen while it ran: then figures are too low."""
    before = ticks()
    found = bench()
    return found | {"machine": found["machine"] | {"stolen": stolen(before, ticks())}}


def machine() -> dict[str, str]:
    """Enough to know what the figures mean."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    return {"cpu": model or platform.machine(), "system": platform.system(), "python": platform.python_version()}


def ticks(stat: Path = Path("/proc/stat")) -> Ticks | None:
    """None where the system does not tell."""
    if not stat.exists():
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal; guests' time, which follows, is in the user's already
    counts = [int(count) for count in stat.read_text(encoding="utf-8").partition("\n")[0].split()[1:9]]
    return Ticks(counts[7], sum(counts))


def stolen(before: Ticks | None, after: Ticks | None) -> float | None:
    if before is None or after is None:
        return None
    return (after.stolen - before.stolen) / max(1, after.total - before.total)


def interleaved(jobs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each job; all of them take turns, so that a noisy moment hits every one."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            started = time.process_time()
            job()
            times[name].append(time.process_time() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}
