"""What learners and `Prepared` have in common: their columns, one row, and the next rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pronk.columns.frames import Layout, count_rows
from pronk.columns.model import Columns, one_vector, table_of_dict


class WithColumns:
    """An estimator whose ``_columns`` are set by its first rows, or beforehand."""

    _columns: Columns

    def with_columns(
        self, names: Sequence[str] | None, kinds: Sequence[str], orders: Sequence[str] = ()
    ) -> Self:
        """Declare the columns before the first row, which may then be an array of numbers.

        ``kinds`` are "number", "boolean", "category", "time", "date" or "clock", and ``orders`` how
        dates with the year last are read; `FileStream` has both.
        """
        self._begin(Layout(None if names is None else tuple(names), tuple(kinds), tuple(orders)))
        return self

    def _begin(self, layout: Layout) -> None:
        """Set the columns by their layout."""
        raise NotImplementedError

    def _set_columns(self, columns: Columns) -> None:
        self._columns = columns
        self.n_features_in_ = len(columns.layout.kinds)
        if columns.layout.names is not None:
            self.feature_names_in_ = np.array(columns.layout.names, dtype=object)

    def _forget_columns(self) -> None:
        for name in ("_columns", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)

    @property
    def layout_(self) -> Layout:
        """Names and kinds of the columns, and how their dates are read."""
        return self._columns.layout

    def _one(self, x: Any) -> Any:
        """Return one row, a dict or a vector, as rows; an absent key is missing."""
        if not isinstance(x, Mapping):
            return one_vector(x)
        columns = self.__dict__.get("_columns")
        return table_of_dict(x) if columns is None else columns.layout.row(x)

    def predict_one(self: Any, x: Any) -> Any:
        """Predict the next row, a dict or a vector; before the first label 0, or None for a label.

        With several outputs the prediction is an array.
        """
        if not self.__sklearn_is_fitted__():
            return None if self._classifies else 0.0
        found = self.predict(self._one(x))[0]
        return found if self._classifies or np.ndim(found) else float(found)

    # -- in a notebook ---------------------------------------------------------------------------

    def _as_html(self) -> str:
        """Describe what was learned."""
        raise NotImplementedError

    def _repr_html_inner(self: Any) -> str:
        """Return what was learned; before that scikit-learn's diagram."""
        if self.__sklearn_is_fitted__():
            return str(self._as_html())
        return str(super()._repr_html_inner())  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_inner()}


# -- predictions of the next row, for each of several rows -----------------------------------------


def as_next(learner: Any) -> dict[str, bool]:
    """Return the option of `predict` and its kinds by which each row is the next one."""
    own = getattr(learner, "learner_", learner)
    return {"ahead": False} if getattr(own, "_looks_ahead", False) else {}


def before_labels(learner: Any, rows: int, outputs: tuple[int, ...] = ()) -> NDArray[Any]:
    """Return predictions before the first label: 0, or None for a label."""
    labels = learner.__sklearn_tags__().estimator_type == "classifier"
    return np.full(rows, None) if labels else np.zeros((rows, *outputs))


def predicted_as_next(
    learner: Any, X: Any, levels: Any = None, output: str = "label",
    outputs: tuple[int, ...] = (),
) -> Any:  # fmt: skip
    """Predict rows, each as the next one; return what `asked_for` does."""
    if learner.__sklearn_is_fitted__():
        return asked_for(learner, X, learner.predict(X, **as_next(learner)), levels, output)
    return asked_for(learner, X, before_labels(learner, count_rows(X), outputs), levels, output)


def asked_for(learner: Any, X: Any, found: Any, levels: Any, output: str = "label") -> Any:
    """Return predictions of rows with what is asked for beside them, or in their place.

    With ``levels`` the pair of predictions and quantiles, NaN before the first label; with
    ``output="probability"`` probabilities, with "both" the pair of labels and probabilities.
    """
    fitted = learner.__sklearn_is_fitted__()
    if levels is not None:
        if not fitted:
            return found, np.full((*np.shape(found), len(levels)), np.nan)
        return found, learner.predict_quantiles(X, levels, **as_next(learner))
    if output == "label":
        return found
    shares = np.empty((count_rows(X), 0))
    if fitted:
        shares = learner.predict_proba(X, **as_next(learner))
    return shares if output == "probability" else (found, shares)
