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
