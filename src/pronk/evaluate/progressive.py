"""Progressive validation of a model over a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from typing import Any, Literal

import numpy as np

from pronk.core.checks import unmasked
from pronk.estimators.inputs import with_times
from pronk.evaluate.evaluation import Evaluation, Record, pieces
from pronk.evaluate.formatting import Bar
from pronk.evaluate.models import Weights, supports_times


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
    quantiles: Any = None,
    times: Any = None,
    progress: bool | Literal["always"] = False,
) -> Iterator[Record]:
    """Predict then learn a stream, and yield a record every ``every`` rows and at the end.

    Rows that come before the first label that the model learns are not scored: the first row, and
    ``delay`` more. ``unpredicted`` of a record counts them.

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
        Labels arrive ``delay`` rows late: a row is predicted by a model that has not learned as
        many rows before it. The default learner, if it has learned nothing yet, gets the
        parameter ``delay``. For other learners rows are held back here: a row is scored when its
        label arrives, all labels arrive at the end of the stream, and with a delay of 16 rows and
        more rows are predicted in chunks of up to an eighth of the delay.
    predictions : bool, default False
        Put the predictions and targets since the last record into each record. Rows before the
        first learned label are 0 (or None) in ``predictions``, NaN (or None) in ``forecast``.
    memory : bool, default True
        Measure the bytes that the model holds at each record; takes up to a millisecond.
    probabilities : bool, default False
        Predict probabilities too, with a classifier; they are in ``forecast`` of each record.
    interval : float, optional
        Predict intervals that contain y with this probability, such as 0.9, with a regressor;
        they are in ``forecast`` of each record.
    quantiles : levels, optional
        Predict quantiles at these levels, such as (0.1, 0.5, 0.9), with a regressor; they are in
        ``forecast`` of each record, and the metrics "pinball" and "crps" can be asked for.
    times : (n,), optional
        Times of the rows of a pair of arrays, in seconds or datetimes, for learners in which older
        rows fade by time.
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
        quantiles=quantiles,
    )
    pair = isinstance(stream, tuple) and len(stream) == 2 and not isinstance(stream[0], tuple)
    blocks = [stream] if pair else stream
    bar = Bar(blocks, progress == "always") if progress else None
    if times is None:
        return _records(evaluation, blocks, bar)
    if not pair:
        raise ValueError("times needs a pair of arrays (X, y), not a stream of pairs")
    if not supports_times(model):
        raise ValueError(f"times has no meaning for {type(model).__name__}; leave it out")
    own = with_times(None, times)
    _, targets = next(iter(blocks))
    if len(own) != len(targets):
        raise ValueError(f"times has {len(own)} rows but y has {len(targets)}")
    return _records(evaluation, blocks, bar, own)


def _records(
    evaluation: Evaluation, blocks: Any, bar: Bar | None, own: Weights = None
) -> Iterator[Record]:
    weighted = getattr(blocks, "has_weights", False)
    triples = (
        ((block.X, block.y, block.weights) for block in blocks.blocks())
        if weighted
        else ((X, y, own) for X, y in blocks)
    )
    with bar or nullcontext():
        for X, y, weights in triples:
            y = np.asarray(unmasked(y))
            for rows, targets, given in pieces(X, y, evaluation.piece, weights):
                yield from evaluation.feed(rows, targets, given)
                if bar is not None:
                    bar.show(evaluation)
        last = evaluation.finish()
    if last is not None:
        yield last
