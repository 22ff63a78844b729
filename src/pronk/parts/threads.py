"""Threads of BLAS: one inside pronk's calls, unless the user says otherwise.

pronk's matrices are small. BLAS would split them over all cores, wait at a barrier after every
product, and on a machine that does other work wait much longer than it computes. Inside a call the
number of threads is therefore the one of `set_threads`; after it, it is again what it was.

Most BLAS libraries have one number for the whole process: the first of several calls at once sets
it, the last puts it back. MKL, and OpenBLAS on OpenMP, have one a thread. The libraries are asked
for once, and their functions are called directly: a call of one row pays about two microseconds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple


class Pool(NamedTuple):
    """How a library is asked for its number of threads, and told."""

    get: Callable[[], int]
    put: Callable[[int], Any]
    local: bool
    """Whether each thread of Python has its own number."""


Changed = Sequence[tuple[Callable[[], int], Callable[[int], Any], int]]
"""Libraries that were told another number, and what they had."""


class Limit(ContextDecorator):
    """``with limited:`` or ``@limited``: BLAS has ``wanted`` threads inside.

    May be nested, and entered by several threads of Python at once.
    """

    def __init__(self, pools: Iterable[Pool] | None = None, wanted: int | None = 1) -> None:
        self.wanted = wanted
        self._lock = threading.Lock()
        self._pools: list[Pool] | None = None
        if pools is not None:
            self._take(pools)
        self._inside = 0
        self._changed: Changed = ()
        self._own = threading.local()

    def __enter__(self) -> None:
        if self._pools is None:
            self._take(loaded_pools())
        with self._lock:
            inside = self._inside
            self._inside = inside + 1
            if not inside:
                self._changed = _limit(self._shared, self.wanted)
        if self._local:
            self._enter_thread()

    def __exit__(self, *_: Any) -> None:
        with self._lock:
            if self._inside > 1:
                self._inside -= 1
            else:  # in a process that was forked inside of a call it may be 0 already
                self._inside = 0
                _put_back(self._changed, self.wanted)
                self._changed = ()
        if self._local:
            self._exit_thread()

    def choose(self, wanted: int | None) -> None:
        """The number from now on, also for the calls of this moment."""
        with self._lock:
            _put_back(self._changed, self.wanted)
            self.wanted = wanted
            self._changed = _limit(self._shared, wanted) if self._inside else ()

    def forget(self) -> None:
        """Start anew in a forked process, in which the other threads' calls never end."""
        self._lock = threading.Lock()
        _put_back(self._changed, self.wanted)
        self._inside, self._changed = 0, ()

    def _take(self, pools: Iterable[Pool]) -> None:
        pools = list(pools)
        self._shared = [pool for pool in pools if not pool.local]
        self._local = [pool for pool in pools if pool.local]
        self._pools = pools

    def _enter_thread(self) -> None:
        own = self._own
        own.inside = getattr(own, "inside", 0) + 1
        if own.inside == 1:
            own.wanted = self.wanted
            own.changed = _limit(self._local, own.wanted)

    def _exit_thread(self) -> None:
        own = self._own
        own.inside -= 1
        if not own.inside:
            _put_back(own.changed, own.wanted)


def _limit(pools: list[Pool], wanted: int | None) -> Changed:
    """Set what is not as wanted; what was changed."""
    if wanted is None:
        return ()
    changed = []
    for get, put, _ in pools:
        before = get()
        if before != wanted:
            put(wanted)
            changed.append((get, put, before))
    return changed


def _put_back(changed: Changed, wanted: int | None) -> None:
    """Undo `_limit`, except where somebody else has set another number meanwhile."""
    for get, put, before in changed:
        if get() == wanted:
            put(before)


def loaded_pools() -> list[Pool]:
    """The BLAS libraries of this process: NumPy's, SciPy's, and what else is loaded."""
    import scipy.linalg  # noqa: F401  (it and NumPy bring the libraries that pronk calls)
    from threadpoolctl import ThreadpoolController

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return [_pool(library) for library in libraries]


def _pool(library: Any) -> Pool:
    functions = library.dynlib
    if library.internal_api == "mkl":
        return Pool(functions.MKL_Get_Max_Threads, functions.MKL_Set_Num_Threads_Local, True)
    if library.internal_api == "openblas":
        if library.threading_layer == "openmp":
            return Pool(functions.omp_get_max_threads, functions.omp_set_num_threads, True)
        # threadpoolctl's own methods let one thread of Python set the number and ignore the others.
        for before, after in product(("", "scipy_"), ("", "64_", "_64")):
            if hasattr(functions, f"{before}openblas_set_num_threads{after}"):
                get = getattr(functions, f"{before}openblas_get_num_threads{after}")
                put = getattr(functions, f"{before}openblas_set_num_threads{after}")
                return Pool(get, put, False)
    return Pool(library.get_num_threads, library.set_num_threads, False)


#: Around every call of pronk that uses BLAS.
limited = Limit()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=limited.forget)


def set_threads(n: int | None) -> None:
    """Let BLAS use ``n`` threads inside pronk's calls; None: as many as the environment says.

    One is the default and nearly always the fastest: pronk's matrices are small. Other code of the
    process sees no change after a call. The setting is the process's own: processes that it starts
    begin with one thread again.

    Examples
    --------
    >>> import pronk
    >>> pronk.set_threads(2)  # a machine to itself, thousands of points
    >>> pronk.set_threads(None)  # OPENBLAS_NUM_THREADS and the like decide
    >>> pronk.set_threads(1)  # the default
    """
    if n is not None and (not isinstance(n, Integral) or isinstance(n, bool) or n < 1):
        raise ValueError(
            "n must be a number of threads from 1 on, or None for what the environment says; "
            f"got {n!r}"
        )
    limited.choose(None if n is None else int(n))
