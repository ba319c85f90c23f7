"""Compile every kernel that a learner uses, on two rows: at image build (`python -m learners.warmup`) and at start."""

from collections.abc import Iterable

import numpy as np

from learners.batch import Batch
from learners.calibration import calibrate, fresh_calibration, probabilities
from learners.drift.detector import Detector
from learners.drift.inputs import Inputs
from learners.drift.registry import DETECTORS, make_detector
from learners.dual.learner import KernelLearner
from learners.evaluation import fresh_progress
from learners.history import fresh_history
from learners.learner import Learner
from learners.outputs import predicted
from learners.quality import assess, fresh_quality
from learners.registry import LEARNERS, make
from learners.state import State


def warm(learner: Learner, detectors: Iterable[Detector] = (), inputs: Inputs | None = None) -> None:
    """Run each method of a settled learner once, and all that judges its scores, on throw-away states."""
    state, calibration, y = learner.init(3), fresh_calibration(), np.array([1.0, 0.0])
    X = Batch.from_rows([([0, 1], [1.0, 0.5]), ([0, 2], [1.0, 2.0])])
    scores = learner.learn(state, X, y)
    p, guess = calibrate(calibration, y, scores, X.weights), predicted(scores)
    probabilities(calibration, learner.scores(state, X))
    if learner.stores_rows():
        for row in (X.rows(0, 1), None):
            learner.influences(state, row, 0, 1)
    assess(fresh_progress(), fresh_quality(2), fresh_history(), y, guess, p)
    for detector in detectors:
        detector.score(_watched(detector))
    if inputs is not None:
        watching = inputs.init(1)
        inputs.watch(watching, X, y, guess)
        inputs.psi(watching)


def _watched(detector: Detector) -> State:
    state = detector.init()
    detector.watch(state, np.zeros(2))
    return state


class Columns:
    """The features by which choices that are left open are settled: what is compiled does not depend on them."""

    dense = True
    bias = True
    dim = 3


def warm_all() -> None:
    """Every registered learner, plain and inside each composition, and every detector."""
    for kind in LEARNERS:
        leaf = make(kind).settled(Columns())
        warm(leaf)
        warm(make({"kind": "one_vs_rest", "base": leaf}))
        if isinstance(leaf, KernelLearner):
            warm(make({"kind": "scaled", "center": True, "base": leaf}))
            continue
        averaged = make({"kind": "averaged", "base": leaf})
        warm(averaged)
        if not leaf.scalable():
            for center in (True, False) if leaf.takes_negative() else (False,):
                warm(make({"kind": "scaled", "center": center, "base": averaged}))
    warm(make("pa1").settled(Columns()), map(make_detector, DETECTORS), Inputs())


if __name__ == "__main__":
    warm_all()
