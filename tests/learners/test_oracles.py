"""The fast learners against plain dense ones written from the papers: the same scores, weights and updates."""

import importlib

import numpy as np
import pytest
from specs import name, specs
from streams import SMALL, labels, seeded

from learners.linear.weights import NONE

ROWS = 120


def oracle(spec, dim):
    """The oracle of a spec, inside out, as its configuration says."""
    module = importlib.import_module(f"oracles.{spec['kind'].replace('-', '_')}")
    parameters = {field: value for field, value in spec.items() if field not in ("kind", "base")}
    if "base" in spec:
        return module.Oracle(lambda: oracle(spec["base"], dim), **parameters)
    return module.Oracle(dim, **parameters)


@pytest.mark.parametrize(("seed", "dim"), [(5, SMALL), (6, SMALL), (7, 40)])
@pytest.mark.parametrize("learner", specs(), ids=name)
def test_fast_equals_oracle(learner, seed, dim):
    stream = seeded(seed, ROWS, dim)
    y, state, slow = labels(learner, stream), learner.init(dim), oracle(learner.model_dump(), dim)
    scores = learner.learn(state, stream.X, y)
    wanted, moves = [], 0
    for x, label, c in zip(dense(stream), y, stream.X.weights, strict=True):
        wanted.append(slow.score(x))
        if c > 0:
            moves += slow.learn(x, label, c)
    assert close(scores, np.array(wanted))
    assert learner.updates(state) == moves
    weights = slow.weights()
    if not isinstance(weights, dict):
        assert close(answering(state), weights)
        return
    assert state_of(state).seen.nonzero()[0].tolist() == sorted(weights)
    for c, w in weights.items():
        assert close(answering(state)[c], w)


def close(got, wanted):
    finite = np.isfinite(wanted)
    assert np.array_equal(finite, np.isfinite(got))
    return np.allclose(got[finite], wanted[finite], rtol=1e-10, atol=1e-10 * np.abs(wanted[finite]).max(initial=0))


def dense(stream):
    rows = np.zeros((stream.X.size, stream.dim))
    for t in range(stream.X.size):
        entries = slice(*stream.X.indptr[t : t + 2])
        rows[t, stream.X.indices[entries]] = stream.X.values[entries]
    return rows


def state_of(state):
    return getattr(state, "base", state)


def answering(state):
    """The weights by which a state answers; those of all classes at once within one_vs_rest."""
    w = getattr(state_of(state), "classes", state_of(state)).w
    if w.mode.flat[0] == NONE:
        return w.scale * w.v
    return np.where(w.counted > 0, (w.total + w.v * (w.clock - w.upto)) / np.maximum(1, w.counted), w.scale * w.v)
