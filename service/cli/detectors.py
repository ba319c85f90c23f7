"""`onepass detectors`: the drift detectors that can be configured, read off their registry."""

import argparse

from learners.description import describe_detector
from learners.drift.registry import DETECTORS
from service.cli.learners import show


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.epilog = "example:\n  onepass detectors --json"


def execute(command: str, arguments: argparse.Namespace) -> int:
    del command
    return show([describe_detector(kind) for kind in DETECTORS], as_json=arguments.json)
