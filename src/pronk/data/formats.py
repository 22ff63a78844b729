"""Read Parquet, Arrow, NDJSON and LIBSVM files, and the rows of SQL queries."""

from __future__ import annotations

import importlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.json as arrow_json
import pyarrow.parquet as parquet

from pronk.columns.spelling import loosely
from pronk.columns.values import is_missing_word
from pronk.data.errors import StreamError, argument
from pronk.data.source import (
    BAD,
    BATCH_ROWS,
    FileSource,
    Remote,
    Text,
    TextFile,
    TextSource,
    as_types,
    count,
    opened,
    own_types,
    without,
)


class ParquetSource(FileSource):
    """Read a Parquet file."""

    def __init__(self, path: Path | Remote) -> None:
        self.path = path

    def schema(self) -> pa.Schema:
        with self._open() as file:
            return file.schema_arrow

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        # With a buffer, column chunks are streamed; without it a row group is read whole.
        with self._open(buffer_size=1 << 20, pre_buffer=False) as file:
            groups = list(range(file.num_row_groups))
            while groups and skip >= (rows := file.metadata.row_group(groups[0]).num_rows):
                skip -= rows
                del groups[0]
            if not groups:
                return
            batches = file.iter_batches(
                batch_size=BATCH_ROWS,
                row_groups=groups,
                columns=list(own_types(types)),
                use_threads=False,
            )
            yield from without(batches, skip)

    def total(self) -> float | None:
        with self._open() as file:
            return float(file.metadata.num_rows)

    def _open(self, **options: Any) -> parquet.ParquetFile:
        source = self.path.open() if isinstance(self.path, Remote) else self.path
        return parquet.ParquetFile(source, **options)


def without_views(kind: pa.DataType) -> pa.DataType:
    """Return the type with text instead of views of text, which polars writes."""
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, without_views(kind.value_type), kind.ordered)
    return pa.string() if pa.types.is_string_view(kind) else kind


class ArrowSource(FileSource):
    """Read an Arrow IPC file or stream (also Feather), mapped into memory."""

    def __init__(self, path: Path | Remote) -> None:
        self.path = path

    def schema(self) -> pa.Schema:
        with self._open() as reader:
            return pa.schema([f.with_type(without_views(f.type)) for f in reader.schema])

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        with self._open() as reader:
            whole = reader
            if hasattr(reader, "num_record_batches"):
                whole = (reader.get_batch(i) for i in range(reader.num_record_batches))
            wanted = own_types(types)
            own = {f.name: without_views(f.type) for f in reader.schema if f.name in wanted}
            yield from (as_types(batch, own) for batch in whole)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        remote = isinstance(self.path, Remote)
        with opened(self.path) if remote else pa.memory_map(str(self.path)) as file:
            try:
                reader = ipc.open_file(file)
            except pa.ArrowInvalid:
                file.seek(0)
                reader = ipc.open_stream(file)
            with reader:
                yield reader


#: Most lists and objects around a value of NDJSON; a column needs none.
MOST_NESTED = 64
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')


