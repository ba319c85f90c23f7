"""The fast kernel learners against plain ones written from the thesis: the same scores, coefficients and updates."""

import importlib

import numpy as np
import pytest
from plain_kernels import kernel
from specs import name, specs
from streams import SMALL, labels, seeded, suited, texts
from test_oracles import close, dense

from learners.dual.learner import KernelLearner
from learners.kernels import ACCEPTED

ROWS = 80


class Row(np.ndarray):
    """A dense row that carries its tree, whatever is made of it."""

    def __array_finalize__(self, other):
        self.tree = getattr(other, "tree", None)


class Keeping:
    """A composition's oracle makes new rows; the tree of the row at hand is put back on them."""

    def __init__(self, rule, J):
        self.rule, self.J, self.tree = rule, J, None

    def _row(self, x):
        row = np.asarray(x).view(Row)
        row.tree = getattr(x, "tree", None)
        return row

    def score(self, x):
        return self.rule.score(self._row(x))

    def learn(self, x, y, c):
        return self.rule.learn(self._row(x), y, c * self.J if y > 0 else c)


def oracle(spec):
    module = importlib.import_module(f"oracles.{spec['kind'].replace('-', '_').replace('++', '_plus')}")
    if "base" in spec:
        parameters = {field: value for field, value in spec.items() if field not in ("kind", "base")}
        return module.Oracle(lambda: oracle(spec["base"]), **parameters)
    shared = {*KernelLearner.model_fields, "J"}
    parameters = {field: value for field, value in spec.items() if field not in shared}
    return Keeping(module.Oracle(kernel(spec), **parameters), spec.get("J", 1.0))


@pytest.mark.parametrize(("seed", "dim"), [(5, SMALL), (7, 40)])
@pytest.mark.parametrize("learner", [learner for learner in specs() if learner.stores_rows()], ids=name)
def test_fast_equals_oracle(learner, seed, dim):
    stream = suited(learner, seeded(seed, ROWS, dim))
    taken = learner.refusals(stream.X) == ACCEPTED
    y, state, slow = labels(learner, stream), learner.init(dim), oracle(learner.model_dump())
    scores = learner.learn(state, stream.X, y)
    wanted, moves = [], 0
    for x, tree, label, c, is_taken in zip(dense(stream), texts(ROWS), y, stream.X.weights, taken, strict=True):
        row = x.view(Row)
        row.tree = tree
        wanted.append(slow.score(row) if is_taken else np.nan * slow.score(row))
        if is_taken and c > 0:
            moves += slow.learn(row, label, c)
    assert close(scores, np.array(wanted))
    assert learner.updates(state) == moves
