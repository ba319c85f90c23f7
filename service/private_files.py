"""Make folders that only their owner can read, because a model's weights and names reveal its
events.
"""

from pathlib import Path


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents with mode 0700. Existing folders stay unchanged."""
    missing = [folder for folder in reversed(path.parents) if not folder.exists()]
    for folder in (*missing, path):
        folder.mkdir(mode=0o700, exist_ok=True)
