"""Targets that arrive late: the rows that wait for them.

With ``delay`` = d the target of row t is used from row t + 1 + d on. What the learner reads of past
targets when it learns a row is what it could read when it predicted that row, and everything that
judges predictions (weights, stacks, error scale, intervals, probabilities) learns from the
predictions that were made then. For row t = 0, 1, ..

    predict   row t reads lagged targets and errors, counted back from row t - 1 - d; every expert
              predicts it; the predictions wait with what was read
    learn     the target of row t - d arrives. Experts learn the row as it was read then, and their
              fresh predictions of it are discarded; mixtures, error scale and calibration learn the
              predictions that waited

This is the definition, and blocks are exact: a Newton expert predicts row t as of an earlier row of
its open block (`newton.forecaster`), everything else is a compiled loop that predicts row
t and learns row t - d. A row costs about two, one that is predicted and one that is learned.

Where experts are made again from the first rows (`learner`), the rows that wait are predicted again
by the new ones, in the same order: as if these had been there from the start.

**Labels in any order** (`pronk.Pending`, the service). Without a ``delay`` a row may be predicted,
wait outside, and be learned when its label arrives, after any other rows. The same rule then needs
a record of what was read and predicted (`DefaultLearner.read`): one line of numbers per row,

    final                  prediction, its error scale
    of each inner learner  lagged targets; predictions of the experts, the average, the stacks and
                           the lagged errors of both mixtures; the error scale

Learning the row with its record (`Arrived`) replaces what would be read and predicted now, as above
where the target of row t - d arrives. A record of an inner learner fits the experts that made it,
also after some were dropped or classes came. When experts were made again, at a stage or by a
challenger that took over, the row is read as the next one; its final prediction is scored as made.
New experts learn the first rows again as if all labels had been as late as the median of the last
ones, and lags are found as with that ``delay``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from pronk.core.linalg import recombined
from pronk.core.state import LARGEST_TARGET, Numbers, Sizes, Stateful, checked_count, require

Array = NDArray[np.float64]

#: Most numbers that an inner learner leaves in the record of a row; beyond, it leaves none.
MOST_NUMBERS = 2048


class Ring(Stateful):
    """Rows that wait for their targets, the oldest first; without a delay none does.

    ``shapes`` has the parts of a row by name, with names of sizes or numbers: a part is an array
    (rows, \\*shape). Rows are added behind the others and never written again, so a snapshot shares
    the arrays.
    """

    def __init__(self, shapes: dict[str, tuple[str | int, ...]], sizes: dict[str, int]) -> None:
        self._shapes = shapes
        self._start = self._stop = 0
        self._arrays = [
            np.empty((0, *(term if isinstance(term, int) else sizes[term] for term in shape)))
            for shape in shapes.values()
        ]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._stop - self._start

    @property
    def parts(self) -> list[Array]:
        """The parts of all rows."""
        return [array[self._start : self._stop] for array in self._arrays]

    def extend(self, rows: int) -> list[Array]:
        """Add rows, which the caller fills; return the parts of all rows."""
        kept = self.rows
        if not kept:  # the usual case: without a delay no row waits
            self._arrays = [np.empty((rows, *part.shape[1:])) for part in self._arrays]
            self._start, self._stop = 0, rows
            return self._arrays
        if self._stop + rows > len(self._arrays[0]):
            larger = [np.empty((2 * kept + rows, *part.shape[1:])) for part in self._arrays]
            for new, part in zip(larger, self.parts, strict=True):
                new[:kept] = part
            self._arrays, self._start, self._stop = larger, 0, kept
        self._stop += rows
        return self.parts

    def drop(self, rows: int) -> None:
        """Drop the oldest rows, whose targets have arrived."""
        self._start += rows

    def replace(self, *parts: Array) -> None:
        """Replace the parts of all rows."""
        self._arrays, self._start, self._stop = list(parts), 0, len(parts[0])

    def to_state(self) -> dict[str, Any]:
        """Return the parts by name."""
        return {name: part.copy() for name, part in zip(self._shapes, self.parts, strict=True)}

    def _load(self, state: Any) -> Sizes:
        require(isinstance(state, dict), "the state is not a table")
        require(set(state) == set(self._shapes), "the parts of waiting rows are others")
        sizes = Sizes()
        fields = [Numbers(name, ("rows", *shape)) for name, shape in self._shapes.items()]
        self.replace(*(field.checked(state[field.name], sizes) for field in fields))
        return sizes

    def snapshot(self) -> Any:
        """Return the arrays and which of their rows wait."""
        return self._arrays, self._start, self._stop

    def roll_back(self, snapshot: Any) -> None:
        """Return to the rows of a snapshot."""
        self._arrays, self._start, self._stop = snapshot


# -- rows that wait outside ------------------------------------------------------------------------


class Reader(NamedTuple):
    """An inner learner when it predicted rows: what a record must fit.

    started  row of the stream at which it started
    stage    number of stages that had set its experts
    mark     digest of the scales that the last of them found
    active   numbers of the experts' settings
    width    numbers that it left per row, the first of them the number of rows it had learned
    """

    started: int
    stage: int
    mark: int
    active: tuple[int, ...]
    width: int


class Header(NamedTuple):
    """What the numbers of a record are: the outputs, whether with error scales, and the readers.

    The first 2 * outputs numbers are the final prediction and its error scale (1 before there are
    experts: not ``scaled``); those of each reader follow.
    """

    outputs: int
    scaled: bool
    readers: tuple[Reader, ...]

    @property
    def width(self) -> int:
        """Numbers per row."""
        return 2 * self.outputs + sum(reader.width for reader in self.readers)

    def to_list(self) -> list[Any]:
        """Return lists of whole numbers, for a file."""
        readers = [[*r[:3], list(r.active), r.width] for r in self.readers]
        return [self.outputs, self.scaled, readers]

    @classmethod
    def from_list(cls, value: Any) -> Self:
        """Read what `to_list` returned from a file; raise a StateError if it is damaged."""
        require(isinstance(value, list) and len(value) == 3, "a record has another header")
        outputs, scaled, readers = value
        require(type(scaled) is bool and isinstance(readers, list), "a record has another header")
        found = []
        for one in readers:
            require(isinstance(one, list) and len(one) == 5, "a record has another reader")
            require(isinstance(one[3], list), "a record has other experts")
            first, stage, mark = (checked_count(number, "a record") for number in one[:3])
            width = checked_count(one[4], "a record", 1)
            active = tuple(checked_count(number, "a record") for number in one[3])
            found.append(Reader(first, stage, mark, active, width))
        return cls(checked_count(outputs, "a record", 1), scaled, tuple(found))


class Record(NamedTuple):
    """What was read and predicted when rows were predicted: ``values`` (rows, header.width)."""

    header: Header
    values: Array


class RecordedRows(NamedTuple):
    """Some rows of a call and the record of their predictions.

    ``rows`` (m,) are their places in the call. ``matrix`` maps the outputs of the record to those
    of today (None: the same).
    """

    rows: NDArray[np.int64]
    record: Record
    matrix: Array | None = None


class Arrived:
    """The rows of a call whose labels arrive, of which some have a record; others are read now.

    known          (n,) whether a row has a record
    P, scales      (n, outputs) final predictions and their error scales
    """

    def __init__(self, rows: int, outputs: int, groups: Sequence[RecordedRows]) -> None:
        self._rows, self._groups = rows, groups
        self.known, self.scaled = np.zeros((2, rows), dtype=np.bool_)
        self.P, self.scales = np.zeros((2, rows, outputs))
        for own, (header, values), matrix in groups:
            if (header.outputs if matrix is None else matrix.shape[1]) != outputs:
                continue
            parts = values[:, : 2 * header.outputs].reshape(len(own), 2, header.outputs)
            mapped = parts if matrix is None else recombined(parts, matrix)
            self.P[own], self.scales[own] = mapped[:, 0], np.abs(mapped[:, 1])
            self.known[own], self.scaled[own] = (self.scales[own] > 0.0).all(axis=1), header.scaled

    def leave_out(self, signed: bool) -> None:
        """Read rows now whose record, which comes from outside, no learner can have made."""
        most = 1.0 + 1e-6 if signed else LARGEST_TARGET  # with some rounding
        good = (np.abs(self.P) <= most) & (self.scales <= LARGEST_TARGET)
        self.known &= good.all(axis=1)

    def of(self, started: int) -> ReadRows:
        """Return what an inner learner has left, which started at a row."""
        found = []
        for own, (header, values), matrix in self._groups:
            first = 2 * header.outputs
            for reader in header.readers:
                if reader.started == started:
                    part = values[:, first : first + reader.width]
                    found.append(ReadGroup(own, reader, part, header.outputs, matrix))
                first += reader.width
        return ReadRows(found, np.zeros(self._rows, dtype=np.bool_))


class ReadGroup(NamedTuple):
    """Some rows of a call as one reader has read them: ``values`` (m, reader.width)."""

    rows: NDArray[np.int64]
    reader: Reader
    values: Array
    outputs: int
    matrix: Array | None


class ReadRows:
    """The rows of a call as one inner learner has read them.

    ``used`` (n,) is set where a record fits and is used.
    """

    def __init__(self, groups: Sequence[ReadGroup], used: NDArray[np.bool_]) -> None:
        self.groups, self.used = groups, used

    def __getitem__(self, rows: slice) -> ReadRows:
        """Return some rows; their ``used`` is a view of this one."""
        found = []
        for group in self.groups:
            inside = (group.rows >= rows.start) & (group.rows < rows.stop)
            if inside.any():
                own = group.rows[inside] - rows.start
                found.append(group._replace(rows=own, values=group.values[inside]))
        return ReadRows(found, self.used[rows])

    def lateness(self, rows: int) -> Array:
        """Return how many rows (n,) were learned since each row was predicted, 0 if it was not.

        The learner has learned ``rows`` before the first of them.
        """
        out = np.zeros(len(self.used))
        for group in self.groups:
            before = np.floor(np.clip(group.values[:, 0], 0.0, None))
            out[group.rows] = np.maximum(0.0, rows + group.rows - before)
        return out

    def fitting(self, stage: int, mark: int) -> ReadRows:
        """Return the rows that were read by experts of a stage."""
        fits = [group for group in self.groups if group.reader[1:3] == (stage, mark)]
        return ReadRows(fits, self.used)
