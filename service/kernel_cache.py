"""Where numba keeps compiled kernels: a folder named after the sources, so that no edit ever meets an old kernel.

numba's own check looks only at the file of the outermost kernel, not at the primitives that it calls from other files.
Must run before numba is imported.
"""

import atexit
import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "learners"


def cache_root() -> Path:
    """The folder for everything that can be made again: compiled kernels, broker jars."""
    return Path(os.environ.get("ONEPASS_CACHE_DIR") or Path.home() / ".cache" / "onepass")


def use_kernel_cache() -> None:
    """Point numba at the folder for the present sources; without a writable one, warn and compile anew.

    Then at one that ends with the process: numba insists on some.
    """
    digest = hashlib.sha256()
    for source in sorted(SOURCES.rglob("*.py")):
        digest.update(source.relative_to(SOURCES).as_posix().encode() + b"\0" + source.read_bytes() + b"\0")
    folder = cache_root() / "kernels" / digest.hexdigest()[:16]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "not writable")
    except OSError as error:
        print(
            f"onepass: kernels are not cached: {folder}: {error.strerror}; set ONEPASS_CACHE_DIR",
            file=sys.stderr,
        )
        folder = Path(tempfile.mkdtemp(prefix="onepass-kernels-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
