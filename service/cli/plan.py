"""What `onepass replay` is asked for: flags that go together, the file, its features and labels, the learners."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from learners.batch import Ints
from learners.drift.registry import make_detector
from learners.learner import Learner
from learners.registry import make
from service.cli.shaping import scanned
from service.configuration import load
from service.drift_settings import Drift
from service.errors import BadSettings
from service.files import DataFile, aligned, features_of, label_of, phased, scan
from service.fitting import sees_only_trees
from service.settings import Features, Label, Limits

NO_CHECKPOINT = (
    *("data", "test", "learner", "scale", "average", "multiclass", "positive", "tree", "bits", "shuffle", "limit"),
)
"""What a checkpoint says itself; nor has it phases, and its log is not drawn."""


class Plan(NamedTuple):
    """What is replayed and how."""

    data: DataFile
    test: DataFile | None
    features: Features
    label: Label
    limits: Limits
    learners: list[Learner]
    drift: Drift
    order: Ints | None = None
    """Rows as they come, where neither the file nor a shuffle says it."""


def check_alone(arguments: argparse.Namespace) -> None:
    """A checkpoint says itself what was learned and how."""
    if arguments.config is None:
        raise BadSettings("--lineage needs --config F")
    for name in (*NO_CHECKPOINT, "detector", "phases", "plot"):
        if getattr(arguments, name) not in (None, []) and getattr(arguments, name) is not False:  # a seed may be 0
            flag = "DATA" if name == "data" else f"--{name}"
            raise BadSettings(f"--lineage takes everything from the checkpoint: leave out {flag}")


def check_phases(arguments: argparse.Namespace) -> None:
    """The phases say themselves which rows come, in which order, and which are positive."""
    for name, why in {
        "config": "the configuration has its own classes",
        "multiclass": "they have two classes",
        "positive": "P1 and P2 are positive",
        "test": "it would be of the last phase alone",
    }.items():
        if getattr(arguments, name):
            raise BadSettings(f"--phases goes without --{name}: {why}")
    if arguments.passes > 1:
        raise BadSettings("--phases goes without --passes: a drift comes once")


def planned(arguments: argparse.Namespace) -> Plan:
    paths = [path for path in (arguments.data, arguments.test) if path is not None]
    if arguments.config is not None:
        return _by_config(paths, arguments)
    file, *test = aligned([scanned(path, arguments) for path in paths])
    leaves = [make(text) for text in arguments.learner or ["pa1"]]
    features = _features([file, *test], leaves, arguments)
    order = None
    if arguments.phases is not None:
        file, label, order = phased(file, arguments.phases, limit=arguments.limit, seed=arguments.shuffle or 0)
    else:
        label = label_of(file, positive=arguments.positive, multiclass=arguments.multiclass)
        _warn_of_classes(file, arguments)
    learners = [_composed(leaf, arguments, label) for leaf in leaves]
    drift = Drift() if arguments.detector is None else Drift(detectors=tuple(map(make_detector, arguments.detector)))
    return Plan(file, next(iter(test), None), features, label, Limits(), learners, drift, order)


def _features(files: Sequence[DataFile], learners: Sequence[Learner], arguments: argparse.Namespace) -> Features:
    only_tree = arguments.tree is not None and all(map(sees_only_trees, learners))
    kinds = {sees_only_trees(learner) for learner in learners if learner.takes_trees()}
    if arguments.tree is not None and len(kinds) > 1:
        raise BadSettings("a tree kernel alone sees no features, and another of these learners does: replay them apart")
    for flag in ("text", "bits") if only_tree else ():
        if getattr(arguments, flag):
            raise BadSettings(f"--{flag} is for features, and a tree kernel alone sees none: leave it out")
    return features_of(files, 18 if arguments.bits is None else arguments.bits, only_tree=only_tree)


def _by_config(paths: Sequence[Path], arguments: argparse.Namespace) -> Plan:
    for flag in ("learner", "detector", "scale", "average", "multiclass", "positive", "bits", "text", "tree", "drop"):
        if getattr(arguments, flag):
            raise BadSettings(f"--{flag} and --config say the same thing: leave one out")
    settings = load(arguments.config)
    file, *test = [scan(path, label=settings.label.field, tree=settings.features.tree) for path in paths]
    one = [settings.learner]
    return Plan(file, next(iter(test), None), settings.features, settings.label, settings.limits, one, settings.drift)


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
