"""Selection by rank in compiled functions.

NumPy's `sort` and `partition` take several seconds to compile, these few lines a fraction of one.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from pronk.core.compiling import compiled


@compiled
def nth_smallest(values: NDArray[Any], n: int) -> float:
    """Return what would stand at place n if ``values`` (m,) were sorted; they are reordered.

    Hoare's selection: the values between ``low`` and ``high`` are divided by a pivot until only
    those equal to place n are left.
    """
    low, high = 0, values.size - 1
    while low < high:
        pivot, i, j = values[n], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while pivot < values[j]:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if j < n:
            low = i
        if n < i:
            high = j
    return values[n]
