"""Errors that end a command with a meaning: wrong usage (exit 2), or stopping to protect the state (exit 3)."""

from collections.abc import Iterator
from contextlib import contextmanager


class BadSettings(ValueError):
    """A configuration, flag or input file that cannot be used; the message is one line and says what to do."""


class Protective(Exception):
    """Going on would harm the state; a person has to look."""


@contextmanager
def refused() -> Iterator[None]:
    """What a learner or an address refuses at construction is the configuration's fault."""
    try:
        yield
    except ValueError as error:
        raise BadSettings(str(error)) from error
