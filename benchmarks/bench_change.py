"""Errors of the default learner after abrupt changes, beside a learner that starts at the change.

    python benchmarks/bench_change.py                    print the tables
    python benchmarks/bench_change.py --write            and keep them as docs/results/change.json
    python benchmarks/bench_change.py --only labels      some streams, without the sets

Needs river and LightGBM, and PRONK_DATA for the sets.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from itertools import pairwise
from unittest.mock import patch

from measure import dgemm_rate  # noqa: F401  first: it bounds the threads

import numpy as np  # isort: skip
from lightgbm import LGBMClassifier, LGBMRegressor  # isort: skip
from river import forest  # isort: skip
import pronk  # isort: skip
from field import results, sets  # isort: skip
from pronk.aggregate import recovery  # isort: skip

BEFORE, AFTER, BLOCK = 20_000, 10_000, 1024
#: Rows that the peers learn before and after the change: river takes milliseconds per row.
SHORT_BEFORE, SHORT_AFTER = 4000, 5000
#: Rows since the change over which errors are averaged.
EDGES = 0, 100, 300, 1000, 2000, 4000, 5000, 10_000
SPANS = tuple(pairwise(EDGES))
#: Rows of the window of LightGBM, and rows between two fits.
WINDOW, REFIT = 2000, 250


def waves(seed):
    """Return a sum of eight plane waves in four columns, of variance about 1."""
    rng = np.random.default_rng(seed)
    W, phases = 1.5 * rng.normal(size=(4, 8)), rng.uniform(0, 2 * np.pi, 8)
    sizes = rng.normal(size=8) / 2
    return lambda X: (sizes * np.cos(X @ W + phases)).sum(axis=1)


def stream(name):
    """Return rows, targets and whether these are labels."""
    rng = np.random.default_rng([0, 7])
    rows = BEFORE + AFTER
    X, noise = rng.uniform(-1, 1, (rows, 4)), 0.1 * rng.normal(size=rows)
    first, second, late = waves(1), waves(2), np.arange(rows) >= BEFORE
    y = first(X) + noise
    if name == "function":
        y = np.where(late, second(X), first(X)) + noise
    elif name == "half of it":
        y += 0.5 * late * second(X)
    elif name == "units of x":
        X = np.where(late[:, None], 1000 * X + 5000, X)
    elif name == "one column":
        X = 10 * X + 15
        X[:, 0] = np.where(late, 1.8 * X[:, 0] + 32, X[:, 0])
    elif name == "level of y":
        y += 1000 * late
    elif name == "scale of y":
        y *= np.where(late, 1e5, 1.0)
    elif name == "noise":
        y = first(X) + np.where(late, 5.0, 1.0) * noise
    elif name == "labels":
        return X, np.where(late, second(X), first(X)) > 0, True
    elif name == "meaning of labels":
        classes = np.digitize(first(X), [-0.5, 0.5])
        return X, np.where(late, (classes + 1) % 3, classes), True
    return X, y, False


STREAMS = {
    "function": "y is another function of x",
    "half of it": "half of that function is added",
    "units of x": "all columns x become 1000 x + 5000",
    "one column": "one column changes from Celsius to Fahrenheit",
    "level of y": "y becomes y + 1000",
    "scale of y": "y becomes 100,000 y",
    "noise": "the noise becomes five times as large; nothing to learn again",
    "labels": "two classes by the sign of the function, which changes",
    "meaning of labels": "three classes, each of which gets the name of the next",
}
#: Rows of a period in which one of two functions holds, and number of periods.
PERIOD, PERIODS = 5000, 6
#: Sets in the order of time, and without a change.
SETS = ("bike_hour", "elec2", "cadata", "casp")


def losses(P, y, labels):
    return np.not_equal(P, y).astype(float) if labels else (P - y) ** 2


def ours(X, y, labels):
    """Return losses, CPU seconds and the model of a pass of the default learner."""
    kind = pronk.OnlineKernelClassifier if labels else pronk.OnlineKernelRegressor
    model, found, begun = kind(random_state=0), [], time.process_time()
    for i in range(0, len(y), BLOCK):
        P = model.predict_then_learn(X[i : i + BLOCK], y[i : i + BLOCK])
        found += [y[0] if p is None else p for p in P.tolist()]
    return losses(np.array(found), y, labels), time.process_time() - begun, model


def without(X, y, labels):
    """Return losses and CPU seconds without challengers."""
    with patch.object(recovery, "LEAST_ROWS", 10**12):
        return ours(X, y, labels)[:2]


def adaptive_forest(X, y, labels):
    """Return losses of river's adaptive random forest."""
    model = forest.ARFClassifier(seed=0) if labels else forest.ARFRegressor(seed=0)
    found = []
    for x, target in zip(X.tolist(), y.tolist(), strict=True):
        row = dict(enumerate(x))
        p = model.predict_one(row)
        found.append(y[0] if p is None else p)
        model.learn_one(row, target)
    return losses(np.array(found), y, labels)


def windowed_boosting(X, y, labels):
    """Return losses of LightGBM, fitted again every 250 rows on the last 2,000."""
    kind, found, model = LGBMClassifier if labels else LGBMRegressor, np.empty(len(y)), None
    held: deque = deque(maxlen=WINDOW)
    for i in range(0, len(y), REFIT):
        rows = slice(i, i + REFIT)
        P = np.full(len(y[rows]), y[0]) if model is None else model.predict(X[rows])
        found[rows] = losses(P, y[rows], labels)
        held.extend(range(i, min(i + REFIT, len(y))))
        model = kind(verbose=-1, num_threads=1).fit(X[list(held)], y[list(held)])
    return found


