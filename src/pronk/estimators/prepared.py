"""`Prepared`: a learner and the preparation of its columns, as one estimator."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pronk.columns.dates import DATES
from pronk.columns.frames import Layout, count_rows, layout_of, whole
from pronk.columns.model import Columns, Options
from pronk.core.arrays import Array
from pronk.core.state import require
from pronk.estimators import files
from pronk.estimators.calls import all_or_nothing, own_lock, replace_learned
from pronk.estimators.inputs import (
    Declared,
    check_weights,
    learned_only,
    missing_labels,
    with_times,
)
from pronk.estimators.quantiles import QuantileRegressor, check_has_quantiles
from pronk.estimators.rows import Around, WithColumns
from pronk.estimators.targets import ScaledTargets, scales_targets
from pronk.estimators.waiting import Kept, Line


def has(name: str) -> Callable[[Any], bool]:
    """Return the check whether the learner has a method, for scikit-learn's `available_if`."""
    return lambda self: hasattr(self.__dict__.get("learner_", self.learner), name)


def _delegated(name: str, words: str) -> Any:
    """Return a method that calls the learner's on prepared rows, if the learner has it."""

    def method(self: Prepared, X: Any, *more: Any, **options: Any) -> Any:
        self._check_fitted()
        with own_lock(self):
            return getattr(self.learner_, name)(self._transformed(X), *more, **options)

    method.__name__, method.__doc__ = name, words
    return available_if(has(name))(method)


#: The attributes that hold what was learned.
HELD = (
    *("_columns", "_last_row", "_targets", "learner_"),
    *("n_features_in_", "feature_names_in_", "training_record_"),
)


