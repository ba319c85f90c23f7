"""The document of a benchmark: machine, results and bars."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Bar(NamedTuple):
    """A figure and its goal."""

    name: str
    value: float
    op: str
    goal: float

    @property
    def ok(self) -> bool:
        return self.value <= self.goal if self.op == "<=" else self.value >= self.goal


class Ticks(NamedTuple):
    """CPU time of all cores since the machine started."""

    stolen: int
    """Time that the hypervisor took while there was work."""
    total: int


def document(results: Any, bars: list[Bar]) -> dict[str, Any]:
    return {
        "machine": describe_machine(),
        "results": results,
        "bars": [bar._asdict() | {"ok": bar.ok} for bar in bars],
    }


def measure(bench: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run a benchmark and add the share of stolen CPU time, which lowers its figures."""
    before = read_ticks()
    result = bench()
    return result | {"machine": result["machine"] | {"stolen": stolen_share(before, read_ticks())}}


def describe_machine() -> dict[str, str]:
    """Describe the machine, so that the figures mean something."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    model = next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), ""
    )
    return {
        "cpu": model or platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def read_ticks(stat: Path = Path("/proc/stat")) -> Ticks | None:
    """Read the CPU times; None if the system does not report them."""
    if not stat.exists():
        return None
    # user, nice, system, idle, iowait, irq, softirq, steal. The guest times that follow are
    # included in the user time.
    counts = [
        int(count) for count in stat.read_text(encoding="utf-8").partition("\n")[0].split()[1:9]
    ]
    return Ticks(counts[7], sum(counts))


def stolen_share(before: Ticks | None, after: Ticks | None) -> float | None:
    if before is None or after is None:
        return None
    return (after.stolen - before.stolen) / max(1, after.total - before.total)


def time_interleaved(jobs: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return median CPU seconds per job; jobs take turns, so that noise hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds):
        for name, job in jobs.items():
            started = time.process_time()
            job()
            times[name].append(time.process_time() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}
