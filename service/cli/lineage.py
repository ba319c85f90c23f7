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

from service.checkpoints import Corrupt, Manifest, StoreDown
from service.cli.checkpoints import check_fits, generation
from service.configuration import load
from service.errors import Protective, refused
from service.events import Decoder, Event, Reject
from service.lineage import Broken, Lineage, Run, history
from service.model import Model
from service.places import own
from service.settings import Settings
from service.snapshot import Snapshot
from service.sources import log_name, open_source
from service.sources.contract import BEGINNING, Bookmark, Options, Record, Source, SourceDown, SourceLost
from service.store import RedisStore

ROUND = 500
POLL_SECONDS = 0.5
SILENT_SECONDS = 10.0
"""After so long without a record the log is asked whether it is there at all."""


class Unbuildable(Protective):
    """The history does not hold all that the model has learned."""


def replay_lineage(command: str, arguments: argparse.Namespace) -> int:
    settings = load(arguments.config)
    try:
        manifest, snapshot, runs = _kept(settings, arguments.generation)
        check_fits(snapshot, settings)
        marks = own(log_name(settings.source.url), snapshot.bookmark).marks
        again = _rebuilt(settings, runs, marks)
    except (StoreDown, SourceDown) as error:
        print(f"onepass {command}: {error}", file=sys.stderr)
        return 1
    kept, rebuilt = _facts(snapshot), _facts(again)
    different = [name for name in kept if kept[name] != rebuilt[name]]
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


def _rebuilt(settings: Settings, runs: list[Run], marks: dict[str, str]) -> Snapshot:
    decoder = Decoder(settings.features, settings.label, settings.limits)
    model = Model(settings.learner, settings.features, settings.label, decoder)
    checksum, total = 0, sum(run.records for run in runs)
    with tqdm(total=total, unit=" records", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:
        for records in _in_order(settings, runs, marks):
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


def _in_order(settings: Settings, runs: list[Run], marks: dict[str, str]) -> Iterator[list[Record]]:
    """The records of all runs, one after the other; a source of its own for each partition."""
    identity = {"": marks[""]} if "" in marks else {}  # the other marks are of the checkpoint's positions
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
                yield from _read(source, run)
            except SourceLost as error:
                said = str(error).partition(";")[0]  # what follows is advice to a learner
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
            raise SourceLost(f"{missing:,} are missing at its end")
        records = source.poll(POLL_SECONDS, min(ROUND, missing))
        if records:
            missing -= len(records)
            last, heard = records[-1].after, time.monotonic()
            yield records
        elif time.monotonic() - heard >= SILENT_SECONDS:
            source.lag()  # which says so if the log is away
            heard = time.monotonic()
    if last != run.end:
        raise SourceLost(f"the last of as many is followed by {last}")


def _facts(snapshot: Snapshot) -> dict[str, Any]:
    """What must come out again."""
    return {
        "state_digest": snapshot.digested().state_digest,
        "checksum": f"{snapshot.lineage.checksum:08x}",
        "events": snapshot.events,
        "errors": snapshot.errors,
        "rejects_by_reason": dict(sorted(snapshot.rejects.items())),
        "classes": snapshot.classes,
    }


def _in_words(outcome: dict[str, Any]) -> str:
    lines = [f"generation {outcome['generation']}: {outcome['records']:,} records in {outcome['runs']:,} runs"]
    for side in ("checkpoint", "rebuilt"):
        facts = outcome[side]
        counts = f"{facts['events']:,} events, {facts['errors']:,} errors, {_rejects(facts):,} rejects"
        lines.append(f"{side:10}  state {facts['state_digest']}  checksum {facts['checksum']}  {counts}")
    lines.append("identical" if outcome["identical"] else f"different: {', '.join(outcome['different'])}")
    return "\n".join(lines)


def _rejects(facts: dict[str, Any]) -> int:
    return sum(facts["rejects_by_reason"].values())
