"""The face of all learners of labels, also of classes that are discovered on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pronk.estimators.faces.base import OnlineLearner
from pronk.estimators.faces.inputs import keep_keys, one_row
from pronk.estimators.faces.labels import Labels
from pronk.parts.threads import limited

Array = NDArray[np.float64]


class OnlineClassifier(ClassifierMixin, OnlineLearner):
    """A learner of labels, known beforehand (``classes``) or discovered on the way.

    ``_linear_in_targets`` says whether several outputs come at no cost (see `labels`).
    """

    _linear_in_targets: ClassVar[bool] = True

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels known so far, sorted."""
        check_is_fitted(self)
        return self._labels.classes

    def predict_then_learn(self, X: Any, y: Any, output: str = "label") -> NDArray[Any]:
        """Walk the rows in order; return what was predicted before each row's label was used.

        ``output="decision"`` gives the margins (n,), or (n, classes) for three classes or more.
        """
        if output not in ("label", "decision"):
            raise ValueError(f"output must be 'label' or 'decision', got {output!r}")
        return self._walk(X, y, None, output)

    def _walk(self, X: Any, y: Any, classes: Sequence[Any] | None, output: str) -> NDArray[Any]:
        with self._all_or_nothing():
            rows = self._rows(X)
            labels = self._known_labels(classes)
            values, stages, after = labels.receive(y, rows.shape[0])
            if not self.__sklearn_is_fitted__():
                self._start(rows.shape[1], labels.outputs)
            P = self._learn_labels(rows, values, labels, after)
            self._labels = after
            if output == "decision":
                return after.decisions(P)
            return after.name(P, stages, values.dtype)

    def _learn_labels(
        self, rows: Any, values: NDArray[Any], labels: Labels, after: Labels
    ) -> Array:
        """Predict then learn rows whose labels turn the known ``labels`` into ``after``."""
        if after.classes is not labels.classes:
            self._model.remap(labels.matrix(after))
        return self._pass(rows, after.targets(values))

    def _known_labels(self, classes: Sequence[Any] | None) -> Labels:
        if not self.__sklearn_is_fitted__():
            return Labels(classes, linear=self._linear_in_targets)
        if classes is not None and not np.array_equal(np.unique(classes), self._labels.classes):
            raise ValueError(
                f"classes={list(classes)} differ from the classes known so far, "
                f"{self._labels.classes.tolist()}"
            )
        return self._labels

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | None = None) -> Self:
        """Learn the rows in order. ``classes`` in the first call fixes the list of labels."""
        self._walk(X, y, classes, "label")
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then learn the rows in order: one pass."""
        self._reset()
        return self.partial_fit(X, y)

    def decision_function(self, X: Any) -> Array:
        """Margins of the current model, (n,) or (n, classes); >= 0 means ``classes_[1]``."""
        P = self._predict(X)
        return self._labels.decisions(P)

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels by the current model; changes nothing."""
        P = self._predict(X)
        with limited:
            return self._labels._name_rows(P, self._labels.classes)

    @available_if(lambda self: getattr(self, "loss", None) == "logistic")
    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, classes) by the logistic link; for three classes or more normalised."""
        positive = expit(np.atleast_2d(self.decision_function(X).T).T)
        if positive.shape[1] == 1:
            positive = np.hstack((1.0 - positive, positive))
        return np.asarray(positive / positive.sum(axis=1, keepdims=True))

    def _first_output(self) -> int:
        return self._labels.ones if len(self._labels.classes) > 1 else 0

    def learn_one(self, x: Any, y: Any) -> Self:
        """Learn one row, a dict or a vector."""
        self.partial_fit(one_row(self, x), [y])
        keep_keys(self, x)
        return self

    def predict_one(self, x: Any) -> Any:
        """Predict one row, a dict or a vector; None before the first row is learned."""
        if not self.__sklearn_is_fitted__():
            return None
        return self.predict(one_row(self, x))[0]

    def _fitted_state(self) -> dict[str, Any]:
        return {**super()._fitted_state(), "labels": self._labels.to_state()}

    def _restore(self, state: dict[str, Any], outputs: int = 1) -> None:
        self._labels = Labels.from_state(state["labels"])
        super()._restore(state, self._labels.outputs)