class NDJSONSource(TextSource):
    """Read one JSON object per line, plain or compressed; an absent key is a missing value.

    If it is read loosely, a value of another type than the column is read by its text, and is
    missing if that does not read as the type.
    """

    times_in_text = True

    def __init__(self, file: Text | JSONArray, loose: bool = False) -> None:
        super().__init__(file)  # type: ignore[arg-type]
        self._loose = loose
        self._unread: dict[str, dict[str, Any]] = {}

    def unread_words(self) -> dict[str, dict[str, Any]]:
        return self._unread

    def schema(self) -> pa.Schema:
        for piece in self.file.pieces():
            if piece.strip():
                return self._schema_of(piece)
        raise StreamError(f"{self.file} is empty")

    def _schema_of(self, piece: bytes) -> pa.Schema:
        """Infer the schema of a piece; if its rows do not agree, from those of the usual kinds."""
        try:
            return self._read(piece, None).schema
        except StreamError:
            good = b"\n".join(_agreeing(piece.splitlines()))
            if not good:
                raise
            return self._read(good, None).schema

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        self._rows, self._unread = 0, {}
        own = own_types(types)
        schema = pa.schema(list(own.items()))
        for piece in self.file.pieces():
            if piece.strip():
                try:
                    table = self._read(piece, schema).select(list(own))
                except StreamError:
                    slowly = self._line_by_line if BAD in types else self._loosely
                    table = slowly(piece, schema)
                    if table is None:
                        raise
                self._rows += len(table)
                yield from table.to_batches()

    def _loosely(self, piece: bytes, schema: pa.Schema) -> pa.Table | None:
        """Read rows whose values are of several types; None if that is not wanted or possible."""
        if not self._loose or _deep_row(piece) is not None:
            return None
        try:
            rows = [json.loads(line) for line in piece.splitlines() if line.strip()]
        except (ValueError, RecursionError):
            return None
        if not all(isinstance(row, dict) for row in rows):
            return None
        columns = []
        for field in schema:
            values = [row.get(field.name) for row in rows]
            read = [as_type(value, field.type) for value in values]
            columns.append(pa.array(read, field.type))
            for i, (value, found) in enumerate(zip(values, read, strict=True)):
                if found is None and not is_missing_word(value):
                    count(self._unread, field.name, self._rows + i, str(value))
        return pa.table(columns, schema=schema)

    def _line_by_line(self, piece: bytes, schema: pa.Schema) -> pa.Table | None:
        """Read a piece that contains bad rows, which have no values but a reason."""
        tables = []
        for line in piece.splitlines():
            if not line.strip():
                continue
            try:
                row, reason = self._read(line, schema).select(schema.names), None
            except StreamError:
                row = pa.table([pa.nulls(1, field.type) for field in schema], schema=schema)
                reason = f"cannot be read: {line[:200].decode('utf-8', 'replace')}"
            tables.append(row.append_column(BAD, pa.array([reason], pa.string())))
        return pa.concat_tables(tables)

    def _read(self, piece: bytes, schema: pa.Schema | None) -> pa.Table:
        row = _deep_row(piece)
        if row is not None:  # Arrow would overflow the stack
            raise StreamError(
                f"{self.file} cannot be read: row {self._rows + row} (counting from 0) nests more "
                f"than {MOST_NESTED} lists and objects; give one flat object per line"
            )
        try:
            return arrow_json.read_json(
                pa.py_buffer(piece),
                read_options=arrow_json.ReadOptions(block_size=len(piece) + 1, use_threads=False),
                parse_options=arrow_json.ParseOptions(
                    explicit_schema=schema,
                    unexpected_field_behavior="infer" if schema is None else "ignore",
                ),
            )
        except pa.ArrowInvalid as error:
            text = str(error).strip().splitlines()[0]
            # Arrow counts rows from the start of the piece.
            found = re.search(r" in row (\d+)", text)
            if found:
                row = self._rows + int(found[1])
                text = text.replace(found[0], f" at row {row} (counting from 0)")
            raise StreamError(f"{self.file} cannot be read: {text}") from None


def _deep_row(piece: bytes) -> int | None:
    """Return the first row that nests too many lists and objects; None: no row does."""
    if piece.count(b"[") + piece.count(b"{") - piece.count(b"\n{") <= MOST_NESTED:
        return None  # beyond the first brace of each line there are too few
    lines = (line for line in piece.splitlines() if line.strip())
    for row, line in enumerate(lines):
        if line.count(b"[") + line.count(b"{") > MOST_NESTED:
            codes = np.frombuffer(_STRING.sub(b"", line), dtype=np.uint8)
            steps = np.isin(codes, list(b"[{")).astype(np.int64) - np.isin(codes, list(b"]}"))
            if np.cumsum(steps).max(initial=0) > MOST_NESTED:
                return row
    return None


def as_type(value: Any, type_: pa.DataType) -> Any:
    """Return a value of JSON as one of a type, read from its text if need be; None if it cannot."""
    if value is None:
        return None
    if pa.types.is_string(type_) and not isinstance(value, dict | list):
        return value if isinstance(value, str) else json.dumps(value)
    if pa.types.is_floating(type_) and isinstance(value, str):
        try:
            return loosely(value)
        except ValueError:
            return None
    if pa.types.is_boolean(type_) and isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    if pa.types.is_struct(type_):
        fields = [type_.field(i) for i in range(type_.num_fields)]
        known = value if isinstance(value, dict) else {}
        return {field.name: as_type(known.get(field.name), field.type) for field in fields}
    try:
        return pa.scalar(value, type_).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


