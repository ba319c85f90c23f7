"""`onepass replay`: one predict-then-update pass over a file, by the service's own worker."""

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

from learners.evaluation.progress import report
from learners.learner import Learner
from learners.state import state_digest
from service.cli.file_args import add_file_flags
from service.cli.replay.passes import further_passes
from service.cli.replay.plan import Plan, check_phases, make_plan
from service.consumer.wiring import REPLAY_RECORDS, Learning, replay
from service.errors import SettingsError, as_settings_error
from service.features.decoder import Decoder, Event
from service.files import DataFile
from service.files.drift_phases import sections_of
from service.model.alarms import Alarm
from service.model.explain import stock_of
from service.model.model import Model
from service.monitoring.status import counts_of, quality_of
from service.plotting import AlarmRecorder, Curve, Panel, check_picture, curves_of, draw
from service.sources.file import FileSource
from service.warmup import warm_up

NAMES = 65_536
"""Number of hashed feature names to keep, so that alarms can name features."""


class Run(NamedTuple):
    """Results of one learner: figures to print and curves to draw."""

    figures: dict[str, Any]
    curve: Curve
    baselines: list[Curve]


def configure(parser: argparse.ArgumentParser) -> None:
    add_file_flags(parser)
    add = parser.add_argument
    model = "take features, label and learner from a model's YAML file"
    phases = (
        "simulate drift with four labels, P1 and P2 positive: --limit/4 events per phase, drawn "
        "with the seed --shuffle (default: 0)"
    )
    detector = "drift detector: adwin, ddm:alarm=4 or JSON; repeatable"
    add("--config", type=Path, metavar="F", help=model)
    add("--test", type=Path, metavar="DATA", help="rows to score with the final model")
    add("--learner", action="append", metavar="L", help="kind, kind:C=0.1 or JSON; repeatable")
    add("--detector", action="append", metavar="D", help=detector)
    add("--scale", choices=["gn"], help="scale features by their running mean and deviation")
    add("--average", choices=["avg", "vote"], help="predict with averaged weights")
    add("--multiclass", action="store_true", help="one-vs-rest over the labels as they appear")
    add("--positive", metavar="V", help="the label of the positive class")
    add("--bits", type=int, metavar="N", help="hash into 2^N slots (default: 18)")
    add("--shuffle", type=int, metavar="SEED", help="permute the rows (default: file order)")
    add("--limit", type=int, metavar="N", help="use only the first N rows of the order")
    add("--passes", type=int, default=1, metavar="N", help="passes over the rows (default: 1)")
    add("--phases", metavar="P1,P2,N1,N2", help=phases)
    add("--plot", type=Path, metavar="F", help="draw the error curves: F.png or F.svg")
    add("--json", action="store_true", help="print one JSON document")
    parser.epilog = (
        "example:\n"
        "  onepass replay heart.svm.gz --learner pa1:C=0.01 --scale gn --shuffle 0 --json\n"
        "  onepass replay electricity.csv.gz --positive UP --learner pa1 --learner arow "
        "--scale gn --plot errors.svg"
    )


def execute(command: str, arguments: argparse.Namespace) -> int:
    if arguments.limit is not None and arguments.limit < 1:
        raise SettingsError("--limit must be at least 1")
    if arguments.shuffle is not None and arguments.shuffle < 0:
        raise SettingsError("--shuffle is a seed and must be 0 or more")
    if arguments.phases is not None:
        check_phases(arguments)
    if arguments.plot is not None:
        check_picture(arguments.plot)
    with as_settings_error():
        plan = make_plan(arguments)
    runs = [_replay(plan, learner, arguments) for learner in plan.learners]
    figures = [run.figures for run in runs]
    if arguments.json:
        print(json.dumps(figures[0] if len(figures) == 1 else {"runs": figures}))
    else:
        for run in figures:
            print(_format(run))
    if arguments.plot is not None:
        try:
            _draw_curves(runs, plan, arguments)
        except OSError as error:
            print(
                f"onepass {command}: {arguments.plot} cannot be written: {error.strerror}",
                file=sys.stderr,
            )
            return 1
    return 0


def _replay(plan: Plan, learner: Learner, arguments: argparse.Namespace) -> Run:
    decoder = Decoder(plan.features, plan.label, plan.limits, NAMES)
    with as_settings_error():
        model = Model(learner, plan.features, plan.label, decoder, plan.drift)
    with as_settings_error():
        shuffle = arguments.shuffle if plan.order is None else None
        source = FileSource(plan.data, shuffle=shuffle, order=plan.order, limit=arguments.limit)
    warm_up(
        model.learner, plan.drift, lambda words: print(f"onepass replay: {words}", file=sys.stderr)
    )
    recorder = AlarmRecorder()
    total = sum(source.lag().values())
    started = time.perf_counter()
    with tqdm(total=total, unit=" events", disable=not sys.stderr.isatty(), file=sys.stderr) as bar:
        store = replay(
            Learning(decoder, model), source, lambda: _update_bar(bar, source), alarms=recorder
        )
    seconds = time.perf_counter() - started
    saved = store.newest()
    run = {
        **counts_of(model),
        "support": stock_of(model),
        "quality": quality_of(model),
        "alarms": [_alarm_figures(alarm) for alarm in recorder.alarms],
        "events_per_second": round(total / seconds) if seconds else 0,
        "learner": model.spec["learner"],
        "state_digest": saved.state_digest if saved else None,
    }
    if arguments.passes > 1:
        fresh = Model(learner, plan.features, plan.label, decoder, plan.drift)
        options = {
            "passes": arguments.passes,
            "shuffle": arguments.shuffle,
            "limit": arguments.limit,
        }
        run["passes"] = further_passes(model, fresh, decoder, plan.data, **options)
        run["state_digest"] = state_digest(model.state)
    if plan.test:
        run["test"] = _score_test(plan.test, decoder, model)
    return Run(run, *curves_of(model, _name(learner), recorder))


