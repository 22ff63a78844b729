"""Intervals of regressors that predict quantiles: pairs of quantiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pronk.aggregate.calibration import check_levels, ends_of
from pronk.core.arrays import Array


def check_has_quantiles(learner: Any, options: Mapping[str, Any]) -> None:
    """Raise if ``options`` of a pass ask for intervals or quantiles that the learner does not have.

    The learner may have no rows yet.
    """
    asked = [name for name in ("interval", "quantiles") if options.get(name) is not None]
    if asked and not hasattr(learner, "predict_quantiles"):
        name, classifies = type(learner).__name__, hasattr(learner, "decision_function")
        raise ValueError(
            f"{asked[0]}: {name} is a classifier; it has probabilities"
            if classifies
            else f"{asked[0]}: {name} has no quantiles; the default learner has, and "
            "pronk.Intervals around any regressor"
        )


class QuantileRegressor:
    """A regressor with `predict_quantiles`, and `predict_then_learn` with ``interval``."""

    __sklearn_is_fitted__: Callable[[], bool]
    _one: Callable[[Any], Any]
    _flat: bool

    def predict_quantiles(
        self, X: Any, quantiles: Any = (0.1, 0.5, 0.9), *, ahead: bool | None = None
    ) -> Array:
        """Return quantiles of y (n, q), or (n, outputs, q), by the current model.

        A column per level of ``quantiles``, in their order; y lies below it with that probability.
        Levels lie in [0.001, 0.999]; a larger level has no smaller quantile. NaN before two rows
        were learned: no error is known yet. The rows follow the stream in order, as in `predict`,
        which also has ``ahead``.
        """
        levels = check_levels(quantiles)
        found = self._predict_quantiles(X, levels, ahead)
        return found[:, 0] if self._flat else found

    def _predict_quantiles(self, X: Any, levels: Array, ahead: bool | None) -> Array:
        """Return quantiles (n, outputs, q)."""
        raise NotImplementedError

    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, ahead: bool | None = None
    ) -> Array:
        """Return intervals (n, 2), or (n, outputs, 2), that contain y with the given probability.

        Their ends are the quantiles at (1 - coverage) / 2 and (1 + coverage) / 2. They follow
        earlier errors on similar rows, and the misses, so that long-run coverage is correct on any
        stream. Intervals of a larger coverage contain those of a smaller one.
        """
        return self.predict_quantiles(X, ends_of(coverage), ahead=ahead)

    def predict_interval_one(self, x: Any, coverage: float = 0.9) -> Any:
        """Return the interval of the next row, a dict or a vector, as a pair of numbers.

        With several outputs it is an array (outputs, 2); NaN before two rows are learned.
        """
        levels = ends_of(coverage)
        if not self.__sklearn_is_fitted__():
            return float("nan"), float("nan")
        found = self.predict_quantiles(self._one(x), levels)[0]
        return found if found.ndim == 2 else tuple(found.tolist())
