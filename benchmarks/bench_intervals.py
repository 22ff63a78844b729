"""Intervals around one model by pronk, river and MAPIE: width, Winkler score, coverage by fifths.

    python benchmarks/bench_intervals.py                 print the table
    python benchmarks/bench_intervals.py --write         and keep it as docs/results/intervals.json

All methods get the same predictions, made before each target was used. Needs PRONK_DATA and river;
rows of MAPIE are left out where it is not installed (`pip install mapie`).
"""

from __future__ import annotations

import argparse
import importlib.util
import time

from measure import dgemm_rate  # noqa: F401  first: it bounds the threads

import numpy as np  # isort: skip
from river import base, conf, forest, linear_model, preprocessing  # isort: skip
from sklearn.base import BaseEstimator, RegressorMixin  # isort: skip
import pronk  # isort: skip
from field import results, sets  # isort: skip

ROWS, COVERAGE = 5000, 0.9
#: Rows that are not scored; MAPIE is calibrated on them.
FIRST = 500
SETS = ("bike_hour", "flights2001", "cadata", "casp", "powerplant")
MODELS = {
    "linear": lambda: preprocessing.MinMaxScaler() | linear_model.LinearRegression(),
    "forest": lambda: forest.ARFRegressor(seed=0),
}


class GivenRiver(base.Regressor):
    """A river model that predicts what it is given."""

    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        return x["p"]


class GivenRow(RegressorMixin, BaseEstimator):
    """A scikit-learn model that predicts what it is given; it counts as fitted."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.asarray(X)[:, 0]


def jackknife(P, y, window=None):
    """river's RegressionJackknife, over all errors so far or over a window."""
    model = conf.RegressionJackknife(GivenRiver(), COVERAGE, window)
    ends = np.empty((len(y), 2))
    for i, (p, target) in enumerate(zip(P.tolist(), y.tolist(), strict=True)):
        found = model.predict_one({"p": p}, with_interval=True)
        ends[i] = found.lower, found.upper
        model.learn_one({"p": p}, target)
    return ends


def unchecked_score():
    """Return MAPIE's absolute errors, without a check that fails for very large predictions."""
    from mapie.conformity_scores import AbsoluteConformityScore

    score = AbsoluteConformityScore()
    score.consistency_check = False
    return score


def mapie_split(P, y):
    """MAPIE's SplitConformalRegressor, calibrated on the first rows, then left as it is."""
    from mapie.regression import SplitConformalRegressor

    X, ends = P[:, None], np.full((len(y), 2), np.nan)
    model = SplitConformalRegressor(
        GivenRow().fit(X, y), COVERAGE, conformity_score=unchecked_score(), prefit=True
    )
    model.conformalize(X[:FIRST], y[:FIRST])
    ends[FIRST:] = model.predict_interval(X[FIRST:])[1][:, :, 0]
    return ends


def mapie_online(P, y, gamma=0.0):
    """MAPIE's TimeSeriesRegressor, whose scores, those of the last rows, are updated by each row.

    With a positive ``gamma`` the level is adapted too (adaptive conformal inference).
    """
    from mapie.regression import TimeSeriesRegressor

    X, ends = P[:, None], np.full((len(y), 2), np.nan)
    model = TimeSeriesRegressor(
        GivenRow().fit(X, y), method="aci", cv="prefit", conformity_score=unchecked_score()
    )
    model.fit(X[:FIRST], y[:FIRST])
    options = {"confidence_level": COVERAGE}
    for i in range(FIRST, len(y)):
        row = slice(i, i + 1)
        ends[i] = model.predict(X[row], allow_infinite_bounds=True, **options)[1][0, :, 0]
        if gamma:
            model.adapt_conformal_inference(X[row], y[row], gamma=gamma, **options)
        model.update(X[row], y[row])
    # An infinite end becomes the largest error of the rows before.
    reach = np.maximum.accumulate(np.abs(y - P))
    reach = np.concatenate((reach[:1], reach[:-1]))[:, None]
    return np.clip(ends, P[:, None] - reach, P[:, None] + reach)


OURS = "pronk.Intervals"
METHODS = {
    "river, all errors": jackknife,
    "river, window": lambda P, y: jackknife(P, y, FIRST),
    "MAPIE, split": mapie_split,
    "MAPIE, window": mapie_online,
    "MAPIE, adaptive": lambda P, y: mapie_online(P, y, 0.005),
}


def scored(ends, y):
    """Return mean width and Winkler score over the deviation of y, and coverage by fifths."""
    (low, high), target = ends[FIRST:].T, y[FIRST:]
    outside = np.maximum(low - target, 0.0) + np.maximum(target - high, 0.0)
    winkler = (high - low) + 2.0 / (1.0 - COVERAGE) * outside
    covered = np.array_split((low <= target) & (target <= high), 5)
    unit = target.std()
    return (high - low).mean() / unit, winkler.mean() / unit, [part.mean() for part in covered]