class Prepared(Around, WithColumns, files.Saved, Declared):
    """Learn from tables with text, categories, dates, times, missing values and any scale.

    The first rows decide the kinds of the columns; later columns are matched by name. Every column
    is prepared online, by the rows so far, and cutting the stream into calls differently changes
    nothing. X may be a pandas or polars frame, an Arrow table or a NumPy array. `pronk run` uses
    this class: a model written by ``--save`` accepts the same frames.

    All methods of the learner are available: probabilities, intervals, ``score``, ``GridSearchCV``
    (parameters of the learner are ``learner__alpha``), ``clone``, ``save``, and river by
    `pronk.compat.river.wrap`.

    Parameters
    ----------
    learner : a pronk learner
        A copy of it learns, ``learner_``.
    scale : "auto", "minmax", "standard", "robust" or "none"
        How numbers are scaled; "auto" is minmax, and none for a learner that scales itself.
    missing : "mean" or "error"
        How to treat a missing value: fill in the mean of its column so far, or raise an error. Text
        such as "" and "NA" is missing too, see `pronk.columns.values`.
    categorical : "auto" or sequence of names or column numbers
        Columns that hold categories; "auto": all text that is not dates. In an array of numbers
        each number is a category.
    encoding : "onehot" or "hash"
        How a category gets its slot: in the order in which categories appear, or by a hash, so that
        different categories may share one.
    slots : int, default 32
        Columns that a categorical column becomes. If it has more categories, the later ones are
        distinguished by random signs over all slots, less well than by a slot each.
    dates : "auto", "dayfirst", "monthfirst" or "iso"
        How dates in text that have the year last are read, as 01/02/2015: "auto" decides by the
        first value of a column, "iso" treats them as text; see `pronk.columns.dates`.
    scale_target : "auto", "standard" or "none"
        Whether y is given to a regressor as (y - mean) / deviation of the first rows, at most 256
        (see `pronk.columns.scaling`); "auto" does it unless the learner scales targets itself. The
        learner's own outputs, such as ``certificate()``, are then in these units.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import pronk
    >>> hours = pd.date_range("2024-01-01", periods=3000, freq="h")
    >>> city = np.where(np.arange(3000) % 3 == 0, "Rome", "Oslo")
    >>> frame = pd.DataFrame({"time": hours, "city": city})
    >>> turn = 2 * np.pi * (hours.hour.to_numpy() - 9) / 24
    >>> warm = 10 + 5 * np.sin(turn) + 8 * (city == "Rome")
    >>> model = pronk.Prepared(pronk.OnlineKernelRegressor(random_state=0))
    >>> predictions = model.predict_then_learn(frame, warm)
    >>> print(f"mean absolute error {np.abs(predictions - warm)[1000:].mean():.1f}")
    mean absolute error 0.0
    """

    learner: Any = field(kw_only=False)
    scale: str = "auto"
    missing: str = "mean"
    categorical: str | Sequence[str | int] = "auto"
    encoding: str = "onehot"
    slots: int = 32
    dates: str = "auto"
    scale_target: str = "auto"

    # -- learning --------------------------------------------------------------------------------

    def predict_then_learn(self, X: Any, y: Any, **options: Any) -> Any:
        """Predict each row before its label is used, then learn it; if it raises, change nothing.

        A row whose label is missing (None or NaN) is predicted and not learned, and so is a row of
        weight 0 in ``sample_weight``; neither changes a scale, a mean or a list of categories.
        Before the first label a prediction is 0, or None for a classifier.
        """
        return self._learn("predict_then_learn", X, y, **options)

    def partial_fit(self, X: Any, y: Any, **options: Any) -> Self:
        """Learn the rows in order; one whose label is missing (None or NaN) is left out."""
        self._learn("partial_fit", X, y, **options)
        return self

    def fit(self, X: Any, y: Any, **options: Any) -> Self:
        """Reset, then learn the rows in order, in one pass.

        A fresh copy learns and then replaces what was learned before, so that a call that raises or
        is interrupted changes nothing.
        """
        fresh = clone(self).partial_fit(X, y, **options)
        if not fresh.__sklearn_is_fitted__() or not fresh.n_seen_:
            raise ValueError("no row has a label and a positive weight: there is nothing to learn")
        replace_learned(self, fresh, HELD)
        return self

    def encode(self, X: Any) -> Array:
        """Return X as numbers that all methods accept in its place; the first X sets the columns.

        A category is its code, a time its seconds since 1970, and a missing value NaN.
        """
        X = whole(X)
        if "_columns" not in self.__dict__:
            self._begin(layout_of(X, self.categorical, self.dates))
        return self._columns.encode(X)

    def _begin(self, layout: Layout) -> None:
        if self.dates not in DATES:
            raise ValueError(f"dates must be one of {', '.join(DATES)}; got {self.dates!r}")
        options = Options(self.scaling_, self.missing, self.slots, self.encoding)
        self._set_columns(Columns(layout, options))
        self.learner_ = clone(self.learner)
        scaled = scales_targets(self.learner, self.scale_target)
        self._targets = ScaledTargets(self.learner, self.learner_) if scaled else None

    @property
    def scaling_(self) -> str:
        """Return the scaling of the numbers."""
        if self.scale != "auto":
            return self.scale
        return "none" if getattr(self.learner, "_scales_itself", False) else "minmax"

    @property
    def kinds_(self) -> list[str]:
        """Return the kinds: "number", "boolean", "category", "time", "date" or "clock"."""
        return list(self._columns.layout.kinds)

    @property
    def columns_(self) -> list[dict[str, Any]]:
        """Describe each column, by the rows so far; see `pronk.columns.preparation`."""
        return self._columns.described()

    @property
    def changes_(self) -> list[dict[str, Any]]:
        """The learner's ``changes_``, with the names of the columns as they are given."""
        return self._columns.with_names(self.learner_.changes_)

    @property
    def directions_(self) -> list[dict[str, Any]]:
        """The learner's ``directions_``, with the names of the columns as they are given."""
        found: list[dict[str, Any]] = self.learner_.directions_
        names = dict(
            zip(self.learner_._columns.names_out(), self._columns.names_out(), strict=True)
        )
        return [
            {**one, "columns": {names[name]: weight for name, weight in one["columns"].items()}}
            for one in found
        ]

    @property
    def orders_(self) -> list[str]:
        """Return how dates with the year last are read in each column; see ``dates``."""
        return list(self._columns.layout.orders)

    @property
    def target_scaled_(self) -> bool:
        """Return whether the learner gets (y - mean) / deviation."""
        return self._targets is not None

    def _learn(self, method: str, X: Any, y: Any, *more: Any, **options: Any) -> Any:
        """Prepare the rows, and pass them to a method of the learner; if it raises, roll back.

        The learner's number of rows shows whether it was rolled back; the preparation then is too.
        """
        X = X if type(X) is np.ndarray else whole(X)
        check_has_quantiles(self.learner, options)
        if (times := options.pop("times", None)) is not None:
            options["sample_weight"] = with_times(options.get("sample_weight"), times)
        with own_lock(self):
            before, seen = dict(self.__dict__), self._learned
            try:
                if not count_rows(X):
                    return self._without_rows(method, X, y, options)
                if "_columns" not in before:
                    self._begin(layout_of(X, self.categorical, self.dates))
                return all_or_nothing(self.learner_, self._pass, method, X, y, *more, **options)
            except BaseException:
                if self._learned == seen:
                    self.__dict__ = {**before, "_lock": own_lock(self)}
                raise

    @property
    def _learned(self) -> int:
        """Return the number of rows learned so far."""
        return int(getattr(self.__dict__.get("learner_"), "n_seen_", 0))

    def _without_rows(self, method: str, X: Any, y: Any, options: dict[str, Any]) -> Any:
        """Return the answer to a call without rows, which changes nothing."""
        if not self.__sklearn_is_fitted__():
            return getattr(clone(self.learner), method)(np.empty((0, 1)), y, **options)
        self._columns.encode(X)  # checks the columns
        rows = np.empty((0, self.learner_.n_features_in_))
        return getattr(self.learner_, method)(rows, y, **options)

    def _pass(self, method: str, X: Any, y: Any, *more: Any, **options: Any) -> Any:
        rows = self._columns.encode(X)
        n = len(rows)
        weights = check_weights(options.get("sample_weight"), n)
        counted = learned_only(weights, missing_labels(y, n), n)
        if counted is not None and counted.ndim == 2:
            counted = counted[:, 0]
        if n == 1 and (counted is None or counted[0] > 0.0):
            columns, prepared = self._peek(rows)
        else:
            columns, prepared = self._columns.learned(rows, counted)
        learner, targets = self.learner_, copy.copy(self._targets)
        if targets is None:
            answer = getattr(learner, method)(prepared, y, *more, **options)
        else:
            targets.blank, targets.inner = self.learner, learner
            answer = targets.learn(prepared, y, options)
            learner = targets.inner  # during the first rows another one
        after = {"learner_": learner, "_targets": targets, "_columns": columns}
        self.__dict__.update(after)  # one call: a signal cannot split it
        return answer

    # -- predicting ------------------------------------------------------------------------------

    def predict(self, X: Any, **options: Any) -> Any:
        """Predict by the current model; changes nothing."""
        self._check_fitted()
        with own_lock(self):
            values = self.learner_.predict(self._transformed(X), **options)
            if self._targets is None:
                return values
            if isinstance(values, tuple):  # with return_std
                return self._targets.in_unit_of_y(values[0]), self._targets.size * values[1]
            return self._targets.in_unit_of_y(values)

    @available_if(has("predict_quantiles"))
    def predict_quantiles(
        self, X: Any, quantiles: Any = (0.1, 0.5, 0.9), **options: Any
    ) -> NDArray[np.float64]:
        """Return quantiles by the current model, in the unit of y; changes nothing."""
        self._check_fitted()
        with own_lock(self):
            found: NDArray[np.float64] = self.learner_.predict_quantiles(
                self._transformed(X), quantiles, **options
            )
            return found if self._targets is None else self._targets.quantiles_in_unit_of_y(found)

    predict_interval = available_if(has("predict_quantiles"))(QuantileRegressor.predict_interval)

    def _predict_to_wait(self, X: Any) -> tuple[NDArray[Any], Kept | None]:
        """Predict rows that are learned later; return predictions and what is kept of them."""
        with own_lock(self):
            # With scaled targets the learner may be replaced in the first rows.
            if self._targets is not None or not hasattr(self.learner_, "_predict_to_wait"):
                return self.predict(X), None
            return self.learner_._predict_to_wait(self._transformed(X))

    def _learn_waiting(self, X: Any, y: Any, lines: Sequence[Line], **options: Any) -> Any:
        """Learn rows in order, with what was kept of their predictions; return the predictions."""
        return self._learn("_learn_waiting", X, y, lines, **options)

    predict_interval_one = available_if(has("predict_interval"))(
        QuantileRegressor.predict_interval_one
    )

    def transform(self, X: Any) -> Array:
        """Return the rows as the learner would see them next; changes nothing."""
        check_is_fitted(self)
        return self._transformed(X).copy()

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the learner's columns."""
        check_is_fitted(self)
        return np.array(self._columns.names_out(), dtype=object)

    def _transformed(self, X: Any) -> Array:
        rows = self._columns.encode(X)
        return self._peek(rows)[1] if len(rows) == 1 else self._columns.transform(rows)

    def _peek(self, row: Array) -> tuple[Columns, Array]:
        """Return the columns after one more row, and the prepared row.

        Both are cached: the row that is predicted is usually the next to be learned.
        """
        key = row.tobytes()
        held = self.__dict__.get("_last_row")
        if held is not None and held[0] is self._columns and held[1] == key:
            return held[2], held[3]
        after, prepared = self._columns.learned(row)
        self._last_row = self._columns, key, after, prepared
        return after, prepared

    # -- as an estimator of scikit-learn ---------------------------------------------------------

    decision_function = _delegated("decision_function", "Return margins; changes nothing.")
    predict_proba = _delegated("predict_proba", "Return probabilities; changes nothing.")

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy of a classifier, R2 of a regressor, by the current model."""
        measure = accuracy_score if self._classifies else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    @property
    def _classifies(self) -> bool:
        return bool(self.learner.__sklearn_tags__().estimator_type == "classifier")

    def _check_fitted(self) -> None:
        """Raise if not fitted; scikit-learn's check is slow, so it is called only for its error."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)

    def __sklearn_is_fitted__(self) -> bool:
        learner = self.__dict__.get("learner_")
        return learner is not None and bool(learner.__sklearn_is_fitted__())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.learner.__sklearn_tags__()
        for name in ("estimator_type", "target_tags", "classifier_tags", "regressor_tags"):
            setattr(tags, name, getattr(inner, name))
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.input_tags.allow_nan = self.missing == "mean"
        tags.input_tags.sparse = True
        return tags

    # -- saving ----------------------------------------------------------------------------------

    def _file_params(self) -> dict[str, Any]:
        """Return the parameters for a model file, with the learner by its class."""
        params = self.get_params(deep=False)
        learner = params.pop("learner")
        return {**params, "learner": type(learner).__name__, "params": files.params_of(learner)}

    @classmethod
    def _from_file(cls, params: dict[str, Any]) -> Self:
        known = dict(params)
        name, settings = known.pop("learner"), known.pop("params")
        if isinstance(known["categorical"], list):
            known["categorical"] = tuple(known["categorical"])
        return cls(files.build(files.learner_class(name, "the file"), settings), **known)

    def _fitted_state(self) -> dict[str, Any]:
        check_is_fitted(self)
        return {
            "columns": self._columns.to_state(),
            "learner": self.learner_._fitted_state(),
            "training_record": self.__dict__.get("training_record_"),
            "targets": None if self._targets is None else self._targets.to_state(),
        }

    def _restore(self, state: Any) -> None:
        """Restore a state from an untrusted file; raise StateError if it does not fit."""
        require(isinstance(state, dict), "the state is not a table")
        entries = {"columns", "learner", "training_record", "targets"}
        require(set(state) == entries, "the state has other entries than it should")
        columns = Columns.from_state(state["columns"])
        self._begin(columns.layout)
        require(columns.options == self._columns.options, "the columns have other options")
        self._columns = columns
        self.learner_._restore(state["learner"])
        held = state["targets"]
        require((held is None) == (self._targets is None), "targets are not what the learner needs")
        if self._targets is not None:
            self._targets.restore(held)
        if state["training_record"] is not None:
            self.training_record_ = state["training_record"]

    def _try_out(self) -> None:
        """Predict a row and test the learner; raise if a prediction is not a number."""
        row = self._columns.transform(np.zeros((1, self.n_features_in_)))
        require(row.shape[1] == self.learner_.n_features_in_, "the learner has other columns")
        self.learner_._try_out()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.learner_.predict(row)
