"""Triangular and growing linear algebra: every Cholesky factor of the library is made here."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk, dtrsm
from scipy.linalg.lapack import dpotrf

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.state import Fixed, LowerTriangle, Sizes, Stateful, Unsaved, require

#: Rows of a growing factor that are solved by one triangular call; the rest is matrix products.
_PANEL = 128
#: Rows of a factor from a file that are compared with its points, and how close they must be: far
#: above the rounding of any factor that was computed.
_COMPARED, _FITS = 256, 1e-6


def cholesky(
    A: Array, what: str = "matrix", out: Array | None = None, *, by_rows: bool = False
) -> Array:
    """Return the lower factor L of A = L L', in Fortran order.

    Of a Fortran-ordered A only the lower triangle is read, of a C-ordered one only the upper. With
    ``by_rows`` the lower triangle of a C-ordered A is read, and L is in C order.
    ``out``, an array of A's shape in the order of L, is overwritten and returned where it is given:
    fresh memory for a factor costs about as much as the factor. If rounding has made a matrix
    indefinite, the smallest sufficient power-of-ten multiple of its rounding error is added to its
    diagonal, with one warning.
    """
    if not len(A):
        return A.copy()
    if out is None:
        out = np.empty(A.shape, order="C" if by_rows else "F")
    read, lower = A.T if by_rows or not A.flags.f_contiguous else A, int(not by_rows)
    held = out.T if by_rows else out
    np.copyto(held, read)
    info = dpotrf(held, lower=lower, clean=1, overwrite_a=1)[1]
    if not np.isfinite(out[-1, -1]):  # LAPACK passes NaN on; it ends in the last pivot
        raise FloatingPointError(f"{what} has no Cholesky factor: it is not finite")
    if info == 0:
        return out
    scale = float(np.abs(np.diag(A)).max()) * np.finfo(np.float64).eps
    for power in range(12):
        jitter = scale * 10.0**power
        factor, info = dpotrf(read + jitter * np.eye(len(A)), lower=lower, clean=1, overwrite_a=1)
        if info == 0:
            warnings.warn(
                f"{what} was not positive definite in rounding; {jitter:.1e} was added to its "
                "diagonal (a larger alpha avoids this)",
                RuntimeWarning,
                stacklevel=3,
            )
            held[:] = factor
            return out
    raise FloatingPointError(f"{what} has no Cholesky factor: it is far from positive definite")


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """Return L^-1 B, or L^-T B, for a lower triangular L; B is (n, k)."""
    if not B.size:
        return B.copy()
    return np.asarray(dtrsm(1.0, L, B, lower=1, trans_a=int(transposed)))


def solve_rows(L: Array, rows: Array) -> Array:
    """Replace a C-contiguous block of rows by rows L^-T, for a lower triangular L; return it."""
    if rows.size:
        # A C-ordered block of rows is a Fortran-ordered block of columns: no copy is made.
        dtrsm(1.0, L, rows.T, lower=1, overwrite_b=1)
    return rows


# Sums of products may be taken in any order ("reassoc"), or they would not vectorise.
@compiled(fastmath={"contract", "reassoc"})
def solve_one(L: Array, z: Array) -> None:
    """Replace z by L^-1 z, L the first rows of a C-ordered lower triangle.

    Four rows at a time, so that z is read once for four of them.
    """
    n = z.size
    whole = n - n % 4
    for i in range(0, whole, 4):
        a, b, c, d = L[i], L[i + 1], L[i + 2], L[i + 3]
        s, t, u, v = 0.0, 0.0, 0.0, 0.0
        for j in range(i):
            value = z[j]
            s += a[j] * value
            t += b[j] * value
            u += c[j] * value
            v += d[j] * value
        z[i] = w = (z[i] - s) / a[i]
        z[i + 1] = x = (z[i + 1] - t - b[i] * w) / b[i + 1]
        z[i + 2] = y = (z[i + 2] - u - c[i] * w - c[i + 1] * x) / c[i + 2]
        z[i + 3] = (z[i + 3] - v - d[i] * w - d[i + 1] * x - d[i + 2] * y) / d[i + 3]
    for i in range(whole, n):
        total = 0.0
        for j in range(i):
            total += L[i, j] * z[j]
        z[i] = (z[i] - total) / L[i, i]


@compiled(fastmath={"contract"})
def solve_each(L: Array, rows: Array) -> None:
    """Replace each row of ``rows`` (n, r) by L^-1 of it; no bit depends on the other rows."""
    for i in range(len(rows)):
        solve_one(L, rows[i])


def add_products(A: Array, rows: Array) -> Array:
    """Add rows' rows to the lower triangle of the Fortran-ordered A, in place; return A."""
    if rows.size:
        dsyrk(1.0, np.ascontiguousarray(rows).T, beta=1.0, c=A, lower=1, overwrite_c=1)
    return A


def bordered(A: Array, diagonal: float) -> Array:
    """Return A with one more row and column, zeros and the given diagonal, in Fortran order."""
    n = len(A)
    grown = np.zeros((n + 1, n + 1), order="F")
    grown[:n, :n] = A
    grown[n, n] = diagonal
    return grown


