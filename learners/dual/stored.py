"""A stored row compared with the whole set: what a rule needs that drops or projects one."""

from learners.batch import Batch
from learners.dual.similarity import Kernel, similarities
from learners.dual.support import Support
from learners.dual.work import Work
from learners.kernels import kernel


@kernel
def stored_similarities(support: Support, K: Kernel, r: int, work: Work) -> float:
    """Put K(x_i, x_r) of every stored row into `work.k`; returns K(x_r, x_r)."""
    # The set is a batch of its own; that its slots are of a wider type is all the same to a kernel.
    rows = Batch(support.ends, support.slots, support.values, support.a, support.trees)  # type: ignore[arg-type]
    own = similarities(support, K, rows, r, work).k
    work.k[r] = own  # which the sums of a comparison give but for the last digit
    return own
