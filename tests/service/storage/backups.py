"""A folder of file backups with saved generations."""

import hashlib

import numpy as np

from service.checkpoint.lineage import Lineage
from service.checkpoint.snapshot import Snapshot, encode
from service.config.settings import Backup
from service.sources.base import BEGINNING
from service.storage.file_backup import FileBackup

HISTORY = b"a segment"


SEGMENTS = {hashlib.sha256(HISTORY).hexdigest(): HISTORY}


def snapshot(events: int, size: int = 4) -> Snapshot:
    arrays = {
        "state/w": np.full(size, float(events)),
        "progress/events": np.array([events]),
        "progress/errors": np.array([0]),
    }
    return Snapshot({}, [], BEGINNING, Lineage(), {}, None, arrays)


def folder_of(path, name="m", **settings):
    return FileBackup(Backup(folder=path, **settings), name)


def save_generations(backup, *generations, segments=None):
    for generation in generations:
        backup.save(generation, encode(snapshot(generation)), segments or {})
