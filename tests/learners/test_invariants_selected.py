"""The promises of selection: the mask follows its definition, learning ignores it, and only the
event count renews it.
"""

import numpy as np
import pytest

from learners.registry import make
from learners.state import flatten
from tests.learners.streams import SMALL, labels, seeded, suited
from tests.looped import looped

INVARIANTS = {"selected": "test_prune_removes_the_smallest_weights_up_to_sigma"}


def learn_stream(spec, rows=60):
    learner = make(spec)
    stream = suited(learner, seeded(3, rows))
    state = learner.init(SMALL)
    learner.learn(state, stream.X, labels(learner, stream))
    return learner, state


@looped("sigma", [0.0, 0.5, 5.0, 1e9])
def test_prune_removes_the_smallest_weights_up_to_sigma(sigma):
    _, state = learn_stream({"kind": "selected", "sigma": sigma, "every": 1, "base": "pa1"})
    sizes = np.abs(state.base.w.scale[0] * state.base.w.v)[1:]
    kept = state.base.w.mask[1:].astype(bool)
    assert np.square(sizes[~kept]).sum() <= sigma * (1 + 1e-6)
    assert sizes[~kept].max(initial=0.0) <= sizes[kept].min(initial=np.inf) * (1 + 1e-6)
    if kept.any():
        assert np.square(sizes[~kept]).sum() + np.square(sizes[kept].min()) > sigma * (1 - 1e-6)
    assert state.base.w.mask[0] == 1


def test_efs_keeps_k_known_features_from_both_ends():
    _, state = learn_stream(
        {"kind": "selected", "selector": "efs", "K": 3, "P": 0.67, "every": 5, "base": "mbw"}
    )
    assert state.base.w.mask[1:].sum() == 3
    assert state.base.w.mask[0] == 1


@looped("base", ["pa1", "mbw", "arow"])
def test_learning_ignores_the_mask(base):
    selector = (
        {"selector": "efs", "K": 2} if base == "mbw" else {"selector": "prune", "sigma": 10.0}
    )
    _, masked = learn_stream({"kind": "selected", "every": 3, **selector, "base": base})
    _, plain = learn_stream({"kind": base})
    for path, array in flatten(plain).items():
        if not path.endswith("mask"):
            assert flatten(masked.base)[path].tobytes() == array.tobytes()


@looped(
    ("selector", "base"),
    [("efs", "pa1"), ("prune", "winnow"), ("prune", "mbw"), ("efs", "winnow"), ("prune", "fs")],
)
def test_senseless_selection_is_refused_with_a_reason(selector, base):
    with pytest.raises(ValueError, match=f"{selector} makes no sense over {base}"):
        make({"kind": "selected", "selector": selector, "base": base})
