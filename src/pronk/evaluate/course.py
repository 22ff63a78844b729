"""A run in bounded memory, for its picture: losses in segments, and some rows spread over all.

Segments have equal length, counted from the start of the stream, and so have the gaps between the
rows that are held. When there are too many, neighbours become one, or every other goes, and the
length doubles. No random numbers, and any cut of the stream gives the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Most segments and most rows held; even.
SEGMENTS, SAMPLE = 256, 512
#: Rows of the first segments.
SHORTEST = 32


class Course:
    """Sums of some quantities over segments of rows.

    >>> import numpy as np
    >>> course = Course(1)
    >>> course.add(np.arange(100.0)[:, None])
    >>> print(course.ends, course.means[:, 0])
    [ 32  64  96 100] [15.5 47.5 79.5 97.5]
    """

    def __init__(self, columns: int) -> None:
        self.length = SHORTEST
        self.rows = 0
        self.sums = np.zeros((0, columns + 1))  # the last column counts

    def add(self, values: Array) -> None:
        """The quantities of the next rows, (n, columns)."""
        values = np.column_stack((values, np.ones(len(values))))
        while len(values):
            last = len(self.sums) * self.length
            room = last - self.rows
            if not room:
                if len(self.sums) == SEGMENTS:
                    self._double()
                    continue
                new = min(-(-len(values) // self.length), SEGMENTS - len(self.sums))
                self.sums = np.concatenate((self.sums, np.zeros((new, self.sums.shape[1]))))
                continue
            taken = values[:room]
            places = (self.rows + np.arange(len(taken))) // self.length
            np.add.at(self.sums, places, taken)
            self.rows += len(taken)
            values = values[room:]
        self.sums = self.sums[: -(-self.rows // self.length)]

    def _double(self) -> None:
        self.sums = self.sums[0::2] + self.sums[1::2]
        self.length *= 2

    @property
    def ends(self) -> NDArray[np.int64]:
        """Rows at the end of each segment."""
        return np.minimum(np.arange(1, len(self.sums) + 1) * self.length, self.rows)

    @property
    def means(self) -> Array:
        """Means of the quantities over each segment."""
        return np.asarray(self.sums[:, :-1] / self.sums[:, -1:])

    def to_state(self) -> list[Any]:
        """Everything it knows."""
        return [self.length, self.rows, self.sums]

    def restore(self, state: list[Any]) -> None:
        """Go on from what `to_state` gave."""
        self.length, self.rows, self.sums = state[0], state[1], np.array(state[2])


class Marks:
    """Values at some rows (points held, weights), at most one for a length of rows that doubles.

    They are those at the end of a block: where they fall depends on the blocks.
    """

    def __init__(self) -> None:
        self.length = SHORTEST
        self.marks: list[tuple[int, dict[str, float]]] = []

    def due(self, rows: int) -> bool:
        """Whether a mark is wanted after so many rows."""
        return not self.marks or rows // self.length > self.marks[-1][0] // self.length

    def add(self, rows: int, values: dict[str, float]) -> None:
        """The values after so many rows."""
        self.marks.append((rows, values))
        while len(self.marks) > SEGMENTS:
            self.length *= 2
            last: dict[int, tuple[int, dict[str, float]]] = {}
            for mark in self.marks:
                last[mark[0] // self.length] = mark
            self.marks = list(last.values())

    def to_state(self) -> list[Any]:
        """Everything it knows."""
        return [self.length, [[rows, values] for rows, values in self.marks]]

    def restore(self, state: list[Any]) -> None:
        """Go on from what `to_state` gave."""
        self.length = state[0]
        self.marks = [(rows, dict(values)) for rows, values in state[1]]


class Sample:
    """Every stride-th row, at most `SAMPLE` of them."""

    def __init__(self, columns: int) -> None:
        self.stride = 1
        self.rows = 0
        self.held = np.zeros((0, columns + 1))  # the first column is the row

    def add(self, values: Array) -> None:
        """The next rows."""
        numbers = np.arange(self.rows, self.rows + len(values))
        self.rows += len(values)
        wanted = numbers % self.stride == 0
        new = np.column_stack((numbers[wanted], values[wanted]))
        self.held = np.concatenate((self.held, new))
        while len(self.held) > SAMPLE:
            self.stride *= 2
            self.held = self.held[self.held[:, 0] % self.stride == 0]

    def to_state(self) -> list[Any]:
        """Everything it knows."""
        return [self.stride, self.rows, self.held]

    def restore(self, state: list[Any]) -> None:
        """Go on from what `to_state` gave."""
        self.stride, self.rows, self.held = state[0], state[1], np.array(state[2])
