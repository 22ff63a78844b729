"""Metrics: mean losses and statistics, over all rows so far and over a window of the last rows.

A statistic is a metric that is not a mean of losses: counts, ranks and sums, in bounded memory.
It has a value over all rows, which does not depend on the cut into blocks, and an exact value
over the last rows, for windows. Over all rows, ranks and medians are computed from bins.

    log_loss            mean of -log p(y), p at least 2.2e-16 as in scikit-learn; excluded are
                        rows before any label was known, and the first row of a label to which
                        the model gave probability 0
    auc                 area under the ROC curve, of one class against the rest, mean over classes;
                        rows whose odds differ by less than 1.6 % share a bin and count as ties
    balanced_accuracy   mean over the classes of the share of their rows predicted correctly
    kappa               Cohen's: (a - e) / (1 - e), a the accuracy, e that of shuffled predictions
    f1                  macro F1: the mean over the classes of 2 hits / (rows + times predicted)
    calibration_error   mean over the classes of the distance between predicted probability and
                        share of the class, in bins of the log odds weighted by their rows
    r2                  1 - sum (y - p)^2 / sum (y - mean y)^2, the mean over outputs
    medae               median absolute error; in bins, within 0.5 % of an order statistic
    pinball             mean over rows and levels t of (t - 1{y < q}) (y - q), q the quantile at t;
                        without quantiles, over both ends of the interval
    crps                twice the integral of that loss over the level, by the trapezoidal rule on
                        the levels, and 0 at levels 0 and 1: with many levels, the continuous ranked
                        probability score
    interval_score      width of the interval plus 2 / (1 - coverage) times the distance by which y
                        lies outside (Winkler's score); of quantiles, between the outermost two

Rows before the first quantile is known are not counted in the last three.

References: Masson, Rim, Lee, "DDSketch", VLDB 2019 (bins of equal ratio); Gneiting, Raftery,
"Strictly proper scoring rules", JASA 2007 (CRPS, interval score).
"""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.calibration import ends_of
from pronk.core.checks import did_you_mean
from pronk.core.state import Count, Field, Numbers, Parts, Sizes, StateError, Stateful, require
from pronk.evaluate.baselines import Lead
from pronk.evaluate.fields import AnyReal, Items, LabelList, Reals, Tally, Values, checked_column
from pronk.evaluate.formatting import number
from pronk.evaluate.models import Forecast, joined

Array = NDArray[np.float64]
Losses = Callable[[NDArray[Any], NDArray[Any]], Any]
#: Names for screens and reports.
TITLES = {
    "mse": "mean squared error",
    "mae": "mean absolute error",
    "medae": "median absolute error",
    "r2": "R2",
    "error": "error rate",
    "balanced_accuracy": "balanced accuracy",
    "kappa": "Cohen's kappa",
    "f1": "macro F1",
    "log_loss": "log loss",
    "auc": "AUC",
    "calibration_error": "calibration error",
    "pinball": "pinball loss",
    "crps": "CRPS",
    "interval_score": "interval score",
}


def describe_leads(leads: Iterable[Lead]) -> str:
    """Describe in which metrics a learner is worse than its baselines; empty if in none."""
    texts: dict[str, list[str]] = {}
    for one in leads:
        own, theirs = number(one.value), number(one.of_baseline)
        if own != theirs:
            name = TITLES.get(one.metric, one.metric)
            texts.setdefault(one.baseline, []).append(f"{name} {own} against {theirs}")
    return "; ".join(f"worse than the {label}: {', '.join(each)}" for label, each in texts.items())


# -- mean losses ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Metric:
    """A loss per row from y and the predictions, and a function of its mean."""

    name: str
    losses: Losses
    finish: Callable[[float], float] = float
    probabilities: ClassVar[bool] = False
    levels: ClassVar[bool] = False

    def running(self) -> MeanLoss:
        """Return the mean over no rows."""
        return MeanLoss(self)

    def rows(self, y: NDArray[Any], predictions: NDArray[Any]) -> Array:
        """Return one loss per row; the mean over several outputs."""
        losses = np.asarray(self.losses(y, predictions), dtype=np.float64)
        if losses.ndim == 2:
            losses = losses.mean(axis=1)
        if losses.shape != (len(y),):
            raise ValueError(
                f"metric {self.name!r} must return one loss per row: for {len(y)} rows it returned "
                f"shape {losses.shape}"
            )
        return losses


