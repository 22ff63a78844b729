"""Input of keyed models: the column of keys apart, the rest as checked rows of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.estimators.faces.inputs import check_finite, check_targets, from_arrow
from pronk.estimators.faces.labels import check_labels

Array = NDArray[np.float64]


def split_keys(X: Any, by: str | int) -> tuple[Any, Any]:
    """X without the column of keys, and the keys."""
    if isinstance(by, str):
        names = list(getattr(X, "column_names", getattr(X, "columns", ())))
        if by not in names:
            known = f"it has {', '.join(map(str, names))}" if names else "its columns have no names"
            raise ValueError(f"X has no column {by!r}, which holds the keys; {known}")
        keys = X[by]
        if hasattr(X, "drop_columns"):  # a pyarrow table
            return X.drop_columns([by]), keys.to_pylist()
        return (X.drop(columns=[by]) if hasattr(X, "iloc") else X.drop(by)), keys.to_list()
    rows = np.asarray(X)
    if rows.ndim != 2 or not 0 <= by < rows.shape[1]:
        raise ValueError(f"X has shape {rows.shape}, but column {by} is to hold the keys")
    return np.delete(rows, by, axis=1), rows[:, by]


def checked_rows(X: Any, columns: int | None) -> Array:
    """Rows of numbers, of so many columns."""
    if hasattr(X, "toarray"):
        X = X.toarray()
    if hasattr(X, "column_names") and hasattr(X, "num_rows"):
        X = from_arrow(X)
    try:
        rows = np.ascontiguousarray(X, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"X must hold numbers beside the keys ({error}); Keyed(Prepared(learner)) takes text"
        ) from None
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"X must have rows and columns beside the keys, got shape {rows.shape}")
    if columns is not None and rows.shape[1] != columns:
        raise ValueError(f"X has {rows.shape[1]} columns; the models were started with {columns}")
    check_finite(rows, "X")
    return rows


def checked_targets(y: Any, rows: int, labels: bool) -> NDArray[Any]:
    """Numbers or labels, one a row."""
    if not labels:
        return check_targets(y, rows)
    return check_labels(y, rows)
