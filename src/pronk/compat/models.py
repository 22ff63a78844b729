"""One interface for the models of several libraries: predict each row, then learn it.

| a model with | is called with |
|:--|:--|
| ``predict_then_learn`` (pronk) | whole blocks |
| ``learn_one`` and ``predict_one`` (river) | one dict per row |
| ``partial_fit`` and ``predict`` (scikit-learn) | one row at a time, in the container it came in |

Rows of other libraries' models are learned one by one, because a prediction must be made before the
row's label is used. `Scores` are what a classifier predicts: probabilities where it has them,
otherwise real-valued decisions, otherwise labels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from pronk.columns.frames import count_rows
from pronk.columns.values import NUMERIC
from pronk.core.checks import LARGEST_INPUT
from pronk.core.state import LARGEST_TARGET

Array = NDArray[np.float64]
T = TypeVar("T")


class Scores(NamedTuple):
    """Predictions of a classifier: ``values`` (n, classes) of a kind, in the order of ``classes``.

    ``kind`` is "probability" (also of predicted labels, as 0 and 1) or "decision", real numbers of
    which the largest is the predicted class.
    """

    kind: str
    classes: list[Any]
    values: Array


class Predictor(Protocol):
    """A model as the wrappers call it.

    ``numbers`` and ``scores`` yield predictions of one or more rows, made before their y was used,
    and learn the rows, except those of weight 0. A model that raises has learned exactly the rows
    that were yielded.
    """

    def numbers(self, X: Any, y: Array, weights: Array | None) -> Iterator[Array]: ...
    def scores(self, X: Any, y: NDArray[Any], weights: Array | None) -> Iterator[Scores]: ...
    def predict_numbers(self, X: Any) -> Array: ...
    def predict_scores(self, X: Any) -> Scores: ...


def predictor(model: Any, classes: Sequence[Any] | None = None, started: bool = False) -> Predictor:
    """Return the interface of a model, which has learned rows if it is ``started``.

    ``classes`` are those that a model of scikit-learn must know, or that a pronk learner is given.
    """
    if hasattr(model, "predict_then_learn"):
        return Blocks(model, classes)
    if hasattr(model, "learn_one") and hasattr(model, "predict_one"):
        return Dicts(model, started)
    if hasattr(model, "partial_fit") and hasattr(model, "predict"):
        return Rows(model, classes)
    raise TypeError(
        f"model must have learn_one and predict_one, or partial_fit and predict; a "
        f"{type(model).__name__} has neither"
    )


def until_error(parts: Iterable[T]) -> tuple[list[T], BaseException | None]:
    """Return what a predictor yields, and the error or signal that stopped it, if any."""
    found: list[T] = []
    try:
        for part in parts:
            found.append(part)
    except BaseException as error:
        return found, error
    return found, None


def copy_of(model: Any) -> Any:
    """Return a model of the same parameters that has not learned anything."""
    own = not hasattr(model, "get_params") and hasattr(model, "clone")
    return model.clone() if own else clone(model)


def is_classifier(model: Any) -> bool | None:
    """Return whether a model predicts labels; None where it does not say."""
    if hasattr(model, "__sklearn_tags__"):
        kind = model.__sklearn_tags__().estimator_type
        return None if kind is None else kind == "classifier"
    for name in ("_last_step", "_wrapped_model"):  # of river's pipelines and wrappers
        if hasattr(model, name):
            return is_classifier(getattr(model, name))
    names = {kind.__name__ for kind in type(model).__mro__}
    return "Classifier" in names if names & {"Classifier", "Regressor"} else None


# -- pronk -------------------------------------------------------------------------------------


class Blocks:
    """A pronk learner, of which the first row may fix the ``classes``."""

    def __init__(self, model: Any, classes: Sequence[Any] | None) -> None:
        self._model, self._classes = model, classes

    def numbers(self, X: Any, y: Array, weights: Array | None) -> Iterator[Array]:
        P = self._model.predict_then_learn(X, y, **_weighted(weights))
        yield np.asarray(P).reshape(len(y), -1)

    def scores(self, X: Any, y: NDArray[Any], weights: Array | None) -> Iterator[Scores]:
        kind = self._kind
        if self._classes is not None and not self._model.__sklearn_is_fitted__():
            first = _weighted(None if weights is None else weights[:1])
            self._model.partial_fit(X[:1], y[:1], classes=self._classes, **first)
            known = self._model.classes_.tolist()
            yield Scores(kind, known, np.zeros((1, len(known))))
            X, y, weights = X[1:], y[1:], None if weights is None else weights[1:]
        if not len(y):
            return
        values = self._model.predict_then_learn(X, y, output=kind, **_weighted(weights))
        yield self._scores(kind, values)

    def predict_numbers(self, X: Any) -> Array:
        return np.asarray(self._model.predict(X)).reshape(count_rows(X), -1)

    def predict_scores(self, X: Any) -> Scores:
        kind = self._kind
        method = "predict_proba" if kind == "probability" else "decision_function"
        return self._scores(kind, getattr(self._model, method)(X))

    @property
    def _kind(self) -> str:
        return "probability" if hasattr(self._model, "predict_proba") else "decision"

    def _scores(self, kind: str, values: Array) -> Scores:
        classes = self._model.classes_.tolist()
        if kind == "decision":
            return Scores(kind, classes, _two_columns(values, len(classes)))
        return Scores(kind, classes, np.nan_to_num(values))


# -- river -------------------------------------------------------------------------------------


class Dicts:
    """A river model."""

    def __init__(self, model: Any, started: bool) -> None:
        self._model, self._started = model, started

    def numbers(self, X: Any, y: Array, weights: Array | None) -> Iterator[Array]:
        learned = _learned_rows(weights, len(y))
        if y.ndim == 2 and y.shape[1] > 1:
            raise ValueError(f"y has {y.shape[1]} columns; a river model has one output")
        targets = y.reshape(-1).tolist()
        for i, (x, target) in enumerate(zip(dicts_of(X), targets, strict=True)):
            p = self._model.predict_one(x)
            P = np.array([[0.0 if p is None else p]])
            if not self._started:
                P = np.nan_to_num(P, posinf=0.0, neginf=0.0)  # a scaler has no range yet
            check_prediction(P, i, self._model)
            if learned[i]:
                self._model.learn_one(x, target)
                self._started = True
            yield P

    def scores(self, X: Any, y: NDArray[Any], weights: Array | None) -> Iterator[Scores]:
        learned = _learned_rows(weights, len(y))
        for x, label, used in zip(dicts_of(X), y.tolist(), learned, strict=True):
            found = self._shares(x)
            if used:
                self._model.learn_one(x, label)
            yield Scores("probability", list(found), np.array([list(found.values())]))

    def predict_numbers(self, X: Any) -> Array:
        values = [self._model.predict_one(x) for x in dicts_of(X)]
        return np.array([0.0 if p is None else p for p in values], dtype=np.float64)[:, None]

    def predict_scores(self, X: Any) -> Scores:
        rows = [self._shares(x) for x in dicts_of(X)]
        return together(
            [Scores("probability", list(row), np.array([list(row.values())])) for row in rows]
        )

    def _shares(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Return the probability of each label; 1 for the predicted one if there are none."""
        try:
            found = self._model.predict_proba_one(x)
        except (NotImplementedError, AttributeError):
            label = self._model.predict_one(x)
            found = {} if label is None else {label: 1.0}
        return {
            label.item() if isinstance(label, np.generic) else label: float(share)
            for label, share in found.items()
        }


