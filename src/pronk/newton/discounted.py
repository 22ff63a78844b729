"""The Newton engine with forgetting: older rows count less.

With the discount lambda, A <- lambda A + phi phi' and b <- lambda b + y phi. Divided by
lambda^t this is a plain sum again: row number s of the open block (from 1) enters with the weight
lambda^-s, that is, row and target multiplied by lambda^(-s/2), and the sums are multiplied by
lambda^B when the block of B rows closes. So the block engine does it exactly. The part of the
regulariser alpha I that is forgotten is added again at the end of each block; blocks are counted
from the start of the stream.

`DiscountedForecaster` and `DiscountedSpan` are the engines of PKAWV and Kernel-AWV with a
``discount``. At row t row s < t counts w_s = discount^(t-1-s) and, in the AWV forecaster, row t
itself 1:

    A = alpha I + sum_{s<t} w_s phi_s phi_s'      b = sum_{s<t} w_s y_s phi_s
    ridge  f = phi_t'A^-1 b                       AWV  f / (1 + q),  q = phi_t'A^-1 phi_t

With a ``half_life`` in seconds each row has a time T and a discount of its own,

    discount_t = 2^-min((T_t - T_{t-1}) / half_life, 0.95),

so that at row t row s < t counts 2^-((T_{t-1} - T_s) / half_life), where a longer gap counts as
0.95 half-lives: after it the old rows still support the predictions until new ones are learned,
and every discount is above 1/2, which the certificate needs.

alpha I is put back after every row while there are at most `EXACT_SIZE` features or points, which
is this definition; in larger spaces after every few rows, between which it fades to no less than
`FADED` times alpha if the discount allows (`put_back_rows`). Below, discount is that of row t.

**Certificate.** V_t = min_w sum_{s<=t} discount^(t-s) (y_s - w'phi_s)^2 + w'R_t w, with R_t the
regulariser, which never falls below discount R_{t-1}. So V_t is at least the minimum of
discount V_{t-1}'s objective plus the new loss,

    V_t >= discount V_{t-1} + (y - f)^2 / (1 + q / discount),

and for discount > 1/2 the supremum over f of (y - p)^2 - (y - f)^2 / (1 + q / discount) is c y^2,
c = q / (q + 2 - 1 / discount), for AWV, where p = f / (1 + q); for ridge, p = f, it is c (y - p)^2
with c = q / (q + discount). Hence

    sum_t discount^(T-t) (y_t - p_t)^2 - V_T  <=  sum_t discount^(T-t) c_t y_t^2      (AWV),

the bound of the certificate, which `pronk.regret.discounted_awv_bound` turns into one of the regret
against a sequence of functions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingCholesky, GrowingRows, solve_one
from pronk.core.state import Count, Numbers, Real, Sizes, require
from pronk.newton.certificate import LOSS, ROWS, TARGETS, Certificate, squared_certificate
from pronk.newton.engine import Newton, OpenRows, Squared
from pronk.newton.exact import ExactSpan

#: Up to this many features or points the regulariser is put back after every row.
EXACT_SIZE = 128
#: Up to this many a compiled loop is faster than LAPACK row by row.
COMPILED_SIZE = 64
#: Beyond `EXACT_SIZE`, it fades to no less than this share of alpha before it is put back ..
FADED = 0.9
#: .. unless that would take fewer rows than this; it is put back after `LONGEST` at the latest.
FEWEST_ROWS, LONGEST = 8, 256

#: A gap counts as at most this many half-lives, so that every discount is above 1/2.
LONGEST_GAP = 0.95

#: Rows of a discounted ledger (5, outputs): number of rows (`ROWS`), then discounted sums of losses
#: (`LOSS`), of y^2 (`TARGETS`), of the terms of the bound, and of ones.
BOUND, ONES = 3, 4


def put_back_rows(size: int, discount: float) -> int:
    """Return after how many rows the regulariser is put back, in a space of that size.

    Without a common discount (NaN) it is the most, LONGEST; see `Forgetting`.
    """
    if size <= EXACT_SIZE:
        return 1
    if np.isnan(discount):
        return LONGEST
    rows = int(np.log(FADED) / np.log(discount))
    return min(LONGEST, max(FEWEST_ROWS, rows))


@compiled
def account_discounted(
    P: Array, Y: Array, terms: Array, discounts: Array, anticipate: bool, ledger: Array
) -> None:
    """Add rows with predictions P and targets Y (n, outputs) to a discounted ledger (5, outputs).

    ``terms`` (n,) are the c of the rows, which multiply y^2 (AWV) or the loss (ridge), and
    ``discounts`` (n,) their discounts.
    """
    for i in range(P.shape[0]):
        discount = discounts[i]
        for o in range(P.shape[1]):
            error = P[i, o] - Y[i, o]
            loss = error * error
            square = Y[i, o] * Y[i, o]
            ledger[ROWS, o] += 1.0
            ledger[LOSS, o] = discount * ledger[LOSS, o] + loss
            ledger[TARGETS, o] = discount * ledger[TARGETS, o] + square
            bounded = square if anticipate else loss
            ledger[BOUND, o] = discount * ledger[BOUND, o] + terms[i] * bounded
            ledger[ONES, o] = discount * ledger[ONES, o] + 1.0


def bound_terms(kappa: Array, discounts: Array, anticipate: bool) -> Array:
    """Return c of rows with kappa = 1 / (1 + q / discount); 0 where there is no bound."""
    if not anticipate:
        return np.asarray(1.0 - kappa)
    # q = discount (1 / kappa - 1),  c = q / (q + 2 - 1 / discount)
    q = discounts * (1.0 / kappa - 1.0)
    room = np.where(discounts > 0.5, 2.0 - 1.0 / discounts, np.inf)
    return np.asarray(q / (q + room))


@compiled(fastmath={"contract", "reassoc"})
def factor_rows(A: Array, least: float, L: Array) -> None:
    """Compute L L' = A (r, r), both in C order and lower triangles; squared pivots >= ``least``.

    L[i, j] = (A[i, j] - sum_{k<j} L[i, k] L[j, k]) / L[j, j], along rows of L.
    """
    for i in range(len(A)):
        for j in range(i + 1):
            total = A[i, j]
            for k in range(j):
                total -= L[i, k] * L[j, k]
            L[i, j] = math.sqrt(max(total, least)) if i == j else total / L[j, j]


@compiled(fastmath={"contract"})
def discounted_rows(
    Phi: Array, Y: Array, alpha: float, discounts: Array, anticipate: bool, A: Array, b: Array,
    out: Array, kappa: Array,
) -> None:  # fmt: skip
    """Predict then learn rows Phi (m, r) with targets Y (m, outputs), discounts (m,).

    Updates A (r, r), its lower triangle, and b (r, outputs); writes predictions out (m, outputs)
    and kappa (m,) = 1 / (1 + q / discount).
    """
    r, outputs = b.shape
    L, z, beta = np.zeros((r, r)), np.empty(r), np.empty(r)
    for t in range(len(Phi)):
        discount = discounts[t]
        # L L' = A,  z = L^-1 phi,  q = z'z
        factor_rows(A, alpha, L)
        for j in range(z.size):
            z[j] = Phi[t, j]
        solve_one(L, z)
        q = 0.0
        for i in range(r):
            q += z[i] * z[i]
        kappa[t] = 1.0 / (1.0 + q / discount)
        for o in range(outputs):
            # f = z' L^-1 b,  p = f (ridge) or f / (1 + q) (AWV)
            for i in range(r):
                beta[i] = b[i, o]
            solve_one(L, beta)
            f = 0.0
            for i in range(r):
                f += z[i] * beta[i]
            out[t, o] = f / (1.0 + q) if anticipate else f
            # b = discount b + y phi
            for i in range(r):
                b[i, o] = discount * b[i, o] + Y[t, o] * Phi[t, i]
        # A = discount A + phi phi' + (1 - discount) alpha I
        for i in range(r):
            for j in range(i + 1):
                A[i, j] = discount * A[i, j] + Phi[t, i] * Phi[t, j]
            A[i, i] += (1.0 - discount) * alpha


class Forgetting:
    """The discounts of rows: one number, or with a half-life in seconds those of their times.

    A subclass has ``kept``, the share of the sums that is left since the regulariser was put back,
    ``open_room``, the rows after which it is put back at the latest, and ``_least``, which returns
    V_T and its penalty, per output.
    """

    def _set_discount(self, discount: float, half_life: float | None, anticipate: bool) -> None:
        self.discount = discount if half_life is None else float("nan")
        self.half_life, self._time = half_life, np.zeros(1)
        # AWV has no bound for a discount of 1/2 or less.
        self._has_bound = half_life is not None or discount > 0.5 or not anticipate

    @property
    def time(self: Any) -> float | None:
        """Time of the last row in seconds; None before the first, or without a half-life."""
        known = self.half_life is not None and self._ledger[ROWS].any()
        return float(self._time[0]) if known else None

    def _discounts_of(self: Any, weights: Array | None, n: int) -> tuple[Array, Array | None]:
        """Return the discounts (n,) of the next rows and their weights; None: all are 1.

        With a half-life the columns of ``weights`` (n, 2) are weights and times in seconds.
        """
        if self.half_life is None or weights is None or not n:
            return np.full(n, self.discount), weights if self.half_life is None else None
        own, times, last = weights[:, 0], weights[:, 1], self.time
        before = np.concatenate(([times[0] if last is None else last], times[:-1]))
        self._time = times[-1:].copy()
        gaps = np.clip((times - before) / self.half_life, 0.0, LONGEST_GAP)
        return np.asarray(0.5**gaps), None if (own == 1.0).all() else own

    def _pieces(self: Any, discounts: Array) -> Iterator[tuple[slice, Array, bool]]:
        """Cut rows with these discounts at the ends of blocks.

        Yield the rows of a piece, the share of the sums that is left after each of them, and
        whether the regulariser is to be put back after the last one.
        """
        start = 0
        while start < len(discounts):
            room = self.open_room
            kept: Array = self.kept * np.cumprod(discounts[start : start + room])
            if self.half_life is not None:
                rows = self._open + 1 + np.arange(len(kept))
                faded = np.flatnonzero((kept < FADED) & (rows >= FEWEST_ROWS))
                room = min(room, int(faded[0]) + 1) if len(faded) else room
            kept = kept[:room]
            yield slice(start, start + len(kept)), kept, len(kept) == room
            start += len(kept)

    def certificate(self: Any, output: int = 0) -> Certificate:
        """Return the discounted regret so far against the best function of the space."""
        least, penalty = (float(values[output]) for values in self._least())
        column = self._ledger[:, output]
        bound = float(column[BOUND]) if self._has_bound else None
        return squared_certificate(column, least - penalty, penalty, bound)


class DiscountedForecaster(Forgetting, Newton):
    """Ridge or AWV of the definition above, in R^r; any number of outputs.

    With a ``half_life`` in seconds, `learn` gets weights and times.
    """

    def __init__(
        self, anticipate: bool, alpha: float, size: int, outputs: int, discount: float,
        half_life: float | None = None,
    ) -> None:  # fmt: skip
        self._set_discount(discount, half_life, anticipate)
        Newton.__init__(self, Squared(anticipate), alpha, size, outputs)

    def _block_rows(self) -> int:
        return put_back_rows(self.size, self.discount)

    def _make_block(self, rows: int) -> None:
        super()._make_block(rows)
        #: Share of the sums at the block's start that is left after each open row.
        self._kept = np.ones(rows)

    @property
    def kept(self) -> float:
        return float(self._kept[self._open - 1]) if self._open else 1.0

    def learn(self, Phi: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row; in small spaces by the compiled loop of the definition."""
        discounts, own = self._discounts_of(weights, len(Phi))
        if own is None:
            return self._learn_discounted(Phi, Y, discounts)
        roots = np.sqrt(own)[:, None]
        return np.asarray(self._learn_discounted(Phi * roots, Y * roots, discounts) / roots)

    def _learn_discounted(self, Phi: Array, Y: Array, discounts: Array) -> Array:
        if self._length == 1 and self.size <= COMPILED_SIZE:
            return self._learn_small(Phi, Y, discounts)
        out = np.empty((len(Phi), self.outputs))
        for rows, kept, ends in self._pieces(discounts):
            self._learn_piece(Phi[rows], Y[rows], kept, discounts[rows], out[rows])
            if ends:
                self._close_block()
        return out

    def _learn_piece(self, Phi: Array, Y: Array, kept: Array, discounts: Array, out: Array) -> None:
        """Append rows to the open block; row s has the weight discount^-s."""
        new, anticipate = slice(self._open, self._open + len(Phi)), self.rule.anticipate
        self._kept[new] = kept
        roots = kept[:, None] ** -0.5
        self._append(Phi * roots, Y * roots, out)
        kappa = self._kappa[new]  # 1 / (1 + q / discount)
        if anticipate:
            # p = f / (1 + q),  1 + q = 1 + discount (1 / kappa - 1)
            out /= (kappa + discounts * (1.0 - kappa))[:, None]
        out /= roots
        terms = bound_terms(kappa, discounts, anticipate)
        account_discounted(out, Y, terms, discounts, anticipate, self._ledger)

    def _learn_small(self, Phi: Array, Y: Array, discounts: Array) -> Array:
        A, b = np.ascontiguousarray(np.tril(self._A)), self._b.copy()
        out, kappa = np.empty((len(Phi), self.outputs)), np.empty(len(Phi))
        anticipate = self.rule.anticipate
        discounted_rows(
            np.ascontiguousarray(Phi), np.ascontiguousarray(Y), self.alpha, discounts, anticipate,
            A, b, out, kappa,
        )  # fmt: skip
        terms = bound_terms(kappa, discounts, anticipate)
        account_discounted(out, Y, terms, discounts, anticipate, self._ledger)
        self._replace("_A", np.asfortranarray(A))
        self._b = b
        self._factor()
        self._open_block()
        return out

    def _add_open_rows(self) -> None:
        kept = self.kept
        super()._add_open_rows()
        self._A *= kept
        self._b *= kept
        self._A[np.diag_indices(self.size)] += (1.0 - kept) * self.alpha

    def leverage(self, Phi: Array) -> Array:
        """Return q of rows that may come next; the A of an open block is scaled."""
        return super().leverage(Phi) / self.kept

    def _least(self) -> tuple[Array, Array]:
        """Return V_T and its penalty, per output, in O(r)."""
        kept, v = self.kept, self.weights
        least = self._ledger[TARGETS] - np.einsum("io,io->o", v, kept * self.b)
        penalty = kept * self.alpha * np.einsum("io,io->o", v, v)
        return np.maximum(least, 0.0), penalty

    def noise_variance(self) -> Array:
        """Return sigma^2 (outputs,), with discounted sums of squares and of rows."""
        rows = self._ledger[ONES]
        return np.where(rows > 0.0, self._least()[0] / np.maximum(rows, 1e-300), np.nan)

    STATE = (  # type: ignore[assignment]
        *Newton.STATE,
        OpenRows("kept", ("open",), low=0.0, high=1.0),
        Numbers("time", (1,), written="replaced"),
    )

    def _restored(self, sizes: Sizes) -> None:
        kept = self._kept
        super()._restored(sizes)
        require((kept > 0.0).all(), "kept has a row after which nothing is left")
        self._kept = np.ones(len(self._kappa))
        self._kept[: self._open] = kept[: self._open]


