"""Compile every kernel that a learner uses, on two rows: at image build (`python -m learners.warmup`) and at start."""

import numpy as np

from learners.batch import Batch
from learners.calibration import calibrate, fresh_calibration, probabilities
from learners.evaluation import fresh_progress
from learners.history import fresh_history
from learners.learner import Learner
from learners.outputs import predicted
from learners.quality import assess, fresh_quality
from learners.registry import LEARNERS, make


def warm(learner: Learner) -> None:
    """Run each method of a settled learner once, and what counts its scores, on throw-away states."""
    state, calibration, y = learner.init(3), fresh_calibration(), np.array([1.0, 0.0])
    X = Batch.from_rows([([0, 1], [1.0, 0.5]), ([0, 2], [1.0, 2.0])])
    scores = learner.learn(state, X, y)
    p = calibrate(calibration, y, scores, X.weights)
    assess(fresh_progress(), fresh_quality(0), fresh_history(), y, predicted(scores), p)
    probabilities(calibration, learner.scores(state, X))


class Columns:
    """The features by which choices that are left open are settled: what is compiled does not depend on them."""

    dense = True
    bias = True


def warm_all() -> None:
    """Every registered learner, plain and inside each composition."""
    for kind in LEARNERS:
        leaf = make(kind).settled(Columns())
        warm(leaf)
        averaged = make({"kind": "averaged", "base": leaf})
        warm(averaged)
        if not leaf.scalable():
            for center in (True, False) if leaf.takes_negative() else (False,):
                warm(make({"kind": "scaled", "center": center, "base": averaged}))
        warm(make({"kind": "one_vs_rest", "base": leaf}))


if __name__ == "__main__":
    warm_all()
