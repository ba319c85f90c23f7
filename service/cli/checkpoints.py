"""`onepass checkpoints`: the versions of a model; look at them, go back, carry them elsewhere, hold learning.

Beside a running learner all of it is safe: what changes something fences that learner, which then begins from it.
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

from service.bundle import pack
from service.checkpoints import Corrupt, Fenced, Freeze, StoreDown
from service.cli import going_back
from service.cli.carried import check_place, read_file, warn_of
from service.cli.going_back import counts, rollback
from service.cli.tables import changes, frozen, list_of, page
from service.cli.versions import described, difference, listed
from service.configuration import load
from service.copies import UNFINISHED, place, segment_in
from service.errors import BadSettings
from service.kept import check_fits, generation
from service.lineage import Recorder, gathered
from service.settings import Settings
from service.snapshot import encode
from service.store import RedisStore


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
    going_back.configure(made["rollback"])
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


def _list(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    generations = [listed(manifest, time.time()) for manifest in store.generations()]
    if arguments.json:
        print(json.dumps(generations))
        return
    print(list_of(generations))
    if freeze := _standing(store):
        print(f"{frozen(freeze)}: nothing is learned until unfreeze")


def _show(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    entry = described(*generation(store, arguments.generation), store.segment, _standing(store), time.time())
    print(json.dumps(entry) if arguments.json else page(entry))


def _diff(store: RedisStore, _: Settings, arguments: argparse.Namespace) -> None:
    (one, before), (other, after) = generation(store, arguments.one), generation(store, arguments.other)
    found = difference((one.generation, before), (other.generation, after))
    print(json.dumps(found) if arguments.json else changes(found))


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
    print(f"generation {manifest.generation} to {target}: {counts(manifest)}, {packed.size:,} bytes")
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
    print(f"{file} is generation {manifest.generation} now: {counts(manifest)}")
    warn_of(broken)


def _freeze(store: RedisStore, settings: Settings, _: argparse.Namespace) -> None:
    freeze = store.freeze()
    if not store.generations():
        print(
            f"onepass checkpoints: {settings.name} has no checkpoint yet, and gets none while it is frozen",
            file=sys.stderr,
        )
    print(f"{settings.name} is {frozen(freeze)}; `onepass checkpoints unfreeze` lets it learn on")


def _unfreeze(store: RedisStore, settings: Settings, _: argparse.Namespace) -> None:
    was = store.unfreeze()
    print(f"{settings.name} " + ("was not frozen" if was is None else f"learns on; it was {frozen(was)}"))


def _standing(store: RedisStore) -> Freeze | None:
    """The operator's word as it is now."""
    with suppress(Corrupt):  # which is another matter
        store.newest()
    return store.frozen


ACTIONS = {
    "list": Action(_list, "the generations that are kept, newest first", "--config fraud.yaml"),
    "show": Action(_show, "all about one generation", "--config fraud.yaml --generation 12"),
    "diff": Action(_diff, "what happened between two generations", "8 12 --config fraud.yaml"),
    "rollback": Action(
        rollback, "make an earlier generation the newest again", "--config fraud.yaml --to 8 --keep-position"
    ),
    "export": Action(_export, "write one generation to a file that stands alone", "--config fraud.yaml --to m.onepass"),
    "import": Action(_import, "make a file the newest generation", "m.onepass --config fraud.yaml --over"),
    "freeze": Action(_freeze, "hold learning at the newest generation; predictions go on", "--config fraud.yaml"),
    "unfreeze": Action(_unfreeze, "let it learn on", "--config fraud.yaml"),
}
