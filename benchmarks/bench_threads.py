"""Compare BLAS threads: no variable set against OPENBLAS_NUM_THREADS=1, with and without load.

Each figure is a ratio of wall times of the same pass of the default learner, in new processes that
run in turns, the best of several tries. The cost of the limit in a call of one row is printed too.

    python benchmarks/bench_threads.py [--rows 4000] [--tries 3] [--free]

``--free`` also runs with `pronk.set_threads(None)`, as it would be without the limit (it may take
many times as long).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import contextmanager

VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
BUSY = "while True: pass"


def one_pass(rows: int, threads: str) -> None:
    """Return the seconds of a pass, and of a row in calls of one row, in a separate process."""
    import numpy as np

    import pronk

    pronk.set_threads(None if threads == "free" else 1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 10))
    y = np.sign(np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=rows)).astype(int)
    pronk.OnlineKernelClassifier(random_state=0).predict_then_learn(X[:600], y[:600])
    learner = pronk.OnlineKernelClassifier(random_state=0)
    start = time.perf_counter()
    learner.predict_then_learn(X, y)
    print(json.dumps({"pass": time.perf_counter() - start}))


def one_row_cost() -> None:
    """Time a call of one row with the limit and without, in turns, in a separate process."""
    import numpy as np

    import pronk

    X = np.random.default_rng(0).uniform(-1, 1, (2000, 3))
    y = np.sin(X[:, 0])
    learner = pronk.make("pkawv-taylor", degree=2).fit(X, y)

    def calls() -> float:
        start = time.perf_counter()
        for i in range(200):
            learner.predict_then_learn(X[i : i + 1], y[i : i + 1])
        return (time.perf_counter() - start) / 200

    best = {1: np.inf, None: np.inf}
    for _ in range(100):
        for threads in best:
            pronk.set_threads(threads)
            best[threads] = min(best[threads], calls())
    print(json.dumps({"limited": best[1], "free": best[None]}))


def child(*arguments: str, **variables: str) -> dict[str, float]:
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    command = [sys.executable, __file__, "--child", *arguments]
    run = subprocess.run(
        command, env=environment | variables, capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(run.stdout)
    return result


@contextmanager
def busy(processes: int):
    others = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def compare(rows: int, tries: int, free: bool) -> dict[str, float]:
    """Return the best seconds of a pass by variant; the variants run in turns."""
    variants = {"one": ("1", {"OPENBLAS_NUM_THREADS": "1"}), "none": ("1", {})}
    if free:
        variants["free"] = ("free", {})
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(tries):
        for name, (threads, variables) in variants.items():
            best[name] = min(best[name], child(str(rows), threads, **variables)["pass"])
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--free", action="store_true")
    given = parser.parse_args()
    for processes, target in ((0, 1.1), (2, 1.3)):
        with busy(processes):
            best = compare(given.rows, given.tries, given.free)
        where = f"beside {processes} busy processes" if processes else "nothing else running"
        print(
            f"{where:<28} one thread {best['one']:6.2f} s   no variables {best['none']:6.2f} s   "
            f"ratio {best['none'] / best['one']:5.2f}   target <= {target}"
        )
        if given.free:
            print(f"{'':<28} without the limit {best['free'] / best['one']:5.2f} x")
    cost = child("one-row")
    print(
        f"a call of one row            limited {cost['limited'] * 1e6:6.2f} us   "
        f"free {cost['free'] * 1e6:6.2f} us   ratio {cost['limited'] / cost['free']:5.2f}"
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        if sys.argv[2] == "one-row":
            one_row_cost()
        else:
            one_pass(int(sys.argv[2]), sys.argv[3])
    else:
        main()
