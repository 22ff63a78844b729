"""Certificates: a learner's loss so far, the best loss in hindsight, and a bound of the regret.

For the ridge and AWV forecasters in R^r, with v = A^-1 b the regularised fit of all rows so far,

    min_w  sum (y - w'phi)^2 + alpha |w|^2  =  sum y^2 - b'v
    regret = sum (y - p)^2 - that minimum       (the supremum over w of regret - alpha |w|^2)
    bound  = Y^2 log det(A / alpha),  Y = largest |y| (AWV) or largest |y - p| (ridge)

For the online Newton step, with the penalty alpha/2 |w|^2, the bound is half the sum of
g_t' A_t^-1 g_t, under conditions on the step size and on the best function (`RegretSums`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from pronk.core.arrays import Array
from pronk.core.compiling import compiled
from pronk.core.linalg import add_products, bordered, cholesky, solve_lower
from pronk.core.losses import SQUARED, Loss
from pronk.core.state import Field, Numbers, Sizes, Stateful, require

#: Rows of a ledger (5, outputs): number of rows, sum (y - p)^2, sum y^2, max |y|, max |y - p|.
ROWS, LOSS, TARGETS, LARGEST_TARGET, LARGEST_ERROR = range(5)


@dataclass(frozen=True)
class Certificate:
    """The regret of a learner so far, and the bound it keeps to.

    Attributes
    ----------
    rows : rows learned
    loss : cumulative loss of the predictions made before each label was used
    best_loss : loss of the best function of the current space in hindsight (the regularised fit)
    penalty : its regularisation term, alpha |w|^2 (online Newton: alpha/2 |w|^2)
    regret : loss - best_loss - penalty; not None wherever best_loss is known
    bound : what the regret cannot exceed; None where no guarantee is known
    epochs : restarts plus one, where a learner restarts; the sums run over all of them
    exact : False where best_loss is a lower bound on the best, so that regret is an upper bound
    """

    rows: int
    loss: float
    best_loss: float
    penalty: float
    regret: float
    bound: float | None
    epochs: int = 1
    exact: bool = True

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Any) -> Certificate:
        """Make a certificate from `to_dict` of another; raise a StateError for anything else."""
        require(isinstance(values, dict), "a certificate is not a table")
        names = {field.name for field in fields(cls)}
        require(set(values) == names, "a certificate has other entries than it should")
        for name, value in values.items():
            missing = name == "bound" and value is None
            kind = {"rows": (int,), "epochs": (int,), "exact": (bool,)}.get(name, (int, float))
            require(missing or type(value) in kind, f"a certificate's {name} is of another kind")
        return cls(**values)

    def __add__(self, other: Certificate) -> Certificate:
        """Return the certificate of two epochs, one after the other."""
        both = self.bound is not None and other.bound is not None
        return Certificate(
            self.rows + other.rows,
            self.loss + other.loss,
            self.best_loss + other.best_loss,
            self.penalty + other.penalty,
            self.regret + other.regret,
            self.bound + other.bound if both else None,  # type: ignore[operator]
            self.epochs + other.epochs,
            self.exact and other.exact,
        )


def squared_certificate(
    ledger: Array, best: float, penalty: float, bound: float | None
) -> Certificate:
    """Make the certificate of one ledger column (5,)."""
    loss = float(ledger[LOSS])
    # Sums of squares may cancel to a negative rounding error where the fit is perfect.
    best = max(best, 0.0)
    return Certificate(int(ledger[ROWS]), loss, best, penalty, loss - best - penalty, bound)


def determinant_bound(ledger: Array, log_determinant: float, anticipate: bool) -> float:
    """Return Y^2 log det(A / alpha) of one ledger column (5,)."""
    scale = float(ledger[LARGEST_TARGET if anticipate else LARGEST_ERROR])
    return scale * scale * float(log_determinant)


@compiled
def account(P: Array, Y: Array, ledger: Array) -> None:
    """Add rows with predictions P and targets Y (n, outputs) to a ledger (5, outputs)."""
    for i in range(P.shape[0]):
        for o in range(P.shape[1]):
            error = P[i, o] - Y[i, o]
            ledger[ROWS, o] += 1.0
            ledger[LOSS, o] += error * error
            ledger[TARGETS, o] += Y[i, o] * Y[i, o]
            ledger[LARGEST_TARGET, o] = max(ledger[LARGEST_TARGET, o], abs(Y[i, o]))
            ledger[LARGEST_ERROR, o] = max(ledger[LARGEST_ERROR, o], abs(error))


def new_ledger(outputs: int) -> Array:
    """Return the ledger of no rows."""
    return np.zeros((5, outputs))


def merge_ledgers(ledger: Array, later: Array) -> None:
    """Merge a later ledger into this one: sums add up, the largest values stay."""
    ledger[:3] += later[:3]
    np.maximum(ledger[3:], later[3:], out=ledger[3:])


# -- the online Newton step ----------------------------------------------------------------------


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
    h = sum (sigma g^2 p - g) phi, constant = sum g p - sigma/2 g^2 p^2. Losses are not negative,
    so neither is the least loss with its penalty.

    **The bound.** With c = eta g^2 and f the prediction before the clip, the steps satisfy

        |v - w|_A^2 = alpha |w|^2 + sum g^2 phi'A^-1 phi - 2 g (p - w'phi) + c (p - w'phi)^2 - moved

        moved = sum (f - p) (f + p - 2 w'phi) / q

    so the regret is at most half of sum g^2 phi'A^-1 phi if eta <= sigma in all rows and moved >= 0
    for the best w: the projections on the clip, taken together, moved the weights towards w, as
    they always do if w stays within the clip. moved is linear in w, and by the same equation

        moved = sum (g^2 phi'A^-1 phi + c p^2 - 2 g p) - v'b - 2 w'(sum (c p - g) phi - b).

    Otherwise there is no bound.
    """

    def __init__(self, loss: Loss, alpha: float, size: int) -> None:
        self.loss, self.alpha = loss, alpha
        self.exact = loss.code == SQUARED
        self.finished: list[Certificate] = []
        self._begin(size)

    def _begin(self, size: int) -> None:
        self._H = np.zeros((size, size), order="F")
        self._h = np.zeros(size)
        self._steps = np.zeros(size)  # sum (c p - g) phi
        # rows, cumulative loss, constant, sum c p^2 - 2 g p, and the sum of its terms' sizes
        self._scalars = np.zeros(5)

    def add(self, Phi: Array, y: Array, p: Array, terms: Any, w: Array) -> None:
        """Add rows with features, targets and predictions; a weight w counts the loss w times.

        ``terms`` are g, c and sigma of the rows (`recurrence.gradient_terms`).
        """
        g, c, sigma = terms
        sizes = np.abs(c * p * p) + np.abs(2.0 * g * p)
        change = c * p * p - 2.0 * g * p
        self._scalars += [len(y), w @ self.loss.value(p, y), 0.0, change.sum(), sizes.sum()]
        self._steps += (c * p - g) @ Phi
        if self.exact:
            self._H = add_products(self._H, Phi * np.sqrt(w)[:, None])
            self._h += (w * y) @ Phi
            self._scalars[2] += (w * y) @ y
            return
        self._H = add_products(self._H, (np.sqrt(sigma) * np.abs(g))[:, None] * Phi)
        self._h += (sigma * g * g * p - g) @ Phi
        self._scalars[2] += g @ p - 0.5 * (sigma * g * g) @ (p * p)

    def grow(self) -> None:
        self._H = bordered(self._H, 0.0)
        self._h = np.append(self._h, 0.0)
        self._steps = np.append(self._steps, 0.0)

    def close(self, learner: Any, size: int) -> None:
        """End the epoch of a learner; the next one begins in R^size."""
        self.finished.append(self._current(learner))
        self._begin(size)

    def total(self, learner: Any) -> Certificate:
        """Return the certificate of a learner (`Newton`) over all epochs."""
        certificate = self._current(learner)
        for epoch in reversed(self.finished):
            certificate = epoch + certificate
        return certificate

    def _current(self, learner: Any) -> Certificate:
        rows, loss, constant, *_ = (float(value) for value in self._scalars)
        # Both quadratics are minimised by (s H + alpha/2 I) w = s h, s = 1 or 1/2.
        scale = 1.0 if self.exact else 0.5
        matrix = scale * self._H + 0.5 * self.alpha * np.eye(len(self._h))
        L = cholesky(np.asfortranarray(matrix), "H")
        z = solve_lower(L, scale * self._h[:, None])
        w = solve_lower(L, z, transposed=True)[:, 0]
        gain = float(z[:, 0] @ z[:, 0])  # by how much w beats 0, with its penalty
        least = constant - gain if self.exact else loss - constant - gain
        best = max(least - 0.5 * self.alpha * float(w @ w), 0.0)
        penalty = max(least, 0.0) - best
        bounded = learner.eta_is_certified and self._moved_towards(w, learner)
        bound = 0.5 * learner.regret_terms if bounded else None
        regret = loss - best - penalty
        return Certificate(int(rows), loss, best, penalty, regret, bound, exact=self.exact)

    def _moved_towards(self, w: Array, learner: Any) -> bool:
        """Return whether the projections, taken together, moved the learner's weights towards w."""
        b, v = learner.b[:, 0], learner.weights[:, 0]
        terms = learner.regret_terms
        moved = terms + self._scalars[3] - v @ b - 2.0 * w @ (self._steps - b)
        sizes = np.abs(w) @ (np.abs(self._steps) + np.abs(b))
        rounding = 1e-10 * (terms + self._scalars[4] + np.abs(v) @ np.abs(b) + 2.0 * sizes)
        return bool(moved >= -rounding)

    def remap(self, matrix: Array) -> None:
        """Replace the output by plus or minus itself."""
        self._h, self._steps = matrix[0, 0] * self._h, matrix[0, 0] * self._steps

    STATE = (
        Numbers("H", ("size", "size"), order="F"),
        Numbers("h", ("size",)),
        Numbers("steps", ("size",)),
        Numbers("scalars", (5,)),
        Epochs("finished", "finished"),
    )
