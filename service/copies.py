"""The second copy of the checkpoints: files in a folder, read only when the store is found empty.

A file comes into being whole or not at all: written under another name, brought to the disk, then renamed. Saving
raises `OSError` when the disk is full or the folder cannot be written; that is no reason to stop learning, so the
caller warns and goes on. History lies beside the copies as `<sha256>.history`, shared by all of them.
"""

import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from service.checkpoints import Corrupt
from service.lineage import segments_of
from service.settings import Copies
from service.snapshot import BadSnapshot, Encoded, Snapshot, decode, encode

log = logging.getLogger("onepass")

SUFFIX = ".onepass"
UNFINISHED = ".part"
LEFT = ".left"
SEGMENT = re.compile(r"[0-9a-f]{64}")


class CopyFolder:
    """The copies of one model; generations only grow, and several models may share a folder."""

    def __init__(self, settings: Copies, name: str) -> None:
        self.folder = settings.folder
        self._every = settings.every_seconds
        self._keep = settings.keep
        self._name = name
        self._copy = re.compile(re.escape(name) + r"-(\d{12,})" + re.escape(SUFFIX))
        self._tried = float("-inf")

    def due(self) -> bool:
        """Whether the last copy, or the last try, is long enough ago."""
        return time.monotonic() - self._tried >= self._every

    def offer(self, generation: int, snapshot: Snapshot, fetch: Callable[[str], bytes | None]) -> None:
        """Copy a generation that is in the store, if it is whole and a copy is due; `fetch` brings its history."""
        if snapshot.whole and self.due():
            self.save(generation, encode(snapshot.digested()), segments_of(snapshot.lineage, fetch, self._has))

    def save(self, generation: int, encoded: Encoded, segments: dict[str, bytes]) -> None:
        """Add a whole snapshot and segments of its history, newest first; an `OSError` leaves what there was."""
        self._tried = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        for stale in self.folder.glob(f"{self._name}-{'?' * 32}{UNFINISHED}"):
            stale.unlink(missing_ok=True)  # of a process that died while writing
        for name, segment in reversed(segments.items()):  # so that whatever is there has its past there too
            if not (path := _history(self.folder, name)).exists():
                place(path, [segment], self._unfinished())
        place(self.folder / f"{self._name}-{generation:012d}{SUFFIX}", encoded.buffers, self._unfinished())
        self._clear(generation)

    def _clear(self, newest: int) -> None:
        kept = self._copies()
        for generation in [generation for generation in kept if generation > newest]:
            # Of a history that the store no longer has. It may be all that is left of a model: set aside, not removed.
            log.warning("%s is ahead of the checkpoints and is set aside as %s", kept[generation], LEFT)
            kept[generation].rename(kept.pop(generation).with_suffix(SUFFIX + LEFT))
        for generation in sorted(kept, reverse=True)[self._keep :]:
            kept[generation].unlink(missing_ok=True)

    def newest(self) -> tuple[int, Snapshot] | None:
        """The newest good copy; None if there has never been one. Copies of which none is good are `Corrupt`."""
        try:
            copies = self._copies()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Corrupt(f"the folder of copies {self.folder} cannot be read: {error.strerror}") from error
        for generation, path in sorted(copies.items(), reverse=True):
            try:
                snapshot = decode(path.read_bytes())
                if snapshot.whole:
                    return generation, snapshot
                log.warning("%s is not a whole snapshot; an older copy is tried", path)
            except (BadSnapshot, OSError) as error:
                log.warning("%s: %s; an older copy is tried", path, error)
        if copies:
            raise Corrupt(f"none of the {len(copies)} copies in {self.folder} can be read")
        return None

    def segment(self, name: str) -> bytes | None:
        """A sealed segment of the history; None if it is not here."""
        return segment_in(self.folder, name)

    def _has(self, name: str) -> bool:
        return _history(self.folder, name).exists()

    def _copies(self) -> dict[int, Path]:
        found = {path: self._copy.fullmatch(path.name) for path in self.folder.iterdir()}
        return {int(match[1]): path for path, match in found.items() if match}

    def _unfinished(self) -> Path:
        return self.folder / f"{self._name}-{uuid.uuid4().hex}{UNFINISHED}"


def segment_in(folder: Path, name: str) -> bytes | None:
    """A sealed segment of the history that lies beside the copies; None if it is not there."""
    try:
        return _history(folder, name).read_bytes()
    except OSError:
        return None


def _history(folder: Path, name: str) -> Path:
    if not SEGMENT.fullmatch(name):  # it comes out of a checkpoint, and must not lead out of the folder
        raise FileNotFoundError(f"{name[:80]!r} is not the name of a segment")
    return folder / f"{name}.history"


def place(path: Path, buffers: Iterable[bytes | memoryview], unfinished: Path) -> None:
    """Make a file that is there whole or not at all, also after a crash; `unfinished` lies in the same folder."""
    try:
        with unfinished.open("xb") as file:
            file.writelines(buffers)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # only now does the new name outlive a crash
    finally:
        os.close(folder)
