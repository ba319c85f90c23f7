"""The tree in service/errors.py names every exception of the service and of the learners."""

import importlib
import pkgutil
import re

import learners
import service
from service import errors

LINE = re.compile(
    r"(?P<indent>(?:\|   |    )*)\+-- (?P<name>\w+)(?: \((?P<builtin>\w+)\))? {2,}(?P<purpose>\S.*)"
)


def defined_exceptions():
    for package in (learners, service):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    waiting, found = [BaseException], {}
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.partition(".")[0] in {"learners", "service"}:
                found[kind.__name__] = kind
    return found


def tree():
    """Return the parents of each exception in the docstring: the one above it, and the builtin in
    brackets.
    """
    path, parents = ["Exception"], {}
    for line in errors.__doc__.splitlines():
        if found := LINE.fullmatch(line):
            depth = len(found["indent"]) // 4 + 1
            parents[found["name"]] = {path[depth - 1], found["builtin"] or path[depth - 1]}
            path[depth:] = [found["name"]]
    return parents


def test_every_exception_ends_in_error():
    assert [name for name in defined_exceptions() if not name.endswith("Error")] == []


def test_the_tree_has_exactly_the_public_exceptions():
    public = [name for name in defined_exceptions() if not name.startswith("_")]
    assert sorted(tree()) == sorted(public)


def test_the_tree_shows_the_true_parents():
    found = defined_exceptions()
    for name, parents in tree().items():
        assert parents <= {base.__name__ for base in found[name].__mro__[1:]}, name
        own = [base.__name__ for base in found[name].__bases__ if base.__name__ in found]
        assert set(own) <= parents, f"{name} is in the wrong place of the tree"