def _squared(y: Array, predictions: Array) -> Any:
    return np.square(predictions - y)


def _absolute(y: Array, predictions: Array) -> Any:
    return np.abs(predictions - y)


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("mse", _squared),
        Metric("rmse", _squared, math.sqrt),
        Metric("mae", _absolute),
        Metric("error", operator.ne),
        Metric("accuracy", operator.ne, lambda mean: 1.0 - mean),
    )
}

#: Default metrics.
DEFAULTS = {"regression": ("mse", "mae"), "classification": ("error",)}
#: Metrics of `pronk run`; log loss and AUC only with probabilities.
ALL = {
    "regression": ("mse", "mae", "medae", "r2"),
    "classification": ("error", "balanced_accuracy", "kappa", "f1", "log_loss", "auc"),
}


def usual_metrics(task: str, probabilities: bool) -> tuple[str, ...]:
    """Return the metrics of `pronk run`, with or without those of probabilities."""
    return ALL[task] if probabilities else ALL[task][:4]


# -- statistics ----------------------------------------------------------------------------------


class Counts(Stateful):
    """The confusion matrix, and a ``figure`` of it as a metric.

    Its size grows with the labels, not with the rows.

    >>> import numpy as np
    >>> from pronk.evaluate.models import Forecast
    >>> counts = Counts()
    >>> counts.add(np.array(["a", "b", "b"]), Forecast(np.array(["a", "a", "b"])))
    >>> print(counts.labels, counts.matrix.tolist(), round(counts.kappa, 3))
    ['a', 'b'] [[1, 0], [1, 1]] 0.4
    """

    def __init__(self, figure: str = "kappa") -> None:
        self.figure = figure
        self._labels: dict[Any, int] = {}  # the number of each, in order of appearance
        self._table = np.zeros((1, 1), dtype=np.int64)  # the last column: no label was predicted

    def add(self, y: NDArray[Any], forecast: Forecast) -> None:
        """Add some rows."""
        own = self._codes(y)
        named = self._codes(forecast.values)
        size = len(self._labels) + 1
        held = self._table
        if len(held) < size:
            self._table = np.zeros((size, size), dtype=np.int64)
            self._table[: len(held), : len(held) - 1] = held[:, :-1]
            self._table[: len(held), -1] = held[:, -1]
        place = own * size + np.where(named < 0, size - 1, named)
        self._table += np.bincount(place, minlength=size * size).reshape(size, size)

    def _codes(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of each label; -1 for none."""
        found, place = values, np.arange(len(values))
        if values.dtype != object:
            found, place = np.unique(values, return_inverse=True)
        codes = [
            -1 if label is None else self._labels.setdefault(label, len(self._labels))
            for label in found.tolist()
        ]
        return np.array(codes, dtype=np.int64)[place]

    @property
    def labels(self) -> list[Any]:
        """The labels that occurred, sorted."""
        return sorted(label for label, i in self._labels.items() if self._table[i].any())

    def _order(self) -> list[int]:
        """Return the numbers of the labels that occurred, sorted by label."""
        return [self._labels[label] for label in self.labels]

    @property
    def matrix(self) -> NDArray[np.int64]:
        """Rows by label, columns by prediction, both in the order of `labels`.

        Rows without a prediction, or predicted as a label that never occurred, are in no column.
        """
        order = self._order()
        return self._table[np.ix_(order, order)]

    @property
    def _sums(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Hits, rows and times predicted, for each label that occurred."""
        order = self._order()
        hits = self._table.diagonal()[order]
        return hits, self._table.sum(axis=1)[order], self._table.sum(axis=0)[order]

    @property
    def balanced_accuracy(self) -> float:
        """Mean over the labels of the share of their rows predicted correctly."""
        hits, rows, _ = self._sums
        return float(np.mean(hits / rows)) if len(rows) else math.nan

    @property
    def kappa(self) -> float:
        """Cohen's kappa; NaN if there is a single label."""
        hits, rows, named = self._sums
        total = float(rows.sum())
        if not total:
            return math.nan
        agreed, chance = hits.sum() / total, float((rows / total * (named / total)).sum())
        return float((agreed - chance) / (1.0 - chance)) if chance < 1.0 else math.nan

    @property
    def f1(self) -> float:
        """Macro F1: the mean over the labels of 2 hits / (rows + times predicted)."""
        hits, rows, named = self._sums
        return float(np.mean(2.0 * hits / (rows + named))) if len(rows) else math.nan

    def value(self) -> float:
        return float(getattr(self, self.figure))

    STATE = (LabelList("labels"), Numbers("table", ("side", "side"), whole=True, low=0))

    def _restored(self, sizes: Sizes) -> None:
        # Labels of a block that failed may have no row yet.
        require(1 <= sizes["side"] <= sizes["labels"] + 1, "table is not that of the labels")
        self._labels = {label: i for i, label in enumerate(self._labels)}


#: Bins of the log odds from -SPAN to SPAN.
BINS, SPAN = 2048, 16.0
#: Ratio of neighbouring bins of absolute errors.
RATIO = 1.01
#: Bound of the bin numbers: beyond those of the smallest and the largest double.
FARTHEST = math.ceil(745.2 / math.log(RATIO))
#: Lower bound of probabilities, as in scikit-learn.
LEAST = float(np.finfo(np.float64).eps)


class Running(Protocol):
    """A metric of all rows so far.

    Its method `recent` returns that of the last rows, where this is not what a new one returns.
    """

    def add(self, y: NDArray[Any], forecast: Forecast) -> None: ...
    def value(self) -> float: ...
    def to_state(self) -> Any: ...
    def restore(self, state: Any) -> None: ...


@dataclass(frozen=True)
class Statistic:
    """A metric that is not a mean of losses."""

    name: str
    running: Callable[[], Running]
    probabilities: bool = False
    """Whether it needs probabilities."""
    levels: bool = False
    """Whether it needs quantiles or intervals."""


class MeanLoss(Stateful):
    """Sum and number of the losses of a metric."""

    def __init__(self, metric: Metric) -> None:
        self.metric = metric
        self.rows = 0
        self.total = 0.0

    def add(self, y: NDArray[Any], forecast: Forecast) -> None:
        self.total += float(self.metric.rows(y, forecast.values).sum())
        self.rows += len(y)

    def value(self) -> float:
        return self.metric.finish(self.total / self.rows) if self.rows else math.nan

    STATE = (Count("rows", "rows"), AnyReal("total", "total"))


class KnownMean(Stateful):
    """Sum and number of losses that are not NaN."""

    def __init__(self) -> None:
        self.sums = np.zeros(2)

    def _count(self, losses: Array) -> None:
        known = losses[~np.isnan(losses)]
        self.sums = self.sums + np.array([known.sum(), float(len(known))])

    def value(self) -> float:
        return float(self.sums[0] / self.sums[1]) if self.sums[1] else math.nan

    STATE: ClassVar[tuple[Field, ...]] = (Values("sums", (2,), "sums"),)


class LogLoss(KnownMean):
    """Mean of the losses, and the first row of each label."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = 0
        self.first: dict[Any, int] = {}

    def add(self, y: NDArray[Any], forecast: Forecast) -> None:
        labels, places = np.unique(y, return_index=True)
        for label, place in zip(labels.tolist(), places.tolist(), strict=True):
            self.first.setdefault(label, self.rows + place)
        self.rows += len(y)
        self._count(self._losses(y, forecast))

    def recent(self, y: NDArray[Any], forecast: Forecast) -> float:
        recent = KnownMean()
        recent._count(self._losses(y, forecast))
        return recent.value()

    def _losses(self, y: NDArray[Any], forecast: Forecast) -> Array:
        """Return the losses of the last rows; NaN for excluded ones."""
        labels, places = np.unique(y, return_inverse=True)
        shares = forecast.share_of(labels)[np.arange(len(y)), places]
        start = self.rows - len(y)
        new = np.array([place - start for place in self.first.values() if place >= start], np.intp)
        shares[new[shares[new] == 0.0]] = np.nan  # the label was unknown
        return -np.log(np.clip(shares, LEAST, 1.0))

    STATE = (*KnownMean.STATE, Count("rows", "rows"), Tally("first", "first"))

    def _restored(self, sizes: Sizes) -> None:
        places = list(self.first.values())
        good = all(place < self.rows for place in places) and len(set(places)) == len(places)
        require(good, "first does not have one row per label")


class PerClass(Stateful):
    """Sums of each class by bins of its predicted log odds.

    Rows before any label was known are left out.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.labels: list[Any] = []
        self.sums: NDArray[Any] = np.zeros((0, *shape), dtype=dtype)

    def add(self, y: NDArray[Any], forecast: Forecast) -> None:
        """Add some rows."""
        assert forecast.probabilities is not None and forecast.classes is not None
        known = ~np.isnan(forecast.probabilities).any(axis=1) & (len(forecast.classes) > 0)
        y = y[known]
        for label in [*forecast.classes.tolist(), *np.unique(y).tolist()]:
            if label not in self.labels:  # it had probability 0 in all earlier rows
                new = np.zeros_like(self.sums, shape=(1, *self.sums.shape[1:]))
                new[self.UNLIKELY] = self.sums[:1][self.ROWS].sum()
                self.labels.append(label)
                self.sums = np.concatenate((self.sums, new))
        probabilities = forecast.share_of(np.array(self.labels))[known]
        for label, shares, sums in zip(self.labels, probabilities.T, self.sums, strict=True):
            self._count(sums, shares, y == label)

    #: Where the sums of a class count rows, and where those of probability 0 (after the class).
    ROWS: ClassVar[Any] = ...
    UNLIKELY: ClassVar[tuple[int, ...]]

    def _count(self, sums: NDArray[Any], shares: Array, hits: NDArray[np.bool_]) -> None:
        """Add rows to the sums of a class."""
        raise NotImplementedError


class Ranks(PerClass):
    """Histograms of the log odds of each class, for the rows of others and for its own."""

    UNLIKELY = (0, 0, 0)

    def __init__(self) -> None:
        super().__init__((2, BINS), np.int64)

    def _count(self, sums: NDArray[Any], shares: Array, hits: NDArray[np.bool_]) -> None:
        place = hits * BINS + bin_of(shares)
        sums += np.bincount(place, minlength=2 * BINS).reshape(2, BINS)

    def value(self) -> float:
        return _mean([area(others, own) for others, own in self.sums])

    def recent(self, y: NDArray[Any], forecast: Forecast) -> float:
        """Return the AUC from the exact ranks of the last rows."""
        assert forecast.probabilities is not None and forecast.classes is not None
        known = ~np.isnan(forecast.probabilities).any(axis=1)
        labels = np.union1d(forecast.classes, y[known])
        areas = []
        for label, shares in zip(labels, forecast.share_of(labels)[known].T, strict=True):
            _, place = np.unique(shares, return_inverse=True)
            own = (y[known] == label).astype(np.int64)
            size = int(place.max()) + 1 if len(place) else 0
            bins = np.bincount(own * size + place, minlength=2 * size).reshape(2, size)
            areas.append(area(bins[0], bins[1]))
        return _mean(areas)

    STATE = (
        LabelList("labels", "labels"),
        Numbers("sums", ("labels", 2, BINS), "sums", whole=True, low=0),
    )


def bin_of(shares: Array, bins: int = BINS, span: float = SPAN) -> NDArray[np.int64]:
    """Return the bin of each probability; bins divide the log odds from -span to span."""
    with np.errstate(divide="ignore"):
        odds = np.log(shares) - np.log1p(-shares)
    place = np.clip(odds, -span, span) + span
    return np.minimum((place * (bins / (2 * span))).astype(np.int64), bins - 1)


def area(others: NDArray[np.int64], own: NDArray[np.int64]) -> float:
    """Return the share of ordered pairs (row of the class, other row), ties counted half.

    NaN if there are no pairs.

    >>> import numpy as np
    >>> print(area(np.array([2, 1, 0]), np.array([0, 1, 1])))
    0.9166666666666666
    """
    pairs = float(others.sum()) * float(own.sum())
    if not pairs:
        return math.nan
    below = np.cumsum(others) - others
    return float((own * (below + 0.5 * others)).sum() / pairs)


#: Bins of the log odds from -REACH to REACH for the calibration.
CALIBRATION, REACH = 40, 7.0
#: Last index of the sums of `Calibration`: probabilities, rows of the class, rows.
SHARES, HITS, COUNT = range(3)


class Calibration(PerClass):
    """Predicted probabilities and shares of each class, in bins of the log odds.

    >>> import numpy as np
    >>> from pronk.evaluate.models import Forecast
    >>> shares = np.array([[0.9, 0.1], [0.9, 0.1], [0.9, 0.1], [0.9, 0.1]])
    >>> calibration = Calibration()
    >>> calibration.add(
    ...     np.array(list("aaab")), Forecast(np.array(list("aaaa")), shares, np.array(["a", "b"]))
    ... )
    >>> print([(c["label"], c["share"], round(c["error"], 2)) for c in calibration.table()])
    [('a', 0.75, 0.15), ('b', 0.25, 0.15)]
    """

    ROWS = (..., COUNT)
    UNLIKELY = (0, 0, COUNT)

    def __init__(self) -> None:
        super().__init__((CALIBRATION, 3), np.float64)

    def _count(self, sums: NDArray[Any], shares: Array, hits: NDArray[np.bool_]) -> None:
        added = np.column_stack((shares, hits, np.ones(len(shares))))
        np.add.at(sums, bin_of(shares, CALIBRATION, REACH), added)

    def errors(self) -> Array:
        """Return the calibration error of each class, in the order of ``labels``."""
        gaps = np.abs(self.sums[:, :, SHARES] - self.sums[:, :, HITS]).sum(axis=1)
        return np.asarray(gaps / np.maximum(self.sums[:, :, COUNT].sum(axis=1), 1.0))

    def table(self) -> list[dict[str, Any]]:
        """Return rows, share, mean probability and calibration error of each class, sorted."""
        found = []
        for label, sums, error in zip(self.labels, self.sums, self.errors(), strict=True):
            shares, hits, rows = sums.sum(axis=0)
            found.append({
                "label": label, "rows": int(hits), "share": float(hits / max(rows, 1.0)),
                "probability": float(shares / max(rows, 1.0)), "error": float(error),
            })  # fmt: skip
        return sorted(found, key=lambda one: one["label"])

    def value(self) -> float:
        return _mean(self.errors().tolist())

    STATE = (LabelList("labels", "labels"), Values("sums", ("labels", CALIBRATION, 3), "sums"))


class Explained(Stateful):
    """Sums for R2, with the pairwise update of Chan, Golub and LeVeque."""

    def __init__(self) -> None:
        self.rows = 0
        self.mean: Any = 0.0
        self.spread: Any = 0.0  # sum (y - mean y)^2
        self.errors: Any = 0.0  # sum (y - p)^2

    def add(self, y: NDArray[Any], forecast: Forecast) -> None:
        if not len(y):
            return
        n, mean = len(y), y.mean(axis=0)
        total, step = self.rows + n, mean - self.mean
        spread = ((y - mean) ** 2).sum(axis=0)
        self.spread = self.spread + spread + step * step * (self.rows * n / total)
        self.mean = self.mean + step * (n / total)
        self.errors = self.errors + ((y - forecast.values) ** 2).sum(axis=0)
        self.rows = total

    def value(self) -> float:
        spread = np.atleast_1d(self.spread)
        if not self.rows or not (spread > 0).all():
            return math.nan
        return float(np.mean(1.0 - np.atleast_1d(self.errors) / spread))

    STATE = (Count("rows", "rows"), *(Reals(name, name) for name in ("mean", "spread", "errors")))

    def _restored(self, sizes: Sizes) -> None:
        shapes = {np.shape(value) for value in (self.mean, self.spread, self.errors)}
        require(len(shapes) == 1, "mean, spread and errors are not of one shape")


class Pinball(KnownMean):
    """Mean over the rows of a weighted mean of the pinball losses at the levels.

    >>> import numpy as np
    >>> from pronk.evaluate.models import Forecast
    >>> levels, found = np.array([0.1, 0.5, 0.9]), np.array([[0.0, 1.0, 4.0]])
    >>> for name in ("pinball", "crps", "interval_score"):
    ...     score = Pinball(name)
    ...     score.add(np.array([5.0]), Forecast(np.array([1.0]), quantiles=found, levels=levels))
    ...     print(name, round(score.value(), 3))
    pinball 1.133
    crps 2.3
    interval_score 14.0
    """

    def __init__(self, figure: str) -> None:
        super().__init__()
        self.figure = figure

    def add(self, y: NDArray[Any], forecast: Forecast) -> None:
        levels, found = forecast.levels, forecast.quantiles
        if levels is None or found is None or self.figure == "interval_score":
            levels, found = _outermost(forecast)
        weights = WEIGHTS[self.figure](levels)
        above = np.asarray(y, dtype=np.float64)[..., None] - found
        losses = np.maximum(levels * above, (levels - 1.0) * above) @ weights
        self._count(losses.reshape(len(losses), -1).mean(axis=1))


def _outermost(forecast: Forecast) -> tuple[Array, Array]:
    """Return levels and quantiles (.., 2) of the interval, or of the outermost quantiles."""
    if forecast.intervals is not None:
        assert forecast.coverage is not None
        return ends_of(forecast.coverage), forecast.intervals
    assert forecast.levels is not None and forecast.quantiles is not None
    outer = [int(forecast.levels.argmin()), int(forecast.levels.argmax())]
    return forecast.levels[outer], forecast.quantiles[..., outer]


def _trapezoids(levels: Array) -> Array:
    """Return twice the weights of the trapezoidal rule from level 0 to 1, in any order."""
    order = np.argsort(levels)
    ends = np.concatenate(([0.0], levels[order], [1.0]))
    weights = np.empty(len(levels))
    weights[order] = ends[2:] - ends[:-2]
    return weights


#: Weights of the pinball losses at levels. An interval score is 2 / (1 - coverage) times the sum at
#: both ends.
WEIGHTS: dict[str, Callable[[Array], Array]] = {
    "pinball": lambda levels: np.full(len(levels), 1.0 / len(levels)),
    "crps": _trapezoids,
    "interval_score": lambda levels: np.full(2, 2.0 / (1.0 - (levels[1] - levels[0]))),
}


class MedianError(Stateful):
    """Absolute errors in bins of equal ratio; the mean over several outputs."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.zeros = 0

    def add(self, y: NDArray[Any], forecast: Forecast) -> None:
        errors = absolute_errors(y, forecast)
        positive = errors[errors > 0]
        self.zeros += len(errors) - len(positive)
        places = np.ceil(np.log(positive) / math.log(RATIO)).astype(np.int64)
        for place, count in zip(*np.unique(places, return_counts=True), strict=True):
            self.counts[int(place)] = self.counts.get(int(place), 0) + int(count)

    def value(self) -> float:
        rows = self.zeros + sum(self.counts.values())
        if not rows:
            return math.nan
        return 0.5 * (self._order((rows - 1) // 2) + self._order(rows // 2))

    def recent(self, y: NDArray[Any], forecast: Forecast) -> float:
        return float(np.median(absolute_errors(y, forecast)))

    def _order(self, rank: int) -> float:
        """Return the error of a rank, counted from 0."""
        below = self.zeros
        if rank < below:
            return 0.0
        for place in sorted(self.counts):
            below += self.counts[place]
            if rank < below:
                return 2.0 * RATIO**place / (RATIO + 1.0)
        raise AssertionError("a rank beyond all rows")

    STATE = (Count("zeros", "zeros"), Tally("counts", "counts"))

    def _restored(self, sizes: Sizes) -> None:
        good = all(type(place) is int and abs(place) <= FARTHEST for place in self.counts)
        require(good, "counts are of other bins")


def absolute_errors(y: NDArray[Any], forecast: Forecast) -> Array:
    """Return one error per row: the mean over several outputs."""
    errors = np.abs(np.asarray(y, dtype=np.float64) - forecast.values)
    return np.asarray(errors.mean(axis=1) if errors.ndim == 2 else errors)


def _mean(values: list[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


STATISTICS: dict[str, Statistic] = {
    statistic.name: statistic
    for statistic in (
        Statistic("log_loss", LogLoss, probabilities=True),
        Statistic("auc", Ranks, probabilities=True),
        Statistic("calibration_error", Calibration, probabilities=True),
        *(Statistic(n, partial(Counts, n)) for n in ("balanced_accuracy", "kappa", "f1")),
        Statistic("r2", Explained),
        Statistic("medae", MedianError),
        *(Statistic(n, partial(Pinball, n), levels=True) for n in WEIGHTS),
    )
}


# -- by name -------------------------------------------------------------------------------------


def get_metrics(metrics: Any) -> list[Metric]:
    """Return metrics that are means of losses, from names, functions (y, predictions) -> losses."""
    found = get_scores(metrics)
    for metric in found:
        if isinstance(metric, Statistic):
            raise ValueError(
                f"metric {metric.name!r} is not a mean of losses per row; choose another"
            )
    return cast("list[Metric]", found)


def get_scores(metrics: Any) -> list[Metric | Statistic]:
    """Return metrics of any kind, from names or functions (y, predictions) -> losses."""
    if isinstance(metrics, str | Metric | Statistic) or callable(metrics):
        metrics = [metrics]
    return [_get(metric) for metric in dict.fromkeys(metrics)]


def _get(metric: Any) -> Metric | Statistic:
    if isinstance(metric, Metric | Statistic):
        return metric
    if callable(metric):
        return Metric(getattr(metric, "__name__", type(metric).__name__), metric)
    known: dict[str, Metric | Statistic] = {**METRICS, **STATISTICS}
    if metric not in known:
        hint = did_you_mean(metric, known, otherwise=f"; known: {', '.join(known)}")
        raise ValueError(f"metric {metric!r} is not known{hint}")
    return known[metric]


# -- over all rows and over a window -------------------------------------------------------------


def _as_state(block: tuple[NDArray[Any], Forecast]) -> list[Any]:
    return [block[0].tolist(), block[1].to_state()]


def _checked_block(state: Any, name: str) -> tuple[NDArray[Any], Forecast]:
    require(isinstance(state, list) and len(state) == 2, f"{name} is not a block of rows")
    y, forecast = checked_column(state[0], name), Forecast.from_state(state[1])
    require(y.dtype.kind in "biufU" and len(y) == len(forecast), f"{name} has other labels")
    return y, forecast


class Scores(Stateful):
    """All metrics of an evaluation, over all rows and over the last ``window`` rows."""

    def __init__(self, metrics: Sequence[Metric | Statistic], window: int | None) -> None:
        self.window = window
        self.rows = 0
        self._metrics = list(metrics)
        self._running: list[Running] = [metric.running() for metric in metrics]
        self._recent: deque[tuple[NDArray[Any], Forecast]] = deque()
        self._held = 0

    def add(self, y: NDArray[Any], forecast: Forecast) -> None:
        """Add some rows."""
        for running in self._running:
            running.add(y, forecast)
        self.rows += len(y)
        if self.window is None:
            return
        self._recent.append((y, forecast))
        self._held += len(y)
        while self._held - len(self._recent[0][0]) >= self.window:
            self._held -= len(self._recent.popleft()[0])

    def values(self) -> dict[str, float]:
        """Return each metric over all rows so far."""
        return {metric.name: running.value() for metric, running in self._pairs()}

    def recent(self) -> dict[str, float]:
        """Return each metric over the last ``window`` rows, or over all if there are fewer."""
        if self.window is None or not self._recent:
            return self.values()
        y = np.concatenate([pair[0] for pair in self._recent])[-self.window :]
        forecast = joined([pair[1] for pair in self._recent])[-self.window :]
        found = {}
        for metric, running in self._pairs():
            if hasattr(running, "recent"):
                found[metric.name] = running.recent(y, forecast)
            else:
                new = metric.running()
                new.add(y, forecast)
                found[metric.name] = new.value()
        return found

    def check_restored(self, labels: bool) -> None:
        """Raise if the metrics cannot be computed from the restored rows."""
        kinds = {kind.dtype.kind for y, forecast in self._recent for kind in (y, forecast.values)}
        require(labels or kinds <= set("biuf"), "recent has text for numbers")
        try:
            with np.errstate(all="ignore"):
                self.values(), self.recent()
        except Exception as error:
            raise StateError(f"recent does not give the metrics: {error}") from None

    @property
    def outputs(self) -> set[tuple[int, ...]]:
        """Shapes of the target of a row; a valid state has one."""
        sums = {np.shape(one.mean) for one in self._running if isinstance(one, Explained)}
        return sums | {y.shape[1:] for y, _ in self._recent}

    def _pairs(self) -> Iterable[tuple[Metric | Statistic, Running]]:
        return zip(self._metrics, self._running, strict=True)

    STATE = (
        Count("rows", "rows"),
        Parts("running"),
        Items("recent", "_recent", out=_as_state, back=_checked_block, kind=deque),
    )

    def _restored(self, sizes: Sizes) -> None:
        self._held = sum(len(y) for y, _ in self._recent)
        rows = {one.rows for one in self._running if isinstance(one, MeanLoss)}
        require(rows <= {self.rows}, "the metrics are of different rows")
