"""Going back: the state of an earlier generation becomes the newest again; nothing is erased, and it is told.

The positions are the earlier generation's too (what came after is learned again), or stay where they are (it stays
unlearned, and the history says which stretch that is).
"""

from service.lineage import Lost, Recorder, Rolled
from service.snapshot import Snapshot
from service.sources.contract import Bookmark


def rolled_back(
    earlier: Snapshot, words: Rolled, keep_position: Bookmark | None = None
) -> tuple[Snapshot, dict[str, bytes]]:
    """The snapshot to commit and the history sealed by it; with a bookmark, that is where learning goes on."""
    recorder = Recorder(earlier.lineage)
    recorder.note(words)
    bookmark = keep_position or earlier.bookmark
    for lost in passed_over(earlier.bookmark, bookmark):
        recorder.note(lost)
    lineage, segments = recorder.lineage()
    return earlier.digested()._replace(bookmark=bookmark, lineage=lineage), segments


def passed_over(earlier: Bookmark, later: Bookmark) -> list[Lost]:
    """What lies between two bookmarks, per partition as the history names it; 0 events where nobody can count."""
    stretches = []
    for key, end in sorted(later.positions.items()):
        start = earlier.positions.get(key, "")
        if start != end:
            counted = start.isdecimal() and end.isdecimal()
            events = max(0, int(end) - int(start)) if counted else 0
            stretches.append(Lost(key.rpartition("/")[2], start, end, events, "rolled_back"))
    return stretches


def learned_already(earlier: Bookmark, later: Bookmark) -> list[Lost]:
    """Stretches that the earlier state has learned and that would come again at the later bookmark."""
    if earlier.marks.get("") != later.marks.get(""):
        return []
    return [lost for lost in passed_over(earlier, later) if lost.start and _place(lost.end) < _place(lost.start)]


def _place(position: str) -> tuple[int, ...]:
    """Offsets, and the ids of a stream, as numbers in order."""
    return tuple(int(part) for part in position.split("-") if part.isdecimal())
