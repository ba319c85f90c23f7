"""`make chaos [PART=…]`: run each part in its long form. The figures are kept in
docs/reliability.json, from which docs/reliability.md is made.
"""

import argparse
import ast
import json
import os
import platform
import secrets
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from service.embedded import redis as embedded_redis
from service.embedded.kafka import VERSION
from tests.chaos.measuring import FILE
from tests.chaos.page import page

ROOT = Path(__file__).parents[2]
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "tests.chaos.measuring")
KEPT = ROOT / "docs" / "reliability.json"
PAGE = ROOT / "docs" / "reliability.md"
LONG_FORM = {"ONEPASS_CHAOS": "1", "ONEPASS_ENDURANCE": "all"}


class Part(NamedTuple):
    minutes: int
    """Minutes; expected on two cores."""
    files: tuple[str, ...]
    variables: dict[str, str] = LONG_FORM
    options: tuple[str, ...] = ()
    """Options of pytest; `{seed}` is another number in every run."""


ATTACKED = ("streams", "compaction", "host", "http", "systems", "kafka", "operators", "sizes")
"""Targets of the attack's tests: Redis streams and other logs, the host, the API, foreign systems
and sizes.
"""
LAWS = tuple(
    f"learners/test_{name}.py"
    for name in (
        "laws",
        "law_delta",
        "terms",
        "support_terms",
        "oracles",
        "oracles_kernel",
        "registry",
        "jit",
    )
)
"""Files that take `chosen_specs`: a pairwise choice in `make test`, all compositions here."""


def files_of_properties():
    """Return all files that draw examples: with hypothesis, or streams that it drew for
    the laws.
    """
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    return tuple(path.relative_to(ROOT / "tests").as_posix() for path in found if draws(path))


def draws(path):
    text = path.read_text(encoding="utf-8")
    if "hypothesis" not in text and "on_each" not in text:
        return False
    imports = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
    return any(
        node.module.partition(".")[0] == "hypothesis"
        or "on_each" in {alias.name for alias in node.names}
        for node in imports
    )


PARTS = {
    "kill": Part(7, ("chaos/test_kill.py", "chaos/test_lineage.py")),
    "zombie": Part(3, ("chaos/test_zombie.py",)),
    "redis": Part(3, ("chaos/test_redis.py",)),
    "broker": Part(5, ("chaos/test_broker.py",)),
    "corrupt": Part(1, ("chaos/test_store_faults.py", "chaos/test_store_machine.py")),
    "malformed": Part(7, ("chaos/test_malformed.py",)),
    "api": Part(12, ("service/api/test_schemathesis.py",)),
    "door": Part(2, ("integration/test_door.py", "integration/test_door_processes.py")),
    "logs": Part(1, ("chaos/test_logs.py",)),
    "network": Part(5, ("chaos/test_network.py", "chaos/test_network_kafka.py")),
    "attack": Part(20, tuple(f"chaos/test_attack_{name}.py" for name in ATTACKED)),
    "sigterm": Part(1, ("chaos/test_sigterm.py",)),
    "soak": Part(20, ("chaos/test_soak.py",)),
    "laws": Part(20, LAWS),
    "endurance": Part(8, ("learners/test_endurance.py",)),
    "budget": Part(9, ("learners/test_budget.py",)),
    "properties": Part(
        60,
        files_of_properties(),
        {"ONEPASS_PROPERTIES": "fresh"},
        ("-m", "hypothesis", "--timeout=3600", "--hypothesis-seed={seed}"),
    ),
}
LONGEST = 3
"""Factor; a part that takes this many times its expected minutes has failed."""


def main():
    parser = argparse.ArgumentParser(
        "make chaos", description="Faults in numbers; each part can be run apart."
    )
    words = ", ".join(f"{name} ({part.minutes} min)" for name, part in PARTS.items())
    parser.add_argument("parts", nargs="*", metavar="PART", help=words)
    parser.add_argument("--page", action="store_true", help="only write the page again")
    parser.add_argument("--seed", help="of the properties, to repeat a run")
    given = parser.parse_args()
    seed = given.seed or str(secrets.randbelow(10**9))
    if strange := set(given.parts) - PARTS.keys():
        parser.error(f"no part {', '.join(sorted(strange))}; there are {', '.join(PARTS)}")
    failed = (
        [] if given.page else [name for name in given.parts or PARTS if not run_part(name, seed)]
    )
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    PAGE.write_text(page({name: kept[name] for name in PARTS if name in kept}))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run_part(name, seed):
    """Run one part; its figures are kept only if all its tests passed."""
    part = PARTS[name]
    print(f"== {name}: about {part.minutes} minutes", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        lines = Path(folder, "measured")
        lines.touch()
        extra = part.variables | {FILE: str(lines)}
        options = [option.format(seed=seed) for option in part.options]
        if options:
            print(*options, f"(again: make chaos PART={name} ARGS=--seed={seed})", flush=True)
        began = time.monotonic()
        tests = [f"tests/{file}" for file in part.files]
        command = [*PYTEST, *options, *tests]
        passed = passes(command, os.environ | extra, LONGEST * 60 * part.minutes)
        figures = [json.loads(line) for line in lines.read_text().splitlines()]
    if passed:
        kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
        kept[name] = {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": machine(),
            "minutes": round((time.monotonic() - began) / 60, 1),
            "figures": figures,
        }
        KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    return passed


def passes(command, environment, seconds):
    try:
        return (
            subprocess.run(
                command, cwd=ROOT, env=environment, timeout=seconds, check=False
            ).returncode
            == 0
        )
    except subprocess.TimeoutExpired:
        print(f"not within {seconds} s", file=sys.stderr)
        return False


def machine():
    redis = subprocess.run(
        [embedded_redis._executable(), "--version"], capture_output=True, text=True, check=True
    )
    version = redis.stdout.partition("v=")[2].split()[0]
    return (
        f"{os.cpu_count()} cores, Python {platform.python_version()}, Kafka {VERSION}, Redis"
        f" {version}"
    )


if __name__ == "__main__":
    sys.exit(main())
