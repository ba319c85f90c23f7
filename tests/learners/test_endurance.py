"""100,000 events, many of them hostile, through every learner and composition: the state stays
finite and in bounds.
"""

import os

import numpy as np

from learners.batch import Batch
from learners.jit import ACCEPTED, LARGEST_WEIGHT
from learners.registry import LEARNERS, make
from learners.state import flatten
from tests.learners.specs import built, every_learner, leaf, specs
from tests.learners.streams import CLASSES, SMALL, labels, seeded, suited

EVENTS = 100_000
BLOCK = 2_000
CHAIN = {
    "kind": "scaled",
    "center": False,
    "base": {"kind": "one_vs_rest", "max_classes": CLASSES, "base": "pa1"},
}


def chosen_learners():
    """Return every learner and every composition once; `make chaos` combines them all, which is
    5·10⁷ events.
    """
    if os.environ.get("ONEPASS_ENDURANCE") == "all":
        return specs()
    around = [{"kind": "averaged", "base": "arow"}, {"kind": "selected", "base": "pa2"}, CHAIN]
    return [*(built(leaf(kind)) for kind in LEARNERS), *(make(spec) for spec in around)]


@every_learner(chosen_learners())
def test_endless_hostile_events_leave_the_state_finite(learner):
    """Repeat the hostile rows of `seeded`: zero rows, 1e±300, all-equal features, and a time with
    one class only.
    """
    state = learner.init(SMALL)
    blocks = EVENTS // BLOCK
    block = suited(learner, seeded(21, BLOCK, hostile=True))
    y = labels(learner, block)
    refused = learner.row_refusals(block.X) != ACCEPTED
    assert refused.any()
    one_class = np.full(y.size, y[0])
    for turn in range(blocks):
        scores = learner.learn(state, block.X, one_class if turn % 5 == 4 else y)
        assert np.isnan(scores).reshape(y.size, -1).any(axis=1).tolist() == refused.tolist()
    before = {path: array.tobytes() for path, array in flatten(state).items()}
    for array in flatten(state).values():
        assert np.isfinite(array).all()
    for path, array in flatten(state).items():
        if path.endswith("w/v"):
            scale = flatten(state)[path.removesuffix("v") + "scale"]
            assert np.abs(scale * array).max() <= LARGEST_WEIGHT * (1 + 1e-9)
    rows = np.flatnonzero(refused)
    only_refused = Batch.where(block.X, refused)
    learner.learn(state, only_refused, y[rows])
    assert {path: array.tobytes() for path, array in flatten(state).items()} == before
