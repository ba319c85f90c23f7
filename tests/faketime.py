"""libfaketime, the library that gives a process another clock (Debian's package libfaketime)."""

from pathlib import Path

PLACES = "*/faketime/libfaketime.so.1"
FAKETIME = next(Path("/usr/lib").glob(PLACES), Path("/usr/lib/faketime/libfaketime.so.1"))
"""Path of the library. The file does not exist where the package is not installed."""
