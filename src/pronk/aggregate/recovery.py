"""The default learner: an inner learner (`learner.OnlineKernel`), calibrated.

Intervals and probabilities follow the final prediction and targets as given.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.calibration import COVERAGES, Intervals, Temperature
from pronk.aggregate.certificate import MixtureCertificate
from pronk.aggregate.experts import Experts
from pronk.aggregate.learner import STAGES, LearnExperts, OnlineKernel
from pronk.core.kernels import Kernel
from pronk.core.state import Count, Part, Sizes, Stateful, Unsaved, require

Array = NDArray[np.float64]


class RecoveringKernel(Stateful):
    """The inner learner and the calibration of its predictions."""

    def __init__(
        self, kernel: Kernel, columns: int, outputs: int, budget: int, seed: int, signed: bool,
        forgetting: bool = True, few: bool = False, memory: int = 0,
    ) -> None:  # fmt: skip
        self.columns, self.outputs, self.signed = columns, outputs, signed
        self._make = partial(
            OnlineKernel, kernel, columns, budget=budget, seed=seed, signed=signed,
            forgetting=forgetting, few=few, memory=memory,
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

    # -- learning ---------------------------------------------------------------------------

    def learn(self, X: Array, Y: Array, learn_experts: LearnExperts | None = None) -> Array:
        """Predict then learn each row; ``learn_experts`` replaces `Experts.learn`."""
        P, scales = self.incumbent.learn(X, Y, learn_experts)
        self._calibrate(P, scales, Y)
        return P

    def _calibrate(self, P: Array, scales: Array, Y: Array) -> None:
        """Track the errors of predictions; keep the half-widths or slopes before each row."""
        if self.signed:
            self.last_slopes = self.temperature.learn(P, Y)
            self._rows += len(P)
            return
        widths, start = [self.last_widths[:0]] * (not len(P)), 0
        while start < len(P):
            cuts = [1, STAGES[0], self._rows + len(P) - start]
            stop = start + next(cut for cut in cuts if cut > self._rows) - self._rows
            rows = slice(start, min(stop, len(P)))
            if self._rows:
                widths.append(self.intervals.learn(P[rows], scales[rows], Y[rows]))
            else:  # made before any target: its error is not counted
                widths.append(np.full((1, len(COVERAGES), self.outputs), np.nan))
            self._rows += rows.stop - start
            if self._rows == STAGES[0]:
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

    # -- state ------------------------------------------------------------------------------

    STATE = (
        Count("rows"),
        Part("incumbent", "incumbent"),
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
