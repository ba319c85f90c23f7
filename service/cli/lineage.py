"""`onepass replay --lineage`: build a checkpoint's model again from its log, in the order that its history says.

An audit: the same records, in the same order, through the same decoder and learner must give the same bits. What was
passed over, frozen or rolled back needs nothing: a history holds exactly the records that its state has learned.
"""

import argparse
import json
import sys
import time
import zlib
from collections.abc import Iterator
from typing import Any

from tqdm import tqdm

from learners.state import arrays_digest
from service.checkpoints import Corrupt, Manifest, StoreDown
from service.cli.tables import run_of
from service.configuration import load
from service.errors import Protective, refused
from service.events import Decoder, Event
from service.kept import advice_cut, check_fits, generation
from service.lineage import Broken, Lineage, Run, history
from service.model import Model
from service.places import own
from service.reasons import Reject
from service.settings import Settings
from service.snapshot import Snapshot
from service.sources import log_name, open_source
from service.sources.contract import BEGINNING, Bookmark, Options, Record, Source, SourceDown, SourceLost
from service.store import RedisStore

ROUND = 500
POLL_SECONDS = 0.5
JUDGED = ("calibration", "quality", "history")
SILENT_SECONDS = 10.0
"""After so long without a record the log is asked whether it is there at all."""


class Unbuildable(Protective):
    """The history does not hold all that the model has learned."""


class Misfit(SourceLost):
    """Other records came than the history tells of."""


def replay_lineage(command: str, arguments: argparse.Namespace) -> int:
    settings = load(arguments.config)
    try:
        manifest, snapshot, runs = _kept(settings, arguments.generation)
        check_fits(snapshot, settings)
        again = _rebuilt(settings, runs, own(log_name(settings.source.url), snapshot.bookmark))
    except (StoreDown, SourceDown) as error:
        print(f"onepass {command}: {error}", file=sys.stderr)
        return 1
    kept, rebuilt = _facts(snapshot), _facts(again)
    different = [name for name in kept if kept[name] is not None and kept[name] != rebuilt[name]]
    outcome = {
        "generation": manifest.generation,
        "records": sum(run.records for run in runs),
        "runs": len(runs),
        "identical": not different,
        "different": different,
        "checkpoint": kept,
        "rebuilt": rebuilt,
    }
    print(json.dumps(outcome) if arguments.json else _in_words(outcome))
    return 1 if different else 0


def _kept(settings: Settings, number: int | None) -> tuple[Manifest, Snapshot, list[Run]]:
    store = RedisStore(settings.store, settings.name)
    try:
        manifest, snapshot = generation(store, number)
        runs = [entry for entry in history(snapshot.lineage, store.segment) if isinstance(entry, Run)]
    except Broken as error:
        raise Corrupt(str(error)) from error
    finally:
        store.close()
    told, learned = sum(run.records for run in runs), snapshot.events + sum(snapshot.rejects.values())
    if told != learned:
        raise Unbuildable(
            f"generation {manifest.generation} was made of {learned:,} records, and its history tells of {told:,}: "
            "it began with a checkpoint that had none"
        )
    return manifest, snapshot, runs


