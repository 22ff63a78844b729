"""Measure the pass in partitions: overhead with one worker, speed with two, a schedule of many.

    python benchmarks/bench_parallel.py [--rows 12000] [--points 500]
    python benchmarks/bench_parallel.py --picture docs/_static/parallel.svg

Overhead is a ratio of CPU times and holds on a busy machine. The speed with two threads is
from wall times and is valid on a quiet machine only: the load is printed beside it, and the figure
shows it only from a quiet machine, this one or with ``--quiet`` an earlier run. For 8, 64 and 512
workers the schedule is simulated from the measured times of the tasks and of the main thread:
workers compute sums in order, the main thread scans them, workers learn the rows.
"""

from __future__ import annotations

import argparse
import heapq
import os
from concurrent.futures import Future
from time import perf_counter, process_time

import numpy as np

from pronk import OnlineKernelRegressor, PKAWVRegressor, parallel
from pronk.core.runtime import limited
from pronk.estimators import files
from pronk.parallel import aggregate

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SHOWN = (1, 2, 8, 64, 512)
#: Below this load the clock tells the speed of two threads on two cores.
QUIET = 2.5


class Recorder:
    """Run every task at once, in this thread, and record its CPU time."""

    def __init__(self) -> None:
        self.tasks: list[tuple[str, float]] = []

    def submit(self, function, *arguments):
        began = process_time()
        future: Future = Future()
        future.set_result(function(*arguments))
        self.tasks.append((function.__name__, process_time() - began))
        return future


def simulated(sums: list[float], rows: list[float], main: float, workers: int) -> float:
    """Return when the last partition is done: sums in order, a scan on the main thread, rows.

    Two partitions per worker are in flight; rows go before the sums of later partitions.
    """
    step = main / max(len(sums), 1)
    free = [0.0] * workers
    clock, end, ahead = 0.0, 0.0, max(6, 2 * workers)
    waiting: list[tuple[float, float]] = []  # partitions whose rows can be given out
    for i, cost in enumerate(sums):
        if i >= ahead:  # the oldest one goes to a worker first
            at, own = waiting.pop(0)
            done = max(heapq.heappop(free), at) + own
            heapq.heappush(free, done)
            end = max(end, done)
        start = heapq.heappop(free)
        heapq.heappush(free, start + cost)
        clock = max(clock, start + cost) + step
        waiting.append((clock, rows[i]))
    for at, own in waiting:
        done = max(heapq.heappop(free), at) + own
        heapq.heappush(free, done)
        end = max(end, done)
    return max(end, clock)


def data(rows: int):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 8))
    return X, np.sin(X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=rows)


def begun(kind: str, points: int, rows: int):
    """Return the bytes of a learner that has learned its first rows, and the later rows."""
    first = aggregate.first_split_row() + 100 if kind == "default" else 600
    X, y = data(first + rows)
    if kind == "default":
        model = OnlineKernelRegressor(budget=points, random_state=0)
    else:
        given = np.random.default_rng(1).normal(size=(points, 8))
        model = PKAWVRegressor(dictionary=given)
    model.fit(X[:first], y[:first])  # compiled, and an open block
    return files.to_bytes(model), X[first:], y[first:]


def measured(start: bytes, X, y, turns: int) -> tuple[dict, dict]:
    """Return CPU and wall seconds with no, one and two workers, each the least of some turns."""
    cpu: dict = {}
    wall: dict = {}
    for _ in range(turns):
        for jobs in (None, 1, 2):
            model = files.from_bytes(start, "a model")
            model.n_jobs = jobs
            began, clock = process_time(), perf_counter()
            model.predict_then_learn(X, y)
            cpu[jobs] = min(cpu.get(jobs, np.inf), process_time() - began)
            wall[jobs] = min(wall.get(jobs, np.inf), perf_counter() - clock)
    return cpu, wall


def shares(start: bytes, X, y, pool) -> tuple[list[float], list[float], float]:
    """Return CPU seconds of the tasks for sums and for rows, and of the main thread."""
    engine = files.from_bytes(start, "a model")._model
    began = process_time()
    with limited:
        parallel.learn(engine, X, y[:, None], pool)
    total = process_time() - began
    sums = [cost for name, cost in pool.tasks if name in ("sum_partition", "sum_bundle")]
    rows = [cost for name, cost in pool.tasks if name in ("learn_partition", "learn_bundle")]
    ends = sum(cost for name, cost in pool.tasks if name == "_learned_by")  # once per call
    return sums, rows, total - sum(sums) - sum(rows) - ends


