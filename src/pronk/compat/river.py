"""pronk's learners as river's: rows with names, features that come and go.

A pronk learner has a fixed number of columns, a river model meets new features at any time. The
wrapper keeps a table of names and columns. The names of the first learned row get the first
columns, in sorted order, so that the order of a dict never matters; ``spare`` more columns wait,
empty, for names that come later; names beyond those are ignored, with one warning. A feature that a
row has not counts as 0, as in river's own linear models; a value that is NaN is refused.

``learn_many`` takes a pandas or polars frame or an Arrow table and learns its rows in order: the
model is the one that ``learn_one`` row by row would give, up to rounding, at a fraction of the
time. A frame is never a mini-batch with one averaged step. Answers to a frame are of its library.

An empty column adds nothing to distances and inner products, so waiting columns change no
prediction of a kernel learner. They cost time: the features of a Taylor embedding grow as
(columns)^degree, so declare ``features`` there, or set ``spare=0``.

A `pronk.Prepared` learner takes rows with text, dates and gaps. Its columns are the names of the
first learned row; later names are ignored, with one warning, and what a row has not is missing
(``Prepared(.., missing="mean")`` fills it in).

Needs the package river (``pip install ".[river]"``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from river import base
from sklearn.base import clone

from pronk.data.frames import as_table
from pronk.data.prepared import Prepared, count_rows
from pronk.estimators.algorithms.pkawv import PKAWVClassifier, PKAWVRegressor
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.estimator import OnlineLearner
from pronk.estimators.inputs import check_not_lazy
from pronk.estimators.regressor import OnlineRegressor

Row = Mapping[Any, Any]


def wrap(
    learner: OnlineLearner | Prepared, features: Sequence[Any] | None = None, spare: int = 4
) -> RiverRegressor | RiverClassifier:
    """A river model that learns with a copy of a pronk learner.

    Parameters
    ----------
    learner : a pronk regressor or classifier; what it has learned is not taken over
    features : names, optional
        Exactly these features are used, all others are ignored.
    spare : int, default 4
        Without ``features``: columns kept for features that the first row has not.

    Examples
    --------
    >>> from river import compose, datasets, evaluate, metrics, preprocessing
    >>> import pronk
    >>> from pronk.compat.river import wrap
    >>> learner = pronk.PKAWVClassifier(pronk.Gaussian(2.0), random_state=0)
    >>> model = compose.Pipeline(preprocessing.StandardScaler(), wrap(learner))
    >>> print(evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy()))
    Accuracy: 90.07%
    """
    inner = learner.learner if isinstance(learner, Prepared) else learner
    if isinstance(inner, OnlineClassifier):
        return RiverClassifier(learner, features, spare)
    if isinstance(inner, OnlineRegressor):
        return RiverRegressor(learner, features, spare)
    raise TypeError(f"learner must be a pronk regressor or classifier, got {learner!r}")


@dataclass(frozen=True)
class _Columns:
    """Which feature stands in which column; a value, so that a refused row changes nothing."""

    places: dict[Any, int]
    width: int
    spare: int
    growing: bool  # whether new names are still of interest

    @classmethod
    def start(cls, features: Sequence[Any] | None, spare: int) -> _Columns:
        places = {name: i for i, name in enumerate(dict.fromkeys(features or ()))}
        return cls(places, len(places), spare, growing=features is None)

    def with_names(self, names: Iterable[Any]) -> _Columns:
        """These columns, and some for the names that are new."""
        new = [name for name in names if name not in self.places] if self.growing else []
        if not new:
            return self
        new.sort(key=lambda name: (type(name).__name__, name))
        width = self.width or len(new) + self.spare
        room = width - len(self.places)
        if len(new) > room:
            warnings.warn(
                f"feature {new[room]!r} is ignored: all {width} columns are taken; give "
                "features=[..] or a larger spare=",
                stacklevel=3,
            )
        added = {name: len(self.places) + i for i, name in enumerate(new[:room])}
        return _Columns({**self.places, **added}, width, self.spare, growing=len(new) <= room)

    def row(self, x: Row) -> NDArray[np.float64]:
        """A row of the learner; what is not in x is 0, what has no column is left out."""
        row = np.zeros((1, self.width))
        places = self.places
        for name, value in x.items():
            place = places.get(name)
            if place is not None:
                row[0, place] = value
        return row

    def rows(self, X: Any) -> NDArray[np.float64]:
        """The same for all rows of a frame."""
        rows = np.zeros((count_rows(X), self.width))
        for name in _names(X):
            if name in self.places:
                rows[:, self.places[name]] = np.asarray(X[name], dtype=np.float64)
        return rows


@dataclass(frozen=True)
class _Tables:
    """The names of a prepared learner's columns; rows go to it as tables."""

    places: dict[Any, int]
    growing: bool

    @classmethod
    def start(cls, features: Sequence[Any] | None) -> _Tables:
        places = {name: i for i, name in enumerate(dict.fromkeys(features or ()))}
        return cls(places, growing=features is None)

    @property
    def width(self) -> int:
        return len(self.places)

    def with_names(self, names: Iterable[Any]) -> _Tables:
        """These columns; the first names become them, one more is told of."""
        new = [name for name in names if name not in self.places] if self.growing else []
        if not new:
            return self
        if not self.places:
            new.sort(key=lambda name: (type(name).__name__, name))
            return _Tables({name: i for i, name in enumerate(new)}, growing=True)
        warnings.warn(
            f"feature {new[0]!r} is ignored: the columns are those of the first row; give "
            "features=[..]",
            stacklevel=3,
        )
        return _Tables(self.places, growing=False)

    def row(self, x: Row) -> dict[str, Any]:
        """A row; what is not in x is missing."""
        return {str(name): x.get(name) for name in self.places}

    def rows(self, X: Any) -> pa.Table:
        """The same for all rows of a frame."""
        if hasattr(X, "iloc"):
            X = X.rename(columns=str)
        table = as_table(X)
        assert table is not None
        found, nothing = set(table.column_names), pa.nulls(table.num_rows)
        return pa.table(
            {
                str(name): table.column(str(name)) if str(name) in found else nothing
                for name in self.places
            }
        )