def _alarm_figures(alarm: Alarm) -> dict[str, Any]:
    """An alarm without its time, so that the same pass prints the same figures."""
    return {name: value for name, value in msgspec.to_builtins(alarm).items() if name != "at"}


def _name(learner: Learner) -> str:
    """Spell a composition with the parameters that are not defaults: scaled(pa1:C=0.1)."""
    parameters_set = learner.model_dump(exclude_defaults=True, exclude={"kind", "base"})
    parameters = ",".join(f"{name}={value}" for name, value in parameters_set.items())
    name = f"{learner.kind}:{parameters}" if parameters else learner.kind
    base = getattr(learner, "base", None)
    return f"{name}({_name(base)})" if isinstance(base, Learner) else name


def _draw_curves(runs: list[Run], plan: Plan, arguments: argparse.Namespace) -> None:
    """Draw one panel. Baselines depend only on the labels, so those of the first run serve all."""
    drawn = [run for run in runs if run.curve.events.size]
    if not drawn:
        print(
            f"onepass replay: no event was learned, so {arguments.plot} is not written",
            file=sys.stderr,
        )
        return
    sections = [] if plan.order is None else sections_of(plan.order)
    draw(
        arguments.plot,
        [Panel(arguments.data.name, [run.curve for run in drawn], drawn[0].baselines, sections)],
    )


def _update_bar(bar: "tqdm[Any]", source: FileSource) -> None:
    bar.update(int(source.bookmark().positions["0"]) - bar.n)


def _score_test(file: DataFile, decoder: Decoder, model: Model) -> dict[str, Any]:
    """Score the test rows with the final model; `events` counts the rows that were valid events."""
    truth: list[np.ndarray] = []
    scores: list[np.ndarray] = []
    source = FileSource(file)
    while records := source.poll(0.0, REPLAY_RECORDS):
        decoded = [decoder.event(record.value) for record in records]
        y, s = model.score_labelled([event for event in decoded if isinstance(event, Event)])
        truth.append(y)
        scores.append(s)
    source.close()
    return report(np.concatenate(truth), np.concatenate(scores))._asdict()


def _format_rejects(run: dict[str, Any]) -> str:
    """Count rejected events by reason, and name the flag that may help."""
    if not run["rejects"]:
        return "0 rejects"
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in run["rejects_by_reason"].items())
    hint = "; for long text fields see --text" if "too_long" in run["rejects_by_reason"] else ""
    return f"{run['rejects']:,} rejects ({reasons}{hint})"


def _format_support(run: dict[str, Any]) -> str:
    """Count the rows that a kernel learner stores and the updates that were dropped."""
    support, dropped = run["support"], run["dropped_updates"]
    rows = f"{support['rows']:,} of {support['room']:,} rows stored, " if support else ""
    return rows + (f"{dropped:,} updates dropped, " if dropped else "")


def _format(run: dict[str, Any]) -> str:
    text = (
        f"{run['events']:,} events, {run['errors']:,} errors ({run['error_rate']:.4f}), "
        f"last 1000 {run['error_rate_last_1000']:.4f}, {run['updates']:,} updates, "
        f"{_format_support(run)}{_format_rejects(run)}, "
        f"{run['events_per_second']:,} events/s"
    )
    if "test" in run:
        test = run["test"]
        scores = f"accuracy {test['accuracy']:.4f}, F1 {test['f1']:.4f}"
        text += f"\ntest: {test['events']:,} events, {scores}"
    return (
        f"{json.dumps(run['learner'])}\n{text}\n{_format_drift(run)}\nstate {run['state_digest']}"
    )


def _format_drift(run: dict[str, Any]) -> str:
    """Error rates of the baselines, and alarms per detector."""
    baselines = {name: rates["error_rate"] for name, rates in run["quality"]["baselines"].items()}
    rates = ", ".join(
        f"{name.replace('_', ' ')} {rate or 0.0:.4f}" for name, rate in baselines.items()
    )
    alarms = Counter(f"{alarm['detector']} {alarm['change']}" for alarm in run["alarms"])
    drift = ", ".join(f"{what} {n:,}" for what, n in sorted(alarms.items()))
    return f"baselines: {rates}; drift: {drift or 'none'}"
