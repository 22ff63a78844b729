"""Blocks of rows from files of many kinds, in bounded memory.

A source reads Arrow record batches from one kind of file; `FileStream` picks the columns, turns
them into numbers and cuts them into blocks of equal length, counted from the start of the file,
so that a run which goes on at a block's start sees the same blocks as one that never stopped.

Rows are counted from 0 at the first row of data, as everywhere in pronk.

X holds numbers only. A category (text, or anything else named so) becomes a number that only
stands for it: 52 bits of a hash of its text; a date or time becomes seconds. `pronk.Prepared` makes
columns of them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pronk.core.checks import without_label
from pronk.core.state import LARGEST_TARGET
from pronk.data.dates import CLOCK, DATE, TIME
from pronk.data.errors import StreamError, argument, as_arguments, as_options, option
from pronk.data.opening import open_source, reads_once
from pronk.data.preparation import DROPPED, column
from pronk.data.schema import Chooser, Reading
from pronk.data.source import BAD, not_text
from pronk.data.values import (
    CATEGORY,
    Array,
    as_numbers,
    as_types,
    is_text,
    is_time,
    labels,
    numbers,
    reads_as_number,
)
from pronk.estimators.inputs import LARGEST_INPUT, LARGEST_WEIGHT

# ----------------------------------------------------------------------------------------
# Which rows of a file cannot be used, and why.


#: What is said of text in a column of times.
UNREAD = "does not read as a date or time"


@dataclass(frozen=True)
class Judge:
    """What the rows of a stream must be: numbers, labels, weights.

    Parameters
    ----------
    columns, targets : names, for messages
    weight : name of the column of weights, if there is one
    task : "regression" or "classification"
    gaps : whether a column may have gaps
    unlabelled : whether a row may have no label
    every : whether all bad rows are looked for, or the first of each kind
    """

    columns: list[str]
    targets: list[str]
    weight: str | None
    task: str
    gaps: bool
    unlabelled: bool
    every: bool

    def problems(
        self, X: Array, y: NDArray[Any], weights: Array | None, batch: pa.RecordBatch
    ) -> dict[int, str]:
        """Rows that cannot be used, and why; ``batch`` says what its reader found."""
        last = None if self.every else 1
        problems: list[tuple[int, str]] = []
        if self.every and batch.column(BAD).null_count < batch.num_rows:
            reasons = batch.column(BAD).to_pylist()
            problems += [(row, why) for row, why in enumerate(reasons) if why is not None]
        problems += self._features(X, batch)[:last]
        problems += self._targets(y)[:last]
        if weights is not None:
            wrong = np.flatnonzero(~((weights >= 0.0) & (weights <= LARGEST_WEIGHT)))[:last]
            problems += [
                (row, f"the weight {self.weight!r} {_wrong_weight(weights[row])}")
                for row in wrong.tolist()
            ]
        if not self.unlabelled and (without := without_label(y)) is not None:
            what = f"the target {','.join(self.targets)!r} is missing"
            problems += [(row, what) for row in np.flatnonzero(without).tolist()]
        found: dict[int, str] = {}
        for row, what in problems:
            found.setdefault(row, what)
        return found

    def _features(self, X: Array, batch: pa.RecordBatch) -> list[tuple[int, str]]:
        if np.abs(X).max(initial=0.0) <= LARGEST_INPUT:
            return []
        wrong = ~(np.abs(X) <= LARGEST_INPUT)
        if self.gaps:
            wrong &= ~np.isnan(X)
        rows = np.flatnonzero(wrong.any(axis=1))[: None if self.every else 1].tolist()
        places = [(row, int(wrong[row].argmax())) for row in rows]
        return [
            (row, f"column {self.columns[place]!r} {self._what(X, batch, row, place)}")
            for row, place in places
        ]

    def _what(self, X: Array, batch: pa.RecordBatch, row: int, place: int) -> str:
        value = batch.column(self.columns[place])[row].as_py() if np.isnan(X[row, place]) else None
        if isinstance(value, str):
            return f"has {value[:40]!r}, which {UNREAD}"
        return _wrong(X[row, place])

    def _targets(self, y: NDArray[Any]) -> list[tuple[int, str]]:
        if y.dtype.kind == "f" and (bad := ~np.isnan(y) & ~(np.abs(y) <= LARGEST_TARGET)).any():
            table, found = y.reshape(len(y), -1), np.argwhere(bad.reshape(len(y), -1))
            return [
                (row, f"the target {self.targets[place]!r} {_wrong(table[row, place])}")
                for row, place in found[: None if self.every else 1].tolist()
            ]
        if self.task == "classification" and y.dtype.kind in "fO":
            return self._fractions(y)
        return []

    def _fractions(self, y: NDArray[Any]) -> list[tuple[int, str]]:
        """Labels that are numbers with a fraction."""
        use = argument("task", "regression")
        return [
            (row, f"the target {self.targets[0]!r} is {value:g}, which is no label: use {use}")
            for row, value in enumerate(y.tolist())
            if isinstance(value, float) and value == value and value != round(value)
        ]


def _wrong_weight(value: float) -> str:
    return f"is negative ({value:.3g})" if -np.inf < value < 0 else _wrong(value)


def _wrong(value: float) -> str:
    """What is wrong with a number, and what to do."""
    if np.isnan(value):
        return "is missing or NaN"
    return "is infinite" if np.isinf(value) else f"is {value:.3g}, too large: rescale it"


Block = tuple[Array, NDArray[Any]]

#: Rows of a block, unless it would be larger than `_BLOCK_BYTES`.
BLOCK_ROWS = 4096
_BLOCK_BYTES = 1 << 25


class BadRow(NamedTuple):
    """A row that was left out: its place, counted from 0, why, and its values."""

    row: int
    reason: str
    values: dict[str, Any]


class FileStream:
    """A file as blocks (X, y): X float64 and C-contiguous, y numbers or labels.

    Each iteration reads the file anew. What cannot be used gives a `StreamError`; rows before a
    bad value come first, as a shorter block.

    Parameters
    ----------
    path : file name
    target : str, optional
        The column to predict; "label" for LIBSVM. Without it all rows have no label. Several
        columns of numbers with commas between: y is then (rows, targets), and a row that lacks one
        of them has no label.
    unlabelled : bool, default False
        Let rows without a label come, with NaN (numbers) or None (labels) in y: the evaluation
        predicts them and learns nothing from them. Otherwise they are an error.
    rows : int, optional
        Rows of a block; 4096, fewer if the rows are very wide.
    **choices
        Which columns are read, and as what: `columns`, `drop`, `categorical`, `missing`, `task`,
        `limit`, `delimiter`, `header`, `query` and the other fields of `pronk.data.Reading`.

    Attributes
    ----------
    reading : Reading
        All choices.
    columns : list of str
        The names of X's columns.
    kinds : list of str
        What each column of X holds: "number", "boolean", "category", "time", "date" or "clock".
    orders : list of str
        How dates of each column that have the year last are read.
    target : str or None
    targets : list of str
        Its columns, mostly one.
    unread : dict
        By column, text that does not read as a date or time, which ``missing="mean"`` takes as
        missing: in how many rows, and the first of them.
    task : str
        "regression" or "classification".
    reason : str
        Why that task, if it was guessed.
    """

    def __init__(
        self,
        path: str | Path,
        target: str | None = None,
        *,
        unlabelled: bool = False,
        rows: int | None = None,
        **choices: Any,
    ) -> None:
        self.reading = reading = Reading(str(path), target, **choices)
        self.path = Path(path)
        self._name = reading.name
        self.limit = reading.limit
        self.missing = reading.missing
        self.unlabelled = unlabelled or target is None
        self._source = open_source(reading)
        self._source.widen([name for text in reading.columns for name in text.split(",")])
        self.target = target if target is not None else self._source.label
        with self._reading():
            self._schema = self._own_schema()
        chooser = Chooser(self._name, self._schema, self._source.untyped, self.target)
        self.targets = chooser.targets
        chosen = chooser.columns(reading)
        self.columns, self.categorical, self.keep = chosen.used, chosen.categorical, chosen.kept
        self.weight = reading.weight
        if not self.columns:
            raise StreamError(f"{self._name} has no column left beside the target {target!r}")
        self._head = self._start()
        self.kinds, self.orders, notes = chooser.kinds(chosen, self._head, reading.dates)
        held = dict(zip(self.columns, self.kinds, strict=True))
        if chosen.automatic:
            self.categorical = [name for name, kind in held.items() if kind == CATEGORY]
        chooser.check_usable(
            [name for name, kind in held.items() if kind not in (TIME, DATE, CLOCK)],
            self.categorical, self._head, self._odd_value, gaps=self.missing == "mean",
        )  # fmt: skip
        if self.weight is not None:
            chooser.check_weight(self.weight, self._head)
        self._notes = notes + chooser.notes(held, self._head)
        self.task, self.reason = chooser.task(reading.task, self._head)
        self._judge = Judge(
            self.columns, self.targets, self.weight, self.task,
            gaps=self.missing == "mean", unlabelled=self.unlabelled, every=reading.skip_bad,
        )  # fmt: skip
        self.position = 0
        self.bad: list[BadRow] = []
        self.unread: dict[str, dict[str, Any]] = {}
        self.weights: Array | None = None
        self.rows = rows or max(64, min(BLOCK_ROWS, _BLOCK_BYTES // (8 * len(self.columns))))

    def _own_schema(self) -> pa.Schema:
        """Names and types of the columns; times that are text in the file are text here too."""
        schema, targets = self._source.schema(), {self.target, *(self.target or "").split(",")}
        for place, field in enumerate(schema if self._source.times_in_text else ()):
            if is_time(field.type) and field.name not in targets:
                schema = schema.set(place, field.with_type(pa.string()))
        return schema

    def _odd_value(self, name: str) -> tuple[int, str]:
        """The row and value of the first text in a column that is no number."""
        row = 0
        with self._reading():
            for batch in self._source.batches({name: pa.string()}):
                for value in batch.column(0).to_pylist():
                    if not reads_as_number(value):
                        return row, str(value)
                    row += 1
        return 0, ""

    def _start(self) -> pa.RecordBatch:
        """The first rows, in the file's own types."""
        types = {name: self._schema.field(name).type for name in self._needed()}
        with self._reading():
            types = self._with_reasons(types)
            # Batches of lines may end at a bad one: the first rows are to be the same without it.
            several = self.reading.skip_bad and not reads_once(self.reading.file)
            held: list[pa.RecordBatch] = []
            for batch in self._source.batches(types):
                if batch.num_rows:
                    held.append(as_types(batch, types))
                if held and not (several and sum(map(len, held)) < BLOCK_ROWS):
                    break
        if held:
            return pa.concat_batches(held).slice(0, BLOCK_ROWS)
        raise StreamError(f"{self._name} has no rows of data")

    def _needed(self) -> list[str]:
        used = [*self.columns, *self.targets, *([] if self.weight is None else [self.weight])]
        return [*used, *(name for name in self.keep if name not in used)]

    def _with_reasons(self, types: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
        """The same, and the column that says what is wrong with a row, where bad rows are left."""
        return {**types, BAD: pa.string()} if self.reading.skip_bad else types

    def expected_rows(self) -> int | None:
        """How many rows the stream has, for a progress bar; an estimate while a CSV is read."""
        total = self._source.total()
        if total is None:
            return None
        return round(total if self.limit is None else min(total, self.limit))

    # -- reading ---------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Block]:
        return self.blocks()

    def blocks(self, skip: int = 0) -> Iterator[Block]:
        """The blocks after the first ``skip`` rows.

        They end where they would without ``skip``; a first one that began before is shorter.
        """
        for X, y, _ in self.blocks_with_kept(skip):
            yield X, y

    def blocks_with_kept(self, skip: int = 0) -> Iterator[tuple[Array, NDArray[Any], Any]]:
        """As `blocks`, each with an Arrow batch of the columns that are kept.

        `position` is the place in the file after each block, `bad` the rows that were left out,
        `weights` how much its rows count, where the file says.
        """
        self.position = skip
        for batch in self._batches(skip):
            X, y, weights = self._features(batch), self._targets(batch), self._weights(batch)
            problems, start = self._judge.problems(X, y, weights, batch), self.position
            self.weights = weights
            kept = batch.select(self.keep)
            if problems and not self.reading.skip_bad:
                row = min(problems)
                self.position += row
                self.weights = None if weights is None else weights[:row]
                if row:
                    yield X[:row], y[:row], kept.slice(0, row)
                raise StreamError(self._told(problems[row], start + row))
            self.position += batch.num_rows
            if self._judge.gaps:
                self._count_unread(X, batch, start)
            if problems:
                good = np.ones(batch.num_rows, dtype=bool)
                good[list(problems)] = False
                self.bad += [self._bad_row(batch, row, start, problems) for row in sorted(problems)]
                X, y, kept = X[good], y[good], kept.filter(pa.array(good))
                self.weights = None if weights is None else weights[good]
            if len(y):
                yield X, y, kept

    def _count_unread(self, X: Array, batch: pa.RecordBatch, start: int) -> None:
        """Count values that are there, but do not read as dates or times."""
        for j, name in enumerate(self.columns):
            if not is_text(batch.schema.field(name).type) or self.kinds[j] == CATEGORY:
                continue
            gaps = np.isnan(X[:, j])
            if not gaps.any():
                continue
            rows = np.flatnonzero(gaps & batch.column(name).is_valid().to_numpy(False))
            if len(rows):
                value = batch.column(name)[int(rows[0])].as_py()
                first = {"rows": 0, "first": start + int(rows[0]), "value": value}
                self.unread.setdefault(name, first)["rows"] += len(rows)

    def columns_became(self) -> list[dict[str, Any]]:
        """What each column of the file is: those of X, then those that are left out."""
        used = [column(*each) for each in zip(self.columns, self.kinds, self.orders, strict=True)]
        others = {*self.columns, *self.targets, self.weight}
        left = [name for name in self._schema.names if name not in others]
        for one in used:
            one |= {"unread": self.unread[one["name"]]} if one["name"] in self.unread else {}
        return [*used, *({"name": name, "kind": DROPPED} for name in left)]

    def _bad_row(
        self, batch: pa.RecordBatch, row: int, start: int, problems: dict[int, str]
    ) -> BadRow:
        values = batch.slice(row, 1).select([n for n in self._needed() if n != BAD]).to_pylist()[0]
        return BadRow(start + row, as_arguments(problems[row]), values)

    def at(self, row: int) -> Self:
        """The same stream for who reads from a row on, in another process.

        A file of text is looked through up to that row, so that reading can begin there.
        """
        twin = copy.copy(self)
        with self._reading():
            twin._source = self._source.at(row)
        return twin

    def head(self, rows: int = 64) -> Block:
        """The first rows as far as they are good, without reading again; perhaps none.

        `weights` is how much they count.
        """
        skips = self.reading.skip_bad  # then others come in the places of bad ones
        batch = as_types(self._head if skips else self._head.slice(0, rows), self._types())
        X, y, weights = self._features(batch), self._targets(batch), self._weights(batch)
        problems = self._judge.problems(X, y, weights, batch)
        end = len(y) if skips else min(problems, default=len(y))
        good = np.array([row for row in range(end) if row not in problems][:rows], dtype=np.intp)
        self.weights = None if weights is None else weights[good]
        return X[good], y[good]

    def known_labels(self) -> NDArray[Any] | None:
        """All labels of the file, sorted, from a reading of its target alone.

        None where the input can be read once only, or the targets are no labels.
        """
        if self.target is None or self.task != "classification" or reads_once(self.reading.file):
            return None
        found: set[Any] = set()
        left = float("inf") if self.limit is None else self.limit
        types = self._with_reasons({self.target: self._read_as(self.target)})
        with self._reading():
            for batch in self._source.batches(types):
                batch = as_types(batch.slice(0, int(min(left, batch.num_rows))), types)
                found.update(batch.column(0).drop_null().unique().to_pylist())
                left -= batch.num_rows
                if left <= 0:
                    break
        return np.unique(np.array(list(found)))

    def kept_types(self) -> dict[str, pa.DataType]:
        """The Arrow types of the columns that are kept."""
        return {name: self._read_as(name) for name in self.keep}

    def notes(self, *, options: bool = False) -> list[str]:
        """What is odd but no error, as a column that names each row; in the words of Python."""
        return list(map(as_options if options else as_arguments, self._notes))

    def decides(self) -> dict[str, Any]:
        """What decides the rows, by the name of its option: the key of a checkpoint."""
        chosen = {**asdict(self.reading), "target": self.target, "task": self.task}
        for name in ("file", "columns", "drop"):
            del chosen[name]
        chosen |= {
            "decimal": None if self.reading.decimal == "." else self.reading.decimal,
            "na": list(self.reading.na) or None,
            "skip_bad": self.reading.skip_bad or None,
        }  # older snapshots do not have them
        chosen |= {"keep": self.keep, "categorical": self.categorical}
        header = None if chosen.pop("header") else True
        said = {option(name): value for name, value in chosen.items()}
        return {
            **said, "--no-header": header, "the columns": self.columns, "blocks of": self.rows
        }  # fmt: skip

    @property
    def target_type(self) -> pa.DataType:
        """The Arrow type of a file that holds targets or predictions."""
        if self.target is None or self.task == "regression":
            return pa.float64()
        kind = self._schema.field(self.target).type
        if is_text(kind):
            return pa.string()
        return pa.int64() if pa.types.is_integer(kind) else kind

    def _types(self) -> dict[str, pa.DataType]:
        return self._with_reasons({name: self._read_as(name) for name in self._needed()})

    def _batches(self, skip: int) -> Iterator[pa.RecordBatch]:
        """The needed columns in pieces of ``rows`` rows counted from the start, up to the limit.

        Of a pipe also in shorter ones, as rows arrive.
        """
        held: list[pa.RecordBatch] = []
        rows = skip % self.rows
        left = max(0, self.limit - skip) if self.limit is not None else float("inf")
        types, live = self._types(), reads_once(self.reading.file)
        with self._reading():
            for batch in self._source.batches(types, skip):
                batch = as_types(batch, types)
                while batch.num_rows and left:
                    piece = batch.slice(0, int(min(self.rows - rows, left)))
                    batch = batch.slice(piece.num_rows)
                    held.append(piece)
                    rows += piece.num_rows
                    left -= piece.num_rows
                    if rows == self.rows:
                        yield pa.concat_batches(held)
                        held, rows = [], 0
                if held and live:  # what has arrived waits for no more
                    yield pa.concat_batches(held)
                    held = []
                if not left:
                    break
        if held:
            yield pa.concat_batches(held)

    def _read_as(self, name: str) -> pa.DataType:
        """The type to parse a column as: a CSV column that starts with 1, 2 may go on with 2.5."""
        kind = self._schema.field(name).type
        if name in self.categorical and not pa.types.is_null(kind):
            return pa.string() if self._source.untyped else kind
        if self._source.untyped and name in self.categorical:
            return pa.string()
        if name in self.keep and name not in [*self.columns, *self.targets]:
            # Of a CSV file as it stands there: an id of 007 is not 7.
            return pa.string() if self._source.untyped or pa.types.is_null(kind) else kind
        label = name in self.targets and self.task == "classification"
        whole = pa.types.is_integer(kind) and not label
        return pa.float64() if whole or pa.types.is_null(kind) else kind

    def _features(self, batch: pa.RecordBatch) -> Array:
        X = np.empty((batch.num_rows, len(self.columns)))
        for j, name in enumerate(self.columns):
            with self._turning(name):
                X[:, j] = as_numbers(batch.column(name), self.kinds[j], self.orders[j])
        return X

    @contextmanager
    def _turning(self, name: str) -> Iterator[None]:
        """Errors of values that become numbers or labels."""
        try:
            yield
        except UnicodeDecodeError:
            raise not_text(self._name) from None
        except pa.ArrowInvalid as error:
            text = str(error).strip().splitlines()[0]
            raise StreamError(f"{self._name}: column {name!r} cannot be used: {text}") from None

    def _targets(self, batch: pa.RecordBatch) -> NDArray[Any]:
        if self.target is None:
            return np.full(batch.num_rows, np.nan)
        found = []
        for name in self.targets:
            with self._turning(name):
                values = batch.column(name)
                found.append(numbers(values) if self.task == "regression" else labels(values))
        if len(found) == 1:
            return found[0]
        several = np.column_stack(found)
        several[np.isnan(several).any(axis=1)] = np.nan
        return several

    def _weights(self, batch: pa.RecordBatch) -> Array | None:
        if self.weight is None:
            return None
        with self._turning(self.weight):
            return numbers(batch.column(self.weight))

    def _told(self, what: str, row: int) -> str:
        fills = what.startswith("column") and what.endswith(("NaN", UNREAD))
        advice = f"; {argument('missing', 'mean')} fills it in" if fills else ""
        return f"{self._name}: {what} at row {row} (counting from 0){advice}"

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Errors of Arrow and of the system as errors of the file."""
        try:
            yield
        except StreamError as error:
            if error.column is None:
                raise
            advice = f"leave the column out with {argument('drop', error.column)}"
            if error.column in self.targets:
                advice = f"give {argument('task')}"
            elif error.column == self.weight:
                advice = f"leave {argument('weight')} out"
            raise StreamError(f"{error.text}; correct it, or {advice}") from None
        except (pa.ArrowException, OSError) as error:
            text = str(error).strip().splitlines()[0]
            raise StreamError(f"{self._name} cannot be read: {text}") from None
