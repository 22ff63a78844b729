"""What an estimator around a learner passes on, so that it can whatever the learner can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pronk.estimators.faces.calls import own_lock
from pronk.estimators.faces.constraints import Parameters
from pronk.estimators.faces.inputs import check_given, check_length, refuse_lazy
from pronk.estimators.faces.showing import as_html
from pronk.parts.missing import labelled_runs, without_gaps, without_label
from pronk.streams.targets import Targets, joined

Array = NDArray[np.float64]


def has(name: str) -> Callable[[Any], bool]:
    """Whether the learner, if need be the one that has learned, has a method."""
    return lambda self: hasattr(self.__dict__.get("learner_", self.learner), name)


def _passed(name: str, words: str) -> Any:
    """A method of the learner on prepared rows, if the learner has it; it changes nothing."""

    def method(self: AroundLearner, X: Any, *more: Any, **options: Any) -> Any:
        self._check_fitted()
        with own_lock(self):
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

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: state[name] for name in state if name not in ("_lock", "_looked")}

    def _check_fitted(self) -> None:
        """scikit-learn's check, which takes its time, for its error only."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)

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


def count_rows(X: Any) -> int:
    """Rows of a frame, a table, an array or a list of rows."""
    shape = getattr(X, "shape", None)
    if shape:
        return int(shape[0])
    refuse_lazy(X)
    return int(X.num_rows) if hasattr(X, "num_rows") else len(X)


def missing_labels(y: Any, n: int) -> NDArray[np.bool_] | None:
    """Which of ``n`` rows have no label (None or NaN); None if all have one."""
    if type(y) is np.ndarray and y.dtype.kind in "biuUS":
        return None
    check_given(y)
    values = np.asarray(y)
    if values.ndim not in (1, 2):
        return None  # the learner refuses it
    check_length(values, n)
    return without_label(values)


class LearnerCall:
    """Give prepared rows to a learner, behind the scaling of its targets if there is one.

    ``learner`` is the learner after the call: during the first rows scaled targets make a new one.
    """

    def __init__(self, blank: Any, learner: Any, targets: Targets | None) -> None:
        self._blank = blank
        self.learner = learner
        self._targets = targets

    def learn(self, verb: str, X: Array, y: Any, options: dict[str, Any]) -> Any:
        """Call the method ``verb``, which learns the rows."""
        if self._targets is None:
            return getattr(self.learner, verb)(X, y, **options)
        self.learner, answer = self._targets.learn(self._blank, self.learner, X, y, options)
        return answer

    def learn_labelled(
        self,
        verb: str,
        X: Array,
        y: NDArray[Any],
        missing: NDArray[np.bool_],
        options: dict[str, Any],
    ) -> Any:
        """The same, where rows without a label are predicted and not learned."""
        output = options.get("output", "label")
        if output == "decision":
            row = int(np.argmax(missing))
            raise ValueError(
                f"y has no label (None or NaN) at row {row} (counting from 0), which "
                "output='decision' needs; leave the row out"
            )
        weights, answers, classes = options.get("sample_weight"), [], []
        for rows, unlabelled in labelled_runs(missing):
            own = options if weights is None else {**options, "sample_weight": weights[rows]}
            if unlabelled and verb == "predict_then_learn":
                answers.append(self.predicted(X[rows], y.shape[1:], own))
            elif not unlabelled:
                answers.append(self.learn(verb, X[rows], without_gaps(y[rows]), own))
            classes.append(self._classes())
        if verb != "predict_then_learn":
            return None
        if output in ("probability", "both"):
            return _with_all_classes(answers, classes)
        return joined(answers)

    def predicted(self, X: Array, outputs: tuple[int, ...], options: dict[str, Any]) -> Any:
        """Predict rows without learning, in the form that learning them would answer."""
        if hasattr(self.learner, "decision_function"):
            return self._predicted_labels(X, options.get("output", "label"))
        coverage = options.get("interval")
        if not self.learner.__sklearn_is_fitted__():
            values = np.zeros((len(X), *outputs))
            return values if coverage is None else (values, np.full((*values.shape, 2), np.nan))
        answer = self.learner.predict(X)
        if coverage is not None:
            answer = answer, self.learner.predict_interval(X, coverage)
        return answer if self._targets is None else self._targets.all_back(answer)

    def _predicted_labels(self, X: Array, output: str) -> Any:
        known = self.learner.__sklearn_is_fitted__()
        named = self.learner.predict(X) if known else np.full(len(X), None)
        if output == "label":
            return named
        shares = self.learner.predict_proba(X) if known else np.empty((len(X), 0))
        return shares if output == "probability" else (named, shares)

    def _classes(self) -> NDArray[Any]:
        fitted = hasattr(self.learner, "decision_function") and self.learner.__sklearn_is_fitted__()
        return self.learner.classes_ if fitted else np.empty(0)


def _with_all_classes(answers: list[Any], classes: list[NDArray[Any]]) -> Any:
    """Probabilities with a column for each of the last classes: 0 of one that was not known yet,
    NaN where none was."""
    paired = isinstance(answers[0], tuple)
    widened = []
    for answer, known in zip(answers, classes, strict=True):
        shares = answer[1] if paired else answer
        wide = np.full((len(shares), len(classes[-1])), 0.0 if len(known) else np.nan)
        wide[:, np.isin(classes[-1], known)] = shares
        widened.append((answer[0], wide) if paired else wide)
    return joined(widened)
