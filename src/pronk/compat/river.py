"""Use pronk's learners in river: rows with names, and features that appear later.

A pronk learner has a fixed number of columns, while a river model may get new features at any time.
The names of the first learned row get the first columns, in sorted order, so that the order of a
dict does not matter; ``spare`` more columns stay empty for names that appear later; names beyond
those are ignored, with one warning. A feature that a row lacks is 0, as in river's own linear
models; a NaN raises an error. An empty column adds nothing to distances and inner products, so
spare columns change no prediction of a kernel learner. They cost time: the features of a Taylor
embedding grow as (columns)^degree, so declare ``features`` there, or set ``spare=0``.

If the first row has text or dates, or with `pronk.Prepared`, the columns are the names of the first
learned row, and absent features are missing values, which the mean so far fills in.

``learn_many`` learns the rows of a pandas or polars frame or an Arrow table in order: the model is
that of ``learn_one`` row by row, up to rounding, in a fraction of the time, and never a mini-batch
with one averaged step. Results for a frame are of the same library.

Needs the package river (``pip install ".[river]"``).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from river import base
from sklearn.base import clone

from pronk.columns.frames import as_table, count_rows
from pronk.compat.models import dicts_of
from pronk.core.checks import check_not_lazy, unmasked
from pronk.estimators.algorithms.pkawv import PKAWVClassifier, PKAWVRegressor
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.estimator import OnlineLearner
from pronk.estimators.prepared import Prepared
from pronk.estimators.regressor import OnlineRegressor

Row = Mapping[Any, Any]


def wrap(
    learner: OnlineLearner | Prepared, features: Sequence[Any] | None = None, spare: int = 4
) -> RiverRegressor | RiverClassifier:
    """Return a river model that learns with a copy of a pronk learner.

    Parameters
    ----------
    learner : a pronk regressor or classifier; the copy is not fitted
    features : names, optional
        Exactly these features are used, all others are ignored.
    spare : int, default 4
        Without ``features``: empty columns for features that the first row lacks.

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
    """The column of each feature; immutable, so that a row that raises changes nothing.

    With ``tables`` rows keep their names and values of any kind, for a learner that prepares them.
    """

    places: dict[Any, int]
    width: int
    spare: int
    growing: bool  # whether new names get a column or a warning
    tables: bool

    @classmethod
    def start(cls, features: Sequence[Any] | None, spare: int, tables: bool = False) -> _Columns:
        places = {name: i for i, name in enumerate(dict.fromkeys(features or ()))}
        spare = 0 if tables else spare
        return cls(places, len(places), spare, growing=features is None, tables=tables)

    def with_names(self, names: Iterable[Any]) -> _Columns:
        """Return these columns, and columns for new names."""
        new = [name for name in names if name not in self.places] if self.growing else []
        if not new:
            return self
        new.sort(key=lambda name: (type(name).__name__, name))
        width = self.width or len(new) + self.spare
        room = width - len(self.places)
        if len(new) > room:
            warnings.warn(
                f"feature {new[room]!r} is ignored: all {width} columns are in use; give "
                f"features=[..]{'' if self.tables else ' or a larger spare='}",
                stacklevel=3,
            )
        added = {name: len(self.places) + i for i, name in enumerate(new[:room])}
        places = {**self.places, **added}
        return replace(self, places=places, width=width, growing=len(new) <= room)

    def row(self, x: Row) -> Any:
        """Convert x to a row; features without a column are ignored.

        Absent features are 0, or missing values in tables.
        """
        if self.tables:
            return {str(name): x.get(name) for name in self.places}
        row = np.zeros((1, self.width))
        places = self.places
        for name, value in x.items():
            place = places.get(name)
            if place is not None:
                try:
                    row[0, place] = value
                except (TypeError, ValueError):
                    raise self._no_number(name, value) from None
        return row

    def rows(self, X: Any) -> Any:
        """Convert all rows of a frame likewise."""
        if self.tables:
            return self._table(X)
        rows = np.zeros((count_rows(X), self.width))
        for name in _names(X):
            if name in self.places:
                try:
                    rows[:, self.places[name]] = np.asarray(X[name], dtype=np.float64)
                except (TypeError, ValueError):
                    values = np.asarray(X[name], dtype=object).tolist()
                    odd = (one for one in values if not isinstance(one, Number))
                    raise self._no_number(name, next(odd, values[:1])) from None
        return rows

    def _no_number(self, name: Any, value: Any) -> ValueError:
        features = ", ".join(map(repr, self.places))
        return ValueError(
            f"feature {name!r} has {value!r}, but the first row had numbers only; start again with "
            f"wrap(pronk.Prepared(learner, categorical=[{name!r}]), features=[{features}])"
        )

    def _table(self, X: Any) -> pa.Table:
        table = as_table(X.rename(columns=str) if hasattr(X, "iloc") else X)
        assert table is not None
        columns = dict(zip(table.column_names, table.columns, strict=True))
        nothing = pa.nulls(table.num_rows)
        return pa.table({str(name): columns.get(str(name), nothing) for name in self.places})


