"""Roll back: make the state of an earlier generation the newest again. Nothing is erased.

With `keep_offsets` the positions stay where they are: events after the earlier generation stay
unlearned, and the lineage records the stretch. Otherwise the positions are rewound too, and these
events are learned again.
"""

import time
from contextlib import closing
from typing import NamedTuple

from service.checkpoint.lineage import Lost, Recorder, Rolled
from service.checkpoint.snapshot import Snapshot
from service.checkpoint.store import CorruptCheckpointError, FencedError, Manifest
from service.config.settings import Settings
from service.errors import SettingsError, as_settings_error
from service.features.decoder import Decoder
from service.model.checkpoint_checks import MismatchError
from service.model.model import Model
from service.sources import open_source
from service.sources.base import Bookmark, Options, SourceLostError, SourceUnavailableError
from service.sources.urls import log_name
from service.storage import RedisStore

NEAREST = 3
"""Retained generations that an error names."""
TRIES = 5
"""Attempts to commit a rollback while a learner keeps writing."""


class UnsafeRollbackError(SettingsError):
    """This rollback would lose or repeat events. Callers append the flag that avoids it."""

    def __init__(self, message: str, *, rewind: bool) -> None:
        super().__init__(message)
        self.rewind = rewind
        """Whether the refused rollback was to rewind the positions."""


class RollbackResult(NamedTuple):
    """The outcome of a rollback."""

    made: Manifest
    """The generation that the rollback wrote; the newest now."""
    earlier: Manifest
    """The generation whose state it has."""
    newest: Manifest
    """The generation that was the newest before."""
    left_out: list[Lost] | None
    """Stretches that stay unlearned; None if the positions were rewound."""
    gone: str
    """What the log has lost of the events to learn again; empty if nothing."""
    unchecked: str
    """Why the log could not be checked; empty if it was."""


def go_back(
    store: RedisStore, settings: Settings, number: int, *, keep_offsets: bool, force: bool = False
) -> RollbackResult:
    """Roll back to an earlier generation; `force`: even if events are lost or repeated."""
    earlier, snapshot = generation(store, number)
    newest = store.newest()
    if newest is None or newest.generation == earlier.generation:
        raise SettingsError(f"generation {earlier.generation} is the newest: choose an earlier one")
    check_fits(snapshot, settings)
    gone, unchecked = "", ""
    if not keep_offsets:
        gone, unchecked = _find_gone(settings, snapshot, earlier, force=force)
    for left in reversed(range(TRIES)):
        entry = Rolled(earlier.generation, newest.generation, time.time())
        bookmark = store.read(newest).bookmark if keep_offsets else None
        if bookmark is not None and not force:
            _check_not_repeated(earlier, find_repeated(snapshot.bookmark, bookmark))
        restated = build_rollback(snapshot, entry, bookmark)
        try:
            origin = f"rollback to {earlier.generation}"
            made = store.restate(*restated, origin, after=newest.commit)
            break
        except FencedError as error:  # a learner committed meanwhile: roll back from its checkpoint
            newest = store.newest()
            if newest is None or not left:
                raise FencedError(
                    f"the learner wrote a checkpoint before each of {TRIES} tries to roll back: "
                    "freeze the model first"
                ) from error
    left_out = None if bookmark is None else find_skipped(snapshot.bookmark, bookmark)
    return RollbackResult(made, earlier, newest, left_out, gone, unchecked)


def generation(store: RedisStore, number: int | None) -> tuple[Manifest, Snapshot]:
    """Read a retained generation; without a number the newest readable one."""
    found = store.generations()
    manifests = {
        manifest.generation: manifest for manifest in found if isinstance(manifest, Manifest)
    }
    if not found:
        raise SettingsError("there is no checkpoint yet")
    if not manifests:
        raise CorruptCheckpointError(f"no generation can be read: {found[0]}")
    chosen = max(manifests) if number is None else number
    if chosen in manifests:
        try:
            return manifests[chosen], store.read(manifests[chosen])
        except CorruptCheckpointError:
            if manifests[chosen] in store.generations():
                raise
            del manifests[chosen]  # retention removed it while it was read
    near = sorted(sorted(manifests, key=lambda other: abs(other - chosen))[:NEAREST])
    raise SettingsError(
        f"generation {chosen} is not kept; the nearest are {', '.join(map(str, near))}"
    )


