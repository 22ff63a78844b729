"""Time calls of the default learner, with 500 points on one thread, and river's forests.

    python benchmarks/bench_calls.py                 print the table
    python benchmarks/bench_calls.py --write         and write docs/results/calls.json

All calls are measured in turns of a few rows, and in rounds, so that other load on the machine
affects all of them. A figure is the least CPU time of a turn; for blocks and the first rows, which
take longer than a turn, it is the least of a few passes.
"""

from __future__ import annotations

import argparse
import copy
import time

from measure import dgemm_rate  # first: it bounds the threads

import numpy as np  # isort: skip
from river import forest  # isort: skip
import pronk  # isort: skip
from field import results  # isort: skip
from pronk.compat.river import wrap  # isort: skip

#: Rows before the first figure of late rows: experts sleep for the last time at row 16,384.
LATE = 16_640
#: Rows that the forests learn first, rows of a turn, turns of a work before the next, and rounds.
WARM, TURN, TURNS, ROUNDS = 1500, 64, 6, 4
GOALS = {
    "first 2,048 rows": 200,
    "blocks of 256, after row 16,384": 80,
    "one row: predict_then_learn": 300,
    "one row: predict": 100,
    "predict_one + learn_one through river": 450,
}


def stream(n, labels):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, 10))
    y = np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(n)
    return X, (y > 0).astype(int) if labels else y


class Turns:
    """Calls with a row number as argument, measured in turns; no row is used twice."""

    def __init__(self, first):
        self.row, self.works, self.least = first, {}, {}

    def add(self, name, work):
        self.works[name], self.least[name] = work, np.inf

    def run(self, rounds, turns):
        for work, name in [(w, n) for _ in range(rounds) for n, w in self.works.items()]:
            for _ in range(turns):
                start = time.process_time()
                for i in range(self.row, self.row + TURN):
                    work(i)
                used = (time.process_time() - start) / TURN
                self.least[name] = min(self.least[name], used)
                self.row += TURN


def measure(labels):
    """Return microseconds per row of every call, by name."""
    kind = pronk.OnlineKernelClassifier if labels else pronk.OnlineKernelRegressor
    turns = Turns(LATE + 4096)
    X, y = stream(turns.row + 5 * TURN * TURNS * ROUNDS, labels)
    names = [f"x{j}" for j in range(X.shape[1])]
    dicts = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    targets = [bool(v) for v in y] if labels else y.tolist()
    kind(random_state=0).partial_fit(X[:2600], y[:2600])  # compiles
    figures = dict.fromkeys(GOALS, np.inf)
    for _ in range(4):
        start = time.process_time()
        kind(random_state=0).predict_then_learn(X[:2048], y[:2048])
        used = (time.process_time() - start) / 2048
        figures["first 2,048 rows"] = min(figures["first 2,048 rows"], used)
    learner = kind(random_state=0).partial_fit(X[:LATE], y[:LATE])
    for i in range(LATE, LATE + 4096, 512):
        start = time.process_time()
        for j in (i, i + 256):
            learner.predict_then_learn(X[j : j + 256], y[j : j + 256])
        used, name = (time.process_time() - start) / 512, "blocks of 256, after row 16,384"
        figures[name] = min(figures[name], used)
    wrapped = wrap(kind(random_state=0), features=names)
    wrapped._learner, wrapped._columns = copy.deepcopy(learner), wrapped._columns.with_names(names)
    forests = {
        "AMF": forest.AMFClassifier(seed=0) if labels else forest.AMFRegressor(seed=0),
        "ARF": forest.ARFClassifier(seed=0) if labels else forest.ARFRegressor(seed=0),
    }
    for model in forests.values():
        for i in range(WARM):
            model.learn_one(dicts[i], targets[i])

    def row_by_row(model):
        def work(i):
            model.predict_one(dicts[i])
            model.learn_one(dicts[i], targets[i])

        return work

    turns.add(
        "one row: predict_then_learn",
        lambda i: learner.predict_then_learn(X[i : i + 1], y[i : i + 1]),
    )
    turns.add("one row: predict", lambda i: learner.predict(X[i : i + 1]))
    turns.add("predict_one + learn_one through river", row_by_row(wrapped))
    for name, model in forests.items():
        turns.add(name, row_by_row(model))
    turns.run(ROUNDS, TURNS)
    return {name: 1e6 * used for name, used in {**figures, **turns.least}.items()}


def table(numbers, labels):
    """Return rows of cells: call, goal, and for each task the time and ratios to the forests."""
    rows = []
    for name in [*GOALS, "AMF", "ARF"]:
        shown = f"river's {name}, predict_one + learn_one" if name not in GOALS else name
        cells = [shown, str(GOALS.get(name, ""))]
        for figures in (numbers, labels):
            cells.append(f"{figures[name]:.0f}")
            cells += [f"{figures[name] / figures[other]:.2f}" for other in ("AMF", "ARF")]
        rows.append(cells)
    return rows


COLUMNS = ["call", "goal", "numbers", "/ AMF", "/ ARF", "labels", "/ AMF", "/ ARF"]
INTRO = """\
The default learner with 500 points on 10 columns, one thread: microseconds of CPU time per row, and
the ratio to river's forests (10 trees, default parameters) on the same rows in the same run.
Figures are the minimum of many short turns, in which all calls alternate. Written by
`python benchmarks/bench_calls.py --write`; a matrix product then made {rate:.0f} Gflop/s."""

NOTES = """What limits them:

- **Blocks.** After row 16,384 three experts hold 500 points. A row costs each of them about a
  million flops: kernel features, a triangular solve, the products of a block's rows, sums and the
  new factor. Triangular solves and factors of this size run at half to two thirds of the rate of a
  matrix product.
- **One row** reads two triangles of 500 x 500 numbers per expert, a megabyte each, and the open
  block: memory, not arithmetic, is the limit. Learning a row that was just predicted reuses them.
- **The first 2,048 rows** are learned by about twenty experts, which restart and learn all rows so
  far again at every stage. Halving the experts at row 512 made ijcnn1 8 % and casp 2 % worse at row
  5,000; three quarters of the points made bike_hour 5 % worse at row 2,048.
- **Fewer points for the second and third expert** after row 16,384: with 350 (250) of the 500
  points, 50,000 rows of casp take 21 % (28 %) less time, but errors rise by 7 % (20 %) on ijcnn1,
  0.9 % (1.2 %) on covtype and 0.7 % (1.2 %) on casp. Dropping the experts that the combination
  needs least saved a tenth of the time at rows 4,096 to 16,384, and at row 2,048 made bike_hour a
  quarter worse."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep the table as a page")
    options = parser.parse_args()
    rate = dgemm_rate() / 1e9
    rows = table(measure(labels=False), measure(labels=True))
    for cells in [COLUMNS, *rows]:
        print(f"{cells[0]:<40}" + "".join(f"{cell:>9}" for cell in cells[1:]))
    if options.write:
        parts = ["# What a call costs", INTRO.format(rate=rate)]
        parts += [*results.table(COLUMNS, rows, left=1), *NOTES.split("\n\n")]
        results.keep_page("calls", parts)


if __name__ == "__main__":
    main()