class _Wrapped:
    """A pronk learner and the columns of its features, with river's methods.

    Subclasses differ in the prediction before the first row and in probabilities.
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
        self._columns = _Columns.start(features, spare, isinstance(learner, Prepared))

    def _columns_for(self, x: Row) -> _Columns:
        """Return the columns with those of a row; tables if the first row has text or dates."""
        columns = self._columns
        if not self._started and not all(isinstance(value, Number) for value in x.values()):
            columns = _Columns.start(self.features, 0, tables=True)
        return columns.with_names(x)

    def learn_one(self, x: Row, y: Any) -> None:
        """Learn one row."""
        columns = self._columns_for(x)
        if columns.width:
            self._learner.learn_one(columns.row(x), y)
            self._columns = columns

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn the rows of a frame in order: what `learn_one` row by row does, but faster."""
        names = _names(X)
        columns = self._columns.with_names(names)
        if count_rows(X) and not self._started:
            columns = self._columns_for(dicts_of(X[:1])[0] if hasattr(X, "columns") else {})
            columns = columns if columns.width else self._columns.with_names(names)
        if columns.width and count_rows(X):
            self._learner.partial_fit(columns.rows(X), np.asarray(unmasked(y)))
            self._columns = columns

    def predict_one(self, x: Row, **kwargs: Any) -> Any:
        """Predict one row; 0 (regressors) or None before the first row is learned."""
        if not self._started:
            return self._before_the_first_row
        found: Any = self._learner.predict(self._rows_of(x))
        return found.tolist()[0]

    def _rows_of(self, x: Row) -> Any:
        """Convert x to rows of the learner."""
        row = self._columns.row(x)
        return row if isinstance(row, np.ndarray) else self._learner._one(row)

    def predict_many(self, X: Any) -> Any:
        """Predict the rows of a frame; return a series of the frame's library."""
        if self._started:
            return _series(self._learner.predict(self._columns.rows(X)), X)
        return _series([self._before_the_first_row] * count_rows(X), X)

    @property
    def _started(self) -> bool:
        return bool(self._learner.__sklearn_is_fitted__())

    @property
    def fitted_learner(self) -> Any:
        """Return the pronk learner, to save or inspect; ``columns`` has its columns."""
        return self._learner

    @property
    def columns(self) -> dict[Any, int]:
        """Return the column of each feature."""
        return dict(self._columns.places)


def _names(X: Any) -> list[Any]:
    """Return the names of a frame's or a table's columns."""
    check_not_lazy(X)
    return list(X.column_names if hasattr(X, "column_names") else X.columns)


def _series(values: Any, X: Any) -> Any:
    """Return one value per row of a frame, as a series of its library."""
    if hasattr(X, "index"):
        return import_module("pandas").Series(values, index=X.index)
    if hasattr(X, "to_arrow"):
        return import_module("polars").Series(np.asarray(values).tolist())
    return pa.array(np.asarray(values).tolist())


def _frame(labels: list[Any], values: NDArray[np.float64], X: Any) -> Any:
    """Return one column per label, as a frame of the library of X; text names outside pandas."""
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
        """Return the probabilities of the labels known so far."""
        labels, found = self._probabilities(self._rows_of, x, 1)
        return dict(zip(labels, found[0].tolist(), strict=True))

    def predict_proba_many(self, X: Any) -> Any:
        """Return a frame of the same library with a column of probabilities per known label."""
        return _frame(*self._probabilities(self._columns.rows, X, count_rows(X)), X)

    def _probabilities(
        self, rows: Callable[[Any], Any], X: Any, n: int
    ) -> tuple[list[Any], NDArray[np.float64]]:
        """Return the labels, and a row of probabilities for each of ``n`` rows."""
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
