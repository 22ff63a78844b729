"""The grid of the default learner: its settings, and the experts of one bandwidth as a group.

Experts differ in view, bandwidth, alpha and window (`Setting`). Those of one view and bandwidth
form a `Group`: they share the kernel values and the Nystrom features. Coordinates are nested, so an
expert on fewer points reads the first columns of its group's features.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import Past
from pronk.aggregate.mixture import Mixture
from pronk.core.features import Nystrom
from pronk.core.kernels import Gaussian, Kernel, Laplacian
from pronk.core.linalg import cholesky, solve_lower
from pronk.core.state import Count, Field, Numbers, Parts, Real, Sizes, Stateful, require, take_part
from pronk.newton.discounted import DiscountedNewton

# ----------------------------------------------------------------------------------------
# How much each column matters: root mean squares of the derivatives of a fit on the first rows.
#
# Kernel ridge regression on some of the rows as points, with the Gaussian kernel at the median
# distance; its derivative along a column, squared and averaged over rows and outputs, is a
# diagonal entry of the average gradient outer product. Columns are multiplied by the root and the
# fit is made once more (two rounds), so that a column that says nothing hardly counts in
# distances.
#
# References: Radhakrishnan, Beaglehole, Pandit, Belkin, "Mechanism for feature learning in neural
# networks and backpropagation-free machine learning models", Science 2024; Beaglehole et al.,
# "xRFM", 2025.

Array = NDArray[np.float64]

#: Rounds, most points and rows of a fit, and its regularisation in rows.
ROUNDS, POINTS, ROWS, RELEVANCE_ALPHA = 2, 256, 1024, 1.0
#: Fewer rows than this many a column say too little about relevance: that of wide rows (categories
#: as zeros and ones) pays as soon as there are as many rows as columns.
ROWS_A_COLUMN = 1
#: Weights below this share of the largest count as this share.
SMALLEST = 0.02


def relevance(Z: Array, Y: Array, unit: float) -> Array:
    """Weights of the columns, the largest 1; all 1 where rows are too few.

    ``unit`` is the typical distance of the rows as they are.
    """
    weights = np.ones(Z.shape[1])
    squares = Z.var(axis=0)
    varied = squares > 0.0
    if len(Z) < max(64, ROWS_A_COLUMN * int(varied.sum())) or not Y.shape[1]:
        return weights
    Z, Y = Z[-ROWS:], Y[-ROWS:]
    points = Z[:: max(1, len(Z) // POINTS)][:POINTS]
    for _ in range(ROUNDS):
        slopes = derivative_sizes(Z * weights, Y, points * weights, unit)
        slopes = slopes * weights  # along the columns as they are
        if not slopes.max() > 0.0:
            return np.ones(Z.shape[1])
        before = squares @ weights**2
        # A column that was constant so far may matter when it changes.
        weights = np.where(varied, np.maximum(slopes / slopes.max(), SMALLEST), 1.0)
        unit *= float(np.sqrt(squares @ weights**2 / before))
    return weights


def derivative_sizes(Z: Array, Y: Array, points: Array, unit: float) -> Array:
    """Root mean square of the fit's derivative along each column, over rows and outputs."""
    kernel = Gaussian(unit)
    K, KP = kernel(Z, points), kernel(points, points)
    A = K.T @ K + RELEVANCE_ALPHA * KP + 1e-6 * np.eye(len(points))
    L = cholesky(A, "relevance matrix")
    coefficients = solve_lower(L, solve_lower(L, K.T @ Y), transposed=True)
    squares = np.zeros(Z.shape[1])
    for a in coefficients.T:
        W = K * a
        slopes = (W @ points - W.sum(axis=1)[:, None] * Z) / unit**2
        squares += np.mean(slopes * slopes, axis=0)
    return np.asarray(np.sqrt(squares / Y.shape[1]))


