"""A rollback records which events it skips, and changes nothing else."""

import numpy as np

from service.checkpoint import lineage as module
from service.checkpoint.lineage import Lineage, Lost, Rolled, Run, history
from service.checkpoint.snapshot import Snapshot
from service.operations.rollback import build_rollback, find_skipped
from service.sources.base import Bookmark

WORDS = Rolled(3, 9, 1.5)
EARLIER = Bookmark({"kafka:t/0": "10", "kafka:t/1": "5", "kafka:t/2": "7"}, {"": "id", "0": "mark"})
LATER = Bookmark(
    {"kafka:t/0": "25", "kafka:t/1": "5", "kafka:t/2": "3", "kafka:t/3": "4"},
    {"": "id", "0": "other"},
)


def snapshot(entries=()) -> Snapshot:
    arrays = {
        "state/w": np.array([1.0]),
        "progress/events": np.array([3]),
        "progress/errors": np.array([1]),
    }
    return Snapshot(
        {"learner": {}}, ["a"], EARLIER, Lineage("", 7, tuple(entries)), {"type": 1}, None, arrays
    )


def test_skipped_events_are_listed_per_partition():
    assert find_skipped(EARLIER, EARLIER) == []
    assert find_skipped(EARLIER, LATER) == [
        Lost("0", "10", "25", 15, "rolled_back"),
        Lost("2", "7", "3", 0, "rolled_back"),
        Lost("3", "", "4", 0, "rolled_back"),
    ]
    streams = Bookmark({"redis:s/0": "1-0"}, {}), Bookmark({"redis:s/0": "9-3"}, {})
    assert find_skipped(*streams) == [Lost("0", "1-0", "9-3", 0, "rolled_back")]


def test_a_rewind_adds_only_its_entry():
    before = snapshot([Run("0", "0", "10", 10)])
    after, segments = build_rollback(before, WORDS)
    assert segments == {}
    assert after.lineage == Lineage("", 7, (Run("0", "0", "10", 10), WORDS))
    assert after._replace(lineage=before.lineage) == before.with_digest()


def test_kept_offsets_bring_the_later_marks():
    after, _ = build_rollback(snapshot(), WORDS, LATER)
    assert after.bookmark == LATER
    assert after.lineage.entries == (WORDS, *find_skipped(EARLIER, LATER))


def test_a_rollback_seals_a_long_history(monkeypatch):
    monkeypatch.setattr(module, "SEALED_AFTER", 2)
    runs = [Run("01"[n % 2], str(n // 2), str(n // 2 + 1), 1) for n in range(4)]
    after, segments = build_rollback(snapshot(runs), WORDS, LATER)
    assert len(after.lineage.entries) <= 2
    assert list(history(after.lineage, segments.get)) == [
        *runs,
        WORDS,
        *find_skipped(EARLIER, LATER),
    ]
