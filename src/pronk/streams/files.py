"""Blocks of rows from CSV and Parquet files, in bounded memory.

A source reads Arrow record batches from one kind of file; `FileStream` picks the columns, turns
them into numbers and cuts them into blocks of equal length, counted from the start of the file,
so that a run which goes on at a block's start sees the same blocks as one that never stopped.

Rows are counted from 0 at the first row of data, as everywhere in pronk.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from pronk.estimators.inputs import LARGEST
from pronk.streams.errors import StreamError

Array = NDArray[np.float64]
Block = tuple[Array, NDArray[Any]]

#: Rows of a block, unless it would be larger than `_BLOCK_BYTES`.
BLOCK_ROWS = 4096
_BLOCK_BYTES = 1 << 25

#: Read at once from a CSV file, whose types are inferred from the first piece; longest line.
_CSV_BYTES = 1 << 20
_LINE_BYTES = 1 << 26

#: A target of whole numbers with at most this many distinct values is taken for classes.
FEW = 20
#: Text with more distinct values than this is taken for a name, not for a class.
MANY = 100

TASKS = ("auto", "regression", "classification")
_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}


class Source(Protocol):
    """One kind of file."""

    def schema(self) -> pa.Schema:
        """Names and types of the columns; where the file has no types, those of its start."""
        ...

    def batches(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """The columns named in ``types``, read as those types."""
        ...

    def total(self) -> float | None:
        """Rows in the file, where it can be told: exactly, or estimated by what was read so far."""
        ...


class CSVSource:
    """A CSV file with a header line, plain or compressed; values hold no line breaks.

    The file is read in pieces that end at a line's end, and Arrow parses each: its own streaming
    reader runs far ahead of the rows that are used.
    """

    def __init__(self, path: Path, delimiter: str = ",") -> None:
        self.path = path
        self._parse = arrow_csv.ParseOptions(delimiter=delimiter)
        self._names: list[str] = []
        self._share = 0.0  # of the file's bytes that the delivered rows take
        self._rows = 0

    def schema(self) -> pa.Schema:
        pieces = self._pieces()
        self._names = self._read(next(pieces)).column_names
        for piece in pieces:
            return self._table(piece, None, 1).schema
        return pa.schema([(name, pa.null()) for name in self._names])

    def batches(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        self._rows, lines = 0, 0
        for piece in self._pieces():
            if lines:
                yield from self._table(piece, types, lines).to_batches()
            lines += piece.count(b"\n")

    def total(self) -> float | None:
        return self._rows / self._share if self._share else None

    def _pieces(self) -> Iterator[bytes]:
        """The header line, then some whole lines at a time."""
        with pa.OSFile(str(self.path)) as file, self._decompressed(file) as stream:
            size = file.size()
            rest, header = b"", True
            data = stream.read(_CSV_BYTES)
            while data:
                following = stream.read(_CSV_BYTES)
                rest = (rest + data).lstrip(b"\r\n") if header else rest + data
                if header and b"\n" in rest:
                    line, end, rest = rest.partition(b"\n")
                    yield line + end
                    header = False
                end = rest.rfind(b"\n") + 1 if following else len(rest)
                if end and not header:
                    self._share = max(1, file.tell() - len(following) * (file is stream)) / size
                    yield rest[:end]
                    rest = rest[end:]
                elif len(rest) > _LINE_BYTES:
                    raise StreamError(f"{self.path} has a line of more than {_LINE_BYTES} bytes")
                data = following
            if header:
                yield rest

    def _decompressed(self, file: Any) -> Any:
        codec = _COMPRESSED.get(self.path.suffix.lower())
        return file if codec is None else pa.CompressedInputStream(file, codec)

    def _table(self, piece: bytes, types: dict[str, pa.DataType] | None, lines: int) -> pa.Table:
        """Some lines as a table; an error names the row, or the line of the file."""
        try:
            table = self._read(piece, self._names, types)
        except pa.ArrowInvalid as error:
            raise self._explain(error, piece, lines) from None
        self._rows += len(table)
        return table

    def _read(
        self,
        piece: bytes,
        names: list[str] | None = None,
        types: dict[str, pa.DataType] | None = None,
    ) -> pa.Table:
        return arrow_csv.read_csv(
            pa.py_buffer(piece),
            read_options=arrow_csv.ReadOptions(
                block_size=len(piece) + 1, use_threads=False, column_names=names
            ),
            parse_options=self._parse,
            convert_options=arrow_csv.ConvertOptions(
                include_columns=list(types or ()), column_types=types, strings_can_be_null=True
            ),
        )

    def _explain(self, error: Exception, piece: bytes, lines: int) -> StreamError:
        text = str(error).strip().splitlines()[0]
        found = re.search(r"In CSV column #(\d+): .* to (\w+): invalid value '(.*)'", text)
        if found:
            name, kind, value = self._names[int(found[1])], found[2], found[3]
            column = self._read(piece, self._names, {name: pa.string()}).column(0)
            row = self._rows + int((column.to_numpy() == value).argmax())
            return StreamError(
                f"{self.path}: column {name!r} has {value[:40]!r} at row {row} (counting from 0), "
                f"which does not read as {kind} like the rows before",
                name,
            )
        found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text)
        if found:
            line = lines + int(found[1])
            what = f"{found[3]} values instead of {found[2]} in line {line}"
            return StreamError(f"{self.path} has {what}")
        return StreamError(f"{self.path} cannot be read: {text}")


class ParquetSource:
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def schema(self) -> pa.Schema:
        with parquet.ParquetFile(self.path) as file:
            return file.schema_arrow

    def batches(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        # A buffer makes column chunks stream; without it a row group is read whole.
        with parquet.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
            yield from file.iter_batches(
                batch_size=BLOCK_ROWS, columns=list(types), use_threads=False
            )

    def total(self) -> float | None:
        return float(parquet.read_metadata(self.path).num_rows)


def open_source(path: str | Path, delimiter: str | None = None) -> Source:
    """The source for a file, by the ending of its name."""
    path = Path(path)
    if not path.exists():
        near = difflib.get_close_matches(path.name, _siblings(path), n=1, cutoff=0.75)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise StreamError(f"file {str(path)!r} does not exist{hint}")
    if path.is_dir():
        raise StreamError(f"{str(path)!r} is a directory; give a CSV or Parquet file")
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    if name.endswith((".csv", ".tsv", ".txt")):
        return CSVSource(path, delimiter or ("\t" if name.endswith(".tsv") else ","))
    if path.suffix.lower() in (".parquet", ".pq"):
        return ParquetSource(path)
    raise StreamError(
        f"file {str(path)!r} is of no known kind; its name must end in .csv, .csv.gz, .tsv, "
        ".parquet or .pq"
    )


def _siblings(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


class FileStream:
    """A file as blocks (X, y): X float64 and C-contiguous, y numbers or labels.

    Each iteration reads the file anew. What cannot be used gives a `StreamError`; rows before a
    missing value come first, as a shorter block.

    Parameters
    ----------
    path : file name
        ``.csv`` (also compressed: ``.gz``, ``.bz2``, ``.zst``), ``.tsv``, ``.parquet``, ``.pq``.
    target : str
        The column to predict.
    drop : sequence of str
        Columns to leave out. All others must be numbers or booleans.
    task : "auto", "regression" or "classification"
        Whether y is numbers or labels. "auto" looks at the first block: text, booleans, whole
        numbers with at most 20 distinct values and 0/1 or -1/1 are labels.
    rows : int, optional
        Rows of a block; 4096, fewer if the rows are very wide.
    limit : int, optional
        Stop after so many rows.
    delimiter : str, optional
        Of a CSV file; a comma, or a tab for ``.tsv``.

    Attributes
    ----------
    columns : list of str
        The names of X's columns.
    task : str
        "regression" or "classification".
    reason : str
        Why that task, if it was guessed.
    """

    def __init__(
        self,
        path: str | Path,
        target: str,
        *,
        drop: Sequence[str] = (),
        task: str = "auto",
        rows: int | None = None,
        limit: int | None = None,
        delimiter: str | None = None,
    ) -> None:
        if task not in TASKS:
            raise StreamError(f"task must be one of {', '.join(TASKS)}; got {task!r}")
        self.path = Path(path)
        self.target = target
        self.limit = limit
        self._source = open_source(path, delimiter)
        with self._reading():
            self._schema = self._source.schema()
        self._check_names(drop)
        self.columns = [name for name in self._schema.names if name not in {target, *drop}]
        if not self.columns:
            raise StreamError(f"{self._name} has no column left beside the target {target!r}")
        start = self._start()
        self._check_numeric(start)
        self.task, self.reason = self._choose_task(task, start.column(target))
        self.rows = rows or max(64, min(BLOCK_ROWS, _BLOCK_BYTES // (8 * len(self.columns))))

    # -- looking at the start --------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return str(self.path)

    def _check_names(self, drop: Sequence[str]) -> None:
        names = self._schema.names
        twice = [name for i, name in enumerate(names) if name in names[:i]]
        if twice:
            raise StreamError(f"{self._name} has two columns named {twice[0]!r}; rename one")
        for option, name in [("target", self.target), *(("drop", name) for name in drop)]:
            if name not in names:
                raise StreamError(
                    f"--{option}: {self._name} has no column {name!r}{self._name_hint(name)}"
                )
        if self.target in drop:
            raise StreamError(f"--drop: {self.target!r} is the target")

    def _name_hint(self, name: str) -> str:
        names = self._schema.names
        if len(names) == 1 and isinstance(self._source, CSVSource):
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
        names = [self.target, *self.columns]
        types = {name: self._schema.field(name).type for name in names}
        with self._reading():
            for batch in self._source.batches(types):
                if batch.num_rows:
                    return batch.slice(0, BLOCK_ROWS)
        raise StreamError(f"{self._name} has no rows of data")

    def _check_numeric(self, start: pa.RecordBatch) -> None:
        bad = [name for name in self.columns if not _is_number(self._schema.field(name).type)]
        if not bad:
            return
        names = ", ".join(repr(name) for name in bad)
        drops = " ".join(f"--drop {_quoted(name)}" for name in bad)
        what = _kind(self._schema.field(bad[0]).type)
        values = [v for v in start.column(bad[0]).to_pylist() if not _reads_as_number(v)]
        such = f", such as {str(values[0])[:40]!r}" if values else ""
        if len(bad) == 1:
            text = f"column {names} is not numeric ({what}{such}); leave it out with {drops}"
        else:
            text = f"columns {names} are not numeric; leave them out with {drops}"
        raise StreamError(f"{self._name}: {text}")

    def _choose_task(self, task: str, values: pa.Array) -> tuple[str, str]:
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
        read = 0
        for batch in self._batches():
            X = self._features(batch)
            values = batch.column(self.target)
            y = _numbers(values) if self.task == "regression" else _labels(values)
            good, problem = self._check(batch, X, y, read)
            if good:
                yield X[:good], y[:good]
            if problem:
                raise StreamError(problem)
            read += batch.num_rows

    def _batches(self) -> Iterator[pa.RecordBatch]:
        """The needed columns in pieces of ``rows`` rows counted from the start, up to the limit."""
        held: list[pa.RecordBatch] = []
        rows, left = 0, self.limit if self.limit is not None else float("inf")
        types = {name: self._read_as(name) for name in [*self.columns, self.target]}
        with self._reading():
            for batch in self._source.batches(types):
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
        label = name == self.target and self.task == "classification"
        whole = pa.types.is_integer(kind) and not label
        return pa.float64() if whole or pa.types.is_null(kind) else kind

    def _features(self, batch: pa.RecordBatch) -> Array:
        X = np.empty((batch.num_rows, len(self.columns)))
        for j, name in enumerate(self.columns):
            X[:, j] = _numbers(batch.column(name))
        return X

    def _check(
        self, batch: pa.RecordBatch, X: Array, y: NDArray[Any], read: int
    ) -> tuple[int, str]:
        """How many rows of a batch may be used, and what is wrong with the next one."""
        problems: list[tuple[int, str]] = []
        if not np.abs(X).max() <= LARGEST:
            row, column = (int(i) for i in np.argwhere(~(np.abs(X) <= LARGEST))[0])
            problems.append((row, f"column {self.columns[column]!r} {_wrong(X[row, column])}"))
        target = f"the target {self.target!r}"
        missing = batch.column(self.target).is_null().to_numpy(zero_copy_only=False)
        if missing.any():
            problems.append((int(missing.argmax()), f"{target} is missing"))
        elif y.dtype.kind == "f" and not np.abs(y).max() <= LARGEST:
            row = int(np.argmin(np.abs(y) <= LARGEST))
            problems.append((row, f"{target} {_wrong(y[row])}"))
        elif y.dtype.kind == "f" and self.task == "classification" and (y != np.rint(y)).any():
            row = int(np.argmax(y != np.rint(y)))
            what = f"{target} is {y[row]:g}, which is no label: use --task regression"
            problems.append((row, what))
        if not problems:
            return len(y), ""
        row, what = min(problems)
        return row, f"{self._name}: {what} at row {read + row} (counting from 0)"

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
