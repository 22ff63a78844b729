"""Feature spaces of the Newton engine: fixed features, or the span of a growing dictionary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pronk.core.dictionary import Dictionary
from pronk.core.features import Embedding, Nystrom, chunks, extend
from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingRows, Workspace
from pronk.core.one_vs_rest import remapped
from pronk.core.state import (
    LARGEST_TARGET,
    Count,
    Numbers,
    Part,
    Parts,
    Rows,
    Sizes,
    Stateful,
    require,
)
from pronk.newton.certificate import Certificate, RegretSums
from pronk.newton.engine import AIOLI, Newton, OnlineNewton

Array = NDArray[np.float64]

#: Rows whose features or kernel values are in memory at a time: whole blocks of 48 and 96.
CHUNK = 288

Growth = Literal["carry", "restart", "exact"]


def _of(weights: Array | None, rows: slice) -> Array | None:
    """Return the weights of some rows; None without weights."""
    return None if weights is None else weights[rows]


class NewtonBank(Stateful):
    """One `Newton` per output, for rules whose curvature depends on the output's slope.

    Features, dictionary and kernel values are shared. AIOLI keeps its certificate itself; with
    ``track`` the online Newton step has one too.
    """

    def __init__(
        self,
        rule: OnlineNewton | AIOLI,
        alpha: float,
        size: int,
        outputs: int,
        track: bool = False,
    ) -> None:
        self.rule, self.alpha = rule, alpha
        self.learners = [Newton(rule, alpha, size) for _ in range(outputs)]
        tracked = outputs if track and not rule.anticipate else 0
        self.sums = [RegretSums(rule.loss, alpha, size) for _ in range(tracked)]  # type: ignore[union-attr]

    @property
    def outputs(self) -> int:
        return len(self.learners)

    def learn(self, Phi: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row."""
        out = np.empty((len(Phi), self.outputs))
        for o, learner in enumerate(self.learners):
            y = np.ascontiguousarray(Y[:, o : o + 1])
            if self.sums:
                P, terms = learner.learn_with_terms(Phi, y, weights)
                self.sums[o].add(Phi, y[:, 0], P[:, 0], terms, weights)
            else:
                P = learner.learn(Phi, y, weights)
            out[:, o : o + 1] = P
        return out

    def predict(self, Phi: Array) -> Array:
        return np.hstack([learner.predict(Phi) for learner in self.learners])

    def grow(self) -> None:
        """Add a coordinate in which all rows so far are 0."""
        for learner in self.learners:
            learner.grow()
        for sums in self.sums:
            sums.grow()

    def grow_with_history(self, history: Array, column: Array, targets: Array) -> None:
        raise TypeError("the slopes of the past belong to its own space: carry over or restart")

    def restart(self, size: int) -> None:
        for o, learner in enumerate(self.learners):
            if self.sums:
                self.sums[o].close(learner, size)
            learner.restart(size)

    def remap(self, matrix: Array) -> None:
        if self.sums:
            self.sums = remapped(self.sums, matrix)
        self.learners = remapped(self.learners, matrix)

    def certificate(self, output: int = 0) -> Certificate:
        """Return the regret so far, over all epochs."""
        if self.rule.anticipate:
            return self.learners[output].certificate()
        if not self.sums:
            raise ValueError("track_regret must be True from the start for a certificate")
        return self.sums[output].total(self.learners[output])

    STATE = (
        Parts("learners", "learners", sizes={"size": "size"}),
        Parts("sums", "sums", sizes={"size": "size"}),
    )


class Features(Stateful):
    """What fixed and growing features share: a learner behind a map x -> phi(x)."""

    learner: Newton | NewtonBank

    def _features(self, X: Array) -> Array:
        """Return phi(x) of rows, valid until the next call."""
        raise NotImplementedError

    def _diagonal(self, X: Array) -> Array:
        """Return k(x, x) of rows."""
        raise NotImplementedError

    def predict(self, X: Array) -> Array:
        """Predict each row as if it came next and did not enter the dictionary."""
        parts = [self.learner.predict(self._features(X[rows])) for rows in chunks(len(X), CHUNK)]
        return np.concatenate(parts)

    def deviation(self, X: Array) -> Array:
        """Return the standard deviation of y (n, outputs) at rows that may come next."""
        assert isinstance(self.learner, Newton)
        parts = [
            self.learner.deviation(self._features(X[rows]), self._diagonal(X[rows]))
            for rows in chunks(len(X), CHUNK)
        ]
        return np.concatenate(parts)

    def remap(self, matrix: Array) -> None:
        self.learner.remap(matrix)


