"""Original files to numbers: LIBSVM text, comma-separated text, packed or not."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from pronk.paper.data import DataSet, Single


def unpacked(path: Path, name: str | None = None, member: str | None = None) -> BinaryIO:
    """A file opened for reading, unpacked by the ending of its name."""
    ending = Path(name or path.name).suffix
    if ending == ".zip":
        with zipfile.ZipFile(path) as archive:
            names = [entry for entry in archive.namelist() if not entry.endswith("/")]
            chosen = member or names[0]
            return io.BytesIO(archive.read(chosen))
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    opened: BinaryIO = openers.get(ending, open)(path, "rb")
    return opened


def parse_libsvm(file: BinaryIO, columns: int) -> tuple[Single, Single]:
    """Lines "label index:value ..", indices from 1; a line may have no values."""
    from sklearn.datasets import load_svmlight_file

    with file:
        X, y = load_svmlight_file(file, n_features=columns, zero_based=False)
    return X.astype(np.float32).toarray(), y.astype(np.float32)


def parse_csv(
    file: BinaryIO,
    *,
    target: int,
    drop: Iterable[int] = (),
    skip: int = 0,
    delimiter: str | None = ",",
    codes: dict[str, float] | None = None,
    member: str | None = None,
) -> tuple[Single, Single]:
    """Lines of numbers, one column the target; ``codes`` stand for words, other words are 0."""
    del member  # read by `unpacked`
    with file:
        lines = file.read().decode("utf-8", "replace").splitlines()
    cells = [line.split(delimiter) for line in lines[skip:] if line.strip()]
    width = len(cells[0]) if cells else 0
    left = set(drop) | {target}
    numbers = {i: _column(cells, i, codes or {}) for i in range(width) if i not in set(drop)}
    X = np.column_stack([numbers[i] for i in range(width) if i not in left])
    return X.astype(np.float32), numbers[target].astype(np.float32)


def _column(cells: list[list[str]], i: int, codes: dict[str, float]) -> Any:
    try:
        words = [row[i].strip() for row in cells]
    except IndexError:
        raise ValueError(f"a line has fewer than {i + 1} columns") from None
    if words[0] in codes:
        return np.array([codes[word] for word in words])
    return np.array(words, dtype=np.float64)


def parse(dataset: DataSet, files: list[tuple[Path, str]]) -> tuple[Single, Single]:
    """X and y of a set from its downloaded files (path, original name), one after the other."""
    if dataset.source is None:
        raise ValueError(f"data set {dataset.name} has no original to parse")
    options = dataset.source.options
    parts = []
    for path, name in files:
        file = unpacked(path, name, options.get("member"))
        if dataset.source.form == "libsvm":
            parts.append(parse_libsvm(file, dataset.columns))
        else:
            delimiter = None if dataset.source.form == "spaced" else ","
            parts.append(parse_csv(file, delimiter=delimiter, **options))
    return np.concatenate([X for X, _ in parts]), np.concatenate([y for _, y in parts])
