"""LIBSVM text: sparse rows with a label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from pronk.streams.errors import StreamError
from pronk.streams.sources.base import BAD, BATCH_ROWS, own_types, without
from pronk.streams.sources.text import TextFile, TextSource

#: Bytes of a dense piece.
_DENSE_BYTES = 1 << 25

#: The name of the labels; the features are named "1", "2", ..
LABEL = "label"


class LIBSVMSource(TextSource):
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
        return without(self._all(types), skip)

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
                dense, reasons = self._all_or_some(some, len(names), BAD in types)
                self._rows += len(some)
                columns = [pa.array(dense[:, place].copy()) for place in places]
                batch = pa.record_batch(columns, names=list(own))
                yield batch if reasons is None else batch.append_column(BAD, reasons)

    def _all_or_some(self, lines: list[bytes], width: int, lenient: bool) -> tuple[Any, Any]:
        """Dense rows; where some are bad and that is allowed, zeros in their places and reasons."""
        rows = self._rows
        try:
            return self._dense(lines, width), None
        except StreamError:
            if not lenient:
                raise
        dense = np.zeros((len(lines), width))
        reasons: list[str | None] = []
        for i, line in enumerate(lines):
            try:
                dense[i] = self._dense([line], width)[0]
                reasons.append(None)
            except StreamError:
                reasons.append(f"cannot be read: {line[:200].decode('utf-8', 'replace')}")
        self._rows = rows
        return dense, pa.array(reasons, pa.string())

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
            if not np.isfinite(pairs[:, 0]).all():
                raise ValueError
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
