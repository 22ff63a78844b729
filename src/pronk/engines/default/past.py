"""The last known targets as columns: what experts may read of the past.

Whether targets hang together in time is found on the first n rows: a lag l counts where the
autocorrelation of a target is beyond 4 / sqrt(n), four deviations of that of independent rows. Then
the columns are the targets 1 and 2 rows ago, and at the season, the lag with the largest peak of
the autocorrelation, if there is one. A row reads targets that were learned before it, nothing else:
with labels that come late these are the last that came.

The same is asked of the last errors of the mixture: something may wander that no column tells, and
targets, which follow their columns, hide it. Errors are read at the lags of both (`stacks`).

Of labels +-1 the outputs count that have had both signs; of two, which are each other's negatives,
the last. More than three targets are not read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pronk.parts.linalg import recombined
from pronk.parts.state import Numbers, Stateful

Array = NDArray[np.float64]

#: Fewest rows that say anything about lags, most targets that are read, longest season.
FEWEST, MOST_TARGETS, LONGEST = 32, 3, 400


def informative_outputs(Y: Array, signed: bool) -> list[int]:
    """Outputs that vary; of two labels' outputs the last."""
    varied = [o for o in range(Y.shape[1]) if np.ptp(Y[:, o]) > 0.0]
    return varied[-1:] if signed and len(varied) == 2 else varied


def autocorrelation(y: Array, longest: int) -> Array:
    """Of lags 0 .. longest; 0 for a constant."""
    y = y - y.mean()
    total = y @ y
    if not total > 0.0:
        return np.zeros(longest + 1)
    size = 2 ** int(np.ceil(np.log2(2 * len(y))))
    spectrum = np.abs(np.fft.rfft(y, size)) ** 2
    return np.asarray(np.fft.irfft(spectrum, size)[: longest + 1] / total)


def find_lags(Y: Array, sources: list[int]) -> list[int]:
    """The lags to read; none where rows are too few, or their order says nothing."""
    n = len(Y)
    if n < FEWEST or not sources or len(sources) > MOST_TARGETS:
        return []
    longest = min(n // 3, LONGEST)
    parts = [autocorrelation(Y[:, o], longest) for o in sources]
    values = np.round(np.max(parts, axis=0), 9)  # rounding decides no tie
    threshold = 4.0 / np.sqrt(n)
    inner = values[3:-1]
    peaks = (inner > values[2:-2]) & (inner >= values[4:]) & (inner > threshold)
    season = [3 + int(np.argmax(np.where(peaks, inner, -1.0)))] if peaks.any() else []
    if values[1] <= threshold and not season:
        return []
    return [1, 2, *season]


class Past(Stateful):
    """The targets that are read, at some lags, and the last targets that came."""

    def __init__(self, outputs: int, sources: list[int], lags: list[int]) -> None:
        self._sources = np.array(sources, dtype=np.int64)
        self._signs = np.ones(len(sources))
        self._lags = np.array(lags, dtype=np.int64)
        self._held = np.zeros((max(lags, default=0), outputs))

    @property
    def columns(self) -> int:
        return len(self._sources) * len(self._lags)

    def informative(self, Y: Array) -> Array:
        """The targets that vary."""
        return Y[:, self._sources] * self._signs

    def columns_of(self, Y: Array) -> Array:
        """The columns of first rows, (n, columns), before which nothing came."""
        return self._read(np.vstack((np.zeros_like(self._held), Y)), len(Y))

    def learn(self, Y: Array) -> Array:
        """The columns of the next rows, whose targets are then the last that came."""
        if not self.columns:
            return np.empty((len(Y), 0))
        known = np.vstack((self._held, Y))
        read = self._read(known, len(Y))
        self._held = known[len(Y) :]
        return read

    def predict(self, rows: int) -> Array:
        """The columns of rows that might come next."""
        known = np.vstack((self._held, np.zeros((1, self._held.shape[1]))))
        return np.repeat(self._read(known, 1), rows, axis=0)

    def _read(self, known: Array, rows: int) -> Array:
        first = len(known) - rows
        parts = [self.informative(known[first - lag : first - lag + rows]) for lag in self._lags]
        return np.hstack(parts) if parts else np.empty((rows, 0))

    def remap(self, matrix: Array) -> None:
        """New outputs, each plus or minus one old one: the same targets at their new places."""
        self._held = recombined(self._held, matrix)
        places = [int(np.flatnonzero(matrix[o])[-1]) for o in self._sources]
        self._signs = self._signs * matrix[self._sources, places]
        self._sources = np.array(places, dtype=np.int64)

    STATE = (
        Numbers("sources", ("sources",), whole=True, low=0, high="outputs", kept=True),
        Numbers("signs", ("sources",), low=-1.0, high=1.0, kept=True),
        Numbers("lags", ("lags",), whole=True, low=1, high=LONGEST, kept=True),
        Numbers("held", ("held", "outputs"), kept=True),
    )

    def _sizes(self) -> dict[str, int]:
        return {"outputs": self._held.shape[1]}
