"""All exceptions of the service, as a tree. Each class is defined where it is raised.

Exception
+-- SettingsError (ValueError)       a setting, flag or input file cannot be used; exit 2
|   +-- UnsafeRollbackError          this rollback would lose or repeat events
+-- ProtectiveError                  to continue would harm the state; exit 3
|   +-- CorruptCheckpointError       there are checkpoints, and none can be read
|   +-- MismatchError                the checkpoint does not fit the configuration or the model
|   +-- UnwritableSnapshotError      the snapshot could be written but never read
|   +-- SourceLostError              the log no longer has what a position points at
|   |   +-- RecordMismatchError      an audit read other records than the lineage names
|   +-- UnbuildableError             the lineage does not hold all that the model has learned
+-- UnsavedError                     the last events are not in a checkpoint; exit 1
+-- UnfinishedError                  the command stopped before its end; exit 1
+-- StoreUnavailableError            the store does not answer or accept writes now; retry
+-- FencedError                      the store has another writer or another history
+-- SnapshotError (ValueError)       bytes are damaged, incomplete or of an unknown format
+-- LineageError (ValueError)        a segment of the lineage is missing or damaged
+-- SourceUnavailableError           the log does not answer now; retry
|   +-- NoMemoryError                an entry of a Redis stream does not fit the memory
|   +-- SideOutputUnavailableError   the dead-letter or alarm log cannot be written now; retry
+-- PositionOutOfRangeError          a Kafka partition does not have an offset
+-- BadBatchError                    a Kafka batch cannot be read
+-- AllowanceError                   a Kafka poll has unpacked enough; fetch the rest again
+-- LogBusyError                     too many events wait to be appended to the log
+-- ApiError                         a request gets an HTTP error reply
+-- RequestError                     client: the service refused a request
+-- UnreachableError                 client: the service does not answer
+-- EmbeddedError (RuntimeError)     a try-out server does not start or stopped
+-- FailpointError (RuntimeError)    a test asked for this failure
+-- TreeSyntaxError (ValueError)     learners: a text is not one bracketed tree

A private exception (its name begins with `_`) never leaves its module and is not in the tree.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from pydantic import ValidationError


class SettingsError(ValueError):
    """A configuration, flag or input file cannot be used. The message is one line with advice."""


class ProtectiveError(Exception):
    """To continue would harm the state. A person has to look."""


class UnsavedError(Exception):
    """The last events are not in a checkpoint. They will be learned again."""


class UnfinishedError(Exception):
    """The command was stopped before its end. What was learned is in a checkpoint."""


@contextmanager
def as_settings_error() -> Iterator[None]:
    """Raise as `SettingsError` what a learner or an address refuses in its constructor."""
    try:
        yield
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = "".join(f"{part}: " for part in [".".join(map(str, fault["loc"]))] if part)
        raise SettingsError(f"{where}{fault['msg'].removeprefix('Value error, ')}") from error
    except ValueError as error:
        raise SettingsError(str(error)) from error
    except MemoryError as error:
        raise SettingsError(
            "the state does not fit the memory: lower features.bits, label.max_classes or the "
            "number of rows that the learner stores (max_support, budget)"
        ) from error
