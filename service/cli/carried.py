"""Files that carry a model from store to store: reading them, and whether they belong here."""

import sys
from pathlib import Path

from service.bundle import unpack
from service.errors import BadSettings, refused
from service.places import own
from service.settings import Settings
from service.snapshot import BadSnapshot, Snapshot
from service.sources import log_name
from service.sources.contract import SourceLost


def read_file(path: Path) -> tuple[Snapshot, dict[str, bytes]]:
    """What `export` or a copy made: a whole snapshot, and the history that lies in the same file."""
    try:
        snapshot, segments = unpack(path.read_bytes())
    except OSError as error:
        raise BadSettings(f"{path}: cannot be read ({error.strerror})") from error
    except BadSnapshot as error:
        raise BadSettings(f"{path}: {error}") from error
    if not snapshot.whole:
        raise BadSettings(f"{path}: holds only what changed since another snapshot")
    return snapshot, segments


def check_place(snapshot: Snapshot, settings: Settings) -> None:
    """Refuse a snapshot of another log, or of no place in one: a learner would learn the wrong events, or all again."""
    if (snapshot.events or snapshot.rejects) and not snapshot.bookmark.positions:
        raise BadSettings(f"the checkpoint has {snapshot.events:,} events, but no position in the log")
    with refused():
        try:
            own(log_name(settings.source.url), snapshot.bookmark)
        except SourceLost as error:
            raise BadSettings(str(error)) from error


def warn_of(broken: str) -> None:
    """Say what keeps the history from being whole, if anything does."""
    if broken:
        print(
            f"onepass checkpoints: the history is incomplete ({broken}): "
            "`onepass replay --lineage` will not reach back to the first event",
            file=sys.stderr,
        )
