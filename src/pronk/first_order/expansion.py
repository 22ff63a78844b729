"""The kernel expansion engine: support vectors with coefficients, one output, first-order updates.

One compiled loop (`learn_rows`) processes the rows in order: kernel values of the row, score,
update, and, where the support set is over its budget, one of the strategies listed in `support`.
The loop itself evaluates a Gaussian kernel, except for many wide points. Their kernel values, and
those of all other kernels, are computed in blocks by `Kernel`: rows against points, and rows
against rows for the points that are added within the block.

Cost per row: one kernel evaluation per point; O(size) for the update and the budget, O(size^2) for
the Projectron on a mistake.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.features import in_chunks
from pronk.core.kernels import DIRECT_COLUMNS, Kernel
from pronk.core.randomness import REMOVALS, Uniforms
from pronk.core.state import Numbers, Part, Stateful, Unsaved, require
from pronk.first_order.budgets import forget, merge, project, project_margin
from pronk.first_order.support import (
    FORGET,
    LEAST_SHRINK,
    MERGE,
    MISTAKES,
    MOST_SHRINK,
    NONE,
    PROJECT,
    RANDOM,
    SEEN,
    SHRINK,
    SIZE,
    SMALLEST,
    USED,
    VALUES,
    RowBlock,
    Support,
    UpdateRule,
    add,
    dot_of_first,
    kernel_row,
    remove,
    remove_random,
    scale,
    shrink,
    smallest,
    step,
)

# -- the compiled loop ----------------------------------------------------------------------------
#
# ``values`` (slots,) are the kernel values of row i with the support vectors, ``scratch``
# (3, slots) is memory that is overwritten.


@compiled
def mistake_row(
    rule: UpdateRule,
    support: Support,
    rows: RowBlock,
    i: int,
    f: float,
    values: Array,
    scratch: Array,
) -> None:
    """Update a Perceptron that shrinks or projects: Forgetron, Projectron or Projectron++."""
    y = rows.y[i]
    if y * f > 0.0:
        if rule.aggressive and y * f < 1.0:
            project_margin(rule, support, rows.norms[i], f, y, values, scratch)
    elif rule.strategy == FORGET:
        forget(rule, support, rows, i, y, values)
    else:
        project(rule, support, rows, i, y, values, scratch)


@compiled
def step_row(
    rule: UpdateRule, support: Support, rows: RowBlock, i: int, f: float, scratch: Array
) -> None:
    """Update f <- (1 - eta alpha) f + a k(x, .) with a from the update rule; a = 0 adds no point.

    With pegasos the scale contains the shrinking by 1 - 1/t. If the rule is balanced, random
    removal multiplies the other coefficients by B / (B - 1), so that E[f] is unchanged (BOGD).
    """
    coefficient = step(rule, f, rows.y[i], rows.norms[i], rows.weights[i])
    # f = (1 - eta alpha) f
    if not rule.pegasos and rule.alpha > 0.0:
        shrink(support, 1.0 - rule.eta * rule.alpha)
    if coefficient == 0.0:
        return
    if rule.strategy == RANDOM and support.running[SIZE] == rule.budget:
        # f = B / (B - 1) f without a random point
        remove_random(support, rows.uniforms[i])
        if rule.balanced and rule.budget > 1:
            shrink(support, rule.budget / (rule.budget - 1.0))
    # f = f + a k(x, .)
    add(support, rows, i, coefficient / support.running[SHRINK])
    if support.running[SIZE] > rule.budget:
        if rule.strategy == MERGE:
            merge(rule, support, scratch)
        else:
            remove(support, smallest(support))


@compiled
def score(rule: UpdateRule, support: Support, values: Array) -> float:
    """Return f(x) = scale sum_j raw_j k(x_j, x)."""
    used = int(support.running[USED])
    return scale(rule, support) * dot_of_first(support.raw, values, used)


@compiled
def learn_rows(rule: UpdateRule, support: Support, rows: RowBlock, out: Array) -> None:
    """Predict, then learn, each row; the predictions are written to ``out`` (rows,)."""
    scratch = np.empty((3, support.raw.size))
    for i in range(rows.y.size):
        values = kernel_row(rule, support, rows, i, scratch[VALUES])
        f = score(rule, support, values)
        out[i] = f
        support.running[SEEN] += 1.0
        if rule.strategy == FORGET or rule.strategy == PROJECT:
            mistake_row(rule, support, rows, i, f, values, scratch)
        else:
            step_row(rule, support, rows, i, f, scratch)


@compiled
def score_rows(rule: UpdateRule, support: Support, rows: RowBlock, out: Array) -> None:
    """Write the score of each row to ``out`` (rows,); the support set is unchanged."""
    values = np.empty(support.raw.size)
    for i in range(out.size):
        out[i] = score(rule, support, kernel_row(rule, support, rows, i, values))


# -- the engine -----------------------------------------------------------------------------------

STRATEGIES = {
    None: NONE,
    "random": RANDOM,
    "forget": FORGET,
    "smallest": SMALLEST,
    "merge": MERGE,
    "project": PROJECT,
}

#: Rows per block where kernel values are computed in blocks, and where the loop evaluates them.
BLOCK, CHUNK = 256, 1024
#: Kernel values of rows wider than `DIRECT_COLUMNS` are computed with BLAS, which is faster once
#: points x columns exceeds this number; below it the loop evaluates a Gaussian kernel
#: (benchmarks/bench_expansion).
SMALL = 32768
#: The loop also evaluates a Gaussian kernel in calls of fewer rows, where a block costs more.
SHORT_CALL = 8


class Expansion(Stateful):
    """One output as a kernel expansion over the rows that changed it.

    It has at most ``budget`` points, enforced by a strategy.
    """

    def __init__(
        self,
        kernel: Kernel,
        columns: int,
        rule: UpdateRule,
        strategy: str | None = None,
        budget: int | None = None,
        seed: int = 0,
    ) -> None:
        self.kernel = kernel
        self.rule = rule._replace(strategy=STRATEGIES[strategy], rate=kernel.rate or 0.0)
        if budget is not None:
            self.rule = self.rule._replace(budget=int(budget))
        # A new point is added before another is dropped, so there is one slot more.
        self._most_slots = self.rule.budget + 1
        self._uniforms = Uniforms(seed, REMOVALS) if strategy == "random" else None
        running = np.array([0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
        self._support = self._make_support(columns, min(self._most_slots, 16), running)

    def _make_support(self, columns: int, slots: int, running: Array) -> Support:
        """Return a support set of free slots."""
        return Support(
            points=np.zeros((columns, slots)),
            raw=np.zeros(slots),
            norms=np.zeros(slots),
            order=np.arange(slots),
            square=np.zeros((slots, slots) if self._needs_square else (0, 0)),
            running=running,
        )

    @property
    def _needs_square(self) -> bool:
        return self.rule.strategy in (FORGET, PROJECT)

    @property
    def _used(self) -> int:
        return int(self._support.running[USED])

    @property
    def _active_slots(self) -> NDArray[np.int64]:
        """The slots of the support vectors, by age."""
        return self._support.order[: int(self._support.running[SIZE])]

    @property
    def points(self) -> Array:
        """The support vectors, oldest first."""
        return np.ascontiguousarray(self._support.points[:, self._active_slots].T)

    @property
    def weights(self) -> Array:
        """The coefficients of the points."""
        raw = self._support.raw[self._active_slots]
        return np.asarray(scale(self.rule, self._support) * raw)

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict, then learn, each row of X (n, columns) and Y (n, 1) with weights (n,)."""
        out = np.empty(len(X))
        weights = np.ones(len(X)) if weights is None else weights
        start = 0
        while start < len(X):
            rows = slice(start, start + (CHUNK if self._evaluates_in_loop(CHUNK) else BLOCK))
            self._learn_block(X[rows], Y[rows, 0].copy(), weights[rows], out[rows])
            start = rows.stop
        return out[:, None]

    def _learn_block(self, X: Array, y: Array, weights: Array, out: Array) -> None:
        self._reserve(len(X))
        uniforms = np.empty(0) if self._uniforms is None else self._uniforms.draw(len(X))
        self._copy_before_write(len(X), uniforms)
        learn_rows(self.rule, self._support, self._rows(X, y, weights, uniforms), out)

    def predict(self, X: Array) -> Array:
        """Return the prediction of each row as if it came next; the state is unchanged."""
        return in_chunks(BLOCK, self._predict_block, X)

    def _predict_block(self, X: Array) -> Array:
        out, nothing = np.empty(len(X)), np.empty(0)
        block = self._rows(X, nothing, nothing, nothing, learning=False)
        score_rows(self.rule, self._support, block, out)
        return out[:, None]

    def _evaluates_in_loop(self, n: int) -> bool:
        """Return whether the compiled loop evaluates the kernel for a block of n rows."""
        if self.kernel.rate is None:
            return False
        if self.rule.strategy == MERGE or n < SHORT_CALL:
            return True
        columns = len(self._support.points)
        return columns <= DIRECT_COLUMNS or columns * self._used <= SMALL

    def _rows(
        self, X: Array, y: Array, weights: Array, uniforms: Array, learning: bool = True
    ) -> RowBlock:
        """Return the block with the kernel values that the compiled loop needs."""
        n, used = len(X), self._used
        # A read-only array is another type to Numba, which would compile everything again.
        X = np.ascontiguousarray(X) if X.flags.writeable else X.copy()
        empty = np.empty((0, 0))
        if self._evaluates_in_loop(n):
            return RowBlock(X, y, weights, np.ones(n), uniforms, empty, empty)
        points = np.ascontiguousarray(self._support.points[:, :used].T)
        K = np.empty((n, len(self._support.raw)))
        if used:
            K[:, :used] = self.kernel(X, points)
        if not learning:
            return RowBlock(X, y, weights, np.empty(0), uniforms, K, empty)
        own = self.kernel(X, X)
        return RowBlock(X, y, weights, np.diag(own).copy(), uniforms, K, own)

    def _reserve(self, n: int) -> None:
        """Allocate slots for n more points, at most as many as the budget needs."""
        old = self._support
        allocated, needed = len(old.raw), min(self._used + n, self._most_slots)
        if needed <= allocated:
            return
        slots = min(max(needed, 2 * allocated), self._most_slots)
        self._support = self._make_support(len(old.points), slots, old.running)
        self._fill(old)

    def _fill(self, source: Support) -> None:
        """Copy the slots in use from another support set."""
        used = self._used
        for own, given in zip(in_use(self._support, used), in_use(source, used), strict=True):
            own[...] = given

    def remap(self, matrix: Array) -> None:
        """Replace the output by plus or minus itself."""
        self._support.raw[:] *= matrix[0, 0]

    # -- state ------------------------------------------------------------------------------

    STATE = (
        Numbers("points", ("columns", "used"), written="computed"),
        Numbers("raw", ("used",), written="computed"),
        Numbers("norms", ("used",), low=0.0, written="computed"),
        Numbers("order", ("used",), whole=True, structure="permutation", written="computed"),
        Numbers("running", (6,), written="computed"),
        Numbers("square", ("used", "used"), optional=True, written="computed"),
        Part("uniforms"),
        Unsaved("_support", written="slots"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": len(self._support.points)}

    def to_state(self) -> dict[str, Any]:
        """Return the slots in use; free slots are zero instead of holding dropped points."""
        used, own = self._used, self._support
        points, raw, norms, order, square = (array.copy() for array in in_use(own, used))
        active = len(self._active_slots)
        free = order[active:]
        points[:, free] = 0.0
        norms[free] = 0.0
        state: dict[str, Any] = {
            "points": points, "raw": raw, "norms": norms, "order": order,
            "running": own.running.copy(),
        }  # fmt: skip
        if self._needs_square:  # only values with older points are read, and L^-1 has a diagonal
            age = np.full(used, active)
            age[order[:active]] = np.arange(active)
            own_value = 1 if self.rule.strategy == FORGET else 0
            read = (age[:, None] < active) & (age[None, :] + own_value <= age[:, None])
            state["square"] = np.where(read, square, 0.0)
        if self._uniforms is not None:
            state["uniforms"] = self._uniforms.to_state()
        return state

    def _assign(self, values: dict[str, Any]) -> None:
        uniforms, square = values.pop("uniforms"), values.pop("square")
        require((square is not None) == self._needs_square, "square does not fit the strategy")
        source = Support(**values, square=np.empty((0, 0)) if square is None else square)
        self._check(source)
        self._uniforms = uniforms
        self._reserve(len(source.raw))
        self._support = self._support._replace(running=source.running)
        self._fill(source)

    def _check(self, source: Support) -> None:
        """Check the counts used as indices in compiled code, and what that code assumes."""
        running, used = source.running, len(source.raw)
        size = running[SIZE]
        require(running[USED] == used <= self._most_slots, "running has another number of slots")
        require(size == np.floor(size) and 0 <= size <= used, "running has a wrong size")
        require(size <= self.rule.budget, "running has a size above the budget")
        counts = running[[SEEN, MISTAKES]]
        require(
            (counts >= 0.0).all() and (counts == np.floor(counts)).all(), "running has no count"
        )
        good = LEAST_SHRINK <= abs(running[SHRINK]) <= MOST_SHRINK
        require(good, "running has a scale out of range")
        free = source.order[int(size) :]
        require(not source.raw[free].any(), "raw has coefficients of slots that are free")
        if self._needs_square:
            self._check_square(source)

    def _check_square(self, source: Support) -> None:
        """Raise if ``square`` is not what the points give: kernel values, or their inverse factor.

        Both are compared up to rounding, which grows with the terms of a sum.
        """
        order = source.order[: int(source.running[SIZE])]
        points = np.ascontiguousarray(source.points[:, order].T)
        K = self.kernel(points, points) if len(order) else np.empty((0, 0))
        S, lengths = np.tril(source.square[np.ix_(order, order)]), np.sqrt(np.diagonal(K))
        with np.errstate(over="ignore", invalid="ignore"):
            if self.rule.strategy == FORGET:
                np.fill_diagonal(S, source.norms[order])
                good = np.abs(S - np.tril(K)) <= 1e-9 * np.outer(lengths, lengths)
            else:  # L^-1 K L^-T 1 = 1
                ones, sizes = np.ones(len(order)), np.abs(S)
                error = np.abs(S @ (K @ (S.T @ ones)) - ones)
                good = error <= 1e-9 * (sizes @ (np.abs(K) @ (sizes.T @ ones)))
        require(good.all(), "square is not that of the points")

    def snapshot(self) -> Any:
        """Save the coefficients, which every row changes; points are saved before a row may."""
        snapshot, own = super().snapshot(), self._support
        assert self._overwritten is not None
        for array in (own.raw, own.order, own.running):
            self._overwritten.save_whole(array)
        return snapshot

    def _copy_before_write(self, n: int, uniforms: Array) -> None:
        """Save for the snapshot the points that n rows may overwrite."""
        own = self._support
        square = [(own.square, 0)] if self._needs_square else []
        slots = self._slots_to_overwrite(n, uniforms)
        self._save_slots(slots, (own.points, 1), (own.norms, 0), *square)

    def _slots_to_overwrite(self, n: int, uniforms: Array) -> NDArray[np.int64]:
        """Return the slots of support vectors that n rows may overwrite.

        A new point gets a free slot if there is one, so the last point dropped by n rows is not
        overwritten. The Forgetron drops points by age, other strategies in any order.
        """
        active, strategy = self._active_slots, self.rule.strategy
        if strategy in (NONE, PROJECT):
            return active[:0]
        if strategy == FORGET:
            return active[: n - 1]
        if n == 1 and strategy == SMALLEST:
            return active[:0]
        if n == 1 and strategy == RANDOM and active.size:
            rank = min(int(uniforms[0] * active.size), active.size - 1)
            return active[rank : rank + 1]
        return active


def in_use(support: Support, used: int) -> tuple[NDArray[Any], ...]:
    """Return the arrays of a support set without ``running``, of its slots in use."""
    points, raw, norms, order, square, _ = support
    return points[:, :used], raw[:used], norms[:used], order[:used], square[:used, :used]
