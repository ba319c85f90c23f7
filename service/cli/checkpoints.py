"""`onepass checkpoints`: the versions of a model; look at them, go back, carry them elsewhere, hold learning.

Beside a running learner all of it is safe: what changes something fences that learner, which then begins from it.
"""

import argparse
import json
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from service.bundle import pack
from service.checkpoints import Corrupt, Fenced, Freeze, Manifest, StoreDown
from service.cli.carried import check_place, read_file, warn_of
from service.cli.tables import age, changes, list_of, moment, page, spelled
from service.cli.versions import described, difference, listed
from service.configuration import load
from service.copies import UNFINISHED, place, segment_in
from service.errors import BadSettings, refused
from service.events import Decoder
from service.lineage import Recorder, Rolled, gathered
from service.model import Mismatch, Model
from service.rollback import passed_over, rolled_back
from service.settings import Settings
from service.snapshot import Snapshot, encode
from service.store import RedisStore

NEAREST = 3


class Action(NamedTuple):
    run: Callable[[RedisStore, Settings, argparse.Namespace], None]
    words: str
    example: str


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = "example:\n  onepass checkpoints list --config fraud.yaml"
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION", help="one of:")
    made = {}
    for name, action in ACTIONS.items():
        made[name] = actions.add_parser(
            name,
            help=action.words,
            description=action.words.capitalize() + ".",
            epilog=f"example:\n  onepass checkpoints {name} {action.example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        made[name].add_argument("--config", type=Path, required=True, metavar="F", help="YAML file of the model")
    for name in ("list", "show", "diff"):
        made[name].add_argument("--json", action="store_true", help="one JSON document")
    for name in ("show", "export"):
        made[name].add_argument("--generation", type=int, metavar="G", help="which one (default: the newest)")
    made["diff"].add_argument("one", type=int, metavar="A", help="generation before")
    made["diff"].add_argument("other", type=int, metavar="B", help="generation after")
    made["rollback"].add_argument("--to", type=int, required=True, metavar="G", help="generation to go back to")
    way = made["rollback"].add_mutually_exclusive_group(required=True)
    way.add_argument("--from-then", action="store_true", help="its positions too: what came after is learned again")
    way.add_argument("--keep-position", action="store_true", help="go on where the log is: what came after stays out")
    made["export"].add_argument("--to", type=Path, required=True, metavar="FILE", help="file to write")
    made["export"].add_argument("--force", action="store_true", help="over a file that is there")
    made["import"].add_argument("file", type=Path, metavar="FILE", help="a file that `export` or a copy made")
    made["import"].add_argument("--over", action="store_true", help="let it supersede the generations that are there")


def execute(command: str, arguments: argparse.Namespace) -> int:
    settings = load(arguments.config)
    store = RedisStore(settings.store, settings.name)
    try:
        ACTIONS[arguments.action].run(store, settings, arguments)
    except (StoreDown, Fenced) as error:
        print(f"onepass {command}: {error}", file=sys.stderr)
        return 1
    finally:
        store.close()
    return 0


def generation(store: RedisStore, number: int | None) -> tuple[Manifest, Snapshot]:
    """A kept generation, the newest good one if no number is given."""
    found = store.generations()
    kept = {manifest.generation: manifest for manifest in found if isinstance(manifest, Manifest)}
    if not found:
        raise BadSettings("there is no checkpoint yet")
    if not kept:
        raise Corrupt(f"no generation can be read: {found[0]}")
    chosen = max(kept) if number is None else number
    if chosen in kept:
        try:
            return kept[chosen], store.read(kept[chosen])
        except Corrupt:
            if kept[chosen] in store.generations():
                raise
            del kept[chosen]  # a learner let it go while it was read
    near = sorted(sorted(kept, key=lambda other: abs(other - chosen))[:NEAREST])
    raise BadSettings(f"generation {chosen} is not kept; the nearest are {', '.join(map(str, near))}")


def _list(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    generations = [listed(manifest, time.time()) for manifest in store.generations()]
    print(json.dumps(generations) if arguments.json else list_of(generations))


def _show(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    entry = described(*generation(store, arguments.generation), store.segment, time.time())
    print(json.dumps(entry) if arguments.json else page(entry))


def _diff(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    (one, before), (other, after) = generation(store, arguments.one), generation(store, arguments.other)
    found = difference((one.generation, before), (other.generation, after))
    print(json.dumps(found) if arguments.json else changes(found))


def _rollback(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    earlier, snapshot = generation(store, arguments.to)
    newest = store.newest()
    if newest is None or newest.generation == earlier.generation:
        raise BadSettings(f"generation {earlier.generation} is the newest: there is nothing to go back from")
    words = Rolled(earlier.generation, newest.generation, time.time())
    bookmark = store.read(newest).bookmark if arguments.keep_position else None
    manifest = store.restate(*rolled_back(snapshot, words, bookmark), f"rollback to {earlier.generation}")
    print(f"generation {manifest.generation} has the state of generation {earlier.generation}: {_counts(manifest)}")
    if bookmark is None:
        print(f"positions: those of generation {earlier.generation}, so what came after it is learned again")
    else:
        print(f"positions: those of generation {newest.generation}, so what came in between stays unlearned:")
        for lost in passed_over(snapshot.bookmark, bookmark):
            counted = f", {lost.events:,} events" if lost.events else ""
            print(f"  partition {lost.partition} from {spelled(lost.start)} to {spelled(lost.end)}{counted}")
    print("a learner that runs begins from it by itself")


def _export(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    target: Path = arguments.to
    if not target.parent.is_dir():
        raise BadSettings(f"{target.parent} is not a folder")
    if target.exists() and not arguments.force:
        raise BadSettings(f"{target} is there already; give --force to write over it")
    manifest, snapshot = generation(store, arguments.generation)
    segments, broken = gathered(snapshot.lineage, store.segment)
    packed = pack(encode(snapshot.digested()), segments.values())
    place(target, packed.buffers, target.with_name(f".{uuid.uuid4().hex}{UNFINISHED}"))
    print(f"generation {manifest.generation} to {target}: {_counts(manifest)}, {packed.size:,} bytes")
    warn_of(broken)


def _import(store: RedisStore, settings: Settings, arguments: argparse.Namespace) -> None:
    file: Path = arguments.file
    snapshot, inside = read_file(file)
    check_fits(snapshot, settings)
    check_place(snapshot, settings)
    if (kept := store.generations()) and not arguments.over:
        raise BadSettings(f"there are {len(kept)} generations already; give --over to let the file supersede them")
    found, broken = gathered(
        snapshot.lineage, lambda name: inside.get(name) or segment_in(file.parent, name) or store.segment(name)
    )
    lineage, segments = Recorder(snapshot.lineage, found).lineage()
    manifest = store.restate(snapshot._replace(lineage=lineage), segments, f"import {file.name}")
    print(f"{file} is generation {manifest.generation} now: {_counts(manifest)}")
    warn_of(broken)


def check_fits(snapshot: Snapshot, settings: Settings) -> None:
    """Refuse a snapshot that was made with other settings, or that is not one of such a model."""
    with refused():
        decoder = Decoder(settings.features, settings.label, settings.limits)
        model = Model(settings.learner, settings.features, settings.label, decoder)
        try:
            model.restore(snapshot)
        except Mismatch as error:
            raise BadSettings(str(error)) from error


def _freeze(store: RedisStore, settings: Settings, _: argparse.Namespace) -> None:
    print(f"{settings.name} is frozen {_since(store.freeze())}; `onepass checkpoints unfreeze` lets it learn on")


def _unfreeze(store: RedisStore, settings: Settings, _: argparse.Namespace) -> None:
    was = store.unfreeze()
    print(
        f"{settings.name} was not frozen" if was is None else f"{settings.name} learns on; it was frozen {_since(was)}"
    )


def _since(freeze: Freeze) -> str:
    ago = age(max(0.0, time.time() - freeze.since))
    return f"since {moment(freeze.since)} ({ago} ago) at generation {freeze.generation}"


def _counts(manifest: Manifest) -> str:
    return f"{manifest.events:,} events, error rate {manifest.errors / max(1, manifest.events):.4f}"


ACTIONS = {
    "list": Action(_list, "the generations that are kept, newest first", "--config fraud.yaml"),
    "show": Action(_show, "all about one generation", "--config fraud.yaml --generation 12"),
    "diff": Action(_diff, "what happened between two generations", "8 12 --config fraud.yaml"),
    "rollback": Action(
        _rollback, "make an earlier generation the newest again", "--config fraud.yaml --to 8 --keep-position"
    ),
    "export": Action(_export, "write one generation to a file that stands alone", "--config fraud.yaml --to m.onepass"),
    "import": Action(_import, "make a file the newest generation", "m.onepass --config fraud.yaml --over"),
    "freeze": Action(_freeze, "hold learning at the newest generation; predictions go on", "--config fraud.yaml"),
    "unfreeze": Action(_unfreeze, "let it learn on", "--config fraud.yaml"),
}
