"""Events without end into a budget: the set never passes it, memory stays flat, a restart halfway
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
"""Less than a tenth of what the rows alone would take if every event were stored."""

KINDS = [kind for kind in LEARNERS if "budget" in kind_class(kind).model_fields]
LONG = {"forgetron", "forgetron-tuned", "rbp"}
"""Those whose events cost the budget and not its square: a million of them are a minute."""


def size_of(kind):
    """Events, and the budget: without `make chaos` a small one, for it is passed as soon, and the
    events are as many, for it is they who would take the memory.
    """
    if not CHAOS:
        return 100_000, 50
    return (1_000_000, 1_000) if kind in LONG else (100_000, 200)


class Stream:
    """A block of hostile rows again and again, each time with other labels wrong, so that mistakes
    never end.
    """

    def __init__(self, learner):
        block = suited(learner, seeded(33, BLOCK, hostile=True))
        self.X, self.y = block.X, labels(learner, block)
        self.draws = np.random.default_rng(1)

    def wrong(self):
        return np.where(self.draws.random(BLOCK) < 1 / 3, -self.y, self.y)


def room(state):
    """Bytes of all arrays, used or not."""
    return state.nbytes if isinstance(state, np.ndarray) else sum(map(room, state))


@pytest.mark.timeout(1200 if CHAOS else 600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_budget_takes_events_without_end(kind):
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
        "it goes on learning"
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
