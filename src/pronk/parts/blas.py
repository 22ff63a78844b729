"""BLAS and LAPACK without Python's lock: threads that call them run side by side.

SciPy's own wrappers hold the interpreter's lock for the whole call. These call the same functions
by the addresses that `scipy.linalg.cython_blas` and `cython_lapack` publish, through ctypes, which
lets the lock go. An address is looked up in every process anew and never part of compiled code
that is kept. Matrices are float64; a lower triangle is in Fortran order.
"""

from __future__ import annotations

from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_double, c_int, c_void_p
from functools import cache
from typing import Any

import numpy as np
from numba import njit
from numba.extending import get_cython_function_address
from numpy.typing import NDArray

Array = NDArray[np.float64]

_INT, _REAL = POINTER(c_int), POINTER(c_double)
_TYPES: dict[str, tuple[Any, ...]] = {
    "dtrsm": (*[c_char_p] * 4, _INT, _INT, _REAL, c_void_p, _INT, c_void_p, _INT),
    "dsyrk": (*[c_char_p] * 2, _INT, _INT, _REAL, c_void_p, _INT, _REAL, c_void_p, _INT),
    "dpotrf": (c_char_p, _INT, c_void_p, _INT, _INT),
}
_ONE = c_double(1.0)


@cache
def _function(name: str) -> Any:
    module = "cython_lapack" if name == "dpotrf" else "cython_blas"
    address = get_cython_function_address(f"scipy.linalg.{module}", name)
    return CFUNCTYPE(None, *_TYPES[name])(address)


def _size(n: int) -> Any:
    return byref(c_int(n))


def _check(fits: bool, *arrays: Array) -> None:
    """Refuse arrays of another shape, order or kind: the functions get their addresses alone."""
    if not fits or any(array.dtype != np.float64 for array in arrays):
        told = ", ".join(f"{array.dtype} {array.shape}" for array in arrays)
        raise ValueError(f"BLAS got arrays that do not fit together, or in another order: {told}")


def _leading(A: Array) -> tuple[Array, int]:
    """A Fortran-ordered matrix and the distance of its columns; another order is copied."""
    if A.strides[0] != A.itemsize or A.strides[1] < A.itemsize * len(A):
        A = np.asfortranarray(A)
    return A, max(A.strides[1] // A.itemsize, len(A))


def solve_triangle(L: Array, B: Array, *, transposed: bool = False) -> None:
    """B becomes L^-1 B, or L^-T B, for a lower triangle L; B is in Fortran order."""
    _check(L.shape == (len(B), len(B)) and B.flags.f_contiguous, L, B)
    L, leading = _leading(L)
    _function("dtrsm")(
        b"L", b"L", b"T" if transposed else b"N", b"N", _size(len(B)), _size(B.shape[1]),
        byref(_ONE), L.ctypes.data, _size(leading), B.ctypes.data, _size(len(B)),
    )  # fmt: skip


def add_gram(A: Array, rows: Array) -> None:
    """A becomes A + rows' rows on its lower triangle; A in Fortran order, rows in C order."""
    n, r = rows.shape
    _check(A.shape == (r, r) and A.flags.f_contiguous and rows.flags.c_contiguous, A, rows)
    _function("dsyrk")(
        b"L", b"N", _size(r), _size(n), byref(_ONE), rows.ctypes.data, _size(r), byref(_ONE),
        A.ctypes.data, _size(r),
    )  # fmt: skip


def factor(A: Array) -> int:
    """The lower triangle of a Fortran-ordered A becomes its Cholesky factor, the upper one 0.

    Returns LAPACK's info: 0, or the order of the minor that is not positive definite.
    """
    _check(A.shape == (len(A), len(A)) and A.flags.f_contiguous, A)
    info = c_int(0)
    _function("dpotrf")(b"L", _size(len(A)), A.ctypes.data, _size(len(A)), byref(info))
    _clear_upper(A.T)
    return info.value


@njit(cache=True, nogil=True)
def _clear_upper(A: Array) -> None:
    """The lower triangle of a C-ordered matrix becomes 0: the upper one of its transpose."""
    for i in range(A.shape[0]):
        for j in range(i):
            A[i, j] = 0.0
