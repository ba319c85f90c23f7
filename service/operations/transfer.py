"""Read a checkpoint file that moves a model to another store, and check that it fits."""

import sys
from pathlib import Path

from service.checkpoint.export import unpack
from service.checkpoint.snapshot import Snapshot, SnapshotError
from service.config.settings import Settings
from service.errors import SettingsError, as_settings_error
from service.sources.base import SourceLostError
from service.sources.urls import log_name


def read_file(path: Path) -> tuple[Snapshot, dict[str, bytes]]:
    """Read a file of `export` or of the backup: a whole snapshot and its lineage segments."""
    try:
        snapshot, segments = unpack(path.read_bytes())
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})") from error
    except SnapshotError as error:
        raise SettingsError(f"{path}: {error}") from error
    if not snapshot.whole:
        raise SettingsError(
            f"{path}: holds only the changes since another snapshot; give a whole one"
        )
    return snapshot, segments


def check_log_matches(snapshot: Snapshot, settings: Settings) -> None:
    """Refuse a snapshot of another log, or one without positions in the log."""
    if (snapshot.events or snapshot.rejects) and not snapshot.bookmark.positions:
        raise SettingsError(
            f"the checkpoint has {snapshot.events:,} events, but no position in the log"
        )
    with as_settings_error():
        try:
            snapshot.bookmark.local(log_name(settings.source.url))
        except SourceLostError as error:
            raise SettingsError(str(error)) from error


def warn_about_history(broken: str) -> None:
    """Print why the lineage is incomplete; `broken` is empty if it is whole."""
    if broken:
        print(
            f"onepass checkpoints: the history is incomplete ({broken}): "
            "`onepass audit` will not reach back to the first event",
            file=sys.stderr,
        )
