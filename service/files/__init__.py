"""Data files as events: each row of svmlight, CSV or JSON lines becomes an event's bytes.

They are the bytes that a producer would send. So a `replay` of a file and a topic that got the same
file use the same decoder and give the same model bit by bit.
"""

from service.files.convert import Convert, converter, events, rows, scan
from service.files.datafile import DataFile
from service.files.drift_phases import build_phases
from service.files.records import Format, format_of
from service.files.schema import align_columns, features_of, label_of

__all__ = [
    "Convert",
    "DataFile",
    "Format",
    "align_columns",
    "build_phases",
    "converter",
    "events",
    "features_of",
    "format_of",
    "label_of",
    "rows",
    "scan",
]
