"""Several online Newton or AIOLI learners on the same features: one per output.

The curvature that a row adds depends on the output's slope, so each output has its own A; features,
dictionary and kernel values are shared. With ``track`` the bank keeps what a certificate needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.linalg import add_products, bordered, cholesky, solve_lower
from pronk.core.losses import SQUARED
from pronk.core.one_vs_rest import remapped
from pronk.core.state import Field, Numbers, Parts, Sizes, Stateful, require
from pronk.newton.certificate import Certificate
from pronk.newton.engine import AIOLI, Newton, OnlineNewton

Array = NDArray[np.float64]


class NewtonBank(Stateful):
    """One `Newton` for each output, whose rule has a curvature of its own per output.

    AIOLI keeps its certificate itself; with ``track`` the online Newton step has one too.
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
        self.sums = [RegretSums(rule, alpha, size) for _ in range(tracked)]  # type: ignore[arg-type]

    @property
    def outputs(self) -> int:
        return len(self.learners)

    def learn(self, Phi: Array, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn each row."""
        out = np.empty((len(Phi), self.outputs))
        for o, learner in enumerate(self.learners):
            y = np.ascontiguousarray(Y[:, o : o + 1])
            out[:, o : o + 1] = learner.learn(Phi, y, weights)
            if self.sums:
                self.sums[o].add(Phi, y[:, 0], out[:, o], learner.running_clip, weights)
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
                self.sums[o].close(learner.regret_terms, size)
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
        return self.sums[output].total(self.learners[output].regret_terms)

    STATE = (
        Parts("learners", "learners", sizes={"size": "size"}),
        Parts("sums", "sums", sizes={"size": "size"}),
    )


class Epochs(Field):
    """The certificates of the epochs that are over."""

    def dump(self, owner: Any) -> Any:
        return [epoch.to_dict() for epoch in getattr(owner, self.attribute)]

    def load(self, owner: Any, value: Any, sizes: Sizes) -> Any:
        require(isinstance(value, list), f"{self.name} is not a list")
        return [Certificate.from_dict(epoch) for epoch in value]

    def snapshot(self, owner: Any) -> Any:
        return list(getattr(owner, self.attribute))


class RegretSums(Stateful):
    """The sums of one output's regret, beside the learner's own; r^2 per row.

    Squared loss: H = sum phi phi', h = sum y phi and sum y^2 give the best loss in closed form, as
    min_w sum (y - w'phi)^2 + alpha/2 |w|^2.

    Other losses: by the curvature sigma of the loss the regret against w is at most

        sum g (p - w'phi) - sigma/2 g^2 (p - w'phi)^2,

    a quadratic in w whose supremum less alpha/2 |w|^2 is again closed: H = sum sigma g^2 phi phi',
    h = sum (sigma g^2 p - g) phi, constant = sum g p - sigma/2 g^2 p^2.
    """

    def __init__(self, rule: OnlineNewton, alpha: float, size: int) -> None:
        self.loss, self.alpha = rule.loss, alpha
        self.exact = rule.loss.code == SQUARED
        self.finished: list[Certificate] = []
        self._begin(size)

    def _begin(self, size: int) -> None:
        self._H = np.zeros((size, size), order="F")
        self._h = np.zeros(size)
        self._scalars = np.zeros(3)  # rows, cumulative loss, constant

    def add(
        self, Phi: Array, y: Array, p: Array, clip: float, weights: Array | None = None
    ) -> None:
        """Add rows with features, targets and predictions; a weight w counts the loss w times."""
        loss = self.loss
        w = np.ones(len(y)) if weights is None else weights
        self._scalars += [len(y), w @ loss.value(p, y), 0.0]
        if weights is not None and self.exact:
            Phi, y = Phi * np.sqrt(w)[:, None], y * np.sqrt(w)
        if self.exact:
            self._H = add_products(self._H, np.ascontiguousarray(Phi))
            self._h += y @ Phi
            self._scalars[2] += y @ y
            return
        g = w * loss.slope(p, y)
        sigma = (loss.curvature(clip) if clip > 0 else 0.0) / w
        self._H = add_products(self._H, (np.sqrt(sigma) * np.abs(g))[:, None] * Phi)
        self._h += (sigma * g * g * p - g) @ Phi
        self._scalars[2] += g @ p - 0.5 * (sigma * g * g) @ (p * p)

    def grow(self) -> None:
        self._H = bordered(self._H, 0.0)
        self._h = np.append(self._h, 0.0)

    def close(self, gradient_terms: float, size: int) -> None:
        """End the epoch; the next one begins in R^size."""
        self.finished.append(self._current(gradient_terms))
        self._begin(size)

    def total(self, gradient_terms: float) -> Certificate:
        certificate = self._current(gradient_terms)
        for epoch in reversed(self.finished):
            certificate = epoch + certificate
        return certificate

    def _current(self, gradient_terms: float) -> Certificate:
        rows, loss, constant = self._scalars
        # Both quadratics are minimised by (s H + alpha/2 I) w = s h, s = 1 or 1/2.
        scale = 1.0 if self.exact else 0.5
        matrix = scale * self._H + 0.5 * self.alpha * np.eye(len(self._h))
        L = cholesky(np.asfortranarray(matrix), "H")
        z = solve_lower(L, scale * self._h[:, None])
        w = solve_lower(L, z, transposed=True)[:, 0]
        penalty = 0.5 * self.alpha * float(w @ w)
        gain = float(z[:, 0] @ z[:, 0])  # by how much w beats 0, with its penalty
        least = constant - gain if self.exact else loss - constant - gain
        return Certificate(
            int(rows), float(loss), float(least - penalty), penalty, float(loss - least),
            0.5 * gradient_terms, exact=self.exact,
        )  # fmt: skip

    def negate(self) -> None:
        """Turn the sums into those of the negated targets."""
        self._h = -self._h

    STATE = (
        Numbers("H", ("size", "size"), order="F"),
        Numbers("h", ("size",)),
        Numbers("scalars", (3,)),
        Epochs("finished", "finished"),
    )
