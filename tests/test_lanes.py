"""Tests that share a kind or a file run in one lane, whatever the number of lanes."""

import subprocess
import sys
from collections import Counter
from itertools import pairwise
from types import SimpleNamespace

from tests import quick, slowest
from tests.lanes import TESTS, group, in_order

FILE = """
import os
import pytest

@pytest.mark.parametrize("number", range(20))
def test_worker(number):
    print("ran", __name__, os.environ["PYTEST_XDIST_WORKER"])
"""


def item(name):
    return SimpleNamespace(nodeid=f"tests/{name}")


def test_learner_tests_are_grouped_by_kind_and_others_by_file():
    assert group("tests/learners/test_laws.py::test_a[pa1]") == "pa1"
    assert group("tests/learners/test_terms.py::test_b[pa1]") == "pa1"
    assert group("tests/learners/test_terms.py::test_b[k-perceptron]") == "k-perceptron"
    assert group("tests/learners/test_jit.py::test_c[3]") == "tests/learners/test_jit.py"
    assert group("tests/service/test_d.py::test_d[pa1]") == "tests/service/test_d.py"
    assert group("tests/test_lanes.py::test_e") == "tests/test_lanes.py"


def test_the_order_keeps_every_test_within_its_group():
    items = [
        *(
            item(f"learners/test_{name}.py::test[{kind}]")
            for name in "ab"
            for kind in ("pa1", "rbp")
        ),
        *(item(f"service/test_{name}.py::test_{k}") for name in "cde" for k in range(3)),
        item("chaos/test_f.py::test"),
        item("test_g.py::test"),
    ]
    ordered = in_order(items)
    assert Counter(map(id, ordered)) == Counter(map(id, items))
    groups = [group(one.nodeid) for one in ordered]
    assert sum(one != other for one, other in pairwise(groups)) + 1 == len(set(groups))


def test_computing_groups_alternate_with_waiting_groups():
    waiting = [item(f"service/test_{k}.py::test") for k in range(3)]
    computing = [item(f"learners/test_{k}.py::test") for k in range(3)]
    ordered = in_order([*computing, item("chaos/test_first.py::test"), *waiting])
    assert [one.nodeid.split("/")[1] for one in ordered] == [
        "chaos",
        "learners",
        "service",
        "learners",
        "service",
        "learners",
        "service",
    ]


def test_xdist_runs_each_group_in_one_lane(tmp_path):
    for name in "abcd":
        (tmp_path / f"test_{name}.py").write_text(FILE)
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_xdist_make_scheduler")
    options = ["-rP", "-n2", "--dist=loadscope", "-p", "no:cacheprovider", f"--rootdir={tmp_path}"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    pairs = [line.split()[1:] for line in ran.stdout.splitlines() if line.startswith("ran ")]
    assert len(pairs) == 80, ran.stdout
    assert len({file for file, _ in pairs}) == len({(file, lane) for file, lane in pairs}) == 4


def test_the_slowest_tests_are_listed_with_all_their_phases():
    report = SimpleNamespace(nodeid="tests/a.py::b[x@y]", when="call", duration=1.0)
    before = SimpleNamespace(nodeid="tests/a.py::b[x@y]", when="setup", duration=0.5)
    assert slowest.spent({"passed": [report], "": [before], "warnings": [object()]}) == {
        "tests/a.py::b[x@y]": 1.5
    }
    many = Counter({f"test {number}": float(number) for number in range(200)})
    lines = slowest.table(many).splitlines()
    assert lines[0] == "   199.00 s  test 199"
    assert len(lines) == slowest.COUNT


def test_files_excluded_from_the_quick_run_exist():
    assert [path for path in [*quick.FOLDERS, *quick.SLOW] if not path.exists()] == []


def test_tests_that_need_a_server_or_much_time_are_not_quick():
    def counts_as_quick(path, *fixtures):
        return quick.is_quick(SimpleNamespace(path=TESTS / path, fixturenames=fixtures))

    assert counts_as_quick("learners/test_laws.py", "tmp_path")
    assert not counts_as_quick("learners/test_laws.py", "redis_server")
    assert not counts_as_quick("learners/test_budget.py")
    assert not counts_as_quick("chaos/test_page.py")
