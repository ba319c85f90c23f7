"""Prints, for every learner, a digest of what a hostile stream gives: run compiled and interpreted, they must agree."""

import hashlib
import json

from specs import name, specs
from streams import labels, seeded, suited

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
    return found


if __name__ == "__main__":
    print(json.dumps(digests()))
