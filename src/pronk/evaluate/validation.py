"""Progressive validation: every row is predicted before its label is learned, and scored.

The learner gets whole blocks and the losses are vectors, so the evaluation costs some NumPy calls
a block, not a row. A record has its metrics exactly at its row, wherever the blocks are cut; its
time and size are those at the end of the block that holds the row.

A row without a label (NaN of a number, None of a label) is predicted and changes nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.adapters import Adapter, adapt, predicts_labels
from pronk.evaluate.memory import held_bytes
from pronk.evaluate.metrics import DEFAULTS, Averages, get_metrics

#: A longer block is given to the model in pieces of this many rows.
PIECE = 4096


@dataclass(frozen=True, slots=True)
class Record:
    """The state of an evaluation after some rows."""

    rows: int
    """Rows scored so far."""
    metrics: dict[str, float]
    """Means over all rows so far."""
    windowed: dict[str, float]
    """Means over the last ``window`` rows."""
    seconds: float
    """Time spent in the model."""
    size: int | None
    """Points held by the model (its ``size_``), where it tells."""
    memory: int | None
    """Bytes held by the model, if asked for."""
    predictions: NDArray[Any] | None = field(default=None, repr=False)
    """Of the rows since the last record, if asked for."""
    targets: NDArray[Any] | None = field(default=None, repr=False)
    """The targets of those rows; NaN or None where a row had none."""
    unlabelled: int = 0
    """Rows without a label so far, which were predicted only."""

    @property
    def microseconds_a_row(self) -> float:
        """Time in the model for one row."""
        return 1e6 * self.seconds / max(1, self.rows + self.unlabelled)

    def to_dict(self) -> dict[str, Any]:
        """The numbers, for JSON; without predictions."""
        return {
            "rows": self.rows,
            "unlabelled": self.unlabelled,
            "metrics": dict(self.metrics),
            "windowed": dict(self.windowed),
            "seconds": self.seconds,
            "microseconds_a_row": self.microseconds_a_row,
            "size": self.size,
            "memory": self.memory,
        }


class Evaluation:
    """Progressive validation that is given its blocks one by one; see `progressive`.

    `feed` gives a block to the model and returns the records that fall into it; `finish` ends the
    stream and returns the last record.
    """

    def __init__(
        self,
        model: Any,
        metrics: Any = None,
        every: int | None = None,
        *,
        window: int | None = None,
        delay: int = 0,
        predictions: bool = False,
        memory: bool = True,
        columns: Sequence[str] | None = None,
    ) -> None:
        _check_counts(every=every, window=window)
        if delay < 0:
            raise ValueError(f"delay must be 0 or more rows, got {delay}")
        self.model = model
        self.every = every
        self.window = window if window is not None else every
        self.delay = delay
        self.rows = 0
        self.unlabelled = 0
        self.seconds = 0.0
        self._metrics = None if metrics is None else get_metrics(metrics)
        self._columns = columns
        self._labels: bool | None = None
        self._adapter: Adapter | None = None
        self._averages: list[Averages] = []
        self._waiting: deque[tuple[Any, Any, Any]] = deque()  # x, y, prediction
        self._keep = predictions
        self._weigh = memory
        self._kept: list[tuple[NDArray[Any], NDArray[Any]]] = []
        self._recorded = 0

    def feed(self, X: Any, y: Any) -> list[Record]:
        """Predict then learn a block; the records of the rows that were scored."""
        y = np.asarray(y)
        adapter = self._adapter or self._start(y)
        records = []
        for piece, targets in _pieces(X, y):
            missing = _without_label(targets)
            if self.delay:
                records += self._feed_delayed(adapter, piece, targets)
            elif missing is None:
                records += self._feed_labelled(adapter, piece, targets)
            else:
                for rows, unlabelled in _runs(missing):
                    feed = self._feed_unlabelled if unlabelled else self._feed_labelled
                    records += feed(adapter, piece[rows], _plain(targets[rows]))
        return records

    def _feed_labelled(self, adapter: Adapter, X: Any, y: NDArray[Any]) -> list[Record]:
        began = perf_counter()
        predictions = adapter.predict_then_learn(X, y)
        self.seconds += perf_counter() - began
        return self._score(y, np.asarray(predictions))

    def _feed_unlabelled(self, adapter: Adapter, X: Any, y: NDArray[Any]) -> list[Record]:
        began = perf_counter()
        predictions = adapter.predict(X)
        self.seconds += perf_counter() - began
        self._pass_by(y, predictions)
        return []

    def _feed_delayed(self, adapter: Adapter, X: Any, y: NDArray[Any]) -> list[Record]:
        began = perf_counter()
        targets, predictions = self._delayed(adapter, X, y)
        self.seconds += perf_counter() - began
        return self._score_mixed(targets, predictions)

    def _pass_by(self, y: NDArray[Any], predictions: NDArray[Any]) -> None:
        """Count rows without a label."""
        self.unlabelled += len(y)
        if self._keep:
            self._kept.append((y, predictions))

    def _score_mixed(self, y: NDArray[Any], predictions: NDArray[Any]) -> list[Record]:
        """As `_score`, where some rows may have no label."""
        missing = _without_label(y)
        if missing is None:
            return self._score(y, predictions)
        records = []
        for rows, unlabelled in _runs(missing):
            if unlabelled:
                self._pass_by(y[rows], predictions[rows])
            else:
                records += self._score(_plain(y[rows]), predictions[rows])
        return records

    def finish(self) -> Record | None:
        """Score what still waits for its label; the last record, unless it was just returned."""
        if self._waiting and self._adapter is not None:
            rows, targets, predictions = zip(*self._waiting, strict=True)
            self._waiting.clear()
            began = perf_counter()
            for x, target in zip(rows, targets, strict=True):
                self._learn_one(self._adapter, x, target)
            self.seconds += perf_counter() - began
            self.every = None  # one record for the rest
            self._score_mixed(_column(targets), _column(predictions))
        if not self.rows:
            what = "has no row with a label" if self.unlabelled else "has no rows"
            raise ValueError(f"the stream {what}")
        fresh = self.rows + self.unlabelled > self._recorded
        return self._record() if fresh else None

    # -- state -----------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """Everything but the model and the arguments, for a checkpoint between two blocks."""
        if self._kept:
            raise ValueError("predictions wait for a record: call record() first")
        waiting = [[np.asarray(x), y, prediction] for x, y, prediction in self._waiting]
        return {
            "rows": self.rows,
            "unlabelled": self.unlabelled,
            "seconds": self.seconds,
            "recorded": self._recorded,
            "labels": self._labels,
            "averages": [average.to_state() for average in self._averages],
            "waiting": waiting,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `to_state` gave; made with the same arguments, its model restored."""
        self.rows, self.unlabelled = state["rows"], state["unlabelled"]
        self.seconds, self._recorded = state["seconds"], state["recorded"]
        if state["labels"] is None:
            return
        self._begin(state["labels"])
        for average, held in zip(self._averages, state["averages"], strict=True):
            average.restore(held)
        self._waiting = deque((x, y, prediction) for x, y, prediction in state["waiting"])

    def _start(self, y: NDArray[Any]) -> Adapter:
        return self._begin(predicts_labels(self.model, y))

    def _begin(self, labels: bool) -> Adapter:
        self._labels = labels
        self._adapter = adapt(self.model, labels, self._columns)
        if self._metrics is None:
            self._metrics = get_metrics(DEFAULTS["classification" if labels else "regression"])
        self._averages = [Averages(metric, self.window) for metric in self._metrics]
        return self._adapter

    def _delayed(
        self, adapter: Adapter, X: Any, y: NDArray[Any]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Row by row: predict the newest, then learn the one whose label arrives now."""
        arrived = []
        for i in range(len(y)):
            x = X[i : i + 1]
            self._waiting.append((x, y[i], adapter.predict_row(x)))
            if len(self._waiting) > self.delay:
                x, target, prediction = self._waiting.popleft()
                self._learn_one(adapter, x, target)
                arrived.append((target, prediction))
        if not arrived:
            return y[:0], y[:0]
        targets, predictions = zip(*arrived, strict=True)
        return _column(targets), _column(predictions)

    def _learn_one(self, adapter: Adapter, x: Any, target: Any) -> None:
        y = _column([target])
        if _without_label(y) is None:
            adapter.learn(x, y)

    def _score(self, y: NDArray[Any], predictions: NDArray[Any]) -> list[Record]:
        """Count the losses, stopping at the rows where a record is due."""
        if not len(y):
            return []
        losses = [average.metric.rows(y, predictions) for average in self._averages]
        ends = [len(y)]
        if self.every is not None:
            due = range(self.every - self.rows % self.every, len(y) + 1, self.every)
            ends = [*due] if due and due[-1] == len(y) else [*due, len(y)]
        records, start = [], 0
        for end in ends:
            for average, values in zip(self._averages, losses, strict=True):
                average.add(values[start:end])
            self.rows += end - start
            if self._keep:
                self._kept.append((y[start:end], predictions[start:end]))
            if self.every is not None and self.rows % self.every == 0:
                records.append(self._record())
            start = end
        return records

    def record(self) -> Record:
        """The state now, with the predictions since the last record."""
        return self._record()

    def _record(self) -> Record:
        self._recorded = self.rows + self.unlabelled
        targets, predictions = None, None
        if self._keep and self._kept:
            targets = np.concatenate([pair[0] for pair in self._kept])
            predictions = np.concatenate([pair[1] for pair in self._kept])
            self._kept = []
        size = getattr(self.model, "size_", None)
        return Record(
            rows=self.rows,
            metrics={average.metric.name: average.mean() for average in self._averages},
            windowed={average.metric.name: average.recent() for average in self._averages},
            seconds=self.seconds,
            size=None if size is None else int(size),
            memory=held_bytes(self.model) if self._weigh else None,
            predictions=predictions,
            targets=targets,
            unlabelled=self.unlabelled,
        )


def progressive(
    model: Any,
    stream: Iterable[Any],
    metrics: Any = None,
    every: int | None = None,
    *,
    window: int | None = None,
    delay: int = 0,
    predictions: bool = False,
    memory: bool = True,
) -> Iterator[Record]:
    """Predict then learn a stream, and yield a record every ``every`` rows and at the end.

    Parameters
    ----------
    model : a pronk learner, or any model with river's ``predict_one`` and ``learn_one``
    stream : pair of arrays (X, y), or an iterable of such pairs
        For example a `pronk.streams.FileStream` or `pronk.streams.drifting`.
    metrics : names or functions, optional
        "mse", "rmse", "mae", "error", "accuracy", or functions of (y, predictions) that return one
        loss a row. Default: "mse" and "mae" for a regressor, "error" for a classifier.
    every : int, optional
        Rows between two records; without it there is one record, at the end.
    window : int, optional
        Rows of the windowed metrics; ``every`` unless given.
    delay : int, default 0
        Labels come so many rows late: a row is predicted by a model that has not learned the
        ``delay`` rows before it either. Row by row, thus slower. A row is scored when its label
        comes; at the end of the stream all labels come.
    predictions : bool, default False
        Put the predictions and targets since the last record into each record.
    memory : bool, default True
        Count the bytes that the model holds at each record; up to a millisecond.

    Examples
    --------
    >>> import pronk
    >>> from pronk.evaluate import progressive
    >>> from pronk.streams import drifting
    >>> learner = pronk.make("pkawv-taylor", degree=4)
    >>> for record in progressive(learner, drifting(20_000), every=10_000):
    ...     print(f"{record.rows} rows, mean squared error {record.metrics['mse']:.2f}")
    10000 rows, mean squared error 0.04
    20000 rows, mean squared error 0.06
    """
    evaluation = Evaluation(
        model,
        metrics,
        every,
        window=window,
        delay=delay,
        predictions=predictions,
        memory=memory,
        columns=getattr(stream, "columns", None),
    )
    return _records(evaluation, stream)


def _records(evaluation: Evaluation, stream: Any) -> Iterator[Record]:
    pair = isinstance(stream, tuple) and len(stream) == 2 and not isinstance(stream[0], tuple)
    for X, y in [stream] if pair else stream:
        yield from evaluation.feed(X, y)
    last = evaluation.finish()
    if last is not None:
        yield last


def _pieces(X: Any, y: NDArray[Any]) -> Iterator[tuple[Any, NDArray[Any]]]:
    """A block, or pieces of a long one where X is an array or a sparse matrix."""
    if len(y) <= PIECE or not (isinstance(X, np.ndarray) or hasattr(X, "tocsr")):
        yield X, y
        return
    if len(y) != X.shape[0]:
        raise ValueError(f"y has {len(y)} rows but X has {X.shape[0]}: give one label a row")
    for start in range(0, len(y), PIECE):
        yield X[start : start + PIECE], y[start : start + PIECE]


def _without_label(y: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Which rows have no label; None if all have."""
    if y.dtype.kind == "f":
        missing = np.isnan(y) if y.ndim == 1 else np.isnan(y).all(axis=1)
    elif y.dtype == object:
        missing = np.array([value is None or value != value for value in y.tolist()], dtype=bool)
    else:
        return None
    return missing if missing.any() else None


def _runs(flags: NDArray[np.bool_]) -> Iterator[tuple[slice, bool]]:
    """Rows in a row with the same flag."""
    starts = [0, *(np.flatnonzero(np.diff(flags)) + 1).tolist(), len(flags)]
    for start, end in pairwise(starts):
        yield slice(start, end), bool(flags[start])


def _plain(y: NDArray[Any]) -> NDArray[Any]:
    """Labels without gaps as an array of their own kind."""
    return np.array(y.tolist()) if y.dtype == object and y.tolist()[0] is not None else y


def _column(values: Sequence[Any]) -> NDArray[Any]:
    """Predictions or targets that came one by one, as an array; some labels may be None."""
    if any(value is None for value in values):
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column
    return np.array(values)


def _check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1 row, got {count}")
