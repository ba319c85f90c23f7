"""Turn the flags of `onepass replay` into a plan: data, features, labels and learners."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from learners.batch import Ints
from learners.drift.registry import make_detector
from learners.learner import Learner
from learners.registry import make
from service.cli.file_args import scan_file
from service.config.loader import load
from service.config.settings import Drift, Features, Label, Limits
from service.errors import SettingsError
from service.files import DataFile, align_columns, build_phases, features_of, label_of, scan
from service.model.configuration_checks import sees_only_trees


class Plan(NamedTuple):
    """Data, model settings and learners of one replay."""

    data: DataFile
    test: DataFile | None
    features: Features
    label: Label
    limits: Limits
    learners: list[Learner]
    drift: Drift
    order: Ints | None = None
    """Order of the rows, where `--phases` sets it."""


def check_phases(arguments: argparse.Namespace) -> None:
    """Refuse flags that `--phases` overrides: it sets rows, order and positive labels."""
    for name, why in {
        "config": "the configuration sets the classes",
        "multiclass": "the phases have two classes",
        "positive": "P1 and P2 are the positive labels",
        "test": "it could only match the last phase",
    }.items():
        if getattr(arguments, name):
            raise SettingsError(f"--phases does not go with --{name}: {why}")
    if arguments.passes > 1:
        raise SettingsError("--phases does not go with --passes: the drift happens once")


def make_plan(arguments: argparse.Namespace) -> Plan:
    paths = [path for path in (arguments.data, arguments.test) if path is not None]
    if arguments.config is not None:
        return _plan_from_config(paths, arguments)
    file, *test = align_columns([scan_file(path, arguments) for path in paths])
    leaves = [make(text) for text in arguments.learner or ["pa1"]]
    features = _features([file, *test], leaves, arguments)
    order = None
    if arguments.phases is not None:
        file, label, order = build_phases(
            file, arguments.phases, limit=arguments.limit, seed=arguments.shuffle or 0
        )
    else:
        label = label_of(file, positive=arguments.positive, multiclass=arguments.multiclass)
        _warn_about_classes(file, arguments)
    learners = [_compose(leaf, arguments, label) for leaf in leaves]
    drift = (
        Drift()
        if arguments.detector is None
        else Drift(detectors=tuple(map(make_detector, arguments.detector)))
    )
    return Plan(file, next(iter(test), None), features, label, Limits(), learners, drift, order)


def _features(
    files: Sequence[DataFile], learners: Sequence[Learner], arguments: argparse.Namespace
) -> Features:
    only_tree = arguments.tree is not None and all(map(sees_only_trees, learners))
    kinds = {sees_only_trees(learner) for learner in learners if learner.capabilities.takes_trees}
    if arguments.tree is not None and len(kinds) > 1:
        raise SettingsError(
            "one learner uses only the tree and another uses features too: replay them separately"
        )
    for flag in ("text", "bits") if only_tree else ():
        if getattr(arguments, flag):
            raise SettingsError(
                f"--{flag} is for features, which a plain tree kernel does not use: leave it out"
            )
    return features_of(files, 18 if arguments.bits is None else arguments.bits, only_tree=only_tree)


def _plan_from_config(paths: Sequence[Path], arguments: argparse.Namespace) -> Plan:
    for flag in (
        "learner",
        "detector",
        "scale",
        "average",
        "multiclass",
        "positive",
        "bits",
        "text",
        "tree",
        "drop",
    ):
        if getattr(arguments, flag):
            raise SettingsError(f"--{flag} and --config set the same thing: leave one out")
    settings = load(arguments.config)
    file, *test = [
        scan(path, label=settings.label.field, tree=settings.features.tree) for path in paths
    ]
    one = [settings.learner]
    return Plan(
        file,
        next(iter(test), None),
        settings.features,
        settings.label,
        settings.limits,
        one,
        settings.drift,
    )


def _warn_about_classes(file: DataFile, arguments: argparse.Namespace) -> None:
    """Warn if more than two numeric labels are read as two classes by their sign."""
    if len(file.labels) > 2 and arguments.positive is None and not arguments.multiclass:
        print(
            f"onepass replay: {len(file.labels)} different labels are read as two classes, above 0 "
            "and not above 0; give --multiclass or --positive V if you want something else",
            file=sys.stderr,
        )


def _compose(learner: Learner, arguments: argparse.Namespace, label: Label) -> Learner:
    """Wrap the learner in the only supported order: scaled(one_vs_rest(averaged(learner)))."""
    if arguments.average:
        learner = make({"kind": "averaged", "mode": arguments.average, "base": learner})
    if arguments.multiclass:
        learner = make({"kind": "one_vs_rest", "max_classes": label.max_classes, "base": learner})
    if arguments.scale:
        learner = make({"kind": "scaled", "scaler": arguments.scale, "base": learner})
    return learner
