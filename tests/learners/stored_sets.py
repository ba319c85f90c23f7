"""A support set as a batch, for tests that ask what is in it."""

from learners.batch import Batch, Trees
from learners.dual.decisive import stored_row


def stored_rows(support):
    """Oldest first."""
    rows = [stored_row(support, i) for i in range(support.size[0])]
    trees = Trees.joined([row.trees for row in rows])
    return Batch.from_rows([(row.indices, row.values) for row in rows], trees=trees)
