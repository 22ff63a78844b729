"""What a first run compiles: some statements and library functions take seconds to compile."""

import json
import os
import subprocess
import sys

import pytest

#: Compiled for the message of an error (an array assigned to a slice of another shape), and for
#: NumPy's sort, partition and unique.
EXPENSIVE = ("numba.cpython.unicode.", "numba.misc.quicksort.")
#: Functions that a first run translates at most, parts included, and those that Python calls: only
#: these are optimised and get machine code. 152 and 28 when this was written.
MOST, MOST_WHOLE = 170, 32
PROGRAM = """
import json
import numpy as np
from numba.core import event
from pronk.core.compiling import Function

class Names(event.Listener):
    found = []

    def on_start(self, event):
        own = event.data["dispatcher"]
        name = f"{own.py_func.__module__}.{own.py_func.__name__}"
        self.found.append((name, isinstance(own, Function), str(event.data["args"])))

    def on_end(self, event):
        pass

event.register("numba:compile", Names())
import pronk

X = np.random.default_rng(0).normal(size=(2400, 2))
pronk.OnlineKernelRegressor(random_state=0).partial_fit(X, X[:, 0])
pronk.OnlineKernelClassifier(random_state=0).partial_fit(X, X[:, 0] > 0)
print(json.dumps(Names.found))
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_first_run_compiles_nothing_that_takes_long(compiled):
    names = [name for name, *_ in compiled]
    assert not [name for name in names if name.startswith(EXPENSIVE)]
    assert "pronk.aggregate.trees.split_leaves" in names
    assert len(names) <= MOST
    assert sum(whole for _, whole, _ in compiled) <= MOST_WHOLE


@pytest.mark.slow
def test_no_part_is_compiled_for_a_constant(compiled):
    """A constant argument is a type of its own, for which Numba compiles a function once more."""
    own = [found for found in compiled if found[0].startswith("pronk.")]
    assert not [name for name, _, kinds in own if "Literal" in kinds]