def signed_columns(matrix: Array) -> tuple[NDArray[np.intp], Array]:
    """Return the row and the value of the one entry of each column of a matrix."""
    global _last_signed
    held, rows, values = _last_signed
    if held is not matrix:  # one matrix is applied to many arrays
        if np.count_nonzero(matrix, axis=0).max(initial=0) > 1:
            raise ValueError("a new output must be one old one, or minus it")
        rows = np.abs(matrix).argmax(axis=0)
        values = matrix[rows, np.arange(matrix.shape[1])]
        _last_signed = (matrix, rows, values)
    return rows, values


_last_signed: tuple[Any, Any, Any] = (None, None, None)


def recombined(values: Array, matrix: Array, *, axis: int = -1, absolute: bool = False) -> Array:
    """Map outputs: values @ matrix along an axis, or with |matrix|.

    Every column of the matrix has at most one entry, so this costs as much as the result is large:
    outputs are mapped at each new class.
    """
    rows, signs = signed_columns(matrix)
    if absolute:
        signs = np.abs(signs)
    picked = np.take(values, rows, axis=axis)
    return np.ascontiguousarray(picked * np.expand_dims(signs, tuple(range(1, -axis))))


def doubled(old: Array, used: int, shape: tuple[int, ...]) -> Array:
    """Return a larger array of the given shape with the first ``used`` rows of the old one."""
    grown = np.zeros(shape)
    grown[(slice(used), *(slice(n) for n in old.shape[1:]))] = old[:used]
    return grown