class FixedFeatures(Features):
    """A learner in R^r behind a fixed map x -> phi(x)."""

    def __init__(self, embedding: Embedding, learner: Newton | NewtonBank) -> None:
        self.embedding, self.learner = embedding, learner
        self.passes = 1  # more after `absorb`

    @property
    def points(self) -> Array | None:
        """Points given beforehand; features without points have none."""
        return getattr(self.embedding, "points", None)

    def _features(self, X: Array) -> Array:
        return self.embedding.transform(X)

    def _diagonal(self, X: Array) -> Array:
        return self.embedding.diagonal(X)

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row."""
        parts = [
            self.learner.learn(self._features(X[rows]), Y[rows], _of(weights, rows))
            for rows in chunks(len(X), CHUNK)
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def certificate(self, output: int = 0) -> Certificate:
        """Return the regret so far against the best function of the space.

        After `absorb` the loss is that of several passes, each of which started from nothing, so
        there is no bound.
        """
        certificate = self.learner.certificate(output)
        return certificate if self.passes == 1 else replace(certificate, bound=None)

    def absorb(self, other: FixedFeatures) -> None:
        """Add the rows of another squared-loss learner on the same features and outputs."""
        assert isinstance(self.learner, Newton) and isinstance(other.learner, Newton)
        self.learner.absorb(other.learner)
        self.passes += other.passes

    STATE = (
        Part("learner", "learner", sizes={"size": "features"}),
        Count("passes", "passes", low=1),
    )

    def _sizes(self) -> dict[str, int]:
        return {"features": self.embedding.size}


class FixedPoints:
    """The Nystrom map of points given beforehand."""

    def __init__(self, kernel: Kernel, points: Array) -> None:
        self.kernel, self.points = kernel, points
        self._nystrom = Nystrom()
        K = kernel(points, points)
        for i in range(len(points)):
            phi = self._nystrom.transform(K[i : i + 1, :i])[0]
            self._nystrom.grow(phi, K[i, i])
        self.size = self._nystrom.size

    def transform(self, X: Array) -> Array:
        return self._nystrom.transform(self.kernel(X, self.points))

    def diagonal(self, X: Array) -> Array:
        return self.kernel.diagonal(X)


class GrowingFeatures(Features):
    """A learner in the span of a dictionary that grows.

    On growth the learner carries its state over (old rows are 0 in the new coordinate: the past
    projected on the old span), restarts, or is recomputed exactly from all past rows, which are
    then kept. A row that enters the dictionary counts from its own prediction on (``lag`` 0, PKAWV)
    or from the next row on (``lag`` 1, PROS-N-KONS).
    """

    def __init__(
        self,
        kernel: Kernel,
        dictionary: Dictionary,
        learner: Newton | NewtonBank,
        growth: Growth,
        lag: int,
    ) -> None:
        self.kernel, self.dictionary, self.learner = kernel, dictionary, learner
        self.growth, self.lag = growth, lag
        self.nystrom = Nystrom()
        self._history: History | None = None
        self._memory = Workspace()

    @property
    def points(self) -> Array:
        return self.dictionary.points

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row."""
        if self.growth == "exact" and self._history is None:
            self._history = self._new_history()
        parts = [
            self._learn_chunk(X[rows], Y[rows], _of(weights, rows))
            for rows in chunks(len(X), CHUNK)
        ]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _learn_chunk(self, X: Array, Y: Array, weights: Array | None) -> Array:
        K = self._kernel_values(X)
        known = K.shape[1]
        accepted, K = self.dictionary.scan(X, K)
        Phi = self.nystrom.transform(K)
        out = np.empty((len(X), self.learner.outputs))
        start = 0
        for i, row in enumerate(accepted):
            stop = row + self.lag
            rows = slice(start, stop)
            out[rows] = self._run(X[rows], Phi[rows], Y[rows], _of(weights, rows))
            Phi = self._grow(Phi, K[:, known + i], row, X[row : row + 1])
            start = stop
        rows = slice(start, len(X))
        out[rows] = self._run(X[rows], Phi[rows], Y[rows], _of(weights, rows))
        return out

    def _kernel_values(self, X: Array) -> Array:
        out = self._memory.allocate("kernel values", len(X), len(self.points))
        return self.kernel(X, self.points, out)

    def _run(self, X: Array, Phi: Array, Y: Array, weights: Array | None) -> Array:
        if self._history is not None:
            self._history.append(X, Phi, Y, weights)
        return self.learner.learn(Phi, Y, weights)

    def _grow(self, Phi: Array, column: Array, row: int, x: Array) -> Array:
        """Add row ``row`` of the chunk to the span; return the chunk's features in the new span."""
        phi = Phi[row]
        pivot = self.nystrom.grow(phi, column[row])
        if pivot is not None:
            new = np.zeros((len(Phi), 1))
            new[row:, 0] = extend(Phi[row:], column[row:], phi, pivot)
            Phi = np.hstack((Phi, new))
        if self.growth == "restart":
            self.learner.restart(self.nystrom.size)
        elif pivot is not None and self._history is not None:
            past = self._history
            values = extend(past.Phi, past.scaled(self.kernel(past.X, x)[:, 0]), phi, pivot)
            self.learner.grow_with_history(past.Phi, values, past.Y)
            past.extend(values)
        elif pivot is not None:
            self.learner.grow()
        return Phi

    def certificate(self, output: int = 0) -> Certificate:
        """Return the regret so far in the current span.

        Carried over, it describes past rows as their projections on the spans of their own times.
        With exact history predictions were made in other spans than the one they are compared in,
        so there is no bound.
        """
        if isinstance(self.learner, Newton):
            return self.learner.certificate(output, bounded=self.growth != "exact")
        return self.learner.certificate(output)

    def remap(self, matrix: Array) -> None:
        super().remap(matrix)
        if self._history is not None:
            self._history.remap(matrix)

    STATE = (
        Part("dictionary", "dictionary", sizes={"points": "points"}),
        Part("nystrom", "nystrom", sizes={"points": "points", "size": "size"}),
        Part("learner", "learner", sizes={"size": "size"}),
        Part("history", sizes={"size": "size"}, make="_new_history"),
    )

    def _new_history(self) -> History:
        return History(self.points.shape[1], self.learner.outputs)

    def _restored(self, sizes: Sizes) -> None:
        exact = self.growth == "exact" and sizes["points"] > 0
        require(self._history is not None or not exact, "history is missing")
        require(self._history is None or self.growth == "exact", "history is unknown")
        if not self.kernel.foreign:
            self.nystrom.require_of(self.kernel, self.points)
            if self._history is not None:
                self._history.require_of(self._features)

    def _features(self, X: Array) -> Array:
        return self.nystrom.transform(self._kernel_values(X))

    def _diagonal(self, X: Array) -> Array:
        return self.kernel.diagonal(X)