class JSONArray:
    """Read a file that holds one JSON array of objects, as lines of JSON; all of it at once."""

    cleaner = None

    def __init__(self, file: TextFile) -> None:
        self._file = file
        self.share: float | None = None

    def __str__(self) -> str:
        return str(self._file)

    def pieces(self, ending: Any = None) -> Iterator[bytes]:
        text, size = [], 0
        for piece in self._file.pieces(lambda text, last: len(text)):
            text.append(piece)
            size += len(piece)
            if size > _ARRAY_BYTES:
                raise StreamError(
                    f"{self._file} is a JSON array of more than {_ARRAY_BYTES >> 20} MB; convert "
                    "it to one object per line, a file that ends in .ndjson"
                )
        try:
            rows = json.loads(b"".join(text))
        except (ValueError, RecursionError) as error:
            what = str(error).splitlines()[0]
            raise StreamError(f"{self._file} cannot be read: {what}") from None
        self.share = 1.0
        for first in range(0, len(rows), BATCH_ROWS):
            yield b"".join(json.dumps(row).encode() + b"\n" for row in rows[first:][:BATCH_ROWS])


def _agreeing(lines: list[bytes]) -> list[bytes]:
    """Return the lines that are objects whose values have the usual kinds, column by column."""
    rows: list[tuple[bytes, dict[str, str]]] = []
    counts: dict[str, Counter[str]] = {}
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            kinds = {name: _json_type(value) for name, value in row.items() if value is not None}
            rows.append((line, kinds))
            for name, kind in kinds.items():
                counts.setdefault(name, Counter())[kind] += 1
    usual = {name: found.most_common(1)[0][0] for name, found in counts.items()}
    return [line for line, kinds in rows if kinds.items() <= usual.items()]


