"""The default learner: no parameters to tune, scale-free, for stationary and drifting streams.

A bandwidth cannot be tuned on a stream that has not arrived. So many ridge regressions run at once
on one shared dictionary, and their predictions, clipped to the range of the targets, are
aggregated: exponential weights at the exp-concave rate of the squared loss, ridge regression on the
experts' predictions, and exponential weights over the two (`pronk.aggregate.mixture` has the
formulas and the bounds).

The experts differ in what they read of a row (`pronk.aggregate.settings`: the columns as scaled,
with the Gaussian kernel; each times its relevance, with the Laplacian kernel; the directions along
which a fit of the first rows changes, with the Gaussian kernel; the columns with lagged targets,
where targets are correlated in time) and in bandwidth (4 to 1/2 of the median distance of the first
rows), and some are discounted with a window of 100 rows, as `PKAWVRegressor` is with a
``half_life``, so that no discount has to be chosen. With ``times`` windows count mean gaps between
rows (`pronk.aggregate.clock`).
The last target, the mean of ten and the mean of all are experts too, where targets have a season
the last target plus its change one season ago, and for labels two linear learners. Where errors are
correlated in time, their recurring part is corrected.

Columns and targets are scaled by the first rows, without outliers, and targets are clipped to a
range estimated from earlier rows. The worst experts are dropped at row 8192, the best gets up to
``budget`` points and the others half. Labels are learned as targets +-1. Their probabilities
minimise log loss: those of the margins are mixed with the rates of the classes and two linear
logistic learners (`pronk.aggregate.probabilities`), so that rare labels are not worse than by their
rate.

Those experts hardly improve once the dictionary is full. From row 128 on local experts
(`pronk.aggregate.local`) learn for as long as the stream lasts: partition trees whose leaves are
exact kernel ridge learners on at most 128 rows, so that their capacity grows with the stream and
their time per row does not. Boosted trees (`pronk.aggregate.boosting`) are fitted to the last rows
at rows 512, 768, 1024, 1536, .. 16,384 and then every 16,384 rows: they learn jumps along a column,
which kernels blur. A second mixture combines all of them with the prediction of the other experts.

After an alarm of rising errors a second such learner starts beside the first, with new scales, and
replaces it if it is better (`pronk.aggregate.recovery`, `changes_`).

Cost per row after row 8192: O(3 j^2 + j d), j <= 2/3 budget: three experts on j points and one
discounted one on a hundred; O(6 s^2 + 6 s d), s <= 128, for the leaves of six trees; and
O(100 d) for the boosted trees.
Memory is the same, plus the first 2048 rows until row 2048, plus the last 20,992 rows in single
precision, plus up to ``memory_limit`` bytes of leaves, which are used as the stream grows; then the
worst trees are dropped.
Dropped experts do not return: the bounds hold against active experts, and against dropped ones for
the rows before.

References: Jezequel, Gaillard, Rudi, NeurIPS 2019, Section 2.2 (a grid of learners under expert
advice); Kivinen, Warmuth, "Averaging expert predictions", 1999 (the rate); Herbster, Warmuth,
"Tracking the best expert", 1998 (fixed share); Radhakrishnan et al., Science 2024 (relevance).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from pronk.aggregate.calibration import around, requested_levels
from pronk.aggregate.certificate import MixtureCertificate
from pronk.aggregate.late import Arrived
from pronk.aggregate.recovery import DefaultLearner
from pronk.core.arrays import Array
from pronk.core.kernels import get_kernel
from pronk.core.runtime import limited
from pronk.estimators.calls import own_lock
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.estimator import OnlineLearner, runs
from pronk.estimators.explanation import Explanation, explain_rows
from pronk.estimators.families import PosteriorRegressor
from pronk.estimators.inputs import (
    COUNT,
    Interval,
    StrOptions,
    check_ordered,
    check_weights,
    dense_blocks,
    parameter,
)
from pronk.estimators.labels import Labels
from pronk.estimators.quantiles import QuantileRegressor
from pronk.estimators.waiting import Kept, Line, Meaning, recorded_rows

ENTRY = {
    "place": 10,
    "classes": ["OnlineKernelRegressor", "OnlineKernelClassifier"],
    "paper": "the default: a grid of Jezequel, Gaillard, Rudi 2019 (PKAWV) under expert advice",
    "guaranteed_by": "pronk.aggregate.mixture",
    "names": {
        "online-kernel": {
            "use": "start here: nothing to tune",
            "time": "3 j^2 + j d, j 2/3 of the budget",
            "memory": "3 j^2 + j d",
            "bounded": True,
        },
    },
}


#: Default of ``memory_limit`` in bytes, by ``experts``.
MEMORY = {"all": 200_000_000, "few": 8_000_000}


class _OnlineKernel(OnlineLearner):
    """Parameters and engine of the regressor and the classifier."""

    _signed: ClassVar[bool]
    _forgetting: ClassVar[bool] = True  # a subclass may switch discounted experts off
    _scales_itself: ClassVar[bool] = True
    _looks_ahead: ClassVar[bool] = True  # `predict` has the parameter ``ahead``
    _model: DefaultLearner = field(init=False)

    budget: int = parameter(COUNT, default=384)
    experts: str = parameter(StrOptions({"all", "few"}), default="all")
    memory_limit: int | None = parameter(
        Interval(Integral, 0, None, closed="left"), None, default=None
    )
    delay: int = parameter(Interval(Integral, 0, None, closed="left"), default=0)

    def _make_model(self, columns: int, outputs: int) -> DefaultLearner:
        kernel, memory = get_kernel(self.kernel), self.memory_limit
        if memory is None:
            memory = MEMORY[self.experts]
        return DefaultLearner(
            kernel, columns, outputs, self.budget, self._seed, self._signed, self._forgetting,
            self.experts == "few", memory, self.delay,
        )  # fmt: skip

    def _accepts_times(self) -> bool:
        return True

    def _check_weights(self, sample_weight: Any, rows: int) -> Array | None:
        """Return checked weights, which are 0 or 1, and times; None where all are 1."""
        weights = checked = check_weights(sample_weight, rows)
        times = None
        if checked is not None and checked.ndim == 2:
            checked = np.asarray(checked)
            weights, times = checked[:, 0], checked[:, 1]
        self._check_times(times)
        if weights is None or (weights == 1.0).all():
            return None if times is None else checked
        why = ": its experts read earlier labels and its leaves hold rows, which count once"
        self._check_zero_or_one(weights, why)
        return checked

    def _check_times(self, times: Array | None) -> None:
        """Raise if times (n,) are missing or new, or before the last one."""
        model = self.__dict__.get("_model")
        if model is None or not model.predicted:
            check_ordered(np.empty(0) if times is None else times)
            return
        if (times is None) != (model.clock is None):
            now, before = ("none", "with") if times is None else ("given", "without")
            raise ValueError(
                f"times: {now} in this call, but {model.predicted:,} rows were learned {before} "
                "times; give times= in every call or in none"
            )
        if times is not None:
            check_ordered(times, model.clock.time)

    def _trial_options(self, rows: int) -> dict[str, Any]:
        clock = self._model.clock
        return {} if clock is None else {"times": np.full(rows, clock.time or 0.0)}

    @property
    def time_unit_(self) -> float | None:
        """Seconds that count as one row of a window, the mean gap; None without times."""
        check_is_fitted(self)
        clock = self._model.clock
        return None if clock is None else clock.mean_gap

    def _pass_weighted(self, X: Any, Y: Array, weights: Array) -> Array:
        """Predict then learn rows of weight 1, predict the others, in order."""
        model, passed, times = self._model, [], None
        if weights.ndim == 2:
            weights, times = weights[:, 0], np.ascontiguousarray(weights[:, 1])
        for part, place, learned in runs(X, weights):
            if not learned:
                passed.append((model.predict(part, False), model.current_offsets(part)))
                continue
            if times is not None and model.clock is None:
                model.start_clock()
            P = model.learn(part, Y[place], times=None if times is None else times[place])
            passed.append((P, self._offsets_of(P)))
        P, model.last_offsets = (np.concatenate(parts) for parts in zip(*passed, strict=True))
        return P

    def _pass(self, X: Any, Y: Array, weights: Array | None = None) -> Array:
        """Learn rows, of a sparse matrix in blocks; quantiles are those of all rows."""
        if weights is None and not isinstance(X, np.ndarray):
            weights = np.ones(len(Y))
        return super()._pass(X, Y, weights)

    def _offsets_of(self, P: Array) -> Array:
        """Return the offsets of the quantiles of the rows just learned; 0 for labels."""
        return self._model.current_offsets(P) if self._model.signed else self._model.last_offsets

    def _parts(self, rows: Any, ahead: bool | None) -> Iterator[tuple[Any, ...]]:
        """Yield the rows in blocks, each with its ``ahead``: only the first has the next row."""
        for place, block in dense_blocks(rows):
            yield block(), True if ahead is None and place.start else ahead

    # -- rows that wait for their labels ---------------------------------------------------------

    def _predict_to_wait(self, X: Any) -> tuple[NDArray[Any], Kept | None]:
        check_is_fitted(self)
        if self.delay:  # the learner itself holds rows back
            return self.predict(X, ahead=False), None
        rows = self._rows(X)
        if not rows.shape[0]:
            return self._named(np.empty((0, self._outputs))), None
        with own_lock(self), limited:
            parts = [self._model.read(block()) for _, block in dense_blocks(rows)]
            P = np.concatenate([own for own, _ in parts])
            self._check_result(P)
            values = np.concatenate([record.values for _, record in parts])
            labels = self.__dict__.get("_labels")
            return self._named(P), Kept(Meaning(parts[0][1].header, labels), values)

    def _learn_waiting(self, X: Any, y: Any, lines: Sequence[Line], **options: Any) -> Any:
        with own_lock(self):
            self._lines = lines
            try:
                return self.predict_then_learn(X, y, **options)
            finally:
                self.__dict__.pop("_lines", None)

    def _learn(self, X: Array, Y: Array) -> Array:
        """Run the pass; rows that have waited are learned as they were predicted."""
        lines = self.__dict__.pop("_lines", None)
        groups = [] if lines is None else recorded_rows(lines, self._labels_after())
        if not groups:
            return super()._learn(X, Y)
        return self._model.learn(X, Y, arrived=Arrived(len(X), Y.shape[1], groups))

    def _named(self, P: Array) -> NDArray[Any]:
        """Return predictions as `predict` does."""
        raise NotImplementedError

    def _labels_after(self) -> Labels | None:
        """Return the labels that are known with the rows of the call; None of a regressor."""
        return None

    @property
    def reads_past_(self) -> bool:
        """Whether past labels are read, so that `predict` has a second head for rows far ahead."""
        check_is_fitted(self)
        return bool(self._model.reads_past)

    def explain(self, X: Any, background: Any = None, *, ahead: bool = False) -> Explanation:
        """Return how much each column contributes to the prediction of each row.

        Contributions are Shapley values against ``background``: rows of the stream, of which up to
        64 at equal distances are used; by default X itself, if it has several rows. They add up to
        the prediction minus the mean prediction of the background (`pronk.estimators.explanation`
        has the method, which is exact up to four columns). The predictions of a classifier are its
        probabilities.

        Each row is predicted as if it came next, or, with ``ahead``, as one far ahead (`predict`).
        Past labels, where they are read, are the same for all rows and belong to the base.

        >>> import numpy as np
        >>> from pronk import OnlineKernelRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (1000, 3))
        >>> model = OnlineKernelRegressor(random_state=0).fit(X, 3 * X[:, 0] - X[:, 1])
        >>> found = model.explain([[0.5, 0.5, 0.5]], background=[[0, 0, 0]])
        >>> for name, contribution in found.ranked():
        ...     print(f"{name} {contribution:+.1f}")
        x0 +1.5
        x1 -0.5
        x2 +0.0
        """
        check_is_fitted(self)
        with own_lock(self), limited:
            rows = self.encode(X)
            if background is None and len(rows) < 2:
                raise ValueError("background is missing: give rows of the stream to compare X with")
            others = rows if background is None else self.encode(background)
            known = hasattr(self, "predict_proba")
            predict = partial(self.predict_proba if known else self.predict, ahead=ahead)
            classes = self.classes_ if known else None
            names = [column["name"] for column in self.columns_]
            return explain_rows(predict, rows, others, names, classes)

    def certificate(self) -> MixtureCertificate:
        """Return the regret so far against the best active expert, and its bound.

        Losses are squared errors of clipped targets in units of 2 D^2, D the largest error of any
        expert so far, averaged over outputs (for labels +-1 over the classes seen). They are those
        of the current experts: rows before the last stage (at most 2048) as they were learned
        again. From the last stage on the experts are the local ones and the mixture of the others,
        and ``certificate().inner`` is the certificate of that mixture, in units of its own D.

        After a change (`changes_`) rows are counted from the first row of the learner that took
        over. During the trial of a challenger the certificate is that of the incumbent; for the
        weighted average of the two, which is then predicted, no bound is known.

        ``certificate().combination`` has the same fields against the best combination of those
        experts in hindsight: m + u'(p - m), p their predictions and m the mixture's average at the
        row, for any fixed u, with the penalty |u|^2. There rows are weighted in units of
        max(2 D^2, b^2) (B / b)^2, B the half-width of the targets' range so far, b the first.
        With one target its bound always holds (`pronk.aggregate.certificate` has the proof);
        with several, and for labels, none is known and ``bound`` is None. ``loss`` and
        ``best_loss`` are exact.

        >>> import numpy as np
        >>> from pronk import OnlineKernelRegressor
        >>> X = np.random.default_rng(0).normal(size=(1000, 2))
        >>> model = OnlineKernelRegressor(random_state=0).fit(X, np.sin(X[:, 0]) + X[:, 1])
        >>> for proof in (model.certificate(), model.certificate().combination):
        ...     print(f"at most {proof.bound:.0f}: {proof.regret < proof.bound}")
        at most 17: True
        at most 11: True
        """
        certificate: MixtureCertificate = super().certificate()  # type: ignore[assignment]
        return certificate

    @property
    def experts_(self) -> list[dict[str, Any]]:
        """One row per expert, the largest weight first and dropped experts last.

        A row has the kind ("kernel", "baseline" or "local"), the setting, the number of points
        (of a local expert: of rows in all leaves), whether the expert is active, its exponential
        weight and its coefficient in the final prediction, and the learner that it belongs to:
        "incumbent" or, during a trial (`changes_`), "challenger".
        """
        check_is_fitted(self)
        return self._model.table()

    @property
    def changes_(self) -> list[dict[str, Any]]:
        """One entry per alarm that started a challenger, the last 64 (`pronk.aggregate.recovery`).

        An entry has the row of the alarm, the first row since which the loss is higher (up to some
        32 rows), the mean losses before and after as the detector reads them, the outcome of the
        trial ("on trial", "swap", "dropped" or "restarted") and the number of rows seen when it
        ended (None: it has not). "returned" is the number of rows seen when an earlier learner took
        over again, or None.

        "columns" are the names of the columns that changed, the most certain one first, and
        "details" has one entry for each: whether its "distribution" "changed" or its "relation" to
        y, a p-value, and values "before" and "since": 10, 50 and 90 % quantiles, or the mean error
        in the lower, middle and upper third of the column (`pronk.aggregate.changes`). "place" is
        the number of the learner's column.
        """
        check_is_fitted(self)
        return self._columns.with_names(self._model.changes)

    @property
    def directions_(self) -> list[dict[str, Any]]:
        """Combinations of columns along which the prediction changes most, the strongest first.

        "share" is that of the whole change, in squares; "columns" has the weights of the columns as
        scaled (one may be several columns of the learner, such as "city#2"). Found at row 2,048 and
        before (`pronk.aggregate.representation`); empty before row 8, and where no expert that
        reads them is left.

        >>> import numpy as np
        >>> from pronk import OnlineKernelRegressor
        >>> X = np.random.default_rng(0).uniform(-1, 1, (600, 4))
        >>> model = OnlineKernelRegressor(random_state=0).fit(X, np.sin(4 * X[:, 0] + 3 * X[:, 1]))
        >>> {name: round(weight, 1) for name, weight in model.directions_[0]["columns"].items()}
        {'x0': 0.8, 'x1': 0.6}
        """
        check_is_fitted(self)
        return self._columns.named_directions(self._model.incumbent.directions)

    @property
    def change_counts_(self) -> dict[str, int]:
        """Number of "trials" of a challenger so far, and of each of their outcomes."""
        check_is_fitted(self)
        return self._model.counts

    @property
    def shares_(self) -> Array:
        """Weights in the final prediction of the average and of the stacks.

        The stacks are regressions on the experts' predictions over all rows, a window of 1000 and
        a window of 100 rows.
        """
        check_is_fitted(self)
        if self._model.experts is None:
            return np.array([1.0])
        return self._model.experts.final_mixture.stack_shares


class OnlineKernelRegressor(QuantileRegressor, _OnlineKernel, PosteriorRegressor):
    """Regression without parameters to tune.

    Parameters
    ----------
    kernel : name, kernel or function, default "gaussian"
        A bandwidth given here multiplies the automatic ones. With another kernel than the Gaussian
        all experts use that kernel on the scaled columns. A function gets unscaled rows and has no
        bandwidth.
    budget : int, default 384
        Most points of the kernel experts. More points are slower and, on streams with fine
        structure, somewhat more accurate.
    experts : "all" or "few", default "all"
        "few" is a small model of 4 experts instead of up to 16, for thousands of models at once
        (`pronk.Keyed`): a fifth of the time and memory, with somewhat larger errors.
    memory_limit : int, optional
        Bytes that the leaves of the local experts may use: 200 MB, or 8 MB with few experts. A call
        that can be rolled back may use as much again, a challenger on trial half as much. 0: no
        local experts.
    delay : int, default 0
        Labels arrive ``delay`` rows late: in `predict_then_learn` the label of row t is used from
        row t + 1 + delay on. Past labels are read, and weights and intervals learned, as of then.
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import OnlineKernelRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (5000, 2)) * [1, 1000]
    >>> y = 100 * np.sin(2 * X[:, 0]) + X[:, 1] / 100
    >>> learner = OnlineKernelRegressor(random_state=0)
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"error {np.mean((predictions - y) ** 2) / np.var(y):.2f} of the variance")
    error 0.01 of the variance
    """

    _signed = False

    def _named(self, P: Array) -> NDArray[Any]:
        return P[:, 0] if self._flat else P

    def predict_then_learn(
        self, X: Any, y: Any, interval: float | None = None, *, quantiles: Any = None,
        sample_weight: Any = None, times: Any = None,
    ) -> Any:  # fmt: skip
        """Process the rows in order; return the predictions made before each row's y was used.

        Before the first y that is learned a prediction is 0: for the first row, and for ``delay``
        rows more. `pronk.evaluate` does not score such rows.

        With ``times``, one per row in seconds or as datetimes, windows count time instead of rows
        (`pronk.aggregate.clock`).

        With ``interval=0.9`` the pair of predictions and intervals that were to hold y with that
        probability, (n, 2) or (n, outputs, 2); with ``quantiles=(0.1, 0.5, 0.9)`` the pair of
        predictions and quantiles of y, (n, 3) or (n, outputs, 3). NaN for the first two rows,
        before which no error is known.
        """
        options = {"sample_weight": sample_weight, "times": times}
        levels = requested_levels(interval, quantiles)
        if levels is None:
            return super().predict_then_learn(X, y, **options)
        with own_lock(self):  # last_offsets belong to this call
            P = super().predict_then_learn(X, y, **options)
            if not len(P):
                return P, np.empty((*P.shape, len(levels)))
            P2 = P[:, None] if self._flat else P
            found = around(P2, self._model.last_offsets, levels)
        return P, found[:, 0] if self._flat else found

    def predict(self, X: Any, return_std: bool = False, *, ahead: bool | None = None) -> Any:
        """Predict rows that follow the stream in order: the first is the next row; change nothing.

        So ``predict(X[:k])`` is the beginning of ``predict(X)``. Where past labels are read
        (``reads_past_``), they help to predict the next row and are not known for later rows, which
        are predicted by experts that read none (`pronk.aggregate.far`). ``ahead`` says otherwise:
        True, all rows lie far ahead; False, each row as if it came next. Elsewhere, and for most
        data, a prediction does not depend on the row's place. It is 0 before y is learned.

        With ``return_std``, also return a standard deviation of y around each prediction: the error
        scale at the row times sqrt(1 + q), q the row's ridge leverage for the leading expert; of
        rows far ahead the root mean square of such errors.
        """
        return self._predicted(X, return_std, ahead)

    def _predict_quantiles(self, X: Any, levels: Array, ahead: bool | None) -> Array:
        check_is_fitted(self)
        rows = self._rows(X)
        if not rows.shape[0]:
            return np.empty((0, self._outputs, len(levels)))
        with own_lock(self), limited:
            return np.concatenate([
                self._model.predict_quantiles(block, levels, where)
                for block, where in self._parts(rows, ahead)
            ])  # fmt: skip


class OnlineKernelClassifier(_OnlineKernel, OnlineClassifier):
    """Classification without parameters to tune, with calibrated probabilities.

    Parameters are those of `OnlineKernelRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import OnlineKernelClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (3000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> learner = OnlineKernelClassifier(random_state=0)
    >>> labels = learner.predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.2f}")
    error 0.02
    """

    _signed = True

    def _named(self, P: Array) -> NDArray[Any]:
        return self._labels.predicted(P)

    def _learn_labels(
        self, rows: Any, values: NDArray[Any], labels: Labels, after: Labels, *weights: Array
    ) -> Array:
        self._after = after
        try:
            return super()._learn_labels(rows, values, labels, after, *weights)
        finally:
            del self._after

    def _labels_after(self) -> Labels | None:
        return self._after

    def predict(self, X: Any, *, ahead: bool | None = None) -> NDArray[Any]:
        """Predict rows that follow the stream in order: the first is the next row; change nothing.

        So ``predict(X[:k])`` is the beginning of ``predict(X)``. ``ahead`` says otherwise
        (`OnlineKernelRegressor.predict`).
        """
        with own_lock(self), limited:
            P = self._predict(X, ahead)
            return self._labels.predicted(P)

    def predict_proba(self, X: Any, *, ahead: bool | None = None) -> Array:
        """Return probabilities (n, classes); the most probable class is the predicted one.

        ``ahead`` is that of `predict`.
        """
        with own_lock(self):
            P = self._predict(X, ahead)
            margins = np.atleast_2d(self._labels.decisions(P).T).T
            return self._normalised(self._link(margins))

    def _known_from(
        self, known_from: NDArray[np.int64], labels: Labels, after: Labels, learned: NDArray[Any],
        rows: NDArray[np.intp],
    ) -> NDArray[np.int64]:  # fmt: skip
        """Return the same, where a label is known when it has arrived and is learned."""
        if not self.delay or labels.fixed:
            return known_from
        waiting: list[Any] = []  # labels of earlier calls; the oldest arrives first
        arrived: list[Any] = []
        if self.__sklearn_is_fitted__():
            waiting = labels.classes[labels.places(self._model.late_targets)].tolist()
            known = self._model.known_classes(labels.ones, len(labels.classes))
            arrived = labels.classes[known].tolist()
        # The number of rows of this call after which each label arrives, and these rows.
        found, first = np.unique(learned, return_index=True)
        shift = 1 + self.delay - len(waiting)
        counts = dict(zip(found.tolist(), (shift + len(waiting) + first).tolist(), strict=True))
        counts |= {label: shift + i for i, label in [*enumerate(waiting)][::-1]}
        counts |= dict.fromkeys(arrived, 0)
        ends = np.concatenate(([0], rows + 1))
        late = np.full(len(known_from), np.iinfo(np.int64).max)
        for place, label in enumerate(after.known.tolist()):
            if counts.get(label, len(ends)) < len(ends):
                late[place] = ends[counts[label]]
        return late

    @property
    def probability_weights_(self) -> dict[str, float]:
        """Weights of the estimates that the probabilities are mixed from, by name.

        The margins of the experts, the rates of the classes, and logistic learners by their
        regulariser (`pronk.aggregate.probabilities`).
        """
        check_is_fitted(self)
        assert self._model.probabilities is not None
        return self._model.probabilities.weights

    def _link(self, margins: Array, rows: slice | None = None) -> Array:
        return np.asarray(0.5 * (1.0 + margins))
