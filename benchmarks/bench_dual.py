"""Compare FOGD, DualSVRG, DualSGD and NOGD with their targets: ratios of one run, one thread.

    python benchmarks/bench_dual.py            synthetic streams
    PRONK_DATA=folder ...                      also flights2001_3m.parquet, 3 million rows

A ratio compares the least of several times each, measured in turns, so that load slows both.
"""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import SGDClassifier
from threadpoolctl import threadpool_limits

import pronk

ROWS, COLUMNS, FREQUENCIES, BLOCK = 40_000, 8, 200, 256


def stream(n=ROWS, d=COLUMNS, seed=0):
    """Return rows of two classes with a smooth border; a tenth of the labels are wrong."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(np.sin(X[:, 0]) + X[:, 1] * X[:, 2] > 0, 1, -1)
    return X, np.where(rng.random(n) < 0.1, -y, y)


def scikit_learn(X, y, numbers):
    """Run RBFSampler and SGDClassifier; a whole block is predicted before it is learned."""
    sampler = RBFSampler(gamma=0.5, n_components=numbers, random_state=0).fit(X[:1])
    learner = SGDClassifier(loss="hinge", alpha=0.0, learning_rate="constant", eta0=0.5)
    learner.partial_fit(sampler.transform(X[:1]), y[:1], classes=[-1, 1])
    mistakes = 0
    for i in range(0, len(X), BLOCK):
        Z = sampler.transform(X[i : i + BLOCK])
        mistakes += np.count_nonzero(learner.predict(Z) != y[i : i + BLOCK])
        learner.partial_fit(Z, y[i : i + BLOCK])
    return mistakes / len(X)


def run(name, X, y, **params):
    """Make one pass in blocks of 2048 rows; return the error rate."""
    learner = pronk.make(name, "classification", random_state=0, **params)
    mistakes = 0
    for i in range(0, len(X), 2048):
        block = slice(i, i + 2048)
        mistakes += np.count_nonzero(learner.predict_then_learn(X[block], y[block]) != y[block])
    return mistakes / len(X)


def best_times(tasks, repeats=5):
    """Return the least seconds of each task, in turns; the first turn warms up."""
    times = {name: np.inf for name in tasks}
    answers = {name: task() for name, task in tasks.items()}
    for _ in range(repeats):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name] = min(times[name], time.perf_counter() - start)
    return times, answers


def verdict(ratio, target, at_least):
    met = ratio >= target if at_least else ratio <= target
    sign, word = ">=" if at_least else "<=", "met" if met else "MISSED"
    return f"{ratio:6.2f}  target {sign} {target:g}  {word}"


def synthetic():
    X, y = stream()
    memory = dict(n_features=FREQUENCIES, period=100)
    tasks = {
        "scikit-learn, 400 numbers": lambda: scikit_learn(X, y, 2 * FREQUENCIES),
        "scikit-learn, 200 numbers": lambda: scikit_learn(X, y, FREQUENCIES),
        "fogd": lambda: run("fogd", X, y, n_features=FREQUENCIES),
        "dual-svrg-am m=10": lambda: run("dual-svrg-am", X, y, memory=10, **memory),
        "dual-svrg-am m=100": lambda: run("dual-svrg-am", X, y, memory=100, **memory),
        "dual-svrg-am m=1000": lambda: run("dual-svrg-am", X, y, memory=1000, **memory),
        "dual-svrg-am m=10 logistic": lambda: run(
            "dual-svrg-am", X, y, memory=10, loss="logistic", **memory
        ),
        "dual-svrg-b m=10 B=100": lambda: run("dual-svrg-b", X, y, memory=10, **memory),
        "dual-svrg-b m=1000 B=100": lambda: run("dual-svrg-b", X, y, memory=1000, **memory),
        "dual-sgd B=100": lambda: run("dual-sgd", X, y, n_features=FREQUENCIES),
        "nogd B=100 r=20": lambda: run("nogd", X, y),
    }
    times, errors = best_times(tasks)
    print(f"{ROWS} rows, {COLUMNS} columns, {FREQUENCIES} frequencies, one thread\n")
    print(f"{'':28}   rows/s   us/row   error")
    for name, seconds in times.items():
        rate, micro = ROWS / seconds, 1e6 * seconds / ROWS
        print(f"{name:28}{rate:9,.0f}{micro:9.2f}{errors[name]:8.3f}")
    fogd, small = times["fogd"], times["dual-svrg-am m=10"]
    rows = [
        ("scikit-learn / fogd", times["scikit-learn, 400 numbers"] / fogd, 5, True),
        ("the same, 200 numbers", times["scikit-learn, 200 numbers"] / fogd, 5, True),
        ("dual-svrg-am m=10 / fogd", small / fogd, 4, False),
        ("dual-svrg-am m=10 logistic / fogd", times["dual-svrg-am m=10 logistic"] / fogd, 4, False),
        ("dual-svrg-am m=1000 / m=10", times["dual-svrg-am m=1000"] / small, 4, False),
        (
            "dual-svrg-b m=1000 / m=10",
            times["dual-svrg-b m=1000 B=100"] / times["dual-svrg-b m=10 B=100"], 4, False,
        ),
    ]  # fmt: skip
    print()
    for name, ratio, target, at_least in rows:
        print(f"{name:36}{verdict(ratio, target, at_least)}")


def flights(folder):
    """Learn from 3 million rows in batches whether a flight is late; print time and memory."""
    import pyarrow.parquet as parquet

    file = parquet.ParquetFile(folder / "flights2001_3m.parquet")
    print(f"\nflights2001_3m: {file.metadata.num_rows:,} rows, {FREQUENCIES} frequencies")
    for name, params in (("fogd", {}), ("dual-svrg-am", {"memory": 100})):
        learner = pronk.make(
            name, "classification", n_features=FREQUENCIES, random_state=0, **params
        )
        seconds, mistakes, rows, early = 0.0, 0, 0, 0
        for batch in file.iter_batches(65_536):
            table = np.column_stack([column.to_numpy(False) for column in batch.columns])
            X, y = np.ascontiguousarray(table[:, :-1], dtype=np.float64), table[:, -1] > 0
            if not rows:
                center, scale = X.mean(axis=0), X.std(axis=0) + 1.0
            X = (X - center) / scale
            start = time.perf_counter()
            labels = learner.predict_then_learn(X, y)
            seconds += time.perf_counter() - start
            mistakes += np.count_nonzero(labels != y)
            rows += len(X)
            early = early or (rows > 300_000) * peak_megabytes()
        print(
            f"{name:14}{seconds:6.1f} s learning ({rows / seconds:,.0f} rows/s), error "
            f"{mistakes / rows:.3f}, target <= 30 s  {'met' if seconds <= 30 else 'MISSED'}; peak "
            f"memory grew {peak_megabytes() - early:.1f} MB after 300,000 rows"
        )


def peak_megabytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    with threadpool_limits(1):
        synthetic()
        if "PRONK_DATA" in os.environ:
            flights(Path(os.environ["PRONK_DATA"]))
