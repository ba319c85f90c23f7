"""Errors that end a command with a meaning: wrong usage (exit 2), or stopping to protect the state (exit 3)."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError


class BadSettings(ValueError):
    """A configuration, flag or input file that cannot be used; the message is one line and says what to do."""


class Protective(Exception):
    """Going on would harm the state; a person has to look."""


@contextmanager
def refused() -> Iterator[None]:
    """What a learner or an address refuses at construction is the configuration's fault."""
    try:
        yield
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise BadSettings(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from error
    except ValueError as error:
        raise BadSettings(str(error)) from error
