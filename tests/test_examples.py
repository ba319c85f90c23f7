"""The examples of a property depend on the seed of the run, and on nothing else."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos import run
from tests.examples import TIMES

ROOT = Path(__file__).parents[1]
CONFTEST = "from tests.examples import fix_examples\n\nfix_examples()\n"
COUNT = 25
PROPERTY = f"""
import json
from pathlib import Path
from hypothesis import given, strategies as st
from tests.examples import examples

DRAWN = {{"asked for": [], "of the profile": []}}

@examples({COUNT})
@given(st.integers(), st.floats(), st.text())
def test_property(number, real, word):
    DRAWN["asked for"].append(repr((number, real, word)))

@given(st.integers())
def test_bare_property(number):
    DRAWN["of the profile"].append(number)

def test_that_writes_what_was_drawn():
    Path(__file__).with_name("drawn.json").write_text(json.dumps(DRAWN))
"""
REFLOWED = PROPERTY.replace("test_property(number, real, word)", "test_renamed(number, real, word)")
REFLOWED = REFLOWED.replace('["asked for"].append(', '["asked for"].append(\n        ')
CONSTANTS = "import constants\n"
"""Imports a local module in which hypothesis looks for interesting values."""


def draw_examples(folder, text=PROPERTY, *options, **variables):
    """Return the examples of the text's properties, drawn in a new process that has the settings of
    this project and only the plugins that those settings name.
    """
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "constants.py").write_text(
        "VALUES = [" + ", ".join(f"{n}, {n}.5, 'word {n}'" for n in range(10**6, 10**6 + 50)) + "]"
    )
    test = folder / "test_property.py"
    test.write_text(text)
    own = ("ONEPASS_PROPERTIES", "CI", "PYTEST_ADDOPTS")
    environment = {name: value for name, value in os.environ.items() if name not in own}
    plugins = [f"-p{plugin}" for plugin in ("_hypothesis_pytestplugin", "pytest_timeout")]
    line = [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", *plugins]
    ended = subprocess.run(
        [*line, "-pno:cacheprovider", f"--rootdir={folder}", *options, test],
        cwd=ROOT,
        env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads((folder / "drawn.json").read_text())


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return draw_examples(tmp_path_factory.mktemp("usual") / "once")


def test_a_property_gets_as_many_examples_as_it_asks_for(usual):
    assert {name: len(values) for name, values in usual.items()} == {
        "asked for": COUNT,
        "of the profile": 100,
    }


def test_another_run_draws_the_same_examples_even_in_ci(usual, tmp_path):
    assert draw_examples(tmp_path / "once", CI="true") == usual


def test_examples_depend_neither_on_the_text_of_a_test_nor_on_constants(usual, tmp_path):
    assert draw_examples(tmp_path / "once", CONSTANTS + REFLOWED) == usual


def test_a_fresh_run_draws_other_examples_and_many_more(usual, tmp_path):
    how = {"ONEPASS_PROPERTIES": "fresh", "CI": "true"}
    fresh = draw_examples(tmp_path / "once", PROPERTY, "--hypothesis-seed=21", **how)
    assert len(fresh["asked for"]) == TIMES * COUNT
    assert len(fresh["of the profile"]) == TIMES * 100
    assert len(set(fresh["asked for"]) - set(usual["asked for"])) > (TIMES - 1) * COUNT
    only = ("-k", "not bare")
    again = draw_examples(tmp_path / "again", PROPERTY, "--hypothesis-seed=21", *only, **how)
    assert again["asked for"] == fresh["asked for"], "the same seed draws the same examples"


def test_make_chaos_runs_every_file_with_a_property(request):
    marked = {
        item.path.relative_to(ROOT / "tests").as_posix()
        for item in request.session.items
        if item.get_closest_marker("hypothesis")
    }
    files = set(run.PARTS["properties"].files)
    assert marked <= files
    whole = {item.path.name for item in request.session.items} >= {
        "test_laws.py",
        "test_worker_faults.py",
    }
    assert not whole or marked == files
    importing = {
        path.relative_to(ROOT / "tests").as_posix()
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^from hypothesis\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert importing - {Path(__file__).name} <= files


def test_make_chaos_prints_its_seed_and_repeats_it(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(run, "passes", lambda *line: ran.append(line[:2]))
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["run", "properties"])
        monkeypatch.setattr(run, "PAGE", Path(os.devnull))
        run.main()
    (first, environment), (other, _) = ran
    assert environment["ONEPASS_PROPERTIES"] == "fresh"
    [seed] = [word.partition("=")[2] for word in first if word.startswith("--hypothesis-seed=")]
    assert seed in capsys.readouterr().out
    assert f"--hypothesis-seed={seed}" not in other
    monkeypatch.setattr(sys, "argv", ["run", "properties", "--seed", seed])
    run.main()
    assert ran[2][0] == first
