"""Errors of the default learner on the first rows of sets, after row 500: one line per set.

    python benchmarks/bench_first.py                          10,000 rows of nine sets
    python benchmarks/bench_first.py --rows 5000 --sets letter casp
    python benchmarks/bench_first.py --generated              steps, and a function of directions

PRONK_DATA is the folder of the data sets. Errors are per cent of wrong labels, or the mean squared
error over the variance; "early" are rows 500 to 2,048, "last" is the last quarter. Settings of the
learner may be chosen on the sets of `field.streams.CHOOSE_ON` only.

`--generated` needs no data. *Steps* is a smooth function with a jump along a column, beside
LightGBM that is retrained every 500 rows: the mean squared error over that of the noise, of the
last 1,000 rows. *Directions* is a smooth function of three directions of ten columns, beside kernel
ridge regression on all rows before the last 1,000, in the metric that the learner finds for them,
with bandwidth and alpha of the least leave-one-out error.
"""

from __future__ import annotations

import argparse

import numpy as np

import pronk
from field import streams
from field.retrained import make
from pronk.aggregate.representation import full_metric
from pronk.core.kernels import Gaussian

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


def steps(rows: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return rows with a jump at c = 1/2, their targets, and the variance of the noise."""
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(20, 5, rows), rng.gamma(2, 3, rows), rng.uniform(size=rows)
    y = 3 * np.sin(a / 3) + 4 * np.log1p(b) * (c > 0.5) + 2 * c
    return np.column_stack((a, b, c)), y + 0.5 * rng.normal(size=rows), 0.25


def directed(rows: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return rows of ten columns, targets that depend on three directions, and the noise."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, 10))
    u, v, w = (X @ np.linalg.qr(rng.normal(size=(10, 3)))[0]).T
    return X, np.sin(2 * u) + v * w + 0.1 * rng.normal(size=rows), 0.01


def retrained_lightgbm(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return predictions of the last 1,000 rows, of models trained on all rows before."""
    parts = []
    for start in range(len(y) - 1000, len(y), 500):
        model = make("lightgbm", labels=False).fit(X[:start], y[:start])
        parts.append(model.predict(X[start : start + 500]))
    return np.concatenate(parts)


def kernel_ridge(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return predictions of the last 1,000 rows by a fit of all rows before, in the full metric."""
    known = len(y) - 1000
    M = full_metric(X[:known], y[:known, None] - y[:known].mean(), 0).M  # of all columns
    Z = X @ M
    distances = Gaussian().distances(Z, Z[:known])
    typical = np.median(distances[:known])
    found = []
    for factor in (0.25, 0.5, 1.0, 2.0, 4.0):
        K = np.exp(-distances / (2 * factor * typical))
        values, vectors = np.linalg.eigh(K[:known])
        for alpha in (1e-4, 1e-3, 1e-2, 1e-1, 1.0):
            inverse = vectors / (values + alpha)
            a = inverse @ (vectors.T @ y[:known])
            left_out = a / np.einsum("ij,ij->i", inverse, vectors)
            found.append((float(np.mean(left_out**2)), K[known:] @ a))
    return min(found, key=lambda pair: pair[0])[1]


def generated() -> None:
    print(f"{'stream':14}{'rows':>8}{'pronk':>10}{'other':>10}{'ratio':>8}")
    for name, make_stream, other, lengths in (
        ("steps", steps, retrained_lightgbm, (4_000, 8_000, 16_000)),
        ("directions", directed, kernel_ridge, (3_000, 6_000)),
    ):
        for rows in lengths:
            X, y, noise = make_stream(rows)
            P = pronk.OnlineKernelRegressor(random_state=0).predict_then_learn(X, y)
            errors = [np.mean((p[-1000:] - y[-1000:]) ** 2) for p in (P, other(X, y))]
            own, their = (error / noise for error in errors)
            print(f"{name:14}{rows:8,}{own:10.3f}{their:10.3f}{own / their:8.3f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=streams.NAMES)
    parser.add_argument("--generated", action="store_true")
    options = parser.parse_args()
    if options.generated:
        return generated()
    print(f"{'set':14}{'all':>10}{'early':>10}{'last':>10}")
    for name in options.sets:
        errors = errors_of(name, options.rows)
        parts = errors[FIRST:], errors[FIRST:EARLY], errors[3 * len(errors) // 4 :]
        print(f"{name:14}" + "".join(f"{part.mean():10.4g}" for part in parts), flush=True)


if __name__ == "__main__":
    main()