def curve(found, unit):
    """Return mean losses by spans of rows since the change, in units of the noise or in %."""
    return [f"{found[a:b].mean() / unit:.3g}" if b <= len(found) else "" for a, b in SPANS]


def after_change(name):
    """Return a table of the errors after a change, and a line about what the learner did."""
    X, y, labels = stream(name)
    unit = 0.01 if labels else 0.01 * (1e10 if name == "scale of y" else 1.0)
    found, _, model = ours(X, y, labels)
    rows = [["default learner", *curve(found[BEFORE:], unit)]]
    rows.append(["without recovery", *curve(without(X, y, labels)[0][BEFORE:], unit)])
    late = X[BEFORE:], y[BEFORE:], labels
    rows.append(["started at the change", *curve(ours(*late)[0], unit)])
    short = slice(BEFORE - SHORT_BEFORE, BEFORE + SHORT_AFTER)
    for peer, run in (
        ("river's ARF", adaptive_forest),
        ("LightGBM, last 2,000 rows", windowed_boosting),
    ):
        rows.append([peer, *curve(run(X[short], y[short], labels)[SHORT_BEFORE:], unit)])
    return rows, [(change["row"] - BEFORE, change["outcome"], change["end"] - BEFORE)
                  for change in model.changes_ if change["end"]]  # fmt: skip


def taking_turns():
    """Return a table of errors after the changes between two functions that take turns."""
    rng = np.random.default_rng(7)
    rows = PERIOD * PERIODS
    X, turn = rng.uniform(-1, 1, (rows, 4)), np.arange(rows) // PERIOD % 2 == 1
    score = np.where(turn, waves(2)(X), waves(1)(X))
    noise, table = 0.1 * rng.normal(size=rows), []
    for title, y, labels in (("function", score + noise, False), ("labels", score > 0, True)):
        unit = 0.01
        for name, keeps in (("default learner", True), ("none is kept", False)):
            with patch.object(recovery, "KEEPS", keeps):
                found = ours(X, y, labels)[0].reshape(PERIODS, PERIOD)
            shown = [f"{part[:500].mean() / unit:.3g}" for part in found]
            table.append([f"{title}: {name}", *shown])
    return table


def on_set(name):
    """Return the row of a set: errors with and without recovery, time, and what happened."""
    if name == "stationary":
        X, y, labels = stream(name)
    else:
        data = sets.read(name)
        X, y, labels = data.X, data.y, data.labels
    one, seconds, model = ours(X, y, labels)
    two, alone = without(X, y, labels)
    unit = 0.01 if labels else np.var(y)
    tenth = slice(-len(y) // 10, None)
    counts = model.change_counts_
    return [
        name, f"{len(y):,}", f"{two.mean() / unit:.4g}", f"{one.mean() / unit:.4g}",
        f"{two[tenth].mean() / unit:.4g}", f"{one[tenth].mean() / unit:.4g}",
        f"{seconds / alone:.2f}", str(counts["trials"]), str(counts["swaps"]),
    ]  # fmt: skip


HEADER = ["rows since the change", *(f"{a:,} to {b:,}" for a, b in SPANS)]
SET_HEADER = [
    "set", "rows", "error, without", "error, with", "last tenth, without", "last tenth, with",
    "time", "trials", "swaps",
]  # fmt: skip
INTRO = f"""\
What the default learner does [when the stream changes](../howto/change.md): {BEFORE:,} rows of one
stream, then {AFTER:,} of another. Four uniform columns; y is a sum of waves, of variance about 1,
plus noise of variance 0.01. Mean squared errors are in units of the noise's variance (1 is the
best possible), errors of labels in %. *Without recovery* is the same learner without challengers.
river's `ARFRegressor` or `ARFClassifier`, and LightGBM, fitted every {REFIT} rows on the last
{WINDOW:,}, have their default parameters and learned {SHORT_BEFORE:,} rows before the change.
Written by
`python benchmarks/bench_change.py --write`."""
TURNS_INTRO = f"""\
Two functions (and the labels by their signs) take turns every {PERIOD:,} rows. The mean error of
the first 500 rows of each period, in units of the noise's variance, or % of labels: from the third
period on a learner that was replaced returns; *none is kept*: without that."""
SETS_INTRO = """\
Real sets, in the order of time (bike_hour, elec2) or shuffled, and a stationary stream. Errors are
mean squared errors over the variance of y, or % of labels, over all rows and over the last tenth,
without and with recovery. The time is CPU time relative to that without recovery, on a shared
machine, so a difference of less than a tenth means little."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep the tables as a page")
    parser.add_argument("--only", nargs="+", choices=STREAMS, help="some streams, without the sets")
    options = parser.parse_args()
    parts = ["# After a change", INTRO]
    for name, text in STREAMS.items():
        if options.only is None or name in options.only:
            rows, events = after_change(name)
            told = [f"alarm after {a + 1} rows, {outcome} after {b:,}" for a, outcome, b in events]
            heading = f"{name[0].upper()}{name[1:]}: {text}"
            print(heading, *rows, told, sep="\n", flush=True)
            parts += [f"## {heading}", "; ".join(told).capitalize() + "." if told else "No alarm."]
            parts += results.table(HEADER, rows, left=1)
    if options.only is None:
        rows = taking_turns()
        print(*rows, sep="\n", flush=True)
        header = ["first 500 rows of period", *map(str, range(1, PERIODS + 1))]
        parts += ["## Two functions that take turns", TURNS_INTRO]
        parts += results.table(header, rows, left=1)
        rows = []
        for name in (*SETS, "stationary"):
            rows.append(on_set(name))
            print(*rows[-1], flush=True)
        parts += ["## Sets", SETS_INTRO, *results.table(SET_HEADER, rows, left=1)]
    if options.write:
        results.keep_page("change", parts)


if __name__ == "__main__":
    main()