def check_fits(snapshot: Snapshot, settings: Settings) -> None:
    """Refuse a snapshot of another model or of other settings."""
    with as_settings_error():
        names = settings.max_feature_names
        decoder = Decoder(settings.features, settings.label, settings.limits, names)
        model = Model(settings.learner, settings.features, settings.label, decoder, settings.drift)
        try:
            model.restore(snapshot)
        except MismatchError as error:
            raise SettingsError(str(error)) from error


def build_rollback(
    earlier: Snapshot, entry: Rolled, keep_offsets: Bookmark | None = None
) -> tuple[Snapshot, dict[str, bytes]]:
    """Build the snapshot to commit and the lineage segments it seals.

    With `keep_offsets`, learning resumes at that bookmark instead of the earlier one.
    """
    recorder = Recorder(earlier.lineage)
    recorder.note(entry)
    bookmark = keep_offsets or earlier.bookmark
    for lost in find_skipped(earlier.bookmark, bookmark):
        recorder.note(lost)
    lineage, segments = recorder.lineage()
    return earlier.with_digest()._replace(bookmark=bookmark, lineage=lineage), segments


def find_skipped(earlier: Bookmark, later: Bookmark) -> list[Lost]:
    """List the stretch between two bookmarks, per partition; 0 events if not countable."""
    stretches = []
    for key, end in sorted(later.positions.items()):
        start = earlier.positions.get(key, "")
        if start != end:
            countable = start.isdecimal() and end.isdecimal()
            events = max(0, int(end) - int(start)) if countable else 0
            stretches.append(Lost(key.rpartition("/")[2], start, end, events, "rolled_back"))
    return stretches


def find_repeated(earlier: Bookmark, later: Bookmark) -> list[Lost]:
    """List the stretches that the earlier state has learned and the later bookmark repeats."""
    if earlier.marks.get("") != later.marks.get(""):
        return []
    return [
        lost
        for lost in find_skipped(earlier, later)
        if lost.start and _order(lost.end) < _order(lost.start)
    ]


def check_log(settings: Settings, bookmark: Bookmark) -> None:
    """Raise `SourceLostError` if the log no longer has what follows the bookmark.

    Other source errors mean that the log could not be checked.
    """
    given = settings.source
    with as_settings_error():
        options = Options(given.client, security=given.security)
        source = open_source(given.url, "earliest", options)
    with closing(source):
        source.seek(bookmark.local(log_name(given.url)))


def without_advice(error: SourceLostError) -> str:
    """The error's text without the advice that is meant for a learner."""
    return str(error).partition(";")[0]


def _find_gone(
    settings: Settings, snapshot: Snapshot, earlier: Manifest, *, force: bool
) -> tuple[str, str]:
    """Return what the log lost of the events to learn again, and why the log was not checked.

    Without `force`, a loss is an `UnsafeRollbackError`.
    """
    try:
        check_log(settings, snapshot.bookmark)
    except SourceLostError as error:
        if force:
            return without_advice(error), ""
        raise UnsafeRollbackError(
            f"what came after generation {earlier.generation} cannot be learned again: "
            f"{without_advice(error)}",
            rewind=True,
        ) from error
    except (SourceUnavailableError, SettingsError, OSError) as error:
        return "", str(error)
    return "", ""


def _check_not_repeated(earlier: Manifest, stretches: list[Lost]) -> None:
    for lost in stretches:
        raise UnsafeRollbackError(
            f"generation {earlier.generation} has learned partition {lost.partition} up to "
            f"{lost.start}, and the newest positions are at {lost.end}: the events in between "
            "would be learned twice",
            rewind=False,
        )


def _order(position: str) -> tuple[int, ...]:
    """Offsets and stream ids as numbers that compare in log order."""
    return tuple(int(part) for part in position.split("-") if part.isdecimal())
