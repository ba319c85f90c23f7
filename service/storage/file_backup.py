"""Keep a second copy of the checkpoints in a folder. It is read only if the store is empty.

A file is written under another name, flushed to disk and renamed, so it is always complete. Saving
raises `OSError` if the disk is full or the folder is not writable. The caller then logs a warning
and goes on learning. Lineage segments lie beside the copies as `<sha256>.history`, and all copies
share them.
"""

import logging
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path

from service.checkpoint.lineage import segments_of
from service.checkpoint.snapshot import Encoded, Snapshot, SnapshotError, decode, encode
from service.checkpoint.store import CorruptCheckpointError
from service.config.settings import Backup
from service.private_files import make_folder

log = logging.getLogger("onepass")

SUFFIX = ".onepass"
UNFINISHED = ".part"
LEFT = ".left"
"""Added to the name of a copy that is newer than the store's checkpoints."""
SEGMENT = re.compile(r"[0-9a-f]{64}")


class FileBackup:
    """The copies of one model. Generations only grow, and several models may share a folder."""

    def __init__(self, settings: Backup, name: str) -> None:
        self.folder = settings.folder
        self._every = settings.interval_seconds
        self._keep = settings.keep
        self._name = name
        self._copy = re.compile(re.escape(name) + r"-(\d{12,})" + re.escape(SUFFIX))
        self._tried = float("-inf")

    def due(self) -> bool:
        """Whether the interval since the last copy, or the last attempt, is over."""
        return time.monotonic() - self._tried >= self._every

    def offer(
        self, generation: int, snapshot: Snapshot, fetch: Callable[[str], bytes | None]
    ) -> None:
        """Copy a generation of the store, if it is whole and a copy is due.

        `fetch` reads the segments of its lineage.
        """
        if snapshot.whole and self.due():
            self.save(
                generation,
                encode(snapshot.with_digest()),
                segments_of(snapshot.lineage, fetch, self._has),
            )

    def save(self, generation: int, encoded: Encoded, segments: dict[str, bytes]) -> None:
        """Add a whole snapshot and segments of its lineage, which come newest first.

        If it raises `OSError`, the earlier copies are unchanged.
        """
        self._tried = time.monotonic()
        make_folder(self.folder)
        for stale in self.folder.glob(f"{self._name}-{'?' * 32}{UNFINISHED}"):
            stale.unlink(missing_ok=True)  # left by a process that died while writing
        # Oldest first: every segment in the folder then has its predecessors there.
        for name, segment in reversed(segments.items()):
            if not (path := _segment_path(self.folder, name)).exists():
                write_atomically(path, [segment], self._temporary_path())
        write_atomically(
            self.folder / f"{self._name}-{generation:012d}{SUFFIX}",
            encoded.buffers,
            self._temporary_path(),
        )
        self._prune(generation)

    def _prune(self, newest: int) -> None:
        copies = self._copies()
        for generation in [generation for generation in copies if generation > newest]:
            # The store no longer has this history. The copy may be all that is left of a model,
            # so it is set aside and not removed.
            log.warning(
                "%s is newer than the store's checkpoints: it is set aside as *%s",
                copies[generation],
                LEFT,
            )
            copies[generation].rename(copies.pop(generation).with_suffix(SUFFIX + LEFT))
        for generation in sorted(copies, reverse=True)[self._keep :]:
            copies[generation].unlink(missing_ok=True)

    def newest(self) -> tuple[int, Snapshot] | None:
        """Read the newest good copy. Return None if there is no copy.

        It raises `CorruptCheckpointError` if there are copies and none is good.
        """
        try:
            copies = self._copies()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CorruptCheckpointError(
                f"the backup folder {self.folder} cannot be read: {error.strerror}"
            ) from error
        for generation, path in sorted(copies.items(), reverse=True):
            try:
                snapshot = decode(path.read_bytes())
                if snapshot.whole:
                    return generation, snapshot
                log.warning("%s is not a whole snapshot; trying an older copy", path)
            except (SnapshotError, OSError) as error:
                log.warning("%s: %s; trying an older copy", path, error)
        if copies:
            raise CorruptCheckpointError(
                f"none of the {len(copies)} copies in {self.folder} can be read: import a "
                "checkpoint by `onepass checkpoints import`, or start empty with `--start-fresh`"
            )
        return None

    def segment(self, name: str) -> bytes | None:
        """Read a segment of the lineage. Return None if the folder does not have it."""
        return segment_in(self.folder, name)

    def _has(self, name: str) -> bool:
        return _segment_path(self.folder, name).exists()

    def _copies(self) -> dict[int, Path]:
        matches = {path: self._copy.fullmatch(path.name) for path in self.folder.iterdir()}
        return {int(match[1]): path for path, match in matches.items() if match}

    def _temporary_path(self) -> Path:
        return self.folder / f"{self._name}-{uuid.uuid4().hex}{UNFINISHED}"


def segment_in(folder: Path, name: str) -> bytes | None:
    """Read a segment of the lineage from `folder`. Return None if it is not there."""
    try:
        return _segment_path(folder, name).read_bytes()
    except OSError:
        return None


def write_atomically(path: Path, buffers: Iterable[bytes | memoryview], unfinished: Path) -> None:
    """Write a file that exists complete or not at all, even after a crash.

    `unfinished` is a temporary path in the same folder.
    """
    try:
        unfinished.touch(mode=0o600, exist_ok=False)  # it holds a model: only its owner may read it
        with unfinished.open("wb") as file:
            file.writelines(buffers)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # without this a crash can undo the renaming
    finally:
        os.close(folder)


def _segment_path(folder: Path, name: str) -> Path:
    # The name comes from a checkpoint. It must not lead out of the folder.
    if not SEGMENT.fullmatch(name):
        raise FileNotFoundError(f"{name[:80]!r} is not the name of a segment")
    return folder / f"{name}.history"
