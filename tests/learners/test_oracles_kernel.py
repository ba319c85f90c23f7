"""The fast kernel learners against plain ones written from the thesis: the same scores,
coefficients and updates.
"""

import importlib

import numpy as np

from learners.jit import ACCEPTED
from learners.kernel.learner import KernelLearner
from tests.learners.dense_rows import close, dense
from tests.learners.plain_kernels import kernel
from tests.learners.specs import chosen_specs, every_learner
from tests.learners.streams import SMALL, labels, seeded, suited, texts
from tests.learners.tree_rows import Row

ROWS = 80


class Keeping:
    """Put the tree of the current row back on the new rows that a composition's oracle makes."""

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
    module = importlib.import_module(
        f"tests.learners.oracles.{spec['kind'].replace('-', '_').replace('++', '_plus')}"
    )
    if "base" in spec:
        parameters = {
            field: value for field, value in spec.items() if field not in ("kind", "base")
        }
        return module.Oracle(lambda: oracle(spec["base"]), **parameters)
    shared = {*KernelLearner.model_fields, "J"}
    parameters = {field: value for field, value in spec.items() if field not in shared}
    return Keeping(module.Oracle(kernel(spec), **parameters), spec.get("J", 1.0))


@every_learner(
    [learner for learner in chosen_specs() if learner.capabilities.stores_rows],
    {"seed 5": {"seed": 5, "dim": SMALL}, "seed 7": {"seed": 7, "dim": 40}},
)
def test_a_fast_kernel_learner_equals_its_oracle(learner, seed, dim):
    stream = suited(learner, seeded(seed, ROWS, dim))
    taken = learner.row_refusals(stream.X) == ACCEPTED
    y, state, slow = labels(learner, stream), learner.init(dim), oracle(learner.model_dump())
    scores = learner.learn(state, stream.X, y)
    wanted, moves = [], 0
    for x, tree, label, c, is_taken in zip(
        dense(stream), texts(ROWS), y, stream.X.weights, taken, strict=True
    ):
        row = x.view(Row)
        row.tree = tree
        wanted.append(slow.score(row) if is_taken else np.nan * slow.score(row))
        if is_taken and c > 0:
            moves += slow.learn(row, label, c)
    assert close(scores, np.array(wanted))
    assert learner.updates(state) == moves
