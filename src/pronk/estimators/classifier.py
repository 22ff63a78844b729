"""The interface of all learners of labels, whose classes may be discovered during the stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pronk.columns.frames import count_rows
from pronk.core.arrays import Array
from pronk.core.runtime import limited
from pronk.estimators.calls import own_lock, rolled_back
from pronk.estimators.estimator import OnlineLearner
from pronk.estimators.inputs import (
    Interval,
    check_given,
    check_length,
    check_weights,
    learned_only,
    missing_labels,
    parameter,
    with_times,
)
from pronk.estimators.labels import MAX_CLASSES, Labels, MulticlassLabels

#: What `predict_then_learn` may return.
OUTPUTS = ("label", "decision", "probability", "both")


class LabelCalls(ClassifierMixin):
    """The calls of learners of labels, for those of pronk and for `Calibrated`.

    A subclass has ``_predict_then_learn``, and ``_predict``, which returns scores as ``_labels``
    places them.
    """

    _linear_in_targets: ClassVar[bool] = True
    _labels_kind: ClassVar[type[Labels]] = Labels
    _labels: Labels
    _predict_then_learn: Callable[..., Any]
    _predict: Any
    __sklearn_is_fitted__: Callable[[], bool]

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels given so far, in rows or as ``classes=``, sorted."""
        check_is_fitted(self)
        return self._labels.known

    def predict_then_learn(
        self, X: Any, y: Any, output: str = "label", *, sample_weight: Any = None,
        times: Any = None,
    ) -> Any:  # fmt: skip
        """Predict each row, then learn it, in order; return the predicted labels.

        A prediction is a label of an earlier row, or one of ``classes=``. Before the first label
        it is None, in an array of objects. A row whose label is missing (None or NaN) is predicted
        and not learned. ``output="decision"`` returns the margins (n,), or
        (n, classes) for three classes or more. ``output="probability"``, where the learner has
        `predict_proba`, returns (n, classes), the classes being ``classes_`` after the call (NaN
        before any label is known, 0 for a class that was not known yet). ``output="both"`` returns
        the pair of labels and probabilities.
        """
        if output not in OUTPUTS:
            raise ValueError(f"output must be one of {', '.join(OUTPUTS)}; got {output!r}")
        if output in ("probability", "both") and not hasattr(self, "predict_proba"):
            raise ValueError(
                f"output={output!r}: {type(self).__name__} has no probabilities here; the default "
                "learner has them, AIOLIClassifier, and learners with loss='logistic'"
            )
        weights = with_times(sample_weight, times)
        return self._predict_then_learn(X, y, None, output, weights)

    def partial_fit(
        self, X: Any, y: Any, classes: Sequence[Any] | None = None, *, sample_weight: Any = None,
        times: Any = None,
    ) -> Self:  # fmt: skip
        """Learn the rows in order. ``classes`` in the first call fixes the list of labels."""
        weights = with_times(sample_weight, times)
        self._predict_then_learn(X, y, classes, "label", weights)
        return self

    def decision_function(self, X: Any) -> Array:
        """Return margins of the current model, (n,) or (n, classes); >= 0 means ``classes_[1]``."""
        with own_lock(self):  # the classes must be those of the scores
            P = self._predict(X)  # first, because it raises if the learner is not fitted
            return self._labels.decisions(P)

    def predict(self, X: Any) -> NDArray[Any]:
        """Predict labels with the current model; changes nothing."""
        with own_lock(self), limited:
            P = self._predict(X)
            return self._labels.predicted(P)

    def _no_rows(self, y: Any, output: str) -> Any:
        """Return the output of a call without rows."""
        check_given(y)
        check_length(y, 0)
        known = self.classes_ if self.__sklearn_is_fitted__() else np.empty(0, dtype=object)
        named, shares = known[:0], np.empty((0, len(known)))
        if output == "decision":
            return shares if len(known) > 2 else np.empty(0)
        return {"label": named, "probability": shares, "both": (named, shares)}[output]

    def _known_labels(self, classes: Sequence[Any] | None) -> Labels:
        """Return the labels before a call; raise if ``classes`` differ from them."""
        if not self.__sklearn_is_fitted__():
            return self._labels_kind(classes, linear=self._linear_in_targets)
        if classes is not None and not np.array_equal(np.unique(classes), self._labels.known):
            raise ValueError(
                f"classes={list(classes)} differ from the classes known so far, "
                f"{self._labels.known.tolist()}"
            )
        return self._labels


