"""Rebuild a checkpoint's model from its log, in the order that its lineage records, and compare.

The same records, in the same order, through the same decoder and learner must give the same bits.
Skipped, frozen or rolled-back stretches need no special case: the lineage holds exactly the records
that the state has learned.
"""

import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

from learners.state import arrays_digest
from service.checkpoint.lineage import Lineage, LineageError, Run, history
from service.checkpoint.snapshot import Snapshot
from service.checkpoint.store import CorruptCheckpointError, Manifest
from service.config.settings import Settings
from service.errors import ProtectiveError, as_settings_error
from service.features.decoder import Decoder, Event
from service.features.reject import Reject
from service.model.model import Model
from service.operations.rollback import check_fits, generation, without_advice
from service.sources import open_source
from service.sources.base import BEGINNING, Bookmark, Options, Record, Source, SourceLostError
from service.sources.urls import log_name
from service.storage import RedisStore

BATCH = 500
"""Records read from the log at a time."""
POLL_SECONDS = 0.5
"""Seconds that a poll waits for the first record."""
MONITOR_ARRAYS = ("calibration", "quality", "history")
"""Groups of arrays that the monitor's digest covers."""
SILENT_SECONDS = 10.0
"""Seconds without a record after which the audit checks that the log still answers."""


class UnbuildableError(ProtectiveError):
    """The lineage does not hold all records that the model has learned."""


class RecordMismatchError(SourceLostError):
    """The log delivers other records than the lineage says."""


class Audited(NamedTuple):
    """A checkpoint and the runs of records that made it."""

    manifest: Manifest
    snapshot: Snapshot
    runs: list[Run]

    @property
    def records(self) -> int:
        return sum(run.records for run in self.runs)


def read_audited(settings: Settings, number: int | None) -> Audited:
    """Read a generation (None: the newest) and check that its lineage has all its records."""
    with closing(RedisStore(settings.store, settings.name, settings.checkpoint)) as store:
        try:
            manifest, snapshot = generation(store, number)
            entries = history(snapshot.lineage, store.segment)
            runs = [entry for entry in entries if isinstance(entry, Run)]
        except LineageError as error:
            raise CorruptCheckpointError(str(error)) from error
    audited = Audited(manifest, snapshot, runs)
    learned = snapshot.events + sum(snapshot.rejects.values())
    if audited.records != learned:
        raise UnbuildableError(
            f"generation {manifest.generation} has learned {learned:,} records, but its lineage "
            f"has {audited.records:,}: it began with a checkpoint that had no lineage"
        )
    check_fits(snapshot, settings)
    return audited


def audit(settings: Settings, audited: Audited, progress: Callable[[int], Any]) -> dict[str, Any]:
    """Rebuild the model and compare; `progress` gets the number of records of each batch."""
    bookmark = audited.snapshot.bookmark.local(log_name(settings.source.url))
    stored = _facts(audited.snapshot)
    rebuilt = _facts(_rebuild(settings, audited.runs, bookmark, progress))
    different = [
        name for name in stored if stored[name] is not None and stored[name] != rebuilt[name]
    ]
    return {
        "generation": audited.manifest.generation,
        "records": audited.records,
        "runs": len(audited.runs),
        "identical": not different,
        "different": different,
        "checkpoint": stored,
        "rebuilt": rebuilt,
    }


def _rebuild(
    settings: Settings, runs: list[Run], bookmark: Bookmark, progress: Callable[[int], Any]
) -> Snapshot:
    decoder = Decoder(settings.features, settings.label, settings.limits)
    model = Model(settings.learner, settings.features, settings.label, decoder, settings.drift)
    checksum = 0
    for records in _read_runs(settings, runs, bookmark):
        for record in records:
            checksum = zlib.crc32(record.value, checksum)
        _learn(model, decoder, records)
        progress(len(records))
    return model.snapshot(BEGINNING, Lineage(checksum=checksum), whole=True)


