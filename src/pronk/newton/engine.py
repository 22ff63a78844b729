"""The Newton engine: second-order learning in R^r, exact in blocks.

The state is two plain sums over the rows,

    A = alpha I + sum_t c_t phi_t phi_t'        b = sum_t e_t phi_t        weights v = A^-1 b,

with (c, e) = (1, y) for the ridge and AWV forecasters, (eta g^2, c p - g - (f - p)/q) for the
online Newton step with slope g, and (l''(p) / (1 + BR), c p - g) for AIOLI. Rows are collected in
an open block: the factor L of A is that of the start of the block, and the effect of the open rows
on a prediction is a recurrence over scalars and a small triangle (`recurrence`, compiled). A full
block is added to the sums and A is factored again, so rounding errors do not accumulate. Calls of
one row and of a thousand rows use the same blocks, because blocks are counted from the start of the
stream.

Cost per row at block length B: about r^2 (2 + r / 3B) + 2 B r + B^2 / 3 flops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.linalg.blas import dtrsm

from pronk.core.arrays import Array
from pronk.core.linalg import (
    GrowingRows,
    Workspace,
    add_products,
    bordered,
    cholesky,
    recombined,
    solve_lower,
    solve_rows,
)
from pronk.core.losses import Loss
from pronk.core.state import (
    LARGEST_TARGET,
    Count,
    LowerTriangle,
    Numbers,
    Rows,
    Sizes,
    StateError,
    Stateful,
    Unsaved,
    require,
)
from pronk.newton import certificate, recurrence
from pronk.newton.certificate import (
    ROWS,
    TARGETS,
    Certificate,
    account,
    determinant_bound,
    merge_ledgers,
    new_ledger,
    squared_certificate,
)
from pronk.newton.recurrence import Open

#: No block is longer.
LONGEST_BLOCK = 1024

# -- rules: what a row adds to the sums -------------------------------------------------------


@dataclass(frozen=True)
class Squared:
    """The ridge forecaster, or with ``anticipate`` the AWV forecaster; any number of outputs."""

    anticipate: bool = True

    #: Whether c = 1 for every row, known before its prediction.
    unit: ClassVar[bool] = True
    clip: ClassVar[float | None] = None

    def as_array(self) -> Array:
        """Return nothing: the compiled rows need only ``anticipate``."""
        return np.empty(0)


@dataclass(frozen=True)
class OnlineNewton:
    """The online Newton step on a loss; one output. ``clip`` None: the largest |y| so far."""

    loss: Loss
    eta: float | str = "auto"
    clip: float | None = None

    #: c depends on the prediction.
    unit: ClassVar[bool] = False
    anticipate: ClassVar[bool] = False

    def as_array(self) -> Array:
        """Return the ``rule`` of the compiled rows, whose entries `recurrence` names."""
        eta = self.eta
        if eta == "auto" and not self.loss.curved:
            eta = "convex"
        named = {
            "auto": recurrence.ETA_CURVATURE,
            "convex": recurrence.ETA_CONVEX,
            "unit": recurrence.ETA_UNIT,
        }
        mode = named[eta] if isinstance(eta, str) else recurrence.ETA_GIVEN
        given = 0.0 if isinstance(eta, str) else eta
        growing = float(self.clip is None)
        return np.array([self.loss.code, self.loss.parameter, mode, given, growing])


@dataclass(frozen=True)
class AIOLI:
    """Logistic loss with both labels of a row anticipated; one output, labels -1 and 1.

    ``radius`` is BR, the largest margin of the functions that the regret is measured against.
    """

    radius: float = 2.0

    unit: ClassVar[bool] = False
    anticipate: ClassVar[bool] = True
    clip: ClassVar[float | None] = None

    def as_array(self) -> Array:
        """Return the ``rule`` of the compiled rows, whose entries `recurrence` names."""
        return np.array([0.0, 0.0, recurrence.ETA_AIOLI, self.radius, 0.0])


Curvature = Squared | OnlineNewton | AIOLI


# -- the state in a file, and its checks ------------------------------------------------------


class Roots(Rows):
    """The roots of the rows' weights, `GrowingRows` (rows, 1).

    A file has them as an array (rows,), if one of them is not 1.
    """

    def __init__(self, rows: str) -> None:
        super().__init__("roots", (rows,), low=0.0)
        self.rows = rows

    def expected(self, owner: Any, held: bool) -> bool:
        return held

    def dump(self, owner: Any) -> Any:
        roots = getattr(owner, self.attribute).values[:, 0]
        return None if (roots == 1.0).all() else roots.copy()

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        return GrowingRows.from_state(self.checked(value, sizes)[:, None])

    def missing(self, owner: Any, sizes: Sizes) -> Any:
        return GrowingRows.from_state(np.ones((sizes[self.rows], 1)))


def require_solved(name: str, L: Array, solved: Array, given: Array) -> None:
    """Raise if ``solved`` is not L^-1 ``given``."""
    most = (np.abs(L) @ np.abs(solved)).max(initial=0.0)
    off = np.abs(L @ solved - given).max(initial=0.0)
    require(off <= 1e-6 * most + 1e-300, f"{name} does not fit L")


def require_open_rows(block: Open, Z: Array, t: int) -> None:
    """Raise if t open rows do not satisfy the recurrence: for s < t

    kappa_s G[t, s] = T[t, s] + kappa_s sum_{i<s} T[t, i] T[s, i] / kappa_i,  0 <= kappa <= c.
    """
    kappa, c, Z = block.kappa[:t], block.curvature[:t], Z[:t]
    require((kappa <= c * (1.0 + 1e-9)).all(), "kappa is larger than the curvature")
    T = np.tril(block.upper[:t, :t].T, -1)
    inverse = np.divide(1.0, kappa, out=np.zeros(t), where=kappa > 0.0)
    expected = kappa * (Z @ Z.T)
    got = T + kappa * ((T * inverse) @ T.T)
    off = np.abs(np.tril(got - expected, -1)).max(initial=0.0)
    most = np.abs(expected).max(initial=0.0)
    require(off <= 1e-6 * most + 1e-300, "upper does not fit the open rows")
    # kappa = c / (1 + c q),  q_s = G[s, s] - sum_{i<s} T[s, i]^2 / kappa_i
    own = np.einsum("ij,ij->i", Z, Z)
    q = own - (T * T) @ inverse
    off = np.abs(kappa * (1.0 + c * q) - c)
    require((off <= 1e-6 * (c + kappa * c * own) + 1e-300).all(), "kappa does not fit the rows")


class OpenRows(Numbers):
    """Rows of the open block; the unused rows behind them are not saved."""

    def __init__(self, name: str, shape: tuple[str | int, ...], **options: Any) -> None:
        super().__init__(name, shape, written="replaced", **options)

    def dump(self, owner: Any) -> Any:
        return getattr(owner, self.attribute)[: owner.open_rows].copy()


class OpenTriangle(LowerTriangle):
    """T' of the open rows, strictly above the diagonal; saved as T with a diagonal of 0."""

    def __init__(self, name: str, size: str) -> None:
        super().__init__(name, size, written="replaced")

    def dump(self, owner: Any) -> Any:
        t = owner.open_rows
        lower = np.tril(getattr(owner, self.attribute)[:t, :t].T, -1)
        return lower[np.tri(t, dtype=np.bool_)]

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        return np.ascontiguousarray(self.checked(value, sizes).T)


