"""The rows of a stream in random order, in bounded memory.

The new order is cut into parts that fit into memory. The stream is read once, and each row is
written to the region of its part in a temporary file; then the file is read once, part by part, and
each part is sorted. Both passes read sequentially. A stream that fits into one part needs no file.
Memory: some tens of megabytes and 16 bytes per row.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.data.errors import Argument, StreamError

Array = NDArray[np.float64]
Block = tuple[Array, NDArray[Any]]

#: Rows of an output block, and bytes of a part.
BLOCK = 4096
PART = 1 << 25


def order_of(seed: int, rows: int) -> NDArray[np.intp]:
    """Return the random permutation of a run."""
    return np.random.default_rng([seed, 1]).permutation(rows)


def disk_bytes(rows: int, columns: int) -> int:
    """Return the bytes of the temporary file of a random order; 0 if it needs none."""
    needed = 8 * rows * (columns + 1)
    return needed if needed > PART else 0


def check_room(rows: int, columns: int, files: int = 1) -> None:
    """Raise if the temporary directory has no room for so many temporary files."""
    needed = files * disk_bytes(rows, columns)
    directory = tempfile.gettempdir()
    if needed and needed > (free := shutil.disk_usage(directory).free):
        raise StreamError(
            Argument("order", "random"),
            f" needs {needed / 1e9:,.1f} GB in the temporary directory {directory!r}, which has "
            f"{free / 1e9:,.1f} GB free; choose another one with TMPDIR, or give ",
            *(Argument("order", "given"), ", which needs none"),
        )


def shuffled(
    blocks: Iterable[Block], order: NDArray[np.intp], columns: int, task: str
) -> Iterator[Block]:
    """Yield the rows of some blocks in a new order: row ``order[0]``, then ``order[1]``, ..

    Raise a ValueError if the blocks do not have as many rows as the order.
    """
    targets = _Targets(task)
    width = columns + 1
    part = max(1, PART // (8 * width * BLOCK)) * BLOCK  # rows of it: whole blocks
    if len(order) <= part:
        rows = np.concatenate([_table(X, targets.encode(y)) for X, y in blocks])
        _check_length(len(rows), len(order))
        yield from _blocks(rows, order, targets)
        return
    check_room(len(order), columns)
    with tempfile.TemporaryFile() as file:
        _distribute(blocks, order, part, width, targets, file)
        file.seek(0)
        for start in range(0, len(order), part):
            chosen = order[start : start + part]
            rows = np.frombuffer(file.read(8 * width * len(chosen))).reshape(-1, width)
            # A part has its rows in the order of the stream.
            yield from _blocks(rows, np.argsort(np.argsort(chosen)), targets)


def _distribute(
    blocks: Iterable[Block],
    order: NDArray[np.intp],
    part: int,
    width: int,
    targets: _Targets,
    file: Any,
) -> None:
    """Write each row to its part of the file, in the order of the stream."""
    parts = np.empty(len(order), dtype=np.int32)
    parts[order] = np.arange(len(order)) // part
    ends = np.arange(0, len(order), part)  # next row of each part
    held: list[Array] = []
    read, waiting = 0, 0

    def flush() -> None:
        nonlocal held, waiting
        rows, of = np.concatenate(held), parts[read - waiting : read]
        sorted_ = np.argsort(of, kind="stable")
        rows, of = rows[sorted_], of[sorted_]
        starts = np.flatnonzero(np.diff(of, prepend=-1))
        for start, end in zip(starts, [*starts[1:], len(of)], strict=True):
            file.seek(8 * width * int(ends[of[start]]))
            file.write(rows[start:end].data)
            ends[of[start]] += end - start
        held, waiting = [], 0

    for X, y in blocks:
        held.append(_table(X, targets.encode(y)))
        read += len(y)
        waiting += len(y)
        if read > len(order):
            break
        if waiting >= part:
            flush()
    _check_length(read, len(order))
    if waiting:
        flush()


def _table(X: Array, y: Array) -> Array:
    return np.column_stack([X, y])


def _blocks(rows: Array, order: NDArray[np.intp], targets: _Targets) -> Iterator[Block]:
    for start in range(0, len(order), BLOCK):
        chosen = rows[order[start : start + BLOCK]]
        yield np.ascontiguousarray(chosen[:, :-1]), targets.decode(chosen[:, -1])


def _check_length(rows: int, expected: int) -> None:
    if rows != expected:
        raise ValueError(f"the file now has {rows} rows; it had {expected}")


class _Targets:
    """Targets as a column of numbers; labels are numbered in order of appearance."""

    def __init__(self, task: str) -> None:
        self._labels: dict[Any, int] | None = {} if task == "classification" else None

    def encode(self, y: NDArray[Any]) -> Array:
        labels = self._labels
        if labels is None:
            return y
        codes = [
            np.nan if label is None else labels.setdefault(label, len(labels))
            for label in y.tolist()
        ]
        return np.array(codes, dtype=np.float64)

    def decode(self, column: Array) -> NDArray[Any]:
        if self._labels is None:
            return column.copy()
        labels, missing = np.array([*self._labels]), np.isnan(column)
        if not missing.any():
            return labels[column.astype(np.intp)]
        y = np.full(len(column), None, dtype=object)
        y[~missing] = labels[column[~missing].astype(np.intp)].tolist()
        return y
