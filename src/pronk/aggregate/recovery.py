"""The default learner: an inner learner (`learner.OnlineKernel`), calibrated.

Intervals and probabilities follow the final prediction and targets as given.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.calibration import Intervals, Temperature
from pronk.aggregate.certificate import MixtureCertificate
from pronk.aggregate.experts import Experts
from pronk.aggregate.learner import STAGES, LearnExperts, OnlineKernel
from pronk.core.kernels import Kernel
from pronk.core.linalg import recombined
from pronk.core.state import Count, Numbers, Part, Sizes, Stateful, Unsaved, require

Array = NDArray[np.float64]


class RecoveringKernel(Stateful):
    """The inner learner and the calibration of its predictions."""

    def __init__(
        self, kernel: Kernel, columns: int, outputs: int, budget: int, seed: int, signed: bool,
        forgetting: bool = True, few: bool = False, memory: int = 0, delay: int = 0,
    ) -> None:  # fmt: skip
        self.delay = delay
        self._late = np.empty(
            (3, 0, outputs)
        )  # P, scales, Y of rows whose targets have not arrived
        self.columns, self.outputs, self.signed = columns, outputs, signed
        self._make = partial(
            OnlineKernel, kernel, columns, budget=budget, seed=seed, signed=signed,
            forgetting=forgetting, few=few, memory=memory, delay=delay,
        )  # fmt: skip
        self.incumbent = self._make(outputs=outputs)
        self.intervals = Intervals(outputs)
        self.temperature = Temperature(outputs)
        self.last_widths = np.empty((0, 0, outputs))
        self.last_slopes = np.empty((0, 2))
        self._rows = 0

    @property
    def experts(self) -> Experts | None:
        """Experts of the incumbent; None before the first stage."""
        return self.incumbent.experts

    @property
    def points(self) -> Array:
        """Points of the incumbent's dictionary, scaled as the kernel reads them."""
        return self.incumbent.points

    @property
    def late_targets(self) -> Array:
        """Targets (rows, outputs) that have not arrived."""
        return np.asarray(self._late[2])

    def known_classes(self, ones: int, classes: int) -> NDArray[np.bool_]:
        """Return which of so many classes have arrived; ``ones`` outputs come before theirs."""
        return self.temperature.known_classes(ones, classes)

    # -- learning ---------------------------------------------------------------------------

    def learn(self, X: Array, Y: Array, learn_experts: LearnExperts | None = None) -> Array:
        """Predict then learn each row; ``learn_experts`` replaces `Experts.learn`."""
        P, scales = self.incumbent.learn(X, Y, learn_experts)
        self._calibrate(P, scales, Y)
        return P

    def _calibrate(self, P: Array, scales: Array, Y: Array) -> None:
        """Track the errors of predictions; keep the half-widths or slopes before each row.

        With a delay the errors are those of the predictions whose targets arrive.
        """
        held = np.concatenate((self._late, (P, scales, Y)), axis=1)
        count = max(0, held.shape[1] - self.delay)
        self._late = held[:, count:].copy()
        old, early = held[:, :count], len(P) - count
        if self.signed:
            slopes = np.tile(self.temperature.slopes, (early, 1))
            slopes = np.concatenate((slopes, self.temperature.learn(old[0], old[2])))
            self.last_slopes = slopes
            self._rows += count
            return
        widths, start = [self.intervals.current(P[:early], scales[:early])], 0
        # Errors of predictions made before any target are not counted; after eight more rows
        # errors are in units of the error scale.
        first = self.delay + 1
        while start < count:
            cuts = [first, first + STAGES[0] - 1, self._rows + count - start]
            stop = start + next(cut for cut in cuts if cut > self._rows) - self._rows
            rows = slice(start, min(stop, count))
            shown = slice(early + rows.start, early + rows.stop)
            if self._rows >= first:
                own, own_scales, targets = old[:, rows]
                widths.append(
                    self.intervals.learn_late(own, own_scales, targets, P[shown], scales[shown])
                    if self.delay
                    else self.intervals.learn(own, own_scales, targets)
                )
            else:
                widths.append(np.full((shown.stop - shown.start, *widths[0].shape[1:]), np.nan))
            self._rows += rows.stop - start
            if self._rows == first + STAGES[0] - 1:
                self.intervals.start()  # from now on in units of the error scale
            start = rows.stop
        self.last_widths = np.concatenate(widths)

    # -- the current model --------------------------------------------------------------------

    def predict(self, X: Array) -> Array:
        """Predict rows that may come next."""
        return self._predict(X)[0]

    def _predict(self, X: Array) -> tuple[Array, Array]:
        """Predict rows that may come next; return predictions and error scales, (n, outputs)."""
        return self.incumbent.predict(X)

    def half_widths(self, X: Array, coverage: float) -> tuple[Array, Array]:
        """Return predictions and half-widths of their intervals, (n, outputs)."""
        P, scales = self._predict(X)
        return P, self.intervals.half_widths(P, scales, coverage)

    def deviation(self, X: Array) -> Array:
        """Return the standard deviation of y around each prediction, (n, outputs)."""
        scales = self._predict(X)[1] * self.intervals.deviation
        return np.asarray(np.sqrt(1.0 + self.incumbent.variance(X))[:, None] * scales)

    def certificate(self, output: int = 0) -> MixtureCertificate:
        """Return that of the mixture over all outputs; early rows as they were learned again."""
        return self.incumbent.certificate()

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self.outputs = matrix.shape[1]
        self.incumbent.remap(matrix)
        self.temperature.remap(matrix)
        self._late = recombined(self._late, matrix)

    # -- state ------------------------------------------------------------------------------

    STATE = (
        Count("rows"),
        Part("incumbent", "incumbent"),
        Numbers("late", (3, "late", "outputs"), written="replaced"),
        Part("intervals", "intervals", sizes={"outputs": "followed"}),
        Part("temperature", "temperature"),
        Unsaved("outputs"),
        Unsaved("last_widths"),
        Unsaved("last_slopes"),
    )

    def _restored(self, sizes: Sizes) -> None:
        # With labels the intervals are never used.
        require(
            self.signed or sizes["followed"] == self.outputs, "intervals do not fit the outputs"
        )
        require(self._rows == self.incumbent.rows, "rows is not that of the incumbent")
