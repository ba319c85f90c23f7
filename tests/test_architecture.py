"""The rules of the house that a machine can check."""

import ast
import functools
import re
import sys
from pathlib import Path

from learners.catalog import describe, describe_detector
from learners.drift.registry import DETECTORS
from learners.registry import KINDS
from service.cli.catalog import INTRODUCTION, page
from tests.looped import looped

ROOT = Path(__file__).parent.parent
LEARNERS = sorted((ROOT / "learners").rglob("*.py"))
SOURCES = LEARNERS + sorted((ROOT / "service").rglob("*.py"))
CODE = SOURCES + sorted((ROOT / "tests").rglob("*.py"))
TESTS = ROOT / "tests" / "learners"
ORACLES = sorted(path for path in (TESTS / "oracles").glob("*.py") if path.stem != "__init__")


def shown_path(path):
    return path.relative_to(ROOT).as_posix()


every_source = looped("path", SOURCES, ids=shown_path)
every_learner_file = looped("path", LEARNERS, ids=shown_path)


@functools.cache
def tree(path):
    return ast.parse(path.read_text(encoding="utf-8"), path)


def imported(path):
    """Yield the top-level names of all imports of a file, also of those within functions."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield node.module.partition(".")[0]


def test_every_kind_has_an_oracle_and_every_oracle_a_kind():
    oracles = {path.stem for path in ORACLES}
    kinds = [*KINDS, *(f"drift_{kind}" for kind in DETECTORS)]
    assert oracles == {kind.replace("-", "_").replace("++", "_plus") for kind in kinds}


@looped("path", ORACLES, ids=shown_path)
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


MOST_LINES_OF_A_FILE = 400
MOST_LINES_OF_A_FUNCTION = 40
MOST_PARAMETERS = 8
MOST_COLUMNS = 100
MOST_MODULES_OF_A_ROOM = 12
NAMES_THAT_SAY_NOTHING = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "misc",
    "shared",
    "tools",
    "stuff",
}

TABLES = {
    "service/api/openapi/explanations.py::explanation_shapes": "declares shapes",
    "service/monitoring/metrics.py::Metrics.__init__": "declares each metric of the service once",
    "service/monitoring/model_metrics.py::QualityMetrics.__init__": "declares metrics of quality",
}
"""Functions that may be longer, `path::name` -> reason: each is a table of declarations, which is
read line by line.
"""


def test_files_are_at_most_400_lines():
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in CODE}
    long = [
        f"{shown_path(path)}: {lines} lines"
        for path, lines in lengths.items()
        if lines > MOST_LINES_OF_A_FILE
    ]
    report(long, f"files over {MOST_LINES_OF_A_FILE} lines")


def test_lines_are_at_most_100_columns():
    wide = [
        f"{shown_path(path)}:{number}: {len(line)} columns"
        for path in CODE
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > MOST_COLUMNS
    ]
    report(wide, f"lines over {MOST_COLUMNS} columns")


def test_functions_are_at_most_40_lines():
    lengths = {key: node.end_lineno - node.lineno + 1 for key, node in own_functions()}
    long = {key: lines for key, lines in lengths.items() if lines > MOST_LINES_OF_A_FUNCTION}
    assert not TABLES.keys() - long.keys(), "remove from TABLES the functions that are short enough"
    rest = [f"{key}: {lines} lines" for key, lines in long.items() if key not in TABLES]
    report(
        rest,
        f"functions over {MOST_LINES_OF_A_FUNCTION} lines that are neither kernels nor in TABLES",
    )


def test_signatures_have_at_most_8_parameters():
    counts = {key: len(parameters(node)) for key, node in own_functions()}
    many = [
        f"{key}: {count} parameters" for key, count in counts.items() if count > MOST_PARAMETERS
    ]
    report(many, f"signatures over {MOST_PARAMETERS} parameters that are no kernels")


def test_a_room_has_at_most_12_modules():
    rooms = {path.parent for path in (ROOT / "service").glob("*/*.py")}
    counts = {
        room: len([path for path in room.glob("*.py") if path.stem != "__init__"])
        for room in sorted(rooms)
    }
    full = [
        f"{shown_path(room)}: {count} modules"
        for room, count in counts.items()
        if count > MOST_MODULES_OF_A_ROOM
    ]
    report(full, f"folders over {MOST_MODULES_OF_A_ROOM} modules")


def test_a_module_is_named_for_what_it_holds():
    report(
        [shown_path(path) for path in CODE if path.stem in NAMES_THAT_SAY_NOTHING],
        "names that say nothing",
    )


def own_functions():
    """Yield every function and method but kernels, each with its place `path::Class.name`."""
    for path in CODE:
        yield from functions_in(tree(path), f"{shown_path(path)}::")


def functions_in(node, place):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_kernel(child):
            yield f"{place}{child.name}", child
        named = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        yield from functions_in(child, f"{place}{child.name}." if named else place)


def parameters(node):
    """Return what a caller can give: `self` and `cls` do not count."""
    arguments = node.args
    named = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    return [each.arg for each in named if each is not None and each.arg not in {"self", "cls"}]


def report(found, what):
    """Fail with all findings in one message."""
    assert not found, f"{len(found)} {what}:\n" + "\n".join(found)


def test_tests_share_code_by_modules_named_for_it():
    """Imports are absolute, no test changes `sys.path`, and no test file imports another one."""
    wrong = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(tree(path)):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                if getattr(node, "level", 0) or names_a_test_file(node):
                    wrong.append(f"{shown_path(path)}:{node.lineno}: {ast.unparse(node)}")
            elif isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.path":
                wrong.append(f"{shown_path(path)}:{node.lineno}: sys.path")
    report(wrong, "imports of tests that are relative, of a test file or by sys.path")


def names_a_test_file(node):
    """Whether the import is of a module named `test_…`, or takes one from its folder."""
    names = [alias.name for alias in node.names]
    module = getattr(node, "module", "") or ""
    return any(part.startswith("test_") for name in (module, *names) for part in name.split("."))


@every_learner_file
def test_learners_import_only_numbers(path):
    allowed = sys.stdlib_module_names | {"numpy", "numba", "pydantic", "learners"}
    assert set(imported(path)) <= allowed
    assert not set(imported(path)) & {"os", "random", "socket", "time", "datetime", "logging"}


@every_learner_file
def test_kernels_are_at_module_level(path):
    """Closures and methods are not served from numba's disk cache."""
    module = tree(path)
    kernels = [
        node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and is_kernel(node)
    ]
    assert all(kernel in module.body for kernel in kernels)
    if path.name != "jit.py":
        assert "numba" not in set(imported(path)), "kernels are made by the decorator alone"


