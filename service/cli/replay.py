"""`onepass replay`: one honest pass over a file, through the same decoder and worker as the service.

With `--lineage` over the log of a checkpoint instead: see `service.cli.lineage`.
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from tqdm import tqdm

from learners.evaluation import report
from learners.learner import Learner
from learners.state import state_digest
from service.alarms import Alarm
from service.cli.lineage import replay_lineage
from service.cli.passes import further_passes
from service.cli.plan import Plan, check_alone, check_phases, planned
from service.cli.shaping import add_file_flags
from service.errors import BadSettings, refused
from service.events import Decoder, Event
from service.files import DataFile
from service.files.phases import sections_of
from service.model import Model
from service.offline import ROUND, one_pass
from service.pictures import Curve, Panel, check_picture, draw
from service.quality_report import quality_of
from service.sources.file import FileSource
from service.status import counts_of
from service.stored import stock_of
from service.trail import Trail, curves_of
from service.warming import warmed

NAMES = 65_536
"""Of hashed features that are kept, so that alarms can name them."""


class Run(NamedTuple):
    """What is told of one learner, and what is drawn."""

    told: dict[str, Any]
    curve: Curve
    baselines: list[Curve]


def configure(parser: argparse.ArgumentParser) -> None:
    add_file_flags(parser, needed=False)
    parser.add_argument("--config", type=Path, metavar="F", help="take features, label and learner from a model's file")
    parser.add_argument("--test", type=Path, metavar="DATA", help="rows for the frozen model to score afterwards")
    parser.add_argument("--learner", action="append", metavar="L", help="kind, kind:C=0.1 or JSON; may be repeated")
    parser.add_argument("--detector", action="append", metavar="D", help="of drift: adwin, ddm:alarm=4 or JSON")
    parser.add_argument("--scale", choices=["gn"], help="scale features by their running mean and deviation")
    parser.add_argument("--average", choices=["avg", "vote"], help="predict with averaged weights")
    parser.add_argument("--multiclass", action="store_true", help="one-vs-rest over the labels as they appear")
    parser.add_argument("--positive", metavar="V", help="the label of the positive class")
    parser.add_argument("--bits", type=int, metavar="N", help="hash into 2^N slots (default: 18)")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="permute the rows (default: file order)")
    parser.add_argument("--limit", type=int, metavar="N", help="only the first N rows of the order")
    parser.add_argument("--passes", type=int, default=1, metavar="N", help="passes over the rows (default: 1)")
    parser.add_argument(
        "--phases",
        metavar="P1,P2,N1,N2",
        help="a drift of four labels, the first two positive: --limit/4 events a phase, drawn by --shuffle (or 0)",
    )
    parser.add_argument("--plot", type=Path, metavar="F", help="draw the errors along the pass: F.png or F.svg")
    parser.add_argument("--lineage", action="store_true", help="instead of DATA: a checkpoint's own log, and compare")
    parser.add_argument("--generation", type=int, metavar="G", help="with --lineage: which one (default: the newest)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.epilog = (
        "example:\n  onepass replay heart.svm.gz --learner pa1:C=0.01 --scale gn --shuffle 0 --json\n"
        "  onepass replay electricity.csv.gz --positive UP --learner pa1 --learner arow --scale gn --plot errors.svg\n"
        "  onepass replay --config fraud.yaml --lineage"
    )


def execute(command: str, arguments: argparse.Namespace) -> int:
    if arguments.lineage:
        check_alone(arguments)
        return replay_lineage(command, arguments)
    if arguments.data is None:
        raise BadSettings(f"DATA is missing, or --config F --lineage; see onepass {command} --help")
    if arguments.generation is not None:
        raise BadSettings("--generation goes with --lineage")
    if arguments.limit is not None and arguments.limit < 1:
        raise BadSettings("--limit must be at least 1")
    if arguments.shuffle is not None and arguments.shuffle < 0:
        raise BadSettings("--shuffle is a seed, from 0 up")
    if arguments.phases is not None:
        check_phases(arguments)
    if arguments.plot is not None:
        check_picture(arguments.plot)
    with refused():
        plan = planned(arguments)
    runs = [_replay(plan, learner, arguments) for learner in plan.learners]
    told = [run.told for run in runs]
    if arguments.json:
        print(json.dumps(told[0] if len(told) == 1 else {"runs": told}))
    else:
        for run in told:
            print(_in_words(run))
    if arguments.plot is not None:
        try:
            _draw(runs, plan, arguments)
        except OSError as error:
            print(f"onepass {command}: {arguments.plot} cannot be written: {error.strerror}", file=sys.stderr)
            return 1
    return 0


def _replay(plan: Plan, learner: Learner, arguments: argparse.Namespace) -> Run:
    decoder = Decoder(plan.features, plan.label, plan.limits, NAMES)
    with refused():
        model = Model(learner, plan.features, plan.label, decoder, plan.drift)
    with refused():
        shuffle = arguments.shuffle if plan.order is None else None
        source = FileSource(plan.data, shuffle=shuffle, order=plan.order, limit=arguments.limit)
    warmed(model.learner, plan.drift, lambda words: print(f"onepass replay: {words}", file=sys.stderr))
    trail = Trail()
    total = sum(source.lag().values())
    started = time.perf_counter()
    with tqdm(total=total, unit=" events", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:
        store = one_pass(model, decoder, source, lambda: _show(bar, source), alarms=trail)
    seconds = time.perf_counter() - started
    saved = store.newest()
    run = {
        **counts_of(model),
        "support": stock_of(model),
        "quality": quality_of(model),
        "alarms": [_told(alarm) for alarm in trail.alarms],
        "events_per_second": round(total / seconds) if seconds else 0,
        "learner": model.made_with["learner"],
        "state_digest": saved.state_digest if saved else None,
    }
    if arguments.passes > 1:
        fresh = Model(learner, plan.features, plan.label, decoder, plan.drift)
        several = {"passes": arguments.passes, "shuffle": arguments.shuffle, "limit": arguments.limit}
        run["passes"] = further_passes(model, fresh, decoder, plan.data, **several)
        run["state_digest"] = state_digest(model.state)
    if plan.test:
        run["test"] = _tested(plan.test, decoder, model)
    return Run(run, *curves_of(model, _name(learner), trail))


def _told(alarm: Alarm) -> dict[str, Any]:
    """Without a time: the same pass tells the same."""
    return {name: value for name, value in msgspec.to_builtins(alarm).items() if name != "at"}


def _name(learner: Learner) -> str:
    """Kinds as they are composed, each with the parameters that are not its defaults: scaled(pa1:C=0.1)."""
    said = learner.model_dump(exclude_defaults=True, exclude={"kind", "base"})
    parameters = ",".join(f"{name}={value}" for name, value in said.items())
    name = f"{learner.kind}:{parameters}" if parameters else learner.kind
    base = getattr(learner, "base", None)
    return f"{name}({_name(base)})" if isinstance(base, Learner) else name


def _draw(runs: list[Run], plan: Plan, arguments: argparse.Namespace) -> None:
    """Baselines go by the labels alone, so those of the first run stand for all."""
    drawn = [run for run in runs if run.curve.events.size]
    if not drawn:
        print(f"onepass replay: no event was learned, so {arguments.plot} was not drawn", file=sys.stderr)
        return
    sections = [] if plan.order is None else sections_of(plan.order)
    draw(arguments.plot, [Panel(arguments.data.name, [run.curve for run in drawn], drawn[0].baselines, sections)])


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


def _stored(run: dict[str, Any]) -> str:
    """How many rows a kernel learner has stored, and updates that were dropped, for want of room or otherwise."""
    support, dropped = run["support"], run["dropped"]
    rows = f"{support['rows']:,} of {support['room']:,} rows stored, " if support else ""
    return rows + (f"{dropped:,} updates dropped, " if dropped else "")


def _in_words(run: dict[str, Any]) -> str:
    text = (
        f"{run['events']:,} events, {run['errors']:,} errors ({run['error_rate']:.4f}), "
        f"last 1000 {run['error_rate_last_1000']:.4f}, {run['updates']:,} updates, {_stored(run)}{_rejects(run)}, "
        f"{run['events_per_second']:,} events/s"
    )
    if "test" in run:
        test = run["test"]
        text += f"\ntest: {test['events']:,} events, accuracy {test['accuracy']:.4f}, F1 {test['f1']:.4f}"
    return f"{json.dumps(run['learner'])}\n{text}\n{_beside(run)}\nstate {run['state_digest']}"


def _beside(run: dict[str, Any]) -> str:
    """What would have been without a learner, and what the detectors said."""
    baselines = {name: rates["error_rate"] for name, rates in run["quality"]["baselines"].items()}
    rates = ", ".join(f"{name.replace('_', ' ')} {rate or 0.0:.4f}" for name, rate in baselines.items())
    alarms = Counter(f"{alarm['detector']} {alarm['change']}" for alarm in run["alarms"])
    return f"baselines: {rates}; drift: {', '.join(f'{what} {n:,}' for what, n in sorted(alarms.items())) or 'none'}"
