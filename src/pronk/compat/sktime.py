"""A pronk regressor as a forecaster of sktime; sktime's own checks pass (``make sktime``)."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from sklearn.base import clone
from sktime.forecasting.base import BaseForecaster, ForecastingHorizon

import pronk


class PronkForecaster(BaseForecaster):
    """Forecast a series with a pronk regressor, which `update` teaches without a new fit.

    The learner reads past values by itself, so there are no lags to choose. A step is predicted as
    the row that lies so far ahead; quantiles and intervals are those of its errors.

    Parameters
    ----------
    learner : a pronk regressor, optional
        A copy of it learns, ``learner_``. Default: ``OnlineKernelRegressor(random_state=0)``. It
        needs quantiles for intervals: another one inside `pronk.Intervals`.

    Examples
    --------
    >>> from sktime.datasets import load_airline
    >>> from pronk.compat.sktime import PronkForecaster
    >>> y = load_airline()
    >>> forecaster = PronkForecaster().fit(y[:-12], fh=[1, 2, 3])
    >>> forecaster.predict().shape
    (3,)
    """

    _tags: ClassVar[dict[str, Any]] = {
        "y_inner_mtype": "pd.Series",
        "X_inner_mtype": "pd.DataFrame",
        "scitype:y": "univariate",
        "requires-fh-in-fit": False,
        "capability:exogenous": True,
        "capability:insample": False,
        "capability:update": True,
        "capability:pred_int": True,
        "capability:pred_int:insample": False,
    }

    def __init__(self, learner: Any = None) -> None:
        self.learner = learner
        super().__init__()

    def _fit(self, y: Any, X: Any, fh: Any) -> Self:
        default = pronk.OnlineKernelRegressor(random_state=0)
        self.learner_ = default if self.learner is None else clone(self.learner)
        return self._update(y, X)

    def _update(self, y: Any, X: Any = None, update_params: bool = True) -> Self:
        if update_params and len(y):
            self.learner_.partial_fit(_rows(X, len(y)), y.to_numpy(np.float64))
        return self

    def _ahead(self, fh: Any, X: Any) -> tuple[Any, Any]:
        """Return the rows of all steps up to the last one, and which of them are asked for."""
        steps = np.asarray(fh.to_relative(self.cutoff).to_numpy(), dtype=np.intp)
        if X is not None:  # rows between the steps may be absent
            every = ForecastingHorizon(np.arange(1, steps.max() + 1), is_relative=True)
            X = X.reindex(every.to_absolute_index(self.cutoff))
        return _rows(X, int(steps.max())), steps - 1

    def _predict(self, fh: Any, X: Any) -> Any:
        rows, places = self._ahead(fh, X)
        index = fh.to_absolute_index(self.cutoff)
        return pd.Series(self.learner_.predict(rows)[places], index=index, name=self._y.name)

    def _predict_quantiles(self, fh: Any, X: Any, alpha: Any) -> Any:
        rows, places = self._ahead(fh, X)
        found = self.learner_.predict_quantiles(rows, alpha)[places]
        columns = pd.MultiIndex.from_product([self._get_varnames(), alpha])
        return pd.DataFrame(found, index=fh.to_absolute_index(self.cutoff), columns=columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return the parameters that the checks of sktime use.

        A learner among them would fail the check of `set_params`: it is given a kernel together
        with the kernel's bandwidth, and expects the same kernel back.
        """
        return [{}, {"learner": None}]


def _rows(X: Any, n: int) -> Any:
    """Return the columns of X by name; one constant column if there are none."""
    if X is None:
        return np.zeros((n, 1))
    return X.set_axis([str(name) for name in X.columns], axis=1).reset_index(drop=True)
