"""`Calibrated`: class probabilities that follow the outcomes, around any classifier.

A model's scores become a margin m in [-1, 1] per class, which is m = 2 p - 1 for a probability p
(of a predicted label 1, of the others 0; one below 0 counts as 0, and the sum as 1) and
m = d / (|d| + u) for a decision d, u the mean of |d| so far. Two slopes (a, b) then follow the log
loss by online Newton steps with a window of 500 rows (`Temperature` in
`pronk.aggregate.calibration`):

    P_k = exp(z_k) / sum_j exp(z_j),    z_k = a log((1 + m_k) / 2) + b m_k

a alone is temperature scaling of the probabilities. z increases with the margin, so the most
probable class stays the predicted one. For a model that predicts labels only, P is the share of
rows on which it was right lately.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pronk.aggregate.calibration import Temperature, newton_step
from pronk.columns.frames import count_rows
from pronk.compat.intervals import HELD, ModelWrapper
from pronk.compat.models import Scores, together, until_error
from pronk.core.runtime import limited
from pronk.core.state import require
from pronk.estimators.calls import own_lock
from pronk.estimators.classifier import LabelCalls, nothing_known
from pronk.estimators.labels import MAX_CLASSES, Labels

Array = NDArray[np.float64]


class Slopes(Temperature):
    """The slopes of margins over any number of classes, learned row by row."""

    def __init__(self) -> None:
        super().__init__(1)

    @property
    def current(self) -> Array:
        """The slopes (a, b)."""
        return self._slopes

    def learn_row(self, margins: Array, label: int) -> Array:
        """Learn the margins (classes,) of a row, of which ``label`` was right; return (a, b)."""
        used = self._slopes.copy()
        newton_step(np.ascontiguousarray(margins), label, self._slopes, self._H)
        return used


class Calibrated(LabelCalls, ModelWrapper):
    """Calibrated class probabilities around any classifier.

    Parameters
    ----------
    model : a classifier
        With ``partial_fit`` and ``predict`` (scikit-learn), ``learn_one`` and ``predict_one``
        (river), or a pronk learner. A copy of it learns, ``model_``. Probabilities, decisions or
        labels are calibrated, the first of these that it has.

    Its decisions are margins in [-1, 1]. Rows are learned in order, those of other libraries'
    models one at a time. A scikit-learn model
    must know all classes at its first row: they are ``classes`` of the first call of `partial_fit`,
    or the labels in that call.

    If a call raises, a pronk learner inside is rolled back. Other models cannot be; they have then
    learned the rows before the one that raised, and ``n_seen_`` counts them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import BernoulliNB
    >>> import pronk
    >>> rng = np.random.default_rng(0)
    >>> x = rng.integers(0, 2, 3000)
    >>> y = np.where(rng.uniform(size=3000) < 0.25, 1 - x, x)  # x is right three times in four
    >>> X = np.column_stack([x] * 5)  # naive Bayes counts the column five times
    >>> model = pronk.Calibrated(BernoulliNB()).partial_fit(X, y, classes=[0, 1])
    >>> plain, calibrated = (m.predict_proba([[1] * 5])[0, 1] for m in (model.model_, model))
    >>> print(f"{plain:.3f} becomes {calibrated:.2f}")
    0.994 becomes 0.74
    """

    _labels_expected = True

    # -- learning ---------------------------------------------------------------------------

    def _predict_then_learn(
        self, X: Any, y: Any, classes: Any, output: str, sample_weight: Any
    ) -> Any:
        with own_lock(self), limited:
            return self._whole(self._learn, X, y, classes, output, sample_weight)

    def _learn(self, X: Any, y: Any, classes: Any, output: str, sample_weight: Any) -> Any:
        n = count_rows(X)
        if not n:
            return self._no_rows(y, output)
        weights = self._checked_weights(y, n, sample_weight)
        learned = np.ones(n, dtype=bool) if weights is None else weights > 0.0
        missing = None if learned.all() else ~learned
        if output == "decision" and not learned.all():
            raise ValueError(
                f"y has no label (None or NaN), or weight 0, at row {int(learned.argmin())} "
                "(counting from 0), and output='decision' needs one; leave the row out"
            )
        before = self._known_labels(classes)
        first = not self.__sklearn_is_fitted__()
        if first and not learned.any() and not before.fixed:
            return nothing_known(n, output)
        values, known_from, after = before.receive(y, n, MAX_CLASSES, missing)
        if first:
            self._start(after.known if before.fixed or not hasattr(self.model, "encode") else None)
        parts, error = until_error(self._predictor_of().scores(self._encoded(X), values, weights))
        done = sum(len(part.values) for part in parts)
        if first and not learned[:done].any() and (error is not None or not before.fixed):
            self._reset()
        elif done:
            if done < n:
                learned = learned[:done]
                missing = None if weights is None else ~learned
                found = before.receive(y[:done], done, MAX_CLASSES, missing)
                values, known_from, after = found
            P, slopes = self._calibrate(together(parts), values, known_from, after, learned)
        if error is not None:
            raise error
        return self._answer(P, slopes, known_from, output)

    def _start(self, classes: NDArray[Any] | None) -> None:
        model = self._checked_copy()
        self.model_, self.n_seen_ = model, 0
        self._given_classes = None if classes is None else classes.tolist()
        self._slopes, self._decisions = Slopes(), np.zeros(2)  # count and sum of |d|

    def _reset(self) -> None:
        for name in HELD:
            self.__dict__.pop(name, None)

    def _calibrate(
        self, scores: Scores, values: NDArray[Any], known_from: NDArray[np.int64], after: Labels,
        learned: NDArray[np.bool_],
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn slopes from rows; return margins, as `Labels` places them, and slopes (n, 2)."""
        P, self._decisions = self._margins(scores, after, learned)
        slopes = np.empty((len(values), 2))
        own = np.searchsorted(after.known, values)
        columns = np.searchsorted(after.classes, after.known)
        for t in range(len(values)):
            known = np.flatnonzero((known_from <= t) | (np.arange(len(known_from)) == own[t]))
            if len(known) < 2 or not learned[t]:
                slopes[t] = self._slopes.current
                continue
            if len(after.classes) == 2:
                M = np.array([-P[t, 1], P[t, 1]])
            else:
                M = P[t, 1 + columns[known]]
            slopes[t] = self._slopes.learn_row(M, int(np.searchsorted(known, own[t])))
        self._labels = after
        self.n_seen_ += int(learned.sum())
        return P, slopes

    def _margins(self, scores: Scores, labels: Labels, learned: Any = False) -> tuple[Array, Array]:
        """Return margins (n, 1 + classes) behind a column of no meaning, and the decisions' sums.

        Two classes have the margin of the second one. Absent classes have the margin -1.
        """
        places = {label: j for j, label in enumerate(scores.classes)}
        found = [places.get(label, -1) for label in labels.classes.tolist()]
        values = np.zeros((len(scores.values), len(found)))
        there = [k for k, j in enumerate(found) if j >= 0]
        held = np.clip(np.nan_to_num(scores.values), -1e150, 1e150)
        values[:, there] = held[:, [found[k] for k in there]]
        sums = self._decisions
        if scores.kind == "decision":
            unknown = np.isnan(scores.values).all(axis=1)  # before the model has learned anything
            sizes = np.abs(held).mean(axis=1)
            own = np.column_stack((~unknown, sizes)) * np.reshape(learned, (-1, 1))
            counts, totals = (sums + np.cumsum(own, axis=0) - own).T
            sums = sums + own.sum(axis=0)
            unit = np.where(totals > 0.0, totals / np.maximum(counts, 1.0), 1.0)[:, None]
            margins = np.full(values.shape, -1.0)
            margins[:, there] = values[:, there] / (np.abs(values[:, there]) + unit)
            margins[unknown] = 0.0 if len(found) == 2 else -1.0
            second = margins[:, 1:2] if len(found) == 2 else margins
        else:
            values = np.maximum(values, 0.0)  # some models' probabilities are a little below 0
            total = values.sum(axis=1, keepdims=True)
            shares = np.divide(values, total, out=np.zeros_like(values), where=total > 0.0)
            margins = 2.0 * shares - 1.0
            second = shares[:, 1:2] - shares[:, :1] if len(found) == 2 else margins
        blank = np.zeros((len(values), 1))
        return np.hstack((blank, second[:, : len(found)] if len(found) > 1 else blank[:, :0])), sums

    def _answer(self, P: Array, slopes: Array, known_from: NDArray[np.int64], output: str) -> Any:
        labels = self._labels
        if output == "decision":
            return labels.decisions(P)
        named = labels.predicted(P, known_from) if output != "probability" else None
        if output == "label":
            return named

        def link(margins: Array, rows: slice) -> Array:
            return self._slopes.shares(margins, slopes[rows])

        shares = labels.probabilities(P, known_from, link)
        return shares if output == "probability" else (named, shares)

    # -- the current model --------------------------------------------------------------------

    def _predict(self, X: Any) -> Array:
        """Return the margins of rows that may come next."""
        check_is_fitted(self)
        if not count_rows(X):
            return np.empty((0, self._labels.outputs))
        return self._margins(self._predictor_of().predict_scores(self._encoded(X)), self._labels)[0]

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities (n, classes); the most probable class is the predicted one."""
        with own_lock(self):
            P = self._predict(X)
            known_from = np.zeros(len(self._labels.known), dtype=np.int64)

            def link(margins: Array, rows: slice) -> Array:
                return self._slopes.shares(margins)

            return self._labels.probabilities(P, known_from, link)

    # -- files ---------------------------------------------------------------------------------

    def _fitted_state(self) -> dict[str, Any]:
        with own_lock(self):
            return {
                **self._saved_model(),
                "labels": self._labels.to_state(),
                "slopes": self._slopes.to_state(),
                "decisions": self._decisions.copy(),
            }

    def _restore(self, state: Any) -> None:
        self._restore_model(state, {"labels", "slopes", "decisions"})
        self._labels = Labels.from_state(state["labels"], linear=True)
        self._given_classes = self._labels.known.tolist()
        self._slopes = Slopes()
        self._slopes.restore(state["slopes"])
        sums = state["decisions"]
        good = isinstance(sums, np.ndarray) and sums.shape == (2,) and sums.dtype == np.float64
        good = good and bool((sums >= 0.0).all() and (sums < 1e300).all())
        require(good, "decisions are not a count and a sum")
        self._decisions = sums.copy()

    def _try_out(self) -> None:
        super()._try_out()
        same = np.array_equal(self.model_.classes_, self._labels.known)
        require(same, "labels are not those of the model")