def is_kernel(node):
    return any(
        isinstance(decorator, ast.Name) and decorator.id == "kernel"
        for decorator in node.decorator_list
    )


def test_the_learners_page_is_up_to_date_and_has_every_kind():
    """`onepass learners --markdown > docs/learners.md` writes the page."""
    assert page([describe(kind) for kind in KINDS], INTRODUCTION) + "\n" == (
        ROOT / "docs" / "learners.md"
    ).read_text(encoding="utf-8")
    for kind in KINDS:
        entry = describe(kind)
        assert entry["rule"]
        assert entry["paper"]
        assert entry["when"].startswith("Choose it")


def test_the_drift_page_has_every_detector_with_its_parameters():
    """Only this table of docs/drift.md is checked; the rest is written by hand."""
    lines = (ROOT / "docs" / "drift.md").read_text(encoding="utf-8").splitlines()
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if line.startswith("| `")
    ]
    told = {
        re.match("`(.+?)`", row[0])[1]: row[2] for row in rows if len(row) == 4 and "`" in row[2]
    }
    assert told == {
        kind: ", ".join(
            f"`{p['name']}` {show(p['default'])}" for p in describe_detector(kind)["parameters"]
        )
        for kind in DETECTORS
    }


def show(default):
    return (
        str(default).lower()
        if isinstance(default, bool)
        else f"{default:g}"
        if isinstance(default, float)
        else default
    )
