"""Batch learners retrained during the stream, each with its defaults on one thread.

    lightgbm, xgboost, hgb, catboost     gradient boosting
    xrfm                                 kernel ridge regression in a learned metric, a random fifth
                                         of the rows for its choices
    realmlp                              pytabkit's RealMLP_TD, a network of 256 epochs; it too
                                         keeps a fifth of the rows for its choices

A row is predicted by the model trained last. Training takes place after 250, 500, 1,000, 2,000, ..
rows, up to ``every``, and then after every ``every`` rows, on all rows so far or on the last
``window``; or after the rows listed in ``at``. Before the first training the prediction is the
running mean, or the majority label. The target of a row is known before the next row is predicted,
as it is to the online learners.

With a ``delay`` targets are known so many rows later: training, lags and the running mean use the
targets that are known then.

``lags`` adds the last targets as columns, missing before the first rows. ``categories`` declares
the columns of codes as categories. xrfm asks its users for standardised numbers and for a column of
zeros and ones per category, and is given them; the others prepare rows by themselves.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version as version_of
from typing import Any

import numpy as np

from field.sets import Data

#: Rows before the first training.
FIRST = 250


@dataclass(frozen=True)
class Retrained:
    """A library and when and on what it is trained."""

    library: str
    every: int = 0
    window: int | None = None
    lags: int = 0
    categories: bool = False
    delay: int = 0
    at: tuple[int, ...] = ()

    def predictions(self, data: Data, categories: tuple[int, ...] = ()) -> Iterator[np.ndarray]:
        """Predictions of the rows from one training to the next."""
        late = self.delay
        X = np.hstack([data.X, *(lagged(data.y, late + k) for k in range(1, self.lags + 1))])
        X = framed(X, categories) if self.categories and categories else X
        planned = self.at or trainings(self.every, len(X))
        cuts = [t for t in planned if late < t < len(X)]
        first = running(data.y[: (*cuts, len(X))[0]], data.labels)
        yield np.concatenate((np.zeros_like(first[:late]), first[: len(first) - late]))
        for start, stop in zip(cuts, [*cuts[1:], len(X)], strict=True):
            known = start - late
            begin = max(0, known - self.window) if self.window else 0
            yield self.trained(X[begin:known], data.y[begin:known], X[start:stop], data.labels)

    def trained(self, X: Any, y: np.ndarray, rows: Any, labels: bool) -> np.ndarray:
        """Predictions of ``rows`` by a model trained on X and y."""
        classes, codes = np.unique(y, return_inverse=True) if labels else (y[:0], y)
        if labels and len(classes) == 1:
            return np.repeat(classes, len(rows))
        model = make(self.library, labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = {"cat_features": coded(X)} if self.library == "catboost" else {}
            model.fit(X, codes, **told)
            found = np.asarray(model.predict(rows)).ravel()
        return classes[found.astype(int)] if labels else found


class XRFM:
    """xRFM as its documentation prepares rows: numbers standardised, categories one-hot.

    A random fifth of the rows is for its choices; targets are standardised too.
    """

    def __init__(self, labels: bool) -> None:
        from xrfm import xRFM

        self.labels = labels
        self.model = xRFM(device="cpu", random_state=0, n_threads=1, verbose=False)

    def fit(self, X: Any, y: np.ndarray) -> None:
        self.codes = coded(X)
        self.values = [X.iloc[:, j].cat.categories.to_numpy() for j in self.codes]
        numbers = self.numbers(X)
        self.mean, deviation = numbers.mean(axis=0), numbers.std(axis=0)
        self.deviation = np.where(deviation > 0, deviation, 1.0)
        if not self.labels:
            self.middle, self.spread = y.mean(), y.std() or 1.0
            y = ((y - self.middle) / self.spread).astype(np.float32)
        order = np.random.default_rng(0).permutation(len(y))
        rows, y, cut = self.prepared(X)[order], y[order], len(y) - len(y) // 5
        self.model.fit(rows[:cut], y[:cut], rows[cut:], y[cut:])

    def numbers(self, X: Any) -> np.ndarray:
        return np.delete(np.asarray(X, dtype=np.float64), self.codes, axis=1)

    def prepared(self, X: Any) -> np.ndarray:
        pairs = zip(self.codes, self.values, strict=True)
        wide = [X.iloc[:, [j]].to_numpy() == values for j, values in pairs]
        numbers = (self.numbers(X) - self.mean) / self.deviation
        return np.hstack([numbers, *wide]).astype(np.float32)

    def predict(self, X: Any) -> np.ndarray:
        found = self.model.predict(self.prepared(X))
        return found if self.labels else self.middle + self.spread * found


def make(library: str, labels: bool) -> Any:
    """A model with the library's defaults, on one thread."""
    if library == "lightgbm":
        import lightgbm

        kind = lightgbm.LGBMClassifier if labels else lightgbm.LGBMRegressor
        return kind(n_jobs=1, random_state=0, verbosity=-1)
    if library == "xgboost":
        import xgboost

        kind = xgboost.XGBClassifier if labels else xgboost.XGBRegressor
        return kind(n_jobs=1, random_state=0, verbosity=0, enable_categorical=True)
    if library == "catboost":
        import catboost

        kind = catboost.CatBoostClassifier if labels else catboost.CatBoostRegressor
        return kind(thread_count=1, random_seed=0, verbose=False, allow_writing_files=False)
    if library == "xrfm":
        return XRFM(labels)
    if library == "realmlp":
        import pytabkit

        logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
        kind = pytabkit.RealMLP_TD_Classifier if labels else pytabkit.RealMLP_TD_Regressor
        return kind(device="cpu", n_threads=1, random_state=0, verbosity=0)
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

    name = {"hgb": "sklearn", "realmlp": "pytabkit"}.get(library, library)
    module = import_module(name)
    return f"{name} {getattr(module, '__version__', None) or version_of(name)}"


def framed(X: np.ndarray, categories: tuple[int, ...]) -> Any:
    """X as a table (pandas) whose columns of codes are categories."""
    import pandas as pd

    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    for j in categories:
        table[f"x{j}"] = pd.Categorical(X[:, j].astype(int))
    return table


def coded(X: Any) -> list[int]:
    """Positions of the columns that `framed` made categories; an array has none."""
    kinds = getattr(X, "dtypes", ())
    return [j for j, kind in enumerate(kinds) if kind.name == "category"]


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
