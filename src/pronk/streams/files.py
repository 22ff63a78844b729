"""Blocks of rows from files of many kinds, in bounded memory.

A source reads Arrow record batches from one kind of file; `FileStream` picks the columns, turns
them into numbers and cuts them into blocks of equal length, counted from the start of the file,
so that a run which goes on at a block's start sees the same blocks as one that never stopped.

Rows are counted from 0 at the first row of data, as everywhere in pronk.

A category (text, or anything else named so) becomes a number that only stands for it: 52 bits of a
hash of its text. `pronk.streams.Scaled` makes columns of it.
"""

from __future__ import annotations

import difflib
import hashlib
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pronk.estimators.inputs import LARGEST
from pronk.streams.errors import StreamError
from pronk.streams.sources import open_source

Array = NDArray[np.float64]
Block = tuple[Array, NDArray[Any]]

#: Rows of a block, unless it would be larger than `_BLOCK_BYTES`.
BLOCK_ROWS = 4096
_BLOCK_BYTES = 1 << 25

#: A target of whole numbers with at most this many distinct values is taken for classes.
FEW = 20
#: Text with more distinct values than this is taken for a name, not for a class.
MANY = 100

TASKS = ("auto", "regression", "classification")
MISSING = ("error", "mean")


class FileStream:
    """A file as blocks (X, y): X float64 and C-contiguous, y numbers or labels.

    Each iteration reads the file anew. What cannot be used gives a `StreamError`; rows before a
    bad value come first, as a shorter block.

    Parameters
    ----------
    path : file name
        CSV (``.csv``, ``.tsv``), NDJSON (``.ndjson``, ``.jsonl``) or LIBSVM text (``.libsvm``,
        ``.svm``), also compressed (``.gz``, ``.bz2``, ``.zst``, ``.lz4``); ``.parquet``; Arrow
        (``.arrow``, ``.feather``). "-" is standard input, CSV or NDJSON. A directory, or a pattern
        with ``*``, is its files in the order of their names. With ``query`` a database.
    target : str, optional
        The column to predict; "label" for LIBSVM. Without it all rows have no label.
    columns : sequence of str, optional
        The columns of X, in this order; all if not given.
    drop : sequence of str
        Columns to leave out. All others must be numbers or booleans.
    categorical : sequence of str
        Columns that hold categories; their numbers in X only stand for them.
    missing : "error" or "mean"
        What a missing value in X is: an error, or NaN for the model to fill in.
    unlabelled : bool, default False
        Let rows without a label come, with NaN (numbers) or None (labels) in y: the evaluation
        predicts them and learns nothing from them. Otherwise they are an error.
    task : "auto", "regression" or "classification"
        Whether y is numbers or labels. "auto" looks at the first block: text, booleans, whole
        numbers with at most 20 distinct values and 0/1 or -1/1 are labels.
    rows : int, optional
        Rows of a block; 4096, fewer if the rows are very wide.
    limit : int, optional
        Stop after so many rows.
    delimiter : str, optional
        Of a CSV file; a comma, or a tab for ``.tsv``.
    query : str, optional
        SQL; ``path`` is then a DuckDB file, ":memory:" or "adbc:DRIVER:URI".

    Attributes
    ----------
    columns : list of str
        The names of X's columns.
    target : str or None
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
        columns: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        categorical: Sequence[str] = (),
        missing: str = "error",
        unlabelled: bool = False,
        task: str = "auto",
        rows: int | None = None,
        limit: int | None = None,
        delimiter: str | None = None,
        query: str | None = None,
    ) -> None:
        if task not in TASKS:
            raise StreamError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
        if missing not in MISSING:
            raise StreamError(f"missing must be one of {', '.join(MISSING)}; got {missing!r}")
        self.path = Path(path)
        self.limit = limit
        self.missing = missing
        self.unlabelled = unlabelled or target is None
        self._source = open_source(path, delimiter, query)
        if columns is not None:
            self._source.widen(columns)
        with self._reading():
            self._schema = self._source.schema()
        self.target = target if target is not None else self._source.label
        self.columns = self._choose_columns(columns, drop, categorical)
        self.categorical = [name for name in self.columns if name in set(categorical)]
        if not self.columns:
            raise StreamError(f"{self._name} has no column left beside the target {target!r}")
        self._head = self._start()
        self._check_numeric(self._head)
        self.task, self.reason = self._choose_task(task)
        self.rows = rows or max(64, min(BLOCK_ROWS, _BLOCK_BYTES // (8 * len(self.columns))))

    # -- looking at the start --------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return "standard input" if str(self.path) == "-" else str(self.path)

    def _choose_columns(
        self, columns: Sequence[str] | None, drop: Sequence[str], categorical: Sequence[str]
    ) -> list[str]:
        names = self._schema.names
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise StreamError(f"{self._name} has two columns named {twice[0]!r}; rename one")
        asked = [
            ("target", [self.target] if self.target is not None else []),
            ("columns", columns or ()),
            ("drop", drop),
            ("categorical", categorical),
        ]
        for option, several in asked:
            for name in several:
                if name not in names:
                    raise StreamError(
                        f"--{option}: {self._name} has no column {name!r}{self._name_hint(name)}"
                    )
                if name == self.target and option != "target":
                    raise StreamError(f"--{option}: {name!r} is the target")
        chosen = list(dict.fromkeys(columns)) if columns is not None else names
        left = {self.target, *drop}
        return [name for name in chosen if name not in left]

    def _name_hint(self, name: str) -> str:
        names = self._schema.names
        if len(names) == 1 and self._source.untyped:
            for character, spelling in ((";", "';'"), ("\t", "tab"), ("|", "'|'")):
                if character in names[0]:
                    return f"; its columns seem to be separated by {spelling}: give --delimiter"
        near = difflib.get_close_matches(name, names, n=1)
        if near:
            return f"; did you mean {near[0]!r}?"
        shown = ", ".join(names[:8]) + (", .." if len(names) > 8 else "")
        return f"; it has {shown}"

    def _start(self) -> pa.RecordBatch:
        """The first rows, in the file's own types."""
        types = {name: self._schema.field(name).type for name in self._needed()}
        with self._reading():
            for batch in self._source.batches(types):
                if batch.num_rows:
                    return batch.slice(0, BLOCK_ROWS)
        raise StreamError(f"{self._name} has no rows of data")

    def _needed(self) -> list[str]:
        return [*self.columns, *([self.target] if self.target is not None else [])]

    def _check_numeric(self, start: pa.RecordBatch) -> None:
        numbers = [name for name in self.columns if name not in self.categorical]
        bad = [name for name in numbers if not _is_number(self._schema.field(name).type)]
        if not bad:
            return
        names = ", ".join(repr(name) for name in bad)
        drops = " ".join(f"--drop {_quoted(name)}" for name in bad)
        drops += ", or take it as categories with --categorical"
        what = _kind(self._schema.field(bad[0]).type)
        values = [v for v in start.column(bad[0]).to_pylist() if not _reads_as_number(v)]
        such = f", such as {str(values[0])[:40]!r}" if values else ""
        if len(bad) == 1:
            text = f"column {names} is not numeric ({what}{such}); leave it out with {drops}"
        else:
            text = f"columns {names} are not numeric; leave them out with {drops}"
        raise StreamError(f"{self._name}: {text}")

    def _choose_task(self, task: str) -> tuple[str, str]:
        if self.target is None:
            return ("regression" if task == "auto" else task), "no target"
        values = self._head.column(self.target)
        kind = self._schema.field(self.target).type
        text = _is_text(kind)
        if not (text or _is_number(kind)):
            raise StreamError(
                f"--target: column {self.target!r} of {self._name} is {_kind(kind)}; it must hold "
                "numbers, booleans or text"
            )
        if task == "regression" and text:
            value = next((v for v in values.to_pylist() if not _reads_as_number(v)), "text")
            raise StreamError(
                f"--target: column {self.target!r} of {self._name} is text, such as "
                f"{str(value)[:40]!r}; regression needs numbers: use --task classification"
            )
        if task != "auto":
            return task, "as given"
        distinct = len(values.drop_null().unique())
        if text and distinct > MANY:
            raise StreamError(
                f"--target: column {self.target!r} of {self._name} is text with {distinct} "
                f"distinct values in {len(values)} rows, too many for classes; if it is right, "
                "give --task classification"
            )
        if text or pa.types.is_boolean(kind):
            return "classification", _kind(kind)
        if pa.types.is_integer(kind) and distinct <= min(FEW, max(2, len(values) // 5)):
            return "classification", f"{distinct} distinct whole numbers"
        if distinct == 2 and set(values.drop_null().unique().to_pylist()) in ({0, 1}, {-1, 1}):
            return "classification", "two distinct values"
        return "regression", f"{distinct} distinct numbers"

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
        """The blocks after the first ``skip`` rows, which are a whole number of blocks."""
        read = skip
        for batch in self._batches(skip):
            X, y = self._features(batch), self._targets(batch)
            good, problem = self._check(X, y, read)
            if good:
                yield X[:good], y[:good]
            if problem:
                raise StreamError(problem)
            read += batch.num_rows

    def head(self, rows: int = 64) -> Block:
        """The first rows as far as they are good, without reading again; perhaps none."""
        batch = _as_types(self._head.slice(0, rows), self._types())
        X, y = self._features(batch), self._targets(batch)
        good, _ = self._check(X, y, 0)
        return X[:good], y[:good]

    @property
    def target_type(self) -> pa.DataType:
        """The Arrow type of a file that holds targets or predictions."""
        if self.target is None or self.task == "regression":
            return pa.float64()
        kind = self._schema.field(self.target).type
        if _is_text(kind):
            return pa.string()
        return pa.int64() if pa.types.is_integer(kind) else kind

    def _types(self) -> dict[str, pa.DataType]:
        return {name: self._read_as(name) for name in self._needed()}

    def _batches(self, skip: int) -> Iterator[pa.RecordBatch]:
        """The needed columns in pieces of ``rows`` rows counted from the start, up to the limit."""
        held: list[pa.RecordBatch] = []
        rows, left = 0, max(0, self.limit - skip) if self.limit is not None else float("inf")
        types = self._types()
        with self._reading():
            for batch in self._source.batches(types, skip):
                batch = _as_types(batch, types)
                while batch.num_rows and left:
                    piece = batch.slice(0, int(min(self.rows - rows, left)))
                    batch = batch.slice(piece.num_rows)
                    held.append(piece)
                    rows += piece.num_rows
                    left -= piece.num_rows
                    if rows == self.rows:
                        yield pa.concat_batches(held)
                        held, rows = [], 0
                if not left:
                    break
        if held:
            yield pa.concat_batches(held)

    def _read_as(self, name: str) -> pa.DataType:
        """The type to parse a column as: a CSV column that starts with 1, 2 may go on with 2.5."""
        kind = self._schema.field(name).type
        if name in self.categorical and self._source.untyped:
            return pa.string()
        label = name == self.target and self.task == "classification"
        whole = pa.types.is_integer(kind) and not label
        return pa.float64() if whole or pa.types.is_null(kind) else kind

    def _features(self, batch: pa.RecordBatch) -> Array:
        X = np.empty((batch.num_rows, len(self.columns)))
        for j, name in enumerate(self.columns):
            values = batch.column(name)
            X[:, j] = _codes(values) if name in self.categorical else _numbers(values)
        return X

    def _targets(self, batch: pa.RecordBatch) -> NDArray[Any]:
        if self.target is None:
            return np.full(batch.num_rows, np.nan)
        values = batch.column(self.target)
        if self.task == "regression":
            return _numbers(values)
        y = _labels(values)
        missing = values.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        if missing.any():
            y = y.astype(object)
            y[missing] = None
        return y

    def _check(self, X: Array, y: NDArray[Any], read: int) -> tuple[int, str]:
        """How many rows of a batch may be used, and what is wrong with the next one."""
        problems: list[tuple[int, str]] = []
        if not np.abs(X).max(initial=0.0) <= LARGEST:
            wrong = ~(np.abs(X) <= LARGEST)
            if self.missing == "mean":
                wrong &= ~np.isnan(X)
            if wrong.any():
                row, column = (int(i) for i in np.argwhere(wrong)[0])
                what = _wrong(X[row, column])
                problems.append((row, f"column {self.columns[column]!r} {what}"))
        known = ~np.isnan(y) if y.dtype.kind == "f" else None
        if known is not None and (bad := known & ~(np.abs(y) <= LARGEST)).any():
            row = int(bad.argmax())
            problems.append((row, f"the target {self.target!r} {_wrong(y[row])}"))
        elif self.task == "classification" and y.dtype.kind in "fO":
            problems += self._fractions(y)
        if not self.unlabelled and (without := _is_missing(y)).any():
            problems.append((int(without.argmax()), f"the target {self.target!r} is missing"))
        if not problems:
            return len(y), ""
        row, what = min(problems)
        advice = "; --missing mean fills it in" if what.endswith("NaN") else ""
        return row, f"{self._name}: {what} at row {read + row} (counting from 0){advice}"

    def _fractions(self, y: NDArray[Any]) -> list[tuple[int, str]]:
        """The first label that is a number with a fraction."""
        for row, value in enumerate(y.tolist()):
            if isinstance(value, float) and value == value and value != round(value):
                what = f"is {value:g}, which is no label: use --task regression"
                return [(row, f"the target {self.target!r} {what}")]
        return []

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Errors of Arrow and of the system as errors of the file."""
        try:
            yield
        except StreamError as error:
            if error.column is None:
                raise
            advice = f"leave the column out with --drop {_quoted(error.column)}"
            if error.column == self.target:
                advice = "give --task"
            raise StreamError(f"{error}; correct it, or {advice}") from None
        except (pa.ArrowException, OSError) as error:
            text = str(error).strip().splitlines()[0]
            what = "is empty" if "Empty CSV file" in text else f"cannot be read: {text}"
            raise StreamError(f"{self._name} {what}") from None


# -- Arrow's types and values --------------------------------------------------------------------


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)  # a CSV column that starts empty
    )


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _kind(kind: pa.DataType) -> str:
    """A type in plain words."""
    if _is_text(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_temporal(kind):
        return "a date or time"
    return f"of type {kind}"


def _as_types(batch: pa.RecordBatch, types: dict[str, pa.DataType]) -> pa.RecordBatch:
    """A batch with the columns and types asked for, which sources of several files may lack."""
    if batch.schema.names == list(types) and batch.schema.types == list(types.values()):
        return batch
    columns = []
    for name, kind in types.items():
        if batch.schema.get_field_index(name) < 0:
            raise StreamError(f"a file has no column {name!r}, as the files before it")
        column = batch.column(name)
        if kind == pa.float64() and column.type != kind:
            column = column.cast(kind, safe=False)
        columns.append(column if column.type == kind else column.cast(kind))
    return pa.record_batch(columns, names=list(types))


def _codes(values: pa.Array) -> Array:
    """Categories as whole numbers below 2^52 that stand for their text; what is missing is NaN."""
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    words = values.dictionary.cast(pa.string()).to_pylist()
    codes = np.array([np.nan, *(np.nan if word is None else code(word) for word in words)])
    return codes[values.indices.fill_null(-1).to_numpy(zero_copy_only=False) + 1]


def code(category: str) -> float:
    """The number of a category, the same on every machine."""
    digest = hashlib.blake2b(category.encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "little") >> 12)


def _numbers(values: pa.Array) -> Array:
    """As float64; what is missing is NaN."""
    result: Array = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    return result


def _labels(values: pa.Array) -> NDArray[Any]:
    """Text, booleans or numbers; a missing label is some value of that type."""
    if _is_text(values.type):
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        words = np.array(["", *values.dictionary.to_pylist()], dtype=np.str_)
        return words[values.indices.fill_null(-1).to_numpy(zero_copy_only=False) + 1]
    if pa.types.is_boolean(values.type):
        return np.asarray(values.fill_null(False).to_numpy(zero_copy_only=False))
    if pa.types.is_integer(values.type):
        return np.asarray(values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False))
    return _numbers(values)


def _is_missing(y: NDArray[Any]) -> NDArray[np.bool_]:
    if y.dtype.kind == "f":
        return np.isnan(y)
    if y.dtype == object:
        return np.array([value is None for value in y.tolist()], dtype=bool)
    return np.zeros(len(y), dtype=bool)


def _reads_as_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return value is None
    return True


def _wrong(value: float) -> str:
    """What is wrong with a number, and what to do."""
    if np.isnan(value):
        return "is missing or NaN"
    return "is infinite" if np.isinf(value) else f"is {value:.3g}, too large to square: rescale it"


def _quoted(name: str) -> str:
    return shlex.quote(name)
