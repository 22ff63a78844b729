"""Write the golden model files: what this version saves, and what it predicts from it.

    python -m tools.golden [--all] [--release]

The files are in tests/estimators/golden/format-N, N the version of the file format: NAME.pronk for
each learner, and `expected.json` with rows and predictions. `tests/estimators/test_golden.py` loads
them in every later version (docs/backcompat.md). A file that exists is kept, because it was written
by the version that it stands for; `--all` writes it again, allowed only before its format is
released. `--release` also writes the files of the default learner, whose state may change until
then; without it those that exist are kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import pronk
from pronk.estimators.files import FORMAT

FOLDER = Path(__file__).parents[1] / "tests" / "estimators" / "golden" / f"format-{FORMAT}"
ROWS = 120
#: Rows that the loaded model predicts, then learns.
NEXT = 30


def stream() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, numeric targets and labels; numbers with three digits, the same everywhere."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (ROWS + NEXT, 2)).round(3)
    y = (np.sin(3.0 * X[:, 0]) * X[:, 1]).round(3)
    return X, y, np.where(y > 0.1, "high", np.where(y < -0.1, "low", "middle"))


#: Learners by the name of their file.
LEARNERS: dict[str, Callable[[], Any]] = {
    "pkawv-regressor": lambda: pronk.PKAWVRegressor(pronk.Gaussian(0.7), budget=12, random_state=0),
    "pkawv-classifier": lambda: pronk.PKAWVClassifier(
        pronk.Gaussian(0.7), budget=12, random_state=0
    ),
    "kernel-awv-regressor": lambda: pronk.KernelAWVRegressor(pronk.Matern(1.0, 1.5)),
    "fogd-classifier": lambda: pronk.FOGDClassifier(n_features=8, random_state=0),
    "dual-svrg-regressor": lambda: pronk.DualSVRGRegressor(n_features=8, budget=8, random_state=0),
    "prepared-pkawv-regressor": lambda: pronk.Prepared(
        pronk.PKAWVRegressor(budget=8, random_state=0), scale="standard"
    ),
}

#: Those whose state is final with a release only.
DEFAULT: dict[str, Callable[[], Any]] = {
    "online-kernel-regressor": lambda: pronk.OnlineKernelRegressor(random_state=0),
    "online-kernel-classifier": lambda: pronk.OnlineKernelClassifier(random_state=0),
    "prepared-online-kernel-regressor": lambda: pronk.Prepared(
        pronk.OnlineKernelRegressor(random_state=0)
    ),
}


def answers(learner: Any, X: np.ndarray, y: np.ndarray) -> dict[str, list[Any]]:
    """Return what a learner predicts for the next rows, without and with learning them."""
    predicted = np.asarray(learner.predict(X)).tolist()
    return {"predict": predicted, "learned": np.asarray(learner.predict_then_learn(X, y)).tolist()}


def main(everything: bool, release: bool) -> None:
    learners = LEARNERS | (DEFAULT if release else {})
    FOLDER.mkdir(parents=True, exist_ok=True)
    record = FOLDER / "expected.json"
    expected = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    X, y, labels = stream()
    for name, build in learners.items():
        path = FOLDER / f"{name}.pronk"
        if path.exists() and name in expected and not everything:
            continue
        target = labels if name.endswith("classifier") else y
        learner = build()
        learner.partial_fit(X[:ROWS], target[:ROWS])
        learner.save(path)
        expected[name] = {
            "pronk": pronk.__version__,
            "X": X[ROWS:].tolist(),
            "y": target[ROWS:].tolist(),
            **answers(learner, X[ROWS:], target[ROWS:]),
        }
        print(f"{path.name}: {path.stat().st_size:,} bytes")
    record.write_text(json.dumps(expected, indent=None, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main("--all" in sys.argv[1:], "--release" in sys.argv[1:])
