"""Progressive validation: every row is predicted before its label is learned, and scored.

A record has its metrics exactly at its row, wherever the blocks are cut; its time and size are
those at the end of the block that holds the row.

A row without a label (NaN of a number, None of a label) is predicted and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from time import perf_counter
from typing import Any, Literal

import numpy as np

from pronk.estimators.faces.threads import sharing
from pronk.evaluate.evaluation import Evaluation
from pronk.evaluate.progress import Bar
from pronk.evaluate.records import Record
from pronk.evaluate.rows import LONG_PIECE, PIECE, gathered, pieces
from pronk.evaluate.spreading import spread


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
    probabilities : bool, default False
        Ask a classifier for probabilities too: each record then has them in its ``forecast``.
    interval : float, optional
        Ask a regressor for intervals that hold y with this probability, as 0.9: in ``forecast``.
    n_jobs : int, optional
        Threads that share the pass of a learner that can be split, -1 for all cores; no bit depends
        on their number. Others are refused by name.
    client : a Dask ``Client``, optional
        The workers of a cluster share the pass of a learner that can be split. Of the default
        learner's rows the sequential part is done here. For the PKAWV learners the workers read
        the stream themselves: without a preparation before them, no probabilities or intervals.
    progress : bool or "always", default False
        Show a bar with rows, loss and, where the length of the stream is known, the time left: on
        stderr, where that is a terminal, or always.

    Examples
    --------
    >>> import pronk
    >>> from pronk.evaluate import progressive
    >>> from pronk.streams import drifting
    >>> learner = pronk.make("pkawv-taylor", degree=4)
    >>> for record in progressive(learner, drifting(20_000), every=10_000):
    ...     print(f"{record.rows} rows, mean squared error {record.metrics['mse']:.2f}")
    10000 rows, mean squared error 0.05
    20000 rows, mean squared error 0.06
    """
    parallel = n_jobs is not None or client is not None
    if parallel and delay:
        raise ValueError("delay: rows whose labels come late are learned one by one, not n_jobs")
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
            raise ValueError("client: a pass on a cluster has no weights")
        return _from_cluster(evaluation, Arrays(*stream) if pair else stream, client, bar)
    if parallel and getattr(stream, "weight", None) is None:
        blocks = gathered(blocks, piece)
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


def _records(
    evaluation: Evaluation, blocks: Any, bar: Bar | None, n_jobs: int | None, pool: Any
) -> Iterator[Record]:
    with bar or nullcontext(), spread(evaluation.model, n_jobs):
        for X, y in blocks:
            weights = getattr(blocks, "weights", None)
            for rows, targets, own in pieces(X, np.asarray(y), evaluation.piece, weights):
                with sharing(pool):
                    records = evaluation.feed(rows, targets, own)
                yield from records
                if bar is not None:
                    bar.show(evaluation)
        last = evaluation.finish()
    if last is not None:
        yield last
