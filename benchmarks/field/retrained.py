"""Batch learners retrained during the stream: LightGBM, XGBoost, HistGradientBoosting.

A row is predicted by the model trained last. Training takes place after 250, 500, 1,000, 2,000, ..
rows, up to ``every``, and then after every ``every`` rows, on all rows so far or on the last
``window``. Before the first training the prediction is the running mean, or the majority label. The
target of a row is known before the next row is predicted, as it is to the online learners.

With a ``delay`` targets are known so many rows later: training, lags and the running mean use the
targets that are known then.

``lags`` adds the last targets as columns, missing before the first rows. ``categories`` declares
the columns of codes as categories (LightGBM). Everything else is the library's default, on one
thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from field.sets import Data

#: Rows before the first training.
FIRST = 250


@dataclass(frozen=True)
class Retrained:
    """A library and when and on what it is trained."""

    library: str
    every: int
    window: int | None = None
    lags: int = 0
    categories: bool = False
    delay: int = 0

    def predictions(self, data: Data, categories: tuple[int, ...] = ()) -> Iterator[np.ndarray]:
        """Predictions of the rows from one training to the next."""
        late = self.delay
        X = np.hstack([data.X, *(lagged(data.y, late + k) for k in range(1, self.lags + 1))])
        categories = categories if self.categories else ()
        cuts = [t for t in trainings(self.every, len(X)) if t < len(X)]
        cuts = [t for t in cuts if t > late]
        first = running(data.y[: (*cuts, len(X))[0]], data.labels)
        yield np.concatenate((np.zeros_like(first[:late]), first[: len(first) - late]))
        for start, stop in zip(cuts, [*cuts[1:], len(X)], strict=True):
            known = start - late
            begin = max(0, known - self.window) if self.window else 0
            yield self.trained(
                X[begin:known], data.y[begin:known], X[start:stop], data.labels, categories
            )

    def trained(
        self, X: np.ndarray, y: np.ndarray, rows: np.ndarray, labels: bool, categories: Any
    ) -> np.ndarray:
        """Predictions of ``rows`` by a model trained on X and y."""
        classes, codes = np.unique(y, return_inverse=True) if labels else (y[:0], y)
        if labels and len(classes) == 1:
            return np.repeat(classes, len(rows))
        model = make(self.library, labels)
        if categories:
            model.fit(X, codes, categorical_feature=list(categories))
        else:
            model.fit(X, codes)
        found = np.asarray(model.predict(rows))
        return classes[found.astype(int)] if labels else found


def make(library: str, labels: bool) -> Any:
    """A model with the library's defaults, on one thread."""
    if library == "lightgbm":
        import lightgbm

        kind = lightgbm.LGBMClassifier if labels else lightgbm.LGBMRegressor
        return kind(n_jobs=1, random_state=0, verbosity=-1)
    if library == "xgboost":
        import xgboost

        kind = xgboost.XGBClassifier if labels else xgboost.XGBRegressor
        return kind(n_jobs=1, random_state=0, verbosity=0)
    from sklearn import ensemble

    kind = (
        ensemble.HistGradientBoostingClassifier
        if labels
        else ensemble.HistGradientBoostingRegressor
    )
    return kind(random_state=0)


def version(library: str) -> str:
    """The version of a library, which must be installed."""
    from importlib import import_module

    name = "sklearn" if library == "hgb" else library
    return f"{name} {import_module(name).__version__}"


def trainings(every: int, rows: int) -> list[int]:
    """After how many rows a model is trained."""
    early = [FIRST * 2**k for k in range(32) if FIRST * 2**k < every]
    return sorted({*early, *range(every, rows, every)})


def lagged(y: np.ndarray, lag: int) -> np.ndarray:
    """The target ``lag`` rows before as a column (n, 1); NaN for the first rows."""
    column = np.full((len(y), 1), np.nan)
    column[lag:, 0] = y[:-lag]
    return column


def running(y: np.ndarray, labels: bool) -> np.ndarray:
    """Prediction of each row by the mean, or the most frequent label, of the rows before it."""
    if not labels:
        sums = np.concatenate(([0.0], np.cumsum(y)[:-1]))
        return sums / np.maximum(np.arange(len(y)), 1)
    found = np.zeros_like(y)
    counts = np.zeros(int(y.max()) + 1, dtype=int)
    best = 0
    for t, label in enumerate(y.tolist()):
        found[t] = best
        counts[label] += 1
        if counts[label] > counts[best]:
            best = label
    return found
