"""Small checks that all layers share: rows without a label, and hints after unknown names.

A missing label is NaN among numbers, and None or NaN among anything else.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray


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


def labelled_runs(missing: NDArray[np.bool_]) -> Iterator[tuple[slice, bool]]:
    """Yield runs of rows that all have or all lack a label, and whether they lack it."""
    starts = [0, *(np.flatnonzero(np.diff(missing)) + 1).tolist(), len(missing)]
    for start, end in pairwise(starts):
        yield slice(start, end), bool(missing[start])


def without_gaps(y: NDArray[Any]) -> NDArray[Any]:
    """Return labels none of which is missing as an array of their own kind."""
    return np.array(y.tolist()) if y.dtype == object and y.tolist()[0] is not None else y


# -- the hint "did you mean ...?" after an unknown name -------------------------------------------


def did_you_mean(
    name: object, known: Iterable[str], otherwise: str = "", cutoff: float = 0.6
) -> str:
    """Return a hint to append: the nearest known name, or ``otherwise`` if none is near.

    >>> did_you_mean("logstic", ["hinge", "logistic"])
    "; did you mean 'logistic'?"
    """
    near = difflib.get_close_matches(str(name), list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else otherwise
