"""One model evaluated progressively: every row is predicted and scored before it is learned.

The model gets whole blocks and losses are vectors, so the evaluation costs a few NumPy calls per
block, not per row. The metrics of a record are exact at its row, wherever the blocks are cut; its
time and size are those at the end of the block that contains the row. An evaluation can stop
between two blocks and resume from its state.

A row without a label (NaN for a number, None for a label) is predicted and changes nothing else.

Rows that come before the model has learned its first label have no prediction and are not scored,
for the baselines neither. They are the first rows of the stream, with late labels delay + 1 of
them; a model that has learned before has none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.checks import labelled_runs, unmasked, without_gaps, without_label
from pronk.core.first_rows import learned_rows
from pronk.core.state import checked_count, load_part, require
from pronk.estimators.inputs import TimedWeights
from pronk.evaluate.baselines import Lead, describe_repeating, leads
from pronk.evaluate.drawing import Charts
from pronk.evaluate.fields import checked_column, doubles, figure
from pronk.evaluate.formatting import describe_rows
from pronk.evaluate.metrics import DEFAULTS, Scores, describe_leads, get_scores
from pronk.evaluate.models import (
    Adapter,
    Forecast,
    Weights,
    adapt,
    held_bytes,
    joined,
    labels_learned,
    own_delay,
    predicts_labels,
    takes_delay,
)
from pronk.evaluate.pictures import pictures
from pronk.evaluate.trace import Trace

#: The model gets longer blocks in pieces of this many rows.
PIECE = 4096
#: Rows of the first pieces of a stream.
EARLY = 256
#: Most rows of a chunk where labels are held back.
LONGEST_CHUNK = 64
#: Rows that wait for labels: X, y, forecast, and weights or None.
Block = tuple[Any, NDArray[Any], Forecast, Weights]
_FIELDS = {"rows", "unlabelled", "unpredicted", "blind", "seconds", "untimed", "recorded", "labels"}
_FIELDS |= {"scores", "trace", "waiting"}


@dataclass(frozen=True, slots=True)
class Record:
    """The state of an evaluation after some rows."""

    rows: int
    """Rows with a label so far."""
    metrics: dict[str, float]
    """Means over all rows so far that have a prediction."""
    windowed: dict[str, float]
    """Means over the last ``window`` rows."""
    seconds: float
    """Time spent in the model."""
    size: int | None
    """Points held by the model (its ``size_``), if it has this attribute."""
    memory: int | None
    """Bytes held by the model, with ``memory=True``."""
    predictions: NDArray[Any] | None = field(default=None, repr=False)
    """Predictions since the last record, with ``predictions=True``; of numbers, 0 for none."""
    targets: NDArray[Any] | None = field(default=None, repr=False)
    """The targets of those rows; NaN or None where a row had none."""
    forecast: Forecast | None = field(default=None, repr=False)
    """The predictions with probabilities and intervals, if requested; NaN or None for none."""
    unlabelled: int = 0
    """Rows without a label so far, which were only predicted."""
    unpredicted: int = 0
    """Rows of ``rows`` before the first learned label: they have no prediction and no score."""
    outputs: tuple[dict[str, float], ...] = ()
    """The metrics of each target, if there are several."""
    untimed: int = 0
    """Rows not included in ``seconds``: those of an earlier run of the same model."""

    @property
    def microseconds_per_row(self) -> float:
        """Time in the model for one row."""
        return 1e6 * self.seconds / max(1, self.rows + self.unlabelled - self.untimed)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers for JSON, without predictions."""
        names = ["rows", "unlabelled", "unpredicted", "metrics", "windowed", "seconds"]
        names += ["microseconds_per_row", "size", "memory"]
        return {name: getattr(self, name) for name in names}