def speed_up(sums, rows, main, alone: float) -> dict[int, tuple[float, str]]:
    """Return by number of workers the speed-up on a long stream, and its bound."""
    many = 64 * 1024 // max(len(sums), 1) + 1  # a long stream is many times these partitions
    found = {}
    for workers in WORKERS:
        long = simulated(sums * many, rows * many, main * many, workers)
        bound = "the main thread" if long < 1.05 * main * many else "the workers"
        found[workers] = many * alone / long, bound
    return found


def report(kind: str, points: int, rows: int, turns: int) -> tuple[dict[str, dict], dict]:
    """Print the simulated speed-up by number of workers, and the measured one."""
    start, X, y = begun(kind, points, rows)
    cpu, wall = measured(start, X, y, turns)
    print(f"{kind}, {points} points, {rows:,} rows; load {os.getloadavg()[0]:.1f}")
    print(f"  CPU without workers              {1e6 * cpu[None] / rows:.0f} us per row")
    print(f"  CPU with 1 worker / sequential   {cpu[1] / cpu[None]:.2f}  (goal: at most 1.35)")
    print(f"  CPU with 2 workers / sequential  {cpu[2] / cpu[None]:.2f}")
    print(f"  wall: sequential / 2 workers     {wall[None] / wall[2]:.2f}  (goal 1.6, if quiet)")
    sums, own, main = shares(start, X, y, Recorder())
    all_of_it = main + sum(sums) + sum(own)
    print(f"  {len(sums)} partitions; main thread {main / all_of_it:.1%} of the CPU")
    found = {kind: speed_up(sums, own, main, cpu[None])}
    for workers in SHOWN:
        times, bound = found[kind][workers]
        print(f"    simulated, {workers:>3} workers: {times:6.1f} x  ({bound})")
    measured_by = {1: cpu[None] / cpu[1]}
    if os.getloadavg()[0] < QUIET:
        measured_by[2] = wall[None] / wall[2]
    return found, measured_by


def picture(found: dict[str, dict], clocked: dict[str, dict], path: str) -> None:
    """Draw the simulated lines, and the measurements with 1 and 2 threads."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "pronk"
    figure, axes = plt.subplots(figsize=(6.4, 3.8), constrained_layout=True)
    axes.plot(WORKERS, WORKERS, color="0.7", linestyle=":", label="as many times as workers")
    for name, times in found.items():
        label = f"{name}, simulated"
        axes.plot(WORKERS, [times[w][0] for w in WORKERS], marker="o", markersize=3, label=label)
    for (kind, times), sign in zip(clocked.items(), "s^", strict=True):
        signs = {"linestyle": "none", "marker": sign, "color": "black", "markerfacecolor": "none"}
        axes.plot(times.keys(), times.values(), label=f"{kind}, threads, measured", **signs)
    axes.set(xscale="log", yscale="log", xlabel="workers", ylabel="times faster")
    axes.set_xticks(WORKERS, [str(w) for w in WORKERS])
    axes.set_yticks([1, 2, 5, 10, 20, 50, 100, 200, 500])
    axes.set_yticklabels(["1", "2", "5", "10", "20", "50", "100", "200", "500"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    print(f"written: {path}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--points", type=int, default=500)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--picture", help="where the picture of the speed-up goes (.svg)")
    parser.add_argument(
        "--quiet", nargs="*", default=[], metavar="KIND=TIMES",
        help="speed with two threads that an earlier run printed on quiet cores, as default=1.65",
    )  # fmt: skip
    given = parser.parse_args()
    found: dict[str, dict] = {}
    clocked: dict[str, dict] = {}
    quiet = dict(text.split("=") for text in given.quiet)
    for kind in ("PKAWV", "default"):
        rows = given.rows if kind == "PKAWV" else max(given.rows, 20_480)
        simulated_by, clocked[kind] = report(kind, given.points, rows, given.turns)
        found |= simulated_by
        if kind in quiet:
            clocked[kind][2] = float(quiet[kind])
    if given.picture:
        picture(found, clocked, given.picture)


if __name__ == "__main__":
    main()
