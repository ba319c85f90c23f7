"""A dense row that carries its tree."""

import numpy as np


class Row(np.ndarray):
    """A dense row that keeps its tree through NumPy operations."""

    def __array_finalize__(self, other):
        self.tree = getattr(other, "tree", None)
