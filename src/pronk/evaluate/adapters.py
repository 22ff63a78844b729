"""One face for the models that can be evaluated: pronk's blocks, and river's rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray


class Adapter(Protocol):
    """A model as the evaluation calls it."""

    def predict_then_learn(self, X: Any, y: NDArray[Any]) -> NDArray[Any]: ...
    def predict(self, X: Any) -> NDArray[Any]: ...
    def predict_row(self, X: Any) -> Any: ...
    def learn(self, X: Any, y: NDArray[Any]) -> None: ...


class Blocks:
    """A model with ``predict_then_learn``: whole blocks at once."""

    def __init__(self, model: Any, labels: bool) -> None:
        self.model = model
        self.predict_then_learn = model.predict_then_learn
        self._first: Any = None if labels else 0.0
        self._started = False

    def predict(self, X: Any) -> NDArray[Any]:
        """Predictions that change nothing; 0, or no label, before anything was learned."""
        if not self._started:
            self._started = bool(getattr(self.model, "__sklearn_is_fitted__", lambda: True)())
        if self._started:
            return np.asarray(self.model.predict(X))
        return np.full(X.shape[0], self._first)

    def predict_row(self, X: Any) -> Any:
        return self.predict(X)[0]

    def learn(self, X: Any, y: NDArray[Any]) -> None:
        self.model.partial_fit(X, y)


class Rows:
    """A model with river's ``predict_one`` and ``learn_one``: a dict a row."""

    def __init__(self, model: Any, labels: bool, columns: Sequence[str] | None) -> None:
        self.model = model
        self.columns = columns
        self._labels = labels

    def predict_then_learn(self, X: Any, y: NDArray[Any]) -> NDArray[Any]:
        predictions = []
        for x, target in zip(self._dicts(X), y.tolist(), strict=True):
            predictions.append(self.model.predict_one(x))
            self.model.learn_one(x, target)
        return self._array(predictions)

    def predict(self, X: Any) -> NDArray[Any]:
        return self._array([self.model.predict_one(x) for x in self._dicts(X)])

    def predict_row(self, X: Any) -> Any:
        return self.predict(X)[0]

    def learn(self, X: Any, y: NDArray[Any]) -> None:
        for x, target in zip(self._dicts(X), y.tolist(), strict=True):
            self.model.learn_one(x, target)

    def _dicts(self, X: Any) -> list[dict[Any, float]]:
        names = self.columns if self.columns is not None else range(X.shape[1])
        return [dict(zip(names, row, strict=True)) for row in np.asarray(X).tolist()]

    def _array(self, predictions: list[Any]) -> NDArray[Any]:
        if not self._labels:  # a model that knows nothing yet may say None
            return np.array([0.0 if p is None else p for p in predictions], dtype=np.float64)
        array = np.empty(len(predictions), dtype=object)
        array[:] = predictions
        return array


def adapt(model: Any, labels: bool, columns: Sequence[str] | None = None) -> Adapter:
    """The adapter for a model."""
    if hasattr(model, "predict_then_learn"):
        return Blocks(model, labels)
    if hasattr(model, "predict_one") and hasattr(model, "learn_one"):
        return Rows(model, labels, columns)
    raise TypeError(
        f"model must have predict_then_learn(X, y), or predict_one(x) and learn_one(x, y); a "
        f"{type(model).__name__} has neither"
    )


def predicts_labels(model: Any, y: NDArray[Any]) -> bool:
    """Whether a model is a classifier; if it does not tell, whether y is labels."""
    if hasattr(model, "__sklearn_tags__"):
        return bool(model.__sklearn_tags__().estimator_type == "classifier")
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if kinds & {"Classifier", "MultiLabelClassifier", "RunningMajority"}:
        return True
    if kinds & {"Regressor", "RunningMean"}:
        return False
    return y.dtype.kind in "bUSO"
