"""An engine whose bandwidth is that of the first rows: ``bandwidth="auto"``.

The median distance of rows is known only when they have come. So the engine begins anew after row
2, 4, 8, .., 256 with the median distance of the rows so far, learns them again, and keeps the last
bandwidth; the rows are held until then. Every prediction is made by rows before it, and cutting the
stream into calls differently changes nothing. What happened to the engine is held as it happened
(rows in their blocks, new outputs between them), so that a saved one goes on to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.settings import typical_distance
from pronk.core.kernels import Kernel
from pronk.core.state import checked_count, require

Array = NDArray[np.float64]

#: Rows after which the bandwidth is taken anew, and the last of them.
MARKS = tuple(2**i for i in range(1, 9))
FIRST = MARKS[-1]


class Tuned:
    """``make(bandwidth, outputs)`` builds the engine, which is ``inner``."""

    def __init__(
        self, make: Callable[[float, int], Any], kernel: Kernel, columns: int, outputs: int
    ) -> None:
        self._make, self._kernel, self._columns = make, kernel, columns
        self._outputs = outputs  # at the start
        self.rows = 0
        self.bandwidth = 1.0
        self._events: tuple[Any, ...] = ()  # (X, Y, weights or None), or a matrix of outputs
        self.inner = make(self.bandwidth, outputs)

    @property
    def settled(self) -> bool:
        """Whether the bandwidth is final."""
        return self.rows >= FIRST

    @property
    def points(self) -> Array | None:
        return self.inner.points

    def __getattr__(self, name: str) -> Any:
        """What else the engine has: ``certificate``, ``models``, .."""
        if name.startswith("_") or "inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.inner, name)

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        parts, start = [], 0
        while start < len(X):
            ends = [mark - self.rows for mark in MARKS if mark > self.rows]
            stop = min([len(X), *(start + end for end in ends[:1])])
            rows = slice(start, stop)
            block = (X[rows], Y[rows], None if weights is None else weights[rows])
            parts.append(_learn(self.inner, block))
            if ends:
                self._events = (*self._events, tuple(_kept(values) for values in block))
                self.rows += stop - start
                if self.rows in MARKS:
                    self._tune(self.rows)
            start = stop
        return np.concatenate(parts) if parts else np.empty((0, Y.shape[1]))

    def predict(self, X: Array) -> Array:
        return self.inner.predict(X)

    def remap(self, matrix: Array) -> None:
        self.inner.remap(matrix)
        if not self.settled:
            self._events = (*self._events, matrix.copy())

    def _tune(self, mark: int) -> None:
        """Begin anew with the bandwidth of the first ``mark`` rows."""
        X = np.concatenate([event[0] for event in self._events if isinstance(event, tuple)])
        self.bandwidth = typical_distance(self._kernel, X[:mark])
        self.inner = self._make(self.bandwidth, self._outputs)
        for event in self._events:
            if isinstance(event, tuple):
                _learn(self.inner, event)
            else:
                self.inner.remap(event)
        if self.settled:
            self._events = ()

    # -- a call that fails, and files -------------------------------------------------------------

    def snapshot(self) -> Any:
        return self.inner, self.inner.snapshot(), self.rows, self.bandwidth, self._events

    def roll_back(self, snapshot: Any) -> None:
        self.inner, inside, self.rows, self.bandwidth, self._events = snapshot
        self.inner.roll_back(inside)

    def to_state(self) -> dict[str, Any]:
        """Before the bandwidth is final: the rows that came, as they came."""
        events = [
            {"X": event[0], "Y": event[1], "weights": event[2]}
            if isinstance(event, tuple)
            else {"matrix": event}
            for event in self._events
        ]
        return {"outputs": self._outputs, "events": events}

    def restore(self, state: Any) -> None:
        """Learn the rows of a state again, which anybody may have written."""
        require(isinstance(state, dict) and set(state) == {"outputs", "events"}, "no first rows")
        wanted, events = self._outputs, state["events"]
        self._outputs = outputs = checked_count(state["outputs"], "outputs", 0, 1 << 16)
        require(isinstance(events, list), "events are not a list")
        held: list[Any] = []
        for event in events:
            require(isinstance(event, dict), "an event is not a table")
            if set(event) == {"matrix"}:
                matrix = _numbers(event["matrix"], (outputs, None), "matrix")
                outputs = matrix.shape[1]
                held.append(matrix)
                continue
            require(set(event) == {"X", "Y", "weights"}, "an event is of another kind")
            X = _numbers(event["X"], (None, self._columns), "X")
            coded = outputs > 1 and getattr(self.inner, "targets_are_classes", False)
            Y = _numbers(event["Y"], (len(X), 1 if coded else outputs), "Y")
            classes = not coded or np.isin(Y, np.arange(outputs)).all()
            require(classes, "events/Y are not numbers of classes")
            weights = event["weights"]
            if weights is not None:
                weights = _numbers(weights, (len(X),), "weights")
                require(bool((weights > 0).all()), "events/weights are not positive")
            held.append((X, Y, weights))
            self.rows += len(X)
        require(outputs == wanted, "events end with other outputs")
        require(0 < self.rows < FIRST, "events are not of the first rows")
        self._events = tuple(held)
        try:
            self._tune(max((mark for mark in MARKS if mark <= self.rows), default=0))
        except (ValueError, IndexError, FloatingPointError) as error:
            require(False, f"events cannot be learned: {error}")


def _learn(engine: Any, block: Sequence[Any]) -> Array:
    X, Y, weights = block
    learned: Array = engine.learn(X, Y) if weights is None else engine.learn(X, Y, weights)
    return learned


def _kept(values: Any) -> Any:
    return None if values is None else values.copy()


def _numbers(value: Any, shape: tuple[int | None, ...], name: str) -> Array:
    good = isinstance(value, np.ndarray) and value.dtype == np.float64
    require(good and value.ndim == len(shape), f"events/{name} is not an array of numbers")
    fits = all(size is None or size == own for size, own in zip(shape, value.shape, strict=True))
    require(fits and bool(np.isfinite(value).all()), f"events/{name} does not fit, or holds NaN")
    return np.ascontiguousarray(value)
