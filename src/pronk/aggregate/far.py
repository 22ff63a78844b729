"""The second head: predictions of rows far ahead.

Where past targets or errors are read, the prediction of the next row says little about rows that
lie hundreds of rows ahead: the weights of the experts and the intervals are those of one row ahead.
So a second mixture combines the kernel experts, the means of past targets and, from the last stage
on, a small forest of local experts for rows far ahead, with intervals or probabilities of its own.
It reads no lagged errors, its forest reads no lagged targets, and its experts do not shrink their
predictions (v'phi).

All of it learns from predictions that were made far ahead. At the rows that `is_anchor` names (256,
512, .., 2048, 4096, 6144, ..) the weights of experts and mixture, the means, the last known
targets and the forest are copied. Of every eighth of the following rows, up to the next such row,

    P       the experts predict, reading what was copied; the mixture learns P
    final   the copied mixture predicts from P; intervals and probabilities learn its errors

so they judge rows up to 2048 rows ahead, by what was known then. Coordinates of features are
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
from pronk.aggregate.local import Forest
from pronk.aggregate.mixture import Mixture
from pronk.aggregate.trees import FIT, FITS
from pronk.core.linalg import recombined
from pronk.core.state import Count, Numbers, Part, Places, Sizes, Stateful, require

Array = NDArray[np.float64]

#: First row at which weights are copied, and most rows until the next.
FIRST, LONGEST = 256, 2048
#: One row of this many is predicted.
STRIDE = 8
#: Errors whose quantiles are the half-widths.
RECENT = 2048
#: Fewest errors for an interval.
FEWEST = 8
#: Windows of the stacks: there are none. Coefficients fitted to experts that tend to the mean where
#: rows leave the range of earlier ones do not hold in the next season.
WINDOWS: tuple[float, ...] = ()
#: Number of the means among the experts (`baselines`), which follow the kernel experts.
MEANS = len(MEAN_WINDOWS)
#: The forest may use this share of the memory of the local experts.
MEMORY_SHARE = 8


def next_anchor(rows: int) -> int:
    """Return the first number of rows above this one after which weights are copied.

    It is a power of two from 256 on, then a multiple of 2048.
    """
    if rows >= LONGEST:
        return rows - rows % LONGEST + LONGEST
    return max(FIRST, 1 << rows.bit_length())


def is_anchor(rows: int) -> bool:
    """Return whether weights are copied after ``rows`` rows."""
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

    ``experts`` are the numbers of the experts' settings, of which there are ``settings``; a row has
    ``columns``, and ``past`` lagged targets. ``memory`` is that of the local experts in bytes.
    """

    def __init__(
        self, experts: Sequence[int], settings: int, columns: int, past: int, limits: Array,
        signed: bool, seed: int, memory: int,
    ) -> None:  # fmt: skip
        self.signed, self.settings, outputs = signed, settings, limits.shape[1]
        self.columns, self.seed, self.memory = columns, seed, memory // MEMORY_SHARE
        self.experts = list(experts)
        self.forest: Forest | None = None
        self.mixture = self._new_mixture(limits)
        # Labels have probabilities and no intervals.
        self.errors = FarErrors(0 if signed else outputs)
        self.temperature = Temperature(outputs)
        self._anchor = 0  # row at which weights were copied; 0: not yet
        self._copied: Mixture | None = None
        self._copied_forest: Forest | None = None
        self._spans = np.zeros(0, dtype=np.int64)  # coordinates of each expert
        self._weights = np.zeros((0, outputs))  # of one expert after the other
        self._means = np.zeros((MEANS, outputs))
        self._past = np.zeros(past)
        self._waiting = np.zeros((0, columns + outputs))  # rows and targets for the forest

    def _new_mixture(self, limits: Array | None = None) -> Mixture:
        count = len(self.experts) + MEANS + (self.forest is not None)
        limits = self.mixture.limits if limits is None else limits
        return Mixture(count, limits, self.signed, WINDOWS)

    def add_forest(self, metrics: Array) -> None:
        """Add local experts with the metrics (2, columns), before any row is learned."""
        self.forest = Forest(
            metrics, self.mixture.limits, self.signed, self.seed, self.memory, small=True
        )
        self.mixture = self._new_mixture()

    def _new_forest(self) -> Forest:
        """Return a forest whose state is restored later."""
        limits = self.mixture.limits
        metrics = np.ones((2, self.columns))
        return Forest(metrics, limits, self.signed, self.seed, self.memory, small=True)

    def set_memory(self, memory: int) -> None:
        """Set the bytes that local experts may use from now on, of which the forest has a share."""
        self.memory = memory // MEMORY_SHARE
        if self.forest is not None:
            self.forest.set_memory(self.memory)

    def add_rows(self, Z: Array, Y: Array, rows: int) -> None:
        """Let the forest learn rows Z (n, columns) and targets Y, with which there are ``rows``.

        It learns them eight at a time, at the rows of `Experts.next_row_is_far`.
        """
        if self.forest is None:
            return
        held = np.vstack((self._waiting, np.hstack((Z, Y))))
        whole = len(held) - (rows - 1) % STRIDE - 1
        self._waiting = held[max(0, whole) :]
        self._learn_waiting(held[: max(0, whole)])

    def _learn_waiting(self, held: Array) -> None:
        """Let the forest learn rows with their targets."""
        if len(held) and self.forest is not None:
            Y = held[:, self.columns :]
            self.forest.learn(held[:, : self.columns], Y, np.zeros(Y.shape))

    @property
    def ranges(self) -> list[Array]:
        """The ranges of targets (2, outputs) that predictions are clipped to."""
        parts = self.mixture, self._copied, self.forest, self._copied_forest
        return [part.limits for part in parts if part is not None]

    @property
    def begun(self) -> bool:
        """Whether weights were copied, so that rows are learned."""
        return self._anchor > 0

    @property
    def ready(self) -> bool:
        """Whether rows can be predicted: numbers, with errors enough for intervals."""
        return self.begun and (self.signed or len(self.errors.values) >= FEWEST)

    def copy(self, rows: int, weights: Sequence[Array], means: Array, past: Array) -> None:
        """Copy weights (r, outputs) of the experts, means and lagged targets after some rows."""
        self._anchor = rows
        if self.forest is not None:
            self._learn_waiting(self._waiting)
            self._waiting = self._waiting[:0]
            self._copied_forest = self.forest.copy()
        self._spans = np.array([len(own) for own in weights], dtype=np.int64)
        # In Fortran order, also after loading: products with another layout round differently.
        self._weights = np.asfortranarray(np.concatenate(weights))
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

    def new_predictions(self, Z: Array, means: Array | None = None) -> Array:
        """Allocate predictions (n, experts, outputs) of rows Z (n, columns).

        Those of means and forest are filled in: as they were copied or, with the present ``means``,
        as they are.
        """
        count, outputs = len(self.experts), self._means.shape[1]
        P = np.empty((len(Z), len(self.mixture.weights), outputs))
        P[:, count : count + MEANS] = self._means if means is None else means
        forest = self._copied_forest if means is None else self.forest
        if forest is not None:
            own = forest.predict(Z, np.zeros((len(Z), outputs)))
            # Given no other prediction, the fits of the residuals are those of the targets.
            P[:, -1] = own[:, FIT::FITS].mean(axis=1)
        return P

    def learn(self, P: Array, Y: Array, given: Array) -> None:
        """Learn rows that were predicted P (n, experts, outputs) with what was copied.

        Y (n, outputs) are clipped targets for the mixture, ``given`` those for the intervals.
        """
        assert self._copied is not None
        final = self._copied.predict(P).final
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
                others = range(len(self.experts), len(mixture.weights))
                mixture.keep([*places, *others])
        self.experts = [self.experts[i] for i in places]
        self._spans = np.array([len(own) for own in kept], dtype=np.int64)
        self._weights = np.asfortranarray(np.concatenate([self._weights[:0], *kept]))

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        for part in (self.mixture, self._copied, self.forest, self._copied_forest):
            if part is not None:
                part.remap(matrix)
        self.temperature.remap(matrix)
        held, targets = np.hsplit(self._waiting, [self.columns])
        self._waiting = np.hstack((held, recombined(targets, matrix)))
        self._weights = np.asfortranarray(recombined(self._weights, matrix))
        self._means = recombined(self._means, matrix)

    STATE = (
        Places("experts", "experts", high="settings"),
        Count("anchor"),
        Part("forest", "forest", make="_new_forest"),
        Part("mixture", "mixture", sizes={"experts": "far"}),
        Part("copied", sizes={"experts": "far"}, make="_new_mixture"),
        Part("copied_forest", make="_new_forest"),
        Numbers("spans", ("spans",), whole=True, low=0, written="replaced"),
        Numbers("weights", ("weights", "outputs"), order="F", written="replaced"),
        Numbers("means", (MEANS, "outputs"), written="replaced"),
        Numbers("past", ("past",), written="replaced"),
        Numbers("waiting", ("waiting", "wide"), written="replaced"),
        Part("errors", "errors"),
        Part("temperature", "temperature"),
    )

    def _sizes(self) -> dict[str, int]:
        outputs = self._means.shape[1]
        return {"settings": self.settings, "outputs": outputs, "wide": self.columns + outputs}

    def _restored(self, sizes: Sizes) -> None:
        count, begun = len(self.experts), self._copied is not None
        local = int(self.forest is not None)
        require(count > 0, "experts are missing")
        require(sizes["far"] == count + MEANS + local, "mixture has another number of experts")
        require(begun == self.begun, "copied is not there as anchor says")
        copied = begun and self.forest is not None
        require(copied == (self._copied_forest is not None), "copied_forest is not as forest is")
        require(sizes["waiting"] <= (STRIDE if local else 0), "waiting has too many rows")
        require(sizes["spans"] == count * begun, "spans are not those of the experts")
        require(self._spans.sum() == sizes["weights"], "weights are not those of the spans")
