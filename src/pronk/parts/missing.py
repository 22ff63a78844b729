"""Labels that are not there: NaN of a number, None (or NaN) of anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def no_label(value: Any) -> bool:
    """Whether one value stands for a label that is not there."""
    return value is None or bool(value != value)


def without_label(y: NDArray[Any]) -> NDArray[np.bool_] | None:
    """Which rows have no label; None if all have. Of several targets a row all must be missing."""
    if y.dtype.kind == "f":
        missing = np.isnan(y) if y.ndim == 1 else np.isnan(y).all(axis=1)
    elif y.dtype == object:
        missing = np.array([no_label(value) for value in y.tolist()], dtype=bool)
    else:
        return None
    return missing if missing.any() else None