class Workspace:
    """Memory for temporaries, kept between calls, because fresh pages cost more than arithmetic.

    What `allocate` returns is valid until the next call with the same name; it is never part of a
    state.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def allocate(self, name: str, rows: int, columns: int) -> Array:
        """Return a C-contiguous (rows, columns) array with arbitrary contents."""
        size = rows * columns
        held = self._arrays.get(name)
        if held is None or len(held) < size:
            held = np.empty(size + size // 4)
            self._arrays[name] = held
        return held[:size].reshape(rows, columns)

    def __getstate__(self) -> dict[str, Any]:
        return {"_arrays": {}}  # copies and pickles of a learner start without

    def __deepcopy__(self, memo: dict[int, Any]) -> Workspace:
        return Workspace()


class GrowingRows:
    """A matrix that rows are appended to: preallocated and doubled."""

    def __init__(self, columns: int) -> None:
        self._rows = np.zeros((16, columns))
        self.size = 0

    @property
    def values(self) -> Array:
        """The rows so far, a view."""
        return self._rows[: self.size]

    def append(self, rows: Array) -> None:
        needed = self.size + len(rows)
        if needed > len(self._rows):
            shape = (max(needed, 2 * len(self._rows)), self._rows.shape[1])
            self._rows = doubled(self._rows, self.size, shape)
        self._rows[self.size : needed] = rows
        self.size = needed

    @property
    def columns(self) -> int:
        return self._rows.shape[1]

    def widen(self, columns: int) -> None:
        """Add columns, filled with zeros."""
        self._rows = doubled(self._rows, self.size, (len(self._rows), columns))

    def remap(self, matrix: Array) -> None:
        """Multiply every row by a matrix with at most one entry per column."""
        self._rows = recombined(self._rows, matrix)

    @classmethod
    def from_state(cls, values: Array) -> GrowingRows:
        rows = cls(values.shape[1])
        rows.append(values)
        return rows

    def snapshot(self, *, copy: bool = False) -> tuple[Array, int]:
        """Return the rows so far; a copy of them only where they are written to in place."""
        return self._rows.copy() if copy else self._rows, self.size

    def roll_back(self, snapshot: tuple[Array, int]) -> None:
        """Return to the rows of a snapshot."""
        self._rows, self.size = snapshot


class GrowingCholesky(Stateful):
    """The lower factor of a symmetric matrix M that grows by rows and columns.

    ``floor`` bounds every squared pivot from below. For M = K + floor*I with K positive
    semi-definite that is what exact arithmetic gives, so the bound only removes rounding.
    Appending m rows costs O(n^2 m) in matrix products; the storage doubles when it is full.
    """

    def __init__(self, floor: float = 0.0) -> None:
        self.floor = floor
        self.size = 0
        self._factor = np.zeros((16, 16))
        self._diagonal_blocks: list[Array] = []

    def solve(self, B: Array) -> Array:
        """Return L^-1 B for B of shape (size, k), or (size,)."""
        if B.ndim == 1:
            return self.solve(B[:, None])[:, 0]
        if self.size <= _PANEL:
            return solve_lower(self._diagonal_blocks[0], B) if self.size else B.copy()
        X = B.copy()
        for i, block in enumerate(self._diagonal_blocks):
            rows = slice(i * _PANEL, i * _PANEL + len(block))
            X[rows] -= self._factor[rows, : rows.start] @ X[: rows.start]
            X[rows] = solve_lower(block, X[rows])
        return X

    def solve_rows(self, rows: Array) -> Array:
        """Replace a C-contiguous block of rows of length ``size`` by rows L^-T; return it."""
        if self.size <= _PANEL:
            return solve_rows(self._diagonal_blocks[0], rows) if self.size else rows
        for i, block in enumerate(self._diagonal_blocks):
            start, stop = i * _PANEL, i * _PANEL + len(block)
            part = np.ascontiguousarray(rows[:, start:stop])
            part -= rows[:, :start] @ self._factor[start:stop, :start].T
            rows[:, start:stop] = solve_rows(block, part)
        return rows

    def solve_transposed(self, B: Array) -> Array:
        """Return L^-T B for B of shape (size, k)."""
        X = B.copy()
        for i in range(len(self._diagonal_blocks) - 1, -1, -1):
            block = self._diagonal_blocks[i]
            rows = slice(i * _PANEL, i * _PANEL + len(block))
            below = slice(rows.stop, self.size)
            X[rows] -= self._factor[below, rows].T @ X[below]
            X[rows] = solve_lower(block, X[rows], transposed=True)
        return X

    def append(self, solved: Array, corner: Array) -> Array:
        """Append m rows given V = ``solve`` of the new columns (size, m) and the m x m corner of M.

        Return the lower factor of the corner's Schur complement, the new diagonal block of L.
        """
        schur = corner - solved.T @ solved
        if len(schur) == 1 and schur[0, 0] > 0.0:  # one row: what dpotrf does, without the call
            block, info = np.sqrt(schur), 0
        else:
            block, info = dpotrf(schur, lower=1, clean=1)
        if info or np.diagonal(block).min(initial=np.inf) ** 2 < self.floor:
            block = _floored_cholesky(schur, self.floor)
        self.append_rows(solved.T, block)
        return np.asarray(block)

    def append_rows(self, rows: Array, block: Array) -> None:
        """Append m rows of the factor itself: (m, size) and their diagonal block (m, m)."""
        m, n = len(block), self.size
        if n + m > len(self._factor):
            capacity = max(n + m, 2 * len(self._factor))
            self._factor = doubled(self._factor, n, (capacity, capacity))
        self._factor[n : n + m, :n] = rows
        self._factor[n : n + m, n : n + m] = block
        self.size = n + m
        self._refresh(n)

    def _refresh(self, start: int) -> None:
        """Copy the diagonal panels that the rows from ``start`` on have touched."""
        del self._diagonal_blocks[start // _PANEL :]
        for first in range(start // _PANEL * _PANEL, self.size, _PANEL):
            last = min(first + _PANEL, self.size)
            panel = np.asfortranarray(self._factor[first:last, first:last])
            self._diagonal_blocks.append(panel)

    def log_determinant(self) -> float:
        """Return log det M."""
        return 2.0 * float(np.log(np.diag(self._factor)[: self.size]).sum())

    STATE = (
        LowerTriangle("factor", "size", "used", structure="lower", written="computed"),
        Fixed("floor", "floor"),
        Unsaved("_factor"),  # rows are appended, never changed, so the size is enough
        Unsaved("size"),
    )

    @property
    def storage(self) -> Array:
        """The factor with its unused rows, in C order."""
        return self._factor

    @property
    def used(self) -> Array:
        """The factor without unused rows."""
        return self._factor[: self.size, : self.size]

    @used.setter
    def used(self, factor: Array) -> None:
        self._factor = factor
        self.size = len(factor)

    def _restored(self, sizes: Sizes) -> None:
        # Squared pivots are at least the floor, up to rounding of the square root.
        least = np.diagonal(self.used).min(initial=np.inf)
        require(least * least >= self.floor * (1.0 - 1e-12), "factor has a pivot below its floor")

    def require_of(self, rows: Callable[[NDArray[np.intp]], Array], ridge: float = 0.0) -> None:
        """Raise a StateError if a factor from a file is not that of M + ridge I.

        ``rows(numbers)`` returns rows of M. Of a large factor, some rows are compared.
        """
        if not self.size:
            return
        places = np.arange(self.size)
        if self.size > _COMPARED:
            places = np.unique(np.linspace(0, self.size - 1, _COMPARED).astype(np.intp))
        expected = rows(places)
        expected[np.arange(len(places)), places] += ridge
        off = np.abs(self.used[places] @ self.used.T - expected).max()
        require(off <= _FITS * np.abs(expected).max(), "factor is not that of the points")

    def _update_derived(self) -> None:
        self._refresh(0)


def _floored_cholesky(A: Array, floor: float) -> Array:
    """Return a Cholesky factor whose squared pivots are at least ``floor``, row by row."""
    n = len(A)
    L = np.zeros((n, n), order="F")
    least = max(floor, np.finfo(np.float64).tiny)
    for i in range(n):
        row = solve_lower(np.asfortranarray(L[:i, :i]), A[i, :i, None])[:, 0]
        L[i, :i] = row
        L[i, i] = np.sqrt(max(A[i, i] - row @ row, least))
    return L
