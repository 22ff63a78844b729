"""Regret against the best combination of the experts in hindsight, and its bound.

Let p be the clipped predictions of the active experts, m their average at that row (`mixture`), D
the largest error so far, B the half-width of the targets' range, both including this row, and b the
first such B. Rows are weighted by

    g = (b / B)^2 / max(2 D^2, b^2)

which is 1 / (2 D^2), the unit of the mixture's weights, once D >= b / sqrt(2) and while the range
does not change. Then for every fixed u

    sum g (final - y)^2  <=  sum g (m + u'(p - m) - y)^2 + alpha |u|^2 + bound

    bound = log(1 + stacks) + log(t + 1)              final against the first stack
          + sum of g (final - y)^2 while 2 D^2 < b^2  (EARLY)
          + 1/2 log det(A / alpha)                    that stack, ridge regression, against u
          + sum of g x^2, x the distance of y from the range before it  (BEYOND)

u with sum u = 1 is the combination u'p of the experts alone; otherwise m has the remaining weight.

Proof. Let q be the first stack's prediction and f the same before it is clipped to the range.

1. In units of 2 D^2 the final prediction loses at most log(1 + stacks) + log t to q, over any last
   rows (fixed share). From the first row with 2 D^2 >= b^2 on, g is (b / B)^2 times 1 / (2 D^2), a
   factor that is at most 1 and never increases: summed by parts, the same bound holds for the
   weights g. Earlier rows are counted in full.
2. The stack is ridge regression of y - m on p - m, and on lagged errors where they are read (u is 0
   there, and A has their terms too), in units of B, and g B^2 = b^2 / max(2 D^2, b^2) is at most 1
   and never increases. With V(u) = ``|u_t - u|^2`` in the norm of A, the decrease of V over a row
   is (f - y)^2 / (1 + q_t) less (m + u'(p - m) - y)^2, in units of B^2, q_t the row's leverage.
   Summed by parts that is at most V(u) at the start, ``alpha |u|^2``.
3. |q - y| is at most |f - y|, or at most x if y lies outside the range; and at most D. So the rest
   of a row, g ((q - y)^2 - (f - y)^2 / (1 + q_t)), is at most g D^2 log(1 + q_t) + g x^2, and
   g D^2 <= 1/2. The log(1 + q_t) sum to log det(A / alpha).

Dropped experts leave the sums. For u on the remaining experts V(u) does not increase; the log det
that is lost stays in the bound (DROPPED).

The bound holds for numeric targets with one output: with several, D / B differs between them, and
for logistic stacks (labels) no bound against combinations is known. There the regret is reported
without a bound. A row costs one outer product of (p - m, y - m).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.stacks import RIDGE_ALPHA
from pronk.core.compiling import compiled
from pronk.core.linalg import recombined
from pronk.core.state import Numbers, Sizes, Stateful, require
from pronk.newton.certificate import Certificate

Array = NDArray[np.float64]

#: Entries of ``tally`` (4 + outputs,): loss of the final prediction, the part of it from early
#: rows, squared distances beyond the range, log det of dropped experts; from FIRST on b per output.
LOSS, EARLY, BEYOND, DROPPED, FIRST = range(5)
#: Rows of ``limits`` (2, outputs), the range of the targets.
LOW, HIGH = 0, 1


@dataclass(frozen=True)
class MixtureCertificate(Certificate):
    """Regret against the best expert and, in ``combination``, the best combination of experts.

    With local experts the experts are those and the mixture of the others, whose own certificate is
    ``inner``.
    """

    combination: Certificate | None = None
    inner: MixtureCertificate | None = None


class CombinationSums(NamedTuple):
    """Arrays that a row changes.

    gram   (experts + 1, experts + 1), lower triangle: sum of g x x', x = (p - m, y - m)
    tally  (4 + outputs,): LOSS, EARLY, BEYOND, DROPPED, then b per output
    """

    gram: Array
    tally: Array


@compiled
def beyond_range(y: Array, limits: Array, out: Array) -> None:
    """Write the distance of y (outputs,) from the range ``limits`` (2, outputs) to ``out``."""
    for o in range(y.size):
        out[o] = max(limits[LOW, o] - y[o], y[o] - limits[HIGH, o], 0.0)


@compiled
def set_first_ranges(live: NDArray[np.bool_], limits: Array, sums: CombinationSums) -> None:
    """Store half of the range b of the live outputs whose range is positive for the first time."""
    first = sums.tally[FIRST:]
    for o in range(live.size):
        if live[o] and first[o] == 0.0:
            first[o] = 0.5 * (limits[HIGH, o] - limits[LOW, o])


@compiled(fastmath={"contract"})
def add_to_combination(
    y: Array, live: NDArray[np.bool_], count: int, limits: Array, worst: Array, beyond: Array,
    C: Array, average: Array, final: Array, sums: CombinationSums,
) -> None:  # fmt: skip
    """Add a row to the sums.

    y, ``live``, ``worst`` (D), ``beyond`` (x), ``average`` (m) and ``final`` are (outputs,), C (the
    clipped predictions p) is (experts, outputs), ``limits`` (2, outputs); ``limits`` and ``worst``
    include this row; ``count`` is the number of live outputs.
    """
    gram, tally = sums
    first, experts = tally[FIRST:], len(C)
    x = np.empty(experts + 1)
    for o in range(y.size):
        half = 0.5 * (limits[HIGH, o] - limits[LOW, o])
        if not live[o] or half == 0.0:
            continue
        # sqrt(g) = share / unit,  share = b / B,  unit = max(sqrt(2) D, b). Ratios are squared, not
        # targets: squares of small targets would underflow to 0.
        largest, share = np.sqrt(2.0) * worst[o], first[o] / half
        unit = max(largest, first[o])
        error, outside = share * (final[o] - y[o]) / unit, share * beyond[o] / unit
        loss = error * error / count
        tally[LOSS] += loss
        tally[EARLY] += loss if largest < first[o] else 0.0
        tally[BEYOND] += outside * outside / count
        # gram <- gram + g x x' / count,  x = (p - m, y - m)
        for e in range(experts):
            x[e] = share * (C[e, o] - average[o]) / unit
        x[experts] = share * (y[o] - average[o]) / unit
        for e in range(experts + 1):
            for f in range(e + 1):
                gram[e, f] += x[e] * x[f] / count


def log_determinant(A: Array) -> float:
    """Return log det(A / alpha) of a ridge stack's sums A, given by their lower triangle."""
    diagonals = np.diagonal(np.linalg.cholesky(A), axis1=-2, axis2=-1)
    return float(2.0 * np.log(diagonals).sum() - diagonals.size * np.log(RIDGE_ALPHA))


