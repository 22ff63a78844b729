"""A scaler before a learner, as one model: one call to learn, one file to save."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pronk.estimators import storage
from pronk.estimators.inputs import check_finite
from pronk.streams.scaling import Scaler, make_scaler


class Scaled:
    """A learner behind an online scaler.

    Rows go through the scaler, which learns from them, then to the learner. `save` writes both into
    one file, which `pronk.load` reads; the loaded model goes on as if it had never stopped.

    Parameters
    ----------
    learner : a pronk learner
    scaler : "minmax" or "standard"

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

    def __init__(self, learner: Any, scaler: str = "minmax", params: Any = None) -> None:
        # A model file names the learner's class and its parameters.
        self.learner = learner
        if isinstance(learner, str):
            self.learner = storage._learner_class(learner, "the file")(**(params or {}))
        self.scaler: Scaler = make_scaler(scaler)

    # -- learning --------------------------------------------------------------------------------

    def predict_then_learn(self, X: Any, y: Any, **options: Any) -> NDArray[Any]:
        """As the learner's, on scaled rows; a refused call changes neither scaler nor learner."""
        rows = self._rows(X)
        before = copy.copy(self.scaler)  # a scaler replaces its arrays, it never writes into them
        try:
            scaled = _named_as(X, self.scaler.learn_transform(rows))
            result: NDArray[Any] = self.learner.predict_then_learn(scaled, y, **options)
        except BaseException:
            self.scaler = before
            raise
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

    def _rows(self, X: Any) -> NDArray[np.float64]:
        if hasattr(X, "toarray"):
            X = X.toarray()
        if hasattr(X, "column_names") and hasattr(X, "to_pandas"):  # a pyarrow table
            X = np.column_stack([column.to_numpy() for column in X.columns])
        rows = np.ascontiguousarray(X, dtype=np.float64).view(np.ndarray)
        if rows.ndim != 2 or not len(rows):
            raise ValueError(f"X must have rows and columns, got shape {rows.shape}")
        width = getattr(self.learner, "n_features_in_", rows.shape[1])
        if rows.shape[1] != width:
            raise ValueError(f"X has {rows.shape[1]} columns; the model was started with {width}")
        check_finite(rows, "X")
        return rows

    # -- what is held ----------------------------------------------------------------------------

    @property
    def n_seen_(self) -> int:
        """Rows learned so far."""
        return int(self.learner.n_seen_)

    @property
    def n_features_in_(self) -> int:
        """Columns of X."""
        return int(self.learner.n_features_in_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns, where they had names."""
        names: NDArray[Any] = self.learner.feature_names_in_
        return names

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
        }

    def _fitted_state(self) -> dict[str, Any]:
        return {"scaler": self.scaler.to_state(), "learner": self.learner._fitted_state()}

    def _restore(self, state: dict[str, Any]) -> None:
        self.scaler.restore(state["scaler"])
        self.learner._restore(state["learner"])

    def __repr__(self) -> str:
        return f"Scaled({self.learner!r}, scaler={self.scaler.name!r})"


def named(rows: NDArray[np.float64], names: Sequence[str]) -> Any:
    """The rows with column names: a learner that starts with them keeps the names."""
    import pyarrow as pa

    return pa.table(list(rows.T.copy()), names=list(names))


def _named_as(X: Any, rows: NDArray[np.float64]) -> Any:
    """The scaled rows with the column names of X, if X has names."""
    names = list(getattr(X, "column_names", getattr(X, "columns", ())))
    return named(rows, names) if names and all(isinstance(n, str) for n in names) else rows