class Newton(Stateful):
    """The sums A and b and the open block; ``rule`` defines what a row adds."""

    def __init__(self, rule: Curvature, alpha: float, size: int, outputs: int = 1) -> None:
        self.rule = rule
        self.alpha = alpha
        self.outputs = outputs
        self._Phi = np.empty((0, 0))
        self._memory = Workspace()
        self._rule = rule.as_array()
        self._running = np.array([rule.clip or 0.0, 0.0, 0.0])  # clip, rows, sum of g'A^-1 g
        self._ledger = new_ledger(outputs)
        self._start(size)

    def restart(self, size: int) -> None:
        """Reset the sums and start in R^size; clip and row count stay."""
        self._running[0 if self.rule.anticipate else recurrence.GRADIENT_TERMS :] = 0.0
        self._ledger[:] = 0.0
        self._start(size)

    def _start(self, size: int) -> None:
        self.size = size
        self._A = np.asfortranarray(self.alpha * np.eye(size))
        self._b = np.zeros((size, self.outputs))
        self._L = np.asfortranarray(np.sqrt(self.alpha) * np.eye(size))
        self._factored = 0  # size of A when L was computed; later coordinates are diagonal in A
        self._beta = np.zeros((size, self.outputs))  # L^-1 b
        self._open_block()

    def _open_block(self) -> None:
        self._open = 0  # rows in the open block
        self._weights: Array | None = None
        self._length = self._block_rows()
        self._make_block(self._length)

    def _block_rows(self) -> int:
        """Return the measured best length: a factor costs r^3 / 3B per row, the triangle B r."""
        return min(LONGEST_BLOCK, max(48, 16 * round(self.size / 32)))

    def _make_block(self, rows: int) -> None:
        """Allocate the arrays of an open block, unless those of the last one can be used again."""
        if self._Phi.shape == (rows, self.size) and "_Phi" not in self._shared:
            return  # what a closed block left is overwritten before it is read
        self._Phi = np.zeros((rows, self.size))
        self._Z = np.zeros((rows, self.size))  # L^-1 phi
        self._upper = np.zeros((rows, rows))
        self._kappa = np.zeros(rows)
        self._step = np.zeros((rows, self.outputs))
        self._curvature = np.ones(rows)  # c
        self._target = np.zeros((rows, self.outputs))  # e
        self._shared -= {"_Phi"}  # and the others, which are made with it

    # -- learning ---------------------------------------------------------------------------

    def learn(self, Phi: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row of features Phi (n, r), targets Y (n, outputs).

        A row of weight w counts w times in A and b. Under squared loss that is the row times
        sqrt(w), with the target and the prediction times sqrt(w) too.
        """
        if weights is not None and self.rule.unit:
            roots = np.sqrt(weights)[:, None]
            return np.asarray(self.learn(Phi * roots, Y * roots) / roots)
        out = np.empty((len(Phi), self.outputs))
        start = 0
        while start < len(Phi):
            stop = min(len(Phi), start + self.open_room)
            rows = slice(start, stop)
            given = None if weights is None else weights[rows]
            self._append(Phi[rows], Y[rows], out[rows], given)
            if not self.open_room:
                self._close_block()
            start = stop
        account(out, Y, self._ledger)
        return out

    def _append(self, Phi: Array, Y: Array, out: Array, weights: Array | None = None) -> None:
        """Predict then learn rows that fit in the open block."""
        t, m = self._open, len(Phi)
        self._Phi[t : t + m] = Phi
        # z = L^-1 phi, then G[t, s] = z_t'z_s and f0_t = z_t'beta
        Z = self._Z[t : t + m]
        Z[:] = Phi
        solve_rows(self._L, Z)
        F = Z @ self._beta
        G = np.matmul(Z, self._Z[: t + m].T, out=self._memory.allocate("G", m, t + m))
        batch = recurrence.Batch(Y, np.ones(m) if weights is None else weights, out)
        if self.rule.unit:
            self._target[t : t + m] = Y
            recurrence.squared_rows(G, F, batch, t, self.rule.anticipate, self._block)
        else:
            recurrence.newton_rows(G, F, batch, t, self._rule, self._running, self._block)
        self._weights = None
        self._open = t + m

    @property
    def _block(self) -> recurrence.Open:
        """The open block as the compiled rows read it."""
        return recurrence.Open(self._upper, self._kappa, self._step, self._curvature, self._target)

    def _close_block(self) -> None:
        """Add the open rows to the sums, factor A and open a new block."""
        self._add_open_rows()
        self._factor()
        self._open_block()

    def _add_open_rows(self) -> None:
        """Compute A += sum c phi phi' and b += sum e phi over the open rows."""
        t = self._open
        rows = self._Phi[:t]
        self._b = self._b + rows.T @ self._target[:t]
        if not self.rule.unit:
            out = self._memory.allocate("weighted", *rows.shape)
            rows = np.multiply(rows, np.sqrt(self._curvature[:t, None]), out=out)
        self._replace("_A", add_products(self._writable("_A"), rows))

    def _factor(self) -> None:
        """Compute L L' = A and beta = L^-1 b."""
        reuse = self._L.shape == self._A.shape and "_L" not in self._shared
        self._replace("_L", cholesky(self._A, "A", self._L if reuse else None))
        self._factored = self.size
        # Always in C order: for another layout Numba compiles a loop that rounds differently.
        self._beta = np.ascontiguousarray(solve_lower(self._L, self._b))

    # -- sums of other rows --------------------------------------------------------------------

    @property
    def open_rows(self) -> int:
        """Rows in the open block."""
        return self._open

    @property
    def open_room(self) -> int:
        """Rows that still fit in the open block."""
        return len(self._kappa) - self._open

    def settle(self) -> None:
        """Close the open block, full or not."""
        if self._open:
            self._close_block()

    def absorb(self, other: Newton) -> None:
        """Add the rows of another learner on the same features and outputs.

            A <- A + A' - alpha I,    b <- b + b'

        The open blocks of both are closed.
        """
        self.settle()
        other.settle()
        self._A, self._b = np.asfortranarray(self._A + other._A), self._b + other._b
        self._A[np.diag_indices(self.size)] -= self.alpha
        self._factor()
        self._open_block()
        merge_ledgers(self._ledger, other._ledger)

    # -- the current model --------------------------------------------------------------------

    @property
    def weights(self) -> Array:
        """v = A^-1 b, (r, outputs)."""
        if self._weights is None:
            t = self._open
            inner = dtrsm(1.0, self._upper[:t, :t], self._step[:t], diag=1) if t else self._step[:0]
            self._weights = solve_lower(
                self._L, self._beta - self._Z[:t].T @ inner, transposed=True
            )
        return self._weights

    def predict(self, Phi: Array) -> Array:
        """Return the prediction of each row if it came next; changes nothing."""
        F = Phi @ self.weights
        if self.rule.anticipate:
            q = self.leverage(Phi)
            if self.rule.unit:
                return np.asarray(F / (1.0 + q[:, None]))
            recurrence.anticipated_margins(F, q, F)
        elif not self.rule.unit:
            F = np.clip(F, -self.running_clip, self.running_clip)
        return F

    def leverage(self, Phi: Array) -> Array:
        """Return q = phi' A^-1 phi for every row."""
        Z = solve_rows(self._L, Phi.copy())
        q = np.einsum("ij,ij->i", Z, Z)
        if t := self._open:
            # R T' = G
            G = Z @ self._Z[:t].T
            R = dtrsm(1.0, self._upper[:t, :t].T, G.T, lower=1, diag=1).T
            q -= (R * R) @ self._kappa[:t]
        return np.maximum(q, 0.0)

    def noise_variance(self) -> Array:
        """Return sigma^2 (outputs,) = (sum y^2 - b'A^-1 b) / rows, NaN before the first row.

        It maximises the likelihood of all targets under a Gaussian process whose noise is alpha
        times its signal variance.
        """
        squares = self._ledger[TARGETS] - np.einsum("io,io->o", self.weights, self.b)
        rows = self._ledger[ROWS]
        return np.where(rows > 0.0, np.maximum(squares, 0.0) / np.maximum(rows, 1.0), np.nan)

    def deviation(self, Phi: Array, diagonal: Array) -> Array:
        """Return the standard deviation of y (n, outputs) at rows of features Phi (n, r).

        The features have the share |phi|^2 of ``diagonal``, k(x, x) (n,); about the rest nothing
        was learned, so its variance is that of the prior (projected process):

            sigma^2 (1 + phi'A^-1 phi + (k(x, x) - |phi|^2) / alpha)
        """
        missed = np.maximum(diagonal - np.einsum("ij,ij->i", Phi, Phi), 0.0)
        factor = 1.0 + self.leverage(Phi) + missed / self.alpha
        return np.sqrt(factor[:, None] * self.noise_variance())

    @property
    def running_clip(self) -> float:
        """Present bound C of the predictions."""
        return float(self._running[recurrence.CLIP])

    @property
    def b(self) -> Array:
        """b with the open rows, (r, outputs)."""
        t = self._open
        return np.asarray(self._b + self._Phi[:t].T @ self._target[:t])

    def learn_with_terms(self, Phi: Array, Y: Array, weights: Array) -> tuple[Array, Any]:
        """Learn rows; return their predictions (n, 1), and what they add to a certificate."""
        before = self._running.copy()
        out = self.learn(Phi, Y, weights)
        return out, recurrence.gradient_terms(Y[:, 0], out[:, 0], weights, self._rule, before)

    @property
    def eta_is_certified(self) -> bool:
        """Whether eta was at most the curvature of the loss in all rows so far."""
        largest = float(self._ledger[certificate.LARGEST_TARGET, 0])
        return recurrence.eta_is_certified(self._rule, self.running_clip, largest)

    @property
    def regret_terms(self) -> float:
        """Online Newton: sum of g_t' A_t^-1 g_t since the start or restart."""
        return float(self._running[recurrence.GRADIENT_TERMS])

    def log_determinant(self) -> float:
        """Return log det(A / alpha) where c = 1; kappa of an open row is 1 / (1 + q)."""
        factor = 2.0 * float(np.log(np.diag(self._L)).sum()) - self.size * np.log(self.alpha)
        return factor - float(np.log(self._kappa[: self._open]).sum())

    def certificate(self, output: int = 0) -> Certificate:
        """Return the regret so far against the best of the current space, in O(r).

        For the online Newton step see `RegretSums`.
        """
        if not self.rule.unit:
            return self._logistic_certificate()
        v = self.weights[:, output]
        fit = float(v @ self.b[:, output])
        penalty = self.alpha * float(v @ v)
        column = self._ledger[:, output]
        bound = determinant_bound(column, self.log_determinant(), self.rule.anticipate)
        return squared_certificate(column, float(column[TARGETS]) - fit - penalty, penalty, bound)

    def _logistic_certificate(self) -> Certificate:
        """Return AIOLI's certificate: its surrogate's regret, whose minimiser is v.

        A is 2 lambda I plus the sums, so the penalty lambda |v|^2 is alpha/2 |v|^2.
        """
        loss, bound, slack = (float(value) for value in self._running)
        rows, v = int(self._ledger[0, 0]), self.weights[:, 0]
        penalty, regret = 0.5 * self.alpha * float(v @ v), bound - slack
        return Certificate(rows, loss, loss - regret - penalty, penalty, regret, bound, exact=False)

    # -- changes of the space and of the outputs ------------------------------------------------

    def grow(self, diagonal: float | None = None) -> None:
        """Add a coordinate in which all rows so far are 0; the open block stays open.

        Its diagonal in A is alpha, if no other is given.
        """
        diagonal = self.alpha if diagonal is None else diagonal
        self._A = bordered(self._A, diagonal)
        self._L = bordered(self._L, np.sqrt(diagonal))
        row, column = np.zeros((1, self.outputs)), np.zeros((len(self._Phi), 1))
        self._b, self._beta = np.vstack((self._b, row)), np.vstack((self._beta, row))
        self._Phi, self._Z = np.hstack((self._Phi, column)), np.hstack((self._Z, column))
        self.size += 1
        self._weights = None
        if self._open == 0:
            self._open_block()

    def grow_with_history(self, history: Array, column: Array, targets: Array) -> None:
        """Add a coordinate in which the rows so far (features ``history``) are ``column``."""
        self._add_open_rows()
        self._A = bordered(self._A, self.alpha + float(column @ column))
        self._A[-1, :-1] = column @ history
        self._b = np.vstack((self._b, column @ targets))
        self.size += 1
        self._factor()
        self._open_block()

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by multiples of old ones: valid where learning is linear in y."""
        self.outputs = matrix.shape[1]
        self._b, self._beta = recombined(self._b, matrix), recombined(self._beta, matrix)
        self._step, self._target = recombined(self._step, matrix), recombined(self._target, matrix)
        self._ledger = recombined(self._ledger, matrix, absolute=True)
        self._weights = None

    # -- state ------------------------------------------------------------------------------

    # Only a full block changes the sums, after `_writable`. Rows of the open block are appended,
    # and a new block has new arrays while a snapshot shares the old ones: all count as replaced.
    STATE = (
        LowerTriangle("A", "size", order="F", written="replaced"),
        Numbers("b", ("size", "outputs"), written="replaced"),
        Numbers("beta", ("size", "outputs"), written="replaced"),
        Count("factored"),
        OpenRows("Phi", ("open", "size")),
        OpenRows("Z", ("open", "size")),
        OpenTriangle("upper", "open"),
        OpenRows("kappa", ("open",), low=0.0),
        OpenRows("step", ("open", "outputs"), low=-1e160, high=1e160),
        OpenRows("curvature", ("open",), low=0.0),
        OpenRows("target", ("open", "outputs"), low=-1e160, high=1e160),
        Numbers("running", (3,), low=0.0),
        Numbers("ledger", (5, "outputs"), low=0.0),
        Count("open", size="open"),
        Count("length", low=1, high=LONGEST_BLOCK),
        Unsaved("_L"),
        Unsaved("size"),
        Unsaved("outputs"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self.outputs}

    def _restored(self, sizes: Sizes) -> None:
        """Compute the factor again, to the same bits, and put the open rows into a block."""
        self.size, n = sizes["size"], self._factored
        require(n <= self.size, "factored is larger than A")
        own = np.diagonal(self._A)
        require((own > 0.0).all(), "A is not positive definite")
        require(not np.tril(self._A, -1)[n:].any(), "factored is smaller than A")
        try:
            leading = cholesky(np.asfortranarray(self._A[:n, :n]), "A")
        except FloatingPointError:
            raise StateError("A is not positive definite") from None
        self._L = np.zeros(self._A.shape, order="F")
        self._L[:n, :n] = leading
        self._L[range(n, self.size), range(n, self.size)] = np.sqrt(own[n:])
        names = ("_Phi", "_Z", "_upper", "_kappa", "_step", "_curvature", "_target")
        held, t = [getattr(self, name) for name in names], self._open
        require(t < self._length, "open rows are more than a block has")
        if self.rule.unit:  # targets as they were given, times the roots of their weights
            require(
                (np.abs(self._target) <= 1e7 * LARGEST_TARGET).all(),
                "target has a value out of range",
            )
        self._Phi, self._weights = np.empty((0, 0)), None
        self._make_block(self._length)
        for name, rows in zip(names, held, strict=True):
            getattr(self, name)[tuple(slice(length) for length in rows.shape)] = rows
        if self.size:
            require_solved("beta", self._L, self._beta, self._b)
            require_solved("Z", self._L, self._Z[:t].T, self._Phi[:t].T)
        require_open_rows(self._block, self._Z, t)

    def _update_derived(self) -> None:
        self._weights = None
