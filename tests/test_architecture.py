"""Rules of the house that a machine can check."""

import ast
import re
import sys
from pathlib import Path

import pytest

from learners.description import describe, describe_detector
from learners.drift.registry import DETECTORS
from learners.registry import KINDS
from service.cli.learners import page

ROOT = Path(__file__).parent.parent
LEARNERS = sorted((ROOT / "learners").rglob("*.py"))
SOURCES = LEARNERS + sorted((ROOT / "service").rglob("*.py"))
TESTS = ROOT / "tests" / "learners"

every_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
every_learner_file = pytest.mark.parametrize("path", LEARNERS, ids=lambda path: path.relative_to(ROOT).as_posix())


def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"), path)


def imported(path):
    """Top names of all imports of a file, also of those within functions."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module.partition(".")[0]


def test_every_kind_has_an_oracle_and_every_oracle_a_kind():
    oracles = {path.stem for path in (TESTS / "oracles").glob("*.py")}
    kinds = [*KINDS, *(f"drift_{kind}" for kind in DETECTORS)]
    assert oracles == {kind.replace("-", "_").replace("++", "_plus") for kind in kinds}


@pytest.mark.parametrize("path", sorted((TESTS / "oracles").glob("*.py")), ids=lambda path: path.stem)
def test_oracles_are_plain_numpy(path):
    assert set(imported(path)) <= {"numpy"}


def test_every_kind_has_an_invariant_and_every_invariant_a_test():
    named = {}
    for path in TESTS.glob("test_invariants*.py"):
        body = tree(path).body
        tests = {node.name for node in body if isinstance(node, ast.FunctionDef)}
        tables = [
            node.value
            for node in body
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "INVARIANTS"
        ]
        table = ast.literal_eval(tables[0])
        assert set(table.values()) <= tests
        assert len(set(table.values())) == len(table)
        assert not named.keys() & table.keys()
        named |= table
    assert named.keys() == KINDS.keys()


@every_source
def test_nothing_is_pickled(path):
    text = path.read_text(encoding="utf-8")
    assert not {"pickle", "cPickle", "joblib", "dill", "marshal", "shelve"} & set(imported(path))
    assert "allow_pickle" not in text


@every_source
def test_files_are_short_and_named_for_what_they_hold(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 400
    assert path.stem not in {"utils", "util", "helpers", "common", "misc"}


@every_learner_file
def test_learners_import_only_numbers(path):
    allowed = sys.stdlib_module_names | {"numpy", "numba", "pydantic", "learners"}
    assert set(imported(path)) <= allowed
    assert not set(imported(path)) & {"os", "random", "socket", "time", "datetime", "logging"}


@every_learner_file
def test_kernels_are_at_module_level(path):
    """Closures and methods are not served from numba's disk cache."""
    module = tree(path)
    kernels = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and is_kernel(node)]
    assert all(kernel in module.body for kernel in kernels)
    if path.name != "kernels.py":
        assert "numba" not in set(imported(path)), "kernels are made by the decorator alone"


def is_kernel(node):
    return any(isinstance(decorator, ast.Name) and decorator.id == "kernel" for decorator in node.decorator_list)


def test_every_kind_is_on_the_page_and_the_page_is_as_it_is_made():
    """`onepass learners --markdown > docs/learners.md` makes it anew."""
    assert page([describe(kind) for kind in KINDS]) + "\n" == (ROOT / "docs" / "learners.md").read_text(
        encoding="utf-8"
    )
    for kind in KINDS:
        entry = describe(kind)
        assert entry["rule"]
        assert entry["paper"]
        assert entry["when"].startswith("Choose it")


def test_every_detector_is_on_the_page_with_its_parameters():
    """The table of docs/drift.md, of which the rest is written by hand."""
    lines = (ROOT / "docs" / "drift.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]
    told = {re.match("`(.+?)`", row[0])[1]: row[2] for row in rows if len(row) == 4 and "`" in row[2]}
    assert told == {
        kind: ", ".join(f"`{p['name']}` {shown(p['default'])}" for p in describe_detector(kind)["parameters"])
        for kind in DETECTORS
    }


def shown(default):
    return (
        str(default).lower() if isinstance(default, bool) else f"{default:g}" if isinstance(default, float) else default
    )
