"""What must hold for a model after a gap in its log."""

import re

from tests.chaos.events import read_tally, tally

GAP = re.compile(r"partition 0: skipped .*events.*, from (\d+) to (\d+) \(")


def read_gaps(process):
    """Return the first and the next offset of each stretch that the process reports as skipped."""
    return [(int(start), int(end)) for start, end in GAP.findall(process.log.read_text())]


def check_same_as_without(life, gaps):
    """The newest checkpoint equals a quiet pass over all messages before its position, without
    those of the gaps.
    """
    snapshot = life.snapshot()
    (position,) = map(int, snapshot.bookmark.positions.values())
    read = [
        message
        for offset, message in enumerate(life.messages[:position])
        if not any(start <= offset < end for start, end in gaps)
    ]
    quiet = life.replay(read)
    assert snapshot.state_digest == quiet["state_digest"]
    assert read_tally(snapshot) == tally(read)