def measure():
    """Yield the set, the model, the method and its scores."""
    mapie = importlib.util.find_spec("mapie") is not None
    for name in SETS:
        data = sets.read(name, rows=ROWS)
        for model, make in MODELS.items():
            P, ends = pronk.Intervals(make()).predict_then_learn(data.X, data.y, interval=COVERAGE)
            yield name, model, OURS, scored(ends, data.y)
            for method, run in METHODS.items():
                if mapie or "MAPIE" not in method:
                    yield name, model, method, scored(run(P, data.y), data.y)


def overhead():
    """Return microseconds per row that `Intervals` adds to a model, in blocks and one at a time."""
    X = np.random.default_rng(0).normal(size=(4000, 8))
    y = X[:, 0] + np.random.default_rng(1).normal(size=4000)

    class Given(GivenRow):
        def partial_fit(self, X, y):
            return self

        def predict_then_learn(self, X, y):
            return X[:, 0]

    model, blocks, one = pronk.Intervals(Given()), [], []
    model.partial_fit(X[:1000], y[:1000])
    for start in range(1000, 4000, 500):
        begun = time.process_time()
        model.partial_fit(X[start : start + 300], y[start : start + 300])
        middle = time.process_time()
        for i in range(start + 300, start + 500):
            model.predict_then_learn(X[i : i + 1], y[i : i + 1], interval=COVERAGE)
        blocks.append((middle - begun) / 300)
        one.append((time.process_time() - middle) / 200)
    return 1e6 * min(blocks), 1e6 * min(one)


COLUMNS = ["set", "model", "intervals", "width", "Winkler", "coverage", "by fifths of the stream"]
SUMMARY = ["intervals", "Winkler score / pronk's", "best score", "coverage of fifths"]
INTRO = f"""\
{100 * COVERAGE:.0f} % intervals around two models of river with default parameters, a linear one
(`MinMaxScaler | LinearRegression`) and a forest (`ARFRegressor`), on the first {ROWS:,} rows of
five sets: `bike_hour` and `flights2001` in the order of time, the others shuffled. All methods get
the same predictions, made before each target was used. Figures are over the rows after the first
{FIRST}. Written by `python benchmarks/bench_intervals.py --write`."""

NOTES = f"""\
The Winkler score is the width, plus {2 / (1 - COVERAGE):.0f} times the distance by which y is
missed; smaller is better. The first column is the geometric mean over the ten cases. Coverage
should be {COVERAGE} in every fifth of the stream.

- **`pronk.Intervals`** needs no window and no rows for calibration, and is narrow where the noise
  depends on the row (cadata, powerplant). Its ends are quantiles, asymmetric where errors are.
- **river, window** is `RegressionJackknife(model, {COVERAGE}, {FIRST})`: quantiles of the signed
  errors of the last {FIRST} rows, so all rows have the same width at a time. **river, all errors**
  is its default; the estimated quantiles are lost after some very large errors of the forest.
- **MAPIE, split** is `SplitConformalRegressor`, calibrated once on the first {FIRST} rows; it is
  made for models that do not learn on. **MAPIE, window** is `TimeSeriesRegressor`, whose absolute
  errors of the last {FIRST} rows are updated after every row; **MAPIE, adaptive** also adapts the
  level (gamma 0.005). An infinite end counts as the largest error before.
- `pronk.Intervals` adds {{blocks:.0f}} microseconds of CPU time per row in blocks of 300, and
  {{one:.0f}} one row at a time (8 columns, one output, one thread)."""


def number(value):
    return f"{value:.2f}" if value < 100 else "> 100"


def summary(cases):
    """Return a row per method from the scores of all cases, by case and method."""
    leaders = [min(found, key=lambda method: found[method][1]) for found in cases.values()]
    rows = []
    for method in next(iter(cases.values())):
        ratios = [found[method][1] / found[OURS][1] for found in cases.values()]
        shares = [share for found in cases.values() for share in found[method][2]]
        mean = np.exp(np.mean(np.log(ratios)))
        best, ends = leaders.count(method), f"{min(shares):.2f} .. {max(shares):.2f}"
        rows.append([method, number(mean), f"{best} of {len(leaders)}", ends])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep the table as a page")
    options = parser.parse_args()
    rows, cases = [], {}
    for name, model, method, scores in measure():
        width, winkler, fifths = scores
        cells = [name, model, method, number(width), number(winkler), f"{np.mean(fifths):.2f}"]
        rows.append([*cells, " ".join(f"{share:.2f}" for share in fifths)])
        cases.setdefault((name, model), {})[method] = scores
        print(" ".join(f"{cell:>22}" for cell in rows[-1]), flush=True)
    for cells in rows:
        found = cases[cells[0], cells[1]]
        if found[cells[2]][1] == min(score for _, score, _ in found.values()):
            cells[4] = f"**{cells[4]}**"
    blocks, one = overhead()
    notes = NOTES.format(blocks=blocks, one=one)
    print(*summary(cases), notes, sep="\n")
    if options.write:
        parts = ["# Intervals around any model", INTRO]
        parts += results.table(SUMMARY, summary(cases), left=1)
        parts += [*notes.split("\n\n"), "## All cases", "Width and score in deviations of y."]
        results.keep_page("intervals", [*parts, *results.table(COLUMNS, rows, left=3)])


if __name__ == "__main__":
    main()