class DiscountedSpan(Forgetting, ExactSpan):
    """Kernel ridge or Kernel-AWV of the definition above: all points, any number of outputs.

    The roots of the rows' weights, those of the discount among them, are in ``_roots``.
    """

    def __init__(
        self, kernel: Kernel, alpha: float, anticipate: bool, columns: int, outputs: int,
        discount: float, half_life: float | None = None,
    ) -> None:  # fmt: skip
        ExactSpan.__init__(self, kernel, alpha, anticipate, columns, outputs)
        self._set_discount(discount, half_life, anticipate)
        self._open = 0  # rows since the regulariser was put back
        self._kept = 1.0  # share of the sums that is left since then
        self._length = 1  # rows after which it is put back again
        self._ages: Array = np.empty((0, 1))
        self._row_discounts = np.empty(0)

    @property
    def kept(self) -> float:
        return self._kept

    @property
    def open_room(self) -> int:
        return self._length - self._open

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row."""
        discounts, own = self._discounts_of(weights, len(X))
        given = np.ones(len(X)) if own is None else np.sqrt(own)
        parts = []
        for rows, kept, ends in self._pieces(discounts):
            self._row_discounts, self._ages = discounts[rows], kept[:, None] ** -0.5
            parts.append(self._learn_block(X[rows], Y[rows], given[rows] * self._ages[:, 0]))
            self._open, self._kept = self._open + len(kept), float(kept[-1])
            if ends:
                self._put_back()
        return np.concatenate(parts)

    def _finish(self, F: Array, Y: Array, kappa: Array) -> Array:
        # kappa = 1 / (1 + q / discount), as in `DiscountedForecaster`
        discounts = self._row_discounts
        P = F / (1.0 + discounts[:, None] * (1.0 / kappa - 1.0)) if self.anticipate else F
        terms = bound_terms(kappa[:, 0], discounts, self.anticipate)
        account_discounted(
            P / self._ages, Y / self._ages, terms, discounts, self.anticipate, self._ledger
        )
        return P

    def _put_back(self) -> None:
        """Discount the rows, put the regulariser back, and factor again."""
        kept = self._kept**0.5
        targets = kept * (self._factor.used @ self._U.values)
        roots = kept * self._roots.values
        self._roots = GrowingRows.from_state(roots)
        M = roots * self.kernel(self.points, self.points) * roots[:, 0]
        M.flat[:: len(M) + 1] += self.alpha
        factor = GrowingCholesky(floor=self.alpha)
        factor.append(np.empty((0, len(M))), M)
        self._factor = factor
        self._U = GrowingRows.from_state(factor.solve(targets))
        self._coefficients = None
        self._open, self._kept = 0, 1.0
        self._length = put_back_rows(len(M), self.discount)

    def _leverage(self, X: Array, K: Array) -> Array:
        """Return q of rows that may come next; until the next `_put_back` the rows are scaled."""
        return super()._leverage(X, K) / self._kept

    def noise_variance(self) -> Array:
        """Return sigma^2 (outputs,), with discounted sums of squares and of rows."""
        U = self._U.values
        return np.asarray(
            self._kept * self.alpha * np.einsum("io,io->o", U, U) / self._ledger[ONES]
        )

    def _least(self) -> tuple[Array, Array]:
        """Return V_T and its penalty, per output."""
        least = self._kept * self.alpha * np.array([u @ u for u in self._U.values.T])
        fit = self._kept * self.alpha**2 * np.array([c @ c for c in self.coefficients.T])
        return least, np.maximum(least - fit, 0.0)

    STATE = (
        *ExactSpan.STATE,
        Count("open"),
        Count("length", low=1, high=LONGEST),
        Real("kept", low=1e-300, high=1.0),
        Numbers("time", (1,), written="replaced"),
    )

    def _restored(self, sizes: Sizes) -> None:
        require(self._open < self._length, "open rows are more than a block has")
        super()._restored(sizes)
