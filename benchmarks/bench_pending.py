"""Labels that arrive by id: `pronk.Pending` beside a delay, and beside rows that are read late.

    python benchmarks/bench_pending.py [--rows N]

Rows come one by one and their labels some rows later, on three generated streams: a level that
drifts, an autoregressive one, and a season of 24 rows. Errors and the coverage of 90 % intervals
over the rows from 1,000 on, of three ways to learn a row when its label arrives:

    as predicted   `pronk.Pending`: with what was read and predicted then
    read now       `predict`, and `partial_fit` when the label arrives: as if it were the next row
    delay          the learner with that ``delay``, which holds the rows itself
"""

from __future__ import annotations

import argparse
import time

from measure import dgemm_rate  # noqa: F401  first: it bounds the threads

import numpy as np  # isort: skip
import pronk  # isort: skip

COVERAGE, FIRST = 0.9, 1000


def streams(n: int) -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    """Return rows, targets and lateness by name."""
    rng, t = np.random.default_rng(0), np.arange(n)
    X, noise = rng.uniform(-1, 1, (n, 2)), rng.normal(size=(3, n))
    regressive = np.zeros(n)
    for i in range(1, n):
        regressive[i] = 0.97 * regressive[i - 1] + noise[1, i]
    season, hours = np.sin(2 * np.pi * t / 24), np.column_stack((t % 24, X[:, 1]))
    return {
        "drifting level": (hours, 5 * season + X[:, 1] + np.cumsum(0.3 * noise[0]), 24),
        "autoregressive": (X, 2 * np.sin(3 * X[:, 0]) + regressive, 24),
        "season": (X, 4 * season + X[:, 0] + np.cumsum(0.05 * noise[0]) + 0.2 * noise[2], 12),
    }


def pass_over(X: np.ndarray, y: np.ndarray, late: int, keeps: bool) -> tuple[np.ndarray, ...]:
    """Return predictions and both ends of their intervals, of rows whose labels come late."""
    model = pronk.OnlineKernelRegressor(random_state=0)
    pending, (P, low, high) = pronk.Pending(model), np.full((3, len(y)), np.nan)
    for t in range(len(y)):
        row = X[t : t + 1]
        if t > late:
            low[t], high[t] = model.predict_interval(row, COVERAGE, ahead=False)[0]
            P[t] = model.predict(row, ahead=False)[0]
        if keeps:
            pending.predict(row, [t])
        if t >= late:
            old = slice(t - late, t - late + 1)
            if keeps:
                pending.learn([t - late], y[old])
            else:
                model.partial_fit(X[old], y[old])
    return P, low, high


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=4500, help="rows of each stream")
    options = parser.parse_args()
    print(f"{'stream':15} {'late':>4} {'way':13} {'MSE':>8} {'coverage':>8} {'us per row':>10}")
    for name, (X, y, late) in streams(options.rows).items():
        for way in ("as predicted", "read now", "delay"):
            begun = time.process_time()
            if way == "delay":
                model = pronk.OnlineKernelRegressor(delay=late, random_state=0)
                P, ends = model.predict_then_learn(X, y, interval=COVERAGE)
                low, high = ends.T
            else:
                P, low, high = pass_over(X, y, late, way == "as predicted")
            spent = 1e6 * (time.process_time() - begun) / len(y)
            rows = slice(FIRST, None)
            inside = np.mean((low[rows] <= y[rows]) & (y[rows] <= high[rows]))
            error = np.mean((P - y)[rows] ** 2)
            line = f"{name:15} {late:4} {way:13} {error:8.3f} {inside:8.1%} {spent:10.0f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
