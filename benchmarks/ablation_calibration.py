"""What the parts of the calibration are worth: quantiles, probabilities and rows far ahead.

    python benchmarks/ablation_calibration.py                 print the three tables
    python benchmarks/ablation_calibration.py --rows 2000     of shorter streams

A ratio is the score without a part over the score with it: the pinball loss of quantiles, the log
loss of probabilities, the mean squared error of rows up to 72 rows ahead. No setting was chosen on
the sets behind the bar. Needs PRONK_DATA.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

from ablation import Patch, compiled_again  # first: it bounds the threads

import numpy as np  # isort: skip
from numba import njit  # isort: skip
import pronk  # isort: skip
from field import measures, streams  # isort: skip
from pronk.aggregate import calibration, probabilities  # isort: skip

LEVELS = np.array([0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975])
#: Rows that are not scored, rows ahead, and rows between two looks ahead.
FIRST, AHEAD, EVERY = 500, 72, 400
NUMBERS = (
    "casp", "cadata", "bike_hour", "|", "powerplant", "cpusmall", "pjme_load", "pm25_beijing",
)  # fmt: skip
LABELS = (
    "covtype", "ijcnn1", "elec2", "|", "w8a", "airlines", "bank_marketing", "kdd99_10pct",
    "obd_click", "powersupply",
)  # fmt: skip
FAR = ("bike_hour", "|", "nab_nyc_taxi", "pjme_load", "pm25_beijing")


@njit
def no_step(M: Any, label: int, slopes: Any, H: Any) -> None:
    """`calibration.newton_step` that learns nothing."""


def without(*candidates: int) -> Patch:
    """Give some candidates of the probabilities no weight."""

    def prior(learners: int) -> Any:
        weights = np.full(probabilities.LOGISTIC + learners, probabilities.PRIOR)
        weights[[j for j in candidates if j < len(weights)]] = 1e-300
        weights[probabilities.MARGINS] = 0.0
        weights[probabilities.MARGINS] = 1.0 - weights.sum()
        return weights

    return patch.object(probabilities, "prior", prior)


def scale(change: Any) -> Patch:
    """Replace the error scale, a function of level and shape."""
    return patch.object(calibration, "_error_scale", change)


QUANTILES = {
    "shape of the error scale": lambda: scale(lambda level, shape: np.exp(0.5 * level + 0 * shape)),
    "error scale": lambda: scale(lambda level, shape: np.ones(shape.shape)),
    "quintiles": partial(compiled_again, calibration, QUINTILE_STEP=0.0),
    "both ends to one side": partial(compiled_again, calibration, SIDE=0.0),
}
PROBABILITIES = {
    "rates": lambda: without(probabilities.RATES),
    "logistic learners": lambda: without(probabilities.LOGISTIC, probabilities.LOGISTIC + 1),
    "all but the margins": lambda: without(1, 2, 3),
    "slopes of the margins": partial(compiled_again, probabilities, newton_step=no_step),
}


def pinball(name: str, rows: int) -> float:
    data = streams.read(name).first(rows)
    learner = pronk.OnlineKernelRegressor(random_state=0)
    _, found = learner.predict_then_learn(data.X, data.y, quantiles=LEVELS)
    errors = (data.y[:, None] - found)[FIRST:]
    return float(np.mean(np.maximum(LEVELS * errors, (LEVELS - 1.0) * errors)))


def log_loss(name: str, rows: int) -> float:
    data = streams.read(name).first(rows)
    return float(measures.of_default(data)["log loss"])


def look_ahead(name: str, rows: int) -> list[float]:
    """Return the errors of rows ahead as such, and as if each came next."""
    data, errors = streams.read(name).first(rows), []
    learner = pronk.OnlineKernelRegressor(random_state=0)
    for start in range(0, len(data.y) - EVERY - AHEAD, EVERY):
        learner.partial_fit(data.X[start : start + EVERY], data.y[start : start + EVERY])
        later = slice(start + EVERY, start + EVERY + AHEAD)
        if start >= 4 * FIRST and learner.reads_past_:
            found = [learner.predict(data.X[later], ahead=ahead) for ahead in (True, False)]
            errors.append([np.mean((P - data.y[later]) ** 2) for P in found])
    return np.mean(errors, axis=0).tolist() if errors else [np.nan, np.nan]


def table(names: tuple[str, ...], parts: dict[str, Any], score: Any, rows: int) -> None:
    """Print a table with a row per part and a column per set."""
    print("\n| without | " + " | ".join(names) + " |\n|:--" + "|--:" * len(names) + "|", flush=True)
    whole = {name: score(name, rows) for name in names if name != "|"}
    for title, off in {"nothing: the score": nullcontext, **parts}.items():
        cells = []
        for name in names:
            if name == "|":
                cells.append("")
                continue
            with off():
                lost = whole[name] if off is nullcontext else score(name, rows) / whole[name]
            cells.append(f"{lost:.3f}" if off is not nullcontext else f"{lost:.4g}")
        print(f"| {title} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=6000)
    parser.add_argument("--only", choices=("quantiles", "probabilities", "ahead"))
    options = parser.parse_args()
    if options.only in (None, "quantiles"):
        table(NUMBERS, QUANTILES, pinball, options.rows)
    if options.only in (None, "probabilities"):
        table(LABELS, PROBABILITIES, log_loss, options.rows)
    if options.only in (None, "ahead"):
        print("\n| rows ahead | predicted as such | as the next row |\n|:--|--:|--:|")
        for name in FAR:
            if name != "|":
                cells = [f"{error:.4g}" for error in look_ahead(name, 2 * options.rows)]
                print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
