"""Arrow record batches from one kind of file each, in bounded memory.

Text files are read in pieces that end at a line's end, and each piece is parsed by itself: a
streaming reader would run far ahead of the rows that are used.
"""

from __future__ import annotations

import difflib
import glob
import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.ipc as ipc
import pyarrow.json as arrow_json
import pyarrow.parquet as parquet

from pronk.streams.errors import StreamError

#: Read at once from a text file, whose types are inferred from the first piece; longest line.
_TEXT_BYTES = 1 << 20
_LINE_BYTES = 1 << 26

#: Rows of a batch that a source makes itself.
_BATCH_ROWS = 4096
#: Bytes of a dense piece of a LIBSVM file.
_DENSE_BYTES = 1 << 25
#: Bytes of standard input that are kept, so that its start can be looked at before it is read.
_KEPT_BYTES = 1 << 26

_COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
_CSV = (".csv", ".tsv", ".txt")
_NDJSON = (".ndjson", ".jsonl")
_LIBSVM = (".libsvm", ".svmlight", ".svm")
_ARROW = (".arrow", ".feather", ".ipc")
_PARQUET = (".parquet", ".pq")
KNOWN = (*_CSV, *_NDJSON, *_LIBSVM, *_ARROW, *_PARQUET)

#: The name of a LIBSVM file's labels; its features are named "1", "2", ..
LABEL = "label"


class Source(Protocol):
    """One kind of file."""

    @property
    def untyped(self) -> bool:
        """Whether values are text that reads as any type."""
        ...

    @property
    def label(self) -> str | None:
        """The column of the labels, where the kind of file says."""
        ...

    def schema(self) -> pa.Schema:
        """Names and types of the columns; where the file has no types, those of its start."""
        ...

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        """The columns named in ``types``, read as those types, without the first ``skip`` rows."""
        ...

    def total(self) -> float | None:
        """Rows in the file, where it can be told: exactly, or estimated by what was read so far."""
        ...

    def widen(self, columns: Sequence[str]) -> None:
        """These columns will be asked for: a sparse file has them though it may not show them."""
        ...


class _Dense:
    """Kinds of files that show all their columns."""

    untyped = False
    label: str | None = None

    def widen(self, columns: Sequence[str]) -> None:
        pass


def _without(batches: Iterator[pa.RecordBatch], skip: int) -> Iterator[pa.RecordBatch]:
    """Batches without their first rows."""
    for batch in batches:
        if skip < batch.num_rows:
            yield batch.slice(skip)
        skip = max(0, skip - batch.num_rows)


# -- text ----------------------------------------------------------------------------------------


class TextFile:
    """A text file, plain or compressed, in pieces of whole lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.share: float | None = None  # of the file's bytes that the pieces so far take

    def __str__(self) -> str:
        return str(self.path)

    def pieces(self) -> Iterator[bytes]:
        """Some whole lines at a time."""
        with pa.OSFile(str(self.path)) as file, self._decompressed(file) as stream:
            size = file.size()
            for piece, ahead in _cut_at_lines(stream, str(self)):
                self.share = max(1, file.tell() - ahead * (file is stream)) / max(1, size)
                yield piece

    def _decompressed(self, file: Any) -> Any:
        codec = _COMPRESSED.get(self.path.suffix.lower())
        return file if codec is None else pa.CompressedInputStream(file, codec)


class StandardInput:
    """Standard input. Its start is kept, so that it can be looked at and then read."""

    def __init__(self) -> None:
        self.share: float | None = None
        self._kept = bytearray()
        self._dropped = False

    def __str__(self) -> str:
        return "standard input"

    def pieces(self) -> Iterator[bytes]:
        """Some whole lines at a time, from the start."""
        if self._dropped:
            raise StreamError("standard input can be read only once; write it to a file first")
        for piece, _ in _cut_at_lines(_Replayed(self), str(self)):
            yield piece

    def first_byte(self) -> bytes:
        """The first byte that is no space."""
        reader = _Replayed(self)
        while data := reader.read(1):
            if not data.isspace():
                return data
        return b""

    def fetch(self, place: int, size: int) -> bytes:
        """Bytes at a place: kept ones, then new ones, which are kept while there is room."""
        if not self._dropped and place < len(self._kept):
            return bytes(self._kept[place : place + size])
        data: bytes = sys.stdin.buffer.read(size)
        if not self._dropped:
            self._kept += data
            if len(self._kept) > _KEPT_BYTES:
                self._kept.clear()
                self._dropped = True
        return data


class _Replayed:
    """A reader from the start of standard input."""

    def __init__(self, source: StandardInput) -> None:
        self._source = source
        self._place = 0

    def read(self, size: int) -> bytes:
        data = self._source.fetch(self._place, size)
        self._place += len(data)
        return data


def _cut_at_lines(stream: Any, name: str) -> Iterator[tuple[bytes, int]]:
    """Pieces that end at a line's end, and how many bytes were read beyond the next ones."""
    rest = b""
    data = stream.read(_TEXT_BYTES)
    while data:
        following = stream.read(_TEXT_BYTES)
        rest += data
        end = rest.rfind(b"\n") + 1 if following else len(rest)
        if end:
            yield rest[:end], len(following)
            rest = rest[end:]
        elif len(rest) > _LINE_BYTES:
            raise StreamError(f"{name} has a line of more than {_LINE_BYTES} bytes")
        data = following


