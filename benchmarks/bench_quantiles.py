"""Quantiles by pronk and by LightGBM's quantile objective: pinball loss, interval score, coverage.

    python benchmarks/bench_quantiles.py                 print the tables
    python benchmarks/bench_quantiles.py --rows 2000     of shorter streams

The first three methods have the default learner's predictions, made before each target was used;
LightGBM is retrained every 500 rows on all rows before. Needs PRONK_DATA; the column of LightGBM is
left out where it is not installed (`pip install lightgbm`).
"""

from __future__ import annotations

import argparse
import importlib.util
import time

from measure import dgemm_rate  # noqa: F401  first: it bounds the threads

import numpy as np  # isort: skip
import pronk  # isort: skip
from field import sets  # isort: skip
from pronk.aggregate import calibration  # isort: skip
from pronk.evaluate.metrics import STATISTICS  # isort: skip
from pronk.evaluate.models import Forecast  # isort: skip

SETS = (
    "bike_hour", "flights2001", "casp", "cadata", "powerplant", "abalone", "parkinson", "cpusmall",
)  # fmt: skip
LEVELS = np.array([0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975])
#: Rows that are not scored, and rows between two trainings of LightGBM.
FIRST, EVERY = 500, 500
LIGHTGBM = importlib.util.find_spec("lightgbm") is not None


def default(X, y):
    """Return predictions, error scales and quantiles of the default learner."""
    scales, learn = [], calibration.Quantiles.learn

    def recorded(self, P, own, Y, *others):
        scales.append(own[:, 0].copy())
        return learn(self, P, own, Y, *others)

    calibration.Quantiles.learn = recorded
    try:
        model = pronk.OnlineKernelRegressor(random_state=0)
        P, found = model.predict_then_learn(X, y, quantiles=LEVELS)
    finally:
        calibration.Quantiles.learn = learn
    return P, np.concatenate([np.ones(len(y) - sum(map(len, scales))), *scales]), found


def symmetric(P, y, scales):
    """Return p -+ half-widths that follow the misses: intervals without a side."""
    r, coverages = np.abs(y - P) / scales, np.abs(2.0 * LEVELS - 1.0)
    a = np.abs(np.interp(LEVELS, calibration.LEVELS, calibration.NORMAL))
    b, edges, found = np.zeros((5, len(a))), np.zeros(4), np.empty((len(y), len(a)))
    sums, keep = np.zeros((2, 2)), 1.0 - 1.0 / np.array(calibration.ERROR_WINDOWS)
    size = np.inf
    for t, error in enumerate(r):
        group = int(np.sum(P[t] > edges))
        order = np.argsort(coverages, kind="stable")
        half = np.empty(len(a))
        half[order] = np.maximum.accumulate(np.maximum(a + b[group], 0.0)[order])
        found[t] = P[t] + np.sign(LEVELS - 0.5) * half * scales[t]
        sums = keep[:, None] * sums + [min(error, 5.0 * size) ** 2, 1.0]
        size = float(np.sqrt(sums[:, 0] / sums[:, 1]).max()) or np.inf
        rate = max(0.03, (t + 2.0) ** -0.5) * (size if np.isfinite(size) else 0.0)
        step = rate * ((error > half) - (1.0 - coverages))
        a, b[group] = a + step, b[group] + 1.5 * step
        if t < 64 or (t + 1) % 64 == 0:
            recent = np.sort(P[max(0, t - 999) : t + 1])
            edges = recent[[k * len(recent) // 5 for k in (1, 2, 3, 4)]]
    return found


def last_errors(P, y):
    """Return quantiles of the errors of the last 500 rows around each prediction."""
    found = np.full((len(y), len(LEVELS)), np.nan)
    for t in range(20, len(y)):
        rows = slice(max(0, t - 500), t)
        found[t] = P[t] + np.quantile(y[rows] - P[rows], LEVELS)
    return found


def boosted(X, y):
    """Return quantiles of LightGBM, one model per level, sorted where they cross."""
    from lightgbm import LGBMRegressor

    found = np.full((len(y), len(LEVELS)), np.nan)
    for start in range(EVERY, len(y), EVERY):
        rows = slice(start, start + EVERY)
        for k, level in enumerate(LEVELS):
            model = LGBMRegressor(
                objective="quantile", alpha=level, n_jobs=1, verbose=-1, random_state=0
            )
            found[rows, k] = model.fit(X[:start], y[:start]).predict(X[rows])
    return np.sort(found, axis=1)


def scored(found, y):
    """Return CRPS, 90 % interval score and coverage of 90 % and by fifths, in deviations of y."""
    y, found = y[FIRST:], found[FIRST:]
    ends = found[:, np.searchsorted(LEVELS, [0.05, 0.95])]
    forecast = Forecast(found[:, 4], None, None, ends, 0.9, found, LEVELS)
    figures = []
    for name in ("pinball", "crps", "interval_score"):
        score = STATISTICS[name].running()
        score.add(y, forecast)
        figures.append(score.value() / y.std())
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    fifths = [part.mean() for part in np.array_split(inside, 5)]
    off = np.abs((y[:, None] <= found).mean(axis=0) - LEVELS).max()
    return *figures, inside.mean(), min(fifths), max(fifths), off


OURS = "pronk"


def measure(rows):
    """Yield set, method, scores and seconds."""
    for name in SETS:
        data = sets.read(name, rows=rows)
        begun = time.process_time()
        P, scales, found = default(data.X, data.y)
        yield name, OURS, scored(found, data.y), time.process_time() - begun
        yield name, "pronk, symmetric", scored(symmetric(P, data.y, scales), data.y), np.nan
        yield name, "last 500 errors", scored(last_errors(P, data.y), data.y), np.nan
        if LIGHTGBM:
            begun = time.process_time()
            own = scored(boosted(data.X, data.y), data.y)
            yield name, "LightGBM, retrained", own, time.process_time() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=5000, help="rows of each set")
    options = parser.parse_args()
    cases = {}
    head = ("set", "quantiles", "pinball", "CRPS", "score 90%", "coverage", "fifths", "off", "s")
    line = "{:12} {:20} {:>8} {:>8} {:>10} {:>9} {:>12} {:>6} {:>7}".format
    print(line(*head))
    for name, method, scores, seconds in measure(options.rows):
        pinball, crps, interval, share, low, high, off = scores
        print(line(
            name, method, f"{pinball:.4f}", f"{crps:.4f}", f"{interval:.3f}", f"{share:.3f}",
            f"{low:.2f} .. {high:.2f}", f"{off:.3f}", f"{seconds:.1f}",
        ), flush=True)  # fmt: skip
        cases.setdefault(method, {})[name] = scores
    print("\nGeometric means over the sets, relative to pronk; coverage of 90 % by fifths.\n")
    print("| quantiles | pinball loss | CRPS | 90 % score | coverage | of fifths | most off |")
    print("|:--|--:|--:|--:|--:|--:|--:|")
    for method, found in cases.items():
        table = np.array(list(found.values()))
        ours = np.array([cases[OURS][name] for name in found])
        ratios = np.exp(np.log(table[:, :3] / ours[:, :3]).mean(axis=0))
        cells = " | ".join(f"{ratio:.3f}" for ratio in ratios)
        ends = f"{table[:, 4].min():.2f} .. {table[:, 5].max():.2f}"
        off = f"{table[:, 6].max():.3f}"
        print(f"| {method} | {cells} | {table[:, 3].mean():.3f} | {ends} | {off} |")


if __name__ == "__main__":
    main()
