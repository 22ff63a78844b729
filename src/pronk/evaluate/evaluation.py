"""Progressive validation block by block: what gives the rows to a learner, and when.

The learner gets whole blocks and the losses are vectors, so the evaluation costs some NumPy calls
a block, not a row. It can stop between two blocks and go on from its state. What is counted of the
rows is the account's (`pronk.evaluate.account`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.account import Account
from pronk.evaluate.adapters import Adapter, Weights, adapt, predicts_labels
from pronk.evaluate.forecasts import Forecast, column
from pronk.evaluate.records import Record
from pronk.evaluate.rows import PIECE, early, part, pieces
from pronk.evaluate.state import figure
from pronk.parts.missing import labelled_runs, without_gaps, without_label
from pronk.parts.state import checked_count, require, take_part

_FIELDS = {"rows", "unlabelled", "seconds", "untimed", "recorded", "labels", "scores", "portrait"}
_FIELDS |= {"waiting"}


class Evaluation(Account):
    """Progressive validation that is given its blocks one by one; see `progressive`.

    `feed` gives a block to the model and returns the records that fall into it; `record` is one
    more, at any moment; `finish` ends the stream and returns the last record.
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
        portrait: bool = True,
        piece: int = PIECE,
        fine: bool = False,
    ) -> None:
        super().__init__(
            model,
            metrics,
            every,
            window=window,
            predictions=predictions,
            memory=memory,
            portrait=portrait,
        )
        if delay < 0:
            raise ValueError(f"delay must be 0 or more rows, got {delay}")
        self.delay = delay
        self._fine = fine  # the first rows in short pieces, for pictures of a short stream
        self.piece = piece  # rows of a long block that the model gets at a time
        self._columns = columns
        self.probabilities = probabilities
        self.interval = interval
        self._labels: bool | None = None
        self._adapter: Adapter | None = None
        # x, y, forecast, weight
        self._waiting: deque[tuple[Any, Any, Forecast, float | None]] = deque()

    def feed(self, X: Any, y: Any, weights: Weights = None) -> list[Record]:
        """Predict then learn a block; the records of the rows that were scored.

        ``weights`` say how much each row counts when it is learned; for the metrics all count once.
        """
        y = np.asarray(y)
        adapter = self._adapter or self._start(y)
        records = []
        done = self.rows + self.unlabelled
        watched = self._fine and self._paint and not self.delay
        blocks = early(X, y, weights, done) if watched else [(X, y, weights)]
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
        """As `feed`, for rows that a model predicted and learned elsewhere."""
        if self._adapter is None:
            self._start(y)
        self.seconds += seconds
        self._memory = None
        records, missing = [], without_label(y)
        flags = np.zeros(len(y), dtype=bool) if missing is None else missing
        for rows, unlabelled in labelled_runs(flags):
            forecast = Forecast(predictions[rows])
            if unlabelled:
                self._pass_by(y[rows], forecast)
            else:
                records += self._score(without_gaps(y[rows]), forecast)
        if self.portrait is not None:
            self.portrait.watch(self.rows, self.model)
        return records

    def _feed_labelled(
        self, adapter: Adapter, X: Any, y: NDArray[Any], weights: Weights
    ) -> list[Record]:
        began = perf_counter()
        forecast = adapter.predict_then_learn(X, y, weights)
        self.seconds += perf_counter() - began
        self._memory = None
        records = self._score(y, forecast)
        if self.portrait is not None:
            self.portrait.watch(self.rows, self.model)
        return records

    def _feed_unlabelled(self, adapter: Adapter, X: Any, y: NDArray[Any]) -> None:
        began = perf_counter()
        forecast = adapter.predict(X).widened(_outputs(y))
        self.seconds += perf_counter() - began
        self._pass_by(y, forecast)

    def _feed_delayed(
        self, adapter: Adapter, X: Any, y: NDArray[Any], weights: Weights
    ) -> list[Record]:
        began = perf_counter()
        arrived = self._delayed(adapter, X, y, weights)
        self.seconds += perf_counter() - began
        self._memory = None
        return self._score_mixed(arrived)

    def finish(self) -> Record | None:
        """Score what still waits for its label; the last record, unless it was just returned."""
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
        """Everything but the model and the arguments, for a checkpoint between two blocks.

        Without ``clock`` it is the same whenever the same rows are given, and the time begins anew.
        """
        if self._kept:
            raise ValueError("predictions wait for a record: call record() first")
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
            "portrait": None if self.portrait is None else self.portrait.to_state(),
            "waiting": waiting,
            **self._part_state(),
            **({"each": [one.to_state() for one in self._each]} if self._each else {}),
        }

    def restore(self, state: Any) -> None:
        """Go on from what `to_state` gave; made with the same arguments, its model restored.

        It may come from a file: a StateError if it is something else.
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
        take_part(self._scores, state["scores"], "scores")
        self._scores.try_out(state["labels"])
        if self.portrait is not None:
            take_part(self.portrait, state["portrait"], "portrait")
            require(self.portrait.course.rows == self.rows, "portrait is of other rows")
            shapes = self._scores.outputs | self.portrait.outputs
            require(len(shapes) <= 1 or not self.rows, "the targets have several shapes")
        self._restore_each(state.get("each", []))
        if "part" in state:
            self._restore_part(state["part"])
        require(isinstance(state["waiting"], list), "waiting is not a list")
        require(len(state["waiting"]) <= self.delay, "more rows wait than delay says")
        self._waiting = deque(_checked_waiting(entry) for entry in state["waiting"])

    def _start(self, y: NDArray[Any]) -> Adapter:
        return self._begin(predicts_labels(self.model, y))

    def _begin(self, labels: bool) -> Adapter:
        self._labels = labels
        shares = labels and self.probabilities
        coverage = None if labels else self.interval
        self._adapter = adapt(self.model, labels, self._columns, shares, coverage)
        self._open(labels, shares, coverage)
        return self._adapter

    def _delayed(
        self, adapter: Adapter, X: Any, y: NDArray[Any], weights: Weights
    ) -> list[tuple[Any, Forecast]]:
        """Row by row: predict the newest, then learn the one whose label arrives now."""
        arrived = []
        for i in range(len(y)):
            x = X[i : i + 1]
            weight = None if weights is None else float(weights[i])
            said = adapter.predict(x).widened(_outputs(y))
            self._waiting.append((x, y[i], said, weight))
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
    """A row that waits for its label, from a file."""
    require(isinstance(entry, list) and len(entry) in (3, 4), "waiting has no rows")
    x, y, forecast = entry[0], entry[1], Forecast.from_state(entry[2])
    good = isinstance(x, np.ndarray) and x.ndim == 2 and x.dtype.kind == "f" and len(x) == 1
    require(good and len(forecast) == 1, "waiting has no rows")
    simple = y is None or isinstance(y, str | int | float)
    require(simple or (isinstance(y, np.ndarray) and y.dtype.kind == "f"), "waiting has no labels")
    return x, y, forecast, figure(entry[3], "waiting") if len(entry) == 4 else None


def _outputs(y: NDArray[Any]) -> int | None:
    return y.shape[1] if y.ndim == 2 else None
