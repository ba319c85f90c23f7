"""`onepass audit`: rebuild a checkpoint's model from its log and compare it bit for bit."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from service.checkpoint.store import StoreUnavailableError
from service.cli.tables import count_records, count_words
from service.config.loader import load
from service.operations.audit import audit, read_audited
from service.sources.base import SourceUnavailableError


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, required=True, metavar="F", help="YAML file of the model"
    )
    parser.add_argument(
        "--generation", type=int, metavar="G", help="generation to audit (default: the newest)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.epilog = (
        "exit status: 0 if the rebuilt model is identical, 1 if it differs, 3 if the log or the\n"
        "lineage no longer has all records\n\n"
        "example:\n  onepass audit --config fraud.yaml"
    )


def execute(command: str, arguments: argparse.Namespace) -> int:
    settings = load(arguments.config)
    try:
        audited = read_audited(settings, arguments.generation)
        hidden = not sys.stderr.isatty()
        with tqdm(total=audited.records, unit=" records", disable=hidden, file=sys.stderr) as bar:
            outcome = audit(settings, audited, bar.update)
    except (StoreUnavailableError, SourceUnavailableError) as error:
        print(f"onepass {command}: {error}", file=sys.stderr)
        return 1
    print(json.dumps(outcome) if arguments.json else _format(outcome))
    return 0 if outcome["identical"] else 1


def _format(outcome: dict[str, Any]) -> str:
    lines = [f"generation {outcome['generation']}: {count_records(outcome)}"]
    for side in ("checkpoint", "rebuilt"):
        facts = outcome[side]
        rejects = sum(facts["rejects_by_reason"].values())
        counts = ", ".join(
            count_words(number, word)
            for number, word in (
                (facts["events"], "event"),
                (facts["errors"], "error"),
                (rejects, "reject"),
            )
        )
        lines.append(
            f"{side:10}  state {facts['state_digest']}  checksum {facts['checksum']}  {counts}"
        )
    lines.append(
        "identical" if outcome["identical"] else f"different: {', '.join(outcome['different'])}"
    )
    return "\n".join(lines)
