"""A test is as steady on a busy machine as on a quiet one: it compares no durations, and waits for
conditions. Only benchmarks measure time.
"""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
BENCHES = (TESTS / "bench", TESTS / "service" / "bench")
CLOCKS = {"monotonic", "perf_counter", "process_time", "thread_time"}
MEASURING = {
    "waiting.py": "catches hangs",
    "chaos/measuring.py": "figures for docs/reliability.md; `make chaos` compares them",
    "chaos/run.py": "how long a part took, for docs/reliability.md",
}
"""Files that may read a clock, with the reason. None of them compares a reading with a limit that a
slow machine may exceed.
"""
PAUSING = {
    "waiting.py": "polls",
    "chaos/proxy.py": "a slow network is what it makes",
    "chaos/test_soak.py": "looks for a minute at what an idle service costs, in `make chaos`",
}
"""Files that may pause for a fixed time, with the reason."""
FILES = sorted(
    path for path in TESTS.rglob("*.py") if not any(bench in path.parents for bench in BENCHES)
)


def calls(path, wanted):
    """Return the lines of the file that call a function of a module for which `wanted` is true."""
    return [
        f"{path.relative_to(TESTS)}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and wanted(node)
    ]


def reads_clock(call):
    return call.func.attr in CLOCKS


def pauses(call):
    """Whether the call sleeps for a fixed time: `sleep(0)` lets others run, and a drawn time is
    part of a fault.
    """
    return (
        call.func.attr == "sleep"
        and not (isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
        and "draw" not in ast.unparse(call)
    )


@pytest.mark.parametrize(
    ("wanted", "allowed"), [(reads_clock, MEASURING), (pauses, PAUSING)], ids=["clocks", "pauses"]
)
def test_no_test_depends_on_how_fast_it_runs(wanted, allowed):
    found = [
        line
        for path in FILES
        if path.relative_to(TESTS).as_posix() not in allowed
        for line in calls(path, wanted)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("allowed", [MEASURING, PAUSING], ids=["clocks", "pauses"])
def test_exempted_files_exist(allowed):
    assert all((TESTS / name).exists() for name in allowed)


def test_examples_do_not_depend_on_the_text_of_a_test():
    named = [
        str(path.relative_to(TESTS))
        for path in FILES
        if path.name not in {"examples.py", Path(__file__).name}
        and "derandomize" in path.read_text(encoding="utf-8")
    ]
    assert not named, f"use tests.examples.examples instead of derandomize: {named}"
