"""Selection by rank against sorting."""

import numpy as np
import pytest

from pronk.core.selection import nth_smallest


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_selection_is_what_sorting_puts_there(kind):
    rng = np.random.default_rng(0)
    for m in (1, 2, 3, 7, 128, 1000):
        for values in (
            rng.normal(size=m), rng.integers(0, 4, m), np.arange(m), -np.arange(m), np.ones(m),
        ):  # fmt: skip
            values = values.astype(kind)
            ordered, now = np.sort(values), values.copy()
            for n in sorted({0, m // 5, m // 2, m - 1}):
                assert nth_smallest(now, n) == ordered[n]
            assert np.array_equal(np.sort(now), ordered)  # reordered, nothing lost
