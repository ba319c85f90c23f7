"""Prints a digest of what hostile streams give, of every learner and the calibrator.

Run compiled and interpreted, they must agree.
"""

import hashlib
import json

import numpy as np
from specs import name, specs
from streams import labels, seeded, suited

from learners.calibration import calibrate, fresh_calibration, probabilities
from learners.learner import state_digest


def digests():
    """Name to digest of all scores and of the final state."""
    hostile = seeded(4, 200, hostile=True)
    found = {}
    for learner in specs():
        stream = suited(learner, hostile)
        state = learner.init(stream.dim)
        scores = [learner.learn(state, stream.X, labels(learner, stream)), learner.scores(state, stream.X)]
        found[name(learner)] = hashlib.sha256(scores[0].tobytes() + scores[1].tobytes()).hexdigest() + state_digest(
            state
        )
    return found | {f"calibration of {size}": calibration_digest(size) for size in (300, 3000)}


def calibration_digest(size):
    """Of scores that drift over many orders; the longer one comes to where masses are halved."""
    rng = np.random.default_rng(size)
    y = np.where(rng.random(size) < 0.3, 1.0, -1.0)
    scores = (y + 2 * rng.normal(size=size)) * 10.0 ** np.linspace(-150, 150, size)
    calibration = fresh_calibration()
    found = [calibrate(calibration, y, scores, np.ones(size)), probabilities(calibration, scores)]
    leads = np.where(rng.random((size, 4)) < 0.3, -np.inf, rng.normal(size=(size, 4)))
    found.append(calibrate(calibration, rng.integers(0, 4, size).astype(np.float64), leads, np.ones(size)))
    return hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest() + state_digest(calibration)


if __name__ == "__main__":
    print(json.dumps(digests()))
