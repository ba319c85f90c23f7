"""`onepass run`, `learn` and `serve`: run a model in one of its roles."""

import argparse
import json
from pathlib import Path

from learners.state import state_digest
from service.app import Role, Service
from service.config.loader import load
from service.logs import register_secrets


def configure(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(until_end=False, start_fresh=False)
    parser.add_argument(
        "--config", type=Path, required=True, metavar="F", help="YAML file of the model"
    )
    if not parser.prog.endswith("serve"):  # a replica reads no log
        help_text = (
            "stop at the present end of the log, write a checkpoint, print the status as JSON"
        )
        parser.add_argument("--until-end", action="store_true", help=help_text)
        help_text = "if no checkpoint can be read, start with an empty model instead of stopping"
        parser.add_argument("--start-fresh", action="store_true", help=help_text)
    help_text = "listen on a public address without keys; only behind a proxy that authenticates"
    parser.add_argument("--insecure", action="store_true", help=help_text)
    parser.epilog = f"example:\n  {parser.prog} --config fraud.yaml"


def execute(command: str, arguments: argparse.Namespace) -> int:
    role: Role = "run" if command == "run" else "learn" if command == "learn" else "serve"
    flags = {
        "until_end": arguments.until_end,
        "start_fresh": arguments.start_fresh,
        "insecure": arguments.insecure,
    }
    settings = load(arguments.config)
    register_secrets(settings)
    service = Service(settings, role, **flags)
    status = service.run()
    if arguments.until_end and status == 0:
        final = {
            key: value
            for key, value in service.status().items()
            if key not in {"ready", "waiting_for"}
        }
        # The last checkpoint holds the whole state, so its digest is the state's.
        final["checkpoint"]["state_digest"] = state_digest(service.model.state)
        print(json.dumps(final))
    return status