def _rebuilt(settings: Settings, runs: list[Run], bookmark: Bookmark) -> Snapshot:
    decoder = Decoder(settings.features, settings.label, settings.limits)
    model = Model(settings.learner, settings.features, settings.label, decoder, settings.drift)
    checksum, total = 0, sum(run.records for run in runs)
    with tqdm(total=total, unit=" records", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:
        for records in _in_order(settings, runs, bookmark):
            for record in records:
                checksum = zlib.crc32(record.value, checksum)
            _learn(model, decoder, records)
            bar.update(len(records))
    return model.snapshot(BEGINNING, Lineage(checksum=checksum), whole=True)


def _learn(model: Model, decoder: Decoder, records: list[Record]) -> None:
    decoded = [decoder.event(record.value) for record in records]
    outcome = model.learn([event for event in decoded if isinstance(event, Event)])
    rejects = [event.reason for event in decoded if isinstance(event, Reject)]
    model.count_rejects(rejects + [reason for _, reason in outcome.refused])


def _in_order(settings: Settings, runs: list[Run], bookmark: Bookmark) -> Iterator[list[Record]]:
    """The records of all runs, one after the other; a source of its own for each partition."""
    identity = _marks(bookmark, "")  # the other marks are of the checkpoint's positions
    sources: dict[str, Source] = {}
    at: dict[str, str] = {}
    given = settings.source
    try:
        for run in runs:
            try:
                if run.partition not in sources:
                    options = Options(given.client, security=given.security, only=run.partition)
                    with refused():
                        sources[run.partition] = open_source(given.url, "earliest", options)
                source = sources[run.partition]
                if at.get(run.partition) != run.start:
                    source.seek(Bookmark({run.partition: run.start}, identity))
                    source.until_end()
                try:
                    yield from _read(source, run)
                except Misfit as error:
                    raise _reason(source, run.partition, bookmark) or error from error
            except SourceLost as error:
                said = advice_cut(error)
                raise SourceLost(
                    f"partition {run.partition} no longer has all of the {run.records:,} records from position "
                    f"{run.start} to {run.end}, so the model cannot be built again ({said})"
                ) from error
            at[run.partition] = run.end
    finally:
        for source in sources.values():
            source.close()


def _read(source: Source, run: Run) -> Iterator[list[Record]]:
    """Exactly its records."""
    missing, last, heard = run.records, "", time.monotonic()
    while missing:
        if source.exhausted:
            raise Misfit(f"{missing:,} are missing at its end, or it is another log than the one that was read")
        records = source.poll(POLL_SECONDS, min(ROUND, missing))
        if records:
            missing -= len(records)
            last, heard = records[-1].after, time.monotonic()
            yield records
        elif time.monotonic() - heard >= SILENT_SECONDS:
            source.lag()  # which says so if the log is away
            heard = time.monotonic()
    if last != run.end:
        raise Misfit(f"as many end at {last}: it is another log than the one that was read, or some are gone")


def _reason(source: Source, partition: str, bookmark: Bookmark) -> SourceLost | None:
    """What the source itself says of the place where the checkpoint was made: it may know the log for another one."""
    try:
        positions = {partition: bookmark.positions[partition]} if partition in bookmark.positions else {}
        source.seek(Bookmark(positions, _marks(bookmark, "", partition)))
    except SourceLost as error:
        return error
    return None


def _marks(bookmark: Bookmark, *keys: str) -> dict[str, str]:
    return {key: bookmark.marks[key] for key in keys if key in bookmark.marks}


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    """What must come out again."""
    return {
        "state_digest": snapshot.digested().state_digest,
        "judgement_digest": _judgement(snapshot),
        "checksum": f"{snapshot.lineage.checksum:08x}",
        "events": snapshot.events,
        "errors": snapshot.errors,
        "rejects_by_reason": dict(sorted(snapshot.rejects.items())),
        "classes": snapshot.classes,
    }


def _judgement(snapshot: Snapshot) -> str | None:
    """Of the calibrator, the quality and the curve; None where they began later than the model did."""
    arrays = {name: array for name, array in snapshot.arrays.items() if name.split("/")[0] in JUDGED}
    totals = arrays.get("quality/totals")
    return None if totals is None or int(totals[0]) != snapshot.events else arrays_digest(arrays)


def _in_words(outcome: dict[str, Any]) -> str:
    lines = [f"generation {outcome['generation']}: {run_of(outcome)}"]
    for side in ("checkpoint", "rebuilt"):
        facts = outcome[side]
        counts = f"{facts['events']:,} events, {facts['errors']:,} errors, {_rejects(facts):,} rejects"
        lines.append(f"{side:10}  state {facts['state_digest']}  checksum {facts['checksum']}  {counts}")
    lines.append("identical" if outcome["identical"] else f"different: {', '.join(outcome['different'])}")
    return "\n".join(lines)


def _rejects(facts: dict[str, Any]) -> int:
    return sum(facts["rejects_by_reason"].values())
