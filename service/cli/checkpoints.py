"""`onepass checkpoints`: list, compare, roll back, export, import and freeze generations.

All actions are safe beside a running learner. An action that changes something fences the learner,
which then resumes from the new generation.
"""

import argparse
import json
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from service.checkpoint.export import pack
from service.checkpoint.lineage import Lost, Recorder, gather_segments
from service.checkpoint.snapshot import encode
from service.checkpoint.store import (
    CorruptCheckpointError,
    FencedError,
    Freeze,
    Manifest,
    StoreUnavailableError,
)
from service.cli.tables import (
    count_words,
    format_difference,
    format_freeze,
    format_generation,
    format_list,
    format_position,
)
from service.config.loader import load
from service.config.settings import Settings
from service.errors import SettingsError
from service.operations.inspect import compare_generations, describe_generation, summarize_manifest
from service.operations.rollback import UnsafeRollbackError, check_fits, generation, go_back
from service.operations.transfer import check_log_matches, read_file, warn_about_history
from service.storage import RedisStore
from service.storage.file_backup import UNFINISHED, segment_in, write_atomically


class Action(NamedTuple):
    run: Callable[[RedisStore, Settings, argparse.Namespace], None]
    summary: str
    example: str


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example:\n  onepass checkpoints list --config fraud.yaml"
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", help="one of:")
    parsers = {}
    for name, action in ACTIONS.items():
        parsers[name] = actions.add_parser(
            name,
            help=action.summary,
            description=action.summary.capitalize() + ".",
            epilog=f"example:\n  onepass checkpoints {name} {action.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parsers[name].add_argument(
            "--config", type=Path, required=True, metavar="F", help="YAML file of the model"
        )
    for name in ("list", "show", "diff"):
        parsers[name].add_argument("--json", action="store_true", help="print one JSON document")
    for name in ("show", "export"):
        parsers[name].add_argument(
            "--generation", type=int, metavar="G", help="generation (default: the newest)"
        )
    parsers["diff"].add_argument("one", type=int, metavar="A", help="earlier generation")
    parsers["diff"].add_argument("other", type=int, metavar="B", help="later generation")
    _configure_rollback(parsers["rollback"])
    parsers["export"].add_argument(
        "--to", type=Path, required=True, metavar="FILE", help="file to write"
    )
    parsers["export"].add_argument(
        "--force", action="store_true", help="overwrite an existing file"
    )
    parsers["import"].add_argument(
        "file", type=Path, metavar="FILE", help="a file written by `export` or by store.backup"
    )
    parsers["import"].add_argument(
        "--replace", action="store_true", help="import even if the store has generations already"
    )


def execute(command: str, arguments: argparse.Namespace) -> int:
    settings = load(arguments.config)
    store = RedisStore(settings.store, settings.name, settings.checkpoint)
    try:
        ACTIONS[arguments.action].run(store, settings, arguments)
    except (StoreUnavailableError, FencedError) as error:
        print(f"onepass {command}: {error}", file=sys.stderr)
        return 1
    finally:
        store.close()
    return 0


def _configure_rollback(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to", type=int, required=True, metavar="G", help="generation to go back to"
    )
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument(
        "--rewind",
        action="store_true",
        help="resume at that generation's offsets: the events after it are learned again",
    )
    mode.add_argument(
        "--keep-offsets",
        action="store_true",
        help="resume at the present offsets: the events after that generation stay unlearned",
    )
    parser.add_argument(
        "--force", action="store_true", help="go back even if events are lost or learned twice"
    )


