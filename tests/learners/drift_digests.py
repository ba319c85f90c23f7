"""Print a digest of every detector's outputs on some streams, of its state and of its score
afterwards.

Compiled and interpreted runs must agree.
"""

import hashlib
import json

import numpy as np

from learners.drift.kswin import p_value
from learners.state import state_digest
from tests.learners.drift_streams import EVERY, errors, name


def digests():
    draws = np.random.default_rng(1)
    changes = errors(2, *((150, rate, rate) for rate in (0.1, 0.4, 0.2, 0.9, 0.5)))
    streams = [changes, draws.beta(changes + 1, 3)]
    found = {
        f"{name(detector)} {k}": digest(detector, x)
        for detector in EVERY
        for k, x in enumerate(streams)
    }
    return found | {f"chance {h}": p_value(13, 8, h).hex() for h in (1, 30, 60, 104)}


def digest(detector, values):
    state = detector.init()
    said, rise = detector.watch(state, values)
    seen = said.tobytes() + rise.tobytes() + float(detector.score(state)).hex().encode()
    return hashlib.sha256(seen).hexdigest() + state_digest(state)


if __name__ == "__main__":
    print(json.dumps(digests()))