# -- scikit-learn ------------------------------------------------------------------------------


class Rows:
    """A scikit-learn model."""

    def __init__(self, model: Any, classes: Sequence[Any] | None) -> None:
        self._model, self._classes = model, classes

    def numbers(self, X: Any, y: Array, weights: Array | None) -> Iterator[Array]:
        row_of, learn = _slicer(X), self._learning(y, weights)
        for i in range(len(y)):
            row = row_of(i)
            p = self._before_learning(self._model.predict, row)
            P = np.zeros(y[i].size) if p is None else np.asarray(p, dtype=np.float64)
            check_prediction(P, i, self._model)
            learn(row, i)
            yield P.reshape(1, -1)

    def scores(self, X: Any, y: NDArray[Any], weights: Array | None) -> Iterator[Scores]:
        row_of, learn = _slicer(X), self._learning(y, weights)
        known = {"classes": np.asarray(self._classes)}
        for i in range(len(y)):
            row = row_of(i)
            found = self._before_learning(self.predict_scores, row)
            first = {} if hasattr(self._model, "classes_") else known
            learn(row, i, **first)
            yield Scores("probability", [], np.empty((1, 0))) if found is None else found

    def _learning(self, y: Any, weights: Array | None) -> Callable[..., None]:
        """Return a function that learns row i, unless its weight is 0."""
        given = None if weights is None or is_zero_or_one(weights) else weights

        def learn(row: Any, i: int, **first: Any) -> None:
            own = slice(i, i + 1)
            if weights is None or weights[i] > 0.0:
                more = _weighted(None if given is None else given[own])
                self._model.partial_fit(row, y[own], **first, **more)

        return learn

    def predict_numbers(self, X: Any) -> Array:
        return np.asarray(self._model.predict(_readable(X))).reshape(count_rows(X), -1)

    def predict_scores(self, X: Any) -> Scores:
        model, X = self._model, _readable(X)
        classes = model.classes_.tolist()
        if hasattr(model, "predict_proba"):
            return Scores("probability", classes, np.asarray(model.predict_proba(X)))
        if hasattr(model, "decision_function"):
            values = _two_columns(model.decision_function(X), len(classes))
            return Scores("decision", classes, values)
        named = np.asarray(model.predict(X))
        return Scores("probability", classes, (named[:, None] == model.classes_).astype(float))

    @staticmethod
    def _before_learning(method: Callable[[Any], Any], row: Any) -> Any:
        """Return the prediction of a row; None before the model has learned anything."""
        try:
            return method(row)
        except (NotFittedError, AttributeError):  # some estimators have no check of their own
            return None


