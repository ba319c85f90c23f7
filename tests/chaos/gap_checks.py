"""What must hold of a model after a gap in its log."""

import re

from tests.chaos.events import counted, tally

GAP = re.compile(r"partition 0: skipped .*events.*, from (\d+) to (\d+) \(")


def gaps_told(process):
    """First and next offset of each stretch that the process said it passed over."""
    return [(int(start), int(end)) for start, end in GAP.findall(process.log.read_text())]


def check_same_as_without(life, gaps):
    """The newest checkpoint is a quiet pass over everything before its position but the gaps."""
    snapshot = life.snapshot()
    (position,) = map(int, snapshot.bookmark.positions.values())
    read = [
        message
        for offset, message in enumerate(life.messages[:position])
        if not any(start <= offset < end for start, end in gaps)
    ]
    quiet = life.replayed(read)
    assert snapshot.state_digest == quiet["state_digest"]
    assert counted(snapshot) == tally(read)
