"""Errors of the default learner on the first rows of sets, after row 500: one line per set.

    python benchmarks/bench_first.py                          10,000 rows of nine sets
    python benchmarks/bench_first.py --rows 5000 --sets letter casp

PRONK_DATA is the folder of the data sets. Errors are per cent of wrong labels, or the mean squared
error over the variance; "early" are rows 500 to 2,048, "last" is the last quarter. Settings of the
learner may be chosen on the sets of `field.streams.CHOOSE_ON` only.
"""

from __future__ import annotations

import argparse

import numpy as np

import pronk
from field import streams

SETS = (
    "covtype", "casp", "ijcnn1", "cadata", "elec2", "bike_hour", "letter", "powerplant",
    "cpusmall",
)  # fmt: skip
FIRST, EARLY = 500, 2048


def errors_of(name: str, rows: int) -> np.ndarray:
    """Return the error of each of the first rows of a set."""
    data = streams.read(name)
    X, y = data.X[:rows], data.y[:rows]
    if streams.has_labels(name):
        learner = pronk.OnlineKernelClassifier(random_state=0)
        return 100.0 * (learner.predict_then_learn(X, y) != y)
    learner = pronk.OnlineKernelRegressor(random_state=0)
    return (learner.predict_then_learn(X, y) - y) ** 2 / np.var(y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=streams.NAMES)
    options = parser.parse_args()
    print(f"{'set':14}{'all':>10}{'early':>10}{'last':>10}")
    for name in options.sets:
        errors = errors_of(name, options.rows)
        parts = errors[FIRST:], errors[FIRST:EARLY], errors[3 * len(errors) // 4 :]
        print(f"{name:14}" + "".join(f"{part.mean():10.4g}" for part in parts), flush=True)


if __name__ == "__main__":
    main()
