"""Feature spaces of the Newton engine: fixed features, or the span of a growing dictionary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from pronk.core.arrays import Array
from pronk.core.dictionary import Dictionary
from pronk.core.features import Embedding, Nystrom, extend, in_chunks
from pronk.core.kernels import Kernel
from pronk.core.linalg import GrowingRows, Workspace
from pronk.core.one_vs_rest import remapped
from pronk.core.state import LARGEST_TARGET, Count, Part, Parts, Rows, Sizes, Stateful, require
from pronk.newton.certificate import Certificate, RegretSums
from pronk.newton.engine import AIOLI, Newton, OnlineNewton, Roots

#: Rows whose features or kernel values are in memory at a time: whole blocks of 48 and 96.
CHUNK = 288

Growth = Literal["carry", "restart", "exact"]


class NewtonBank(Stateful):
    """One `Newton` per output, for rules whose curvature depends on the output's slope.

    Features, dictionary and kernel values are shared. AIOLI keeps its certificate itself; with
    ``track`` the online Newton step has one too.
    """

    def __init__(
        self, rule: OnlineNewton | AIOLI, alpha: float, size: int, outputs: int, track: bool = False
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
        weights = np.ones(len(Phi)) if weights is None else weights
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

    learner: Any  # a Newton or a NewtonBank

    def _features(self, X: Array) -> Array:
        """Return phi(x) of rows, valid until the next call."""
        raise NotImplementedError

    def _diagonal(self, X: Array) -> Array:
        """Return k(x, x) of rows."""
        raise NotImplementedError

    def _learn_chunk(self, X: Array, Y: Array, weights: Array | None) -> Array:
        raise NotImplementedError

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row."""
        return in_chunks(CHUNK, self._learn_chunk, X, Y, weights)

    def predict(self, X: Array) -> Array:
        """Predict each row as if it came next and did not enter the dictionary."""
        return in_chunks(CHUNK, lambda rows: self.learner.predict(self._features(rows)), X)

    def deviation(self, X: Array) -> Array:
        """Return the standard deviation of y (n, outputs) at rows that may come next."""

        def deviation(rows: Array) -> Array:
            return np.asarray(self.learner.deviation(self._features(rows), self._diagonal(rows)))

        return in_chunks(CHUNK, deviation, X)

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

    def _learn_chunk(self, X: Array, Y: Array, weights: Array | None) -> Array:
        return np.asarray(self.learner.learn(self._features(X), Y, weights))

    def certificate(self, output: int = 0) -> Certificate:
        """Return the regret so far against the best function of the space.

        After `absorb` the loss is that of several passes, each of which started from nothing, so
        there is no bound.
        """
        certificate = self.learner.certificate(output)
        return certificate if self.passes == 1 else replace(certificate, bound=None)

    def absorb(self, other: FixedFeatures) -> None:
        """Add the rows of another squared-loss learner on the same features and outputs."""
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
        columns = dictionary.points.shape[1]
        self._history = History(columns, learner.outputs) if growth == "exact" else None
        self._memory = Workspace()

    @property
    def points(self) -> Array:
        return self.dictionary.points

    def _learn_chunk(self, X: Array, Y: Array, weights: Array | None) -> Array:
        K = self._kernel_values(X)
        known = K.shape[1]
        accepted, K = self.dictionary.scan(X, K)
        Phi = self.nystrom.transform(K)
        out = np.empty((len(X), self.learner.outputs))
        start = 0
        for i, stop in enumerate([*(row + self.lag for row in accepted), len(X)]):
            rows = slice(start, stop)
            given = None if weights is None else weights[rows]
            if self._history is not None:
                self._history.append(X[rows], Phi[rows], Y[rows], given)
            out[rows] = self.learner.learn(Phi[rows], Y[rows], given)
            if i < len(accepted):
                row = accepted[i]
                Phi = self._grow(Phi, K[:, known + i], row, X[row : row + 1])
            start = stop
        return out

    def _kernel_values(self, X: Array) -> Array:
        out = self._memory.allocate("kernel values", len(X), len(self.points))
        return self.kernel(X, self.points, out)

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
            column = (self.kernel(past.X, x) * past.roots)[:, 0]
            values = extend(past.Phi, column, phi, pivot)
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
        certificate = self.learner.certificate(output)
        return replace(certificate, bound=None) if self.growth == "exact" else certificate

    def remap(self, matrix: Array) -> None:
        super().remap(matrix)
        if self._history is not None:
            self._history.remap(matrix)

    STATE = (
        Part("dictionary", "dictionary", sizes={"points": "points"}),
        Part("nystrom", "nystrom", sizes={"points": "points", "size": "size"}),
        Part("learner", "learner", sizes={"size": "size"}),
        Part("history", sizes={"size": "size"}),
    )

    def _restored(self, sizes: Sizes) -> None:
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
        self._roots = GrowingRows(1)  # of the rows' weights
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

    @property
    def roots(self) -> Array:
        return self._roots.values

    def append(self, X: Array, Phi: Array, Y: Array, weights: Array | None = None) -> None:
        roots = np.ones((len(X), 1)) if weights is None else np.sqrt(weights)[:, None]
        self._roots.append(roots)
        self._X.append(X)
        self._Y.append(Y * roots)
        padded = np.zeros((len(Phi), self._Phi.columns))
        padded[:, : self._size] = Phi * roots
        self._Phi.append(padded)

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
        Roots("rows"),
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
        expected = features(self.X[rows]) * self.roots[rows]
        off = np.abs(expected - self.Phi[rows]).max(initial=0.0)
        scale = np.abs(self.Phi[rows]).max(initial=0.0)
        require(off <= 1e-4 * scale, "history/Phi are not the features of X")

    def to_state(self) -> dict[str, Any]:
        """Return the state; unused columns of Phi as zeros."""
        state = super().to_state()
        state["Phi"][:, self._size :] = 0.0
        return state
