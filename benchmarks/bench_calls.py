"""Time calls of the default learner on one thread: mean, median, 99th percentile and worst.

    python benchmarks/bench_calls.py                 print the table
    python benchmarks/bench_calls.py --write         and write docs/results/calls.json

The tails are those of 2,000 consecutive calls, nothing left out: some of them close a block, split
leaves or add points. River's forests learn the same rows in the same run.
"""

from __future__ import annotations

import argparse
import copy
import os
import time

from measure import dgemm_rate  # first: it bounds the threads

import numpy as np  # isort: skip
from river import forest  # isort: skip
import pronk  # isort: skip
from field import results  # isort: skip
from pronk.compat.river import wrap  # isort: skip

#: Rows before the figures of late rows: the last experts are dropped at row 16,384.
LATE = 16_640
#: Consecutive calls per figure; rows that the forests learn first.
CALLS, WARM = 2000, 1500
#: What the mean of a call should cost at most, in microseconds per row.
GOALS = {
    "first 2,048 rows": 350,
    "blocks of 256, after row 16,384": 130,
    "one row: predict_then_learn": 350,
    "one row: predict": 200,
}


def stream(n, labels):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 10))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    return X, (y > 0).astype(int) if labels else y


def timed(work, calls, rows=1):
    """Return microseconds of CPU time per row of each call of ``work``, given 0, 1, .."""
    times = np.empty(calls)
    for i in range(calls):
        start = time.process_time()
        work(i)
        times[i] = 1e6 * (time.process_time() - start) / rows
    return times


def measure(labels):
    """Return the times of all calls, by name."""
    kind = pronk.OnlineKernelClassifier if labels else pronk.OnlineKernelRegressor
    X, y = stream(LATE + 4096 + 2 * CALLS, labels)
    names = [f"x{j}" for j in range(X.shape[1])]
    dicts = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    targets = [bool(v) for v in y] if labels else y.tolist()
    kind(random_state=0).partial_fit(X[:2600], y[:2600]).predict_then_learn(
        X[:1], y[:1]
    )  # compiles
    times = {
        "first 2,048 rows": timed(
            lambda _: kind(random_state=0).predict_then_learn(X[:2048], y[:2048]), 4, 2048
        )
    }
    learner = kind(random_state=0).partial_fit(X[:LATE], y[:LATE])

    def block(i):
        rows = slice(LATE + 256 * i, LATE + 256 * (i + 1))
        learner.predict_then_learn(X[rows], y[rows])

    times["blocks of 256, after row 16,384"] = timed(block, 16, 256)
    first = LATE + 4096
    other = copy.deepcopy(learner)

    def one(i):
        learner.predict_then_learn(X[first + i : first + i + 1], y[first + i : first + i + 1])

    times["one row: predict_then_learn"] = timed(one, CALLS)
    times["one row: predict"] = timed(lambda i: other.predict(X[first + i : first + i + 1]), CALLS)
    wrapped = wrap(kind(random_state=0), features=names)
    wrapped._learner, wrapped._columns = other, wrapped._columns.with_names(names)
    models = {
        "predict_one + learn_one through river": wrapped,
        "AMF": forest.AMFClassifier(seed=0) if labels else forest.AMFRegressor(seed=0),
        "ARF": forest.ARFClassifier(seed=0) if labels else forest.ARFRegressor(seed=0),
    }
    for name, model in models.items():
        if model is not wrapped:
            for i in range(WARM):
                model.learn_one(dicts[i], targets[i])

        def row(i, model=model):
            model.predict_one(dicts[first + i])
            model.learn_one(dicts[first + i], targets[first + i])

        times[name] = timed(row, CALLS)
    return times


def table(times):
    """Return rows of cells: call, goal, mean, median, 99th percentile, worst."""
    rows = []
    for name, values in times.items():
        shown = f"river's {name}, predict_one + learn_one" if name in ("AMF", "ARF") else name
        tails = (values.mean(), np.median(values), np.quantile(values, 0.99), values.max())
        rows.append([shown, str(GOALS.get(name, "")), *(f"{value:,.0f}" for value in tails)])
    return rows


COLUMNS = ["call", "goal (mean)", "mean", "median", "99 %", "worst"]
INTRO = """\
The default learner on 10 columns, one thread: microseconds of CPU time per row. The tails of
one-row calls are those of {calls:,} consecutive calls; nothing is left out. Written by
`python benchmarks/bench_calls.py --write`; a matrix product then made {rate:.0f} Gflop/s, and the
load of the machine with two cores was {load:.1f}."""

NOTES = """What costs:

- **Blocks.** After row 16,384 the best expert holds 384 points and two others 192. A row costs
  the best more than half a million flops: kernel features, a triangular solve, the products of a
  block's rows, sums and the new factor. The local experts add 15 to 30 microseconds.
- **One row** reads two triangles of 384 x 384 numbers for the best expert and the open block:
  memory, not arithmetic, is the limit. Learning a row that was just predicted reuses them. The
  worst call closes the blocks of all experts.
- **The first 2,048 rows** are learned by about sixteen experts, which restart and learn all rows so
  far again at every stage; at row 2,048 the metric of the local experts is found."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep the table as a page")
    options = parser.parse_args()
    rate, load = dgemm_rate() / 1e9, os.getloadavg()[0]
    parts = ["# What a call costs", INTRO.format(calls=CALLS, rate=rate, load=load)]
    for title, labels in (("Numbers", False), ("Labels", True)):
        rows = table(measure(labels))
        print(title)
        for cells in [COLUMNS, *rows]:
            print(f"{cells[0]:<45}" + "".join(f"{cell:>12}" for cell in cells[1:]), flush=True)
        parts += [f"## {title}", *results.table(COLUMNS, rows, left=1)]
    if options.write:
        results.keep_page("calls", [*parts, *NOTES.split("\n\n")])


if __name__ == "__main__":
    main()
