"""Print a digest of the answers of every learner, of the calibrator and of the counts of quality on
hostile streams.

Compiled and interpreted runs must agree.
"""

import hashlib
import json

import numpy as np

from learners.evaluation.calibration import calibrate, fresh_calibration, probabilities
from learners.evaluation.history import fresh_history
from learners.evaluation.progress import fresh_progress
from learners.evaluation.quality import assess, fresh_quality
from learners.state import state_digest
from tests.learners.specs import chosen_specs, name
from tests.learners.streams import labels, seeded, suited


def digests():
    """Return name -> digest of all scores and of the final state."""
    hostile = seeded(4, 200, hostile=True)
    found = {}
    short = hostile._replace(X=hostile.X.rows(0, 60), classes=hostile.classes[:60])
    for learner in chosen_specs():
        # A kernel learner compares a row with all stored rows, so these get the short stream.
        stream = suited(learner, short if learner.capabilities.stores_rows else hostile)
        state = learner.init(stream.dim)
        scores = [
            learner.learn(state, stream.X, labels(learner, stream)),
            learner.scores(state, stream.X),
        ]
        found[name(learner)] = hashlib.sha256(
            scores[0].tobytes() + scores[1].tobytes()
        ).hexdigest() + state_digest(state)
    found |= {f"calibration of {size}": calibration_digest(size) for size in (300, 3000)}
    return found | {f"quality of {classes} classes": quality_digest(classes) for classes in (0, 5)}


def calibration_digest(size):
    """Return the digest of scores that drift over many orders of magnitude; the longer stream
    reaches the point where masses are halved.
    """
    rng = np.random.default_rng(size)
    y = np.where(rng.random(size) < 0.3, 1.0, -1.0)
    scores = (y + 2 * rng.normal(size=size)) * 10.0 ** np.linspace(-150, 150, size)
    calibration = fresh_calibration()
    found = [calibrate(calibration, y, scores, np.ones(size)), probabilities(calibration, scores)]
    leads = np.where(rng.random((size, 4)) < 0.3, -np.inf, rng.normal(size=(size, 4)))
    found.append(
        calibrate(calibration, rng.integers(0, 4, size).astype(np.float64), leads, np.ones(size))
    )
    return hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest() + state_digest(
        calibration
    )


def quality_digest(classes):
    """Return the digest of labels and guesses, some of them of no class, over a life in which every
    ring and curve wraps around.
    """
    rng, size = np.random.default_rng(classes), 3000
    y = rng.integers(-1, classes, size) if classes else rng.choice([-1, 1], size)
    guess = np.where(rng.random(size) < 0.6, y, rng.permutation(y))
    p = np.where(rng.random(size) < 0.1, np.nan, rng.random(size) * 1.2 - 0.1)
    parts = fresh_progress(), fresh_quality(classes), fresh_history()
    wrong = assess(*parts, y.astype(np.float64), guess, p)
    return "".join(
        [hashlib.sha256(wrong.tobytes()).hexdigest(), *(state_digest(part) for part in parts)]
    )


if __name__ == "__main__":
    print(json.dumps(digests()))
