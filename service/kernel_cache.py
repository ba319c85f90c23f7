"""The folder in which numba caches compiled kernels. Its name is a hash of the sources.

So changed sources never use an old kernel. numba itself checks only the file of the outermost
kernel, not the other files whose functions it calls. `use_kernel_cache` must run before numba is
imported.
"""

import hashlib
import logging
import os
from pathlib import Path

log = logging.getLogger("onepass")

SOURCES = Path(__file__).parent.parent / "learners"


def cache_root() -> Path:
    """Folder for files that can be made again: compiled kernels and the broker's jars."""
    return Path(os.environ.get("ONEPASS_CACHE_DIR") or Path.home() / ".cache" / "onepass")


def use_kernel_cache() -> None:
    """Set numba's cache folder for the current sources. If it is not writable, or the sources
    cannot be read, warn and cache nothing.
    """
    folder = cache_root() / "kernels"
    # Otherwise numba would write beside the sources, where an edit can meet an old kernel.
    os.environ["NUMBA_CACHE_LOCATOR_CLASSES"] = "UserProvidedCacheLocator"
    os.environ.pop("NUMBA_CACHE_DIR", None)
    try:
        folder /= _hash_sources()
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "not writable", folder)
    except OSError as error:
        log.warning(
            "kernels are not cached: %s: %s; set ONEPASS_CACHE_DIR",
            error.filename or folder,
            error.strerror,
        )
    else:
        os.environ["NUMBA_CACHE_DIR"] = str(folder)


def _hash_sources() -> str:
    digest = hashlib.sha256()
    for source in sorted(SOURCES.rglob("*.py")):
        digest.update(
            source.relative_to(SOURCES).as_posix().encode() + b"\0" + source.read_bytes() + b"\0"
        )
    return digest.hexdigest()[:16]
