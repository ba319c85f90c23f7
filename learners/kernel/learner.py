"""What kernel learners share: the kernel and its parameters, a support set in the state, and the
counts.
"""

from typing import Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, model_validator

from learners.batch import Array, Batch, Flags
from learners.jit import row_refusals
from learners.kernel.explain import support_terms
from learners.kernel.similarity import (
    LINEAR,
    NO_VECTOR,
    POLYNOMIAL,
    RBF,
    SIGMOID,
    Kernel,
    kernel_scores,
    refuse_rows,
)
from learners.kernel.support import Support, Work, borrow_work, fresh_support, is_valid_support
from learners.kernel.tree_kernel import own
from learners.learner import (
    ONCE,
    Capabilities,
    Layout,
    Learned,
    Learner,
    Memory,
    SupportTerms,
    SupportUsage,
    count_updates,
)
from learners.state import State

VECTORS = {
    "tree": NO_VECTOR,
    "linear": LINEAR,
    "polynomial": POLYNOMIAL,
    "rbf": RBF,
    "sigmoid": SIGMOID,
}

HASHED_WIDTH = 64
"""Entries per stored row, on average, where features are hashed."""


class KernelLearner(Learner):
    """A learner whose state has `support: Support`, `square` (‖f‖²), `updates` and `dropped`."""

    kernel: Literal[
        "linear",
        "polynomial",
        "rbf",
        "sigmoid",
        "tree",
        "tree+linear",
        "tree+polynomial",
        "tree+rbf",
        "tree+sigmoid",
    ] = "rbf"
    """`linear`, `polynomial`, `rbf` and `sigmoid` compare rows, `tree` compares trees; `tree+rbf`
    and so on are weighted sums of both."""
    gamma: PositiveFloat | None = None
    """γ of rbf, exp(−γ‖a−b‖²). Left out: 1 over the number of columns, or 0.01 with hashed
    features."""
    s: PositiveFloat = 1.0
    """Scale of polynomial, (s·a·b + c)^d, and sigmoid, tanh(s·a·b + c)."""
    c: float = Field(default=1.0, ge=0.0)
    """Offset of polynomial and sigmoid."""
    d: int = Field(default=3, ge=1, le=16)
    """Degree of polynomial."""
    lam: float = Field(default=0.4, gt=0.0, le=1.0)
    """λ of tree: a common fragment of n productions counts λ^n."""
    normalise: Literal["tree", "both", "none"] = "tree"
    """Which kernels are divided by √(K(a,a)·K(b,b)), so that K(x,x) is 1: only the `tree` kernel,
    `both` kernels, or `none`."""
    tree_weight: PositiveFloat = 1.0
    """Weight of the tree kernel in a sum."""
    vector_weight: PositiveFloat = 1.0
    """Weight of the other kernel in a sum."""
    width: int | None = Field(default=None, ge=1, le=1 << 20)
    """Room for entries per stored row, on average. Left out: the number of columns, or 64 with
    hashed features."""
    nodes: int = Field(default=64, ge=1, le=1 << 20)
    """Room for inner nodes per stored tree, on average."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.kernel.endswith("sigmoid") and not self.takes_sigmoid():
            raise ValueError(
                "sigmoid is not positive definite, so rows cannot be projected: take another kernel"
            )
        return self

    def rows(self) -> int:
        """Maximum number of stored rows."""
        raise NotImplementedError

    def fresh(self, support: Support) -> State:
        """Make a fresh state around an empty support set."""
        raise NotImplementedError

    def run(self, state: State, K: Kernel, X: Batch, y: Array, work: Work) -> tuple[Array, Flags]:
        """Call the numba kernel. Return the scores before each update, and what each event did."""
        raise NotImplementedError

    def run_scores(self, state: State, K: Kernel, X: Batch, work: Work) -> Array:
        """Call the numba kernel that scores without learning."""
        return kernel_scores(state.support, K, X, work)

    def takes_sigmoid(self) -> bool:
        """Whether the rule works without a positive definite kernel."""
        return True

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            takes_trees=self._reads_trees(),
            stores_rows=True,
            why_not_scalable="a tree kernel sees no features: leave scaled out"
            if self.kernel == "tree"
            else "",
        )

    def _reads_trees(self) -> bool:
        return self.kernel.startswith("tree")

    def bind(self, layout: Layout) -> Self:
        gamma = self.gamma or (1.0 / max(1, layout.dim - 1) if layout.dense else 0.01)
        width = self.width or (max(1, layout.dim - 1) if layout.dense else HASHED_WIDTH)
        return self.model_copy(update={"gamma": gamma, "width": width})

    def function(self) -> Kernel:
        """The kernel and its parameters as numbers."""
        has_tree = self._reads_trees()
        return Kernel(
            vector=VECTORS[self.kernel.removeprefix("tree+")],
            vector_weight=self.vector_weight if "+" in self.kernel else 1.0,
            gamma=self.gamma or 1.0,
            s=self.s,
            c=self.c,
            d=self.d,
            vectors_normalised=self.normalise == "both",
            tree_weight=(self.tree_weight if "+" in self.kernel else 1.0) if has_tree else 0.0,
            lam=self.lam,
            trees_normalised=self.normalise != "none",
        )

    def init(self, dim: int) -> State:
        if self.gamma is None or self.width is None:
            raise ValueError(
                f"{self.kind}: gamma or width is not set; set both, or call bind(layout) to derive "
                "them from the features"
            )
        rows, sees_rows = self.rows(), self.kernel != "tree"
        return self.fresh(
            fresh_support(
                dim, rows, rows * self.width * sees_rows, rows * self.nodes * self._reads_trees()
            )
        )

    def is_valid(self, state: State) -> bool:
        numbers = [part for part in state if isinstance(part, np.ndarray)]
        finite = all(
            np.isfinite(part).all() and (part.dtype != np.int64 or (part >= 0).all())
            for part in numbers
        )
        if not (is_valid_support(state.support) and finite):
            return False
        support, n = state.support, int(state.support.size[0])
        trees = (
            [own(support.trees, i, self.lam) for i in range(n)]
            if self._reads_trees()
            else np.zeros(n)
        )
        return bool(
            state.square[0] >= 0.0
            and np.allclose(trees, support.tree_squares[:n], rtol=1e-9, atol=0.0)
        )

    def row_refusals(self, X: Batch) -> Flags:
        return refuse_rows(self.function(), X, row_refusals(X))

    def score_rows(self, state: State, X: Batch) -> Array:
        with borrow_work(state.support) as work:
            return self.run_scores(state, self.function(), X, work)

    def support_terms(self, state: State, X: Batch | None, column: int, most: int) -> SupportTerms:
        del column
        a, constant = self.scoring_coefficients(state)
        return support_terms(state.support, self.function(), X, a, constant, most)

    def support_usage(self, state: State, column: int) -> SupportUsage:
        del column
        return SupportUsage(int(state.support.size[0]), self.rows(), self.norm(state))

    def scoring_coefficients(self, state: State) -> tuple[Array, float]:
        """The coefficients used for scoring, and the constant added to their sum."""
        return state.support.a[: state.support.size[0]], 0.0

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        del memory
        with borrow_work(state.support) as work:
            learned = Learned(*self.run(state, self.function(), X, y, work))
        count_updates(state, learned.moved)
        return learned

    def updates(self, state: State) -> int:
        return int(state.updates[0])

    def dropped_updates(self, state: State) -> int:
        return int(state.dropped[0])

    def norm(self, state: State) -> float:
        return float(np.sqrt(state.square[0]))


class UnboundedLearner(KernelLearner):
    """A learner whose rule never drops a row.

    When no room is left, it stores no more rows and counts their updates as dropped.
    """

    max_support: int = Field(default=10_000, ge=1, le=1 << 20)
    """Maximum number of stored rows; mistakes beyond it change nothing and are counted as
    dropped."""

    def rows(self) -> int:
        return self.max_support


class WeighingLearner(UnboundedLearner):
    """A learner whose rule weighs events: by importance, times the cost of the class."""

    J: float = Field(default=1.0, gt=0.0, le=1e6)
    """Cost factor of the positive class: its events count J times."""

    @property
    def capabilities(self) -> Capabilities:
        return super().capabilities._replace(uses_weights=True)

    def learn_rows(self, state: State, X: Batch, y: Array, memory: Memory = ONCE) -> Learned:
        if self.J != 1.0:
            X = X._replace(weights=np.where(y > 0.0, self.J * X.weights, X.weights))
        return super().learn_rows(state, X, y, memory)


class BudgetLearner(KernelLearner):
    """A learner whose rule says what to do when the budget is full."""

    budget: int = Field(default=1000, ge=1, le=1 << 20)
    """B, the maximum number of stored rows."""

    def rows(self) -> int:
        return self.budget
