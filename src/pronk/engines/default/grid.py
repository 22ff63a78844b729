"""The grid of the default learner: its settings, and the experts of one bandwidth as a group.

Experts differ in view, bandwidth, alpha and window (`Setting`). Those of one view and bandwidth
form a `Group`: they share the kernel values and the Nystrom features. Coordinates are nested, so an
expert on fewer points reads the first columns of its group's features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.default.discounted import DiscountedNewton
from pronk.engines.default.views import PAST, PLAIN, RELEVANCE, View, offered
from pronk.parts.embeddings import Nystrom
from pronk.parts.kernels import Kernel
from pronk.parts.state import Count, Field, Parts, Real, Sizes, Stateful, require, take_part

Array = NDArray[np.float64]

#: Bandwidths, in medians of the distances between first rows; those with the larger alpha too.
FACTORS, ALPHA = (4.0, 2.0, 1.0, 0.5, 0.25), 0.01
SMOOTH_FACTORS, SMOOTH_ALPHA = (4.0, 1.0, 0.25), 1.0
#: The same of the other views: their kernel is not smooth and asks for less choice.
VIEW_FACTORS, SMOOTH_VIEW_FACTORS = (4.0, 1.0), (1.0,)
#: Rows that a forgetting expert speaks of; such experts have one or two of the bandwidths.
EXPERT_WINDOWS = (1000, 100)
FORGETFUL_FACTORS, FORGETFUL_VIEW_FACTORS = (4.0, 1.0), (4.0,)
#: The bandwidths of a model with few experts.
FEW_FACTORS = (4.0, 1.0)
#: Most points of an expert that forgets: a window of rows cannot tell more of them apart.
FORGETFUL_POINTS = 100


@dataclass(frozen=True)
class Setting:
    """One expert: bandwidth in medians, regularisation, window in rows (None: all rows), view."""

    factor: float
    alpha: float
    window: int | None = None
    view: int = PLAIN


def few_experts(kernel: Kernel, forgetting: bool = True) -> list[Setting]:
    """The experts of a small model: smooth, less smooth, forgetful, and by relevance."""
    wide, usual = FEW_FACTORS if hasattr(kernel, "bandwidth") else (1.0, 1.0)
    settings = [Setting(factor, ALPHA) for factor in dict.fromkeys((wide, usual))]
    if forgetting:
        settings.append(Setting(wide, ALPHA, EXPERT_WINDOWS[-1]))
    if RELEVANCE in offered(kernel):
        settings.append(Setting(usual, ALPHA, None, RELEVANCE))
    return settings


def grid(
    kernel: Kernel, forgetting: bool = True, past: bool = False, few: bool = False
) -> list[Setting]:
    """All experts, or few; a kernel without a bandwidth has the alphas and windows alone."""
    if few:
        return few_experts(kernel, forgetting)
    settings = []
    for view in offered(kernel):
        if view == PAST and not past:
            continue
        factors: tuple[float, ...] = FACTORS
        smooth: tuple[float, ...] = SMOOTH_FACTORS
        forgetful: tuple[float, ...] = FORGETFUL_FACTORS
        if view != PLAIN:
            factors, smooth, forgetful = VIEW_FACTORS, SMOOTH_VIEW_FACTORS, FORGETFUL_VIEW_FACTORS
        if not hasattr(kernel, "bandwidth"):
            factors = smooth = forgetful = (1.0,)
        settings += [Setting(f, ALPHA, None, view) for f in factors]
        settings += [Setting(f, SMOOTH_ALPHA, None, view) for f in smooth]
        if forgetting:
            settings += [Setting(f, ALPHA, w, view) for f in forgetful for w in EXPERT_WINDOWS]
    return settings


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
    """The experts of one view and bandwidth: their kernel, features and learners."""

    limit: int  # most points

    def __init__(self, view: View, factor: float) -> None:
        self.view, self.factor = view, factor
        self.number = view.number
        self.kernel = kernel = view.kernel
        if hasattr(kernel, "bandwidth"):
            self.kernel = type(kernel)(**{**kernel.get_params(), "bandwidth": factor * view.unit})
        self.nystrom = Nystrom()
        self.learners: dict[int, DiscountedNewton] = {}  # by number of the setting

    STATE = (
        Count("view", "number", fixed=True),
        Real("factor", "factor", fixed=True),
        Learners("learners", "learners"),
    )
    DERIVED = ("limit",)

    # A file has no span: it follows from the points (`Experts.extend_spans`).

    def mark(self) -> Any:
        return self.nystrom.mark(), super().mark()

    def undo(self, mark: Any) -> None:
        self.nystrom.undo(mark[0])
        super().undo(mark[1])

    def features(self, values: Array) -> Array:
        """Features from kernel values with all points; valid until the next call."""
        return self.nystrom.transform(values)

    def offer(
        self,
        new: Array,
        points: Array,
        room: int,
        uniforms: Array | None = None,
        gamma: float = 0.0,
    ) -> NDArray[np.intp]:
        """Offer rows to the span (`Nystrom.offer`), which holds the points so far."""
        rows = self.view.rows(new)
        K, corner = self.kernel(rows, self.view.rows(points)), self.kernel(rows, rows)
        return self.nystrom.offer(K, corner, room, self.limit, uniforms, gamma)

    def diagonal(self, Z: Array) -> Array:
        """k(z, z) of each row."""
        return self.kernel.diagonal(self.view.rows(Z))

    def grow(self) -> None:
        """Give the learners the coordinates that the span has gained."""
        for learner in self.learners.values():
            room = self.nystrom.size if learner.discount == 1.0 else FORGETFUL_POINTS
            learner.grow_by(min(self.nystrom.size, room) - learner.size)

    @property
    def largest(self) -> int:
        """Coordinates of the largest learner."""
        return max(learner.size for learner in self.learners.values())

    def shrink(self) -> None:
        """Leave the coordinates beyond the limit, which no learner reads, out."""
        if self.nystrom.size > self.limit:
            state = self.nystrom.to_state()
            left = self.limit * (self.limit + 1) // 2  # rows of a triangle
            state["factor"]["factor"] = state["factor"]["factor"][:left]
            state["used"] = state["used"][: self.limit]
            state["points"] = int(state["used"][-1]) + 1
            self.nystrom.restore(state)


class Groups(Parts):
    """The groups that are left, in their order; a group is known by view and factor."""

    def take(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        require(isinstance(value, list), f"{self.name} are not a list")
        fresh, taken = list(getattr(owner, self.attribute)), []
        for i, saved in enumerate(value):
            require(isinstance(saved, dict), f"{self.name}/{i} is not a table")
            key = saved.get("view"), saved.get("factor")
            found = [group for group in fresh if (group.number, group.factor) == key]
            require(found, f"{self.name}/{i} has a view and factor that no setting has")
            group = found[0]
            fresh.remove(group)
            take_part(group, saved, f"{self.name}/{i}")
            taken.append(group)
        return taken
