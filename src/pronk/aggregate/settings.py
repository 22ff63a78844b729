"""The experts' settings: what each reads, with which kernel, bandwidth, alpha and window.

**Views.** A view is the columns that a kernel reads, and the weight of each:

    plain       the columns as scaled, the user's kernel
    relevance   each column times its relevance (`representation`), the Laplacian kernel
    past        the same with lagged targets (`baselines.Past`) as further columns
    directions  the directions that matter (`representation.FullMetric`), the Gaussian kernel

All experts except baselines and linear experts are ridge regressions in the features of a view at
some bandwidth, on one dictionary: squared-loss Newton learners on shared points. A new view is a
new entry here. All but the first exist for the Gaussian kernel, the default; with another kernel
all experts use that kernel on the plain view.

**Grid.** A `Setting` is a view, bandwidth, alpha and window. Experts of one view and bandwidth form
a `Group`: they share kernel values and Nystrom features. Coordinates are nested, so an expert on
fewer points reads the first columns of its group's features.

**Selection** (`best_settings`): which experts stay active, by recent loss.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import Past
from pronk.aggregate.mixture import Mixture
from pronk.aggregate.representation import (
    DIRECTIONS,
    FullMetric,
    full_metric,
    relevance,
    typical_distance,
)
from pronk.core.features import Nystrom
from pronk.core.kernels import Gaussian, Kernel, Laplacian
from pronk.core.state import Numbers, Part, Sizes, Stateful, Unsaved, require
from pronk.newton.forecaster import weighted_sums

Array = NDArray[np.float64]

# -- views ------------------------------------------------------------------------------------

#: Numbers of the views.
PLAIN, RELEVANCE, PAST, FULL = 0, 1, 2, 3
NAMES = ("plain", "relevance", "past", "directions")
#: No weight is larger, up to rounding.
WIDEST = 1.0 + 1e-9


class View(Stateful):
    """Weights of the first columns of a row, their kernel, and their typical distance ``unit``.

    ``weights`` (columns, 1), or (columns, m) of m directions.
    """

    def __init__(self, number: int, kernel: Kernel, weights: Array, unit: float) -> None:
        self.number, self.kernel, self.unit = number, kernel, unit
        self.weights = weights if weights.ndim == 2 else weights[:, None]
        self.has_bandwidth = hasattr(kernel, "bandwidth")

    def rows(self, Z: Array) -> Array:
        """Return rows Z, with or without lagged targets, as the kernel reads them."""
        seen = Z[:, : len(self.weights)]
        if self.number == FULL:
            out = np.empty((len(Z), self.weights.shape[1]))
            weighted_sums(np.ascontiguousarray(seen), self.weights, out)
            return out
        if self.number == PLAIN:
            return np.ascontiguousarray(seen)
        return np.ascontiguousarray(seen * self.weights[:, 0])

    STATE = (
        Numbers(
            "weights", ("read", "directions"), "weights", low=-WIDEST, high=WIDEST,
            written="replaced",
        ),
    )  # fmt: skip

    def _restored(self, sizes: Sizes) -> None:
        most = DIRECTIONS if self.number == FULL else 1
        require(sizes["directions"] <= most, "weights have too many directions")


def views_of(kernel: Kernel) -> tuple[int, ...]:
    """Return the views that the experts of a kernel may have."""
    return (PLAIN,) if kernel.rate is None else (PLAIN, RELEVANCE, PAST, FULL)


def empty_views(kernel: Kernel, numbers: list[int], units: list[float]) -> list[View]:
    """Return views whose weights are restored later."""
    return [
        View(number, kernel_of(number, kernel), np.zeros(0), unit)
        for number, unit in zip(numbers, units, strict=True)
    ]


def kernel_of(number: int, kernel: Kernel) -> Kernel:
    """Return the kernel of a view, if that of the plain one is ``kernel``."""
    if number == PLAIN:
        return kernel
    return Gaussian() if number == FULL else Laplacian()


def make_views(
    kernel: Kernel, numbers: list[int], Z: Array, Y: Array, past: Past, seed: int,
    metric: FullMetric | None = None,
) -> list[View]:  # fmt: skip
    """Return the views for first rows Z (n, columns) with targets Y (n, outputs).

    ``metric`` is their full metric, if it is known.
    """
    unit = 1.0
    if hasattr(kernel, "bandwidth"):
        unit = float(kernel.bandwidth) * typical_distance(kernel, Z)
    views = [View(PLAIN, kernel, np.ones(Z.shape[1]), unit)]
    for number in numbers:
        if number == PLAIN:
            continue
        read = np.hstack((Z, past.columns_of(Y))) if number == PAST else Z
        if number == FULL:
            metric = metric or full_metric(read, past.informative(Y), seed)
            weights = metric.directions(read.shape[1])
            unit = typical_distance(Gaussian(), read @ weights)
            views.append(View(number, Gaussian(), weights, unit))
            continue
        weights = relevance(read, past.informative(Y), seed)
        unit = typical_distance(Laplacian(), read * weights)
        views.append(View(number, Laplacian(), weights, unit))
    return views


# -- grid -------------------------------------------------------------------------------------

#: Bandwidths of each view in typical distances, those of its discounted experts, and alpha.
FACTORS = {PLAIN: (4.0, 1.0), RELEVANCE: (4.0,), PAST: (4.0,), FULL: (2.0, 1.0, 0.5)}
FORGETFUL_FACTORS = {PLAIN: (), RELEVANCE: (4.0,), PAST: (4.0,), FULL: (2.0,)}
ALPHA = 0.001
#: A narrow bandwidth with a large alpha, on the plain view: it learns most where classes are many.
SMOOTH_FACTOR, SMOOTH_ALPHA = 0.25, 1.0
#: Windows of discounted experts in rows.
EXPERT_WINDOWS = (100,)
#: Bandwidths of a model with few experts.
FEW_FACTORS = (4.0, 1.0)
#: Most points of a discounted expert: a window of rows does not determine more coefficients.
FORGETFUL_POINTS = 100


@dataclass(frozen=True)
class Setting:
    """One expert: bandwidth in typical distances, alpha, window in rows (None: all rows), view."""

    factor: float
    alpha: float
    window: int | None = None
    view: int = PLAIN

    @property
    def key(self) -> tuple[int, float]:
        """That of the expert's group."""
        return self.view, self.factor