Text = TextFile | StandardInput


class _TextSource(_Dense):
    """What the kinds of text have in common."""

    def __init__(self, file: Text) -> None:
        self.file = file
        self._rows = 0

    def total(self) -> float | None:
        return self._rows / self.file.share if self.file.share else None


class CSVSource(_TextSource):
    """A CSV file with a header line, plain or compressed; values hold no line breaks."""

    untyped = True

    def __init__(self, file: Text, delimiter: str = ",") -> None:
        super().__init__(file)
        self._parse = arrow_csv.ParseOptions(delimiter=delimiter)
        self._names: list[str] = []

    def schema(self) -> pa.Schema:
        pieces = self._pieces()
        self._names = self._read(next(pieces)).column_names
        for piece in pieces:
            return self._table(piece, None, 1).schema
        return pa.schema([(name, pa.null()) for name in self._names])

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        return _without(self._all(types), skip)

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        self._rows, lines = 0, 0
        for piece in self._pieces():
            if lines:
                yield from self._table(piece, types, lines).to_batches()
            elif not self._names:  # a file of several, of which the first was looked at
                self._names = self._read(piece).column_names
                self._check_names(types)
            lines += piece.count(b"\n")

    def _check_names(self, types: dict[str, pa.DataType]) -> None:
        for name in types:
            if name not in self._names:
                raise StreamError(f"{self.file} has no column {name!r}, as the files before it")

    def _pieces(self) -> Iterator[bytes]:
        """The header line, then some whole lines at a time."""
        pieces = self.file.pieces()
        start = b""
        while not start:
            piece = next(pieces, None)
            if piece is None:
                break
            start = piece.lstrip(b"\r\n")
        line, end, rest = start.partition(b"\n")
        yield line + end
        if rest:
            yield rest
        yield from pieces

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
                f"{self.file}: column {name!r} has {value[:40]!r} at row {row} (counting from 0), "
                f"which does not read as {kind} like the rows before",
                name,
            )
        found = re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", text)
        if found:
            line = lines + int(found[1])
            what = f"{found[3]} values instead of {found[2]} in line {line}"
            return StreamError(f"{self.file} has {what}")
        return StreamError(f"{self.file} cannot be read: {text}")


class NDJSONSource(_TextSource):
    """A JSON object a line, plain or compressed; a key that a line has not is missing there."""

    def schema(self) -> pa.Schema:
        for piece in self.file.pieces():
            if piece.strip():
                return self._read(piece, None).schema
        raise StreamError(f"{self.file} is empty")

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        return _without(self._all(types), skip)

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        self._rows = 0
        for piece in self.file.pieces():
            if piece.strip():
                table = self._read(piece, pa.schema(list(types.items())))
                self._rows += len(table)
                yield from table.select(list(types)).to_batches()

    def _read(self, piece: bytes, schema: pa.Schema | None) -> pa.Table:
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


