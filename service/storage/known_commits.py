"""Remember the commits of this learner, to tell its own history from that of another learner."""

import hashlib
from collections import deque
from collections.abc import Sequence

from service.checkpoint.store import Part
from service.storage.manifests import Entry, newest_generation

REMEMBERED = 100_000
"""Own commits that a learner remembers, a day's worth at one a second. By them it recognises a
store that was set back to an earlier state.
"""
WIDTH = 16
"""Bytes of the digest of a commit."""
MOST_UNACKNOWLEDGED = 64
"""Remembered commits whose answer was lost."""
LONGEST_CHAIN = 64
"""Deltas on one base; then a whole snapshot follows."""


class KnownCommits:
    """The list of manifests as this learner knows it, and the commits that it wrote.

    Invariant: while the token is ours, `head` equals the list in Redis. Only commits whose answer
    was lost may differ.
    """

    def __init__(self) -> None:
        self.head: list[Entry] = []
        self.began = False
        """Whether the learner's state belongs to this history."""
        self.commit = ""
        """The checkpoint from which the learner's state comes."""
        self.bad: set[bytes] = set()
        """Unreadable elements of the list. The next commit removes them."""
        self.unacknowledged: deque[Entry] = deque(maxlen=MOST_UNACKNOWLEDGED)
        """Commits whose answer was lost. Redis may have them, or may still receive them."""
        self.chain: tuple[Part, ...] | None = None
        """Parts of the newest generation, if this learner wrote it since it acquired the store."""
        self._generation = 0
        self._own = bytearray()
        """Digests of this learner's commits, concatenated: 1.6 MB at most."""
        self._ancestors: set[str] = set()

    @property
    def next_generation(self) -> int:
        return max(self._generation, newest_generation(self.head)) + 1

    @property
    def newest(self) -> bytes:
        return self.head[0].raw if self.head else b""

    @property
    def wants_whole(self) -> bool:
        """Whether the next snapshot must be whole: there is no base, or its deltas are too many, or
        larger than half of it.
        """
        chain = self.chain
        if chain is None or len(chain) > LONGEST_CHAIN:
            return True
        return 2 * sum(part.size for part in chain[1:]) > chain[0].size

    def begin(self, head: list[Entry], bad: set[bytes], commit: str) -> None:
        """Note that the learner's state is now that of `commit`, or fresh if `commit` is empty.

        Commits that the learner wrote before no longer count as its own.
        """
        self.head = head
        self.bad = bad
        self.commit = commit
        self._generation = newest_generation(head)
        self._own.clear()
        self._ancestors = {entry.manifest.commit for entry in head if entry.manifest}
        self.chain = None
        self.began = True

    def begin_after(self, generation: int) -> None:
        """Note that the state was loaded from elsewhere and has this generation."""
        self._generation = max(self._generation, generation)

    def knows(self, head: Sequence[Entry]) -> bool:
        """Whether the newest commit of a list is one that this learner knows."""
        if not self.began:
            return False
        if not head or head[0].raw in self.bad:
            return True
        commit = head[0].manifest.commit if head[0].manifest else ""
        return commit in self._ancestors or self._wrote(commit)

    def _wrote(self, commit: str) -> bool:
        digest = _digest(commit)
        at = self._own.find(digest)
        while at % WIDTH and at >= 0:  # the match spans two digests
            at = self._own.find(digest, at + 1)
        return at >= 0

    def adopt_unacknowledged(self, head: list[Entry]) -> bool:
        """Accept the newest generation if it is our commit whose answer was lost.

        Return whether it is. The next generation then follows it.
        """
        for entry in self.unacknowledged:
            if head and head[0].raw == entry.raw:
                self.acknowledge(entry, head)
                return True
        return False

    def acknowledge(self, entry: Entry, head: list[Entry]) -> None:
        """Record that our commit is now the newest."""
        assert entry.manifest is not None
        self.head = head
        self.bad.intersection_update(other.raw for other in head)
        self._generation = entry.manifest.generation
        self.commit = entry.manifest.commit
        self._own += _digest(self.commit)
        del self._own[: -WIDTH * REMEMBERED]
        self.chain = entry.manifest.parts
        self.unacknowledged.clear()
        self.began = True


def _digest(commit: str) -> bytes:
    return hashlib.sha256(commit.encode()).digest()[:WIDTH]
