"""Several files as one."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import pyarrow as pa

from pronk.streams.sources.base import FileSource
from pronk.streams.sources.columnar import ParquetSource
from pronk.streams.sources.csv import CSVSource
from pronk.streams.sources.libsvm import LIBSVMSource


class FilesSource:
    """Files one after the other, with the columns of the first."""

    def __init__(self, sources: Sequence[FileSource]) -> None:
        self._sources = sources
        self.untyped = sources[0].untyped
        self.times_in_text = sources[0].times_in_text
        self.label = sources[0].label
        self._rows = 0
        self._done = 0
        self._reading: FileSource | None = None

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

    def at(self, row: int) -> FilesSource:
        """Files of CSV are looked at as far as needed; see `CSVSource.at`."""
        sources, inside = [], False
        for source in self._sources:
            source = source if inside else source.at(row)
            sources.append(source)
            rows = _rows_of(source)
            inside = inside or rows is None or row < rows
            row -= rows or 0
        twin = copy.copy(self)
        twin._sources = sources
        return twin

    def batches(self, types: dict[str, pa.DataType], skip: int = 0) -> Iterator[pa.RecordBatch]:
        self._rows = self._done = 0
        for source in self._sources:
            self._reading = source
            rows = _rows_of(source) if skip else None
            if rows is not None and skip >= rows:
                skip -= rows
                self._rows += rows
                self._done += 1
                continue
            whole = source.batches(types)
            if isinstance(source, CSVSource):
                place = source.before(skip)
                skip -= place.rows
                self._rows += place.rows
                whole = source.all(types, place)
            for batch in whole:
                self._rows += batch.num_rows
                if skip < batch.num_rows:
                    yield batch.slice(skip)
                skip = max(0, skip - batch.num_rows)
            self._done += 1

    def total(self) -> float | None:
        if self._reading is None or not self._rows:
            return None
        return self._rows / max(self._done, 0.5) * len(self._sources)


def _rows_of(source: FileSource) -> int | None:
    """The rows of a file, where that is known without reading it."""
    if isinstance(source, ParquetSource):
        return int(source.total() or 0)
    return source.count if isinstance(source, CSVSource) else None
