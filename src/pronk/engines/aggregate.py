"""A grid of AWV learners on one dictionary, aggregated: the engine of the default learner.

Experts differ in bandwidth, alpha and window (`Setting`). Those of one bandwidth form a `Group`:
they share the kernel values and the Nystrom features; all groups share the points and, for kernels
of distances, the matrix of distances. Coordinates are nested, so an expert on fewer points reads
the first columns of its group's features. `Mixture` makes one prediction of theirs.

Everything that changes the set of points or experts happens at rows counted from the start of the
stream:

    row 8, 32, .., 512 scales and bandwidths are set from the rows so far, which are kept; fresh
                       experts take points from them and learn them again
    row 2048           once more, with the best few settings only and more points; the kept rows go
    every 256 rows     rows that asked to become points do, as far as cap(t) allows
    row 4096 .. 16384  the worst experts of the rows since the last such row sleep for good

Predictions of the first 8 rows are the mean of the targets before them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.engines.calibration import Intervals, Temperature
from pronk.engines.discounted import DiscountedNewton
from pronk.engines.mixture import WINDOWS as STACK_WINDOWS
from pronk.engines.mixture import Mixture
from pronk.engines.newton import Squared
from pronk.parts.embeddings import Nystrom
from pronk.parts.kernels import Kernel, Laplacian, UserKernel
from pronk.parts.linalg import GrowingRows, Workspace
from pronk.parts.randomness import KORS_COINS, Uniforms
from pronk.parts.scaling import FixedScale

Array = NDArray[np.float64]

#: Rows at which everything is set anew from the rows so far.
STAGES = (8, 32, 128, 512, 2048)
#: Rows between two changes of the dictionary.
EPOCH = 256
#: This many of the experts that do not forget come through the last stage,
SURVIVORS = 6
#: and this many stay awake after so many rows.
AWAKE = {4096: 5, 8192: 4, 16384: 3}
#: Most points of an expert that forgets: a window of rows cannot tell more of them apart.
FORGETFUL_POINTS = 100
#: Bandwidths, in medians of the distances between first rows.
FACTORS = (4.0, 2.0, 1.0, 0.5, 0.25)
ALPHAS = (1.0, 0.01)
#: Rows that a forgetting expert speaks of; such experts have two of the bandwidths.
WINDOWS = (1000, 100)
FORGETFUL_FACTORS = (4.0, 1.0)
FORGETFUL_ALPHA = 0.01
#: A row whose squared distance to the span is rho asks to become a point with probability
#: rho / (rho + GAMMA).
GAMMA = 1e-3
#: Stream of random numbers for the order in which first rows are tried as points.
ORDER = 4


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


def cap(rows: int, budget: int) -> int:
    """Most points after so many rows: the square root keeps late rows a share of the points."""
    return min(budget, rows // 2, int(8.0 * np.sqrt(rows)))


def typical_distance(kernel: Kernel, Z: Array) -> float:
    """The median distance between first rows, in the unit of the kernel's bandwidth."""
    rows = np.unique(Z[:: max(1, len(Z) // 256)], axis=0)
    if len(rows) < 2:
        return 1.0
    values = kernel.distances(rows, rows)[np.triu_indices(len(rows), 1)]
    median = float(np.median(values))
    return median if isinstance(kernel, Laplacian) else float(np.sqrt(median))


class Group:
    """The experts of one bandwidth: their kernel, their features and their learners."""

    limit: int  # most points

    def __init__(self, kernel: Kernel, factor: float, unit: float) -> None:
        self.factor = factor
        self.kernel = kernel
        if hasattr(kernel, "bandwidth"):
            self.kernel = type(kernel)(**{**kernel.get_params(), "bandwidth": factor * unit})
        self.nystrom = Nystrom()
        self.learners: dict[int, DiscountedNewton] = {}  # by number of the setting

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


class Experts:
    """All awake experts on one dictionary, from calibrated scales on."""

    def __init__(
        self, kernel: Kernel, settings: list[Setting], unit: float, outputs: int, budget: int,
        seed: int, limits: Array, signed: bool, columns: int, forgetting: bool,
    ) -> None:  # fmt: skip
        self.kernel, self.settings, self.unit = kernel, settings, unit
        self.budget, self.outputs = budget, outputs
        self._awake = list(range(len(settings)))
        self._groups: list[Group] = []
        for factor in sorted({setting.factor for setting in settings}, reverse=True):
            group = Group(kernel, factor, unit)
            for i, setting in enumerate(settings):
                if setting.factor == factor:
                    group.learners[i] = DiscountedNewton(
                        Squared(True), setting.alpha, 0, outputs, setting.window
                    )
            self._groups.append(group)
        self._set_limits()
        windows = STACK_WINDOWS if forgetting else (0.0,)
        self.mixture = Mixture(len(settings), limits, signed, windows)
        self._points = GrowingRows(columns)
        self._uniforms = Uniforms(seed, KORS_COINS)
        self._waiting = GrowingRows(columns + 1)  # candidates and their uniforms
        self._rows = 0
        self._memory = Workspace()

    @property
    def points(self) -> Array:
        return self._points.values

    # -- learning ---------------------------------------------------------------------------

    def learn(self, Z: Array, Y: Array, *, fixed: bool = False) -> Array:
        """Predict then learn; ``fixed`` keeps the points and experts as they are."""
        out = np.empty(Y.shape)
        start = 0
        while start < len(Z):
            stop = min(len(Z), start + EPOCH - self._rows % EPOCH)
            rows = slice(start, stop)
            out[rows] = self._learn_rows(Z[rows], Y[rows], fixed)
            self._rows += stop - start
            if self._rows % EPOCH == 0 and not fixed:
                self._end_epoch()
            start = stop
        return out

    def _learn_rows(self, Z: Array, Y: Array, fixed: bool) -> Array:
        P = np.empty((len(Z), len(self._awake), self.outputs))
        uniforms = self._uniforms.take(len(Z))
        open_to_points = not fixed and self._room() > 0
        place = {number: i for i, number in enumerate(self._awake)}
        for group, Phi in self._features(Z):
            for number, learner in group.learners.items():
                P[:, place[number]] = learner.learn(Phi[:, : learner.size], Y)
            if open_to_points and group.factor == self._reference:
                rho = group.kernel.diagonal(Z) - np.einsum("ij,ij->i", Phi, Phi)
                asking = uniforms * (rho + GAMMA) < rho
                self._waiting.append(np.column_stack((Z[asking], uniforms[asking])))
        return self.mixture.learn(P, Y)

    def _features(self, Z: Array) -> Any:
        """Each group with the features of the rows; distances are computed once."""
        points = self.points
        if not hasattr(self.kernel, "bandwidth"):
            for group in self._groups:
                yield group, group.features(group.kernel(Z, points))
            return
        shape = (len(Z), len(points))
        distances = self.kernel.distances(Z, points, self._memory.take("distances", *shape))
        for group in self._groups:
            first = group.nystrom.points
            values = self._memory.take("values", len(Z), first)
            values[:] = distances[:, :first]
            yield group, group.features(group.kernel.from_distances(values))

    # -- points -----------------------------------------------------------------------------

    def _room(self) -> int:
        return cap(self._rows, self.budget) - self._points.size

    def take_points(self, Z: Array, uniforms: Array, room: int) -> None:
        """Try rows as points, in order, by the reference group; all groups take those that enter.

        A row enters when its uniform is below rho / (rho + GAMMA), rho its squared distance to the
        span of the points before it.
        """
        reference = next(g for g in self._groups if g.factor == self._reference)
        entered: list[int] = []
        diagonal = reference.kernel.diagonal(Z)
        for row in range(len(Z)):
            if len(entered) >= room:
                break
            values = reference.kernel(Z[row : row + 1], self.points)
            phi = reference.features(values)[0].copy()
            rho = diagonal[row] - phi @ phi
            if uniforms[row] * (rho + GAMMA) < rho:
                self._points.append(Z[row : row + 1])
                reference.nystrom.grow(phi, diagonal[row])
                entered.append(row)
        if not entered:
            return
        new = Z[entered]
        for group in self._groups:
            if group is not reference:
                self._extend(group, new)
            group.grow()

    def _extend(self, group: Group, new: Array) -> None:
        """A group's span takes in the newest points, as far as its limit goes."""
        count = self._points.size
        for i, z in enumerate(new[:, None]):
            if group.nystrom.size >= group.limit:
                return
            known = count - len(new) + i
            if group.nystrom.points < known:
                return  # it was full before
            phi = group.features(group.kernel(z, self.points[:known]))[0].copy()
            group.nystrom.grow(phi, group.kernel.diagonal(z)[0])

    def _end_epoch(self) -> None:
        waiting = self._waiting.values
        if len(waiting):
            rows = np.ascontiguousarray(waiting[:, :-1])
            self.take_points(rows, waiting[:, -1].copy(), self._room())
            self._waiting = GrowingRows(self._waiting.columns)
        if self._rows in AWAKE:
            self._sleep(self.best(AWAKE[self._rows]))

    # -- sleep ------------------------------------------------------------------------------

    def best(self, stable: int) -> list[int]:
        """The best settings that do not forget, and the best of each window, by recent loss.

        The one of half the leader's bandwidth is among them: it gains most by more points.
        """
        order = [self._awake[i] for i in np.argsort(self.mixture.losses, kind="stable")]
        ranked = [i for i in order if self.settings[i].window is None]
        chosen = ranked[:stable]
        leader = self.settings[chosen[0]]
        narrower = Setting(leader.factor / 2.0, leader.alpha)
        if stable > 1 and narrower in [self.settings[i] for i in ranked[stable:]]:
            chosen[-1] = next(i for i in ranked if self.settings[i] == narrower)
        for window in WINDOWS:
            chosen += [i for i in order if self.settings[i].window == window][:1]
        return chosen

    def _sleep(self, kept: list[int]) -> None:
        """Only these go on; the losses start again."""
        places = [i for i, number in enumerate(self._awake) if number in kept]
        self._awake = [self._awake[i] for i in places]
        self.mixture.keep(places)
        for group in self._groups:
            group.learners = {i: m for i, m in group.learners.items() if i in kept}
        self._groups = [group for group in self._groups if group.learners]
        self._set_limits()

    def _set_limits(self) -> None:
        """How many points each group uses, and the group that chooses them: the narrowest."""
        for group in self._groups:
            stable = any(self.settings[i].window is None for i in group.learners)
            group.limit = self.budget if stable else min(self.budget, FORGETFUL_POINTS)
            group.shrink()
        self._reference = min(g.factor for g in self._groups if g.limit == self.budget)

    # -- the current model --------------------------------------------------------------------

    def predict(self, Z: Array) -> Array:
        P = np.empty((len(Z), len(self._awake), self.outputs))
        for group, Phi in self._features(Z):
            for number, learner in group.learners.items():
                P[:, self._awake.index(number)] = learner.predict(
                    np.ascontiguousarray(Phi[:, : learner.size])
                )
        return self.mixture.predict(P)

    def variance(self, Z: Array) -> Array:
        """The leverage of rows for the expert with the largest weight."""
        leader = self._awake[int(np.argmax(self.mixture.weights))]
        for group, Phi in self._features(Z):
            if leader in group.learners:
                learner = group.learners[leader]
                return learner.variance(np.ascontiguousarray(Phi[:, : learner.size]))
        raise AssertionError("the leader is awake")

    def table(self) -> list[dict[str, Any]]:
        """The experts, the heaviest first; those that sleep last."""
        weights = dict(zip(self._awake, self.mixture.weights, strict=True))
        coefficients = dict(zip(self._awake, self.mixture.coefficients, strict=True))
        sizes = {i: m.size for group in self._groups for i, m in group.learners.items()}
        rows = [
            {
                **asdict(setting),
                "bandwidth": setting.factor * self.unit,
                "points": sizes.get(i, 0),
                "awake": i in weights,
                "weight": float(weights.get(i, 0.0)),
                "coefficient": float(coefficients.get(i, 0.0)),
            }
            for i, setting in enumerate(self.settings)
        ]
        return sorted(rows, key=lambda row: (-row["weight"], -row["awake"]))

    def remap(self, matrix: Array) -> None:
        self.outputs = matrix.shape[1]
        for group in self._groups:
            for learner in group.learners.values():
                learner.remap(matrix)
        self.mixture.remap(matrix)

    # -- state ------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        return {
            "awake": list(self._awake),
            "groups": [
                {
                    "factor": group.factor,
                    "nystrom": group.nystrom.to_state(),
                    "learners": {str(i): m.to_state() for i, m in group.learners.items()},
                }
                for group in self._groups
            ],
            "mixture": self.mixture.to_state(),
            "points": self._points.to_state(),
            "uniforms": self._uniforms.to_state(),
            "waiting": self._waiting.to_state(),
            "rows": self._rows,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self._awake = list(state["awake"])
        groups = {group.factor: group for group in self._groups}
        self._groups = []
        for saved in state["groups"]:
            group = groups[saved["factor"]]
            group.nystrom.restore(saved["nystrom"])
            group.learners = {int(i): group.learners[int(i)] for i in saved["learners"]}
            for i, learner in group.learners.items():
                learner.restore(saved["learners"][str(i)])
            self._groups.append(group)
        self._set_limits()
        self.mixture.restore(state["mixture"])
        self._points = GrowingRows.from_state(state["points"])
        self._uniforms = Uniforms.from_state(state["uniforms"])
        self._waiting = GrowingRows.from_state(state["waiting"])
        self._rows = state["rows"]


class OnlineKernel:
    """Scales, stages, experts and calibration: rows and targets as they come."""

    def __init__(
        self, kernel: Kernel, columns: int, outputs: int, budget: int, seed: int, signed: bool,
        forgetting: bool = True,
    ) -> None:  # fmt: skip
        self.kernel, self.columns, self.outputs = kernel, columns, outputs
        self.budget, self.seed, self.signed = budget, seed, signed
        self.forgetting = forgetting
        self._rows = 0
        self._sums = np.zeros(outputs)
        self._first_X, self._first_Y = GrowingRows(columns), GrowingRows(outputs)
        self._scale: FixedScale | None = None
        self._level = np.zeros(outputs)
        self._size = np.ones(outputs)
        self.experts: Experts | None = None
        self.intervals = Intervals(outputs)
        self.temperature = Temperature(outputs)
        self.last_widths = np.empty((0, 0, outputs))

    @property
    def points(self) -> Array:
        """The dictionary, in the scaled units the kernel sees."""
        return np.empty((0, self.columns)) if self.experts is None else self.experts.points

    # -- learning ---------------------------------------------------------------------------

    def learn(self, X: Array, Y: Array) -> Array:
        """Predict then learn each row."""
        out = np.empty((len(X), self.outputs))
        widths = []
        start = 0
        while start < len(X):
            stop = len(X)
            for stage in STAGES:
                if self._rows < stage:
                    stop = min(stop, start + stage - self._rows)
                    break
            rows = slice(start, stop)
            out[rows] = self._learn_rows(X[rows], Y[rows])
            if self.signed:
                self.temperature.learn(out[rows], Y[rows])
            else:
                widths.append(self.intervals.learn(out[rows], Y[rows]))
            self._rows += stop - start
            if self._rows in STAGES:
                self._set_stage()
            start = stop
        self.last_widths = np.concatenate(widths) if widths else self.last_widths
        return out

    def _learn_rows(self, X: Array, Y: Array) -> Array:
        if self._rows < STAGES[-1]:
            self._first_X.append(X)
            self._first_Y.append(Y)
        if self.experts is not None:
            Z = self._scaled(X, learn=True)
            return self.experts.learn(Z, (Y - self._level) / self._size) * self._size + self._level
        sums = np.cumsum(np.vstack((self._sums, Y)), axis=0)
        self._sums = sums[-1]
        counts = np.arange(self._rows, self._rows + len(Y))
        return np.asarray(sums[:-1] / np.maximum(counts, 1)[:, None])

    def _scaled(self, X: Array, *, learn: bool = False) -> Array:
        """Rows as the kernel sees them; a user's function gets them as they are."""
        if self._scale is None:
            return X
        return self._scale.learn_transform(X) if learn else self._scale.transform(X)

    def _set_stage(self) -> None:
        """Scales, bandwidths, points and experts anew from the rows so far, which they learn."""
        X, Y = self._first_X.values, self._first_Y.values
        n = len(X)
        settings = grid(self.kernel, self.forgetting)
        if n == STAGES[-1] and self.experts is not None:
            chosen = self.experts.best(SURVIVORS)
            settings = [self.experts.settings[i] for i in sorted(chosen)]
        if not isinstance(self.kernel, UserKernel):
            self._scale = FixedScale(X)
        Z = self._scaled(X)
        if not self.signed:
            self._level, deviation = Y.mean(axis=0), Y.std(axis=0)
            self._size = np.where(deviation > 1e-12 * np.abs(self._level), deviation, 1.0)
        targets = (Y - self._level) / self._size
        unit = 1.0
        if hasattr(self.kernel, "bandwidth"):
            unit = float(self.kernel.bandwidth) * typical_distance(self.kernel, Z)
        self.experts = self._make_experts(settings, unit, self._limits(targets))
        order = np.random.default_rng([self.seed, ORDER]).permutation(n)
        uniforms = Uniforms(self.seed, KORS_COINS).take(n)
        self.experts.take_points(
            np.ascontiguousarray(Z[order]), uniforms[order], cap(n, self.budget)
        )
        self.experts.learn(np.ascontiguousarray(Z), targets, fixed=True)
        self.experts.mixture.losses[:] = 0.0  # only predictions of new rows count
        if n == STAGES[-1]:
            self._first_X, self._first_Y = GrowingRows(self.columns), GrowingRows(self.outputs)

    def _limits(self, targets: Array) -> Array:
        if self.signed:
            return np.tile([[-1.0], [1.0]], (1, self.outputs))
        return np.stack((targets.min(axis=0), targets.max(axis=0)))

    def _make_experts(self, settings: list[Setting], unit: float, limits: Array) -> Experts:
        return Experts(
            self.kernel, settings, unit, self.outputs, self.budget, self.seed, limits, self.signed,
            self.columns, self.forgetting,
        )  # fmt: skip

    # -- the current model --------------------------------------------------------------------

    def predict(self, X: Array) -> Array:
        """What each row would be predicted if it came next."""
        if self.experts is None:
            return np.tile(self._sums / max(self._rows, 1), (len(X), 1))
        parts = [
            self.experts.predict(self._scaled(X[i : i + EPOCH])) for i in range(0, len(X), EPOCH)
        ]
        return np.asarray(np.concatenate(parts) * self._size + self._level)

    def deviation(self, X: Array) -> Array:
        """Standard deviation of y around each prediction, (n, outputs)."""
        spread = self.intervals.deviation
        if self.experts is None:
            return np.tile(spread, (len(X), 1))
        parts = [
            self.experts.variance(self._scaled(X[i : i + EPOCH])) for i in range(0, len(X), EPOCH)
        ]
        return np.asarray(np.sqrt(1.0 + np.concatenate(parts))[:, None] * spread)

    def remap(self, matrix: Array) -> None:
        self.outputs = matrix.shape[1]
        self._sums = self._sums @ matrix
        self._first_Y.remap(matrix)
        self._level, self._size = np.zeros(self.outputs), np.ones(self.outputs)
        if self.experts is not None:
            self.experts.remap(matrix)
        self.temperature.remap(matrix)

    # -- state ------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        state: dict[str, Any] = {
            "rows": self._rows,
            "sums": self._sums.copy(),
            "first_X": self._first_X.to_state(),
            "first_Y": self._first_Y.to_state(),
            "level": self._level.copy(),
            "size": self._size.copy(),
            "intervals": self.intervals.to_state(),
            "temperature": self.temperature.to_state(),
        }
        if self._scale is not None:
            state["scale"] = self._scale.to_state()
        if self.experts is not None:
            state["settings"] = [asdict(setting) for setting in self.experts.settings]
            state["unit"] = self.experts.unit
            state["experts"] = self.experts.to_state()
        return state

    def restore(self, state: dict[str, Any]) -> None:
        self._rows = state["rows"]
        self._sums = np.array(state["sums"])
        self._first_X = GrowingRows.from_state(state["first_X"])
        self._first_Y = GrowingRows.from_state(state["first_Y"])
        self._level, self._size = np.array(state["level"]), np.array(state["size"])
        self.intervals.restore(state["intervals"])
        self.temperature.restore(state["temperature"])
        if "scale" in state:
            self._scale = FixedScale.from_state(state["scale"])
        if "experts" in state:
            settings = [Setting(**values) for values in state["settings"]]
            limits = np.zeros((2, self.outputs))
            self.experts = self._make_experts(settings, state["unit"], limits)
            self.experts.restore(state["experts"])
