"""What an expert looks at: which columns of a row, how long each, through which kernel.

    plain       the columns as they are scaled, the kernel that was asked for
    relevance   each column times how much it matters (`relevance`), the Laplacian kernel
    past        the same with the last known targets (`past`) as further columns

All experts that do not only guess are AWV learners on the features of a view at some bandwidth, on
one dictionary: squared-loss Newton learners on shared points. Another view is another entry here.
The second and third are there for the Gaussian kernel, the default; who asks for another kernel
gets that one alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.engines.default.past import Past
from pronk.engines.default.relevance import relevance
from pronk.parts.kernels import Gaussian, Kernel, Laplacian
from pronk.parts.state import Numbers, Stateful

Array = NDArray[np.float64]

PLAIN, RELEVANCE, PAST = 0, 1, 2
NAMES = ("plain", "relevance", "past")


class View(Stateful):
    """The first columns of a row, each times its weight; their kernel; their typical distance."""

    def __init__(self, number: int, kernel: Kernel, weights: Array, unit: float) -> None:
        self.number, self.kernel, self.weights, self.unit = number, kernel, weights, unit
        self.has_bandwidth = hasattr(kernel, "bandwidth")

    def rows(self, Z: Array) -> Array:
        """Rows, with or without their past, as the kernel sees them."""
        seen = Z[:, : len(self.weights)]
        return np.ascontiguousarray(seen if self.number == PLAIN else seen * self.weights)

    STATE = (Numbers("weights", ("read",), "weights", low=0.0, kept=True),)


def typical_distance(kernel: Kernel, Z: Array) -> float:
    """The median distance between first rows, in the unit of the kernel's bandwidth."""
    rows = np.unique(Z[:: max(1, len(Z) // 256)], axis=0)
    if len(rows) < 2:
        return 1.0
    values = kernel.distances(rows, rows)[np.triu_indices(len(rows), 1)]
    median = float(np.median(values))
    if not median > 0.0:
        return 1.0
    return float(np.sqrt(median)) if kernel.squares else median


def offered(kernel: Kernel) -> tuple[int, ...]:
    """The views that a kernel's experts may have."""
    return (PLAIN,) if kernel.rate is None else (PLAIN, RELEVANCE, PAST)


def empty_views(kernel: Kernel, numbers: list[int], units: list[float]) -> list[View]:
    """Views whose weights are to be restored."""
    return [
        View(number, kernel if number == PLAIN else Laplacian(), np.zeros(0), unit)
        for number, unit in zip(numbers, units, strict=True)
    ]


def make_views(kernel: Kernel, numbers: list[int], Z: Array, Y: Array, past: Past) -> list[View]:
    """The views of first rows Z, (n, columns), whose targets are Y."""
    unit = 1.0
    if hasattr(kernel, "bandwidth"):
        unit = float(kernel.bandwidth) * typical_distance(kernel, Z)
    views = [View(PLAIN, kernel, np.ones(Z.shape[1]), unit)]
    for number in numbers:
        if number == PLAIN:
            continue
        read = Z if number == RELEVANCE else np.hstack((Z, past.columns_of(Y)))
        weights = relevance(read, past.informative(Y), typical_distance(Gaussian(), read))
        unit = typical_distance(Laplacian(), read * weights)
        views.append(View(number, Laplacian(), weights, unit))
    return views