class Combination(Stateful):
    """Sums for the certificate of one mixture against combinations of its experts."""

    def __init__(self, experts: int, outputs: int) -> None:
        self._gram = np.zeros((experts + 1, experts + 1))
        self._tally = np.zeros(FIRST + outputs)

    @property
    def sums(self) -> CombinationSums:
        """Arrays that a row changes."""
        return CombinationSums(self._gram, self._tally)

    def certificate(self, rows: int, A: Array, bounded: bool) -> Certificate:
        """Return the regret against the best u in hindsight.

        A (stacks, terms, terms) are the sums of the stacks. ``bounded``: there is one output, and
        the first stack is a ridge regression without discount.
        """
        # u = (sum g (p - m)(p - m)' + alpha I)^-1 sum g (p - m)(y - m)
        sums, products = self._gram[:-1, :-1], self._gram[-1, :-1]
        L = np.linalg.cholesky(sums + RIDGE_ALPHA * np.eye(len(sums)))
        z = np.linalg.solve(L, products)
        u = np.linalg.solve(L.T, z)
        penalty = float(RIDGE_ALPHA * u @ u)
        # Sums of squares may cancel to a negative rounding error where the fit is perfect.
        best = max(float(self._gram[-1, -1] - z @ z) - penalty, 0.0)
        loss, early, beyond, dropped = (float(value) for value in self._tally[:FIRST])
        bound = None
        if bounded:
            bound = float(np.log(1 + len(A)) + np.log(rows + 1.0)) + early + beyond
            bound += 0.5 * (dropped + log_determinant(A[0]))
        return Certificate(rows, loss, best, penalty, loss - best - penalty, bound)

    def keep(self, chosen: NDArray[np.int64], A: Array, left: Array) -> None:
        """Drop the other experts; A and ``left`` are the first stack's sums before and after."""
        self._tally[DROPPED] += max(log_determinant(A) - log_determinant(left), 0.0)
        places = np.append(chosen, len(self._gram) - 1)
        self._gram = np.ascontiguousarray(self._gram[places][:, places])

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        first = recombined(self._tally[FIRST:], matrix, absolute=True)
        self._tally = np.concatenate((self._tally[:FIRST], first))

    STATE = (
        Numbers("gram", ("places", "places")),
        Numbers("tally", ("entries",), low=0.0),
    )

    def _sizes(self) -> dict[str, int]:
        return {"entries": len(self._tally)}

    def _restored(self, sizes: Sizes) -> None:
        size = float(np.diagonal(self._gram).max())
        least = float(np.linalg.eigvalsh(self._gram).min())
        require(least >= -1e-9 * size, "gram is not positive semidefinite")
