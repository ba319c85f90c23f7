"""Two lock files with one set of versions: all packages of the project's development, and those of
the image.
"""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; (.*?))? \\$", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
IN_IMAGE = "fast"
"""The extra that the image has: `source.client: confluent` is a setting, and users cannot install
packages into an image.
"""


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def entries(path):
    """Return each pin of a lock file: name -> version and hashes."""
    found = {}
    for part in re.split(r"\n(?=\S)", (ROOT / path).read_text(encoding="utf-8")):
        if pin := PIN.match(part):
            found[canonical(pin[1])] = pin[2], frozenset(re.findall(r"sha256:[0-9a-f]{64}", part))
    return found


def required(lines):
    return {canonical(re.match(r"[A-Za-z0-9._-]+", line)[0]) for line in lines}


@pytest.fixture(scope="module")
def whole():
    return entries("requirements.lock")


@pytest.fixture(scope="module")
def runtime():
    return entries("requirements-runtime.lock")


def test_the_image_has_the_tested_versions(whole, runtime):
    assert len(runtime) > 20
    assert {name: pin for name, pin in runtime.items() if whole.get(name) != pin} == {}
    assert all(hashes for _, hashes in runtime.values())


def test_the_image_has_the_required_packages_and_no_development_tools(runtime):
    extras = PROJECT["project"]["optional-dependencies"]
    asked = required(PROJECT["project"]["dependencies"]) | required(extras[IN_IMAGE])
    assert asked <= runtime.keys()
    elsewhere = set().union(
        *(required(lines) for name, lines in extras.items() if name != IN_IMAGE)
    )
    assert not (elsewhere - asked) & runtime.keys()
    assert required(PROJECT["build-system"]["requires"]) <= runtime.keys(), (
        "the image must build without a download"
    )
    assert PROJECT["dependency-groups"]["build"] == PROJECT["build-system"]["requires"]


def test_every_import_is_in_the_image_or_belongs_to_an_extra(runtime):
    extras = PROJECT["project"]["optional-dependencies"]
    optional = required(extras["bench"]) | required(extras["plot"])
    given = packages_distributions()
    missing = {}
    for path in sorted([*(ROOT / "service").rglob("*.py"), *(ROOT / "learners").rglob("*.py")]):
        for name in imported(path) - sys.stdlib_module_names - {"service", "learners"}:
            by = {canonical(distribution) for distribution in given.get(name, [])}
            if not by & (runtime.keys() | optional):
                missing[name] = path.relative_to(ROOT).as_posix()
    assert missing == {}


def imported(path):
    """Return the top-level names of all imports of a file, also of those within functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module.partition(".")[0])
    return names


def test_the_image_is_installed_from_its_own_lock():
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert "--require-hashes -r requirements-runtime.lock" in dockerfile
    assert "requirements.lock" not in dockerfile
