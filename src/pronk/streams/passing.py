"""What an estimator around a learner passes on, so that it can whatever the learner can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pronk.estimators.faces.constraints import Parameters
from pronk.estimators.faces.showing import as_html

Array = NDArray[np.float64]


def has(name: str) -> Callable[[Any], bool]:
    """Whether the learner, if need be the one that has learned, has a method."""
    return lambda self: hasattr(self.__dict__.get("learner_", self.learner), name)


def _passed(name: str, words: str) -> Any:
    """A method of the learner on prepared rows, if the learner has it; it changes nothing."""

    def method(self: AroundLearner, X: Any, *more: Any, **options: Any) -> Any:
        check_is_fitted(self)
        return getattr(self.learner_, name)(self._transformed(X), *more, **options)

    method.__name__, method.__doc__ = name, words
    return available_if(has(name))(method)


class AroundLearner(Parameters):
    """Around ``learner``, of which a copy learns, ``learner_``: its methods on rows that the class
    makes of those given (`_transformed`), its attributes, its tags, its picture in a notebook."""

    learner: Any
    learner_: Any

    def predict(self, X: Any, **options: Any) -> Any:
        raise NotImplementedError

    def _transformed(self, X: Any) -> Array:
        """The rows that the learner would see if they came next."""
        raise NotImplementedError

    def _seen(self) -> dict[str, str]:
        """What a notebook tells of the class itself."""
        raise NotImplementedError

    decision_function = _passed(
        "decision_function", "Margins by the current model; changes nothing."
    )
    predict_proba = _passed("predict_proba", "Probabilities by the current model; changes nothing.")
    predict_interval = _passed(
        "predict_interval", "Intervals by the current model; changes nothing."
    )

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy of a classifier, R2 of a regressor, by the current model."""
        measure = accuracy_score if self._classifies else r2_score
        return float(measure(y, self.predict(X), sample_weight=sample_weight))

    @property
    def _classifies(self) -> bool:
        return bool(self.learner.__sklearn_tags__().estimator_type == "classifier")

    def __getattr__(self, name: str) -> Any:
        """What the learner has learned: ``classes_``, ``size_``, ``n_seen_``, .."""
        learner = self.__dict__.get("learner_")
        public = not name.startswith("_") and (name.endswith("_") or name == "certificate")
        if learner is None or not public:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(learner, name)

    def __sklearn_is_fitted__(self) -> bool:
        learner = self.__dict__.get("learner_")
        return learner is not None and bool(learner.__sklearn_is_fitted__())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self.learner.__sklearn_tags__()
        for name in ("estimator_type", "target_tags", "classifier_tags", "regressor_tags"):
            setattr(tags, name, getattr(inner, name))
        return tags

    def _repr_html_inner(self) -> str:
        """What was learned, for a notebook; before that scikit-learn's diagram."""
        if not self.__sklearn_is_fitted__():
            diagram: str = super()._repr_html_inner()
            return diagram
        return as_html(self.learner_, self._seen())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_inner()}
