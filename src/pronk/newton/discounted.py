"""The Newton engine with forgetting: older rows count less.

With the discount lambda, A <- lambda A + phi phi' and b <- lambda b + y phi. Divided by
lambda^t this is a plain sum again: row number s of the open block (from 1) enters with the weight
lambda^-s, that is, row and target multiplied by lambda^(-s/2), and the sums are multiplied by
lambda^B when the block of B rows closes. So the block engine does it exactly. The part of the
regulariser alpha I that is forgotten is added again at the end of each block; blocks are counted
from the start of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pronk.newton.engine import SMALL, Newton, Squared

Array = NDArray[np.float64]


#: Rows of an epoch of the experts (`experts`).
EPOCH = 256
#: Up to this many features two blocks per epoch are faster, beyond it one.
TWO_BLOCKS = 300


@dataclass(frozen=True)
class InEpochs(Squared):
    """Squared loss in blocks that end where an epoch ends, so that no block is split."""

    def block_rows(self, r: int) -> int:
        if r <= SMALL:
            return EPOCH // 8
        return EPOCH // 2 if r <= TWO_BLOCKS else EPOCH


class DiscountedNewton(Newton):
    """Ridge or AWV with the discount 1 - 1/window; without a window the plain engine."""

    def __init__(
        self, rule: Squared, alpha: float, size: int, outputs: int = 1, window: float | None = None
    ) -> None:
        self.discount = 1.0 if window is None else 1.0 - 1.0 / window
        super().__init__(rule, alpha, size, outputs)

    def _roots(self, first: int, last: int) -> Array:
        """Return the square roots of the weights of rows first, ..., last - 1 of the open block."""
        return np.asarray(self.discount ** (-0.5 * np.arange(first + 1, last + 1)))

    def _append(self, Phi: Array, Y: Array, out: Array, weights: Array | None = None) -> None:
        if self.discount == 1.0:
            super()._append(Phi, Y, out, weights)
            return
        roots = self._roots(self._open, self._open + len(Phi))[:, None]
        super()._append(Phi * roots, Y * roots, out)
        out /= roots

    def _add_open_rows(self) -> None:
        kept = self.discount**self._open
        super()._add_open_rows()
        if kept != 1.0:
            self._A *= kept
            self._b *= kept
            self._A[np.diag_indices(self.size)] += (1.0 - kept) * self.alpha

    @property
    def forgets(self) -> bool:  # type: ignore[override]
        """Whether older rows count less."""
        return self.discount != 1.0

    def weighed(self, Phi: Array, Y: Array) -> tuple[float, Array, Array, float]:
        """Return what `Newton.weighed` returns, with the weights at the end of the block."""
        if self.discount == 1.0:
            return super().weighed(Phi, Y)
        kept = self.discount ** len(Phi)
        roots = np.sqrt(kept) * self._roots(0, len(Phi))[:, None]
        return kept, Phi * roots, Y * roots, (1.0 - kept) * self.alpha

    def predict(self, Phi: Array) -> Array:
        """Return the prediction of each row if it came next; changes nothing."""
        if self.discount == 1.0:
            return super().predict(Phi)
        return super().predict(Phi * self._root_next()) / self._root_next()

    def variance(self, Phi: Array) -> Array:
        """Return v = phi' A^-1 phi with the weight of the next row; 1 + v scales the noise."""
        return self.leverage(Phi * self._root_next())

    def _root_next(self) -> float:
        return 1.0 if self.discount == 1.0 else float(self.discount ** (-0.5 * (self._open + 1)))

    def grow_by(self, count: int) -> None:
        """Add ``count`` coordinates in which all rows so far are 0, with one copy."""
        if not count:
            return
        n = self.size
        for name, diagonal in (("_A", self.alpha), ("_L", np.sqrt(self.alpha))):
            grown = np.zeros((n + count, n + count), order="F")
            grown[:n, :n] = getattr(self, name)
            grown[range(n, n + count), range(n, n + count)] = diagonal
            setattr(self, name, grown)
        for name in ("_b", "_beta"):
            grown = np.zeros((n + count, self.outputs))
            grown[:n] = getattr(self, name)
            setattr(self, name, grown)
        for name in ("_Phi", "_Z"):
            grown = np.zeros((len(self._kappa), n + count))
            grown[: self._open, :n] = getattr(self, name)[: self._open]
            setattr(self, name, grown)
        self.size += count
        self._weights = None
        if self._open == 0:
            self._open_block()
