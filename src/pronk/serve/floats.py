"""Lists of floats to arrays and back, by way of msgpack.

A float in msgpack is a mark and eight bytes, so a list of nothing but floats has them at equal
distances, and NumPy reads them where they stand. That takes a fifth of the time of `numpy.array`,
which asks every object what it is, and finds on the way whether all are floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

encode = msgspec.msgpack.Encoder().encode
_FLOAT = 0xCB  # then the number, the most significant byte first
_STEP = 9
_FEW = 16  # elements from which on a list's head has more than one byte


def _head(count: int) -> bytes:
    """How a list of so many begins."""
    if count < _FEW:
        return bytes([0x90 | count])
    if count < 2**16:
        return b"\xdc" + count.to_bytes(2, "big")
    return b"\xdd" + count.to_bytes(4, "big")


def unpacked(data: bytes) -> Array | None:
    """A packed list as an array; None if it is no list of floats, or has none."""
    count = len(data) // _STEP
    start = len(data) - _STEP * count
    if not count or data[:start] != _head(count):
        return None
    marks = np.frombuffer(data, np.uint8, offset=start)[::_STEP]
    if (marks != _FLOAT).any():
        return None
    return np.ndarray((count,), ">f8", data, start + 1, (_STEP,)).astype(np.float64)


def flat(values: Sequence[Any] | NDArray[Any]) -> Array | None:
    """A list of floats alone, or an array of numbers, as an array; None for anything else."""
    if isinstance(values, np.ndarray):
        return values.astype(np.float64, copy=False) if values.dtype.kind in "iuf" else None
    data = _encoded(values)
    return None if data is None else unpacked(data)


def packed(values: Array) -> bytes:
    """An array of numbers as a packed list."""
    cells = np.empty(len(values), dtype=[("mark", "u1"), ("value", ">f8")])
    cells["mark"], cells["value"] = _FLOAT, values
    return _head(len(values)) + cells.tobytes()


def table(rows: Sequence[Any], width: int) -> Array | None:
    """Lists of equally many floats as an array; None for anything else."""
    data = _encoded(rows)
    start, head = len(_head(len(rows))), _head(width)
    step = len(head) + _STEP * width
    if data is None or not width or len(data) != start + step * len(rows):
        return None
    cells = np.frombuffer(data, np.uint8, offset=start).reshape(-1, step)
    marks = cells[:, len(head) :: _STEP]
    if (cells[:, : len(head)] != np.frombuffer(head, np.uint8)).any() or (marks != _FLOAT).any():
        return None
    first = start + len(head) + 1
    values = np.ndarray((len(rows), width), ">f8", data, first, (step, _STEP))
    return values.astype(np.float64)


def _encoded(values: Sequence[Any]) -> bytes | None:
    try:
        return encode(values)
    except OverflowError:  # a whole number of more than 64 bits
        return None
