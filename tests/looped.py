"""Tests that loop over their cases: one item, many checks, and a failure that names every case that
failed.
"""

import functools
import inspect

import pytest
from hypothesis import is_hypothesis_test


def looped(names, values, ids=None):
    """Call the test once per case, with the arguments of `pytest.mark.parametrize`, but within one
    item.

    For checks that take milliseconds and share no state: a separate item would cost more than the
    check.
    """
    words = names.replace(" ", "").split(",") if isinstance(names, str) else list(names)
    rows = [value if len(words) > 1 else (value,) for value in values]
    labels = [functools.partial(_label, ids, index, row) for index, row in enumerate(rows)]

    def around(test):
        @_stands_for(test)
        def run(**given):
            check_each(
                (label, functools.partial(test, **given, **dict(zip(words, row, strict=True))))
                for label, row in zip(labels, rows, strict=True)
            )

        _hide_parameters(run, test, words)
        return run

    assert rows, f"no case of {names}"
    return around


def check_each(checks):
    """Run every (name, check); raise the first failure with the names of all checks that failed.

    A name may be any object, or a call that returns it. It becomes a text only if its check has
    failed: formatting arrays takes longer than most checks.
    """
    first, failed, count = None, [], 0
    for name, check in checks:
        count += 1
        try:
            check()
        except Exception as error:  # noqa: BLE001  # whatever it raises is a failure
            first = first or error
            failed.append(_shorten(str(name() if callable(name) else name), 500))
    assert count, "no case was checked"
    if first is not None:
        first.add_note(f"failed in {len(failed)} of {count} cases: {'; '.join(failed)}")
        raise first


def _stands_for(test):
    """Copy the test's name, docstring and marks, but not the attributes that hypothesis set: the
    loop is no hypothesis test. Add the hypothesis mark, so that `-m hypothesis` selects every
    property.
    """

    def around(run):
        run = functools.wraps(test, updated=())(run)
        if hasattr(test, "pytestmark"):
            run.pytestmark = list(test.pytestmark)
        return pytest.mark.hypothesis(run) if is_hypothesis_test(test) else run

    return around


def _label(ids, index, row):
    if callable(ids):
        return ", ".join(str(ids(value)) for value in row)
    return (
        str(list(ids)[index])
        if ids is not None
        else ", ".join(_shorten(repr(value), 80) for value in row)
    )


def _shorten(text, most):
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _hide_parameters(run, test, words):
    """Show pytest only the parameters that are fixtures, without those that the loop gives."""
    signature = inspect.signature(test)
    missing = [word for word in words if word not in signature.parameters]
    assert not missing, f"{test.__name__} has no parameter {', '.join(missing)}"
    kept = [parameter for word, parameter in signature.parameters.items() if word not in words]
    run.__signature__ = signature.replace(parameters=kept)


def by_group(things, group):
    """Return group -> its things, both in the order of their first occurrence."""
    groups = {}
    for thing in things:
        groups.setdefault(group(thing), []).append(thing)
    return groups


def looped_by(word, things, group, ids, parameter="kind"):
    """Make one item per group; it calls the test once per thing of the group, as
    argument `word`.
    """
    groups = by_group(things, group)

    def around(test):
        @_stands_for(test)
        def run(**given):
            mine = groups[given.pop(parameter)]
            check_each(
                (ids(thing), functools.partial(test, **given, **{word: thing})) for thing in mine
            )

        _hide_parameters(run, test, [word])
        shown = run.__signature__
        own = inspect.Parameter(parameter, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        run.__signature__ = shown.replace(parameters=[own, *shown.parameters.values()])
        return pytest.mark.parametrize(parameter, list(groups))(run)

    return around
