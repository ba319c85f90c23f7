"""`ModelState`: what a model has learned, written to a snapshot and restored from one."""

import time
from typing import Any

from numpy.typing import NDArray

from learners.learner import Learner, slot_arrays
from learners.state import flatten
from service.checkpoint.dirty_slots import DirtySlots, copy_arrays
from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import ALARMS, NAMES, SLOTS, Snapshot
from service.checkpoint.store import Manifest
from service.config.settings import Drift, Features, Label
from service.features.decoder import Decoder
from service.features.labels import Labels
from service.model.alarms import Alarms
from service.model.checkpoint_checks import check_arrays, check_settings, restore_parts
from service.model.monitor import Monitor
from service.model.scheduling import FairLock
from service.sources.base import Bookmark


class ModelState:
    """The learner, its state, its classes, its monitor and its counts, behind one lock."""

    def __init__(
        self, learner: Learner, features: Features, label: Label, decoder: Decoder, drift: Drift
    ) -> None:
        self.learner = learner.bind(decoder.slots)
        self.spec: dict[str, Any] = {
            "learner": self.learner.model_dump(mode="json"),
            "features": features.model_dump(mode="json"),
            "label": label.model_dump(mode="json"),
            "limits": decoder.limits.model_dump(mode="json"),
            "drift": drift.model_dump(mode="json", exclude={"alarms"}),
        }
        self._dim = decoder.slots.dim
        self.names = decoder.names
        self._label = label
        self._drift = drift
        self.columns = len(decoder.slots.columns)
        self.lock = FairLock()
        """Hold it to read several parts of one state."""
        self._slot_arrays = frozenset(f"state/{name}" for name in slot_arrays(self.learner))
        self.reset()

    def reset(self) -> None:
        """Forget everything that was learned."""
        with self.lock:
            self.state = self.learner.init(self._dim)
            classes = 0 if self._label.classes == "binary" else self._label.max_classes
            self.monitor = Monitor(self._drift, classes, self.columns)
            self.alarms = Alarms()
            self.labels = Labels(self._label)
            self.rejects: dict[str, int] = {}
            self.names.load()
            self._dirty = DirtySlots(self._dim)
            self._generation = 0
            self._state_time = time.time()

    def snapshot(self, bookmark: Bookmark, lineage: Lineage, *, whole: bool) -> Snapshot:
        """Copy the state between two events. Learning pauses for the copy.

        Unless `whole`, copy only the slots changed since the last snapshot or since `restore`. The
        copy is still whole if that costs less or if there is no base: see `DirtySlots`.
        """
        with self.lock:
            if whole:
                self._dirty.all_dirty = True
            copied = copy_arrays(self._arrays(), self._slot_arrays, self._dirty.take())
            if self.names.kept:
                copied.arrays[NAMES] = self.names.delta(whole=SLOTS not in copied.arrays)
            copied.arrays[ALARMS] = self.alarms.array()
            classes, rejects = list(self.labels.names), dict(self.rejects)
        return Snapshot(
            self.spec, classes, bookmark, lineage, rejects, None, copied.arrays, copied.sliced
        )

    def put_back(self, snapshot: Snapshot) -> None:
        """Mark the slots of the last snapshot dirty again, because its checkpoint failed."""
        with self.lock:
            self._dirty.put_back(snapshot.arrays.get(SLOTS))
            if NAMES in snapshot.arrays and not snapshot.whole:
                self.names.put_back(snapshot.arrays[NAMES])

    def restore(self, snapshot: Snapshot, manifest: Manifest | None = None) -> None:
        """Take over the state of a snapshot, completely and at once.

        A snapshot that does not fit raises `MismatchError` and changes nothing.
        """
        self.check(snapshot)
        parts = restore_parts(
            self.learner, self._dim, self._label, self.names, self.monitor, snapshot
        )
        with self.lock:
            self.state = parts.state
            self.monitor = parts.monitor
            self.alarms = parts.alarms
            self.labels = Labels(self._label, snapshot.classes)
            self.rejects = dict(snapshot.rejects)
            self.names.load(parts.names)
            self._dirty.take()
            self._dirty.all_dirty |= parts.older
            if manifest is not None:
                self._generation = manifest.generation
                self._state_time = manifest.created

    def check(self, snapshot: Snapshot) -> None:
        """Refuse other settings, unknown arrays and invalid classes. `restore` checks shapes."""
        check_settings(self.spec, snapshot)
        check_arrays({*self._arrays(), NAMES, ALARMS}, self.labels, snapshot)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return all learned and counted arrays by their names in a snapshot, without a copy."""
        return flatten(self.state, "state/") | self.monitor.arrays()