def _slicer(X: Any) -> Callable[[int], Any]:
    """Return a function of i that returns row i in the container of X."""
    X = _readable(X)
    if hasattr(X, "iloc"):
        return lambda i: X.iloc[i : i + 1]
    return lambda i: X[i : i + 1]


def _readable(X: Any) -> Any:
    """Return rows as scikit-learn accepts them."""
    if hasattr(X, "column_names"):
        return X.to_pandas()
    return np.asarray(X) if isinstance(X, list | tuple) else X


# -- rows, labels and scores ----------------------------------------------------------------------


def dicts_of(X: Any) -> list[dict[Any, Any]]:
    """Return rows as dicts, named by the columns of a frame, else by the numbers of the columns."""
    if _are_dicts(X):
        return [dict(row) for row in X]
    for method, arguments in (("to_dicts", ()), ("to_pylist", ()), ("to_dict", ("records",))):
        if hasattr(X, method):  # polars, Arrow, pandas
            rows: list[dict[Any, Any]] = getattr(X, method)(*arguments)
            return rows
    values = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return [dict(enumerate(row)) for row in values.tolist()]


def check_prediction(P: Array, row: int, model: Any) -> None:
    """Raise if a prediction is not a number that a target may be; the row is not learned then."""
    if not np.abs(P).max() <= LARGEST_TARGET:  # also for NaN
        raise ValueError(
            f"the prediction of row {row} (counting from 0) by {type(model).__name__} is not "
            "finite; scale the columns, or choose a smaller learning rate"
        )


def _two_columns(values: Any, classes: int) -> Array:
    """Return decisions (n, classes) where two classes, or a lone one, have a single column."""
    decisions = np.asarray(values, dtype=np.float64)
    if decisions.ndim == 2:
        return decisions
    return np.column_stack((-decisions, decisions))[:, :classes]


