"""Kept generations: one by its number, whether it fits a configuration, whether the log has what follows it, and
going back to it.
"""

import time
from contextlib import closing
from typing import NamedTuple

from service.checkpoints import Corrupt, Fenced, Manifest
from service.errors import BadSettings, refused
from service.events import Decoder
from service.fitting import Mismatch
from service.lineage import Lost, Rolled
from service.model import Model
from service.places import own
from service.rollback import learned_already, passed_over, rolled_back
from service.settings import Settings
from service.snapshot import Snapshot
from service.sources import log_name, open_source
from service.sources.contract import Bookmark, Options, SourceDown, SourceLost
from service.store import RedisStore

NEAREST = 3
TRIES = 5


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


def check_fits(snapshot: Snapshot, settings: Settings) -> None:
    """Refuse a snapshot that was made with other settings, or that is not one of such a model."""
    with refused():
        decoder = Decoder(settings.features, settings.label, settings.limits, settings.names)
        model = Model(settings.learner, settings.features, settings.label, decoder, settings.drift)
        try:
            model.restore(snapshot)
        except Mismatch as error:
            raise BadSettings(str(error)) from error


def check_log(settings: Settings, bookmark: Bookmark) -> None:
    """Ask the log whether it still has what follows; raises `SourceLost`, or as it may when it cannot be asked."""
    given = settings.source
    with refused():
        source = open_source(given.url, "earliest", Options(given.client, security=given.security))
    with closing(source):
        source.seek(own(log_name(given.url), bookmark))


def advice_cut(error: SourceLost) -> str:
    """What is lost, without the advice to a learner that follows it."""
    return str(error).partition(";")[0]


class Unsafe(BadSettings):
    """Going back as asked would lose or repeat events; how it can be asked otherwise, who is asked knows to say."""

    def __init__(self, message: str, *, learn_again: bool) -> None:
        super().__init__(message)
        self.learn_again = learn_again
        """Whether it was asked to learn again what came after."""


class Return(NamedTuple):
    """What going back did."""

    made: Manifest
    """The newest generation now."""
    earlier: Manifest
    newest: Manifest
    """What was the newest until then."""
    left_out: list[Lost] | None
    """What stays unlearned; None if the earlier positions hold, and what came after is learned again."""
    gone: str
    """What the log no longer has of all that."""
    unchecked: str
    """Why the log could not be asked."""


def go_back(store: RedisStore, settings: Settings, number: int, *, keep_position: bool, force: bool = False) -> Return:
    """Make an earlier generation the newest again; without `force`, not if that loses or repeats events."""
    earlier, snapshot = generation(store, number)
    newest = store.newest()
    if newest is None or newest.generation == earlier.generation:
        raise BadSettings(f"generation {earlier.generation} is the newest: there is nothing to go back from")
    check_fits(snapshot, settings)
    gone, unchecked = ("", "") if keep_position else _gone(settings, snapshot, earlier, force=force)
    for left in reversed(range(TRIES)):
        words = Rolled(earlier.generation, newest.generation, time.time())
        bookmark = store.read(newest).bookmark if keep_position else None
        if bookmark is not None and not force:
            _check_not_twice(earlier, learned_already(snapshot.bookmark, bookmark))
        changed = rolled_back(snapshot, words, bookmark)
        try:
            made = store.restate(*changed, f"rollback to {earlier.generation}", after=newest.commit)
            break
        except Fenced as error:  # a learner wrote meanwhile: what is left behind is a newer one
            newest = store.newest()
            if newest is None or not left:
                raise BadSettings("the learner writes faster than this reads: freeze it first") from error
    left_out = None if bookmark is None else passed_over(snapshot.bookmark, bookmark)
    return Return(made, earlier, newest, left_out, gone, unchecked)


def _check_not_twice(earlier: Manifest, stretches: list[Lost]) -> None:
    for lost in stretches:
        raise Unsafe(
            f"generation {earlier.generation} has learned partition {lost.partition} up to {lost.start}, and the "
            f"newest positions are at {lost.end}: what lies between would be learned twice",
            learn_again=False,
        )


def _gone(settings: Settings, snapshot: Snapshot, earlier: Manifest, *, force: bool) -> tuple[str, str]:
    """What the log no longer has of all that would be learned again (without `force` that is refused), and why it
    could not be asked.
    """
    try:
        check_log(settings, snapshot.bookmark)
    except SourceLost as error:
        if force:
            return advice_cut(error), ""
        raise Unsafe(
            f"what came after generation {earlier.generation} cannot be learned again: {advice_cut(error)}",
            learn_again=True,
        ) from error
    except (SourceDown, BadSettings, OSError) as error:
        return "", str(error)
    return "", ""
