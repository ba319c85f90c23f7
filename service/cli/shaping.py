"""Flags that say how a file's rows become events, the same for `replay` and `produce`; and files read by them."""

import argparse
from pathlib import Path

from service.files import DataFile, scan


def add_file_flags(parser: argparse.ArgumentParser, *, needed: bool = True) -> None:
    help_text = "svmlight, CSV or JSON lines, plain or gzip"
    parser.add_argument("data", type=Path, metavar="DATA", nargs=None if needed else "?", help=help_text)
    parser.add_argument("--label", default="label", metavar="COL", help="field of the label (default: label)")
    parser.add_argument("--text", action="append", default=[], metavar="FIELD", help="a text field; may be repeated")
    parser.add_argument("--drop", action="append", default=[], metavar="COL", help="a column to leave out; repeatable")
    parser.add_argument("--tree", metavar="FIELD", help="a field with bracketed parses, for tree kernels")


def scanned(path: Path, arguments: argparse.Namespace) -> DataFile:
    return scan(path, label=arguments.label, text=arguments.text, drop=arguments.drop, tree=arguments.tree)
