"""What every kind of source offers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, Self

import pyarrow as pa

#: Rows of a batch that a source makes itself.
BATCH_ROWS = 4096


#: The column that says why a row is bad; null for a good one. No file has a column of this name.
BAD = "\x00why"


def own_types(types: dict[str, pa.DataType]) -> dict[str, pa.DataType]:
    """The columns that a file has, of those that are asked for."""
    return {name: kind for name, kind in types.items() if name != BAD}


class FileSource(Protocol):
    """One kind of file."""

    @property
    def untyped(self) -> bool:
        """Whether values are text that reads as any type."""
        ...

    @property
    def times_in_text(self) -> bool:
        """Whether dates and times are text in the file."""
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

    def at(self, row: int) -> FileSource:
        """A source of the same rows for who reads from a row on: where it is known it begins there.

        It can be sent to another process.
        """
        ...

    def widen(self, columns: Sequence[str]) -> None:
        """These columns will be asked for: a sparse file has them though it may not show them."""
        ...


class Dense:
    """Kinds of files that show all their columns."""

    untyped = False
    times_in_text = False
    label: str | None = None

    def at(self, row: int) -> Self:
        return self

    def widen(self, columns: Sequence[str]) -> None:
        pass


def without(batches: Iterator[pa.RecordBatch], skip: int) -> Iterator[pa.RecordBatch]:
    """Batches without their first rows."""
    for batch in batches:
        if skip < batch.num_rows:
            yield batch.slice(skip)
        skip = max(0, skip - batch.num_rows)
