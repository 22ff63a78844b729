"""A scaler before a learner, as one model: one call to learn, one file to save."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pronk.estimators import storage
from pronk.estimators.faces.inputs import check_finite
from pronk.streams.files import FileStream
from pronk.streams.preparing import Preparation
from pronk.streams.scaling import make_scaler


class Scaled:
    """A learner behind an online scaler, which also fills in missing values and takes categories.

    Rows go through the scaler, which learns from them, then to the learner. `save` writes both into
    one file, which `pronk.load` reads; the loaded model goes on as if it had never stopped.

    Parameters
    ----------
    learner : a pronk learner
    scaler : "minmax", "standard", "robust" or "none"
    missing : "error" or "mean"
        What a NaN in X is: an error, or the mean of its column so far.
    categorical : column numbers
        Columns whose numbers stand for categories, as `FileStream` gives them.
    slots : int, default 32
        Columns that a categorical column becomes.
    encoding : "hash" or "onehot"
        How a category gets its slot: by a hash, or in the order in which categories come.

    Examples
    --------
    >>> import numpy as np
    >>> import pronk
    >>> from pronk.streams import Scaled
    >>> X = np.random.default_rng(0).uniform(0, 1000, (2000, 2))
    >>> y = np.sin(X[:, 0] / 200) + X[:, 1] / 1000
    >>> learner = Scaled(pronk.make("pkawv-taylor", degree=4))
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.3f}")
    mean squared error 0.065
    """

    def __init__(
        self,
        learner: Any,
        scaler: str = "minmax",
        params: Any = None,
        *,
        missing: str = "error",
        categorical: Sequence[int] = (),
        slots: int = 32,
        encoding: str = "hash",
    ) -> None:
        # A model file names the learner's class and its parameters.
        self.learner = learner
        if isinstance(learner, str):
            self.learner = storage._learner_class(learner, "the file")(**(params or {}))
        self.missing = missing
        self.categorical = [int(column) for column in categorical]
        self.slots = slots
        self.encoding = encoding
        self._columns: int | None = None
        self._names: list[str] | None = None
        self.scaler: Any = make_scaler(scaler)
        if missing != "error" or self.categorical:
            self.scaler = Preparation(self.scaler, missing, self.categorical, slots, encoding)

    # -- learning --------------------------------------------------------------------------------

    def predict_then_learn(self, X: Any, y: Any, **options: Any) -> NDArray[Any]:
        """As the learner's, on scaled rows; a refused call changes neither scaler nor learner."""
        rows = self._rows(X)
        before = copy.copy(self.scaler)  # a scaler replaces its arrays, it never writes into them
        try:
            scaled = self._with_names(X, self.scaler.learn_transform(rows))
            result: NDArray[Any] = self.learner.predict_then_learn(scaled, y, **options)
        except BaseException:
            self.scaler = before
            raise
        if self._columns is None:
            self._columns, self._names = rows.shape[1], _names_of(X)
        return result

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn the rows in order."""
        self.predict_then_learn(X, y)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The current model's predictions; changes nothing."""
        result: NDArray[Any] = self.learner.predict(self.scaler.transform(self._rows(X)))
        return result

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Margins of the current model; changes nothing."""
        rows = self.scaler.transform(self._rows(X))
        result: NDArray[Any] = self.learner.decision_function(rows)
        return result

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities by the current model, where the learner has them; changes nothing."""
        rows = self.scaler.transform(self._rows(X))
        result: NDArray[np.float64] = self.learner.predict_proba(rows)
        return result

    def _with_names(self, X: Any, rows: NDArray[np.float64]) -> Any:
        names = _names_of(X)
        if not names:
            return rows
        if isinstance(self.scaler, Preparation):
            names = self.scaler.names(names)
        return named(rows, names)

    def _rows(self, X: Any) -> NDArray[np.float64]:
        if hasattr(X, "toarray"):
            X = X.toarray()
        if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # a pyarrow table
            X = np.column_stack([column.to_numpy() for column in X.columns])
        rows = np.ascontiguousarray(X, dtype=np.float64).view(np.ndarray)
        if rows.ndim != 2 or not len(rows):
            raise ValueError(f"X must have rows and columns, got shape {rows.shape}")
        width = self._columns or rows.shape[1]
        if rows.shape[1] != width:
            raise ValueError(f"X has {rows.shape[1]} columns; the model was started with {width}")
        if max(self.categorical, default=0) >= width:
            raise ValueError(f"categorical column {max(self.categorical)}: X has {width} columns")
        check_finite(
            np.nan_to_num(rows, posinf=np.inf, neginf=-np.inf) if self._fills else rows, "X"
        )
        return rows

    @property
    def _fills(self) -> bool:
        return self.missing == "mean"

    # -- what is held ----------------------------------------------------------------------------

    @property
    def n_seen_(self) -> int:
        """Rows learned so far."""
        return int(self.learner.n_seen_)

    @property
    def n_features_in_(self) -> int:
        """Columns of X."""
        return int(self._columns or self.learner.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns, where they had names."""
        if self._names is None:
            raise AttributeError("the columns had no names")
        return np.array(self._names, dtype=object)

    @property
    def size_(self) -> int:
        """Points held now; 0 for fixed features."""
        return int(self.learner.size_)

    @property
    def dictionary_(self) -> NDArray[np.float64]:
        """The held points, as they were scaled when they came."""
        points: NDArray[np.float64] = self.learner.dictionary_
        return points

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels known so far, of a classifier."""
        classes: NDArray[Any] = self.learner.classes_
        return classes

    def __sklearn_is_fitted__(self) -> bool:
        return bool(self.learner.__sklearn_is_fitted__())

    def __sklearn_tags__(self) -> Any:
        return self.learner.__sklearn_tags__()

    # -- saving ----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write scaler and learner to one file (no pickle); `pronk.load` reads it."""
        storage.save(self, path)

    def get_params(self, deep: bool = False) -> dict[str, Any]:
        """What a model file needs to build this again."""
        return {
            "learner": type(self.learner).__name__,
            "scaler": self.scaler.name,
            "params": self.learner.get_params(deep=False),
            "missing": self.missing,
            "categorical": self.categorical,
            "slots": self.slots,
            "encoding": self.encoding,
        }

    def _fitted_state(self) -> dict[str, Any]:
        return {
            "scaler": self.scaler.to_state(),
            "learner": self.learner._fitted_state(),
            "columns": self._columns,
            "names": self._names,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.scaler.restore(state["scaler"])
        self.learner._restore(state["learner"])
        # Files of the first versions have the learner's columns only, which were the same.
        names = getattr(self.learner, "feature_names_in_", None)
        self._columns = state.get("columns") or self.learner.n_features_in_
        self._names = state.get("names") or (None if names is None else list(names))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.learner!r}, scaler={self.scaler.name!r})"


def prepared(
    learner: Any, stream: FileStream, scale: str, missing: str = "error", **encoding: Any
) -> Any:
    """A learner behind what the columns of a stream need; itself where they need nothing."""
    if scale == "none" and missing == "error" and not stream.categorical:
        return learner
    places = [stream.columns.index(name) for name in stream.categorical]
    return Scaled(learner, scale, missing=missing, categorical=places, **encoding)


def named(rows: NDArray[np.float64], names: Sequence[str]) -> Any:
    """The rows with column names: a learner that starts with them keeps the names."""
    import pyarrow as pa

    return pa.table(list(rows.T.copy()), names=list(names))


def _names_of(X: Any) -> list[str] | None:
    """The column names of a frame or table."""
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    return names if names and all(isinstance(name, str) for name in names) else None