# ----------------------------------------------------------------------------------------
# What an expert looks at: which columns of a row, how long each, through which kernel.
#
#     plain       the columns as they are scaled, the kernel that was asked for
#     relevance   each column times how much it matters (`relevance`), the Laplacian kernel
#     past        the same with the last known targets (`past`) as further columns
#
# All experts that do not only guess are AWV learners on the features of a view at some bandwidth,
# on one dictionary: squared-loss Newton learners on shared points. Another view is another entry
# here. The second and third are there for the Gaussian kernel, the default; who asks for another
# kernel gets that one alone.

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


def views_of(kernel: Kernel) -> tuple[int, ...]:
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
    if RELEVANCE in views_of(kernel):
        settings.append(Setting(usual, ALPHA, None, RELEVANCE))
    return settings


def grid(
    kernel: Kernel, forgetting: bool = True, past: bool = False, few: bool = False
) -> list[Setting]:
    """All experts, or few; a kernel without a bandwidth has the alphas and windows alone."""
    if few:
        return few_experts(kernel, forgetting)
    settings = []
    for view in views_of(kernel):
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

    def snapshot(self, owner: Any) -> Any:
        return dict(owner.learners), [learner.snapshot() for learner in owner.learners.values()]

    def roll_back(self, owner: Any, snapshot: Any) -> None:
        owner.learners, held = snapshot
        for learner, state in zip(owner.learners.values(), held, strict=True):
            learner.roll_back(state)


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

    def snapshot(self) -> Any:
        return self.nystrom.snapshot(), super().snapshot()

    def roll_back(self, snapshot: Any) -> None:
        self.nystrom.roll_back(snapshot[0])
        super().roll_back(snapshot[1])

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


# ----------------------------------------------------------------------------------------
# Which experts go on, and the table that tells of all of them.


def best_settings(
    settings: list[Setting], active: list[int], losses: Array, stable: int
) -> list[int]:
    """The best settings that do not forget, and the best of each window, by recent loss.

    The one of half the leader's bandwidth is among them: it gains most by more points. Three or
    more are not all of one view: what another view sees is worth more to the mixture.
    """
    digits = np.round(losses / max(losses.max(), 1e-300), 9)  # rounding decides no tie
    order = [active[i] for i in np.argsort(digits, kind="stable")]
    ranked = [i for i in order if settings[i].window is None]
    chosen = ranked[:stable]
    leader = settings[chosen[0]]
    narrower = Setting(leader.factor / 2.0, leader.alpha, None, leader.view)
    if stable > 1 and narrower in [settings[i] for i in ranked[stable:]]:
        chosen[-1] = next(i for i in ranked if settings[i] == narrower)
    others = [i for i in ranked if settings[i].view != leader.view]
    if stable > 2 and others and not set(others) & set(chosen):
        chosen[-2] = others[0]
    for window in EXPERT_WINDOWS:
        chosen += [i for i in order if settings[i].window == window][:1]
    return chosen


def table_rows(
    settings: list[Setting], sizes: dict[int, int], units: dict[int, float]
) -> list[dict[str, Any]]:
    """A row a setting; ``sizes`` are the points of those active, ``units`` those of the views."""
    rows = []
    for i, setting in enumerate(settings):
        row = {**asdict(setting), "view": NAMES[setting.view], "points": sizes.get(i, 0)}
        rows.append({**row, "bandwidth": setting.factor * units[setting.view]})
    return rows


def with_weights(
    rows: list[dict[str, Any]], active: list[int], baselines: tuple[str, ...], mixture: Mixture
) -> list[dict[str, Any]]:
    """The rows of settings and of baselines, the heaviest first; those that sleep last."""
    weights, coefficients = mixture.weights, mixture.coefficients
    places: list[int | None] = [
        active.index(i) if i in active else None for i in range(len(rows))
    ] + list(range(len(active), len(active) + len(baselines)))
    none = dict.fromkeys(("factor", "alpha", "window", "bandwidth"))
    rows = [*rows, *({**none, "view": name, "points": 0} for name in baselines)]
    listed = [
        {
            **row,
            "active": place is not None,
            "weight": 0.0 if place is None else float(weights[place]),
            "coefficient": 0.0 if place is None else float(coefficients[place]),
        }
        for row, place in zip(rows, places, strict=True)
    ]
    return sorted(listed, key=lambda row: (-row["weight"], -row["active"]))
