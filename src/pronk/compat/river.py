"""pronk's learners as river's: a dict a row, features that come and go.

A pronk learner has a fixed number of columns, a river model meets new features at any time. The
wrapper keeps a table of names and columns. The names of the first learned row get the first
columns, in sorted order, so that the order of a dict never matters; ``spare`` more columns wait,
empty, for names that come later; names beyond those are ignored, with one warning. A feature that a
row has not counts as 0, as in river's own linear models.

An empty column adds nothing to distances and inner products, so waiting columns change no
prediction of a kernel learner. They cost time: the features of a Taylor embedding grow as
(columns)^degree, so declare ``features`` there, or set ``spare=0``.

Needs the package river (``pip install 'pronk[river]'``).
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import base
from sklearn.base import clone

from pronk.estimators.base import OnlineClassifier, OnlineLearner, OnlineRegressor
from pronk.estimators.pkawv import PKAWVClassifier, PKAWVRegressor

Row = Mapping[Any, Any]


def wrap(
    learner: OnlineLearner, features: Sequence[Any] | None = None, spare: int = 4
) -> RiverRegressor | RiverClassifier:
    """A river model that learns with a copy of a pronk learner.

    Parameters
    ----------
    learner : a pronk regressor or classifier; what it has learned is not taken over
    features : names, optional
        Exactly these features are used, all others are ignored.
    spare : int, default 4
        Without ``features``: columns kept for features that the first row has not.

    Examples
    --------
    >>> from river import compose, datasets, evaluate, metrics, preprocessing
    >>> import pronk
    >>> from pronk.compat.river import wrap
    >>> learner = pronk.PKAWVClassifier(pronk.Gaussian(2.0), random_state=0)
    >>> model = compose.Pipeline(preprocessing.StandardScaler(), wrap(learner))
    >>> print(evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy()))
    Accuracy: 90.31%
    """
    if isinstance(learner, OnlineClassifier):
        return RiverClassifier(learner, features, spare)
    if isinstance(learner, OnlineRegressor):
        return RiverRegressor(learner, features, spare)
    raise TypeError(f"learner must be a pronk regressor or classifier, got {learner!r}")


class _Columns:
    """Which feature stands in which column."""

    def __init__(self, features: Sequence[Any] | None, spare: int) -> None:
        self.places: dict[Any, int] = {}
        self.width = 0
        self._fixed = features is not None
        self._spare = spare
        self._warned = False
        if features is not None:
            self.places = {name: i for i, name in enumerate(dict.fromkeys(features))}
            self.width = len(self.places)

    def learn(self, x: Row) -> None:
        """Give columns to names that are new."""
        if self._fixed:
            return
        new = [name for name in x if name not in self.places]
        if not new:
            return
        new.sort(key=lambda name: (type(name).__name__, name))
        if not self.width:
            self.width = len(new) + self._spare
        for name in new:
            if len(self.places) < self.width:
                self.places[name] = len(self.places)
            elif not self._warned:
                self._warned = True
                warnings.warn(
                    f"feature {name!r} is ignored: all {self.width} columns are taken; give "
                    "features=[..] or a larger spare=",
                    stacklevel=4,
                )

    def row(self, x: Row) -> NDArray[np.float64]:
        """A row of the learner; what is not in x is 0, what has no column is left out."""
        row = np.zeros((1, self.width))
        places = self.places
        for name, value in x.items():
            place = places.get(name)
            if place is not None:
                row[0, place] = value
        return row


class _Wrapped:
    """What regressors and classifiers share."""

    learner: Any
    features: Sequence[Any] | None
    spare: int

    def _set_up(self, learner: Any, features: Sequence[Any] | None, spare: int) -> None:
        if spare < 0:
            raise ValueError(f"spare must be 0 or more, got {spare}")
        self.learner = learner
        self.features = features
        self.spare = spare
        self._learner = clone(learner)
        self._columns = _Columns(features, spare)

    def _learn(self, x: Row, y: Any) -> None:
        self._columns.learn(x)
        if self._columns.width:
            self._learner.partial_fit(self._columns.row(x), [y])

    @property
    def _started(self) -> bool:
        return bool(self._learner.__sklearn_is_fitted__())

    @property
    def fitted_learner(self) -> Any:
        """The pronk learner behind, to save or to look into; its columns are in ``columns``."""
        return self._learner

    @property
    def columns(self) -> dict[Any, int]:
        """The column of each feature."""
        return dict(self._columns.places)


class RiverRegressor(_Wrapped, base.Regressor):
    """A pronk regressor as a river regressor; see `wrap`.

    Parameters
    ----------
    learner
        A pronk regressor; the model learns with a copy of it.
    features
        Names of the features to use; those of the first row and ``spare`` more if not given.
    spare
        Columns kept for features that come later.
    """

    def __init__(
        self, learner: OnlineRegressor, features: Sequence[Any] | None = None, spare: int = 4
    ) -> None:
        self._set_up(learner, features, spare)

    def learn_one(self, x: Row, y: float) -> None:
        """Learn one row."""
        self._learn(x, float(y))

    def predict_one(self, x: Row) -> float:
        """Predict one row; 0 before the first row is learned."""
        if not self._started:
            return 0.0
        return float(self._learner.predict(self._columns.row(x))[0])

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": PKAWVRegressor(random_state=0)}


class RiverClassifier(_Wrapped, base.Classifier):
    """A pronk classifier as a river classifier; see `wrap`.

    ``predict_proba_one`` needs a learner with probabilities, such as one with ``loss="logistic"``.

    Parameters
    ----------
    learner
        A pronk classifier; the model learns with a copy of it.
    features
        Names of the features to use; those of the first row and ``spare`` more if not given.
    spare
        Columns kept for features that come later.
    """

    def __init__(
        self, learner: OnlineClassifier, features: Sequence[Any] | None = None, spare: int = 4
    ) -> None:
        self._set_up(learner, features, spare)

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Row, y: Any) -> None:
        """Learn one row."""
        self._learn(x, y)

    def predict_one(self, x: Row, **kwargs: Any) -> Any:
        """The label of one row; None before the first row is learned."""
        if not self._started:
            return None
        return self._learner.predict(self._columns.row(x))[0].item()

    def predict_proba_one(self, x: Row, **kwargs: Any) -> dict[Any, float]:
        """Probabilities of the labels known so far."""
        if not hasattr(self._learner, "predict_proba"):
            raise NotImplementedError(f"{type(self.learner).__name__} has no probabilities")
        if not self._started:
            return {}
        chances = self._learner.predict_proba(self._columns.row(x))[0].tolist()
        labels = self._learner.classes_.tolist()
        if len(labels) == 1:  # one label seen: nothing else is known
            return {labels[0]: 1.0}
        return dict(zip(labels, chances, strict=True))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"learner": PKAWVClassifier(random_state=0)}
