"""What a learner knows of the history that it writes: enough to tell its own past from a foreign one."""

import hashlib
from collections import deque
from collections.abc import Sequence

from service.checkpoints import Part
from service.store.head import Entry, count

REMEMBERED = 100_000
"""Commits of its own by which a learner knows a store that went back in time: a day, at one a second."""
WIDTH = 16
UNSURE = 64
LONGEST_CHAIN = 64
"""Deltas on one base."""


class Memory:
    """Invariant: while the token is ours, `head` is as Redis has it, but for commits without an answer."""

    def __init__(self) -> None:
        self.head: list[Entry] = []
        self.began = False
        """Whether the learner's state has a place in this history."""
        self.commit = ""
        """The checkpoint from which that state comes."""
        self.bad: set[bytes] = set()
        """Elements of the list that the next commit removes."""
        self.unsure: deque[Entry] = deque(maxlen=UNSURE)
        """Commits without an answer: they may be there, or come yet."""
        self.chain: tuple[Part, ...] | None = None
        """Parts of the newest generation, if this learner wrote it since it acquired."""
        self._generation = 0
        self._own = bytearray()
        """Digests of its commits, one after the other: 1.6 MB at most."""
        self._ancestors: set[str] = set()

    @property
    def next_generation(self) -> int:
        return max(self._generation, count(self.head)) + 1

    @property
    def newest(self) -> bytes:
        return self.head[0].raw if self.head else b""

    @property
    def wants_whole(self) -> bool:
        chain = self.chain
        if chain is None or len(chain) > LONGEST_CHAIN:
            return True
        return 2 * sum(part.size for part in chain[1:]) > chain[0].size

    def begin(self, head: list[Entry], bad: set[bytes], commit: str) -> None:
        """The state is now that of this commit (none: fresh); its earlier past is no longer ours."""
        self.head, self.bad, self.commit = head, bad, commit
        self._generation = count(head)
        self._own.clear()
        self._ancestors = {entry.manifest.commit for entry in head if entry.manifest}
        self.chain = None
        self.began = True

    def begin_after(self, generation: int) -> None:
        """The state came from elsewhere and is of this generation."""
        self._generation = max(self._generation, generation)

    def knows(self, head: Sequence[Entry]) -> bool:
        """Whether a list has what this learner knows, or less."""
        if not self.began:
            return False
        if not head or head[0].raw in self.bad:
            return True
        commit = head[0].manifest.commit if head[0].manifest else ""
        return commit in self._ancestors or self._wrote(commit)

    def _wrote(self, commit: str) -> bool:
        digest = _digest(commit)
        at = self._own.find(digest)
        while at % WIDTH and at >= 0:  # across two others
            at = self._own.find(digest, at + 1)
        return at >= 0

    def find_again(self, head: list[Entry]) -> bool:
        """Whether the newest generation is one of ours whose answer was lost; then the next counts from it."""
        for entry in self.unsure:
            if head and head[0].raw == entry.raw:
                self.settle(entry, head)
                return True
        return False

    def settle(self, entry: Entry, head: list[Entry]) -> None:
        """This commit of ours is the newest."""
        assert entry.manifest is not None
        self.head = head
        self.bad.intersection_update(other.raw for other in head)
        self._generation, self.commit = entry.manifest.generation, entry.manifest.commit
        self._own += _digest(self.commit)
        del self._own[: -WIDTH * REMEMBERED]
        self.chain = entry.manifest.parts
        self.unsure.clear()
        self.began = True


def _digest(commit: str) -> bytes:
    return hashlib.sha256(commit.encode()).digest()[:WIDTH]
