"""What learners and `Prepared` have in common: their columns, one row, and the next rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.metaestimators import available_if

from pronk.columns.frames import Layout, count_rows
from pronk.columns.model import Columns, one_vector, table_of_dict


class OneRow:
    """The calls for single rows, built on those for several; ``_one`` makes rows of one row."""

    def learn_one(self: Any, x: Any, y: Any, **options: Any) -> Any:
        """Learn one row, a dict or a vector."""
        return self.partial_fit(self._one(x), [y], **options)

    def predict_one(self: Any, x: Any) -> Any:
        """Predict the next row, a dict or a vector; before the first label 0, or None for a label.

        With several outputs the prediction is an array.
        """
        if not self.__sklearn_is_fitted__():
            return None if self._classifies else 0.0
        found = self.predict(self._one(x))[0]
        return found.item() if isinstance(found, np.generic) else found

    def with_layout(self: Any, layout: Layout) -> Any:
        """Declare the columns before the first row, as those of another model."""
        return self.with_columns(layout.names, layout.kinds, layout.orders)

    @available_if(lambda self: hasattr(self, "predict_proba"))
    def predict_proba_one(self: Any, x: Any) -> dict[Any, float]:
        """Return the probabilities of the next row by label; empty before the first label."""
        if not self.__sklearn_is_fitted__():
            return {}
        shares = self.predict_proba(self._one(x))[0]
        return dict(zip(self.classes_.tolist(), shares.tolist(), strict=True))


class Around:
    """A wrapper: fitted attributes that it does not have are those of the learner inside."""

    #: The name of the attribute that holds the learner.
    _inside: ClassVar[str] = "learner_"

    def __getattr__(self, name: str) -> Any:
        """Return a fitted attribute of the learner: ``classes_``, ``size_``, ``n_seen_``, .."""
        inner = self.__dict__.get(self._inside)
        public = not name.startswith("_") and (name.endswith("_") or name == "certificate")
        if inner is None or not public:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(inner, name)


class WithColumns(OneRow):
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


# -- predictions of the next row, for each of several rows -----------------------------------------


def as_next(learner: Any) -> dict[str, bool]:
    """Return the option of `predict` and its kinds by which each row is the next one."""
    own = getattr(learner, "learner_", learner)
    return {"ahead": False} if getattr(own, "_looks_ahead", False) else {}


def before_labels(learner: Any, rows: int, outputs: tuple[int, ...] = ()) -> NDArray[Any]:
    """Return predictions before the first label: 0, or None for a label."""
    labels = learner.__sklearn_tags__().estimator_type == "classifier"
    return np.full(rows, None) if labels else np.zeros((rows, *outputs))


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
