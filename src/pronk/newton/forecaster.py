"""Ridge and AWV forecasters row by row, with windows and gaps: the default learner's experts.

The sums are those of `engine`, discounted as in `discounted`: with the discount lambda = 1 - 1/w of
a window of w rows (1 without a window) and the gap before each row (`aggregate.clock`; 1 without
times),

    A <- lambda^gap A + phi phi',   b <- lambda^gap b + y phi,

and the part of the regulariser alpha I that was forgotten is added again at the end of each block.
Divided by the share of the sums that is left since the start of the block, this is a plain sum: a
row enters multiplied by 1 / sqrt(share). No less than `LEAST_SHARE` is left within a block, or the
regulariser would vanish after long gaps.

With f = phi'A^-1 b and q = phi'A^-1 phi, AWV predicts f / (1 + q), which differs much from f where
a row is far from those before: the regret is bounded for any targets, and values at the edge of the
data are learned slowly. Ridge regression predicts f; clipped to the range of the targets, its
squared loss exceeds that of any fixed weights by a logarithm too.

The gap before a row changes what is learned and not the row's prediction, which counts the row as
one that comes after a gap of 1.

**One step.** Forecasters that read the same rows, in features of some groups, are one object:
`learn_rows` predicts and learns a row with all of them, one row at a time, and only a full block
calls LAPACK. So a call of one row is a call of many with n = 1, a late row is learned by the same
function, and the rows of an open block can be learned again from a file, to the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk, dtrsm

from pronk.core.compiling import compiled
from pronk.core.linalg import cholesky, recombined, solve_each, solve_one
from pronk.core.state import (
    LARGEST_TARGET,
    LowerTriangle,
    Numbers,
    Parts,
    Sizes,
    StateError,
    Stateful,
    Unsaved,
    require,
)
from pronk.newton.recurrence import border_row, eliminate

Array = NDArray[np.float64]

#: Rows after which points and experts may change; the lengths of blocks divide it.
EPOCH = 256
#: Length of a block, and the length where there are at most FEW_FEATURES features.
LENGTH, SHORT_LENGTH, FEW_FEATURES = 128, 32, 16
#: The open rows forget at most so much that this share of the sums is left.
LEAST_SHARE = 0.01


class Block(NamedTuple):
    """The factor of one forecaster's sums at the start of a block, and the rows of the block.

    factor (r, r) is L with L L' = A, in C order, and beta (r, outputs) is L^-1 b. Row s has
    Z[s] = L^-1 (root phi), and kappa[s], step[s] (outputs,) and column s of ``upper`` as in
    `recurrence`. shares[s] is the share of the sums that is left before row s; root is
    1 / sqrt(shares[s + 1]).
    """

    factor: Array
    beta: Array
    Z: Array
    upper: Array
    kappa: Array
    step: Array
    shares: Array


class Blocks(NamedTuple):
    """The blocks of all forecasters, R the largest number of features.

    ``own`` has the fields of `Block` with a first index, that of the forecaster; the factors stand
    one behind the other. The rows are common: row s has the features Phi[g, s] (R,) in group g, the
    targets Y[s] (outputs,) and gaps[s].
    """

    own: Block
    Phi: Array
    Y: Array
    gaps: Array


class Kinds(NamedTuple):
    """What forecasters are, (forecasters,) each: number of features, group, discount.

    The factor of each starts at an entry of ``starts``. ``anticipate``: whether they predict by
    AWV.
    """

    sizes: NDArray[np.int64]
    starts: NDArray[np.int64]
    groups: NDArray[np.int64]
    discounts: Array
    anticipate: bool


@compiled
def block_of(e: int, kinds: Kinds, blocks: Blocks) -> Block:
    """Return the block of forecaster e."""
    r, start, own = kinds.sizes[e], kinds.starts[e], blocks.own
    return Block(
        own.factor[start : start + r * r].reshape((r, r)), own.beta[e], own.Z[e], own.upper[e],
        own.kappa[e], own.step[e], own.shares[e],
    )  # fmt: skip


@compiled(fastmath={"contract"})
def predict_row(
    phi: Array, t: int, discount: float, anticipate: bool, block: Block, out: Array
) -> float:
    """Predict features phi (r,) as row t of the block, after a gap of 1, into ``out`` (outputs,).

    Return the share that is left after such a row. f is left in ``step[t]``.
    """
    share = block.shares[t] * discount
    root, z = 1.0 / np.sqrt(share), block.Z[t, : phi.size]
    # z = L^-1 (root phi)
    for i in range(phi.size):
        z[i] = root * phi[i]
    solve_one(block.factor, z)
    g, f = np.empty(t + 1), block.step[t]
    border_row(z, block.Z, t, block.beta, g, f)
    # kappa = 1 / (1 + q),  p = f kappa, or f, in the units of the target
    block.kappa[t] = 1.0 / (1.0 + eliminate(g, t, block.upper, block.kappa, block.step, f))
    for o in range(f.size):
        out[o] = f[o] * (block.kappa[t] if anticipate else 1.0) / root
    return share


@compiled(fastmath={"contract"})
def learn_row(
    phi: Array, y: Array, share: float, t: int, discount: float, anticipate: bool, block: Block,
    out: Array,
) -> None:  # fmt: skip
    """Predict row t of the block into ``out`` (outputs,), then learn its targets y (outputs,).

    ``share`` is the share of the sums that is left after the row.
    """
    usual = predict_row(phi, t, discount, anticipate, block, out)
    if share != usual:
        # The row enters after its own gap: z, f and row t of T scale with the root of its weight.
        scale = np.sqrt(usual / share)
        block.kappa[t] = 1.0 / (1.0 + (1.0 / block.kappa[t] - 1.0) * scale * scale)
        for i in range(phi.size):
            block.Z[t, i] *= scale
        for s in range(t):
            block.upper[s, t] *= scale
        for o in range(y.size):
            block.step[t, o] *= scale
    block.shares[t + 1] = share
    # step = (f - root y) kappa
    root = 1.0 / np.sqrt(share)
    for o in range(y.size):
        block.step[t, o] = (block.step[t, o] - root * y[o]) * block.kappa[t]


@compiled
def share_after(share: float, gap: float, discount: float) -> float:
    """Return the share of the sums that is left after a row and the gap before it."""
    return max(share * (discount if gap == 1.0 else discount**gap), LEAST_SHARE)


@compiled(unroll=False)
def learn_rows(
    Phi: Array, Y: Array, gaps: Array, later: Array, first: int, stop: int, t: int,
    kinds: Kinds, blocks: Blocks, out: Array,
) -> None:  # fmt: skip
    """Predict then learn rows first .. stop - 1 of Phi (groups, m, R), Y and ``gaps``.

    They are rows t, t + 1, .. of the blocks, which have room for them. ``out`` (n, forecasters or
    more, outputs) gets the predictions. Where ``later`` (groups, n, R) has rows, those are
    predicted: the last m of them, each before a row is learned.
    """
    fresh, early = np.empty(Y.shape[1]), len(out) - len(Y)
    for i in range(first, stop):
        place = t + i - first
        blocks.gaps[place] = gaps[i]
        for o in range(Y.shape[1]):
            blocks.Y[place, o] = Y[i, o]
        for g in range(len(blocks.Phi)):
            for j in range(blocks.Phi.shape[2]):
                blocks.Phi[g, place, j] = Phi[g, i, j]
    for e in range(kinds.sizes.size):
        g, r, discount, block = (
            kinds.groups[e], kinds.sizes[e], kinds.discounts[e], block_of(e, kinds, blocks)
        )  # fmt: skip
        for i in range(first, stop):
            place = t + i - first
            share = share_after(block.shares[place], gaps[i], discount)
            shown = out[early + i, e]
            if later.shape[1]:
                phi = later[g, early + i, :r]
                predict_row(phi, place, discount, kinds.anticipate, block, shown)
                shown = fresh
            phi = Phi[g, i, :r]
            learn_row(phi, Y[i], share, place, discount, kinds.anticipate, block, shown)


@compiled(unroll=False)
def predict_rows(
    Phi: Array, rows: int, t: int, kinds: Kinds, blocks: Blocks, out: Array, leverages: Array
) -> None:  # fmt: skip
    """Predict the first ``rows`` rows of Phi (groups, .., R), each as row t of the blocks.

    The predictions go to ``out`` (.., forecasters or more, outputs), the leverages phi'A^-1 phi,
    with the weight of the next row, to ``leverages`` (rows, forecasters).
    """
    for e in range(kinds.sizes.size):
        g, r, block = kinds.groups[e], kinds.sizes[e], block_of(e, kinds, blocks)
        for i in range(rows):
            phi, discount = Phi[g, i, :r], kinds.discounts[e]
            predict_row(phi, t, discount, kinds.anticipate, block, out[i, e])
            leverages[i, e] = 1.0 / block.kappa[t] - 1.0


@compiled
def weighted_sums(Phi: Array, weights: Array, out: Array) -> None:
    """Write Phi weights to ``out`` (n, outputs) row by row: Phi (n, s), weights (r, outputs).

    The first r columns of Phi are read.
    """
    for i in range(len(Phi)):
        for o in range(weights.shape[1]):
            out[i, o] = 0.0
        for j in range(len(weights)):
            for o in range(weights.shape[1]):
                out[i, o] += Phi[i, j] * weights[j, o]


class Sums(Stateful):
    """The sums A, in C order, and b of one forecaster, up to its open block."""

    def __init__(self, alpha: float, size: int, outputs: int) -> None:
        self.alpha = alpha
        self.A, self.b = alpha * np.eye(size), np.zeros((size, outputs))

    def add(self, Phi: Array, Y: Array, shares: Array) -> None:
        """Add the rows of a full block, after each of which some share of the sums is left."""
        kept = float(shares[-1])
        if kept < 1.0:
            roots = 1.0 / np.sqrt(shares[:, None])
            Phi, Y = roots * Phi, roots * Y
        # The transpose is in Fortran order: the lower triangle of A is its upper one.
        A = dsyrk(1.0, np.ascontiguousarray(Phi).T, beta=1.0, c=self.A.copy().T, overwrite_c=1).T
        # output by output: no bit depends on their number
        b = self.b + np.stack([Phi.T @ y for y in Y.T.copy()], axis=1)
        if kept < 1.0:
            A *= kept
            b *= kept
            A[np.diag_indices(len(A))] += (1.0 - kept) * self.alpha
        self.A, self.b = A, b

    def factor(self, L: Array, beta: Array) -> None:
        """Write the factor with L L' = A to L (r, r), in C order, and L^-1 b to beta."""
        cholesky(self.A, "A", out=L, by_rows=True)
        columns = self.b.T.copy()  # column by column: no bit depends on the number of outputs
        solve_each(L, columns)
        beta[:] = columns.T

    def grow_by(self, count: int) -> None:
        """Add ``count`` coordinates in which all rows so far are 0."""
        n = len(self.b)
        A = self.alpha * np.eye(n + count)
        A[:n, :n] = self.A
        self.A, self.b = A, np.vstack((self.b, np.zeros((count, self.b.shape[1]))))

    def keep_first(self, size: int) -> None:
        """Drop the coordinates behind the first ``size``."""
        self.A = np.ascontiguousarray(self.A[:size, :size])
        self.b = np.ascontiguousarray(self.b[:size])

    STATE = (
        LowerTriangle("A", "size", "A", written="replaced"),
        Numbers("b", ("size", "outputs"), "b", written="replaced"),
    )

    def _restored(self, sizes: Sizes) -> None:
        require((np.diagonal(self.A) > 0.0).all(), "A is not positive definite")


