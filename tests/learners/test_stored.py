"""A stored row compared with its own set, against kernels written from the thesis."""

import numpy as np

from learners.kernel.similarity import stored_similarities
from learners.state import state_digest
from tests.learners.dense_rows import dense
from tests.learners.plain_kernels import kernel
from tests.learners.specs import FIRST, ROOM, built, choices, name
from tests.learners.stored_sets import room_for
from tests.learners.streams import SMALL, labels, seeded, suited, texts
from tests.learners.tree_rows import Row
from tests.looped import looped

EVENTS = 40


@looped("dim", [SMALL, 40])
@looped("learner", [made for spec in choices(FIRST) if (made := built(spec))], ids=name)
def test_a_stored_row_is_compared_with_its_whole_set(learner, dim):
    stream = suited(learner, seeded(5, EVENTS, dim))
    state, y = learner.init(dim), labels(learner, stream)
    kept = [
        t for t in range(EVENTS) if moves(learner, state, stream.X.rows(t, t + 1), y[t : t + 1])
    ]
    rows = [with_tree(dense(stream)[t], texts(EVENTS)[t]) for t in kept]
    assert len(rows) == state.support.size[0] > ROOM / 2
    before, K, work = state_digest(state), kernel(learner.model_dump()), room_for(state.support)
    for r, row in enumerate(rows):
        own = stored_similarities(state.support, learner.function(), r, work)
        assert own == work.k[r]
        wanted = [K(other, row) for other in rows]
        assert np.allclose(work.k[: len(rows)], wanted, rtol=1e-12, atol=1e-12 * max(wanted))
        assert not work.spread.any()
    assert state_digest(state) == before


def moves(learner, state, X, y):
    before = learner.updates(state)
    learner.learn(state, X, y)
    return learner.updates(state) > before


def with_tree(x, tree):
    row = x.view(Row)
    row.tree = tree
    return row
