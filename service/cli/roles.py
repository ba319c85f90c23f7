"""`onepass run`, `learn` and `serve`: the roles of a configured model."""

import argparse
import json
from pathlib import Path

from service.app import Role, Service
from service.errors import BadSettings
from service.settings import load


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, required=True, metavar="F", help="YAML file of the model")
    parser.add_argument(
        "--until-end",
        action="store_true",
        help="stop, checkpointed, at the end that the log has at the start, and print the status as JSON",
    )
    parser.epilog = f"example:\n  {parser.prog} --config fraud.yaml"


def execute(command: str, arguments: argparse.Namespace) -> int:
    if command == "serve" and arguments.until_end:
        raise BadSettings("serve reads no log: leave out --until-end")
    role: Role = "run" if command == "run" else "learn" if command == "learn" else "serve"
    service = Service(load(arguments.config), role, until_end=arguments.until_end)
    status = service.run()
    if arguments.until_end and status == 0:
        print(json.dumps(service.status()))
    return status
