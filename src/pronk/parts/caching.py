"""Numba's cache, told which sources a compiled function was made of.

Numba keeps compiled functions on the disk and compiles again what has changed, but it looks at the
function's own file only. A function that was compiled together with one of another module would
go on with the old one. Here the cache of every function of pronk carries a digest of its module and
of all modules of pronk that this imports, directly or not: what one of them changes is compiled
again, also after an upgrade in the same place.

Where the cache lies is left to Numba: ``NUMBA_CACHE_DIR`` if it is set, else beside the sources,
else the user's own directory (for an installation that cannot be written to). A new cache takes the
place of the old one, under the same name.
"""

from __future__ import annotations

import hashlib
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching

from pronk._version import __version__

PACKAGE = Path(__file__).resolve().parent.parent

#: An import at the start of a line; compiled code cannot use others.
_IMPORT = re.compile(rb"^(?:from|import) +pronk((?:\.\w+)*)(?: +import +(\([^)]*\)|[^\n]*))?", re.M)


@cache
def _modules() -> dict[str, str]:
    """Every module of pronk, as ``.parts.losses``, and its file."""
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
    """The files of pronk that a file imports; of a package also the modules that it names."""
    modules, found = _modules(), set()
    for dots, names in _IMPORT.findall(_text(file)):
        place = dots.decode()
        inner = [f"{place}.{name.decode()}" for name in re.findall(rb"\w+", names)]
        found |= {modules[module] for module in (place, *inner) if module in modules}
    return sorted(found)


def sources(file: str) -> list[str]:
    """A file of pronk and all files of pronk that it imports, in order of their names."""
    found: set[str] = set()
    waiting = [file]
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += _imported(file)
    return sorted(found)


@cache
def digest(file: str) -> str:
    """Of everything that a function compiled in this file may be made of."""
    try:
        texts = [_text(source) for source in sources(file)]
    except OSError:  # an application without sources
        texts = [__version__.encode()]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()


class _WithImports:
    """Beside one of Numba's locators: only for pronk's functions, with the stamp of all sources."""

    _py_file: str

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        if not os.path.realpath(file).startswith(str(PACKAGE) + os.sep):
            return None
        return super().from_function(function, file)  # type: ignore[misc]

    def get_source_stamp(self) -> Any:
        return super().get_source_stamp(), digest(os.path.realpath(self._py_file))  # type: ignore[misc]

    def get_disambiguator(self) -> str:
        """Not the line: names are unique in a module, and a line that moves would leave a file."""
        return "0"


def _index(numba_index: Any) -> Any:
    """Numba's index of a cache, which for pronk's functions is opened by the digest too.

    Numba unpickles an index before it compares the stamps, and the classes that an old one names
    may be gone; the version in front is compared first.
    """

    class PronkIndex(numba_index):
        _version: str

        def __init__(self, cache_path: str, filename_base: str, source_stamp: Any) -> None:
            super().__init__(cache_path, filename_base, source_stamp)
            if isinstance(source_stamp, tuple) and isinstance(source_stamp[-1], str):
                self._version = f"{self._version} {source_stamp[-1]}"

    return PronkIndex


def register() -> None:
    """Have Numba ask pronk's locators first; they answer for pronk's own functions only."""
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
