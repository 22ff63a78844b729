"""What a learner is, for those who call one or write one: a protocol and its promises.

Every estimator, and `Prepared`, `Intervals`, `Calibrated` and `Keyed` around any of them, keeps it.
`progressive`, `compare`, the command line and the service take whatever keeps it.

**Rows.** X is an array, a list of rows, a list of dicts, a pandas or polars frame, or Arrow. Text,
dates, booleans and gaps (None, NaN) are prepared; arrays of finite numbers pass through unchanged.
The first rows decide what the columns are (``columns_``). Named columns are matched by name, in any
order; further ones are ignored, and one that is missing raises. An absent key of a dict that is one
row is a gap. `encode` returns X as numbers that every method accepts in its place.

**Labels.** A row whose label is missing (None or NaN), or of weight 0, is predicted and not
learned. Before the first label that is learned a prediction is 0, or None.

**Promises.**

- All or nothing: a call that raises, or is interrupted, changes nothing.
- Any cut: cutting the rows into calls differently changes the predictions by rounding only.
- `predict` changes nothing. Its rows follow the stream in order, so that ``predict(X[:k])`` is the
  beginning of ``predict(X)``, and `predict_one` is the prediction of the next row.
- An option without a meaning for a learner (``times``, weights other than 0 and 1) raises one
  sentence that names it.
- A saved model continues to the same bits.

>>> import pronk
>>> from pronk.estimators.protocol import Learner
>>> isinstance(pronk.PKAWVRegressor(), Learner), isinstance(object(), Learner)
(True, False)
"""

from __future__ import annotations

from typing import Any, Protocol, Self, runtime_checkable


@runtime_checkable
class Learner(Protocol):
    """The methods that every learner and every wrapper around one has.

    Regressors of the default learner and `Intervals` also have ``predict_interval``, and
    ``interval=0.9`` of `predict_then_learn`; classifiers have ``classes_`` and, where they estimate
    them, ``predict_proba`` and ``output="both"``.
    """

    def predict_then_learn(self, X: Any, y: Any, /, **options: Any) -> Any:
        """Predict each row before its label is used, then learn it; return the predictions.

        Options: ``sample_weight``, ``times``; of some learners ``interval`` or ``output``.
        """
        ...

    def partial_fit(self, X: Any, y: Any, /, **options: Any) -> Self:
        """Learn the rows in order."""
        ...

    def fit(self, X: Any, y: Any, /, **options: Any) -> Self:
        """Forget everything, then learn the rows in order: one pass."""
        ...

    def predict(self, X: Any, /) -> Any:
        """Predict rows that follow the stream in order; change nothing."""
        ...

    def predict_one(self, x: Any, /) -> Any:
        """Predict the next row, a dict or a vector; an array if y has several columns."""
        ...

    def learn_one(self, x: Any, y: Any, /) -> Any:
        """Learn one row, a dict or a vector."""
        ...

    def score(self, X: Any, y: Any, /) -> float:
        """Return R2 of a regressor, the accuracy of a classifier."""
        ...

    def save(self, path: Any, /) -> None:
        """Write the model to a file, or those of keys to a folder; `pronk.load` reads it."""
        ...