class LIBSVMSource(_TextSource):
    """Lines "label index:value index:value ..", indices from 1 and ascending; the rest is 0.

    The number of columns is the largest index, which a first walk through the file finds. Rows
    become dense.
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
            raise StreamError(f"{self.file} is empty, or it has no index:value")
        names = [LABEL, *(str(i) for i in range(1, self.columns + 1))]
        return pa.schema([(name, pa.float64()) for name in names])

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        return _without(self._all(types), skip)

    def _all(self, types: dict[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        names = self.schema().names
        places = [names.index(name) for name in types]
        rows = max(1, min(_BATCH_ROWS, _DENSE_BYTES // (8 * len(names))))
        self._rows = 0
        for piece in self.file.pieces():
            lines = [line for line in piece.split(b"\n") if line.strip()]
            for start in range(0, len(lines), rows):
                some = lines[start : start + rows]
                dense = self._dense(some, len(names))
                self._rows += len(some)
                yield pa.record_batch(
                    [pa.array(dense[:, place].copy()) for place in places], names=list(types)
                )

    def _dense(self, lines: list[bytes], width: int) -> Any:
        try:
            dense = np.zeros((len(lines), width))
            entries = np.array([line.count(b":") for line in lines])
            tokens = np.array(b"\n".join(lines).replace(b":", b" ").split(), dtype=np.float64)
            ends = np.cumsum(2 * entries + 1)
            if len(tokens) != ends[-1]:
                raise ValueError
            starts = ends - (2 * entries + 1)
            dense[:, 0] = tokens[starts]
            pairs = np.delete(tokens, starts).reshape(-1, 2)
            columns = pairs[:, 0].astype(np.int64)
            if len(pairs) and not (columns.min() >= 1 and columns.max() < width):
                raise ValueError
            dense[np.repeat(np.arange(len(lines)), entries), columns] = pairs[:, 1]
            return dense
        except ValueError:
            if len(lines) > 1:  # find the row
                for line in lines:
                    self._dense([line], width)
                    self._rows += 1
            text = lines[0][:40].decode("utf-8", "replace")
            raise StreamError(
                f"{self.file}: row {self._rows} (counting from 0) is not of the form "
                f"'label index:value ..': {text!r}"
            ) from None


def _largest_index(piece: bytes) -> int:
    """Of some lines, by their last entries."""
    largest = 0
    for line in piece.split(b"\n"):
        index = line.rstrip().rpartition(b" ")[2].partition(b":")
        if index[1] and index[0].isdigit():
            largest = max(largest, int(index[0]))
    return largest


# -- Arrow and Parquet ---------------------------------------------------------------------------


class ParquetSource(_Dense):
    """A Parquet file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def schema(self) -> pa.Schema:
        with parquet.ParquetFile(self.path) as file:
            return file.schema_arrow

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        # A buffer makes column chunks stream; without it a row group is read whole.
        with parquet.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file:
            groups = list(range(file.num_row_groups))
            while groups and skip >= (rows := file.metadata.row_group(groups[0]).num_rows):
                skip -= rows
                del groups[0]
            if not groups:
                return
            batches = file.iter_batches(
                batch_size=_BATCH_ROWS, row_groups=groups, columns=list(types), use_threads=False
            )
            yield from _without(batches, skip)

    def total(self) -> float | None:
        return float(parquet.read_metadata(self.path).num_rows)


class ArrowSource(_Dense):
    """An Arrow IPC file or stream (also Feather), mapped into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def schema(self) -> pa.Schema:
        with self._open() as reader:
            return reader.schema

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        with self._open() as reader:
            if hasattr(reader, "num_record_batches"):
                whole = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                whole = iter(reader)
            yield from _without((batch.select(list(types)) for batch in whole), skip)

    def total(self) -> float | None:
        return None

    @contextmanager
    def _open(self) -> Iterator[Any]:
        with pa.memory_map(str(self.path)) as file:
            try:
                reader = ipc.open_file(file)
            except pa.ArrowInvalid:
                file.seek(0)
                reader = ipc.open_stream(file)
            with reader:
                yield reader


# -- SQL -----------------------------------------------------------------------------------------


class SQLSource(_Dense):
    """The rows of a query, in the order of the query: give it an ORDER BY.

    ``database`` is a DuckDB file, ":memory:" (DuckDB reads files by itself: ``SELECT * FROM
    'data.parquet'``), or "adbc:DRIVER:URI" for any ADBC driver. The query runs anew for each walk:
    twice before the first row, to see names and types.
    """

    def __init__(self, database: str, query: str) -> None:
        self.database = database
        self.query = query

    def schema(self) -> pa.Schema:
        with self._reader() as reader:
            return reader.schema

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        with self._reader() as reader:
            yield from _without((batch.select(list(types)) for batch in reader), skip)

    def total(self) -> float | None:
        return None

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
                    raise StreamError("--query: the statement gives no rows")
                make = getattr(result, "to_arrow_reader", None) or result.fetch_arrow_reader
                yield make(_BATCH_ROWS)
        except (StreamError, GeneratorExit, pa.ArrowException):
            raise
        except Exception as error:
            module = type(error).__module__.partition(".")[0]
            if module not in ("duckdb", "_duckdb", "adbc_driver_manager"):
                raise
            text = str(error).strip().splitlines()[0]
            raise StreamError(f"--query: {text}") from None

    def _duckdb(self) -> Any:
        duckdb = _optional("duckdb")
        if self.database != ":memory:" and not Path(self.database).exists():
            raise StreamError(
                f"database {self.database!r} does not exist; ':memory:' needs no file"
            )
        return duckdb.connect(self.database, read_only=self.database != ":memory:")

    def _adbc(self) -> Any:
        driver, _, uri = self.database.removeprefix("adbc:").partition(":")
        dbapi = _optional("adbc_driver_manager.dbapi")
        if driver.startswith("adbc_driver_"):  # a Python package brings its library along
            driver = _optional(driver)._driver_path()
        return dbapi.connect(driver=driver, db_kwargs={"uri": uri} if uri else None)


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise StreamError(
            f"--query needs the package {name.partition('.')[0]}: pip install 'pronk[sql]'"
        ) from None


# -- several files -------------------------------------------------------------------------------


class FilesSource:
    """Files one after the other, with the columns of the first."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self.untyped = sources[0].untyped
        self.label = sources[0].label
        self._rows = 0
        self._done = 0
        self._reading: Source | None = None

    def widen(self, columns: Sequence[str]) -> None:
        for source in self._sources:
            source.widen(columns)

    def schema(self) -> pa.Schema:
        if isinstance(self._sources[0], LIBSVMSource):  # the widest file counts
            sparse = [source for source in self._sources if isinstance(source, LIBSVMSource)]
            widest = max((source.schema() for source in sparse), key=len)
            for source in sparse:
                source.columns = len(widest) - 1
            return widest
        return self._sources[0].schema()

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        self._rows = self._done = 0
        for source in self._sources:
            self._reading = source
            if isinstance(source, ParquetSource) and skip >= (rows := int(source.total() or 0)):
                skip -= rows
                self._rows += rows
            else:
                for batch in source.batches(types):
                    self._rows += batch.num_rows
                    if skip < batch.num_rows:
                        yield batch.slice(skip)
                    skip = max(0, skip - batch.num_rows)
            self._done += 1

    def total(self) -> float | None:
        if self._reading is None or not self._rows:
            return None
        return self._rows / max(self._done, 0.5) * len(self._sources)


