"""Folders for what a model has learned: for their owner alone, since weights and names tell about
the events.
"""

from pathlib import Path


def make_folder(path: Path) -> None:
    """Make a folder and the missing ones above it with mode 0700; one that is there stays
    as it is.
    """
    missing = [folder for folder in reversed(path.parents) if not folder.exists()]
    for folder in (*missing, path):
        folder.mkdir(mode=0o700, exist_ok=True)