class OnlineClassifier(LabelCalls, OnlineLearner):
    """A learner of labels, given beforehand (``classes``) or discovered during the stream.

    Every classifier has the parameter ``max_classes`` (default 1,000): a call with one more label
    raises, because every class takes time and memory as an output of its own.
    ``_linear_in_targets`` is whether further outputs cost nothing (see `labels`).
    """

    max_classes: int = parameter(Interval(Integral, 2, None, closed="left"), default=MAX_CLASSES)

    @rolled_back
    def _predict_then_learn(
        self, X: Any, y: Any, classes: Sequence[Any] | None, output: str, sample_weight: Any = None
    ) -> Any:
        """Check a call, predict then learn its rows, and return the output."""
        missing = missing_labels(y, n := count_rows(X))
        sample_weight = learned_only(sample_weight, missing, n)
        if missing is not None and output == "decision":
            raise ValueError(
                f"y has no label (None or NaN) at row {int(missing.argmax())} (counting from 0), "
                "which output='decision' needs; leave the row out"
            )
        rows = self._rows(X, check_weights(sample_weight, n), learns=True)
        labels = self._known_labels(classes)
        if not rows.shape[0]:
            return self._no_rows(y, output)
        if len(labels.classes) > max(self.max_classes, 2):
            raise ValueError(
                f"classes has {len(labels.classes):,} labels, more than "
                f"max_classes={self.max_classes}; set a larger one"
            )
        if missing is not None and missing.all() and not len(labels.known):
            self._forget_columns()
            return nothing_known(n, output)
        values, known_from, after = labels.receive(y, n, self.max_classes, missing)
        weights = self._check_weights(sample_weight, rows.shape[0])
        given = () if weights is None else (weights,)
        learned = np.arange(n) if weights is None else np.flatnonzero(weights.reshape(n, -1)[:, 0])
        known_from = self._known_from(known_from, labels, after, values[learned], learned)
        if not self.__sklearn_is_fitted__():
            self._start(rows.shape[1], labels.outputs)
        P = self._learn_labels(rows, values, labels, after, *given)
        self._labels = after
        if output == "decision":
            return after.decisions(P)
        named = after.predicted(P, known_from) if output != "probability" else None
        if output == "label":
            return named
        shares = after.probabilities(P, known_from, self._link)
        return shares if output == "probability" else (named, shares)

    def _known_from(
        self, known_from: NDArray[np.int64], labels: Labels, after: Labels, learned: NDArray[Any],
        rows: NDArray[np.intp],
    ) -> NDArray[np.int64]:  # fmt: skip
        """Return the first rows of a call that may be predicted each class of ``after``.

        ``learned`` has the labels of the rows that are learned, ``rows`` their places in the call.
        """
        return known_from

    @property  # type: ignore[misc]
    def _outputs(self) -> int:  # type: ignore[override]
        return self._labels.outputs

    def _link(self, margins: Array, rows: slice | None = None) -> Array:
        """Return P(+1) of each margin; ``rows`` are rows of the last call, as of their time."""
        return np.asarray(expit(margins))

    def _learn_labels(
        self, rows: Any, values: NDArray[Any], labels: Labels, after: Labels, *weights: Array
    ) -> Array:
        """Predict then learn rows with which the known ``labels`` become ``after``."""
        if after.classes is not labels.classes:
            self._model.remap(labels.matrix(after))
        return self._pass(rows, after.targets(values), *weights)

    @available_if(lambda self: getattr(self, "loss", None) == "logistic")
    def predict_proba(self, X: Any) -> Array:
        """Return probabilities (n, classes) of the logistic link, normalised over the classes."""
        with own_lock(self):
            return self._normalised(self._link(np.atleast_2d(self.decision_function(X).T).T))

    def _normalised(self, positive: Array) -> Array:
        """Return probabilities (n, classes) from those of the classes' outputs, (n, outputs)."""
        if len(self.classes_) == 1:
            return np.ones((len(positive), 1))
        if positive.shape[1] == 1:
            positive = np.hstack((1.0 - positive, positive))
        return np.asarray(positive / positive.sum(axis=1, keepdims=True))

    def _first_output(self) -> int:
        return self._labels.ones if len(self._labels.classes) > 1 else 0

    def _gather_state(self) -> dict[str, Any]:
        return {**super()._gather_state(), "labels": self._labels.to_state()}

    _FIELDS = (*OnlineLearner._FIELDS, "labels")

    def _restore_outputs(self, state: dict[str, Any]) -> int:
        linear = self._linear_in_targets
        self._labels = self._labels_kind.from_state(state["labels"], linear=linear)
        return self._labels.outputs

    def _trial_targets(self, rows: int) -> Any:
        return np.resize(self._labels.known, rows)


def nothing_known(n: int, output: str) -> Any:
    """Return the output of rows without a label, before the first label."""
    named, shares = np.full(n, None), np.empty((n, 0))
    return {"label": named, "probability": shares, "both": (named, shares)}[output]


class MulticlassClassifier(OnlineClassifier):
    """A classifier that learns several classes as one problem, not as one class against the rest.

    Its engine has one output for two classes, and one per class for three or more; its targets are
    those of `MulticlassLabels`.
    """

    _linear_in_targets: ClassVar[bool] = False
    _labels_kind: ClassVar[type[Labels]] = MulticlassLabels

    def _learn_labels(
        self, rows: Any, values: NDArray[Any], labels: Any, after: Any, *weights: Array
    ) -> Array:
        """Learn the rows between two new classes at a time; return a score per class known last."""
        parts: list[tuple[NDArray[Any], Array]] = []  # classes, and scores of their rows
        weights_of = lambda start, stop: [one[start:stop] for one in weights]  # noqa: E731
        start = 0
        for row, new in labels.steps(values):
            if row > start:
                Y = labels.targets(values[start:row])
                own = weights_of(start, row)
                parts.append((labels.classes, self._pass(rows[start:row], Y, *own)))
            matrix = labels.matrix(new)
            self._model.remap(matrix)
            if labels.outputs == 1:
                parts = [(new.classes, P @ matrix) for _, P in parts]
            labels, start = new, row
        last = self._pass(rows[start:], labels.targets(values[start:]), *weights_of(start, None))
        if not parts:
            return last
        scores = np.zeros((len(values), last.shape[1]))
        start = 0
        for classes, P in [*parts, (labels.classes, last)]:
            places = np.searchsorted(labels.classes, classes) if P.shape[1] > 1 else [0]
            scores[start : start + len(P), places] = P
            start += len(P)
        return scores
