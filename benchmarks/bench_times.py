"""The default learner with windows that count time, beside windows that count rows.

    python benchmarks/bench_times.py               print the table
    python benchmarks/bench_times.py --only rate   some streams

Generated streams drift with time, and their rows come irregularly. The real ones are streams of
PRONK_DATA whose rows are not evenly spaced; times are made from their calendar columns. "thinned"
is half-hourly demand of which every other fortnight has only every twelfth row.
"""

from __future__ import annotations

import argparse

from measure import dgemm_rate  # noqa: F401  first: it bounds the threads

import numpy as np  # isort: skip
import pronk  # isort: skip
from field import sets  # isort: skip

ROWS, SEEDS, FIRST = 12_000, 3, 500
MOST = 25_000
DAY = 86_400.0
#: Columns of a real stream that tell the time, with their units in seconds; the first is the day of
#: the week.
CALENDARS = {
    "metro_traffic": {8: DAY, 9: 3600.0},
    "pm25_beijing": {8: DAY, 9: 3600.0},
    "occupancy": {5: DAY, 6: 3600.0, 7: 60.0},
    "airlines": {4: DAY, 5: 60.0},
    "obd_click": {14: DAY, 15: 3600.0},
}
GENERATED = ("bursts", "nights", "pauses", "rate")


def generated(name, seed):
    """Return rows, targets, and times at which rows come; the function turns with the clock."""
    rng = np.random.default_rng([seed, GENERATED.index(name)])
    if name == "bursts":  # 8 hours per day, most rows in bursts
        opened = np.cumsum(rng.exponential(60.0, ROWS) * np.where(rng.random(ROWS) < 0.1, 6.0, 0.2))
        times = opened + 16 * 3600 * (opened // (8 * 3600))
    elif name == "nights":  # 8 hours per day
        opened = np.cumsum(rng.exponential(60.0, ROWS))
        times = opened + 16 * 3600 * (opened // (8 * 3600))
    elif name == "pauses":  # a pause of 3,000 rows after 300 rows on average
        times = np.cumsum(np.where(rng.random(ROWS) < 1 / 300, 3000.0, 1.0))
    else:  # rows become 30 times as frequent and less frequent again
        times = np.cumsum(np.exp(1.7 * np.sin(2 * np.pi * np.arange(ROWS) / 4000)))
    X = rng.uniform(-1, 1, (ROWS, 3))
    turn = 2 * np.pi * times / (times[-1] / 15)
    y = np.sin(3 * X[:, 0] + turn) + X[:, 1] * np.cos(turn) + 0.1 * rng.normal(size=ROWS)
    return X, y, times


def real(name):
    """Return rows, targets and times of a real stream; gaps of more than a week are shorter."""
    X, y = sets.columns(name, "streams")
    X, y = X[:MOST].astype(np.float64), y[:MOST]
    clock = sum(unit * X[:, column] for column, unit in CALENDARS[name].items())
    gaps = np.diff(clock) % (7 * DAY)
    return X, y, np.concatenate(([0.0], np.cumsum(gaps)))


def thinned():
    """Return half-hourly demand of taxis, of every other fortnight only every twelfth row."""
    X, y = sets.columns("nab_nyc_taxi", "streams")
    rows = np.arange(len(y))
    kept = (rows // 672 % 2 == 0) | (rows % 12 == 0)
    return X[kept].astype(np.float64), y[kept], 1800.0 * rows[kept]


def error(X, y, times=None):
    """Return the error of a pass without its first rows: share of the variance, or of labels."""
    given = {} if times is None else {"times": times}
    if y.dtype.kind == "f":
        y = y.astype(np.float64)
        P = pronk.OnlineKernelRegressor(random_state=0).predict_then_learn(X, y, **given)
        return float(np.mean((P - y)[FIRST:] ** 2) / np.var(y[FIRST:]))
    P = pronk.OnlineKernelClassifier(random_state=0).predict_then_learn(X, y, **given)
    return float(np.mean(P[FIRST:] != y[FIRST:]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = (*GENERATED, "thinned", *CALENDARS)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    print(
        "| stream | rows | windows of rows | of time | ratio |\n|:--|--:|--:|--:|--:|", flush=True
    )
    for name in parser.parse_args().only:
        made = [generated(name, seed) for seed in range(SEEDS)] if name in GENERATED else []
        streams = made or [thinned() if name == "thinned" else real(name)]
        rows = np.mean([error(X, y) for X, y, _ in streams])
        time = np.mean([error(*stream) for stream in streams])
        count = f"{len(streams[0][1]):,}"
        print(f"| {name} | {count} | {rows:.4f} | {time:.4f} | {time / rows:.3f} |", flush=True)


if __name__ == "__main__":
    main()
