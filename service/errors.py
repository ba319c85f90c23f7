"""Errors that end a command with a meaning: not done (exit 1), wrong usage (2), stopped to protect the state (3)."""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError


class BadSettings(ValueError):
    """A configuration, flag or input file that cannot be used; the message is one line and says what to do."""


class Protective(Exception):
    """Going on would harm the state; a person has to look."""


class Unsaved(Exception):
    """The last events are not in a checkpoint; they will be learned again."""


class Unfinished(Exception):
    """Told to stop before the end that was to be reached; what was learned is in a checkpoint."""


@contextmanager
def refused() -> Iterator[None]:
    """What a learner or an address refuses at construction is the configuration's fault."""
    try:
        yield
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f"{part}: " for part in [".".join(map(str, fault["loc"]))] if part)
        raise BadSettings(f"{where}{fault['msg'].removeprefix('Value error, ')}") from error
    except ValueError as error:
        raise BadSettings(str(error)) from error
    except MemoryError as error:
        what = "features.bits, label.max_classes or the rows that the learner stores (max_support, budget)"
        raise BadSettings(f"the state does not fit the memory: lower {what}") from error
