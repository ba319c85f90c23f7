"""`onepass checkpoints rollback`: an earlier generation becomes the newest again, and it is said what follows."""

import argparse
import sys
import time

from service.checkpoints import Fenced, Manifest
from service.cli.kept import advice_cut, check_fits, check_log, generation
from service.cli.tables import counted, frozen, spelled
from service.errors import BadSettings
from service.lineage import Lost, Rolled
from service.rollback import learned_already, passed_over, rolled_back
from service.settings import Settings
from service.snapshot import Snapshot
from service.sources.contract import SourceDown, SourceLost
from service.store import RedisStore

TRIES = 5


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", type=int, required=True, metavar="G", help="generation to go back to")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--from-then", action="store_true", help="its positions too: what came after is learned again")
    way.add_argument("--keep-position", action="store_true", help="go on where the log is: what came after stays out")
    parser.add_argument("--force", action="store_true", help="even if that loses or repeats events")


def rollback(store: RedisStore, settings: Settings, arguments: argparse.Namespace) -> None:
    earlier, snapshot = generation(store, arguments.to)
    newest = store.newest()
    if newest is None or newest.generation == earlier.generation:
        raise BadSettings(f"generation {earlier.generation} is the newest: there is nothing to go back from")
    check_fits(snapshot, settings)
    gone = "" if arguments.keep_position else _gone(settings, snapshot, earlier, force=arguments.force)
    for left in reversed(range(TRIES)):
        words = Rolled(earlier.generation, newest.generation, time.time())
        bookmark = store.read(newest).bookmark if arguments.keep_position else None
        if bookmark is not None and not arguments.force:
            _check_not_twice(earlier, learned_already(snapshot.bookmark, bookmark))
        changed = rolled_back(snapshot, words, bookmark)
        try:
            manifest = store.restate(*changed, f"rollback to {earlier.generation}", after=newest.commit)
            break
        except Fenced as error:  # a learner wrote meanwhile: what is left behind is a newer one
            newest = store.newest()
            if newest is None or not left:
                raise BadSettings("the learner writes faster than this reads: freeze it first") from error
    print(f"generation {manifest.generation} has the state of generation {earlier.generation}: {counts(manifest)}")
    if bookmark is not None:
        print(_left_out(newest, passed_over(snapshot.bookmark, bookmark)))
    elif gone:
        print(f"positions: those of generation {earlier.generation}, though {gone}")
        print("a learner stops there, or by source.on_lost goes on with the gap recorded")
    else:
        print(f"positions: those of generation {earlier.generation}, so what came after it is learned again")
    if store.frozen is not None:
        print(f"it is {frozen(store.frozen)}: nothing is learned until unfreeze")
    elif not gone:
        print("a learner that runs begins from it by itself")


def _check_not_twice(earlier: Manifest, stretches: list[Lost]) -> None:
    for lost in stretches:
        raise BadSettings(
            f"generation {earlier.generation} has learned partition {lost.partition} up to {lost.start}, and the "
            f"newest positions are at {lost.end}: what lies between would be learned twice; use --from-then, or --force"
        )


def _gone(settings: Settings, snapshot: Snapshot, earlier: Manifest, *, force: bool) -> str:
    """What the log no longer has of all that would be learned again; without `force` that is refused."""
    try:
        check_log(settings, snapshot.bookmark)
    except SourceLost as error:
        if force:
            return advice_cut(error)
        raise BadSettings(
            f"what came after generation {earlier.generation} cannot be learned again: {advice_cut(error)}; "
            "give --keep-position to go on where the log is, or --force"
        ) from error
    except (SourceDown, BadSettings, OSError) as error:
        print(f"onepass checkpoints: whether the log has it all was not checked: {error}", file=sys.stderr)
    return ""


def _left_out(newest: Manifest, stretches: list[Lost]) -> str:
    if not stretches:
        return "already at those positions: nothing is left out"
    lines = [f"positions: those of generation {newest.generation}, so what came in between stays unlearned:"]
    for lost in stretches:
        way = f"  partition {lost.partition} from {spelled(lost.start)} to {spelled(lost.end)}"
        if lost.start.isdecimal() and lost.end.isdecimal() and int(lost.end) < int(lost.start):
            lines.append(f"{way}, which is back: unless the log was made anew, that is learned a second time")
        else:
            lines.append(way + (f", {counted(lost.events, 'event')}" if lost.events else ""))
    return "\n".join(lines)


def counts(manifest: Manifest) -> str:
    return f"{counted(manifest.events, 'event')}, error rate {manifest.errors / max(1, manifest.events):.4f}"