class OpenRows(Numbers):
    """An array of the open blocks, of which the open rows are saved."""

    def __init__(self, name: str, shape: tuple[str | int, ...], **options: Any) -> None:
        super().__init__(name, shape, written="computed", **options)

    def dump(self, owner: Any) -> Any:
        values, rows = getattr(owner.blocks, self.name), slice(owner.open_rows)
        return values[:, rows].copy() if self.name == "Phi" else values[rows].copy()


class Forecasters(Stateful):
    """Forecasters of the same targets, in features of one or several groups.

    Parameters
    ----------
    alphas, windows : sequence
        Regularisation of each forecaster, and its window in rows or None.
    groups : sequence of int
        The group whose features it reads.
    anticipate : bool
        AWV; otherwise online ridge regression, which does not shrink the prediction of a row that
        is far from the others: whoever uses it clips the predictions.

    Features are arrays (groups or more, rows, R or more), R the size of the largest forecaster;
    each reads the first ones of its group, as many as its size.
    """

    def __init__(
        self, alphas: Sequence[float], windows: Sequence[float | None], groups: Sequence[int],
        outputs: int = 1, anticipate: bool = True, size: int = 0,
    ) -> None:  # fmt: skip
        self.outputs, self.anticipate = outputs, anticipate
        self._groups = np.array(groups, dtype=np.int64)
        self._discounts = np.array([1.0 if w is None else 1.0 - 1.0 / w for w in windows])
        self._sums = [Sums(alpha, size, outputs) for alpha in alphas]
        self._open = 0
        self._blocks: Blocks | None = None

    @property
    def sizes(self) -> list[int]:
        """Number of features of each forecaster."""
        return [len(sums.b) for sums in self._sums]

    @property
    def width(self) -> int:
        """Number of features R of a group: those of the largest forecaster."""
        return max(self.sizes, default=0)

    @property
    def block_length(self) -> int:
        """Rows of a block."""
        return SHORT_LENGTH if max(self.sizes, default=0) <= FEW_FEATURES else LENGTH

    @property
    def open_rows(self) -> int:
        """Rows in the open blocks."""
        return self._open

    @property
    def blocks(self) -> Blocks:
        """The open blocks; new ones are made when they are first used.

        Points and experts change between two blocks, so factors made earlier would be made twice.
        """
        if self._blocks is None:
            self._factor()
        assert self._blocks is not None
        return self._blocks

    def _factor(self) -> None:
        """Open new blocks of all forecasters."""
        assert not self._open
        sizes = np.array(self.sizes, dtype=np.int64)
        ends = np.cumsum(sizes * sizes)
        starts = ends - sizes * sizes
        count, r, outputs = len(sizes), int(sizes.max(initial=0)), self.outputs
        groups, n = int(self._groups.max(initial=0)) + 1, self.block_length
        own = Block(
            np.empty(ends.max(initial=0)), np.zeros((count, r, outputs)), np.empty((count, n, r)),
            np.zeros((count, n, n)), np.zeros((count, n)), np.zeros((count, n, outputs)),
            np.ones((count, n + 1)),
        )  # fmt: skip
        for e, sums in enumerate(self._sums):
            L = own.factor[starts[e] : ends[e]].reshape(sizes[e], sizes[e])
            sums.factor(L, own.beta[e, : sizes[e]])
        # At the end: a signal while `predict` opens blocks leaves none.
        self._kinds = Kinds(sizes, starts, self._groups, self._discounts, self.anticipate)
        self._blocks = Blocks(own, np.empty((groups, n, r)), np.empty((n, outputs)), np.ones(n))

    # -- learning ---------------------------------------------------------------------------

    def learn(
        self, Phi: Array, Y: Array, gaps: Array | None = None, later: Array | None = None,
        out: Array | None = None,
    ) -> Array:  # fmt: skip
        """Predict then learn rows Phi (groups, m, R) with targets Y; return the predictions.

        The predictions (n, forecasters, outputs) are written to ``out``, which may have room for
        more forecasters. ``gaps`` (m,) are the gaps before the rows; None: 1. With ``later`` rows
        (groups, n, R) those are predicted: the last m of them just before a row is learned, row
        n - m + j after j rows.
        """
        if out is None:
            count = len(Y) if later is None else later.shape[1]
            out = np.empty((count, len(self._sums), self.outputs))
        if later is None:
            later = Phi[:, :0]
        elif early := len(out) - len(Y):
            self._predict(later, early, out)
        if gaps is None:
            gaps = np.ones(len(Y))
        start, length = 0, self.block_length
        while start < len(Y):
            stop = min(len(Y), start + length - self._open)
            blocks = self.blocks
            learn_rows(Phi, Y, gaps, later, start, stop, self._open, self._kinds, blocks, out)
            self._open += stop - start
            if self._open == length:
                self._close_blocks()
            start = stop
        return out

    def _close_blocks(self) -> None:
        """Add the rows of full blocks to the sums."""
        blocks = self.blocks
        for e, sums in enumerate(self._sums):
            Phi = blocks.Phi[self._groups[e], :, : len(sums.b)]
            sums.add(Phi, blocks.Y, blocks.own.shares[e, 1:])
        self._open, self._blocks = 0, None

    def resize(self, sizes: Sequence[int]) -> None:
        """Change the numbers of features, between two blocks.

        All rows so far are 0 in new coordinates; of fewer the first are kept.
        """
        if list(sizes) == self.sizes:
            return
        for sums, size in zip(self._sums, sizes, strict=True):
            if size > len(sums.b):
                sums.grow_by(size - len(sums.b))
            elif size < len(sums.b):
                sums.keep_first(size)
        self._blocks = None

    def keep(self, places: Sequence[int], groups: Sequence[int]) -> None:
        """Keep the forecasters at some places, between two blocks; they read these groups."""
        self._sums = [self._sums[e] for e in places]
        self._groups = np.array(groups, dtype=np.int64)
        self._discounts = self._discounts[list(places)]
        self._blocks = None

    # -- the current model --------------------------------------------------------------------

    def predict(self, Phi: Array, out: Array | None = None) -> Array:
        """Return the predictions of rows Phi (groups, n, R) that may come next; changes nothing."""
        if out is None:
            out = np.empty((Phi.shape[1], len(self._sums), self.outputs))
        self._predict(Phi, len(out), out)
        return out

    def _predict(self, Phi: Array, rows: int, out: Array) -> Array:
        leverages, blocks = np.empty((rows, len(self._sums))), self.blocks
        predict_rows(Phi, rows, self._open, self._kinds, blocks, out, leverages)
        return leverages

    def variance(self, Phi: Array, e: int) -> Array:
        """Return v = phi' A^-1 phi (n,) of forecaster e, with the weight of the next row.

        1 + v scales the noise.
        """
        rows = Phi.shape[1]
        out = np.empty((rows, len(self._sums), self.outputs))
        return np.asarray(self._predict(Phi, rows, out)[:, e])

    def weights_of(self, e: int) -> Array:
        """Return A^-1 b of forecaster e with the open rows, (r, outputs)."""
        size, t, block = len(self._sums[e].b), self._open, self.blocks.own
        right = block.beta[e, :size].copy()
        if t:
            inner = dtrsm(1.0, block.upper[e, :t, :t], block.step[e, :t], diag=1)
            right -= block.Z[e, :t, :size].T @ inner
        start = self._kinds.starts[e]
        L = block.factor[start : start + size * size].reshape(size, size)
        # The transpose of L is in Fortran order.
        return np.asarray(dtrsm(1.0, L.T, right)) if size else right

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        blocks, self.outputs = self.blocks, matrix.shape[1]
        for sums in self._sums:
            sums.b = recombined(sums.b, matrix)
        beta, step = recombined(blocks.own.beta, matrix), recombined(blocks.own.step, matrix)
        own = blocks.own._replace(beta=beta, step=step)
        self._blocks = blocks._replace(own=own, Y=recombined(blocks.Y, matrix))

    # -- state ------------------------------------------------------------------------------

    # Full blocks are replaced, rows are added behind those of open ones: a snapshot shares all
    # arrays. A file has the open rows as given, which are learned again.
    STATE = (
        Parts("sums", sizes={"outputs": "outputs"}),
        OpenRows("Phi", ("groups", "open", "width")),
        OpenRows("Y", ("open", "outputs"), low=-LARGEST_TARGET, high=LARGEST_TARGET),
        OpenRows("gaps", ("open",), low=0.0),
        Unsaved("_kinds"),
        Unsaved("_groups"),
        Unsaved("_discounts"),
        Unsaved("_blocks"),
        Unsaved("_open"),
        Unsaved("outputs"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self.outputs, "groups": len(self.blocks.Phi)}

    def _assign(self, values: dict[str, Any]) -> None:
        self._sums, *self._loaded = values.values()

    def _restored(self, sizes: Sizes) -> None:
        Phi, Y, gaps = self.__dict__.pop("_loaded")
        try:
            self._factor()
        except FloatingPointError:
            raise StateError("A is not positive definite") from None
        require(sizes["width"] == self.width, "Phi has another width than the largest sums")
        require(len(Y) < self.block_length, "Phi has more rows than a block")
        self.learn(Phi, Y, gaps)
