"""The process around the arithmetic: BLAS threads and Numba's cache.

BLAS uses one thread inside pronk's calls, unless `set_threads` sets another number.
pronk's matrices are small. BLAS would split them over all cores, wait at a barrier after every
product, and on a machine that does other work wait much longer than it computes. Inside a call the
number of threads is therefore the one of `set_threads`; after it, it is again what it was.

Most BLAS libraries have one number for the whole process: the first of several calls at once sets
it, the last puts it back. MKL, and OpenBLAS on OpenMP, have one per thread. The libraries are
looked up once and their functions called directly, which costs about three microseconds per call.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ContextDecorator, suppress
from functools import cache
from itertools import product
from numbers import Integral
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from numba.core import caching
from numba.core.serialize import dumps

from pronk._interrupts import deferred_interrupts
from pronk._version import __version__


class Pool(NamedTuple):
    """The functions of a library that read and set its number of threads."""

    get: Callable[[], int]
    put: Callable[[int], Any]
    local: bool
    """Whether each thread of Python has its own number."""


Changed = list[tuple[Callable[[], int], Callable[[int], Any], int]]
"""Libraries whose number was changed, and the number before."""


class Calls(threading.local):
    """The calls under way in one thread of Python."""

    def __init__(self) -> None:
        self.frames: list[FrameType] = []
        self.changed: Changed = []
        self.wanted: int | None = None


class Limit(ContextDecorator):
    """``with limited:`` or ``@limited``: BLAS has ``wanted`` threads inside.

    May be nested, and entered by several threads of Python at once.

    Ctrl-C may raise at any call of a function, also where it enters `__exit__`. Each step here can
    therefore be taken twice, and a call whose frame has ended counts as left.
    """

    def __init__(self, pools: Iterable[Pool] | None = None, wanted: int | None = 1) -> None:
        self.wanted = wanted
        self._lock = threading.Lock()
        self._pools: list[Pool] | None = None
        if pools is not None:
            self._use(pools)
        self._inside: set[int] = set()
        self._changed: Changed = []
        self._own = Calls()

    def __enter__(self) -> None:
        if self._pools is None:
            with deferred_interrupts(patient=True):
                self._use(loaded_pools())
        frames, frame = self._own.frames, sys._getframe(1)
        if frames and not _runs(frames[0], frame):
            self._leave(0)
        before = len(frames)
        try:
            frames.append(frame)
            if not before:
                self._begin()
        except BaseException:
            self._leave(before)
            raise

    def __exit__(self, *_: Any) -> None:
        before = max(len(self._own.frames) - 1, 0)  # forked inside of a call, it may be 0 already
        try:
            self._leave(before)
        except BaseException:
            self._leave(before)
            raise

    def choose(self, wanted: int | None) -> None:
        """Set the number from now on, also for calls under way."""
        with self._lock:
            _put_back(self._changed, self.wanted)
            self.wanted = wanted
            if self._inside:
                _limit(self._shared, wanted, self._changed)

    def forget(self) -> None:
        """Start over in a forked process, in which the other threads' calls never end."""
        self._lock = threading.Lock()
        _put_back(self._changed, self.wanted)
        self._inside, self._own = set(), Calls()

    def _use(self, pools: Iterable[Pool]) -> None:
        pools = list(pools)
        self._shared = [pool for pool in pools if not pool.local]
        self._local = [pool for pool in pools if pool.local]
        self._pools = pools

    def _begin(self) -> None:
        """Count this thread; the first one sets the number."""
        with self._lock:
            self._inside.add(threading.get_ident())
            if len(self._inside) == 1:
                _limit(self._shared, self.wanted, self._changed)
        if self._local:
            self._own.wanted = self.wanted
            _limit(self._local, self.wanted, self._own.changed)

    def _leave(self, calls: int) -> None:
        """Set the number of calls of this thread; at 0 the last thread puts the number back."""
        own = self._own
        del own.frames[calls:]
        if calls:
            return
        with self._lock:
            self._inside.discard(threading.get_ident())
            if not self._inside:
                _put_back(self._changed, self.wanted)
        if self._local:
            _put_back(own.changed, own.wanted)