def together(parts: Sequence[Scores]) -> Scores:
    """Return the scores of several parts with a column per class of any of them, NaN elsewhere."""
    classes = list(dict.fromkeys(label for part in parts for label in part.classes))
    values = np.full((sum(len(part.values) for part in parts), len(classes)), np.nan)
    start = 0
    for part in parts:
        stop = start + len(part.values)
        values[start:stop, [classes.index(label) for label in part.classes]] = part.values
        start = stop
    kind = next((part.kind for part in parts if part.classes), "probability")
    return Scores(kind, classes, values)


def _weighted(weights: Array | None) -> dict[str, Any]:
    """Return the argument ``sample_weight``, if there are weights."""
    return {} if weights is None else {"sample_weight": weights}


def is_zero_or_one(weights: Any) -> bool:
    """Return whether all rows count once or not at all."""
    return bool(((weights == 0.0) | (weights == 1.0)).all())


def _learned_rows(weights: Array | None, n: int) -> NDArray[np.bool_]:
    """Return which rows are learned; raise if a weight is neither 0 nor 1."""
    if weights is None:
        return np.ones(n, dtype=bool)
    if not is_zero_or_one(weights):
        raise ValueError("sample_weight is not supported by a model with predict_one and learn_one")
    return weights > 0.0


# -- the numbers in a row --------------------------------------------------------------------------


class NumericColumns:
    """The columns of the first rows that hold numbers; text and other columns are left out.

    A value that is missing, or absent from a dict, counts as 0. A sparse matrix has no columns
    here.
    """

    def __init__(self, X: Any) -> None:
        self.names = _names(X)  # of a frame or of dicts; None for arrays
        self.width = 0
        if self.names is not None:
            self.names = [name for name in self.names if _is_numeric(_column(X, name))]
            self.width = len(self.names)
        elif not hasattr(X, "toarray"):
            values = np.asarray(X)
            self.width = values.shape[1] if values.dtype.kind in "biuf" and values.ndim == 2 else 0
        #: Places of the numbers among encoded columns of a pronk learner; None: all columns.
        self.places: list[int] | None = None

    @classmethod
    def encoded(cls, kinds: Sequence[str]) -> NumericColumns:
        """Return the numbers among the columns of a pronk learner, whose rows are encoded."""
        columns = cls(np.empty((0, 0)))
        columns.places = [j for j, kind in enumerate(kinds) if kind in NUMERIC]
        columns.width = len(columns.places)
        return columns

    def of(self, X: Any) -> Array:
        """Return the numbers (n, width) of rows."""
        n = count_rows(X)
        if not self.width:
            return np.empty((n, 0))
        if self.places is not None:
            rows = np.array(X[:, self.places])
        elif self.names is None:
            rows = np.array(X, dtype=np.float64, ndmin=2)
            if rows.shape != (n, self.width):
                raise ValueError(f"X has {rows.shape[1]} columns; the first rows had {self.width}")
        else:
            rows, there = np.zeros((n, self.width)), _names(X)
            for j, name in enumerate(self.names):
                if _are_dicts(X):
                    rows[:, j] = [_number(row.get(name)) for row in X]
                elif name in there:
                    rows[:, j] = np.asarray(_column(X, name), dtype=np.float64)
        rows[~np.isfinite(rows)] = 0.0
        return np.clip(rows, -LARGEST_INPUT, LARGEST_INPUT)


def _are_dicts(X: Any) -> bool:
    return isinstance(X, list | tuple) and bool(X) and isinstance(X[0], Mapping)


def _names(X: Any) -> Any:
    """Return the names of the columns of a frame, or of the first of several dicts, or None."""
    if _are_dicts(X):
        return list(X[0])
    return getattr(X, "column_names", getattr(X, "columns", None))


def _column(X: Any, name: Any) -> Any:
    """Return a column of a frame, or a value of the first of several dicts."""
    if _are_dicts(X):
        return X[0][name]
    return X.column(name).to_numpy() if hasattr(X, "column_names") else X[name]


def _is_numeric(values: Any) -> bool:
    return np.asarray(values).dtype.kind in "biuf"


def _number(value: Any) -> float:
    return float(value) if _is_numeric(value) else 0.0
