"""A run in bounded memory, for its picture: losses in segments, and some rows spread over all.

Segments have equal length, counted from the start of the stream, and so have the gaps between the
rows that are held. When there are too many, neighbours become one, or every other goes, and the
length doubles. No random numbers, and any cut of the stream gives the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.evaluate.state import Items, Values, figure
from pronk.parts.state import Count, Sizes, Stateful, checked_count, require

Array = NDArray[np.float64]

#: Most segments and most rows held; even.
SEGMENTS, SAMPLE = 256, 512
#: Rows of the first segments.
SHORTEST = 32


class Course(Stateful):
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

    STATE = (
        Count("length", "length", low=SHORTEST),
        Count("rows", "rows"),
        Values("sums", ("segments", "columns"), "sums"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self.sums.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        segments = -(-self.rows // self.length)
        good = sizes["segments"] == segments <= SEGMENTS
        require(good, "sums has other segments than the rows make")


def _checked_mark(state: Any, name: str) -> tuple[int, dict[str, float]]:
    good = isinstance(state, list) and len(state) == 2 and isinstance(state[1], dict)
    require(good, f"{name} is not a mark")
    values = {str(key): figure(value, name) for key, value in state[1].items()}
    return checked_count(state[0], name), values


class Marks(Stateful):
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

    STATE = (
        Count("length", "length", low=SHORTEST),
        Items("marks", "marks", out=list, back=_checked_mark),
    )

    def _restored(self, sizes: Sizes) -> None:
        rows = [mark[0] for mark in self.marks]
        require(rows == sorted(set(rows)), "marks are not in order")
        require(len(rows) <= SEGMENTS, "marks are too many")


class Sample(Stateful):
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

    STATE = (
        Count("stride", "stride", low=1),
        Count("rows", "rows"),
        Values("held", ("held", "columns"), "held"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self.held.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        wanted = np.arange(0, self.rows, self.stride) if self.rows <= SAMPLE * self.stride else None
        good = wanted is not None and np.array_equal(self.held[:, 0], wanted)
        require(good, "held are other rows than the stride says")