def few_experts(kernel: Kernel, forgetting: bool = True) -> list[Setting]:
    """Return the settings of a small model: wide, typical, discounted, and by relevance."""
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
    """Return all settings, or few; a kernel without a bandwidth varies alpha and window only."""
    if few:
        return few_experts(kernel, forgetting)
    views, settings = views_of(kernel), []
    for view in views:
        if view == PAST and not past:
            continue
        factors: tuple[float, ...] = FACTORS[view]
        forgetful: tuple[float, ...] = FORGETFUL_FACTORS[view]
        if len(views) == 1:
            factors = forgetful = factors if hasattr(kernel, "bandwidth") else (1.0,)
        if view == PLAIN and hasattr(kernel, "bandwidth"):
            settings.append(Setting(SMOOTH_FACTOR, SMOOTH_ALPHA))
        settings += [Setting(f, ALPHA, None, view) for f in factors]
        if forgetting:
            settings += [Setting(f, ALPHA, w, view) for f in forgetful for w in EXPERT_WINDOWS]
    return settings


class Group(Stateful):
    """The features of experts of one view and bandwidth: a kernel and the span of the points."""

    limit: int  # most points

    def __init__(self, view: View, factor: float) -> None:
        self.view, self.factor = view, factor
        self.kernel = kernel = view.kernel
        if hasattr(kernel, "bandwidth"):
            self.kernel = type(kernel)(**{**kernel.get_params(), "bandwidth": factor * view.unit})
        self.nystrom = Nystrom()

    # The span is not saved: it is computed from the points (`Experts.extend_spans`).
    STATE = (Part("nystrom", "nystrom", saved=False), Unsaved("limit"))

    @property
    def key(self) -> tuple[int, float]:
        """Number of the view, and the bandwidth in typical distances."""
        return self.view.number, self.factor

    def features(self, Z: Array, points: Array) -> Array:
        """Return features (n, r) of rows Z; no bit depends on other rows.

        ``points``, as the view reads them, are those of the span, or more behind them.
        """
        rows, points = self.view.rows(Z), points[: self.nystrom.points]
        K = np.empty((len(rows), len(points)))
        if self.view.has_bandwidth:
            K = self.kernel.from_distances(self.kernel.distances_of_each(rows, points, K))
        else:
            for i in range(len(rows)):
                K[i] = self.kernel(rows[i : i + 1], points)[0]
        return self.nystrom.transform_each(K)

    def offer(
        self,
        new: Array,
        points: Array,
        room: int,
        uniforms: Array | None = None,
        gamma: float = 0.0,
    ) -> NDArray[np.intp]:
        """Offer rows to the span of the points (`Nystrom.offer`); return those that enter."""
        rows = self.view.rows(new)
        K, corner = self.kernel(rows, self.view.rows(points)), self.kernel(rows, rows)
        return self.nystrom.offer(K, corner, room, self.limit, uniforms, gamma)

    def diagonal(self, Z: Array) -> Array:
        """Return k(z, z) of each row, (n,)."""
        return self.kernel.diagonal(self.view.rows(Z))

    def shrink(self) -> None:
        """Drop the coordinates beyond the limit."""
        if self.nystrom.size > self.limit:
            state = self.nystrom.to_state()
            left = self.limit * (self.limit + 1) // 2  # entries of a triangle
            state["factor"]["factor"] = state["factor"]["factor"][:left]
            state["used"] = state["used"][: self.limit]
            state["points"] = int(state["used"][-1]) + 1
            self.nystrom.restore(state)


