"""Measure rates and times in the same run, on one thread; shared by the benchmarks.

Machines are noisy, so every figure is the best of several tries and is printed beside the rate of
the machine at that moment.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from scipy.linalg.blas import dgemm  # noqa: E402


def seconds(work: Callable[[], Any], tries: int = 3) -> float:
    """Return the best CPU time of a function, as other processes may share the machine."""
    best = np.inf
    for _ in range(tries):
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def dgemm_rate(n: int = 512, tries: int = 20) -> float:
    """Return the flops per second of a square matrix product."""
    A = np.asfortranarray(np.random.default_rng(0).normal(size=(n, n)))
    dgemm(1.0, A, A)
    return 2.0 * n**3 / seconds(lambda: dgemm(1.0, A, A), tries)


def pass_seconds(make: Callable[[], Any], X: Any, y: Any, tries: int = 3) -> float:
    """Return the seconds of one predict_then_learn pass of a new learner over the whole stream."""
    return seconds(lambda: make().predict_then_learn(X, y), tries)


def report(name: str, figure: float, unit: str, target: str) -> None:
    print(f"{name:<64} {figure:>10.2f} {unit:<12} target {target}")
