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


def mapie_adaptive(P, y, gamma=0.005):
    """MAPIE's TimeSeriesRegressor with adaptive conformal inference, updated after each row."""
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
        model.adapt_conformal_inference(X[row], y[row], gamma=gamma, **options)
        model.update(X[row], y[row])
    # An infinite end becomes the largest distance from a prediction to a target so far.
    reach = np.maximum.accumulate(np.abs(y - P))
    return np.clip(ends, (P - reach)[:, None], (P + reach)[:, None])


METHODS = {
    "river, all errors": jackknife,
    "river, window of 500": lambda P, y: jackknife(P, y, 500),
    "MAPIE, split": mapie_split,
    "MAPIE, adaptive": mapie_adaptive,
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
            yield name, model, "pronk.Intervals", scored(ends, data.y)
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
INTRO = f"""\
{100 * COVERAGE:.0f} % intervals around two models of river with default parameters, a linear one
(`MinMaxScaler | LinearRegression`) and a forest (`ARFRegressor`), on the first {ROWS:,} rows of five
sets: `bike_hour` and `flights2001` in the order of time, the others shuffled. All methods get the
same predictions, made before each target was used. Width and Winkler score are means over the rows
after the first {FIRST}, in standard deviations of y. The score is the width, plus
{2 / (1 - COVERAGE):.0f} times the distance by which y is missed; smaller is better, and the best
one of each model is bold. Coverage should be {COVERAGE}, in every fifth of the stream. Written by
`python benchmarks/bench_intervals.py --write`."""


def notes(best, count, blocks, one):
    return [
        f"`pronk.Intervals` has the best Winkler score in {best} of {count} cases, and the coverage "
        "nearest to its level by fifths.",
        "- **river's `RegressionJackknife`** takes quantiles of signed errors, so all rows have the "
        "same width at a time, and an interval may be asymmetric. Over all errors so far, its "
        "estimate of the quantiles is lost after some very large errors, which the forest makes on "
        "casp and cadata. The window of 500 rows is a good choice on these sets; with it, coverage "
        "falls behind where errors change quickly.\n"
        f"- **MAPIE, split** is `SplitConformalRegressor`, calibrated once on the first {FIRST} "
        "rows: it is made for models that do not learn on. **MAPIE, adaptive** is "
        '`TimeSeriesRegressor(method="aci")` with gamma 0.005, whose level and scores (of the '
        f"last {FIRST} rows) are updated after every row. An infinite end counts as the largest error "
        "so far.\n"
        "- **`pronk.Intervals`** adapts the level, and the width to the row. It has no window and no "
        "calibration rows. Quantile tracking moves the width after every row, which costs some "
        "percent of the score on a stationary stream with even noise (casp, linear), and gains where "
        "noise depends on the row (cadata) or on time (bike_hour).\n"
        f"- Added time: {blocks:.0f} microseconds of CPU time per row in blocks of 300, "
        f"{one:.0f} one row at a time (8 columns, one output, one thread).",
    ]


def number(value):
    return f"{value:.2f}" if value < 100 else "> 100"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="keep the table as a page")
    options = parser.parse_args()
    rows, cases = [], {}
    for name, model, method, (width, winkler, fifths) in measure():
        cells = [name, model, method, number(width), number(winkler), f"{np.mean(fifths):.2f}"]
        rows.append([*cells, " ".join(f"{share:.2f}" for share in fifths)])
        cases.setdefault((name, model), {})[method] = winkler
        print("".join(f"{cell:>22}" for cell in rows[-1]), flush=True)
    leaders = {case: min(found, key=found.get) for case, found in cases.items()}
    for cells in rows:
        if leaders[cells[0], cells[1]] == cells[2]:
            cells[4] = f"**{cells[4]}**"
    best = sum(leader == "pronk.Intervals" for leader in leaders.values())
    found = notes(best, len(leaders), *overhead())
    print(*found, sep="\n")
    if options.write:
        table = results.table(COLUMNS, rows, left=3)
        results.keep_page("intervals", ["# Intervals around any model", INTRO, *table, *found])


if __name__ == "__main__":
    main()
