"""Inner products of one row, spread over all slots, with every stored row: most of what a comparison costs."""

from learners.batch import Array, Ints
from learners.kernels import kernel


@kernel
def products(ends: Ints, slots: Ints, values: Array, n: int, spread: Array, k: Array) -> None:
    """x_i·x of every stored row, summed from left to right however rows are taken together.

    Four at a time, one of each quarter of the set: sums do not wait for each other, and memory comes in four streams.
    """
    quarter = n // 4
    for i in range(quarter):
        if _alike(ends, slots, i, quarter):
            _four(ends, slots, values, i, quarter, spread, k)
        else:
            for row in range(i, 4 * quarter, quarter):
                k[row] = _product(slots, values, ends[row], ends[row + 1], spread)
    for row in range(4 * quarter, n):
        k[row] = _product(slots, values, ends[row], ends[row + 1], spread)


@kernel
def _product(slots: Ints, values: Array, first: int, last: int, spread: Array) -> float:
    total = 0.0
    for entry in range(first, last):
        total += values[entry] * spread[slots[entry]]
    return total


@kernel
def _alike(ends: Ints, slots: Ints, i: int, quarter: int) -> bool:
    """Whether row i of each quarter has the same slots without gaps, as rows of columns do."""
    width = ends[i + 1] - ends[i]
    if width == 0:
        return False
    start = slots[ends[i]]
    for row in range(i, 4 * quarter, quarter):
        first, last = ends[row], ends[row + 1] - 1
        if last - first != width - 1 or slots[first] != start or slots[last] != start + width - 1:
            return False
    return True


@kernel
def _four(ends: Ints, slots: Ints, values: Array, i: int, quarter: int, spread: Array, k: Array) -> None:
    """The inner products of row i of each quarter, which are alike."""
    j0, j1, j2, j3 = i, i + quarter, i + 2 * quarter, i + 3 * quarter
    start, width = slots[ends[i]], ends[i + 1] - ends[i]
    x = spread[start : start + width]
    r0, r1 = values[ends[j0] : ends[j0] + width], values[ends[j1] : ends[j1] + width]
    r2, r3 = values[ends[j2] : ends[j2] + width], values[ends[j3] : ends[j3] + width]
    p0 = p1 = p2 = p3 = 0.0
    for j in range(width):
        p0 += r0[j] * x[j]
        p1 += r1[j] * x[j]
        p2 += r2[j] * x[j]
        p3 += r3[j] * x[j]
    k[j0], k[j1], k[j2], k[j3] = p0, p1, p2, p3