def _json_type(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


#: Most bytes of a file that is one JSON array.
_ARRAY_BYTES = 1 << 28
#: Bytes of a dense piece of LIBSVM rows.
_DENSE_BYTES = 1 << 25

#: Largest index of a LIBSVM row: a dense row has that many numbers, 8 MB.
MOST_INDEX = 1_000_000

#: The name of LIBSVM labels; the features are named "1", "2", ..
LABEL = "label"


class LIBSVMSource(TextSource):
    """Read lines "label index:value index:value ..", indices from 1 and ascending; the rest is 0.

    The number of columns is the largest index, which a first pass over the file finds. Rows become
    dense; one with an index above `MOST_INDEX` is refused.
    """

    label = LABEL

    def __init__(self, file: TextFile) -> None:
        super().__init__(file)
        self.columns = 0
        self._least = 0

    def widen(self, columns: Sequence[str]) -> None:
        self._least = max((int(name) for name in columns if name.isdigit()), default=0)

    def schema(self) -> pa.Schema:
        if not self.columns:
            found = max(map(_largest_index, self.file.pieces()), default=0)
            self.columns = max(found, self._least)
        if not self.columns:
            raise StreamError(
                f"{self.file} is empty, or it has no index:value with an index up to {MOST_INDEX:,}"
            )
        names = [LABEL, *(str(i) for i in range(1, self.columns + 1))]
        return pa.schema([(name, pa.float64()) for name in names])

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        names = self.schema().names
        own = own_types(types)
        places = [names.index(name) for name in own]
        rows = max(1, min(BATCH_ROWS, _DENSE_BYTES // (8 * len(names))))
        self._rows = 0
        for piece in self.file.pieces():
            lines = [line for line in piece.split(b"\n") if line.strip()]
            for start in range(0, len(lines), rows):
                some = lines[start : start + rows]
                dense, reasons = self._dense(some, len(names), BAD in types)
                self._rows += len(some)
                columns = [pa.array(dense[:, place].copy()) for place in places]
                batch = pa.record_batch(columns, names=list(own))
                yield batch if reasons is None else batch.append_column(BAD, reasons)

    def _dense(self, lines: list[bytes], width: int, lenient: bool) -> tuple[Any, Any]:
        """Return dense rows; if ``lenient`` and some are bad, those are 0, and the reasons."""
        try:
            return _parsed(lines, width), None
        except ValueError:
            dense, reasons = np.zeros((len(lines), width)), [""] * len(lines)
        for i, line in enumerate(lines):
            try:
                dense[i] = _parsed([line], width)[0]
            except ValueError:
                if not lenient:
                    text = line[:40].decode("utf-8", "replace")
                    raise StreamError(
                        f"{self.file}: row {self._rows + i} (counting from 0) is not of the form "
                        f"'label index:value ..' with indices up to {MOST_INDEX:,}: {text!r}"
                    ) from None
                reasons[i] = f"cannot be read: {line[:200].decode('utf-8', 'replace')}"
        return dense, pa.array([why or None for why in reasons], pa.string())


def _parsed(lines: list[bytes], width: int) -> Any:
    """Return labels and features as dense rows; raise ValueError for a bad row."""
    dense = np.zeros((len(lines), width))
    entries = np.array([line.count(b":") for line in lines])
    tokens = np.array(b"\n".join(lines).replace(b":", b" ").split(), dtype=np.float64)
    ends = np.cumsum(2 * entries + 1)
    if len(tokens) != ends[-1]:
        raise ValueError
    starts = ends - (2 * entries + 1)
    dense[:, 0] = tokens[starts]
    pairs = np.delete(tokens, starts).reshape(-1, 2)
    if not ((pairs[:, 0] >= 1.0) & (pairs[:, 0] < width)).all():  # also for NaN
        raise ValueError
    dense[np.repeat(np.arange(len(lines)), entries), pairs[:, 0].astype(np.int64)] = pairs[:, 1]
    return dense


def _largest_index(piece: bytes) -> int:
    """Return the largest index of some lines, by their last entries."""
    largest = 0
    for line in piece.split(b"\n"):
        index = line.rstrip().rpartition(b" ")[2].partition(b":")
        if index[1] and index[0].isdigit() and len(index[0]) < 20:
            found = int(index[0])
            largest = max(largest, found if found <= MOST_INDEX else 0)
    return largest


class SQLSource(FileSource):
    """Read the rows of a query, in the order of the query: give it an ORDER BY.

    ``database`` is a DuckDB file, ":memory:" (DuckDB reads files by itself: ``SELECT * FROM
    'data.parquet'``), or "adbc:DRIVER:URI" for any ADBC driver. The query runs again for each pass:
    twice before the first row, for names and types.
    """

    def __init__(self, database: str, query: str) -> None:
        self.database = database
        self.query = query

    def schema(self) -> pa.Schema:
        with self._reader() as reader:
            if not reader.schema.names:
                raise _no_rows()
            return reader.schema

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        with self._reader() as reader:
            yield from (batch.select(list(own_types(types))) for batch in reader)

    @contextmanager
    def _reader(self) -> Iterator[Any]:
        try:
            if self.database.startswith("adbc:"):
                with self._adbc() as connection, connection.cursor() as cursor:
                    cursor.execute(self.query)
                    yield cursor.fetch_record_batch()
                return
            with self._duckdb() as connection:
                result = connection.sql(self.query)
                if result is None:
                    raise _no_rows()
                make = getattr(result, "to_arrow_reader", None) or result.fetch_arrow_reader
                yield make(BATCH_ROWS)
        except (StreamError, GeneratorExit, pa.ArrowException):
            raise
        except Exception as error:
            module = type(error).__module__.partition(".")[0]
            if module not in ("duckdb", "_duckdb", "adbc_driver_manager"):
                raise
            text = str(error).strip().splitlines()[0]
            raise StreamError(text, argument="query") from None

    def _duckdb(self) -> Any:
        duckdb = _optional("duckdb")
        if self.database != ":memory:" and not Path(self.database).exists():
            raise StreamError(
                f"database {self.database!r} does not exist; ':memory:' needs no file"
            )
        # A query may use installed extensions but not install any: DuckDB would download and run
        # code because of the name of a file.
        try:
            return duckdb.connect(
                self.database,
                read_only=self.database != ":memory:",
                config={"autoinstall_known_extensions": False},
            )
        except duckdb.CatalogException:
            raise StreamError(
                f"{self.database!r} is not a DuckDB file; give ':memory:', and the file in the "
                f"query: .. FROM {self.database!r}"
            ) from None

    def _adbc(self) -> Any:
        driver, _, uri = self.database.removeprefix("adbc:").partition(":")
        if not driver:
            raise StreamError(f"{self.database!r} names no driver; it must be adbc:DRIVER:URI")
        dbapi = _optional("adbc_driver_manager.dbapi")
        if driver.startswith("adbc_driver_"):  # a Python package that contains its library
            driver = _optional(driver, driver.replace("_", "-"))._driver_path()
        return dbapi.connect(driver=driver, db_kwargs={"uri": uri} if uri else None)


def _no_rows() -> StreamError:
    return StreamError("the statement returns no rows", argument="query")


def _optional(name: str, brought_by: str = '".[sql]" in the clone') -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise StreamError(
            f"{argument('query')} needs the package {package}: pip install {brought_by}"
        ) from None