def _runs(frame: FrameType, now: FrameType | None) -> bool:
    """Return whether a frame is among those that have led to the one that runs now."""
    while now is not None and now is not frame:
        now = now.f_back
    return now is not None


def _limit(pools: list[Pool], wanted: int | None, changed: Changed) -> None:
    """Set the number of threads of all libraries; add those that are changed."""
    for get, put, _ in pools:
        if wanted is not None and (before := get()) != wanted:
            changed.append((get, put, before))
            put(wanted)


def _put_back(changed: Changed, wanted: int | None) -> None:
    """Set the earlier numbers again, except where other code has changed them meanwhile."""
    for get, put, before in changed:
        if get() == wanted:
            put(before)
    changed.clear()


def loaded_pools() -> list[Pool]:
    """Return the BLAS libraries of this process: NumPy's, SciPy's, and what else is loaded."""
    return [_pool(library) for library in _blas_libraries()]


def _blas_libraries() -> list[Any]:
    import scipy.linalg  # noqa: F401  (it and NumPy bring the libraries that pronk calls)
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def most_threads(libraries: Iterable[Any]) -> float:
    """Return the largest number of threads that the libraries can be set to without a crash.

    OpenBLAS before 0.3.29 has a buffer for as many workers as it has threads at the start, and
    the calling thread works too. SciPy 1.14 to 1.16.0 bring such a version.
    """
    for library in libraries:
        numbers = re.findall(r"\d+", str(library.version or ""))
        old = library.internal_api == "openblas" and [int(one) for one in numbers[:3]] < [0, 3, 29]
        if old and library.threading_layer == "pthreads":
            return _threads_at_start() + 1
    return float("inf")


