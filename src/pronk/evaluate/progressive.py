"""Progressive validation: every row is predicted and scored before its label is learned.

The model gets whole blocks and losses are vectors, so the evaluation costs a few NumPy calls per
block, not per row. The metrics of a record are exact at its row, wherever the blocks are cut; its
time and size are those at the end of the block that contains the row. An evaluation can stop
between two blocks and resume from its state.

A row without a label (NaN for a number, None for a label) is predicted and changes nothing else.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import chain
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pronk.core.checks import labelled_runs, without_gaps, without_label
from pronk.core.state import checked_count, load_part, require
from pronk.evaluate.forecasts import Forecast, column, figure
from pronk.evaluate.formatting import Bar
from pronk.evaluate.models import Adapter, Weights, adapt, predicts_labels, with_jobs
from pronk.evaluate.scoring import (
    LONG_PIECE,
    PIECE,
    Record,
    Scoring,
    first_pieces,
    gather,
    part,
    pieces,
)
from pronk.parallel import using_pool

_FIELDS = {"rows", "unlabelled", "seconds", "untimed", "recorded", "labels", "scores", "trace"}
_FIELDS |= {"waiting"}


class Evaluation(Scoring):
    """Progressive validation, called with one block at a time; see `progressive`.

    `feed` passes a block to the model and returns its records; `record` returns one at any time;
    `finish` ends the stream and returns the last record.
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
        probabilities: bool = False,
        interval: float | None = None,
        trace: bool = True,
        piece: int = PIECE,
        short_first: bool = False,
    ) -> None:
        super().__init__(
            model,
            metrics,
            every,
            window=window,
            predictions=predictions,
            memory=memory,
            trace=trace,
        )
        if delay < 0:
            raise ValueError(f"delay must be 0 or more rows, got {delay}")
        self.delay = delay
        self._short_first = short_first  # short first pieces, for charts of a short stream
        self.piece = piece  # rows per call of the model
        self._columns = columns
        self.probabilities = probabilities
        self.interval = interval
        self._labels: bool | None = None
        self._adapter: Adapter | None = None
        # x, y, forecast, weight
        self._waiting: deque[tuple[Any, Any, Forecast, float | None]] = deque()

    def feed(self, X: Any, y: Any, weights: Weights = None) -> list[Record]:
        """Predict and learn a block; return the records of its rows.

        ``weights`` are sample weights for learning; metrics count every row once.
        """
        y = np.asarray(y)
        adapter = self._adapter or self._start(y)
        records = []
        done = self.rows + self.unlabelled
        watched = self._short_first and self._traced and not self.delay
        blocks = first_pieces(X, y, weights, done) if watched else [(X, y, weights)]
        for piece, targets, own in chain.from_iterable(
            pieces(rows, labels, self.piece, given) for rows, labels, given in blocks
        ):
            missing = without_label(targets)
            if self.delay:
                records += self._feed_delayed(adapter, piece, targets, own)
            elif missing is None:
                records += self._feed_labelled(adapter, piece, targets, own)
            else:
                for rows, unlabelled in labelled_runs(missing):
                    some, known = piece[rows], without_gaps(targets[rows])
                    if unlabelled:
                        self._feed_unlabelled(adapter, some, known)
                    else:
                        records += self._feed_labelled(adapter, some, known, part(own, rows))
        return records

    def count(self, y: NDArray[Any], predictions: NDArray[Any], seconds: float) -> list[Record]:
        """Score rows that a model predicted and learned in other processes, as `feed` does."""
        if self._adapter is None:
            self._start(y)
        self.seconds += seconds
        self._memory = None
        records, missing = [], without_label(y)
        flags = np.zeros(len(y), dtype=bool) if missing is None else missing
        for rows, unlabelled in labelled_runs(flags):
            forecast = Forecast(predictions[rows])
            if unlabelled:
                self._count_unlabelled(y[rows], forecast)
            else:
                records += self._score(without_gaps(y[rows]), forecast)
        if self.trace is not None:
            self.trace.observe_model(self.rows, self.model)
        return records

    def _feed_labelled(
        self, adapter: Adapter, X: Any, y: NDArray[Any], weights: Weights
    ) -> list[Record]:
        began = perf_counter()
        forecast = adapter.predict_then_learn(X, y, weights)
        self.seconds += perf_counter() - began
        self._memory = None
        records = self._score(y, forecast)
        if self.trace is not None:
            self.trace.observe_model(self.rows, self.model)
        return records

    def _feed_unlabelled(self, adapter: Adapter, X: Any, y: NDArray[Any]) -> None:
        began = perf_counter()
        forecast = adapter.predict(X).widened(_outputs(y))
        self.seconds += perf_counter() - began
        self._count_unlabelled(y, forecast)

    def _feed_delayed(
        self, adapter: Adapter, X: Any, y: NDArray[Any], weights: Weights
    ) -> list[Record]:
        began = perf_counter()
        arrived = self._delayed(adapter, X, y, weights)
        self.seconds += perf_counter() - began
        self._memory = None
        return self._score_mixed(arrived)

    def finish(self) -> Record | None:
        """Score the rows that wait for labels; return the last record, if there is a new one."""
        if self._waiting and self._adapter is not None:
            rest = list(self._waiting)
            self._waiting.clear()
            began = perf_counter()
            for x, target, _, weight in rest:
                self._learn_one(self._adapter, x, target, weight)
            self.seconds += perf_counter() - began
            self._memory = None
            self.every = None  # one record for the rest
            self._score_mixed([(target, forecast) for _, target, forecast, _ in rest])
        if not self.rows:
            what = "has no row with a label" if self.unlabelled else "has no rows"
            raise ValueError(f"the stream {what}")
        fresh = self.rows + self.unlabelled > self._recorded
        return self.record() if fresh else None

    # -- state -----------------------------------------------------------------------------------

    def to_state(self, *, clock: bool = True) -> dict[str, Any]:
        """Return everything but the model and the arguments, for a checkpoint between two blocks.

        Without ``clock`` the state depends only on the rows, and times start over.
        """
        if self._kept:
            raise ValueError("there are predictions that are in no record: call record() first")
        waiting = [
            [np.asarray(x), y, forecast.to_state(), *([] if weight is None else [weight])]
            for x, y, forecast, weight in self._waiting
        ]
        return {
            "rows": self.rows,
            "unlabelled": self.unlabelled,
            "seconds": self.seconds if clock else 0.0,
            "untimed": self._untimed if clock else self.rows + self.unlabelled,
            "recorded": self._recorded,
            "labels": self._labels,
            "scores": None if self._scores is None else self._scores.to_state(),
            "trace": None if self.trace is None else self.trace.to_state(),
            "waiting": waiting,
            **self._part_state(),
            **({"each": [one.to_state() for one in self._each]} if self._each else {}),
        }

    def restore(self, state: Any) -> None:
        """Restore the result of `to_state` in an evaluation with the same arguments and model.

        The state may come from a file: raise a StateError if it is damaged.
        """
        require(isinstance(state, dict) and set(state) >= _FIELDS, "the evaluation lacks fields")
        self.rows = checked_count(state["rows"], "rows")
        self.unlabelled = checked_count(state["unlabelled"], "unlabelled")
        self._recorded = checked_count(state["recorded"], "recorded")
        self._untimed = checked_count(state["untimed"], "untimed", 0, self.rows + self.unlabelled)
        self.seconds = figure(state["seconds"], "seconds")
        if state["labels"] is None:
            return
        require(type(state["labels"]) is bool, "labels is neither true nor false")
        self._begin(state["labels"])
        assert self._scores is not None
        load_part(self._scores, state["scores"], "scores")
        self._scores.check_restored(state["labels"])
        if self.trace is not None:
            load_part(self.trace, state["trace"], "trace")
            require(self.trace.segments.rows == self.rows, "trace has other rows")
            shapes = self._scores.outputs | self.trace.outputs
            require(len(shapes) <= 1 or not self.rows, "the targets have several shapes")
        self._restore_each(state.get("each", []))
        if "part" in state:
            self._restore_part(state["part"])
        require(isinstance(state["waiting"], list), "waiting is not a list")
        require(len(state["waiting"]) <= self.delay, "more rows wait than delay allows")
        self._waiting = deque(_checked_waiting(entry) for entry in state["waiting"])

    def _start(self, y: NDArray[Any]) -> Adapter:
        return self._begin(predicts_labels(self.model, y))

    def _begin(self, labels: bool) -> Adapter:
        self._labels = labels
        shares = labels and self.probabilities
        coverage = None if labels else self.interval
        self._adapter = adapt(self.model, labels, self._columns, shares, coverage)
        self._start_scoring(labels, shares, coverage)
        return self._adapter

    def _delayed(
        self, adapter: Adapter, X: Any, y: NDArray[Any], weights: Weights
    ) -> list[tuple[Any, Forecast]]:
        """Predict each row, then learn the row whose label arrives."""
        arrived = []
        for i in range(len(y)):
            x = X[i : i + 1]
            weight = None if weights is None else float(weights[i])
            predicted = adapter.predict(x).widened(_outputs(y))
            self._waiting.append((x, y[i], predicted, weight))
            if len(self._waiting) > self.delay:
                x, target, forecast, weight = self._waiting.popleft()
                self._learn_one(adapter, x, target, weight)
                arrived.append((target, forecast))
        return arrived

    def _learn_one(self, adapter: Adapter, x: Any, target: Any, weight: float | None) -> None:
        y = column([target])
        if without_label(y) is None:
            adapter.learn(x, y, None if weight is None else np.array([weight]))


