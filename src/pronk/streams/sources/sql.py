"""The rows of an SQL query."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from pronk.streams.errors import StreamError, argument
from pronk.streams.sources.base import BATCH_ROWS, Dense, own_types, without

_NO_ROWS = f"{argument('query')}: the statement gives no rows"


class SQLSource(Dense):
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
            if not reader.schema.names:
                raise StreamError(_NO_ROWS)
            return reader.schema

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        with self._reader() as reader:
            yield from without((batch.select(list(own_types(types))) for batch in reader), skip)

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
                    raise StreamError(_NO_ROWS)
                make = getattr(result, "to_arrow_reader", None) or result.fetch_arrow_reader
                yield make(BATCH_ROWS)
        except (StreamError, GeneratorExit, pa.ArrowException):
            raise
        except Exception as error:
            module = type(error).__module__.partition(".")[0]
            if module not in ("duckdb", "_duckdb", "adbc_driver_manager"):
                raise
            text = str(error).strip().splitlines()[0]
            raise StreamError(f"{argument('query')}: {text}") from None

    def opened(self) -> list[str]:
        """The files that DuckDB opens to plan the query, also where their names are computed.

        Best effort: nothing where DuckDB cannot tell, or the query is wrong, which its walk says.
        """
        if self.database.startswith("adbc:"):
            return []
        try:
            with self._duckdb() as connection:
                connection.execute("CALL enable_logging('FileSystem')")
                connection.execute(f"EXPLAIN {self.query}")
                rows = connection.execute("SELECT message FROM duckdb_logs").fetchall()
        except Exception as error:
            module = type(error).__module__.partition(".")[0]
            if module not in ("duckdb", "_duckdb") and not isinstance(error, StreamError):
                raise
            return []
        found = [json.loads(row[0]) for row in rows if row[0].startswith("{")]
        return list(dict.fromkeys(str(entry["path"]) for entry in found if "path" in entry))

    def _duckdb(self) -> Any:
        duckdb = _optional("duckdb")
        if self.database != ":memory:" and not Path(self.database).exists():
            raise StreamError(
                f"database {self.database!r} does not exist; ':memory:' needs no file"
            )
        # A query may use the extensions that are installed, but it installs none: DuckDB would
        # download and run code because of the name of a file.
        return duckdb.connect(
            self.database,
            read_only=self.database != ":memory:",
            config={"autoinstall_known_extensions": False},
        )

    def _adbc(self) -> Any:
        driver, _, uri = self.database.removeprefix("adbc:").partition(":")
        if not driver:
            raise StreamError(f"{self.database!r} names no driver; it must be adbc:DRIVER:URI")
        dbapi = _optional("adbc_driver_manager.dbapi")
        if driver.startswith("adbc_driver_"):  # a Python package brings its library along
            driver = _optional(driver, driver.replace("_", "-"))._driver_path()
        return dbapi.connect(driver=driver, db_kwargs={"uri": uri} if uri else None)


def _optional(name: str, brought_by: str = '".[sql]" in the clone') -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise StreamError(
            f"{argument('query')} needs the package {package}: pip install {brought_by}"
        ) from None