def _list(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    generations = [summarize_manifest(manifest, time.time()) for manifest in store.generations()]
    if arguments.json:
        print(json.dumps(generations))
        return
    print(format_list(generations))
    if freeze := _read_freeze(store):
        print(f"{format_freeze(freeze)}: nothing is learned until unfreeze")


def _show(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    manifest, snapshot = generation(store, arguments.generation)
    entry = describe_generation(manifest, snapshot, store.segment, _read_freeze(store), time.time())
    print(json.dumps(entry) if arguments.json else format_generation(entry))


def _diff(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    one, before = generation(store, arguments.one)
    other, after = generation(store, arguments.other)
    difference = compare_generations((one.generation, before), (other.generation, after))
    print(json.dumps(difference) if arguments.json else format_difference(difference))


def _rollback(store: RedisStore, settings: Settings, arguments: argparse.Namespace) -> None:
    keep = arguments.keep_offsets
    try:
        result = go_back(store, settings, arguments.to, keep_offsets=keep, force=arguments.force)
    except UnsafeRollbackError as error:
        remedy = (
            "give --keep-offsets to resume at the present offsets"
            if error.rewind
            else "use --rewind"
        )
        raise SettingsError(f"{error}; {remedy}, or --force") from error
    earlier = result.earlier.generation
    if result.unchecked:
        print(
            "onepass checkpoints: could not check that the log still has all events: "
            f"{result.unchecked}",
            file=sys.stderr,
        )
    print(
        f"generation {result.made.generation} has the state of generation {earlier}: "
        f"{_format_counts(result.made)}"
    )
    if result.left_out is not None:
        print(_format_skipped(result.newest, result.left_out))
    elif result.gone:
        print(f"positions: those of generation {earlier}, though {result.gone}")
        print(
            "a learner stops there, or records the gap and goes on if source.on_data_loss allows it"
        )
    else:
        print(f"positions: those of generation {earlier}, so what came after it is learned again")
    if store.frozen is not None:
        print(f"it is {format_freeze(store.frozen)}: nothing is learned until unfreeze")
    elif not result.gone:
        print("a running learner picks it up automatically")


def _format_skipped(newest: Manifest, stretches: list[Lost]) -> str:
    if not stretches:
        return "already at those positions: nothing is left out"
    newest_positions = f"positions: those of generation {newest.generation}"
    lines = [f"{newest_positions}, so the events in between stay unlearned:"]
    for lost in stretches:
        start, end = format_position(lost.start), format_position(lost.end)
        stretch = f"  partition {lost.partition} from {start} to {end}"
        if lost.start.isdecimal() and lost.end.isdecimal() and int(lost.end) < int(lost.start):
            lines.append(
                f"{stretch}, backwards: unless the log was recreated, this is learned twice"
            )
        else:
            lines.append(
                stretch + (f", {count_words(lost.events, 'event')}" if lost.events else "")
            )
    return "\n".join(lines)


def _export(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    target: Path = arguments.to
    if not target.parent.is_dir():
        raise SettingsError(f"{target.parent} is not a folder")
    if target.exists() and not arguments.force:
        raise SettingsError(f"{target} exists already; give --force to overwrite it")
    manifest, snapshot = generation(store, arguments.generation)
    segments, broken = gather_segments(snapshot.lineage, store.segment)
    packed = pack(encode(snapshot.with_digest()), segments.values())
    write_atomically(target, packed.buffers, target.with_name(f".{uuid.uuid4().hex}{UNFINISHED}"))
    print(
        f"generation {manifest.generation} to {target}: {_format_counts(manifest)}, "
        f"{packed.size:,} bytes"
    )
    warn_about_history(broken)


def _import(store: RedisStore, settings: Settings, arguments: argparse.Namespace) -> None:
    file: Path = arguments.file
    snapshot, packed = read_file(file)
    check_fits(snapshot, settings)
    check_log_matches(snapshot, settings)
    if (generations := store.generations()) and not arguments.replace:
        raise SettingsError(
            f"the store has {len(generations)} generations already; "
            "give --replace to make the file the newest one"
        )

    def find_segment(name: str) -> bytes | None:
        return packed.get(name) or segment_in(file.parent, name) or store.segment(name)

    segments_found, broken = gather_segments(snapshot.lineage, find_segment)
    lineage, segments = Recorder(snapshot.lineage, segments_found).lineage()
    imported = snapshot._replace(lineage=lineage)
    manifest = store.restate(imported, segments, f"import {file.name}")
    print(f"{file} is generation {manifest.generation} now: {_format_counts(manifest)}")
    warn_about_history(broken)


def _freeze(store: RedisStore, settings: Settings, _: argparse.Namespace) -> None:
    freeze = store.freeze()
    if not store.generations():
        print(
            f"onepass checkpoints: {settings.name} has no checkpoint, and gets none while frozen",
            file=sys.stderr,
        )
    print(
        f"{settings.name} is {format_freeze(freeze)}; "
        "`onepass checkpoints unfreeze` resumes learning"
    )


def _unfreeze(store: RedisStore, settings: Settings, _: argparse.Namespace) -> None:
    freeze = store.unfreeze()
    outcome = (
        "was not frozen" if freeze is None else f"resumes learning; it was {format_freeze(freeze)}"
    )
    print(f"{settings.name} {outcome}")


def _read_freeze(store: RedisStore) -> Freeze | None:
    """Read the present freeze from the store; None if the model is not frozen."""
    with suppress(CorruptCheckpointError):  # a damaged generation does not hide the freeze
        store.newest()
    return store.frozen


def _format_counts(manifest: Manifest) -> str:
    rate = manifest.errors / max(1, manifest.events)
    return f"{count_words(manifest.events, 'event')}, error rate {rate:.4f}"


ACTIONS = {
    "list": Action(_list, "list the kept generations, newest first", "--config fraud.yaml"),
    "show": Action(_show, "show one generation in detail", "--config fraud.yaml --generation 12"),
    "diff": Action(_diff, "show what changed between two generations", "8 12 --config fraud.yaml"),
    "rollback": Action(
        _rollback,
        "make an earlier generation the newest again",
        "--config fraud.yaml --to 8 --keep-offsets",
    ),
    "export": Action(
        _export,
        "write one generation to a self-contained file",
        "--config fraud.yaml --to m.onepass",
    ),
    "import": Action(
        _import, "make a file the newest generation", "m.onepass --config fraud.yaml --replace"
    ),
    "freeze": Action(
        _freeze, "stop learning at the newest generation; predictions go on", "--config fraud.yaml"
    ),
    "unfreeze": Action(_unfreeze, "resume learning", "--config fraud.yaml"),
}
