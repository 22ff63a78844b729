"""Blocks of rows from files of many kinds, in bounded memory.

A source reads Arrow record batches from one kind of file. `FileStream` picks the columns, converts
them to numbers (`pronk.columns.values`) and cuts them into blocks of equal length, counted from the
start of the file, so that a run that resumes at the start of a block sees the same blocks as one
that never stopped.

Rows are counted from 0 at the first row of data, as everywhere in pronk.

X holds numbers only. A category becomes 52 bits of a hash of its text; a date or time becomes
seconds. `pronk.Prepared` turns both into columns for a learner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pronk.columns.dates import CLOCK, DATE, ISO, TIME
from pronk.columns.preparation import DROPPED, column
from pronk.columns.spelling import is_total
from pronk.columns.values import (
    CATEGORY,
    NUMBER,
    as_numbers,
    has_hours,
    is_number,
    is_text,
    is_time,
    labels,
    numbers,
    reads_as_number,
    unread,
)
from pronk.core.arrays import Array
from pronk.core.checks import LARGEST_INPUT, without_label
from pronk.core.state import LARGEST_TARGET
from pronk.data.errors import StreamError, argument, in_python, option, with_options
from pronk.data.opening import open_source, reads_once
from pronk.data.schema import NO_COLUMN, UNNAMED, Chooser, Reading
from pronk.data.source import BAD, NOT_DATA, as_types, count, not_text
from pronk.data.views import Backwards, Flat
from pronk.estimators.inputs import LARGEST_WEIGHT, timed_weights

#: Steps of time that show in which direction a file runs.
LEAST_STEPS = 9
#: Rows of a block, unless it would be larger than `_BLOCK_BYTES`.
BLOCK_ROWS = 4096
_BLOCK_BYTES = 1 << 25

#: The hint for a missing value, where the model could fill it in.
FILL_IN = f"{argument('missing', 'mean')} fills it in"


class BadRow(NamedTuple):
    """A row that was left out: its number, counted from 0, the reason, and its values."""

    row: int
    reason: str
    values: dict[str, Any]


class Block(NamedTuple):
    """Some rows of a file, in order.

    ``weights`` are the sample weights, if the file has them; with times (n, 2), weights and times
    in seconds. ``kept`` is an Arrow batch of the
    columns to copy to the predictions. ``position`` is the number of rows of the file up to the end
    of the block, and ``bad`` lists the rows of the file that were left out of it.
    """

    X: Array
    y: NDArray[Any]
    weights: Array | None
    kept: pa.RecordBatch
    position: int
    bad: tuple[BadRow, ...] = ()

    def rows(self, places: Any) -> Block:
        """Return a block of these rows."""
        return self._replace(
            X=self.X[places], y=self.y[places], kept=self.kept.take(pa.array(places)),
            weights=None if self.weights is None else self.weights[places],
        )  # fmt: skip


class Problem(NamedTuple):
    """Why a row cannot be used; ``fills`` if ``missing="mean"`` would fill the value in.

    ``left_out`` if it is a line that is not a row of data.
    """

    message: str
    column: str | None = None
    fills: bool = False
    hint: str = ""
    left_out: bool = False


def _reason(why: str) -> Problem:
    """Return the problem for the reason that a reader of files gives."""
    if why.startswith(NOT_DATA):
        return Problem(why.removeprefix(NOT_DATA), left_out=True)
    skip, na = argument("skip_bad", "FILE"), argument("na", "WORD")
    hint = (
        f"correct it, leave such rows out with {skip}, or name a word that means missing with {na}"
    )
    return Problem(why, hint=hint)


def _wrong(value: float) -> str:
    """Return what is wrong with a number, and what to do."""
    if np.isnan(value):
        return "is missing or NaN"
    return "is infinite" if np.isinf(value) else f"is {value:.3g}, too large: rescale it"


class FileStream:
    """Read a file as blocks (X, y): X float64 and C-contiguous, y numbers or labels.

    Each iteration reads the file again. What cannot be used raises a `StreamError`; the rows before
    a bad value come first, as a shorter block. `blocks` yields weights, kept columns and bad rows
    beside X and y.

    Parameters
    ----------
    path : file name
    target : str, optional
        The column to predict; "label" for LIBSVM. Without it no row has a label. Several columns of
        numbers with commas between: y is then (rows, targets), and a row that lacks one of them has
        no label.
    unlabelled : bool, default False
        Accept rows without a label, with NaN (numbers) or None (labels) in y: the evaluation
        predicts them and learns nothing from them. Otherwise they raise an error.
    rows : int, optional
        Rows per block; 4096, fewer if the rows are very wide.
    as_given : bool, default False
        Keep the order of the rows also if the newest comes first.
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
        Its columns, usually one.
    unread : dict
        By column, text that does not read as a date or time, which ``missing="mean"`` treats as
        missing: the number of rows so far, and the first of them.
    hours : dict
        By column of dates, values with a time of day, whose hour is not used: likewise.
    infinite : dict
        By column, infinite values, which are missing unless ``strict``: likewise.
    left_out : dict
        By reason, lines that are not rows of data, such as a header that is repeated: likewise.
    task : str
        "regression" or "classification".
    reason : str
        Why that task, if it was chosen by the first rows.
    """

    def __init__(
        self,
        path: str | Path,
        target: str | None = None,
        *,
        unlabelled: bool = False,
        rows: int | None = None,
        as_given: bool = False,
        **choices: Any,
    ) -> None:
        self.reading = reading = Reading(str(path), target, **choices)
        self.path = Path(path)
        self._name = reading.name
        self.limit = reading.limit
        self.missing, self.gaps = reading.missing, reading.missing == "mean"
        self.unlabelled = unlabelled or target is None
        self._source = open_source(reading)
        self._source.widen([name for text in reading.columns for name in text.split(",")])
        self.target = target if target is not None else self._source.label
        with self._reading():
            self._schema = self._own_schema(self._opened())
        chooser = Chooser(self._name, self._schema, self._source.untyped, self.target)
        self.targets = chooser.targets
        used, self.categorical, automatic, self.keep = chooser.columns(reading)
        self.weight, self.time = reading.weight, reading.time
        self._watched: list[str] = []  # a row of totals is found by its word in the index
        if not reading.strict:
            numeric = [field.name for field in self._schema if is_number(field.type)]
            self._watched = [name for name in numeric if UNNAMED.fullmatch(name)]
        by_itself = automatic and not reading.columns
        nested = {field.name for field in self._schema if pa.types.is_nested(field.type)}
        lists = [name for name in used if name in nested and by_itself]
        #: The columns of X, their kinds, and the orders of their dates.
        self._kinds = {name: (NUMBER, ISO) for name in used if name not in lists}
        if not self._kinds:
            raise StreamError(f"{self._name} has no column left beside the target {target!r}")
        self._source.require({*self.targets, *filter(None, (self.weight, self.time))})
        self._head = self._start()
        self._kinds, notes = chooser.kinds(
            self.columns, self.categorical, automatic, self._head, reading.dates
        )
        if by_itself:
            useless = chooser.of_no_use(self._kinds, self.categorical, self._head)
            if len(useless) < len(self._kinds):
                notes += useless.values()
                self._kinds = {n: kind for n, kind in self._kinds.items() if n not in useless}
        if automatic:
            self.categorical = [n for n, (kind, _) in self._kinds.items() if kind == CATEGORY]
        if not reading.strict and (name := self._newest_first()) is not None:
            if as_given or reads_once(reading.file):
                notes.append(f"column {name!r} runs backwards: the newest row comes first")
            else:
                self._source = Backwards(self._source)
                self._head = self._start()
                notes.append(
                    f"column {name!r} runs backwards, so the rows are read from the last one on"
                )
        plain = [n for n, (kind, _) in self._kinds.items() if kind not in (TIME, DATE, CLOCK)]
        chooser.check_usable(plain, self.categorical, self._head, self._first_text, gaps=self.gaps)
        if self.weight is not None:
            chooser.check_weight(self.weight, self._head)
        if self.time is not None:
            self._time_as = chooser.time_kind(self.time, self._head, reading.dates)
        if lists:
            notes.append(f"columns of lists are left out: {', '.join(map(repr, lists))}")
        self._notes = [*self._source.notes, *notes, *chooser.notes(self._kinds, self._head)]
        self.task, self.reason = chooser.task(reading.task, self._head, self._first_text)
        self.unread: dict[str, dict[str, Any]] = {}
        self.left_out: dict[str, dict[str, Any]] = {}
        self.hours: dict[str, dict[str, Any]] = {}
        self.infinite: dict[str, dict[str, Any]] = {}
        self.rows = rows or max(64, min(BLOCK_ROWS, _BLOCK_BYTES // (8 * len(self._kinds))))

    @property
    def columns(self) -> list[str]:
        return list(self._kinds)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self._kinds.values()]

    @property
    def orders(self) -> list[str]:
        return [order for _, order in self._kinds.values()]

    def _newest_first(self) -> str | None:
        """Return a column of times in which no row of the first ones is later than one before."""
        for name, (kind, order) in self._kinds.items():
            if kind in (TIME, DATE):
                times = as_numbers(self._head.column(name), kind, order)
                steps = np.diff(times[~np.isnan(times)])
                if len(steps) >= LEAST_STEPS and (steps <= 0.0).all() and steps.sum() < 0.0:
                    return name
        return None

    def read_dates_as(self, orders: Sequence[str]) -> None:
        """Read dates with the year last in these orders, one per column, as a model has learned."""
        each = zip(self._kinds.items(), orders, strict=True)
        self._kinds = {name: (kind, order) for (name, (kind, _)), order in each}
        if self.time in self._kinds:
            self._time_as = self._time_as[0], self._kinds[self.time][1]

    def _opened(self) -> pa.Schema:
        """Return the columns of the file, after its nested columns were made flat."""
        if self.reading.strict or self._source.label is not None:
            return self._source.schema()
        flat = Flat(self._source, text=self.reading.query is None)
        if flat.changes:
            self._source = flat
        return flat.schema()

    def _own_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return names and types of the columns; times that are text in the file stay text."""
        targets = {self.target, *(self.target or "").split(",")}
        for place, field in enumerate(schema if self._source.times_in_text else ()):
            if is_time(field.type) and field.name not in targets:
                schema = schema.set(place, field.with_type(pa.string()))
        return schema

    def _first_text(self, name: str) -> tuple[int, str]:
        """Return the row and value of the first text in a column that is not a number."""
        row = 0
        with self._reading():
            for batch in self._source.batches({name: pa.string()}):
                for value in batch.column(0).to_pylist():
                    if not reads_as_number(value):
                        return row, str(value)
                    row += 1
        return 0, ""

    def _start(self) -> pa.RecordBatch:
        """Return the first rows, in the file's own types."""
        types = {name: self._schema.field(name).type for name in self._needed()}
        with self._reading():
            types = self._with_reasons(types)
            # Batches of lines may end at a bad one: the first rows must be the same without it.
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
        used = [*(name for name in self.columns if name != NO_COLUMN), *self.targets]
        used += [name for name in self._watched if name not in used]
        used += [name for name in (self.weight, self.time) if name is not None and name not in used]
        return [*used, *(name for name in self.keep if name not in used)]

    def _with_reasons(self, types: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
        """Return the types with the column of reasons, if bad rows are left out."""
        loose = self._source.untyped and not self.reading.strict
        return {**types, BAD: pa.string()} if self.reading.skip_bad or loose else types

    def expected_rows(self) -> int | None:
        """Return the number of rows, for a progress bar; an estimate while a CSV is read."""
        total = self._source.total()
        if total is None:
            return None
        return round(total if self.limit is None else min(total, self.limit))

    # -- reading ---------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[tuple[Array, NDArray[Any]]]:
        return ((block.X, block.y) for block in self.blocks() if len(block.y))

    def blocks(self, skip: int = 0) -> Iterator[Block]:
        """Yield the blocks after the first ``skip`` rows.

        They end where they would without ``skip``; the first one is shorter if ``skip`` is inside
        a block. A block has no rows if all its rows are bad and left out.
        """
        for counts in (self.unread, self.hours, self.infinite, self.left_out):
            counts.clear()
        start, last = skip, -np.inf
        for batch in self._batches(skip):
            block, problems = self._block(batch, start)
            last = self._check_order(block, problems, last)
            if not self.reading.skip_bad and (row := _first_fatal(problems)) is not None:
                if row:
                    before, own = self._block(batch.slice(0, row), start)
                    yield self._without(before, batch, start, own)
                raise self._error(problems[row], start + row)
            self._count_values(block.X, batch, start, problems)
            yield self._without(block, batch, start, problems)
            start = block.position

    def _without(
        self, block: Block, batch: pa.RecordBatch, start: int, problems: dict[int, Problem]
    ) -> Block:
        """Return a block without the rows that cannot be used, which it lists."""
        if not problems:
            return block
        for row in sorted(problems):
            if problems[row].left_out:
                what = in_python(problems[row].message)
                self.left_out.setdefault(what, {"rows": 0, "first": start + row})["rows"] += 1
        bad = tuple(self._bad_row(batch, row, start, problems) for row in sorted(problems))
        return block.rows(np.setdiff1d(np.arange(len(block.y)), list(problems)))._replace(bad=bad)

    def _block(self, batch: pa.RecordBatch, start: int) -> tuple[Block, dict[int, Problem]]:
        """Return all rows of a batch that begins at a row, and the rows that cannot be used."""
        X, y, weights = self._features(batch), self._targets(batch), self._weights(batch)
        block = Block(X, y, weights, batch.select(self.keep), start + batch.num_rows)
        return block, self._problems(X, y, weights, batch)

    def _problems(
        self, X: Array, y: NDArray[Any], weights: Array | None, batch: pa.RecordBatch
    ) -> dict[int, Problem]:
        """Return a problem per row that cannot be used; the column BAD has those of the reader."""
        problems: dict[int, Problem] = {}  # of several problems of a row the first
        last = None if self.reading.skip_bad else 1  # all of a kind are needed, or the first

        def find(wrong: Any, problem: Callable[[int], Problem]) -> None:
            rows = [row for row in np.flatnonzero(wrong).tolist() if row not in problems]
            problems.update((row, problem(row)) for row in rows[:last])

        if BAD in batch.schema.names and batch.column(BAD).null_count < batch.num_rows:
            reasons = batch.column(BAD).to_pylist()
            problems |= {row: _reason(why) for row, why in enumerate(reasons) if why}
        if not self.reading.strict:
            self._find_totals(X, batch, problems)
        if not np.abs(X).max(initial=0.0) <= LARGEST_INPUT:
            wrong = ~(np.abs(X) <= LARGEST_INPUT) & ~(np.isnan(X) & self.gaps)
            first = wrong.argmax(axis=1).tolist()
            find(wrong.any(axis=1), lambda row: self._feature(X, batch, row, first[row]))
        target = ",".join(self.targets)
        if y.dtype.kind == "f" and (bad := np.abs(y) > LARGEST_TARGET).any():
            table, bad = y.reshape(len(y), -1), bad.reshape(len(y), -1)
            find(bad.any(axis=1), lambda row: self._too_large(table[row], int(bad[row].argmax())))
        elif self.task == "classification" and y.dtype.kind in "fO":
            use = argument("task", "regression")
            find(
                np.array([isinstance(one, float) and one % 1.0 > 0.0 for one in y.tolist()], bool),
                lambda row: Problem(
                    f"the target {target!r} is {y[row]:g}, which is not a label", hint=f"use {use}"
                ),
            )
        if weights is not None:
            own = weights if weights.ndim == 1 else weights[:, 0]
            find(~((own >= 0.0) & (own <= LARGEST_WEIGHT)), lambda row: self._weight(own[row]))
            if weights.ndim == 2:
                unknown = Problem(f"the time {self.time!r} is missing or cannot be read")
                find(~(np.abs(weights[:, 1]) <= LARGEST_INPUT), lambda row: unknown)
        if (by := self.reading.by) is not None:
            skip = f"fill it in, or leave such rows out with {argument('skip_bad', 'FILE')}"
            empty = batch.column(by).is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
            find(empty, lambda row: Problem(f"the key {by!r} is missing", hint=skip))
        if not self.unlabelled and (without := without_label(y)) is not None:
            find(without, lambda row: Problem(f"the target {target!r} is missing"))
        return problems

    def _feature(self, X: Array, batch: pa.RecordBatch, row: int, place: int) -> Problem:
        name, number = self.columns[place], X[row, place]
        value = batch.column(name).slice(row, 1)
        what = _wrong(number)
        if unread(value, X[row : row + 1, place]).any():
            what = f"has {value[0].as_py()[:40]!r}, which does not read as a date or time"
        return Problem(f"column {name!r} {what}", name, fills=bool(np.isnan(number)))

    def _too_large(self, values: Array, place: int) -> Problem:
        skip = f"leave such rows out with {argument('skip_bad', 'FILE')}"
        what = f"the target {self.targets[place]!r} {_wrong(values[place])}"
        return Problem(what, hint=skip if np.isinf(values[place]) else "")

    def _weight(self, value: float) -> Problem:
        what = f"is negative ({value:.3g})" if -np.inf < value < 0 else _wrong(value)
        return Problem(f"the weight {self.weight!r} {what}")

    def _find_totals(self, X: Array, batch: pa.RecordBatch, problems: dict[int, Problem]) -> None:
        """Add rows of totals, which have a word such as Total in a column of dates."""
        for j, (name, (kind, _)) in enumerate(self._kinds.items()):
            if kind in (TIME, DATE) and is_text((values := batch.column(name)).type):
                for row in np.flatnonzero(unread(values, X[:, j])).tolist():
                    if is_total(word := values[row].as_py()):
                        what = f"{word!r} is in the column {name!r} of dates"
                        problems[row] = Problem(what, left_out=True)

    def _check_order(self, block: Block, problems: dict[int, Problem], last: float) -> float:
        """Add a problem for rows whose time is before that of an earlier row; return the last time.

        ``last`` is the last time of the rows before the block.
        """
        if self.time is None or block.weights is None:
            return last
        times = block.weights[:, 1].copy()
        times[list(problems)] = -np.inf
        before = np.maximum.accumulate(np.concatenate(([last], times)))
        early = np.flatnonzero((times < before[:-1]) & (times > -np.inf))
        for row in early[: None if self.reading.skip_bad else 1].tolist():
            what = f"the time {self.time!r} is before that of an earlier row"
            problems[row] = Problem(what, hint="sort the rows by time")
        return float(before[-1])

    def _count_values(
        self, X: Array, batch: pa.RecordBatch, start: int, problems: dict[int, Problem]
    ) -> None:
        """Count text that is no time, times of day in columns of dates, and infinite values."""
        used = np.ones(len(X), dtype=bool)
        used[list(problems)] = False
        for j, (name, (kind, _)) in enumerate(self._kinds.items()):
            if kind == NUMBER and name != NO_COLUMN and np.isnan(X[:, j]).any():
                values = batch.column(name)
                infinite = np.isinf(as_numbers(values, *self._kinds[name]))
                _count(self.infinite, name, used & infinite, values, start)
            if kind in (TIME, DATE, CLOCK) and is_text((values := batch.column(name)).type):
                if self.gaps:
                    _count(self.unread, name, used & unread(values, X[:, j]), values, start)
                if kind == DATE:
                    _count(self.hours, name, used & has_hours(X[:, j]), values, start)

    def columns_became(self) -> list[dict[str, Any]]:
        """Describe each column of the file: those of X, then those that are left out."""
        used = [column(name, *each) for name, each in self._kinds.items()]
        others = {*self._kinds, *self.targets, self.weight, self.time}
        left = [name for name in self._schema.names if name not in others]
        unread = {**self._source.unread_words(), **self.unread}
        for one in used:
            found = {"unread": unread, "hours": self.hours, "infinite": self.infinite}
            for key, counted in found.items():
                one |= {key: counted[one["name"]]} if one["name"] in counted else {}
        return [*used, *({"name": name, "kind": DROPPED} for name in left)]

    def _bad_row(
        self, batch: pa.RecordBatch, row: int, start: int, problems: dict[int, Problem]
    ) -> BadRow:
        values = batch.slice(row, 1).select([n for n in self._needed() if n != BAD]).to_pylist()[0]
        return BadRow(start + row, in_python(problems[row].message), values)

    def head(self, rows: int = 64) -> Block:
        """Return the first rows without reading again, up to the first bad one; perhaps none."""
        skips = self.reading.skip_bad  # then later rows replace bad ones
        batch = as_types(self._head if skips else self._head.slice(0, rows), self._types())
        block, problems = self._block(batch, 0)
        self._check_order(block, problems, -np.inf)
        fatal = None if skips else _first_fatal(problems)
        end = len(block.y) if fatal is None else fatal
        good = np.array([row for row in range(end) if row not in problems][:rows], dtype=np.intp)
        return block.rows(good)._replace(position=end)

    def known_labels(self) -> NDArray[Any] | None:
        """Read the target alone and return all labels of the file, sorted.

        None if the input can be read only once, or the targets are not labels.
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
        """Return the Arrow types of the columns that are kept."""
        return {name: self._read_as(name) for name in self.keep}

    def notes(self, *, options: bool = False) -> list[str]:
        """Return notes, such as on a column that names each row; ``options``: for a terminal."""
        return list(map(with_options if options else in_python, self._notes))

    def decides(self) -> dict[str, Any]:
        """Return all choices that decide the rows, by option: the key of a checkpoint."""
        chosen = {**asdict(self.reading), "target": self.target, "task": self.task}
        for name in ("file", "columns", "drop"):
            del chosen[name]
        chosen |= {"keep": self.keep, "categorical": self.categorical, "na": list(self.reading.na)}
        no_header = not chosen.pop("header")
        given = {option(name): value for name, value in chosen.items()}
        return {
            **given, "--no-header": no_header, "the columns": self.columns, "blocks of": self.rows
        }  # fmt: skip

    @property
    def target_type(self) -> pa.DataType:
        """Return the Arrow type of targets or predictions in a file."""
        if self.target is None or self.task == "regression":
            return pa.float64()
        kind = self._schema.field(self.target).type
        if is_text(kind):
            return pa.string()
        return pa.int64() if pa.types.is_integer(kind) else kind

    def _types(self) -> dict[str, pa.DataType]:
        return self._with_reasons({name: self._read_as(name) for name in self._needed()})

    def _batches(self, skip: int) -> Iterator[pa.RecordBatch]:
        """Yield the needed columns up to the limit, in pieces of ``rows`` rows from the start.

        Rows of a pipe also come in shorter pieces, as they arrive.
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
                if held and live:  # rows that have arrived are used at once
                    yield pa.concat_batches(held)
                    held = []
                if not left:
                    break
        if held:
            yield pa.concat_batches(held)

    def _read_as(self, name: str) -> pa.DataType:
        """Return the type to parse a column as: a CSV column of 1, 2 may continue with 2.5."""
        kind = self._schema.field(name).type
        if name in self.categorical and not pa.types.is_null(kind):
            return pa.string() if self._source.untyped else kind
        if self._source.untyped and name in self.categorical:
            return pa.string()
        if name in self.keep and name not in [*self.columns, *self.targets]:
            # The text of a CSV file is kept: an id of 007 is not 7.
            return pa.string() if self._source.untyped or pa.types.is_null(kind) else kind
        label = name in self.targets and self.task == "classification"
        whole = pa.types.is_integer(kind) and not label
        return pa.float64() if whole or pa.types.is_null(kind) else kind

    def _features(self, batch: pa.RecordBatch) -> Array:
        X = np.zeros((batch.num_rows, len(self._kinds)))
        for j, (name, kind) in enumerate(self._kinds.items()):
            if name != NO_COLUMN:
                with self._turning(name):
                    X[:, j] = as_numbers(batch.column(name), *kind)
        if not self.reading.strict and (infinite := np.isinf(X)).any():
            X[infinite] = np.nan  # no measurement is infinite
        return X

    @contextmanager
    def _turning(self, name: str) -> Iterator[None]:
        """Raise errors of the conversion to numbers or labels as errors of the column."""
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

    @property
    def has_weights(self) -> bool:
        """Whether blocks have weights or times."""
        return self.weight is not None or self.time is not None

    def _weights(self, batch: pa.RecordBatch) -> Array | None:
        weights: Array | None = None
        if self.weight is not None:
            with self._turning(self.weight):
                weights = numbers(batch.column(self.weight))
        if self.time is None:
            return weights
        with self._turning(self.time):
            times = as_numbers(batch.column(self.time), *self._time_as)
        return timed_weights(np.ones(len(times)) if weights is None else weights, times)

    def _error(self, problem: Problem, row: int) -> StreamError:
        return StreamError(
            f"{self._name}: {problem.message} at row {row} (counting from 0)",
            column=problem.column,
            row=row,
            hint=FILL_IN if problem.fills else problem.hint,
        )

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Raise errors of Arrow and of the system as errors of the file, with a hint."""
        try:
            yield
        except StreamError as error:
            if error.column is None or error.hint:
                raise
            hint = f"leave the column out with {argument('drop', error.column)}"
            if error.column in self.targets:
                hint = f"give {argument('task')}"
            elif error.column == self.weight:
                hint = f"leave {argument('weight')} out"
            elif error.column == self.time and self.time not in self.columns:
                hint = f"leave {argument('time')} out"
            raise error.changed(hint=f"correct it, or {hint}") from None
        except UnicodeDecodeError:
            raise not_text(self._name) from None
        except (pa.ArrowException, OSError) as error:
            text = str(error).strip().splitlines()[0]
            raise StreamError(f"{self._name} cannot be read: {text}") from None


def _first_fatal(problems: dict[int, Problem]) -> int | None:
    """Return the first row that cannot be used and is not simply left out."""
    return min((row for row, one in problems.items() if not one.left_out), default=None)


def _count(
    counts: dict[str, dict[str, Any]], name: str, marked: NDArray[np.bool_], values: Any, start: int
) -> None:
    """Add marked rows of a column to the counts, with the number and value of the first."""
    rows = np.flatnonzero(marked)
    if len(rows):
        value = values[int(rows[0])].as_py()
        count(counts, name, start + int(rows[0]), value, len(rows))