def _checked_waiting(entry: Any) -> tuple[Any, Any, Forecast, float | None]:
    """Read a row that waits for its label from a file."""
    require(isinstance(entry, list) and len(entry) in (3, 4), "waiting has no rows")
    x, y, forecast = entry[0], entry[1], Forecast.from_state(entry[2])
    good = isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype.kind == "f" and len(x) == 1
    require(good and len(forecast) == 1, "waiting has no rows")
    simple = y is None or isinstance(y, str | int | float)
    require(simple or (isinstance(y, np.ndarray) and y.dtype.kind == "f"), "waiting has no labels")
    return x, y, forecast, figure(entry[3], "waiting") if len(entry) == 4 else None


def _outputs(y: NDArray[Any]) -> int | None:
    return y.shape[1] if y.ndim == 2 else None


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
    probabilities: bool = False,
    interval: float | None = None,
    n_jobs: int | None = None,
    client: Any = None,
    progress: bool | Literal["always"] = False,
) -> Iterator[Record]:
    """Predict then learn a stream, and yield a record every ``every`` rows and at the end.

    Parameters
    ----------
    model : a pronk learner, or any model with river's ``predict_one`` and ``learn_one``
    stream : pair of arrays (X, y), or an iterable of such pairs
        For example a `pronk.data.FileStream` or `pronk.data.drifting`.
    metrics : names or functions, optional
        "mse", "rmse", "mae", "error", "accuracy", or functions of (y, predictions) that return one
        loss per row. Default: "mse" and "mae" for a regressor, "error" for a classifier.
    every : int, optional
        Rows between two records; without it there is one record, at the end.
    window : int, optional
        Rows of the windowed metrics; ``every`` unless given.
    delay : int, default 0
        Labels arrive so many rows late: a row is predicted by a model that has not learned the
        ``delay`` rows before it. Slower, because rows are processed one by one. A row is scored
        when its label arrives; all labels arrive at the end of the stream.
    predictions : bool, default False
        Put the predictions and targets since the last record into each record.
    memory : bool, default True
        Measure the bytes that the model holds at each record; takes up to a millisecond.
    probabilities : bool, default False
        Predict probabilities too, with a classifier; they are in ``forecast`` of each record.
    interval : float, optional
        Predict intervals that contain y with this probability, such as 0.9, with a regressor;
        they are in ``forecast`` of each record.
    n_jobs : int, optional
        Threads that share the pass, -1 for all cores; no bit depends on their number. Raises if
        the pass of the learner cannot be split.
    client : a Dask ``Client``, optional
        The workers of a cluster share the pass of a learner that can be split. For the default
        learner, this process does the sequential part. For the PKAWV learners, the workers read
        the stream: without preparation of columns, probabilities or intervals.
    progress : bool or "always", default False
        Show a progress bar with rows, loss and, if the length of the stream is known, the time
        left, on stderr: if it is a terminal, or always.

    Examples
    --------
    >>> import pronk
    >>> from pronk.evaluate import progressive
    >>> from pronk.data import drifting
    >>> learner = pronk.make("pkawv-taylor", degree=4)
    >>> for record in progressive(learner, drifting(20_000), every=10_000):
    ...     print(f"{record.rows} rows, mean squared error {record.metrics['mse']:.2f}")
    10000 rows, mean squared error 0.05
    20000 rows, mean squared error 0.06
    """
    parallel = n_jobs is not None or client is not None
    if parallel and delay:
        raise ValueError("delay excludes n_jobs and client: delayed labels are learned one by one")
    piece = LONG_PIECE if parallel else PIECE
    pool: Any = None
    if client is not None:
        from pronk.cluster.pool import pool_for

        pool = pool_for(model, client)
        piece = LONG_PIECE if pool is None else pool.plan.longest
    evaluation = Evaluation(
        model,
        metrics,
        every,
        window=window,
        delay=delay,
        predictions=predictions,
        memory=memory,
        columns=getattr(stream, "columns", None),
        probabilities=probabilities,
        interval=interval,
        piece=piece,
    )
    pair = isinstance(stream, tuple) and len(stream) == 2 and not isinstance(stream[0], tuple)
    blocks = [stream] if pair else stream
    bar = Bar(blocks, progress == "always") if progress else None
    if client is not None and pool is None:
        if probabilities or interval is not None:
            raise ValueError("client: a pass on a cluster has no probabilities or intervals")
        if getattr(stream, "weight", None) is not None:
            raise ValueError("client: a pass on a cluster does not support sample weights")
        return _from_cluster(evaluation, Arrays(*stream) if pair else stream, client, bar)
    if parallel and getattr(stream, "weight", None) is None:
        blocks = gather(blocks, piece)
    return _records(evaluation, blocks, bar, n_jobs, pool)


