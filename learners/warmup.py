"""Compile every kernel of a learner by running it on two rows. This happens when the image is built
(`python -m learners.warmup`) and at start.
"""

from collections.abc import Iterable

import numpy as np

from learners.batch import Batch
from learners.drift.detector import Detector
from learners.drift.inputs import Inputs
from learners.drift.registry import DETECTORS, make_detector
from learners.evaluation.calibration import calibrate, fresh_calibration, probabilities
from learners.evaluation.history import fresh_history
from learners.evaluation.progress import fresh_progress, predict_labels
from learners.evaluation.quality import assess, fresh_quality
from learners.kernel.learner import KernelLearner
from learners.learner import Learner
from learners.registry import LEARNERS, make
from learners.state import State


def warm(
    learner: Learner, detectors: Iterable[Detector] = (), inputs: Inputs | None = None
) -> None:
    """Run each method of a bound learner once, and everything that evaluates its scores.

    The states are thrown away.
    """
    state, calibration, y = learner.init(3), fresh_calibration(), np.array([1.0, 0.0])
    X = Batch.from_rows([([0, 1], [1.0, 0.5]), ([0, 2], [1.0, 2.0])])
    scores = learner.learn(state, X, y)
    p, guess = calibrate(calibration, y, scores, X.weights), predict_labels(scores)
    probabilities(calibration, learner.scores(state, X))
    if learner.capabilities.stores_rows:
        for row in (X.rows(0, 1), None):
            learner.support_terms(state, row, 0, 1)
    assess(fresh_progress(), fresh_quality(2), fresh_history(), y, guess, p)
    for detector in detectors:
        detector.score(_watch_zeros(detector))
    if inputs is not None:
        watching = inputs.init(1)
        inputs.watch(watching, X, y, guess)
        inputs.psi(watching)


def _watch_zeros(detector: Detector) -> State:
    state = detector.init()
    detector.watch(state, np.zeros(2))
    return state


class Columns:
    """A layout for `bind`. The compiled code does not depend on it."""

    dense = True
    bias = True
    dim = 3


def warm_all() -> None:
    """Compile every learner, plain and inside each composition, and every detector."""
    for kind in LEARNERS:
        leaf = make(kind).bind(Columns())
        warm(leaf)
        warm(make({"kind": "one_vs_rest", "base": leaf}))
        if isinstance(leaf, KernelLearner):
            warm(make({"kind": "scaled", "center": True, "base": leaf}))
            continue
        averaged = make({"kind": "averaged", "base": leaf})
        warm(averaged)
        if not leaf.capabilities.why_not_scalable:
            for center in (True, False) if leaf.capabilities.takes_negative else (False,):
                warm(make({"kind": "scaled", "center": center, "base": averaged}))
    warm(make("pa1").bind(Columns()), map(make_detector, DETECTORS), Inputs())


if __name__ == "__main__":
    warm_all()
