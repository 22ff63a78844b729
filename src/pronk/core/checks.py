"""Small checks that all layers share: finite numbers, rows without a label, unknown names.

A missing label is NaN among numbers, and None or NaN among anything else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk._hints import did_you_mean as did_you_mean

#: Larger values overflow when they are squared.
LARGEST_INPUT = 1e150
#: Advice for a row without a label.
NO_LABEL = "leave the row out"


def no_label(value: Any) -> bool:
    """Return whether a value is a missing label."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA compares as missing
        return True


def without_label(y: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Return which rows have no label (of several targets, none); None if all have one."""
    if y.dtype.kind == "f":
        missing = np.isnan(y) if y.ndim == 1 else np.isnan(y).all(axis=1)
    elif y.dtype == object:
        missing = np.array([no_label(value) for value in y.tolist()], dtype=bool)
    else:
        return None
    return missing if missing.any() else None


def unmasked(values: Any) -> Any:
    """Return a masked array as one with missing values (NaN, NaT or None); others as they are."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    if not np.ma.is_masked(values):
        return values.data
    missing = {"f": np.nan, "M": np.datetime64("NaT")}.get(values.dtype.kind)
    found = np.array(values.data, dtype=object if missing is None else None)
    found[values.mask] = missing
    return found


def labelled_runs(missing: NDArray[np.bool_]) -> Iterator[tuple[slice, bool]]:
    """Yield runs of rows that all have or all lack a label, and whether they lack it."""
    starts = [0, *(np.flatnonzero(np.diff(missing)) + 1).tolist(), len(missing)]
    for start, end in pairwise(starts):
        yield slice(start, end), bool(missing[start])


def without_gaps(y: NDArray[Any]) -> NDArray[Any]:
    """Return labels none of which is missing as an array of their own kind, if they have one."""
    if y.dtype != object:
        return y
    values = y.tolist()
    text = {isinstance(value, str) for value in values}
    return y if values[0] is None or len(text) > 1 else np.array(values)


def check_not_lazy(X: Any) -> None:
    """Raise a ValueError if X is a query without rows, as a polars LazyFrame."""
    if hasattr(X, "collect") and hasattr(X, "collect_schema"):
        raise ValueError("X is a LazyFrame, which has no rows yet; give X.collect()")


def check_positive(name: str, value: float, *, zero: bool = False) -> None:
    """Raise a ValueError for a number that is not positive and finite, or 0 where it may be 0."""
    if not (0.0 < value < math.inf or (zero and value == 0.0)):
        kind = "non-negative" if zero else "positive"
        raise ValueError(f"{name} must be a {kind} finite number, got {value!r}")


def check_finite(
    values: NDArray[np.float64],
    name: str,
    whole: Any = None,
    *,
    largest: float = LARGEST_INPUT,
    gaps: bool = False,
) -> None:
    """Raise a ValueError that names the first row with NaN, infinity or an overflowing value.

    With ``gaps`` NaN is a missing value, and allowed.
    """
    if not values.size or (values.max() <= largest and values.min() >= -largest):
        return  # NaN compares as False
    if gaps and bool((np.isnan(values) | (np.abs(values) <= largest)).all()):
        return
    if gaps:
        values = np.where(np.isnan(values), 0.0, values)
    if whole is not None:  # the stored values of a sparse matrix
        entry = int(np.flatnonzero(~(np.abs(values) <= largest))[0])
        row = int(np.searchsorted(whole.indptr, entry, side="right")) - 1
        where, value = f"row {row}, column {whole.indices[entry]}", values[entry]
    else:
        place = tuple(int(i) for i in np.argwhere(~(np.abs(values) <= largest))[0])
        value = values[place]
        where = f"row {place[0]}" + (f", column {place[1]}" if len(place) > 1 else "")
    what = "NaN" if np.isnan(value) else "inf" if np.isinf(value) else f"{value:.3g}"
    advice = "rescale it" if np.isfinite(value) else "drop the row or fill the value in"
    if name == "y" and np.isnan(value):
        advice = NO_LABEL
    raise ValueError(f"{name} has {what} at {where} (counting from 0); {advice}")
