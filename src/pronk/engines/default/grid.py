"""The grid of the default learner: its settings, and the experts of one bandwidth as a group.

Experts differ in bandwidth, alpha and window (`Setting`). Those of one bandwidth form a `Group`:
they share the kernel values and the Nystrom features. Coordinates are nested, so an expert on fewer
points reads the first columns of its group's features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.default.discounted import DiscountedNewton
from pronk.parts.embeddings import Nystrom
from pronk.parts.kernels import Kernel, Laplacian
from pronk.parts.state import Field, Part, Real, Sizes, Stateful, require, take_part

Array = NDArray[np.float64]

#: Bandwidths, in medians of the distances between first rows.
FACTORS = (4.0, 2.0, 1.0, 0.5, 0.25)
ALPHAS = (1.0, 0.01)
#: Rows that a forgetting expert speaks of; such experts have two of the bandwidths.
WINDOWS = (1000, 100)
FORGETFUL_FACTORS = (4.0, 1.0)
FORGETFUL_ALPHA = 0.01
#: Most points of an expert that forgets: a window of rows cannot tell more of them apart.
FORGETFUL_POINTS = 100


@dataclass(frozen=True)
class Setting:
    """One expert: bandwidth in medians, regularisation, window in rows (None: all rows)."""

    factor: float
    alpha: float
    window: int | None = None


def grid(kernel: Kernel, forgetting: bool = True) -> list[Setting]:
    """All experts; a kernel without a bandwidth has the alphas and windows alone."""
    scaled = hasattr(kernel, "bandwidth")
    stable = [Setting(f, alpha) for f in (FACTORS if scaled else (1.0,)) for alpha in ALPHAS]
    if not forgetting:
        return stable
    factors = FORGETFUL_FACTORS if scaled else (1.0,)
    return stable + [Setting(f, FORGETFUL_ALPHA, window) for f in factors for window in WINDOWS]


def typical_distance(kernel: Kernel, Z: Array) -> float:
    """The median distance between first rows, in the unit of the kernel's bandwidth."""
    rows = np.unique(Z[:: max(1, len(Z) // 256)], axis=0)
    if len(rows) < 2:
        return 1.0
    values = kernel.distances(rows, rows)[np.triu_indices(len(rows), 1)]
    median = float(np.median(values))
    return median if isinstance(kernel, Laplacian) else float(np.sqrt(median))


class Learners(Field):
    """The learners of a group by the number of their setting; some may be gone."""

    def give(self, owner: Any) -> Any:
        return {str(i): learner.to_state() for i, learner in owner.learners.items()}

    def take(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        require(isinstance(value, dict) and value, f"{self.name} are missing")
        held = {str(i): (i, learner) for i, learner in owner.learners.items()}
        require(set(value) <= set(held), f"{self.name} have another number than the settings")
        taken = {}
        for name, (i, learner) in held.items():
            if name in value:
                take_part(learner, value[name], f"{self.name}/{name}")
                taken[i] = learner
        return taken

    def mark(self, owner: Any) -> Any:
        return dict(owner.learners), [learner.mark() for learner in owner.learners.values()]

    def undo(self, owner: Any, mark: Any) -> None:
        owner.learners, held = mark
        for learner, state in zip(owner.learners.values(), held, strict=True):
            learner.undo(state)


class Group(Stateful):
    """The experts of one bandwidth: their kernel, their features and their learners."""

    limit: int  # most points

    def __init__(self, kernel: Kernel, factor: float, unit: float) -> None:
        self.factor = factor
        self.kernel = kernel
        if hasattr(kernel, "bandwidth"):
            self.kernel = type(kernel)(**{**kernel.get_params(), "bandwidth": factor * unit})
        self.nystrom = Nystrom()
        self.learners: dict[int, DiscountedNewton] = {}  # by number of the setting

    STATE = (
        Real("factor", "factor", fixed=True),
        Part("nystrom", "nystrom", sizes={"points": "points"}),
        Learners("learners", "learners"),
    )
    DERIVED = ("limit",)

    def features(self, values: Array) -> Array:
        """Features from kernel values with all points; valid until the next call."""
        return self.nystrom.transform(values)

    def grow(self) -> None:
        """Give the learners the coordinates that the span has gained."""
        for learner in self.learners.values():
            room = self.nystrom.size if learner.discount == 1.0 else FORGETFUL_POINTS
            learner.grow_by(min(self.nystrom.size, room) - learner.size)

    def shrink(self) -> None:
        """Leave the coordinates beyond the limit, which no learner reads, out."""
        if self.nystrom.size > self.limit:
            state = self.nystrom.to_state()
            state["factor"]["factor"] = state["factor"]["factor"][: self.limit, : self.limit]
            state["used"] = state["used"][: self.limit]
            state["points"] = int(state["used"][-1]) + 1
            self.nystrom.restore(state)
