"""What a first run compiles: some statements and library functions take seconds to compile."""

import os
import subprocess
import sys

import pytest

#: Compiled for the message of an error (an array assigned to a slice of another shape), and for
#: NumPy's sort, partition and unique.
EXPENSIVE = ("numba.cpython.unicode.", "numba.misc.quicksort.")
#: Functions that a first run compiles, at most; 147 when this was written.
MOST = 180
PROGRAM = """
import numpy as np
from numba.core import event

class Names(event.Listener):
    def on_start(self, found):
        function = found.data["dispatcher"].py_func
        print(f"{function.__module__}.{function.__name__}")

    def on_end(self, found):
        pass

event.register("numba:compile", Names())
import pronk

X = np.random.default_rng(0).normal(size=(2400, 2))
pronk.OnlineKernelRegressor(random_state=0).partial_fit(X, X[:, 0])
pronk.OnlineKernelClassifier(random_state=0).partial_fit(X, X[:, 0] > 0)
"""


@pytest.mark.slow
def test_a_first_run_compiles_nothing_that_takes_long(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = done.stdout.split()
    assert not [name for name in names if name.startswith(EXPENSIVE)]
    assert "pronk.aggregate.trees.split_leaves" in names
    assert len(names) <= MOST