class Arrays:
    """A pair of arrays as a stream of blocks."""

    rows = PIECE

    def __init__(self, X: Any, y: Any) -> None:
        self.X, self.y = np.ascontiguousarray(X, dtype=np.float64), np.asarray(y)

    def blocks(self, skip: int = 0) -> Iterator[tuple[Any, Any]]:
        for i in range(skip, len(self.y), self.rows):
            yield self.X[i : i + self.rows], self.y[i : i + self.rows]


def _from_cluster(
    evaluation: Evaluation, stream: Any, client: Any, bar: Bar | None
) -> Iterator[Record]:
    from pronk.cluster import ClusterPass

    model = evaluation.model
    with bar or nullcontext():
        began = perf_counter()
        for part in ClusterPass(model, stream, client).run():
            model.__dict__.update(part.model().__dict__)
            yield from evaluation.count(part.targets, part.predictions, perf_counter() - began)
            began = perf_counter()
            if bar is not None:
                bar.show(evaluation)
        last = evaluation.finish()
    if last is not None:
        yield last


def _with_weights(blocks: Any) -> Iterator[tuple[Any, Any, Weights]]:
    """Yield (X, y, weights) of the blocks of a file, or of pairs (X, y)."""
    if getattr(blocks, "weight", None) is None:
        yield from ((X, y, None) for X, y in blocks)
    else:
        yield from ((block.X, block.y, block.weights) for block in blocks.blocks())


def _records(
    evaluation: Evaluation, blocks: Any, bar: Bar | None, n_jobs: int | None, pool: Any
) -> Iterator[Record]:
    with bar or nullcontext(), with_jobs(evaluation.model, n_jobs):
        for X, y, weights in _with_weights(blocks):
            for rows, targets, own in pieces(X, np.asarray(y), evaluation.piece, weights):
                with using_pool(pool):
                    records = evaluation.feed(rows, targets, own)
                yield from records
                if bar is not None:
                    bar.show(evaluation)
        last = evaluation.finish()
    if last is not None:
        yield last
