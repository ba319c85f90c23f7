"""What an operator may do to the checkpoints beside a running learner: look, restate, freeze."""

import time
import uuid
from collections.abc import Mapping

import msgspec

from service.checkpoints import NO_SEGMENTS, Fenced, Freeze, Manifest, StoreDown
from service.settings import StoreSettings
from service.snapshot import Encoded, Snapshot, encode
from service.store.head import Entry, count, make_room, opened, sealed
from service.store.lease import read_freeze
from service.store.scripts import FENCE, FREEZE
from service.store.shelf import Shelf, Writer

TRIES = 20
"""A learner writes once a second, one try takes milliseconds; from the second on it is fenced before the look."""


class Operator:
    """Invariant: whoever learns is fenced by every word of the operator that changes something."""

    def __init__(self, settings: StoreSettings, name: str) -> None:
        self._settings = settings
        self._shelf = Shelf(settings, name)

    def generations(self) -> list[Manifest | str]:
        """Newest first; a damaged one in words."""
        return [
            entry.manifest or f"a damaged manifest of {len(entry.raw)} bytes, place {place} in the list"
            for place, entry in enumerate(self._shelf.head())
        ]

    def segment(self, name: str) -> bytes | None:
        """A sealed segment of the history."""
        with self._shelf.server.translated("segment"):
            found: bytes | None = self._shelf.client.get(self._shelf.key(f"l:{name}"))
        return found

    def restate(
        self,
        snapshot: Snapshot,
        segments: Mapping[str, bytes] = NO_SEGMENTS,
        origin: str = "restated",
        *,
        after: str | None = None,
    ) -> Manifest:
        """Make a whole snapshot the newest generation whoever learns; that learner has to begin from it.

        With `after` only if that commit is what `newest` names until then; else `Fenced`.
        """
        if not snapshot.whole:
            raise ValueError("only a whole snapshot can be restated")
        snapshot = snapshot.digested()
        encoded = encode(snapshot)
        with self._shelf.tidied():
            return self._restated(snapshot, encoded, segments, origin, after)

    def _restated(
        self, snapshot: Snapshot, encoded: Encoded, segments: Mapping[str, bytes], origin: str, after: str | None
    ) -> Manifest:
        shelf, commit = self._shelf, uuid.uuid4().hex
        # Written once, before looking: the window in which the learner can come between is then small.
        part = shelf.put(shelf.key(f"g:{count(shelf.head()) + 1}:{commit}"), encoded)
        shelf.put_segments(segments)
        for overtaken in range(TRIES):
            held, head = self._fence() if overtaken else shelf.look("token")
            parent = next((entry.manifest.commit for entry in head if entry.manifest), "")
            if after not in {None, parent}:
                raise Fenced(f"{shelf.server.where}: generation {count(head)} was written meanwhile: look again")
            counter = (held or b"").partition(b":")[0]
            manifest = Manifest(
                generation=count(head) + 1,
                commit=commit,
                parent=parent,
                token=f"{int(counter) + 1 if counter.isdigit() else 1}:{uuid.uuid4().hex}",
                created=time.time(),
                events=snapshot.events,
                errors=snapshot.errors,
                state_digest=snapshot.state_digest,
                parts=(part,),
                origin=origin,
            )
            entry = sealed(manifest)
            room = make_room(head, manifest, (), self._settings.keep, self._settings.keep_older, shelf.prefix)
            newest = head[0].raw if head else b""
            answer = shelf.commit(Writer(held or b"", manifest.token), entry, newest, room, segments)
            if answer == "OK":
                return manifest
            if answer == "INCOMPLETE":
                raise StoreDown(f"Redis at {shelf.server.where} lost a snapshot that was being written")
        raise StoreDown(f"the checkpoints at {shelf.server.where} do not stand still: {TRIES} tries were overtaken")

    def _fence(self) -> tuple[bytes, list[Entry]]:
        """A learner that writes without a pause has to acquire anew before its next write: time enough for ours."""
        keys = [self._shelf.key("token"), self._shelf.key("head")]
        token, head = self._shelf.decide("fence", FENCE, keys, uuid.uuid4().hex)
        return token, [opened(raw) for raw in head]

    def freeze(self) -> Freeze:
        """From now on nothing learned becomes durable until `unfreeze`; what was frozen before stays as it was."""
        shelf = self._shelf
        keys = [shelf.key("token"), shelf.key("head"), shelf.key("frozen")]
        for overtaken in range(TRIES):
            head = self._fence()[1] if overtaken else shelf.head()
            word = msgspec.json.encode(Freeze(time.time(), count(head)))
            done = read_freeze(
                shelf.decide("freeze", FREEZE, keys, word, head[0].raw if head else b"", uuid.uuid4().hex)
            )
            if done is not None:
                return done
        raise StoreDown(f"the checkpoints at {shelf.server.where} do not stand still: {TRIES} tries were overtaken")

    def unfreeze(self) -> Freeze | None:
        """What it was; None if it was not frozen."""
        with self._shelf.server.translated("unfreeze"):
            was = read_freeze(self._shelf.client.get(self._shelf.key("frozen")))
            self._shelf.client.unlink(self._shelf.key("frozen"))
        return was
