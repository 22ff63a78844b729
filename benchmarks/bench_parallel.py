"""The pass in partitions: overhead with one worker, speed with two, and a schedule of many.

    python benchmarks/bench_parallel.py [--rows 12000] [--points 500] [--keys 1000]

Overhead is a ratio of CPU times and holds on a busy machine. The speed with two threads is wall
time and means something on a quiet machine only: the load is printed beside it. For 8, 64 and 512
workers the schedule is simulated from the measured times of the tasks and of the main thread:
workers take the sums in order, the main thread scans them, workers take the rows.
"""

from __future__ import annotations

import argparse
import heapq
import os
import resource
from concurrent.futures import Future
from time import perf_counter, process_time

import numpy as np

from pronk import Keyed, PKAWVRegressor
from pronk.engines import splitting
from pronk.parts.threads import limited


class Recorder:
    """Does every task at once, in this thread, and keeps how long it took."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, float]] = []

    def submit(self, function, *arguments):
        began = process_time()
        future: Future = Future()
        future.set_result(function(*arguments))
        self.tasks.append((function.__name__, process_time() - began))
        return future

    def map(self, function, *lists):
        return [self.submit(function, *one).result() for one in zip(*lists, strict=True)]


def simulated(sums: list[float], rows: list[float], main: float, workers: int) -> float:
    """When the last partition is done: sums in order, a scan on the main thread, rows."""
    step = main / max(len(sums), 1)
    free = [0.0] * workers
    heapq.heapify(free)
    ready, clock, end = [], 0.0, 0.0
    for cost in sums:
        start = heapq.heappop(free)
        heapq.heappush(free, start + cost)
        clock = max(clock, start + cost) + step
        ready.append(clock)
    for at, cost in zip(ready, rows, strict=True):
        done = max(heapq.heappop(free), at) + cost
        heapq.heappush(free, done)
        end = max(end, done)
    return max(end, clock)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--keys", type=int, default=1000)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(given.rows, 8))
    y = np.sin(X[:, 0]) * X[:, 1]
    points = rng.normal(size=(given.points, 8))

    def learner(n_jobs=None):
        model = PKAWVRegressor(dictionary=points, n_jobs=n_jobs)
        return model.fit(X[:600], y[:600])  # compiled, and an open block

    cpu, wall = {}, {}
    for _ in range(2):
        for jobs in (None, 1, 2):
            model = learner(jobs)
            began, clock = process_time(), perf_counter()
            model.predict_then_learn(X[600:], y[600:])
            cpu[jobs] = min(cpu.get(jobs, np.inf), process_time() - began)
            wall[jobs] = min(wall.get(jobs, np.inf), perf_counter() - clock)
    print(f"PKAWV, {given.points} points, {given.rows} rows; load {os.getloadavg()[0]:.1f}")
    print(f"  CPU with 1 worker / sequential   {cpu[1] / cpu[None]:.2f}  (goal: at most 1.35)")
    print(f"  CPU with 2 workers / sequential  {cpu[2] / cpu[None]:.2f}")
    print(f"  wall: sequential / 2 workers     {wall[None] / wall[2]:.2f}  (goal 1.6, if quiet)")

    recorder = Recorder()
    engine = learner()._model
    began = process_time()
    with limited:
        splitting.learn(engine, X[600:], y[600:, None], recorder)
    total = process_time() - began
    sums = [cost for name, cost in recorder.tasks if name == "_sum"]
    rows = [cost for name, cost in recorder.tasks if name == "learn"]
    own = total - sum(sums) - sum(rows)
    print(f"  {len(sums)} partitions; main thread {own / total:.1%} of the CPU time")
    # A long stream is many times these partitions; the main thread's share stays.
    many = 64 * 1024 // max(len(sums), 1) + 1
    for workers in (1, 2, 8, 64, 512):
        long = simulated(sums * many, rows * many, own * many, workers)
        bound = "the main thread" if long < 1.05 * own * many else "the workers"
        print(f"  simulated, {workers:>3} workers: {many * cpu[None] / long:6.1f} x  ({bound})")

    n = 20 * given.keys
    keys = rng.integers(given.keys, size=n)
    Z = rng.normal(size=(n, 5))
    began = process_time()
    keyed = Keyed(held=1000)
    keyed.predict_then_learn(Z, Z[:, 0], keys)
    keyed.flush()
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    spent = process_time() - began
    print(
        f"Keyed, {len(keyed):,} keys x 20 rows: {1e6 * spent / n:.0f} us CPU a row, {used:.0f} MB"
    )


if __name__ == "__main__":
    main()
