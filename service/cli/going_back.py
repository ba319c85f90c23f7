"""`onepass checkpoints rollback`: an earlier generation becomes the newest again, and it is said what follows."""

import argparse
import sys

from service.checkpoints import Manifest
from service.cli.tables import counted, frozen, spelled
from service.errors import BadSettings
from service.kept import Unsafe, go_back
from service.lineage import Lost
from service.settings import Settings
from service.store import RedisStore


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", type=int, required=True, metavar="G", help="generation to go back to")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--from-then", action="store_true", help="its positions too: what came after is learned again")
    way.add_argument("--keep-position", action="store_true", help="go on where the log is: what came after stays out")
    parser.add_argument("--force", action="store_true", help="even if that loses or repeats events")


def rollback(store: RedisStore, settings: Settings, arguments: argparse.Namespace) -> None:
    try:
        done = go_back(store, settings, arguments.to, keep_position=arguments.keep_position, force=arguments.force)
    except Unsafe as error:
        otherwise = "give --keep-position to go on where the log is" if error.learn_again else "use --from-then"
        raise BadSettings(f"{error}; {otherwise}, or --force") from error
    earlier = done.earlier.generation
    if done.unchecked:
        print(f"onepass checkpoints: whether the log has it all was not checked: {done.unchecked}", file=sys.stderr)
    print(f"generation {done.made.generation} has the state of generation {earlier}: {counts(done.made)}")
    if done.left_out is not None:
        print(_left_out(done.newest, done.left_out))
    elif done.gone:
        print(f"positions: those of generation {earlier}, though {done.gone}")
        print("a learner stops there, or by source.on_lost goes on with the gap recorded")
    else:
        print(f"positions: those of generation {earlier}, so what came after it is learned again")
    if store.frozen is not None:
        print(f"it is {frozen(store.frozen)}: nothing is learned until unfreeze")
    elif not done.gone:
        print("a learner that runs begins from it by itself")


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
