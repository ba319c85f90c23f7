"""Flags that say how a file's rows become events; `replay` and `produce` share them."""

import argparse
from pathlib import Path

from service.files import DataFile, scan


def add_file_flags(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", type=Path, metavar="DATA", help="svmlight, CSV or JSON lines, plain or gzip")
    add("--label", default="label", metavar="COL", help="field of the label (default: label)")
    add("--text", action="append", default=[], metavar="FIELD", help="a text field; repeatable")
    add(
        "--drop",
        action="append",
        default=[],
        metavar="COL",
        help="a column to leave out; repeatable",
    )
    add("--tree", metavar="FIELD", help="a field with bracketed parses, for tree kernels")


def scan_file(path: Path, arguments: argparse.Namespace) -> DataFile:
    return scan(
        path, label=arguments.label, text=arguments.text, drop=arguments.drop, tree=arguments.tree
    )
