"""The Numba cache: a change in an imported module is noticed with a warm cache."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import caching as numbas

from pronk.core import runtime

#: Compiled functions that are made of one in another module.
PROBES = {
    "hinge": """
from pronk.core.compiling import compiled
from pronk.core.losses import HINGE, slope


@compiled
def probe(z, y):
    return slope(HINGE, 0.0, z, y)
""",
    "tuple": """
from typing import NamedTuple

from pronk.core.compiling import compiled


class Before(NamedTuple):
    z: float


@compiled
def inner(state, y):
    return state.z - y


def probe(z, y):
    return inner(Before(z), y)


probe.stats = inner.stats
""",
    "small": """
from pronk.core.compiling import compiled

@compiled
def probe(z, y):
    return z - y
""",
}
RIGHT, WRONG = "return 0.0 if a >= 1.0 else -y\n", "return 0.0 if a >= 1.0 else y\n"


class Copy:
    """The package in another place, with a probe, and a cache somewhere."""

    def __init__(self, home: Path, probe: str) -> None:
        self.home, self.package = home, home / "pronk"
        own = ("compiling", "runtime")
        for name in ("__init__", "_hints", "_interrupts", "_version", "core/__init__"):
            self.take(name)
        for name in own:
            self.take(f"core/{name}")
        if probe == "hinge":
            self.take("core/losses")
            self.take("core/elementary")
            self.take("core/checks")
        (self.package / "core" / "probe.py").write_text(PROBES[probe])

    def take(self, name: str) -> None:
        place = self.package / f"{name}.py"
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(runtime.PACKAGE / f"{name}.py", place)

    def run(self, **variables: str) -> tuple[float, int]:
        """The probe's value in a new process, and how many functions came from the cache."""
        kept = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        environment = kept | {"PYTHONPATH": str(self.home), "XDG_CACHE_HOME": str(self.home / "c")}
        code = "from pronk.core.probe import probe as p; print(p(0.0, 1.0), p.stats.cache_hits)"
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment | variables,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        value, _, hits = done.stdout.partition(" ")
        return float(value), hits.count("float64, float64): 1")

    def change(self, name: str, before: str, after: str) -> None:
        path = self.package / name
        text = path.read_text()
        assert text.count(before) == 1
        path.write_text(text.replace(before, after))

    def cached(self, place: Path) -> list[str]:
        return sorted(str(file.relative_to(place)) for file in place.rglob("probe*.nb?"))


@pytest.mark.slow
def test_a_flipped_sign_in_an_imported_module_is_seen_with_a_warm_cache(tmp_path):
    copy = Copy(tmp_path, "hinge")
    assert copy.run() == (-1.0, 0)
    assert copy.run() == (-1.0, 1)  # the cache is warm
    files = copy.cached(copy.package)
    copy.change("core/losses.py", RIGHT, WRONG)
    copy.change("core/probe.py", "@compiled", "# a line more\n@compiled")
    assert copy.run() == (1.0, 0)
    # The new cache has taken the place of the old one.
    assert copy.cached(copy.package) == files and len(files) == 2


@pytest.mark.slow
def test_a_class_named_in_an_old_cache_may_not_exist(tmp_path):
    copy = Copy(tmp_path, "tuple")
    assert copy.run()[0] == -1.0
    copy.change("core/probe.py", "class Before", "class After")
    copy.change("core/probe.py", "inner(Before(z), y)", "2.0 * inner(After(z), y)")
    assert copy.run()[0] == -2.0


@pytest.mark.slow
def test_where_the_cache_lies(tmp_path):
    """NUMBA_CACHE_DIR first; beside the sources; where that cannot be written, the user's own."""
    copy = Copy(tmp_path, "small")
    chosen, users = copy.home / "chosen", copy.home / "c"
    copy.run(NUMBA_CACHE_DIR=str(chosen))
    assert copy.cached(chosen) and not copy.cached(copy.package) and not copy.cached(users)
    shutil.rmtree(copy.package / "core" / "__pycache__", ignore_errors=True)
    (copy.package / "core" / "__pycache__").write_text("no directory: nothing can be written")
    assert copy.run() == (-1.0, 0)
    assert copy.run() == (-1.0, 1)
    assert copy.cached(users) and not copy.cached(copy.package)


