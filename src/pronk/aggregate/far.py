"""The second head: predictions of rows far ahead.

Where past targets or errors are read, the prediction of the next row says little about rows that
lie hundreds of rows ahead: the weights of the experts and the intervals are those of one row ahead.
So a second mixture combines the kernel experts and the means of past targets for rows far ahead,
with intervals or probabilities of its own. It reads no lagged errors, has no local experts, and its
experts do not shrink their predictions (v'phi).

All of it learns from predictions that were made far ahead. At the rows that `is_anchor` names (256,
512, .., 8192, 16,384, 24,576, ..) the weights of experts and mixture, the means and the last known
targets are copied. Of every eighth of the following rows, up to the next such row,

    P       the experts predict, reading what was copied; the mixture learns P
    final   the copied mixture predicts from P; intervals and probabilities learn its errors

so they judge rows up to 8192 rows ahead, by what was known then. Coordinates of features are
nested: copied weights fit the first coordinates of a group's features later on.

The half-width of an interval is the quantile of the last 2048 such errors, of 16,384 rows: errors
far ahead stay on one side for thousands of rows, so half-widths that follow recent errors, as those
of the next row do, would be those of the present season only.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import MEAN_WINDOWS
from pronk.aggregate.calibration import Temperature
from pronk.aggregate.mixture import Mixture
from pronk.core.linalg import recombined
from pronk.core.state import Count, Numbers, Part, Places, Sizes, Stateful, require

Array = NDArray[np.float64]

#: First row at which weights are copied, and most rows until the next.
FIRST, LONGEST = 256, 8192
#: Every so many rows one is predicted.
STRIDE = 8
#: Errors whose quantiles are the half-widths.
RECENT = 2048
#: Fewest errors for an interval.
FEWEST = 8
#: Windows of the stacks: there are none. Coefficients fitted to experts that tend to the mean where
#: rows leave the range of earlier ones do not hold in the next season.
WINDOWS: tuple[float, ...] = ()
#: Number of the means among the experts (`baselines`), which come last.
MEANS = len(MEAN_WINDOWS)


def next_anchor(rows: int) -> int:
    """Return the first number of rows above this one after which weights are copied.

    It is a power of two from 256 on, then a multiple of 8192.
    """
    if rows >= LONGEST:
        return rows - rows % LONGEST + LONGEST
    return max(FIRST, 1 << rows.bit_length())


def is_anchor(rows: int) -> bool:
    """Return whether weights are copied after so many rows."""
    return next_anchor(rows - 1) == rows


class FarErrors(Stateful):
    """The last absolute errors of rows far ahead."""

    def __init__(self, outputs: int) -> None:
        self._rows = 0
        self._errors = np.zeros((RECENT, outputs))  # that of row t at t modulo RECENT

    @property
    def values(self) -> Array:
        """The errors, (rows, outputs)."""
        return self._errors[: min(self._rows, RECENT)]

    def learn(self, errors: Array) -> None:
        """Add absolute errors (n, outputs)."""
        self._errors[np.arange(self._rows, self._rows + len(errors)) % RECENT] = errors
        self._rows += len(errors)

    def half_widths(self, coverage: float) -> Array:
        """Return the half-width (outputs,) of intervals that contain y with some probability."""
        n = len(self.values)
        if n < FEWEST:
            return np.full(self._errors.shape[1], np.nan)
        # The quantile of n errors and a next one, which may have any place among them.
        return np.quantile(self.values, min(1.0, coverage * (n + 1) / n), axis=0)

    @property
    def deviation(self) -> Array:
        """Root mean square of the errors, (outputs,)."""
        return np.asarray(np.sqrt(np.mean(self.values**2, axis=0)))

    STATE = (Count("rows"), Numbers("errors", (RECENT, "outputs"), low=0.0))

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._errors.shape[1]}


class FarHead(Stateful):
    """The mixture of the experts, what was copied, and the calibration of its predictions.

    ``experts`` are the numbers of the experts' settings, of which there are ``settings``; ``past``
    is the number of lagged targets that a row has.
    """

    def __init__(
        self, experts: Sequence[int], settings: int, past: int, limits: Array, signed: bool
    ) -> None:  # fmt: skip
        self.signed, self.settings, outputs = signed, settings, limits.shape[1]
        self.experts = list(experts)
        self.mixture = Mixture(len(self.experts) + MEANS, limits, signed, WINDOWS)
        self.errors, self.temperature = FarErrors(outputs), Temperature(outputs)
        self._anchor = 0  # row at which weights were copied; 0: not yet
        self._copied: Mixture | None = None
        self._spans = np.zeros(0, dtype=np.int64)  # coordinates of each expert
        self._weights = np.zeros((0, outputs))  # of one expert after the other
        self._means = np.zeros((MEANS, outputs))
        self._past = np.zeros(past)

    @property
    def begun(self) -> bool:
        """Whether weights were copied, so that rows are learned and can be predicted."""
        return self._anchor > 0

    def copy(self, rows: int, weights: Sequence[Array], means: Array, past: Array) -> None:
        """Copy weights (r, outputs) of the experts, means and lagged targets after some rows."""
        self._anchor = rows
        self._spans = np.array([len(own) for own in weights], dtype=np.int64)
        self._weights = np.concatenate(weights)
        self._means, self._past = means.copy(), past.copy()
        self._copied = copy.deepcopy(self.mixture)

    @property
    def past(self) -> Array:
        """The copied lagged targets, (columns,)."""
        return self._past

    def weights_of(self, number: int) -> Array:
        """Return the copied weights (r, outputs) of the expert with the setting ``number``."""
        place = self.experts.index(number)
        first = int(self._spans[:place].sum())
        return self._weights[first : first + self._spans[place]]

    def new_predictions(self, rows: int, means: Array | None = None) -> Array:
        """Allocate predictions (rows, experts, outputs), those of the means filled in."""
        P = np.empty((rows, len(self.experts) + MEANS, self._means.shape[1]))
        P[:, len(self.experts) :] = self._means if means is None else means
        return P

    def learn(self, P: Array, Y: Array, given: Array) -> None:
        """Learn rows that were predicted P (n, experts, outputs) with what was copied.

        Y (n, outputs) are clipped targets for the mixture, ``given`` those for the intervals.
        """
        assert self._copied is not None
        final = self._copied.predict(P)
        self.mixture.learn(P, Y)
        if self.signed:
            self.temperature.learn(final, Y)
        else:
            self.errors.learn(np.abs(given - final))

    def calibrated(self, margins: Array) -> Array:
        """Return 2 P - 1 for margins (n, outputs) of labels, P the probabilities of the classes.

        Outputs that were not both -1 and 1 stay as they are.
        """
        out, live = margins.copy(), self.temperature.live
        if live.any():
            shares = self.temperature.shares(margins[:, live])
            total = shares.sum(axis=1, keepdims=True) if shares.shape[1] > 1 else 1.0
            out[:, live] = 2.0 * shares / total - 1.0
        return out

    def keep(self, numbers: list[int]) -> None:
        """Drop the experts with other settings than these."""
        places = [i for i, number in enumerate(self.experts) if number in numbers]
        kept = [self.weights_of(self.experts[i]) for i in places] if self.begun else []
        for mixture in (self.mixture, self._copied):
            if mixture is not None:
                means = range(len(self.experts), len(self.experts) + MEANS)
                mixture.keep([*places, *means])
        self.experts = [self.experts[i] for i in places]
        self._spans = np.array([len(own) for own in kept], dtype=np.int64)
        self._weights = np.concatenate([self._weights[:0], *kept])

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        for mixture in (self.mixture, self._copied):
            if mixture is not None:
                mixture.remap(matrix)
        self.temperature.remap(matrix)
        self._weights = recombined(self._weights, matrix)
        self._means = recombined(self._means, matrix)

    STATE = (
        Places("experts", "experts", high="settings"),
        Count("anchor"),
        Part("mixture", "mixture", sizes={"experts": "far"}),
        Part("copied", sizes={"experts": "far"}, make="_new_mixture"),
        Numbers("spans", ("spans",), whole=True, low=0, written="replaced"),
        Numbers("weights", ("weights", "outputs"), written="replaced"),
        Numbers("means", (MEANS, "outputs"), written="replaced"),
        Numbers("past", ("past",), written="replaced"),
        Part("errors", "errors", sizes={"outputs": "followed"}),
        Part("temperature", "temperature"),
    )

    def _new_mixture(self) -> Mixture:
        return Mixture(1 + MEANS, self.mixture.limits, self.signed, WINDOWS)

    def _sizes(self) -> dict[str, int]:
        return {"settings": self.settings, "outputs": self._means.shape[1]}

    def _restored(self, sizes: Sizes) -> None:
        count, begun = len(self.experts), self._copied is not None
        require(count > 0, "experts are missing")
        require(sizes["far"] == count + MEANS, "mixture has another number of experts")
        # With labels the errors are never used.
        followed = sizes["followed"] == sizes["outputs"]
        require(self.signed or followed, "errors do not fit the outputs")
        require(begun == self.begun, "copied is not there as anchor says")
        require(sizes["spans"] == count * begun, "spans are not those of the experts")
        require(self._spans.sum() == sizes["weights"], "weights are not those of the spans")
