"""Time kernel expansions with and without a budget against lower bounds, in one run.

    python benchmarks/bench_expansion.py

The lower bound of a budgeted learner is the arithmetic of one row: 2 B d flops at the speed of
dgemm, and B exponentials of 3 ns. Times are CPU times, the least of several passes; bound and
learners are measured in turns, so that load slows both.
"""

from __future__ import annotations

import time

import numpy as np
from threadpoolctl import threadpool_limits

import pronk
from pronk import Gaussian

BUDGET, COLUMNS, ROWS = 300, 20, 60_000
EXPONENTIAL = 3e-9
#: name: (parameters, rows per second to reach or None, most times the floor or None)
TARGETS = {
    "rbp": ({}, 300_000, 3.0),
    "forgetron": ({}, 300_000, 3.0),
    "bogd": ({"eta": 0.2, "alpha": 0.01}, 300_000, 3.0),
    "bsgd-r": ({"alpha": 1e-4}, None, None),
    "bsgd-m": ({"alpha": 1e-4}, None, None),
    "projectron": ({}, 80_000, None),
    "projectron++": ({}, None, None),
}
WIDE_ROWS, WIDE_COLUMNS, WIDE_SECONDS = 30_000, 120, 20.0


def stream(n, d, seed=0):
    """Return rows of two classes with a smooth border and noise; about a third are mistakes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.sign(X[:, 0] * X[:, 1] + X[:, 2] + 0.3 * rng.standard_normal(n))


def seconds(function, *args):
    start = time.process_time()
    function(*args)
    return time.process_time() - start


def floor(size=800):
    """Return the seconds of one row's arithmetic."""
    A = np.random.default_rng(0).standard_normal((size, size))
    flops = 2 * size**3 / seconds(np.matmul, A, A)
    return 2 * BUDGET * COLUMNS / flops + BUDGET * EXPONENTIAL


def budgeted(repeats=5):
    X, y = stream(ROWS, COLUMNS)
    pronk.make("rbp", "classification").partial_fit(X[:10], y[:10])  # compiles
    floors, times, learners = [], {name: [] for name in TARGETS}, {}
    for _ in range(repeats):
        floors.append(floor())
        for name, (params, _, _) in TARGETS.items():
            learner = pronk.make(
                name,
                "classification",
                kernel=Gaussian(3.0),
                budget=BUDGET,
                random_state=0,
                **params,
            )
            times[name].append(seconds(learner.partial_fit, X, y))
            learners[name] = learner
    least = min(floors)
    print(f"budget {BUDGET}, {COLUMNS} columns; floor {1e6 * least:.2f} us per row")
    for name, (_, rate, ratio) in TARGETS.items():
        row = min(times[name]) / ROWS
        wanted = [] if rate is None else [f"at least {rate:,}/s: {verdict(1 / row >= rate)}"]
        if ratio is not None:
            wanted.append(f"at most {ratio:g} x: {verdict(row <= ratio * least)}")
        print(
            f"  {name:13s}{1 / row:10,.0f} rows/s {row / least:6.2f} x floor  "
            f"{learners[name].size_:4d} points  {', '.join(wanted)}"
        )


def unbounded():
    X, y = stream(WIDE_ROWS, WIDE_COLUMNS)
    print(f"no budget, {WIDE_ROWS:,} rows x {WIDE_COLUMNS} columns")
    for name in ("perceptron", "ogd"):
        learner = pronk.make(name, "classification", kernel=Gaussian(10.0))
        took = seconds(learner.partial_fit, X, y)
        print(
            f"  {name:13s}{took:6.1f} s, {learner.size_:,} points  "
            f"under {WIDE_SECONDS:g} s: {verdict(took < WIDE_SECONDS)}"
        )


def paths():
    """Time a Gaussian kernel inside the loop and in blocks, which determines `expansion.SMALL`."""
    from pronk.first_order import expansion as expansion

    print("scores, us per row: inside the loop, in blocks")
    kept = expansion.SMALL, expansion.DIRECT_COLUMNS
    for columns in (8, 32, 120):
        for points in (100, 300, 1000, 3000):
            X, y = stream(points + 1024, columns)
            learner = pronk.KernelOGDRegressor(Gaussian(columns**0.5)).fit(X[:points], y[:points])
            row = []
            for small in (10**12, -1):
                expansion.SMALL, expansion.DIRECT_COLUMNS = small, 0
                row.append(min(seconds(learner.predict, X[points:]) for _ in range(5)))
            expansion.SMALL, expansion.DIRECT_COLUMNS = kept
            inside, blocks = (1e6 * t / 1024 for t in row)
            print(f"  {columns:4d} columns {points:6d} points {inside:8.2f} {blocks:8.2f}")


def verdict(reached):
    return "met" if reached else "MISSED"


if __name__ == "__main__":
    with threadpool_limits(1):
        budgeted()
        unbounded()
        paths()
