"""Blocks cut into pieces and by who has a label."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: A longer block is given to the model in pieces of this many rows.
PIECE = 4096
#: Rows of the pieces of a stream's first block.
EARLY = 256
#: And of this many where a pass is shared by threads, which drain at the end of a piece.
LONG_PIECE = 1 << 16
#: Numbers of such a piece at most: rows may be wide.
LONG_NUMBERS = 1 << 24


def long_piece(length: int, columns: int) -> int:
    """Rows of a long piece of so many columns."""
    return min(length, max(PIECE, LONG_NUMBERS // max(1, columns)))


def pieces(
    X: Any, y: NDArray[Any], length: int = PIECE, weights: NDArray[np.float64] | None = None
) -> Iterator[tuple[Any, NDArray[Any], NDArray[np.float64] | None]]:
    """A block, or pieces of a long one where X is an array or a sparse matrix."""
    if len(y) <= length or not (isinstance(X, np.ndarray) or hasattr(X, "tocsr")):
        yield X, y, weights
        return
    if len(y) != X.shape[0]:
        raise ValueError(f"y has {len(y)} rows but X has {X.shape[0]}: give one label a row")
    for start in range(0, len(y), length):
        rows = slice(start, start + length)
        yield X[rows], y[rows], part(weights, rows)


def early(
    X: Any, y: NDArray[Any], weights: NDArray[np.float64] | None, done: int
) -> Iterator[tuple[Any, NDArray[Any], NDArray[np.float64] | None]]:
    """A block after ``done`` rows, cut at every 256th of the first 4,096 rows of the stream.

    So that a picture of a short stream has more than one point for what is asked between blocks.
    """
    arrays = isinstance(X, np.ndarray) and len(y) == len(X)
    if done >= PIECE or not arrays or len(y) <= EARLY - done % EARLY:
        yield X, y, weights
        return
    first = EARLY - done % EARLY
    ends = [*range(first, min(len(y), PIECE - done), EARLY), min(len(y), PIECE - done), len(y)]
    for start, end in pairwise(sorted({0, *ends})):
        rows = slice(start, end)
        yield X[rows], y[rows], part(weights, rows)


def gathered(blocks: Any, length: int) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Blocks of rows, short ones joined to ``length`` rows and more: a shared pass drains at the
    end of each call. Only arrays are joined."""
    held: list[tuple[Any, NDArray[Any]]] = []
    for X, y in blocks:
        y = np.asarray(y)
        joins = isinstance(X, np.ndarray)
        if held and not (joins and X.shape[1:] == held[0][0].shape[1:]):
            yield _joined(held)
            held = []
        held.append((X, y))
        if not joins or sum(len(y) for _, y in held) >= long_piece(length, X.shape[1]):
            yield _joined(held)
            held = []
    if held:
        yield _joined(held)


def _joined(held: list[tuple[Any, NDArray[Any]]]) -> tuple[Any, NDArray[Any]]:
    if len(held) == 1:
        return held[0]
    X, y = zip(*held, strict=True)
    return np.concatenate(X), np.concatenate(y)


def part(values: Any, rows: Any) -> Any:
    """Some rows of an array that may not be there."""
    return None if values is None else values[rows]
