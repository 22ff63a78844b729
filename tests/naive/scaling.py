"""The robust scaler from its definition: quartiles of every stride-th row so far.

The stride is the smallest power of two for which at most ``held`` of the rows 0, stride, 2 stride,
.. have come. A row that is one of them joins before it is scaled.
"""

import numpy as np
from scipy.stats import norm

#: The deviation of a normal column over the distance of its quartiles.
NORMAL = 1.0 / (norm.ppf(0.75) - norm.ppf(0.25))


def held_rows(t, held):
    """The numbers of the rows that stand for rows 0 .. t."""
    stride = 1
    while len(range(0, t + 1, stride)) > held:
        stride *= 2
    return np.arange(0, t + 1, stride)


def standing(x, values):
    """(x - median) / (NORMAL (upper - lower quartile)); the whole range where that is 0."""
    least, low, middle, high, largest = np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0])
    spread = high - low if high > low else largest - least
    return (x - middle) / (NORMAL * spread) if spread > 0 else 0.0


def robust(x, held):
    """A column, each value scaled by the held ones up to itself."""
    return np.array([standing(x[t], x[held_rows(t, held)]) for t in range(len(x))])


def without_outliers(column):
    """A column with values farther than ten ranges from all but a few drawn to the nearest others.

    The few: one in five hundred at each end, at least one. Short columns, and those whose others
    are all one number, stay as they are.
    """
    few = 1 + len(column) // 500
    others = np.sort(column)[few:-few]
    if len(others) < 3 or others[0] == others[-1]:
        return column
    reach = 10.0 * (others[-1] - others[0])
    near = column[(column >= others[0] - reach) & (column <= others[-1] + reach)]
    return np.clip(column, near.min(), near.max())


def compressed(x, low, high, half):
    """x where it is inside; beyond an edge logarithmic, with slope 1 there."""
    above = half * np.log(1 + (x - high) / half, where=x > high, out=np.zeros(len(x)))
    below = half * np.log(1 + (low - x) / half, where=x < low, out=np.zeros(len(x)))
    return np.where(x > high, high + above, np.where(x < low, low - below, x))


def fixed(first, later):
    """Columns ``later`` by the scales of ``first``: (x - mean) / sqrt(range * deviation).

    They are compressed half a range beyond the first ones. A column that was constant is 0 until it
    changes; the first change is its unit then, and it is compressed beyond one and a half units.
    """
    out = np.zeros(later.shape)
    for j, (column, x) in enumerate(zip(first.T, later.T, strict=True)):
        column = without_outliers(column)
        least, largest = column.min(), column.max()
        width = largest - least
        if width > 1e-12 * np.abs(column).max():
            x = compressed(x, least - width / 2, largest + width / 2, width / 2)
            out[:, j] = (x - column.mean()) / np.sqrt(width * column.std())
            continue
        steps = x - column[0]
        changed = np.flatnonzero(np.abs(steps) > 1e-12 * np.abs(x))
        if len(changed):
            out[:, j] = compressed(steps / abs(steps[changed[0]]), -1.5, 1.5, 0.5)
            out[: changed[0], j] = 0.0
    return out
