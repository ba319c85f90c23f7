"""Endless events into a budget: the set never exceeds it, memory stays flat, a restart halfway
changes nothing.
"""

import os

import numpy as np
import pytest

from learners.registry import LEARNERS, kind_class, make
from learners.state import flatten, restore, state_digest
from tests.chaos.measuring import keep
from tests.chaos.memory import rss_mb
from tests.chaos.scale import CHAOS
from tests.learners.streams import SMALL, labels, seeded, suited

BLOCK = 2_000
GROWTH_MB = 8.0
"""MB; less than a tenth of what the rows alone would take if every event were stored."""

KINDS = [kind for kind in LEARNERS if "budget" in kind_class(kind).model_fields]
LONG = {"forgetron", "forgetron-tuned", "rbp"}
"""Kinds whose events cost time linear in the budget, not quadratic: a million of them take a
minute.
"""


def size_of(kind):
    """Return the number of events and the budget. Without `make chaos` the budget is small, so it
    is exceeded as soon; the events stay many, for unbounded memory would grow with them.
    """
    if not CHAOS:
        return 100_000, 50
    return (1_000_000, 1_000) if kind in LONG else (100_000, 200)


class Stream:
    """Repeat a block of hostile rows, each time with other wrong labels, so that mistakes never
    end.
    """

    def __init__(self, learner):
        block = suited(learner, seeded(33, BLOCK, hostile=True))
        self.X, self.y = block.X, labels(learner, block)
        self.draws = np.random.default_rng(1)

    def wrong(self):
        return np.where(self.draws.random(BLOCK) < 1 / 3, -self.y, self.y)


def room(state):
    """Return the bytes of all arrays, used or not."""
    return state.nbytes if isinstance(state, np.ndarray) else sum(map(room, state))


@pytest.mark.timeout(1200 if CHAOS else 600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_bounds_memory_over_endless_events(kind):
    events, budget = size_of(kind)
    blocks = events // BLOCK
    learner = make({"kind": kind, "budget": budget, "gamma": 0.5, "width": SMALL - 1})
    state, stream = learner.init(SMALL), Stream(learner)
    made, most = room(state), 0
    for block in range(blocks):
        if block == blocks // 10:
            before = rss_mb(os.getpid())
        if block == blocks // 2:
            saved = {path: array.copy() for path, array in flatten(state).items()}
            place = stream.draws.bit_generator.state
        learner.learn(state, stream.X, stream.wrong())
        most = max(most, int(state.support.size[0]))
    growth = rss_mb(os.getpid()) - before
    assert most <= budget
    assert room(state) == made
    assert growth < GROWTH_MB
    assert learner.updates(state) >= (budget if kind == "stoptron" else 10 * budget), (
        "it stopped learning"
    )
    assert all(np.isfinite(array).all() for array in flatten(state).values())
    again = restore(learner.init(SMALL), saved)
    stream.draws.bit_generator.state = place
    for _ in range(blocks // 2, blocks):
        learner.learn(again, stream.X, stream.wrong())
    assert state_digest(again) == state_digest(state)
    keep(
        f"{events:,} events into {kind}, budget {budget:,}",
        stored=most,
        growth_mb=round(growth, 1),
        different=0,
    )
