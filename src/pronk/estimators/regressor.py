"""The interface of all learners of real numbers."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import RegressorMixin

from pronk.columns.frames import count_rows
from pronk.core.arrays import Array
from pronk.core.state import MOST, checked_count, require
from pronk.estimators.calls import rolled_back
from pronk.estimators.estimator import OnlineLearner
from pronk.estimators.inputs import check_targets, check_weights, known_targets, with_times


class OnlineRegressor(RegressorMixin, OnlineLearner):
    """A learner of real numbers; several outputs where y has several columns."""

    _several_outputs: ClassVar[bool] = True
    _fits_few_rows_poorly: ClassVar[bool] = False

    @rolled_back
    def predict_then_learn(
        self, X: Any, y: Any, *, sample_weight: Any = None, times: Any = None
    ) -> Array:
        """Predict each row, then learn it, in order; return the predictions.

        Before the first label that is learned, a prediction is 0: the model knows nothing yet. A
        row whose label is missing (None or NaN) is predicted and not learned. ``times`` are the
        times of the rows, for learners in which older rows fade by time.
        """
        sample_weight = with_times(sample_weight, times)
        y, sample_weight = known_targets(y, sample_weight, n := count_rows(X))
        checked = check_weights(sample_weight, n)
        rows = self._rows(X, checked, learns=True)
        Y = check_targets(y, rows.shape[0])
        if not len(Y):
            return Y
        outputs = 1 if Y.ndim == 1 else Y.shape[1]
        self._check_outputs(Y.ndim, outputs)
        weights = self._check_weights(sample_weight, len(Y))
        if not self.__sklearn_is_fitted__():
            self._start(rows.shape[1], outputs)
            self._flat, self._outputs = Y.ndim == 1, outputs
        given = () if weights is None else (weights,)
        P = self._pass(rows, Y.reshape(len(Y), outputs), *given)
        return P[:, 0] if self._flat else P

    def _check_outputs(self, dimensions: int, outputs: int) -> None:
        """Raise a ValueError if y has another number of columns than the learner."""
        if dimensions == 2 and not self._several_outputs and outputs > 1:
            raise ValueError(f"y has {outputs} columns; this learner has one output")
        if self.__sklearn_is_fitted__() and outputs != self._outputs:
            raise ValueError(
                f"y has {outputs} columns; the learner was started with {self._outputs}"
            )

    def partial_fit(self, X: Any, y: Any, *, sample_weight: Any = None, times: Any = None) -> Self:
        """Learn the rows in order."""
        self.predict_then_learn(X, y, sample_weight=sample_weight, times=times)
        return self

    def predict(self, X: Any) -> Array:
        """Predict with the current model, 0 before the first label is learned; change nothing."""
        P = self._predict(X)
        return P[:, 0] if self._flat else P

    def _gather_state(self) -> dict[str, Any]:
        return {**super()._gather_state(), "flat": self._flat, "outputs": self._outputs}

    _FIELDS = (*OnlineLearner._FIELDS, "flat", "outputs")

    def _restore_outputs(self, state: dict[str, Any]) -> int:
        require(type(state["flat"]) is bool, "flat is not true or false")
        self._flat = state["flat"]
        most = MOST if self._several_outputs else 1
        self._outputs = checked_count(state["outputs"], "outputs", 1, 1 if self._flat else most)
        return self._outputs

    def _trial_targets(self, rows: int) -> Any:
        return np.zeros(rows if self._flat else (rows, self._outputs))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._several_outputs
        tags.target_tags.single_output = True
        tags.regressor_tags.poor_score = self._fits_few_rows_poorly
        return tags
