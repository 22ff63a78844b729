"""Scores of predicted rows, records of the scores, and blocks cut into pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.checks import labelled_runs, without_gaps, without_label
from pronk.core.state import checked_count, load_part, require
from pronk.evaluate.baselines import Lead, leads
from pronk.evaluate.forecasts import Forecast, column, joined
from pronk.evaluate.metrics import DEFAULTS, Scores, get_scores
from pronk.evaluate.models import held_bytes
from pronk.evaluate.statistics import Statistic
from pronk.evaluate.trace import Trace


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
    """Points held by the model (its ``size_``), if it has this attribute."""
    memory: int | None
    """Bytes held by the model, with ``memory=True``."""
    predictions: NDArray[Any] | None = field(default=None, repr=False)
    """Predictions since the last record, with ``predictions=True``."""
    targets: NDArray[Any] | None = field(default=None, repr=False)
    """The targets of those rows; NaN or None where a row had none."""
    forecast: Forecast | None = field(default=None, repr=False)
    """The predictions with probabilities and intervals, if requested."""
    unlabelled: int = 0
    """Rows without a label so far, which were only predicted."""
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
        return {
            "rows": self.rows,
            "unlabelled": self.unlabelled,
            "metrics": dict(self.metrics),
            "windowed": dict(self.windowed),
            "seconds": self.seconds,
            "microseconds_per_row": self.microseconds_per_row,
            "size": self.size,
            "memory": self.memory,
        }


class Scoring:
    """Scores of a stream, computed from targets and forecasts, without the rows.

    Parameters
    ----------
    model : the model that made the forecasts; records include its size and memory
    metrics : metrics or their names; None for those of the task
    every : a record every so many rows; None for none
    window : rows of the recent metrics; None for ``every``
    predictions : whether records include the forecasts since the previous one
    memory : whether records include the bytes of the model
    trace : whether to keep a `Trace`
    """

    def __init__(
        self,
        model: Any,
        metrics: Any = None,
        every: int | None = None,
        *,
        window: int | None = None,
        predictions: bool = False,
        memory: bool = True,
        trace: bool = True,
    ) -> None:
        _check_counts(every=every, window=window)
        self.model = model
        self.every = every
        self.window = window if window is not None else every
        self.rows = 0
        self.unlabelled = 0
        self.seconds = 0.0
        self._untimed = 0  # rows from before the clock was started
        self._metrics = None if metrics is None else get_scores(metrics)
        self._scores: Scores | None = None
        self._each: list[Scores] = []  # of several targets
        self._part: Scores | None = None  # of the rows since `begin_part`
        self._part_rows = 0
        self._traced = trace
        self.trace: Trace | None = None
        """Losses along the stream, alarms, calibration: the data of a report."""
        self._keep_forecasts = predictions
        self._measure_memory = memory
        self._kept: list[tuple[NDArray[Any], Forecast]] = []
        self._recorded = 0
        self._memory: int | None = None  # None: the model has changed since it was measured

    def _start_scoring(self, labels: bool, shares: bool, coverage: float | None) -> None:
        """Start scoring, when the kind of prediction is known.

        Predictions are labels, with probabilities if ``shares``, or numbers, with intervals of
        this coverage.
        """
        if self._metrics is None:
            self._metrics = get_scores(DEFAULTS["classification" if labels else "regression"])
        for metric in self._metrics:
            if isinstance(metric, Statistic) and metric.probabilities and not shares:
                raise ValueError(
                    f"metric {metric.name!r} needs probabilities: probabilities=True, and a "
                    "classifier that has them"
                )
        self._scores = Scores(self._metrics, self.window)
        if self._traced:
            self.trace = Trace(labels, shares, coverage)

    def begin_part(self) -> None:
        """Count the following rows separately too; see `part`."""
        self._part, self._part_rows = Scores(self._metrics or [], None), 0

    @property
    def part(self) -> tuple[int, dict[str, float]] | None:
        """Rows since `begin_part` and their metrics; None if `begin_part` was not called."""
        return None if self._part is None else (self._part_rows, self._part.values())

    def _part_state(self) -> dict[str, Any]:
        if self._part is None:
            return {}
        return {"part": {"rows": self._part_rows, "scores": self._part.to_state()}}

    def _restore_part(self, state: Any) -> None:
        require(isinstance(state, dict) and set(state) == {"rows", "scores"}, "part lacks fields")
        self.begin_part()
        assert self._part is not None
        self._part_rows = checked_count(state["rows"], "part", 0, self.rows)
        load_part(self._part, state["scores"], "part")
        self._part.check_restored(bool(self.trace and self.trace.task == "classification"))

    def _restore_each(self, states: Any) -> None:
        require(isinstance(states, list), "each is not a list")
        several = {shape[0] for shape in self._scores.outputs if shape} if self._scores else set()
        require(not states or several == {len(states)} or not self.rows, "each is of other targets")
        self._each = [Scores(self._metrics or [], self.window) for _ in states]
        for scores, held in zip(self._each, states, strict=True):
            load_part(scores, held, "each")
            scores.check_restored(False)

    def _count_unlabelled(self, y: NDArray[Any], forecast: Forecast) -> None:
        """Count rows without a label."""
        self.unlabelled += len(y)
        if self._keep_forecasts:
            self._kept.append((y, forecast))

    def _score_mixed(self, arrived: Sequence[tuple[Any, Forecast]]) -> list[Record]:
        """Score rows that arrived one by one; some may have no label."""
        if not arrived:
            return []
        targets, forecasts = zip(*arrived, strict=True)
        y, forecast = column(targets), joined(forecasts)
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
        losses = self._scores.losses(y, forecast)
        if self.trace is not None:
            self.trace.add(y, forecast, self.unlabelled)
        ends = [len(y)]
        if self.every is not None:
            due = range(self.every - self.rows % self.every, len(y) + 1, self.every)
            ends = [*due] if due and due[-1] == len(y) else [*due, len(y)]
        records, start = [], 0
        for end in ends:
            some = [values[start:end] for values in losses]
            self._scores.add(y[start:end], forecast[start:end], some)
            if self._part is not None:
                self._part.add(y[start:end], forecast[start:end], some)
                self._part_rows += end - start
            if y.ndim == 2:
                self._score_each(y[start:end], forecast.values[start:end])
            self.rows += end - start
            if self._keep_forecasts:
                self._kept.append((y[start:end], forecast[start:end]))
            if self.every is not None and self.rows % self.every == 0:
                records.append(self.record())
            start = end
        return records

    def _score_each(self, y: NDArray[Any], predictions: NDArray[Any]) -> None:
        if not self._each:
            self._each = [Scores(self._metrics or [], self.window) for _ in range(y.shape[1])]
        for scores, own, predicted in zip(self._each, y.T, predictions.T, strict=True):
            one = Forecast(np.ascontiguousarray(predicted))
            targets = np.ascontiguousarray(own)
            scores.add(targets, one, scores.losses(targets, one))

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

    def plot(self) -> Any:
        """Draw charts of the run so far in a Matplotlib figure, which a notebook shows.

        Loss along the stream with that of a baseline, drift alarms, points and experts' weights;
        residuals and coverage for numbers, calibration and confusion for labels.
        """
        if self.trace is None or not self.rows:
            raise ValueError("nothing to plot: no row was scored, or trace=False")
        from pronk.evaluate.pictures import draw, pictures

        return draw(pictures(self.trace))

    def _repr_html_(self) -> str:
        """Return the metrics as an HTML table, for a notebook."""
        if self.trace is None or not self.rows:
            return f"<code>{type(self).__name__}: no row was scored yet</code>"
        from pronk.evaluate.formatting import number

        recent, baselines = self.recent, self.trace.baselines
        rows = "".join(
            f"<tr><th>{name}</th><td>{number(value)}</td><td>{number(recent[name])}</td>"
            + "".join(
                f"<td>{number(theirs[name]) if name in theirs else ''}</td>"
                for theirs in baselines.values()
            )
            + "</tr>"
            for name, value in self.metrics.items()
        )
        titles = ["", "all rows", "recent", *baselines]
        head = "<tr>" + "".join(f"<th>{title}</th>" for title in titles) + "</tr>"
        alarms = ", ".join(f"{alarm.row:,}" for alarm in self.trace.alarms) or "none"
        return (
            f"<table>{head}{rows}</table><p>{self.rows:,} rows, drift alarms at rows: {alarms}</p>"
        )

    def record(self) -> Record:
        """Return the current state, with the predictions since the last record."""
        self._recorded = self.rows + self.unlabelled
        targets, forecast = None, None
        if self._keep_forecasts and self._kept:
            targets = np.concatenate([pair[0] for pair in self._kept])
            forecast = joined([pair[1] for pair in self._kept])
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
            predictions=None if forecast is None else forecast.values,
            targets=targets,
            forecast=forecast,
            unlabelled=self.unlabelled,
            outputs=tuple(one.values() for one in self._each),
        )


def _check_counts(**counts: int | None) -> None:
    for name, count in counts.items():
        if count is not None and count < 1:
            raise ValueError(f"{name} must be at least 1 row, got {count}")


# -- blocks and pieces -----------------------------------------------------------------------------

#: The model gets longer blocks in pieces of this many rows.
PIECE = 4096
#: Rows of the first pieces of a stream.
EARLY = 256
#: Rows of a piece where threads share a pass: they wait for each other at its end.
LONG_PIECE = 1 << 16
#: Most numbers in such a piece, for wide rows.
LONG_NUMBERS = 1 << 24


def long_piece(length: int, columns: int) -> int:
    """Return the rows of a long piece with so many columns."""
    return min(length, max(PIECE, LONG_NUMBERS // max(1, columns)))


def pieces(
    X: Any, y: NDArray[Any], length: int = PIECE, weights: NDArray[np.float64] | None = None
) -> Iterator[tuple[Any, NDArray[Any], NDArray[np.float64] | None]]:
    """Yield a block, in pieces if it is long and X is an array or a sparse matrix."""
    if len(y) <= length or not (isinstance(X, np.ndarray) or hasattr(X, "tocsr")):
        yield X, y, weights
        return
    if len(y) != X.shape[0]:
        raise ValueError(f"y has {len(y)} rows but X has {X.shape[0]}: give one label per row")
    for start in range(0, len(y), length):
        rows = slice(start, start + length)
        yield X[rows], y[rows], part(weights, rows)


def first_pieces(
    X: Any, y: NDArray[Any], weights: NDArray[np.float64] | None, done: int
) -> Iterator[tuple[Any, NDArray[Any], NDArray[np.float64] | None]]:
    """Yield a block after ``done`` rows, cut at every 256th of the first 4,096 rows of the stream.

    Charts of short streams then have several points for what is measured between blocks.
    """
    arrays = isinstance(X, np.ndarray) and len(y) == len(X)
    if done >= PIECE or not arrays or len(y) <= EARLY - done % EARLY:
        yield X, y, weights
        return
    first = EARLY - done % EARLY
    ends = [*range(first, min(len(y), PIECE - done), EARLY), min(len(y), PIECE - done), len(y)]
    for start, end in pairwise(sorted({0, *ends})):
        rows = slice(start, end)
        yield X[rows], y[rows], part(weights, rows)


def gather(blocks: Any, length: int) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Blocks of rows, short ones joined to ``length`` rows and more: a shared pass drains at the
    end of each call. Only arrays are joined."""
    held: list[tuple[Any, NDArray[Any]]] = []
    for X, y in blocks:
        y = np.asarray(y)
        joins = isinstance(X, np.ndarray)
        if held and not (joins and X.shape[1:] == held[0][0].shape[1:]):
            yield _joined(held)
            held = []
        held.append((X, y))
        if not joins or sum(len(y) for _, y in held) >= long_piece(length, X.shape[1]):
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _joined(held: list[tuple[Any, NDArray[Any]]]) -> tuple[Any, NDArray[Any]]:
    if len(held) == 1:
        return held[0]
    X, y = zip(*held, strict=True)
    return np.concatenate(X), np.concatenate(y)


def part(values: Any, rows: Any) -> Any:
    """Return some rows of an optional array."""
    return None if values is None else values[rows]
