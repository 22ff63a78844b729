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

**The same bits for any cut.** A row is predicted and learned by `learn_row`, one row at a time, and
only a full block calls LAPACK. So a call of one row is a call of many with n = 1, a late row is
learned by the same function, and the rows of an open block can be learned again from a file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtrsm

from pronk.core.compiling import compiled
from pronk.core.linalg import (
    add_products,
    cholesky,
    recombined,
    solve_each,
    solve_lower,
    solve_one,
)
from pronk.core.state import (
    LARGEST_TARGET,
    LowerTriangle,
    Numbers,
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
LENGTH, SHORT_LENGTH, FEW_FEATURES = 64, 32, 16
#: The open rows forget at most so much that this share of the sums is left.
LEAST_SHARE = 0.01


class Block(NamedTuple):
    """The factor of the sums at the start of a block, and its rows.

    factor (r, r) is L with L L' = A, in C order, and beta (r, outputs) is L^-1 b. Row s has the
    features Phi[s] (r,) and targets Y[s] (outputs,) as given, Z[s] = L^-1 (root Phi[s]), and
    kappa[s], step[s] (outputs,) and column s of ``upper`` (length, length) as in `recurrence`.
    shares[s] is the share of the sums that is left before row s; root is 1 / sqrt(shares[s + 1]).
    """

    factor: Array
    beta: Array
    Phi: Array
    Y: Array
    Z: Array
    upper: Array
    kappa: Array
    step: Array
    shares: Array


@compiled(fastmath={"contract"})
def predict_row(
    phi: Array, t: int, discount: float, anticipate: bool, block: Block, out: Array
) -> float:
    """Predict features phi (r,) as row t of the block, after a gap of 1, into ``out`` (outputs,).

    Return the share that is left after such a row. f is left in ``step[t]``.
    """
    share = block.shares[t] * discount
    root, z = 1.0 / np.sqrt(share), block.Z[t]
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
    for i in range(phi.size):
        block.Phi[t, i] = phi[i]
    # step = (f - root y) kappa
    root = 1.0 / np.sqrt(share)
    for o in range(y.size):
        block.Y[t, o] = y[o]
        block.step[t, o] = (block.step[t, o] - root * y[o]) * block.kappa[t]


@compiled
def share_after(share: float, gap: float, discount: float) -> float:
    """Return the share of the sums that is left after a row and the gap before it."""
    return max(share * (discount if gap == 1.0 else discount**gap), LEAST_SHARE)


@compiled(unroll=False)
def learn_rows(
    Phi: Array, Y: Array, gaps: Array, later: Array, t: int, discount: float, anticipate: bool,
    block: Block, out: Array,
) -> None:  # fmt: skip
    """Predict then learn rows t, t + 1, ... of the block: Phi (n, r), Y and ``out`` (n, outputs).

    Where ``later`` (n, r) has rows, each of them is predicted into ``out`` before a row is learned.
    """
    fresh = np.empty(out.shape[1])
    for i in range(len(Phi)):
        share = share_after(block.shares[t + i], gaps[i], discount)
        if len(later):
            predict_row(later[i], t + i, discount, anticipate, block, out[i])
            learn_row(Phi[i], Y[i], share, t + i, discount, anticipate, block, fresh)
        else:
            learn_row(Phi[i], Y[i], share, t + i, discount, anticipate, block, out[i])


@compiled(unroll=False)
def learn_rows_again(Phi: Array, Y: Array, shares: Array, discount: float, block: Block) -> None:
    """Learn the first rows of an open block, after which ``shares`` (n,) are left."""
    out = np.empty(Y.shape[1])
    for i in range(len(Phi)):
        learn_row(Phi[i], Y[i], shares[i], i, discount, True, block, out)


@compiled(unroll=False)
def predict_rows(
    Phi: Array, t: int, discount: float, anticipate: bool, block: Block, out: Array, q: Array
) -> None:
    """Predict rows Phi (n, r), each as row t of the block, into ``out`` (n, outputs).

    Their leverages phi'A^-1 phi, with the weight of the next row, go to q (n,).
    """
    for i in range(len(Phi)):
        predict_row(Phi[i], t, discount, anticipate, block, out[i])
        q[i] = 1.0 / block.kappa[t] - 1.0


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


class OpenRows(Numbers):
    """An array of the open block, of which the first rows are saved."""

    def __init__(self, name: str, shape: tuple[str | int, ...], **options: Any) -> None:
        super().__init__(name, shape, written="computed", **options)

    def dump(self, owner: Any) -> Any:
        first = int(self.name == "shares")
        return getattr(owner._block, self.name)[first : first + owner.open_rows].copy()


class Forecaster(Stateful):
    """AWV in R^r with ``alpha``, any number of outputs and, unless None, a window in rows.

    Without ``anticipate`` it is online ridge regression, which does not shrink the prediction of a
    row that is far from the others; whoever uses it clips the predictions.
    """

    def __init__(
        self, alpha: float, size: int, outputs: int = 1, window: float | None = None,
        anticipate: bool = True,
    ) -> None:  # fmt: skip
        self.alpha, self.outputs, self.anticipate = alpha, outputs, anticipate
        self.discount = 1.0 if window is None else 1.0 - 1.0 / window
        self._A = np.asfortranarray(alpha * np.eye(size))
        self._b = np.zeros((size, outputs))
        self._factor()

    @property
    def size(self) -> int:
        """Number of features r."""
        return len(self._b)

    @property
    def block_length(self) -> int:
        """Rows of a block."""
        return SHORT_LENGTH if self.size <= FEW_FEATURES else LENGTH

    @property
    def open_rows(self) -> int:
        """Rows in the open block."""
        return self._open

    def _factor(self) -> None:
        """Compute L L' = A and beta = L^-1 b, and open a block."""
        L = np.ascontiguousarray(cholesky(self._A, "A"))
        rows = self._b.T.copy()  # column by column: no bit depends on the number of outputs
        solve_each(L, rows)
        r, length, outputs = self.size, self.block_length, self.outputs
        self._block = Block(
            L, np.ascontiguousarray(rows.T), np.zeros((length, r)), np.zeros((length, outputs)),
            np.zeros((length, r)), np.zeros((length, length)), np.zeros(length),
            np.zeros((length, outputs)), np.ones(length + 1),
        )  # fmt: skip
        self._open = 0
        self._weights: Array | None = None

    # -- learning ---------------------------------------------------------------------------

    def learn(
        self, Phi: Array, Y: Array, gaps: Array | None = None, later: Array | None = None
    ) -> Array:
        """Predict then learn rows Phi (m, r) with targets Y; return predictions (n, outputs).

        ``gaps`` (m,) are the gaps before the rows; None: 1. With ``later`` rows (n, r) those are
        predicted: the last m of them just before a row is learned, row n - m + j after j rows.
        """
        if later is None:
            later = Phi[:0]
            out = np.empty((len(Phi), self.outputs))
            arriving = out
        else:
            early = len(later) - len(Phi)
            out = np.empty((len(later), self.outputs))
            if early:
                out[:early] = self.predict(later[:early])
            later, arriving = later[early:], out[early:]
        gaps, start = np.ones(len(Phi)) if gaps is None else gaps, 0
        length = self.block_length
        while start < len(Phi):
            rows = slice(start, min(len(Phi), start + length - self._open))
            learn_rows(
                Phi[rows], Y[rows], gaps[rows], later[rows], self._open, self.discount,
                self.anticipate, self._block, arriving[rows],
            )  # fmt: skip
            self._open += rows.stop - start
            self._weights = None
            if self._open == length:
                self._close_block()
            start = rows.stop
        return out

    def learn_again(self, Phi: Array, Y: Array, shares: Array) -> None:
        """Learn the rows of an open block, after which ``shares`` (n,) of the sums are left."""
        learn_rows_again(Phi, Y, shares, self.discount, self._block)
        self._open, self._weights = len(Phi), None

    def _close_block(self) -> None:
        """Add the rows of a full block to the sums and factor A."""
        Phi, Y, kept = self._block.Phi, self._block.Y, float(self._block.shares[-1])
        if self.discount < 1.0:
            roots = 1.0 / np.sqrt(self._block.shares[1:, None])
            Phi, Y = roots * Phi, roots * Y
        A = add_products(self._A.copy(order="F"), Phi)
        b = self._b + Phi.T @ Y
        if self.discount < 1.0:
            A *= kept
            b *= kept
            A[np.diag_indices(self.size)] += (1.0 - kept) * self.alpha
        self._A, self._b = A, b
        self._factor()

    def grow_by(self, count: int) -> None:
        """Add ``count`` coordinates in which all rows so far are 0, between two blocks."""
        if count:
            n = self.size
            A = np.asfortranarray(self.alpha * np.eye(n + count))
            A[:n, :n] = self._A
            self.continue_from(A, np.vstack((self._b, np.zeros((count, self.outputs)))))

    def keep_first(self, size: int) -> None:
        """Drop the coordinates behind the first ``size``, between two blocks."""
        if size < self.size:
            self.continue_from(self._A[:size, :size], self._b[:size])

    def continue_from(self, A: Array, b: Array) -> None:
        """Continue from these sums with an empty block."""
        assert not self._open
        self._A, self._b = np.asfortranarray(A), np.ascontiguousarray(b)
        self._factor()

    # -- the current model --------------------------------------------------------------------

    def predict(self, Phi: Array) -> Array:
        """Return the prediction of each row if it came next; changes nothing."""
        return self._read(Phi)[0]

    def variance(self, Phi: Array) -> Array:
        """Return v = phi' A^-1 phi with the weight of the next row; 1 + v scales the noise."""
        return self._read(Phi)[1]

    def _read(self, Phi: Array) -> tuple[Array, Array]:
        out, q = np.empty((len(Phi), self.outputs)), np.empty(len(Phi))
        predict_rows(Phi, self._open, self.discount, self.anticipate, self._block, out, q)
        return out, q

    @property
    def weights(self) -> Array:
        """A^-1 b with the open rows, (r, outputs)."""
        if self._weights is None:
            t, (L, beta, *_) = self._open, self._block
            inner = dtrsm(1.0, self._block.upper[:t, :t], self._block.step[:t], diag=1)
            right = beta - self._block.Z[:t].T @ inner if t else beta
            self._weights = solve_lower(np.asfortranarray(L), right, transposed=True)
        return self._weights

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self.outputs, block = matrix.shape[1], self._block
        self._b = recombined(self._b, matrix)
        self._block = block._replace(
            beta=recombined(block.beta, matrix), step=recombined(block.step, matrix),
            Y=recombined(block.Y, matrix),
        )  # fmt: skip
        self._weights = None

    # -- state ------------------------------------------------------------------------------

    # A full block has new arrays, an open one is appended to: a snapshot shares all of them. A file
    # holds the open rows as given, which are learned again.
    STATE = (
        LowerTriangle("A", "size", order="F", written="replaced"),
        Numbers("b", ("size", "outputs"), written="replaced"),
        OpenRows("Phi", ("open", "size")),
        OpenRows("Y", ("open", "outputs"), low=-LARGEST_TARGET, high=LARGEST_TARGET),
        OpenRows("shares", ("open",), low=LEAST_SHARE, high=1.0),
        Unsaved("_block"),
        Unsaved("_open"),
        Unsaved("outputs"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self.outputs}

    def _assign(self, values: dict[str, Any]) -> None:
        self._A, self._b, *self._loaded = values.values()

    def _restored(self, sizes: Sizes) -> None:
        Phi, Y, shares = self.__dict__.pop("_loaded")
        require((np.diagonal(self._A) > 0.0).all(), "A is not positive definite")
        try:
            self._factor()
        except FloatingPointError:
            raise StateError("A is not positive definite") from None
        require(len(Phi) < self.block_length, "Phi has more rows than a block")
        require(self.discount < 1.0 or (shares == 1.0).all(), "shares forget without a window")
        require((np.diff(shares, prepend=1.0) <= 0.0).all(), "shares increase")
        self.learn_again(Phi, Y, shares)

    def _update_derived(self) -> None:
        self._weights = None
