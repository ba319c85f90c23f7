"""Data files as events: each row of svmlight, CSV or JSON lines becomes the bytes a producer would send.

A file replayed and a file produced to a topic therefore pass the same decoder and teach the same bits.
"""

from service.files.conversion import Convert, converter, events, rows, scan
from service.files.datafile import DataFile
from service.files.phases import phased
from service.files.reading import Format, format_of
from service.files.schema import aligned, features_of, label_of

__all__ = [
    "Convert",
    "DataFile",
    "Format",
    "aligned",
    "converter",
    "events",
    "features_of",
    "format_of",
    "label_of",
    "phased",
    "rows",
    "scan",
]