# -- selection --------------------------------------------------------------------------------


def best_settings(
    settings: list[Setting], active: list[int], losses: Array, stable: int
) -> list[int]:
    """Return the ``stable`` best settings without window, and the best of each window, by loss.

    ``losses`` (active,) are recent losses of the settings with numbers ``active``. The setting with
    half the best one's bandwidth is included: it gains most from more points. Three or more
    settings are not all of one view: another view adds more to the mixture.
    """
    digits = np.round(losses / max(losses.max(), 1e-300), 9)  # ties do not depend on rounding
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


def expert_table(
    settings: list[Setting],
    active: list[int],
    sizes: dict[int, int],
    units: dict[int, float],
    baselines: tuple[str, ...],
    mixture: Mixture,
) -> list[dict[str, Any]]:
    """Return one row per expert, the largest weight first and dropped experts last.

    ``sizes`` are the points of the active settings by number, ``units`` the typical distances of
    the views by number; the baselines' predictions come after those of active settings.
    """
    weights, coefficients = mixture.weights, mixture.coefficients
    rows: list[tuple[dict[str, Any], int | None]] = []
    for i, setting in enumerate(settings):
        row = {"kind": "kernel", **asdict(setting), "view": NAMES[setting.view]}
        row["points"] = sizes.get(i, 0)
        row["bandwidth"] = setting.factor * units[setting.view]
        rows.append((row, active.index(i) if i in active else None))
    for place, name in enumerate(baselines, start=len(active)):
        none = dict.fromkeys(("factor", "alpha", "window", "bandwidth"))
        rows.append(({"kind": "baseline", **none, "view": name, "points": 0}, place))
    listed = [
        {
            **row,
            "active": place is not None,
            "weight": 0.0 if place is None else float(weights[place]),
            "coefficient": 0.0 if place is None else float(coefficients[place]),
        }
        for row, place in rows
    ]
    return sorted(listed, key=lambda row: (-row["weight"], -row["active"]))
