"""`onepass replay`: one honest pass over a file, through the same decoder and worker as the service.

With `--lineage` over the log of a checkpoint instead: see `service.cli.lineage`.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from learners.calibration import calibration_error
from learners.evaluation import report
from learners.learner import Learner, state_digest
from learners.registry import make
from learners.warmup import warm
from service.cli.lineage import replay_lineage
from service.cli.passes import further_passes
from service.cli.shaping import add_file_flags, scanned
from service.configuration import load
from service.errors import BadSettings, refused
from service.events import Decoder, Event
from service.files import DataFile, aligned, features_of, label_of, scan
from service.model import Model
from service.offline import ROUND, one_pass
from service.settings import Features, Label, Limits
from service.sources.file import FileSource
from service.status import counts_of


class Plan(NamedTuple):
    """What is replayed and how."""

    data: DataFile
    test: DataFile | None
    features: Features
    label: Label
    limits: Limits
    learners: list[Learner]


def configure(parser: argparse.ArgumentParser) -> None:
    add_file_flags(parser, needed=False)
    parser.add_argument("--config", type=Path, metavar="F", help="take features, label and learner from a model's file")
    parser.add_argument("--test", type=Path, metavar="DATA", help="rows for the frozen model to score afterwards")
    parser.add_argument("--learner", action="append", metavar="L", help="kind, kind:C=0.1 or JSON; may be repeated")
    parser.add_argument("--scale", choices=["gn"], help="scale features by their running mean and deviation")
    parser.add_argument("--average", choices=["avg", "vote"], help="predict with averaged weights")
    parser.add_argument("--multiclass", action="store_true", help="one-vs-rest over the labels as they appear")
    parser.add_argument("--positive", metavar="V", help="the label of the positive class")
    parser.add_argument("--bits", type=int, metavar="N", help="hash into 2^N slots (default: 18)")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="permute the rows (default: file order)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N rows of the order")
    parser.add_argument("--passes", type=int, default=1, metavar="N", help="passes over the rows (default: 1)")
    parser.add_argument("--lineage", action="store_true", help="instead of DATA: a checkpoint's own log, and compare")
    parser.add_argument("--generation", type=int, metavar="G", help="with --lineage: which one (default: the newest)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.epilog = (
        "example:\n  onepass replay heart.svm.gz --learner pa1:C=0.01 --scale gn --shuffle 0 --json\n"
        "  onepass replay --config fraud.yaml --lineage"
    )


def execute(command: str, arguments: argparse.Namespace) -> int:
    if arguments.lineage:
        _check_alone(arguments)
        return replay_lineage(command, arguments)
    if arguments.data is None:
        raise BadSettings(f"DATA is missing, or --config F --lineage; see onepass {command} --help")
    if arguments.generation is not None:
        raise BadSettings("--generation goes with --lineage")
    if arguments.limit is not None and arguments.limit < 1:
        raise BadSettings("--limit must be at least 1")
    with refused():
        plan = _plan(arguments)
    runs = [_replay(plan, learner, arguments) for learner in plan.learners]
    if arguments.json:
        print(json.dumps(runs[0] if len(runs) == 1 else {"runs": runs}))
    else:
        for run in runs:
            print(_in_words(run))
    return 0


def _check_alone(arguments: argparse.Namespace) -> None:
    """A checkpoint says itself what was learned and how."""
    if arguments.config is None:
        raise BadSettings("--lineage needs --config F")
    for name in ("data", "test", "learner", "scale", "average", "multiclass", "positive", "bits", "shuffle", "limit"):
        if getattr(arguments, name) not in (None, []) and getattr(arguments, name) is not False:  # a seed may be 0
            flag = "DATA" if name == "data" else f"--{name}"
            raise BadSettings(f"--lineage takes everything from the checkpoint: leave out {flag}")


def _plan(arguments: argparse.Namespace) -> Plan:
    if arguments.config is None:
        files = [scanned(path, arguments) for path in (arguments.data, arguments.test) if path is not None]
        files = list(aligned(files))
        features = features_of(files, 18 if arguments.bits is None else arguments.bits)
        label = label_of(files[0], positive=arguments.positive, multiclass=arguments.multiclass)
        _warn_of_classes(files[0], arguments)
        learners = [_composed(make(text), arguments, label) for text in arguments.learner or ["pa1"]]
        return Plan(files[0], files[1] if len(files) > 1 else None, features, label, Limits(), learners)
    flags = ("learner", "scale", "average", "multiclass", "positive", "bits", "text", "drop")
    for flag in flags:
        if getattr(arguments, flag):
            raise BadSettings(f"--{flag} and --config say the same thing: leave one out")
    settings = load(arguments.config)
    files = [scan(path, label=settings.label.field) for path in (arguments.data, arguments.test) if path is not None]
    test = files[1] if len(files) > 1 else None
    return Plan(files[0], test, settings.features, settings.label, settings.limits, [settings.learner])


def _warn_of_classes(file: DataFile, arguments: argparse.Namespace) -> None:
    """Numbers above and below 0 are two classes by rule; ten of them are more likely ten classes."""
    if len(file.labels) > 2 and arguments.positive is None and not arguments.multiclass:
        print(
            f"onepass replay: {len(file.labels)} different labels are taken as two classes, above 0 and not; "
            "give --multiclass or --positive V if that is not meant",
            file=sys.stderr,
        )


def _composed(learner: Learner, arguments: argparse.Namespace, label: Label) -> Learner:
    """The one order of composition: scaled(one_vs_rest(averaged(learner)))."""
    if arguments.average:
        learner = make({"kind": "averaged", "mode": arguments.average, "base": learner})
    if arguments.multiclass:
        learner = make({"kind": "one_vs_rest", "max_classes": label.max_classes, "base": learner})
    if arguments.scale:
        learner = make({"kind": "scaled", "scaler": arguments.scale, "base": learner})
    return learner


def _replay(plan: Plan, learner: Learner, arguments: argparse.Namespace) -> dict[str, Any]:
    decoder = Decoder(plan.features, plan.label, plan.limits)
    with refused():
        model = Model(learner, plan.features, plan.label, decoder)
    with refused():
        source = FileSource(plan.data, shuffle=arguments.shuffle, limit=arguments.limit)
    warm(model.learner)  # compiling is not part of the speed
    total = sum(source.lag().values())
    started = time.perf_counter()
    with tqdm(total=total, unit=" events", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:
        store = one_pass(model, decoder, source, lambda: _show(bar, source))
    seconds = time.perf_counter() - started
    saved = store.newest()
    run = {
        **counts_of(model),
        "calibration_error": calibration_error(model.calibration),
        "events_per_second": round(total / seconds) if seconds else 0,
        "learner": model.made_with["learner"],
        "state_digest": saved.state_digest if saved else None,
    }
    if arguments.passes > 1:
        fresh = Model(learner, plan.features, plan.label, decoder)
        several = {"passes": arguments.passes, "shuffle": arguments.shuffle, "limit": arguments.limit}
        run["passes"] = further_passes(model, fresh, decoder, plan.data, **several)
        run["state_digest"] = state_digest(model.state)
    return run | ({"test": _tested(plan.test, decoder, model)} if plan.test else {})


def _show(bar: "tqdm[Any]", source: FileSource) -> None:
    bar.update(int(source.bookmark().positions["0"]) - bar.n)


def _tested(file: DataFile, decoder: Decoder, model: Model) -> dict[str, Any]:
    """Score rows by the frozen model; `events` says how many of them were events."""
    truth: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    source = FileSource(file)
    while records := source.poll(0.0, ROUND):
        decoded = [decoder.event(record.value) for record in records]
        y, s = model.examine([event for event in decoded if isinstance(event, Event)])
        truth.append(y)
        scores.append(s)
    source.close()
    return report(np.concatenate(truth), np.concatenate(scores))._asdict()


def _rejects(run: dict[str, Any]) -> str:
    """How many events were rejected and why; a reason that a flag would cure names the flag."""
    if not run["rejects"]:
        return "0 rejects"
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in run["rejects_by_reason"].items())
    hint = "; is a long string a text? see --text" if "too_long" in run["rejects_by_reason"] else ""
    return f"{run['rejects']:,} rejects ({reasons}{hint})"


def _in_words(run: dict[str, Any]) -> str:
    text = (
        f"{run['events']:,} events, {run['errors']:,} errors ({run['error_rate']:.4f}), "
        f"last 1000 {run['error_rate_last_1000']:.4f}, {run['updates']:,} updates, {_rejects(run)}, "
        f"{run['events_per_second']:,} events/s"
    )
    if "test" in run:
        test = run["test"]
        text += f"\ntest: {test['events']:,} events, accuracy {test['accuracy']:.4f}, F1 {test['f1']:.4f}"
    return f"{json.dumps(run['learner'])}\n{text}\nstate {run['state_digest']}"
