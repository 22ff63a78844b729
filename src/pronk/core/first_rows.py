"""Start again on the first rows of a stream, with settings measured from these rows.

A bandwidth or the size of the targets is known only once some rows have come. So the first rows are
held as they came; after row 1, 2, 4, .., 256 (`RESTARTS`) the settings are measured from all rows
so far, the learner is rebuilt with them, and it learns the held rows again. After the last restart
the rows are dropped and the settings are final. Every prediction is made from earlier rows only,
and cutting the stream into calls differently changes nothing.

`pronk.estimators.bandwidth` measures a bandwidth in this way, `pronk.estimators.targets` centre and
size of the targets. The stages of the default learner (`pronk.aggregate.learner`) are another
mechanism: they choose experts by the errors of the experts before.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.core.arrays import Array
from pronk.core.checks import LARGEST_INPUT
from pronk.core.state import LARGEST_TARGET, StateError, checked_count, require

#: Numbers of rows after which the learner starts again, and the last of them.
RESTARTS = tuple(2**i for i in range(9))
LAST_RESTART = RESTARTS[-1]


class Block(NamedTuple):
    """Rows that were learned in one call: X, targets, and weights (None: all are 1)."""

    X: Array
    Y: Array
    weights: Array | None


def learned_rows(weights: Array) -> NDArray[np.bool_]:
    """Return which rows are learned, by weights (n,), or (n, 2) with times in the second column."""
    return np.asarray((weights if weights.ndim == 1 else weights[:, 0]) > 0.0)


class FirstRows:
    """Hold the first rows and start ``inner``, which learns them, again at every restart.

    A subclass defines what is measured, what is rebuilt and how it learns. Rows of weight 0 are
    predicted, not learned and not held. Attributes are replaced and never written in place, so a
    shallow copy is a snapshot of everything but ``inner``.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.rows = 0  # learned, up to LAST_RESTART
        # What happened to ``inner``, in order: blocks of rows, and matrices given to `remap`.
        self._events: tuple[Block | Array, ...] = ()

    # -- defined by a subclass -------------------------------------------------------------------

    def _measure(self, rows: int) -> None:
        """Set the settings from the first ``rows`` of the held rows."""
        raise NotImplementedError

    def _restart(self) -> None:
        """Rebuild ``inner`` with the settings and let it learn the held rows again."""
        raise NotImplementedError

    def _learn_block(self, block: Block, options: dict[str, Any]) -> Any:
        """Let ``inner`` predict, then learn, some rows."""
        raise NotImplementedError

    def _checked_targets(self, Y: Any, rows: int) -> Array:
        """Return the targets of a block from a file; a StateError if they do not fit."""
        raise NotImplementedError

    def _checked_matrix(self, matrix: Any) -> Array:
        """Return a matrix of `remap` from a file; a StateError if there can be none."""
        raise StateError("events are not all blocks of rows")

    # -- learning ----------------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether the settings are final."""
        return self.rows >= LAST_RESTART

    @property
    def blocks(self) -> list[Block]:
        """The rows held, in the blocks in which they were learned."""
        return [event for event in self._events if isinstance(event, Block)]

    def _learn(
        self, X: Array, Y: Array, weights: Array | None, options: dict[str, Any]
    ) -> list[Any]:
        """Predict, then learn, the rows; return one answer per piece between restarts."""
        answers = []
        for start, stop in pairwise(self._cuts(len(X), weights)):
            part = slice(start, stop)
            block = Block(X[part], Y[part], None if weights is None else weights[part])
            answers.append(self._learn_block(block, options))
            if not self.is_over:
                self._hold(block)
        return answers

    def _cuts(self, n: int, weights: Array | None) -> list[int]:
        """Return the ends of the pieces of a call: 0, n, and the rows of restarts."""
        if n == 1 or self.is_over:
            return [0, n]
        learned = np.ones(n) if weights is None else learned_rows(weights)
        counts = self.rows + np.cumsum(learned)
        due = [rows for rows in RESTARTS if self.rows < rows <= counts[-1]]
        return sorted({0, *(int(np.searchsorted(counts, rows)) + 1 for rows in due), n})

    def _hold(self, block: Block) -> None:
        """Hold rows that were learned; start again if it is time."""
        X, Y, weights = block
        learned = np.ones(len(X), dtype=np.bool_) if weights is None else learned_rows(weights)
        if not learned.any():
            return
        held = Block(X[learned], Y[learned], None if weights is None else weights[learned])
        self._events = (*self._events, held)
        self.rows += len(held.X)
        if self.rows in RESTARTS:
            self._measure(self.rows)
            self._restart()
            if self.is_over:
                self._events = ()

    # -- files ----------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """The number of rows, and the rows held as they came."""
        events = [
            event._asdict() if isinstance(event, Block) else {"matrix": event}
            for event in self._events
        ]
        return {"rows": self.rows, "events": events}

    def _restore_events(self, state: Any, columns: int) -> None:
        """Hold the rows of a state, which may come from an untrusted file, and measure them."""
        names = {"rows", "events"}
        require(isinstance(state, dict) and set(state) == names, "the first rows are not a table")
        require(isinstance(state["events"], list), "events are not a list")
        self.rows = checked_count(state["rows"], "rows", 0, LAST_RESTART)
        self._events = tuple(self._checked_event(event, columns) for event in state["events"])
        held = sum(len(block.X) for block in self.blocks)
        require(held == (0 if self.is_over else self.rows), "rows are not those held")
        if held:
            self._measure(max(rows for rows in RESTARTS if rows <= held))

    def _checked_event(self, event: Any, columns: int) -> Block | Array:
        require(isinstance(event, dict), "an event is not a table")
        if set(event) == {"matrix"}:
            return self._checked_matrix(event["matrix"])
        require(set(event) == set(Block._fields), "an event is of another kind")
        X = checked_numbers(event["X"], (None, columns), "X")
        Y = self._checked_targets(event["Y"], len(X))
        weights = event["weights"]
        if weights is not None:
            shape = (len(X), 2) if np.ndim(weights) == 2 else (len(X),)
            weights = checked_numbers(weights, shape, "weights")
            require(bool(learned_rows(weights).all()), "events/weights are not positive")
        return Block(X, Y, weights)


def checked_targets(value: Any, shape: tuple[int | None, ...]) -> Array:
    """Return targets of a shape, as `checked_numbers`, none larger than a target may be."""
    return checked_numbers(value, shape, "Y", LARGEST_TARGET)


def checked_numbers(
    value: Any, shape: tuple[int | None, ...], name: str, largest: float = LARGEST_INPUT
) -> Array:
    """Return an array of doubles of a shape (None: any size), none larger than ``largest``.

    Raise a StateError if the value is no such array.
    """
    good = isinstance(value, np.ndarray) and value.dtype == np.float64
    require(good and value.ndim == len(shape), f"events/{name} is not an array of numbers")
    fits = all(size is None or size == own for size, own in zip(shape, value.shape, strict=True))
    good = fits and bool((np.abs(value) <= largest).all())  # NaN compares as False
    require(good, f"events/{name} does not fit, or holds NaN or too large numbers")
    return np.ascontiguousarray(value)