def _learn(model: Model, decoder: Decoder, records: list[Record]) -> None:
    decoded = [decoder.event(record.value) for record in records]
    result = model.learn([event for event in decoded if isinstance(event, Event)])
    rejects = [event.reason for event in decoded if isinstance(event, Reject)]
    model.count_rejects(rejects + [reason for _, reason in result.refused])


def _read_runs(settings: Settings, runs: list[Run], bookmark: Bookmark) -> Iterator[list[Record]]:
    """Yield the records of all runs in order. Each partition has its own source."""
    identity = _select_marks(bookmark, "")  # the other marks belong to the checkpoint's positions
    sources: dict[str, Source] = {}
    positions: dict[str, str] = {}
    try:
        for run in runs:
            try:
                if run.partition not in sources:
                    sources[run.partition] = _open_partition(settings, run.partition)
                source = sources[run.partition]
                if positions.get(run.partition) != run.start:
                    source.seek(Bookmark({run.partition: run.start}, identity))
                    source.stop_at_end()
                try:
                    yield from _read_run(source, run)
                except RecordMismatchError as error:
                    raise _diagnose(source, run.partition, bookmark) or error from error
            except SourceLostError as error:
                raise SourceLostError(
                    f"partition {run.partition} no longer has all of the {run.records:,} records "
                    f"from position {run.start} to {run.end}, so the model cannot be rebuilt "
                    f"({without_advice(error)})"
                ) from error
            positions[run.partition] = run.end
    finally:
        for source in sources.values():
            source.close()


def _open_partition(settings: Settings, partition: str) -> Source:
    given = settings.source
    options = Options(given.client, security=given.security, only=partition)
    with as_settings_error():
        return open_source(given.url, "earliest", options)


def _read_run(source: Source, run: Run) -> Iterator[list[Record]]:
    """Yield exactly the records of one run, or raise `RecordMismatchError`."""
    missing = run.records
    last = ""
    last_record_at = time.monotonic()
    while missing:
        if source.at_end:
            raise RecordMismatchError(
                f"the last {missing:,} are missing, or this is not the log that was learned from"
            )
        records = source.poll(POLL_SECONDS, min(BATCH, missing))
        if records:
            missing -= len(records)
            last = records[-1].after
            last_record_at = time.monotonic()
            yield records
        elif time.monotonic() - last_record_at >= SILENT_SECONDS:
            source.lag()  # raises SourceUnavailableError if the log does not answer
            last_record_at = time.monotonic()
    if last != run.end:
        raise RecordMismatchError(
            f"the same number of records ends at {last}: some are gone, or this is not the log "
            "that was learned from"
        )


def _diagnose(source: Source, partition: str, bookmark: Bookmark) -> SourceLostError | None:
    """Let the source check the checkpoint's own position: it may find that this is another log."""
    try:
        known = partition in bookmark.positions
        positions = {partition: bookmark.positions[partition]} if known else {}
        source.seek(Bookmark(positions, _select_marks(bookmark, "", partition)))
    except SourceLostError as error:
        return error
    return None


def _select_marks(bookmark: Bookmark, *keys: str) -> dict[str, str]:
    return {key: bookmark.marks[key] for key in keys if key in bookmark.marks}


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that must be equal in the checkpoint and in the rebuilt model."""
    return {
        "state_digest": snapshot.with_digest().state_digest,
        "judgement_digest": _digest_monitor(snapshot),
        "checksum": f"{snapshot.lineage.checksum:08x}",
        "events": snapshot.events,
        "errors": snapshot.errors,
        "rejects_by_reason": dict(sorted(snapshot.rejects.items())),
        "classes": snapshot.classes,
    }


def _digest_monitor(snapshot: Snapshot) -> str | None:
    """Digest calibrator, quality and curve. None if the model is older than its quality counts."""
    arrays = {
        name: array
        for name, array in snapshot.arrays.items()
        if name.split("/")[0] in MONITOR_ARRAYS
    }
    totals = arrays.get("quality/totals")
    return None if totals is None or int(totals[0]) != snapshot.events else arrays_digest(arrays)