class Evaluation:
    """Progressive validation, called with one block at a time; see `progressive`.

    `feed` passes a block to the model and returns its records; `record` returns one at any time;
    `finish` ends the stream and returns the last record.

    Parameters
    ----------
    model : a pronk learner, or any model with river's ``predict_one`` and ``learn_one``
    metrics, every, window, delay, predictions, memory, probabilities, interval, quantiles : see
        `progressive`
    columns : names of the columns, for models that get a dict per row
    trace : whether to keep a `Trace`, the data of a report
    piece : rows per call of the model
    short_first : whether the first pieces are short, for charts of a short stream
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
        quantiles: Any = None,
        trace: bool = True,
        piece: int = PIECE,
        short_first: bool = False,
    ) -> None:
        for name, count in (("every", every), ("window", window)):
            if count is not None and count < 1:
                raise ValueError(f"{name} must be at least 1 row, got {count}")
        if delay < 0:
            raise ValueError(f"delay must be 0 or more rows, got {delay}")
        self.model = model
        self.every = every
        self.window = window if window is not None else every
        #: Rows by which labels are late; rows by which they are held back here, not by the model.
        self.delay = delay or own_delay(model)
        self._held_back = 0 if not delay or takes_delay(model, delay) else delay
        self.piece = piece
        self.probabilities = probabilities
        self.interval = interval
        self.quantiles = quantiles
        self.rows = 0
        self.unlabelled = 0
        self.unpredicted = 0
        self.seconds = 0.0
        self.trace: Trace | None = None
        """Losses along the stream, alarms, calibration: the data of a report."""
        self._columns = columns
        self._short_first = short_first
        self._traced = trace
        self._keep_forecasts = predictions
        self._measure_memory = memory
        self._untimed = 0  # rows from before the clock was started
        self._learned = 0  # labels that the model got, no further than it matters
        self._blind = 0  # first rows of the stream, predicted before the first learned label
        self._labels: bool | None = None
        self._adapter: Adapter | None = None
        self._metrics = None if metrics is None else get_scores(metrics)
        self._scores: Scores | None = None
        self._each: list[Scores] = []  # of several targets
        self._part: Scores | None = None  # of the rows since `begin_part`
        self._part_rows = 0
        self._waiting: deque[Block] = deque()
        self._waiting_rows = 0
        self._kept: list[tuple[NDArray[Any], Forecast]] = []
        self._recorded = 0
        self._memory: int | None = None  # None: the model has changed since it was measured

    def feed(self, X: Any, y: Any, weights: Weights = None, given: Weights = None) -> list[Record]:
        """Predict and learn a block; return the records of its rows.

        ``weights`` are sample weights for learning; metrics count every row once. ``given`` are the
        weights of the stream, also if the model does not use them: rows that come before the first
        label of positive weight are not scored, whatever the model.
        """
        y = np.asarray(unmasked(y))
        adapter = self._adapter or self._begin(predicts_labels(self.model, y))
        records = []
        done = self.rows + self.unlabelled
        watched = self._short_first and self._traced and not self._held_back
        given = weights if given is None else given
        learned, start = np.ones(len(y), bool) if given is None else learned_rows(given), 0
        for piece, targets, own in pieces(X, y, self.piece, weights, done if watched else PIECE):
            missing = without_label(targets)
            flags, start = learned[start : start + len(targets)], start + len(targets)
            if self._held_back:
                records += self._feed_delayed(adapter, piece, targets, own)
            elif missing is None:
                records += self._feed_labelled(adapter, piece, targets, own, flags)
            else:
                for rows, unlabelled in labelled_runs(missing):
                    some, known = piece[rows], without_gaps(targets[rows])
                    if unlabelled:
                        with self._clock():
                            forecast = adapter.predict(some).widened(_outputs(known))
                        self._count_blind(np.zeros(len(known), bool))
                        self._count_unlabelled(known, forecast)
                    else:
                        more = part(own, rows), flags[rows]
                        records += self._feed_labelled(adapter, some, known, *more)
        return records

    @contextmanager
    def _clock(self) -> Iterator[None]:
        """Count the time spent in the model."""
        began = perf_counter()
        yield
        self.seconds += perf_counter() - began

    def _feed_labelled(
        self, adapter: Adapter, X: Any, y: NDArray[Any], weights: Weights,
        learned: NDArray[np.bool_],
    ) -> list[Record]:  # fmt: skip
        with self._clock():
            forecast = adapter.predict_then_learn(X, y, weights)
        self._memory = None
        self._count_blind(learned)
        records = self._score(y, forecast)
        if self.trace is not None:
            self.trace.observe_model(self.rows, self.model)
        return records

    def _count_blind(self, learned: NDArray[np.bool_]) -> None:
        """Count the next rows that are predicted before a label is learned, and their labels.

        ``learned`` are the rows that the model learns right after their prediction.
        """
        late = 0 if self._held_back else self.delay  # labels that the model itself holds back
        if self._learned <= late:
            before = self._learned + np.cumsum(learned) - learned
            self._blind += int(np.count_nonzero(before <= late))
            self._learned += int(np.count_nonzero(learned))

    def _feed_delayed(
        self, adapter: Adapter, X: Any, y: NDArray[Any], weights: Weights
    ) -> list[Record]:
        """Predict the rows of each chunk, then learn the rows whose labels have arrived.

        Chunks are counted from the start of the stream. A chunk has one row, or as many as an
        eighth of the delay: a row is then predicted as if its labels were later by up to an eighth.
        """
        arrived: list[Block] = []
        start, chunk = 0, chunk_rows(self._held_back)
        done = self.rows + self.unlabelled + self._waiting_rows
        while start < len(y):
            rows = slice(start, min(len(y), start + chunk - done % chunk))
            with self._clock():
                forecast = adapter.predict(X[rows]).widened(_outputs(y))
            self._waiting.append((X[rows], y[rows], forecast, part(weights, rows)))
            self._count_blind(np.zeros(len(forecast), bool))
            self._waiting_rows += len(forecast)
            done += len(forecast)
            if done % chunk == 0:
                arrived += self._learn_arrived(adapter, self._held_back)
            start = rows.stop
        return self._score_arrived(arrived)

    def _learn_arrived(self, adapter: Adapter, keep: int) -> list[Block]:
        """Learn the rows that wait, except for the last ``keep``, and return them."""
        self._memory = None
        arrived: list[Block] = []
        while (count := self._waiting_rows - keep) > 0:
            block = self._waiting.popleft()
            if len(block[1]) > count:
                self._waiting.appendleft(_rows(block, slice(count, None)))
                block = _rows(block, slice(count))
            self._waiting_rows -= len(block[1])
            arrived.append(block)
        if len(arrived) > 1 and all(isinstance(block[0], np.ndarray) for block in arrived):
            arrived = [_together(arrived)]
        for X, y, _, weights in arrived:
            missing = without_label(y)
            known = np.zeros(len(y), bool) if missing is None else missing
            for rows, unlabelled in labelled_runs(known):
                if not unlabelled:
                    given = part(weights, rows)
                    with self._clock():
                        adapter.learn(X[rows], without_gaps(y[rows]), given)
                    learned = np.ones(len(y[rows])) if given is None else given
                    self._learned += int(np.count_nonzero(learned_rows(learned)))
        return arrived

    def finish(self) -> Record | None:
        """Score the rows that wait for labels; return the last record, if there is a new one."""
        if self._waiting and self._adapter is not None:
            self.every = None  # one record for the rest
            self._score_arrived(self._learn_arrived(self._adapter, 0))
        if not self.rows:
            what = "has no row with a label" if self.unlabelled else "has no rows"
            raise ValueError(f"the stream {what}")
        fresh = self.rows + self.unlabelled > self._recorded
        return self.record() if fresh else None

    # -- scores ----------------------------------------------------------------------------------

    def _begin(self, labels: bool) -> Adapter:
        """Start scoring, when it is known whether predictions are labels or numbers."""
        self._labels = labels
        self._learned = labels_learned(self.model)
        shares = labels and self.probabilities
        coverage, levels = (None, None) if labels else (self.interval, self.quantiles)
        self._adapter = adapt(self.model, labels, self._columns, shares, coverage, quantiles=levels)
        if self._metrics is None:
            self._metrics = get_scores(DEFAULTS["classification" if labels else "regression"])
        for metric in self._metrics:
            if metric.probabilities and not shares:
                raise ValueError(
                    f"metric {metric.name!r} needs probabilities: probabilities=True, and a "
                    "classifier that has them"
                )
            if metric.levels and coverage is levels is None:
                raise ValueError(
                    f"metric {metric.name!r} needs interval=0.9 or quantiles=(0.1, 0.5, 0.9), and "
                    "a regressor that has them"
                )
        self._scores = Scores(self._metrics, self.window)
        if self._traced:
            self.trace = Trace(labels, shares, coverage, self.delay)
        return self._adapter

    def begin_part(self) -> None:
        """Count the following rows separately too; see `part`."""
        self._part, self._part_rows = Scores(self._metrics or [], None), 0

    @property
    def part(self) -> tuple[int, dict[str, float]] | None:
        """Rows since `begin_part` and their metrics; None if `begin_part` was not called."""
        return None if self._part is None else (self._part_rows, self._part.values())

    def _count_unlabelled(self, y: NDArray[Any], forecast: Forecast) -> None:
        """Count rows without a label."""
        self.unlabelled += len(y)
        if self._keep_forecasts:
            self._kept.append((y, forecast))

    def _score_arrived(self, arrived: Sequence[Block]) -> list[Record]:
        """Score rows whose labels have arrived; some may have no label."""
        if not arrived:
            return []
        y = np.concatenate([block[1] for block in arrived])
        forecast = joined([block[2] for block in arrived])
        missing = without_label(y)
        if missing is None:
            return self._score(y, forecast)
        records = []
        for rows, unlabelled in labelled_runs(missing):
            if unlabelled:
                self._count_unlabelled(y[rows], forecast[rows])
            else:
                records += self._score(without_gaps(y[rows]), forecast[rows])
        return records

    def _score(self, y: NDArray[Any], forecast: Forecast) -> list[Record]:
        """Add the losses, and return the records that are due."""
        if not len(y):
            return []
        assert self._scores is not None
        blind = min(max(0, self._blind - self.rows - self.unlabelled), len(y))
        if self.trace is not None:
            unscored = self.unlabelled + self.unpredicted + blind
            self.trace.add(y, forecast, unscored, blind)
        ends = [len(y)]
        if self.every is not None:
            due = range(self.every - self.rows % self.every, len(y) + 1, self.every)
            ends = [*due] if due and due[-1] == len(y) else [*due, len(y)]
        records, start = [], 0
        for end in ends:
            scored = slice(max(start, blind), end)
            if scored.start < end:
                for scores in filter(None, (self._scores, self._part)):
                    scores.add(y[scored], forecast[scored])
                if y.ndim == 2:
                    self._score_each(y[scored], forecast[scored])
            self.rows += end - start
            self._part_rows += end - start
            self.unpredicted += max(0, min(end, blind) - start)
            if self._keep_forecasts:
                self._kept.append((y[start:end], forecast[start:end]))
            if self.every is not None and self.rows % self.every == 0:
                records.append(self.record())
            start = end
        return records

    def _score_each(self, y: NDArray[Any], forecast: Forecast) -> None:
        if not self._each:
            self._each = [Scores(self._metrics or [], self.window) for _ in range(y.shape[1])]
        for place, scores in enumerate(self._each):
            scores.add(np.ascontiguousarray(y[:, place]), forecast.output(place))

    @property
    def metrics(self) -> dict[str, float]:
        """Means over all rows so far."""
        return {} if self._scores is None else self._scores.values()

    @property
    def recent(self) -> dict[str, float]:
        """Means over the last ``window`` rows."""
        return {} if self._scores is None else self._scores.recent()

    @property
    def worse(self) -> list[Lead]:
        """Metrics over all rows in which a baseline is better, with those of the baseline."""
        return [] if self.trace is None else leads(self.metrics, self.trace.baselines)

    @property
    def carried_by_past_labels(self) -> str:
        """A sentence if repeating the last label reaches most of the gain over the mean; or ""."""
        if self.trace is None:
            return ""
        late = f", {self.delay:,} rows late" if self.delay else ""
        name = self.trace.metric.name
        return describe_repeating(name, self.metrics, self.trace.baselines, late)

    @property
    def notes(self) -> list[str]:
        """Sentences on the baselines, if one is better or as good as the model."""
        return [text for text in (describe_leads(self.worse), self.carried_by_past_labels) if text]

    def plot(self) -> Charts:
        """Return charts of the run so far, which a notebook shows.

        Loss along the stream with that of the baselines, drift alarms, points and experts' weights;
        residuals and coverage for numbers, calibration for labels.
        """
        if self.trace is None or self.rows == self.unpredicted:
            raise ValueError("nothing to plot: no row was scored, or trace=False")
        drawn = [one for one in pictures(self.trace) if one.counts is None]
        return Charts(drawn, describe_rows(self.rows, self.unpredicted))

    def _repr_html_(self) -> str:
        """Return the metrics as an HTML table, for a notebook."""
        if self.trace is None or self.rows == self.unpredicted:
            return f"<code>{type(self).__name__}: no row was scored yet</code>"
        from pronk.evaluate.tables import metrics_table

        alarms = ", ".join(f"{alarm.row:,}" for alarm in self.trace.alarms) or "none"
        count = describe_rows(self.rows, self.unpredicted)
        return metrics_table(self, f"{count}, drift alarms at rows: {alarms}")._repr_html_()

    def record(self) -> Record:
        """Return the current state, with the predictions since the last record."""
        self._recorded = self.rows + self.unlabelled
        targets, predictions, forecast = None, None, None
        if self._keep_forecasts and self._kept:
            targets = np.concatenate([pair[0] for pair in self._kept])
            forecast = joined([pair[1] for pair in self._kept])
            predictions = forecast.values
            start = self._recorded - len(targets)
            forecast = forecast.without(min(max(0, self._blind - start), len(targets)))
            self._kept = []
        if self._measure_memory and self._memory is None:
            self._memory = held_bytes(self.model)
        size = getattr(self.model, "size_", None)
        return Record(
            rows=self.rows,
            metrics=self.metrics,
            windowed=self.recent,
            seconds=self.seconds,
            untimed=self._untimed,
            size=None if size is None else int(size),
            memory=self._memory,
            predictions=predictions,
            targets=targets,
            forecast=forecast,
            unlabelled=self.unlabelled,
            unpredicted=self.unpredicted,
            outputs=tuple(one.values() for one in self._each),
        )

    # -- state -----------------------------------------------------------------------------------

    def to_state(self, *, clock: bool = True) -> dict[str, Any]:
        """Return everything but the model and the arguments, for a checkpoint between two blocks.

        Without ``clock`` the state depends only on the rows, and times start over.
        """
        if self._kept:
            raise ValueError("there are predictions that are in no record: call record() first")
        more: dict[str, Any] = {}
        if self._part is not None:
            more["part"] = {"rows": self._part_rows, "scores": self._part.to_state()}
        if self._each:
            more["each"] = [one.to_state() for one in self._each]
        waiting = [
            [np.asarray(X), y.tolist(), forecast.to_state(), weights]
            for X, y, forecast, weights in self._waiting
        ]
        return {
            "rows": self.rows,
            "unlabelled": self.unlabelled,
            "unpredicted": self.unpredicted,
            "blind": self._blind,
            "seconds": self.seconds if clock else 0.0,
            "untimed": self._untimed if clock else self.rows + self.unlabelled,
            "recorded": self._recorded,
            "labels": self._labels,
            "scores": None if self._scores is None else self._scores.to_state(),
            "trace": None if self.trace is None else self.trace.to_state(),
            "waiting": waiting,
            **more,
        }

    def restore(self, state: Any) -> None:
        """Restore the result of `to_state` in an evaluation with the same arguments and model.

        The state may come from a file: raise a StateError if it is damaged.
        """
        require(isinstance(state, dict) and set(state) >= _FIELDS, "the evaluation lacks fields")
        self.rows = checked_count(state["rows"], "rows")
        self.unlabelled = checked_count(state["unlabelled"], "unlabelled")
        self.unpredicted = checked_count(state["unpredicted"], "unpredicted", 0, self.rows)
        self._blind = checked_count(state["blind"], "blind", self.unpredicted)
        self._recorded = checked_count(state["recorded"], "recorded")
        self._untimed = checked_count(state["untimed"], "untimed", 0, self.rows + self.unlabelled)
        self.seconds = figure(state["seconds"], "seconds")
        if state["labels"] is None:
            return
        labels, each = state["labels"], state.get("each", [])
        require(type(labels) is bool, "labels is neither true nor false")
        self._begin(labels)
        self._scores = self._restored(self.window, state["scores"], "scores", labels)
        if self.trace is not None:
            load_part(self.trace, state["trace"], "trace")
            scored = self.rows - self.unpredicted
            require(self.trace.segments.rows == scored, "trace has other rows")
            shapes = self._scores.outputs | self.trace.outputs
            require(len(shapes) <= 1 or not self.rows, "the targets have several shapes")
        require(isinstance(each, list), "each is not a list")
        several = {shape[0] for shape in self._scores.outputs if shape}
        require(not each or several == {len(each)} or not self.rows, "each is of other targets")
        self._each = [self._restored(self.window, held, "each", False) for held in each]
        if "part" in state:
            held = state["part"]
            require(isinstance(held, dict) and set(held) == {"rows", "scores"}, "part lacks fields")
            self._part_rows = checked_count(held["rows"], "part", 0, self.rows)
            self._part = self._restored(None, held["scores"], "part", labels)
        require(isinstance(state["waiting"], list), "waiting is not a list")
        most = self._held_back + chunk_rows(self._held_back) - 1
        self._waiting = deque(_checked_waiting(entry) for entry in state["waiting"])
        self._waiting_rows = sum(len(block[1]) for block in self._waiting)
        require(self._waiting_rows <= most, "more rows wait than delay allows")

    def _restored(self, window: int | None, state: Any, name: str, labels: bool) -> Scores:
        scores = Scores(self._metrics or [], window)
        load_part(scores, state, name)
        scores.check_restored(labels)
        return scores


def _rows(block: Block, rows: slice) -> Block:
    X, y, forecast, weights = (part(values, rows) for values in block)
    return X, y, forecast, weights


def _together(blocks: Sequence[Block]) -> Block:
    """Return several blocks of arrays as one."""
    X, y, forecasts, weights = zip(*blocks, strict=True)
    # Concatenation makes plain arrays of weights with times.
    given = None if weights[0] is None else np.concatenate(weights).view(type(weights[0]))
    return np.concatenate(X), np.concatenate(y), joined(forecasts), given


def _checked_waiting(entry: Any) -> Block:
    """Read rows that wait for their labels from a file."""
    require(isinstance(entry, list) and len(entry) == 4, "waiting has no rows")
    X, y, forecast, weights = entry
    X, y = doubles(X, "waiting", least=2, most=2), checked_column(y, "waiting")
    forecast = Forecast.from_state(forecast)
    require(len(X) == len(y) == len(forecast) > 0, "waiting has other rows")
    if weights is not None:
        weights = doubles(weights, "waiting", least=1, most=2)
        require(len(weights) == len(y), "waiting has other weights")
        if weights.ndim == 2:
            require(weights.shape[1] == 2, "waiting has other weights")
            weights = weights.view(TimedWeights)
    return X, y, forecast, weights


def chunk_rows(delay: int) -> int:
    """Return the rows of a chunk of late labels: the largest power of two up to an eighth."""
    return 1 << max(0, min(delay // 8, LONGEST_CHUNK).bit_length() - 1)


def _outputs(y: NDArray[Any]) -> int | None:
    return y.shape[1] if y.ndim == 2 else None


# -- blocks cut into pieces ------------------------------------------------------------------------


def pieces(
    X: Any, y: NDArray[Any], length: int = PIECE, weights: Weights = None, done: int = PIECE
) -> Iterator[tuple[Any, NDArray[Any], Weights]]:
    """Yield a block after ``done`` rows, in pieces if it is long and X is an array or sparse.

    The first 4,096 rows of a stream are cut at every 256th: charts of short streams then have
    several points for what is measured between blocks.
    """
    if not (isinstance(X, np.ndarray) or hasattr(X, "tocsr")):
        yield X, y, weights
        return
    if len(y) != X.shape[0]:
        raise ValueError(f"y has {len(y)} rows but X has {X.shape[0]}: give one label per row")
    early = max(0, min(len(y), PIECE - done))
    ends = {0, *range(EARLY - done % EARLY, early, EARLY), *range(early, len(y), length), len(y)}
    if len(ends) <= 2:
        yield X, y, weights
        return
    for start, end in pairwise(sorted(ends)):
        rows = slice(start, end)
        yield X[rows], y[rows], part(weights, rows)


def part(values: Any, rows: Any) -> Any:
    """Return some rows of an optional array."""
    return None if values is None else values[rows]
