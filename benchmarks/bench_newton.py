"""Measure the speed of the Newton engine's learners relative to the machine's rate, in one run."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from measure import dgemm_rate, pass_seconds, report, seconds  # first: it bounds the threads

import numpy as np  # isort: skip
import pronk  # isort: skip
from sklearn.base import clone  # isort: skip
from pronk import (
    AIOLIClassifier,
    Gaussian,
    KONSRegressor,
    PKAWVClassifier,
    PKAWVRegressor,
    ProsNKONSClassifier,
    ProsNKONSRegressor,
)


def paper_listing(X: np.ndarray, y: np.ndarray, sigma: float) -> np.ndarray:
    """Run PKAWV as the paper lists it: the inverse is updated row by row in NumPy."""
    d = X.shape[1]
    upper = np.triu_indices(d)
    weights = np.where(upper[0] == upper[1], np.sqrt(0.5), 1.0) / sigma**2
    r = 1 + d + len(weights)
    A_inv, b, out = np.eye(r), np.zeros(r), np.empty(len(y))
    for t, x in enumerate(X):
        z = np.concatenate(([1.0], x / sigma, weights * np.outer(x, x)[upper]))
        z *= np.exp(-x @ x / (2 * sigma**2))
        v = A_inv @ z
        v /= np.sqrt(1 + z @ v)
        A_inv -= np.outer(v, v)
        out[t] = z @ (A_inv @ b)
        b += y[t] * z
    return out


def taylor() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 18))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2]

    def make() -> PKAWVRegressor:
        return PKAWVRegressor(Gaussian(4.0), features="taylor", degree=2)

    rate = dgemm_rate()
    fast = pass_seconds(make, X, y)
    floor = len(X) * 3.3 * 190**2 / rate
    report("PKAWV Taylor M=2 d=18: time / 3.3 r^2 flops", fast / floor, "x", "<= 2.5")
    rows = 3000
    start = time.process_time()
    listed = paper_listing(X[:rows], y[:rows], 4.0)
    slow = (time.process_time() - start) / rows
    ours = make().predict_then_learn(X[:rows], y[:rows])
    np.testing.assert_allclose(listed, ours, rtol=0, atol=1e-8)
    ratio = slow / (fast / len(X))
    report("PKAWV Taylor: the paper's row-by-row NumPy / pronk", ratio, "x", ">= 8")
    report("PKAWV Taylor: time per row", fast / 40_000 * 1e6, "us", "")
    learner = make().partial_fit(X[:10], y[:10])

    def singly() -> None:
        for i in range(4000):
            learner.predict_then_learn(X[i : i + 1], y[i : i + 1])

    report("PKAWV Taylor: one row per call", 4000 / seconds(singly), "rows/s", ">= 20000")


def nystrom() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(40_000, 8))
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    times = {}
    for budget in (50, 100, 200):

        def make(budget: int = budget) -> PKAWVRegressor:
            return PKAWVRegressor(Gaussian(0.5), gamma=0.1, budget=budget, random_state=0)

        times[budget] = pass_seconds(make, X, y) / len(X) * 1e6
        target = "< 8" if budget == 100 else ""
        report(
            f"PKAWV Nystrom projected, {budget} points: time per row", times[budget], "us", target
        )
    report("  200 points / 100 points", times[200] / times[100], "x", "about 4 (j^2)")
    learner = PKAWVRegressor(Gaussian(0.5), gamma=0.1, budget=100, random_state=0)
    parts = []
    for i in range(0, 40_000, 10_000):
        start = time.process_time()
        learner.predict_then_learn(X[i : i + 10_000], y[i : i + 10_000])
        parts.append(time.process_time() - start)
    report("  last quarter of the rows / second quarter", parts[3] / parts[1], "x", "about 1")


def pros_n_kons() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(40_000, 8))
    y = np.sin(3 * X[:, 0]) * X[:, 1]
    exponentials = np.linspace(-5.0, 0.0, 4096)
    from pronk.core.kernels import exponential

    exponential(exponentials.copy(), -1.0)
    exp = seconds(lambda: exponential(exponentials.copy(), -1.0), 50) / 4096
    for gamma, bandwidth, target in ((4.0, 5.0, "<= 6"), (0.4, 2.0, "<= 4")):

        def make(gamma: float = gamma, bandwidth: float = bandwidth) -> ProsNKONSRegressor:
            return ProsNKONSRegressor(Gaussian(bandwidth), alpha=gamma, gamma=gamma, random_state=0)

        rate = dgemm_rate()
        took = pass_seconds(make, X, y) / len(X)
        j = make().fit(X, y).size_
        floor = (4 * j**2 + 24 * j) / rate + j * exp
        report(f"PROS-N-KONS d=8, {j} points: time / (4 j^2 + 24 j flops + j exp)",
               took / floor, "x", target)  # fmt: skip


def aioli() -> None:
    """Measure AIOLI and PKAWV in turns, on the same points."""
    rng = np.random.default_rng(5)
    X = rng.uniform(-1, 1, size=(10_000, 8))
    y = np.where(np.sin(3 * X[:, 0]) + X[:, 1] > 0, 1, -1)
    for points in (30, 100, 300, 600):
        options = {"kernel": Gaussian(0.7), "dictionary": 1.2 * X[:points]}
        times: dict[type, list[float]] = {PKAWVClassifier: [], AIOLIClassifier: []}
        for _ in range(5):
            for kind, taken in times.items():
                learner = kind(**options).partial_fit(X[:10], y[:10])
                start = time.process_time()
                learner.predict_then_learn(X, y)
                taken.append(time.process_time() - start)
        ratio = min(times[AIOLIClassifier]) / min(times[PKAWVClassifier])
        report(f"AIOLI / PKAWV, {points} points, in blocks", ratio, "x", "<= 1.5")


def cod_rna() -> None:
    folder = os.environ.get("PRONK_DATA")
    if not folder:
        print("cod-rna: set PRONK_DATA to the directory of the data sets")
        return
    import pyarrow.parquet as pq

    table = pq.read_table(f"{folder}/codrna.parquet").slice(59_535).to_pandas()
    y = table.pop("y").to_numpy().astype(float)
    X = np.ascontiguousarray(table.to_numpy(dtype=np.float64))
    X = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    for alpha, target in ((1.0, "< 2 (paper 270.81)"), (0.01, "< 6 (paper 459.28)")):
        learner = ProsNKONSClassifier(Gaussian(8.0), alpha=alpha, gamma=alpha, random_state=0)
        took = pass_seconds(lambda m=learner: clone(m), X, y, 2)
        report(f"PROS-N-KONS, cod-rna test file, alpha=gamma={alpha:g}", took, "s", target)


def kons() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(5000, 8))
    y = np.sin(3 * X[:, 0])
    took = pass_seconds(lambda: KONSRegressor(Gaussian(0.5)), X, y, 1)
    report("KONS, 5000 rows", took, "s", "< 10")


def starting() -> None:
    def fresh(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    bare = min(fresh("pass") for _ in range(3))
    report("import pronk", min(fresh("import pronk") for _ in range(3)) - bare, "s", "< 0.5")
    first = (
        "import numpy as np, pronk; X = np.random.default_rng(0).normal(size=(100, 3)); "
        "pronk.PKAWVRegressor().predict_then_learn(X, X[:, 0])"
    )
    fresh(first)
    report("first prediction, warm cache", fresh(first), "s", "< 3")
    import tempfile

    with tempfile.TemporaryDirectory() as cache:
        os.environ["NUMBA_CACHE_DIR"] = cache
        report("first prediction, cold cache", fresh(first), "s", "< 20")
        del os.environ["NUMBA_CACHE_DIR"]


def memory() -> None:
    import resource

    rng = np.random.default_rng(4)
    X = rng.uniform(size=(100_000, 8))
    y = np.sin(3 * X[:, 0])
    for name, learner in {
        "PKAWV Taylor": PKAWVRegressor(features="taylor"),
        "PKAWV Nystrom projected, 100 points": PKAWVRegressor(gamma=0.1, budget=100),
        "CON-KONS, 100 points": ProsNKONSRegressor(restart=False, budget=100),
    }.items():
        peaks = []
        for _ in range(10):
            learner.partial_fit(X, y)
            peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        more = peaks[-1] - peaks[0]
        report(f"{name}: peak memory, rows 100,000 to 1,000,000", more, "MB more", "0")


if __name__ == "__main__":
    pronk.warmup()
    taylor()
    nystrom()
    pros_n_kons()
    aioli()
    cod_rna()
    kons()
    memory()
    starting()
