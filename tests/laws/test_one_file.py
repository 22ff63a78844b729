"""An algorithm is one file (CONTRIBUTING): an example gets laws, command line and a page.

In a process of its own: the toy's folder becomes part of the package's path before anything asks
which algorithms there are.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

TOY = '''"""Toy: ridge regression on a few random features.

The shortest file that is an algorithm.

    predict w'z(x), w = argmin sum (w'z - y)^2 + alpha |w|^2

Cost per row: O(r^2) time and memory.

Reference: nobody.
"""

from pronk.newton.spaces import FixedFeatures
from pronk.newton.engine import Squared
from pronk.newton.engine import Newton
from pronk.estimators.estimator import OnlineLearner
from pronk.estimators.regressor import OnlineRegressor
from pronk.core.features import Fourier
from pronk.core.kernels import get_kernel

ENTRY = {
    "classes": ["ToyRegressor"],
    "paper": "Nobody 2000 (Toy)",
    "guarantee": "It is a toy.",
    "names": {
        "toy": {
            "use": "tests", "time": "r^2", "memory": "r^2", "bounded": True,
            "params": {"alpha": 0.5},
        },
    },
}


class ToyRegressor(OnlineRegressor):
    """A toy.

    Parameters
    ----------
    kernel : name or kernel
    alpha : float
    n_features : int
    random_state : int, Generator or None
    """

    _parameter_constraints = {**OnlineLearner._parameter_constraints, "alpha": [float]}

    def __init__(self, kernel="gaussian", *, alpha=1.0, n_features=20, random_state=None):
        self.kernel = kernel
        self.alpha = alpha
        self.n_features = n_features
        self.random_state = random_state

    def _make_model(self, columns, outputs):
        features = Fourier(get_kernel(self.kernel), columns, self.n_features, self._seed)
        return FixedFeatures(features, Newton(Squared(False), self.alpha, features.size, outputs))
'''

SCRIPT = """
import sys
from pathlib import Path

import pronk.estimators.algorithms

pronk.estimators.algorithms.__path__.append(sys.argv[1])
import numpy as np
import pytest

import pronk
from pronk.cli import main

assert "ToyRegressor" in pronk.__all__ and "sklearn" not in sys.modules
assert pronk.make("toy").get_params()["alpha"] == 0.5 == pronk.make("toy").alpha
assert pronk.algorithms()["toy"].paper == "Nobody 2000 (Toy)"

# Every law, and a file that loads.
laws = str(Path(sys.argv[2]) / "tests" / "laws" / "test_laws.py")
assert pytest.main(["-q", "-p", "no:cacheprovider", "-k", "toy", laws]) == 0
X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
pronk.make("toy", random_state=0).fit(X, X[:, 0]).save("toy.pronk")
assert isinstance(pronk.load("toy.pronk"), pronk.ToyRegressor)

# The command line.
table = np.column_stack((X, X[:, 0]))
np.savetxt("rows.csv", table, delimiter=",", header="a,b,y", comments="")
for words in (["run", "rows.csv", "--target", "y", "--algorithm", "toy", "--json"], ["algorithms"]):
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, words

# A page of the site.
sys.path.insert(0, str(Path(sys.argv[2]) / "docs" / "extensions"))
import algorithm_pages

page = algorithm_pages.page("toy", ["ToyRegressor"])
for text in ("# Toy", "It is a toy.", "autoclass:: pronk.ToyRegressor", "squared error", "nobody"):
    assert text in page, text
print("one file is enough")
"""


@pytest.mark.slow
def test_an_algorithm_is_one_file(tmp_path):
    folder = tmp_path / "algorithms"
    folder.mkdir()
    (folder / "toy.py").write_text(TOY, encoding="utf-8")
    paths = [str(ROOT / "src"), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder), str(ROOT)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    assert result.stdout.rstrip().endswith("one file is enough")