class History(Stateful):
    """All past rows, their features in the present span and their targets.

    Features and targets of weighted rows are kept times the roots of the weights.
    """

    def __init__(self, columns: int, outputs: int) -> None:
        self._X, self._Y = GrowingRows(columns), GrowingRows(outputs)
        self._Phi = GrowingRows(8)
        self._roots: Array | None = None  # until the first weight comes, all are 1
        self._size = 0

    @property
    def X(self) -> Array:
        return self._X.values

    @property
    def Y(self) -> Array:
        return self._Y.values

    @property
    def Phi(self) -> Array:
        return self._Phi.values[:, : self._size]

    def append(self, X: Array, Phi: Array, Y: Array, weights: Array | None = None) -> None:
        if weights is not None or self._roots is not None:
            old = np.ones(self._X.size) if self._roots is None else self._roots
            roots = np.ones(len(X)) if weights is None else np.sqrt(weights)
            self._roots = np.concatenate((old, roots))
            Phi, Y = Phi * roots[:, None], Y * roots[:, None]
        self._X.append(X)
        self._Y.append(Y)
        padded = np.zeros((len(Phi), self._Phi.columns))
        padded[:, : self._size] = Phi
        self._Phi.append(padded)

    def scaled(self, values: Array) -> Array:
        """Return one value per row, times the root of its weight."""
        return values if self._roots is None else values * self._roots

    def extend(self, values: Array) -> None:
        """Add a coordinate, in which the rows have these values."""
        if self._size == self._Phi.columns:
            self._Phi.widen(2 * self._size)
        self._Phi.values[:, self._size] = values
        self._size += 1

    def remap(self, matrix: Array) -> None:
        self._Y.remap(matrix)

    STATE = (
        Rows("X", ("rows", "columns")),
        # A target times the root of its weight.
        Rows("Y", ("rows", "outputs"), low=-1e5 * LARGEST_TARGET, high=1e5 * LARGEST_TARGET),
        Rows("Phi", ("rows", "capacity")),
        Numbers("roots", ("rows",), low=0.0, written="replaced", optional=True),
        Count("size"),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self._X.columns, "outputs": self._Y.columns}

    def _restored(self, sizes: Sizes) -> None:
        require(self._size <= sizes["capacity"], "Phi has fewer columns than there are features")
        sizes["size"] = self._size

    def require_of(self, features: Callable[[Array], Array]) -> None:
        """Raise if Phi of a restored history are not the features of its rows."""
        if not len(self.X):
            return
        rows = np.unique(np.linspace(0, len(self.X) - 1, 128).astype(np.intp))
        expected = features(self.X[rows])
        if self._roots is not None:
            expected = expected * self._roots[rows, None]
        off = np.abs(expected - self.Phi[rows]).max(initial=0.0)
        scale = np.abs(self.Phi[rows]).max(initial=0.0)
        require(off <= 1e-4 * scale, "history/Phi are not the features of X")

    def to_state(self) -> dict[str, Any]:
        """Return the state; unused columns of Phi as zeros."""
        state = super().to_state()
        state["Phi"][:, self._size :] = 0.0
        return state