class _Wrapped:
    """A pronk learner, the columns of its features, and river's verbs on both.

    What a regressor and a classifier do not share: the prediction before the first row, the type
    of a target, probabilities.
    """

    _before_the_first_row: Any = None

    def __init__(
        self,
        learner: OnlineLearner | Prepared,
        features: Sequence[Any] | None = None,
        spare: int = 4,
    ) -> None:
        if spare < 0:
            raise ValueError(f"spare must be 0 or more, got {spare}")
        self.learner = learner
        self.features = features
        self.spare = spare
        self._learner: Any = clone(learner)
        self._columns: Any = _Columns.start(features, spare)
        if isinstance(learner, Prepared):
            self._columns = _Tables.start(features)

    def learn_one(self, x: Row, y: Any) -> None:
        """Learn one row."""
        columns = self._columns.with_names(x)
        if columns.width:
            self._learner.learn_one(columns.row(x), y)
            self._columns = columns

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame in order: what `learn_one` row by row does, but faster."""
        columns = self._columns.with_names(_names(X))
        if columns.width and count_rows(X):
            self._learner.partial_fit(columns.rows(X), np.asarray(y))
            self._columns = columns

    def predict_one(self, x: Row, **kwargs: Any) -> Any:
        """Predict one row; 0 (regressors) or None before the first row is learned."""
        if not self._started:
            return self._before_the_first_row
        found: Any = self._learner.predict(self._rows_of(x))
        return found.tolist()[0]

    def _rows_of(self, x: Row) -> Any:
        """A row as the learner takes rows."""
        row = self._columns.row(x)
        return self._learner._one(row) if isinstance(self._learner, Prepared) else row

    def predict_many(self, X: Any) -> Any:
        """Predict the rows of a frame, by the model as it is; a series of the frame's library."""
        if self._started:
            return _series(self._learner.predict(self._columns.rows(X)), X)
        return _series([self._before_the_first_row] * count_rows(X), X)

    @property
    def _started(self) -> bool:
        return bool(self._learner.__sklearn_is_fitted__())

    @property
    def fitted_learner(self) -> Any:
        """The pronk learner behind, to save or to look into; its columns are in ``columns``."""
        return self._learner

    @property
    def columns(self) -> dict[Any, int]:
        """The column of each feature."""
        return dict(self._columns.places)


def _names(X: Any) -> list[Any]:
    """The names of a frame's or a table's columns."""
    check_not_lazy(X)
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _series(values: Any, X: Any) -> Any:
    """One value per row of a frame, as the library of the frame has it."""
    if hasattr(X, "index"):
        return import_module("pandas").Series(values, index=X.index)
    if hasattr(X, "to_arrow"):
        return import_module("polars").Series(np.asarray(values).tolist())
    return pa.array(np.asarray(values).tolist())


def _frame(labels: list[Any], values: NDArray[np.float64], X: Any) -> Any:
    """One column per label, as the library of the frame has it; names are text but for pandas."""
    if hasattr(X, "index"):
        return import_module("pandas").DataFrame(values, index=X.index, columns=labels)
    columns = {str(label): values[:, j] for j, label in enumerate(labels)}
    if hasattr(X, "to_arrow"):
        return import_module("polars").DataFrame(columns)
    return pa.table(columns)


class RiverRegressor(_Wrapped, base.MiniBatchRegressor):
    """A pronk regressor as a river regressor; parameters as in `wrap`."""

    _before_the_first_row = 0.0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": PKAWVRegressor(random_state=0)}


class RiverClassifier(_Wrapped, base.MiniBatchClassifier):
    """A pronk classifier as a river classifier; parameters as in `wrap`.

    Probabilities need a learner that has them, such as one with ``loss="logistic"``.
    """

    @property
    def _multiclass(self) -> bool:
        return True

    def predict_proba_one(self, x: Row, **kwargs: Any) -> dict[Any, float]:
        """Probabilities of the labels known so far."""
        labels, chances = self._chances(self._rows_of, x, 1)
        return dict(zip(labels, chances[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Probabilities of the labels known so far, a column each: a frame of the same library."""
        return _frame(*self._chances(self._columns.rows, X, count_rows(X)), X)

    def _chances(
        self, rows: Callable[[Any], Any], X: Any, n: int
    ) -> tuple[list[Any], NDArray[np.float64]]:
        """The labels, and a row of probabilities for each of ``n`` rows."""
        if not hasattr(self._learner, "predict_proba"):
            raise NotImplementedError(f"{type(self.learner).__name__} has no probabilities")
        if not self._started:
            return [], np.empty((n, 0))
        labels = self._learner.classes_.tolist()
        if len(labels) < 2:
            return labels, np.ones((n, len(labels)))
        return labels, self._learner.predict_proba(rows(X))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": PKAWVClassifier(random_state=0)}
