"""Certificates: a learner's loss so far, the best loss in hindsight, and a bound of the regret.

For the ridge and AWV forecasters in R^r, with v = A^-1 b the regularised fit of all rows so far,

    min_w  sum (y - w'phi)^2 + alpha |w|^2  =  sum y^2 - b'v
    regret = sum (y - p)^2 - that minimum       (the supremum over w of regret - alpha |w|^2)
    bound  = Y^2 log det(A / alpha),  Y = largest |y| (AWV) or largest |y - p| (ridge)

For the online Newton step, with the penalty alpha/2 |w|^2, the bound is half the sum of
g_t' A_t^-1 g_t. It holds against functions that stay within the clip on all rows.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from pronk.core.state import require

Array = NDArray[np.float64]

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
            require(missing or type(value) in kind, f"a certificate's {name} is no such value")
        return cls(**values)

    def __getitem__(self, name: str) -> Any:
        """Return the attribute of that name."""
        return self.to_dict()[name]

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
    ledger: Array, best: float, penalty: float, log_determinant: float | None, anticipate: bool
) -> Certificate:
    """Make the certificate of one ledger column (5,); no bound without a log determinant."""
    rows, loss, _, largest_target, largest_error = (float(value) for value in ledger)
    scale = largest_target if anticipate else largest_error
    bound = None if log_determinant is None else scale * scale * float(log_determinant)
    # Sums of squares may cancel to a negative rounding error where the fit is perfect.
    best = max(best, 0.0)
    return Certificate(int(rows), loss, best, penalty, loss - best - penalty, bound)


@njit(cache=True, nogil=True)
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
