"""Going back: which stretches are told, and that nothing else changes."""

import numpy as np

from service import lineage as module
from service.lineage import Lineage, Lost, Rolled, Run, history
from service.rollback import passed_over, rolled_back
from service.snapshot import Snapshot
from service.sources.contract import Bookmark

WORDS = Rolled(3, 9, 1.5)
EARLIER = Bookmark({"kafka:t/0": "10", "kafka:t/1": "5", "kafka:t/2": "7"}, {"": "id", "0": "mark"})
LATER = Bookmark({"kafka:t/0": "25", "kafka:t/1": "5", "kafka:t/2": "3", "kafka:t/3": "4"}, {"": "id", "0": "other"})


def snapshot(entries=()) -> Snapshot:
    arrays = {"state/w": np.array([1.0]), "progress/events": np.array([3]), "progress/errors": np.array([1])}
    return Snapshot({"learner": {}}, ["a"], EARLIER, Lineage("", 7, tuple(entries)), {"type": 1}, None, arrays)


def test_what_is_passed_over():
    assert passed_over(EARLIER, EARLIER) == []
    assert passed_over(EARLIER, LATER) == [
        Lost("0", "10", "25", 15, "rolled_back"),
        Lost("2", "7", "3", 0, "rolled_back"),
        Lost("3", "", "4", 0, "rolled_back"),
    ]
    streams = Bookmark({"redis:s/0": "1-0"}, {}), Bookmark({"redis:s/0": "9-3"}, {})
    assert passed_over(*streams) == [Lost("0", "1-0", "9-3", 0, "rolled_back")]


def test_from_then_only_the_word_is_added():
    before = snapshot([Run("0", "0", "10", 10)])
    after, segments = rolled_back(before, WORDS)
    assert segments == {}
    assert after.lineage == Lineage("", 7, (Run("0", "0", "10", 10), WORDS))
    assert after._replace(lineage=before.lineage) == before.digested()


def test_with_its_position_kept_it_has_the_later_marks_too():
    after, _ = rolled_back(snapshot(), WORDS, LATER)
    assert after.bookmark == LATER
    assert after.lineage.entries == (WORDS, *passed_over(EARLIER, LATER))


def test_a_long_history_is_sealed_on_the_way(monkeypatch):
    monkeypatch.setattr(module, "SEALED_AFTER", 2)
    runs = [Run("01"[n % 2], str(n // 2), str(n // 2 + 1), 1) for n in range(4)]
    after, segments = rolled_back(snapshot(runs), WORDS, LATER)
    assert len(after.lineage.entries) <= 2
    assert list(history(after.lineage, segments.get)) == [*runs, WORDS, *passed_over(EARLIER, LATER)]