def flipped(data: bytes) -> bytes:
    """Return bytes with one changed in the middle: of the machine code, in a file of data."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "garbage": lambda data: np.random.default_rng(len(data)).bytes(len(data)),
    "zeros": lambda data: bytes(len(data)),
    "flipped": flipped,
    "other": lambda data: pickle.dumps((b"", "text", 3)),
}


@pytest.fixture
def index(tmp_path):
    """The index of a function of pronk, with one entry, in a folder of its own."""
    made = numbas.IndexDataCacheFile(str(tmp_path), "probe", (b"stamp", "digest of the sources"))
    made.save("key", "the code")
    assert made.load("key") == "the code" and made.load("other") is None
    return made


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("ending", ["nbi", "nbc", "nb?"])
def test_damaged_files_count_as_none_and_are_replaced(tmp_path, index, ending, damage):
    """As a power cut may leave them."""
    for file in tmp_path.glob(f"*.{ending}"):
        file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert index.load("key") is None
    index.save("key", "the code")
    assert index.load("key") == "the code"


def test_data_of_another_entry_or_older_than_the_index_are_not_used(tmp_path, index):
    """The index is written first; a process that is killed then leaves the data as they were."""
    index.save("other", "other code")
    first, second = sorted(tmp_path.glob("*.nbc"))
    shutil.copy(second, first)
    assert index.load("key") is None and index.load("other") == "other code"
    newer = numbas.IndexDataCacheFile(str(tmp_path), "probe", (b"stamp", "changed sources"))
    assert newer.load("other") is None
    newer.save("key", "new code")
    shutil.copy(second, first)
    newer.save("other", "new code")
    assert newer.load("key") is None


def test_files_that_cannot_be_read_or_written_are_not_used(tmp_path, index):
    for file in [*tmp_path.iterdir()]:
        file.unlink()
        file.mkdir()
    assert index.load("key") is None
    index.save("key", "the code")
    assert index.load("key") is None


def test_a_folder_that_can_no_longer_be_written_to(monkeypatch):
    """It is not chosen for a new function; what is compiled is used all the same."""

    def refuse(*_, **__):
        raise OSError("read-only")

    locator = next(
        found
        for kind in _locators()
        if (found := kind.from_function(runtime.digest.__wrapped__, runtime.__file__)) is not None
    )
    monkeypatch.setattr(numbas.tempfile, "TemporaryFile", refuse)
    locator.ensure_cache_path()
    assert type(locator).from_function(runtime.digest.__wrapped__, runtime.__file__) is None


@pytest.mark.slow
def test_a_damaged_cache_is_compiled_again(tmp_path):
    copy = Copy(tmp_path, "small")
    assert copy.run() == (-1.0, 0)
    for damage in ("empty", "flipped"):
        for file in copy.package.rglob("probe*.nb?"):
            file.write_bytes(DAMAGES[damage](file.read_bytes()))
        assert copy.run() == (-1.0, 0)
    assert copy.run() == (-1.0, 1)


def test_the_sources_of_a_module():
    """All it imports, in any form of import, and what those import."""
    rows = {
        Path(file).name
        for file in runtime.sources(str(Path(runtime.PACKAGE, "first_order/expansion.py")))
    }
    assert {"support.py", "losses.py", "elementary.py", "kernels.py"} <= rows
    assert "mixture.py" not in rows


@pytest.mark.parametrize(
    "line",
    [
        "from pronk.core.losses import slope",
        "import pronk.core.losses",
        "from pronk.core import (\n    linalg,\n    losses as l,\n)",
    ],
)
def test_every_form_of_import_is_read(line, tmp_path):
    file = tmp_path / "module.py"
    file.write_text(line)
    assert str(Path(runtime.PACKAGE, "core/losses.py")) in runtime.sources(str(file))


def test_functions_of_others_are_left_to_numba():
    locators = [found for found in _locators() if found.__name__.startswith("Pronk")]
    assert len(locators) >= 3
    for locator in locators:
        assert locator.from_function(test_the_sources_of_a_module, __file__) is None


def test_registered_once():
    before = list(_locators())
    runtime.register()
    assert _locators() == before


def _locators():
    return (getattr(numbas, "CacheImpl", None) or numbas._CacheImpl)._locator_classes