def _threads_at_start() -> int:
    """Return the number of threads with which OpenBLAS starts: a variable, at most all cores."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    for name in ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text):
            return min(int(text), cores)
    return cores


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
    if n is not None and n > 1 and n > (most := most_threads(_blas_libraries())):
        raise ValueError(
            f"n must be at most {most} here, because OpenBLAS before 0.3.29 crashes if it started "
            f"with fewer threads; got {n}. Set OPENBLAS_NUM_THREADS before Python starts, or "
            "install a newer SciPy"
        )
    limited.choose(None if n is None else int(n))


# -- Numba's cache ---------------------------------------------------------------------------
#
# Numba keeps compiled functions on disk and compiles a function again if its own file has changed.
# It does not check other files, so a function that calls one of another module would keep the old
# code. The cache of every function of pronk therefore carries a digest of its module and of all
# modules of pronk that this one imports, directly or not.
#
# Numba chooses the folder: ``NUMBA_CACHE_DIR`` if it is set, else beside the sources, else the
# user's cache folder (for an installation that is read-only). A new cache replaces the old one.

PACKAGE = Path(__file__).resolve().parent.parent

#: An import at the start of a line; compiled code cannot use others.
_IMPORT = re.compile(rb"^(?:from|import) +pronk((?:\.\w+)*)(?: +import +(\([^)]*\)|[^\n]*))?", re.M)


@cache
def _modules() -> dict[str, str]:
    """Return every module of pronk, as ``.core.losses``, and its file."""
    found = {}
    for folder, _, names in os.walk(PACKAGE):
        dots = folder[len(str(PACKAGE)) :].replace(os.sep, ".")
        for name in names:
            if name.endswith(".py"):
                module = dots if name == "__init__.py" else f"{dots}.{name[:-3]}"
                found[module] = os.path.join(folder, name)
    return found


@cache
def _text(file: str) -> bytes:
    return Path(file).read_bytes()


@cache
def _imported(file: str) -> list[str]:
    """Return the files of pronk that a file imports; of a package also the modules it names."""
    modules, found = _modules(), set()
    for dots, names in _IMPORT.findall(_text(file)):
        place = dots.decode()
        inner = [f"{place}.{name.decode()}" for name in re.findall(rb"\w+", names)]
        found |= {modules[module] for module in (place, *inner) if module in modules}
    return sorted(found)


def sources(file: str) -> list[str]:
    """Return a file of pronk and all files of pronk that it imports, ordered by name."""
    found: set[str] = set()
    waiting = [file]
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += _imported(file)
    return sorted(found)


@cache
def digest(file: str) -> str:
    """Return a digest of all sources that a function compiled in this file may depend on."""
    try:
        texts = [_text(source) for source in sources(file)]
    except OSError:  # an application without sources
        texts = [__version__.encode()]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


class _WithImports:
    """Beside one of Numba's locators: only for pronk's functions, with the stamp of all sources."""

    _py_file: str
    _chosen = False

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        if not os.path.realpath(file).startswith(str(PACKAGE) + os.sep):
            return None
        found = super().from_function(function, file)  # type: ignore[misc]
        if found is not None:
            found._chosen = True
        return found

    def ensure_cache_path(self) -> None:
        """Raise if the folder cannot be written to; later no more, then nothing is stored."""
        try:
            super().ensure_cache_path()  # type: ignore[misc]
        except OSError:
            if not self._chosen:
                raise

    def get_source_stamp(self) -> Any:
        return super().get_source_stamp(), digest(os.path.realpath(self._py_file))  # type: ignore[misc]

    def get_disambiguator(self) -> str:
        """Return a constant: with the line, a function that moves would leave an old file."""
        return "0"


def _index(numba_index: Any) -> Any:
    """Return Numba's index of a cache with the digest in its version, for pronk's functions.

    Numba unpickles an index before it compares the stamps, and classes named in an old index may
    no longer exist; the version is compared first.

    What is stored is sealed: after a power cut files may be empty, cut off, or older than their
    index. A function that cannot be loaded is compiled again, and its files are replaced; one that
    cannot be stored is used all the same.
    """

    class PronkIndex(numba_index):
        _version: str

        def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
            super().__init__(cache_path, filename_base, source_stamp)
            self._sealed = isinstance(source_stamp, tuple) and isinstance(source_stamp[-1], str)
            if self._sealed:
                self._version = f"{self._version} {source_stamp[-1]}"

        def load(self, key: Any) -> Any:
            if not self._sealed:
                return super().load(key)
            try:
                seal, text = super().load(key)
                if seal != hashlib.sha256(text).digest():
                    return None
                version, own, data = pickle.loads(text)
            except Exception:  # no such entry, or a damaged file, which may raise anything
                return None
            return data if (version, own) == (self._version, key) else None

        def save(self, key: Any, data: Any) -> None:
            if not self._sealed:
                super().save(key, data)
                return
            text = dumps((self._version, key, data))
            sealed = hashlib.sha256(text).digest(), text
            with suppress(OSError):  # such as a full disk
                try:
                    super().save(key, sealed)
                except OSError:
                    raise
                except Exception:  # the index is damaged
                    self.flush()
                    super().save(key, sealed)

    return PronkIndex


def register() -> None:
    """Register pronk's cache locators with Numba; they apply to pronk's functions only."""
    implementation: Any = getattr(caching, "CacheImpl", None) or getattr(
        caching, "_CacheImpl", None
    )
    own: list[Any] = getattr(implementation, "_locator_classes", [])
    if any(issubclass(locator, _WithImports) for locator in own):
        return
    backed = [locator for locator in own if "IPython" not in locator.__name__]
    if hasattr(caching, "IndexDataCacheFile"):
        caching.IndexDataCacheFile = _index(caching.IndexDataCacheFile)
    own[:0] = [type(f"Pronk{found.__name__}", (_WithImports, found), {}) for found in backed]