# -- which source --------------------------------------------------------------------------------


def open_source(path: str | Path, delimiter: str | None = None, query: str | None = None) -> Source:
    """The source for a file by the ending of its name; "-", a directory, a pattern, a database."""
    if query is not None:
        return SQLSource(str(path), query)
    if str(path) == "-":
        given = StandardInput()
        if given.first_byte() == b"{":
            return NDJSONSource(given)
        return CSVSource(given, delimiter or ",")
    path = Path(path)
    if path.is_dir() or (not path.exists() and glob.has_magic(str(path))):
        return FilesSource([_open_file(file, delimiter) for file in files_in_order(path)])
    if not path.exists():
        near = difflib.get_close_matches(path.name, _siblings(path), n=1, cutoff=0.75)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise StreamError(f"file {str(path)!r} does not exist{hint}")
    return _open_file(path, delimiter)


def files_in_order(path: Path) -> list[Path]:
    """The files of a directory that are of a known kind, or those of a pattern, by name.

    Numbers in names count as numbers: part-2 comes before part-10.
    """
    if path.is_dir():
        found = [file for file in path.iterdir() if _ending(file).endswith(KNOWN)]
        found = [file for file in found if not file.name.startswith((".", "_"))]
    else:
        found = [Path(name) for name in glob.glob(str(path), recursive=True)]
    found = [file for file in found if file.is_file()]
    if not found:
        what = "directory" if path.is_dir() else "pattern"
        raise StreamError(f"{what} {str(path)!r} has no file that ends in {', '.join(KNOWN)}")
    return sorted(found, key=lambda file: (_natural(str(file)), str(file)))


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts if p]


def _ending(path: Path) -> str:
    """A name without the ending of its compression."""
    name = path.name.lower()
    for ending in _COMPRESSED:
        name = name.removesuffix(ending)
    return name


def _open_file(path: Path, delimiter: str | None) -> Source:
    name = _ending(path)
    if name.endswith(_CSV):
        return CSVSource(TextFile(path), delimiter or ("\t" if name.endswith(".tsv") else ","))
    if name.endswith(_NDJSON):
        return NDJSONSource(TextFile(path))
    if name.endswith(_LIBSVM):
        return LIBSVMSource(TextFile(path))
    if path.suffix.lower() in _PARQUET:
        return ParquetSource(path)
    if path.suffix.lower() in _ARROW:
        return ArrowSource(path)
    raise StreamError(
        f"file {str(path)!r} is of no known kind; its name must end in {', '.join(KNOWN)} "
        "(text also .gz, .bz2, .zst, .lz4)"
    )


def _siblings(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []
