"""Kept generations: one by its number, whether it fits a configuration, and whether the log has what follows it."""

from contextlib import closing

from service.checkpoints import Corrupt, Manifest
from service.errors import BadSettings, refused
from service.events import Decoder
from service.fitting import Mismatch
from service.model import Model
from service.places import own
from service.settings import Settings
from service.snapshot import Snapshot
from service.sources import log_name, open_source
from service.sources.contract import Bookmark, Options, SourceLost
from service.store import RedisStore

NEAREST = 3


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
        model = Model(settings.learner, settings.features, settings.label, decoder)
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
