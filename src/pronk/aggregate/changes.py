"""What changed: the columns whose distribution or whose relation to y differs since a row.

`RecentRows` keeps rows with their targets and predictions: all of the last 512, and every 11th of
the 5,632 before, so that its size does not grow with the stream. (Fewer, if there are many columns;
11 is not a divisor of the lengths of days, weeks and years.) Which rows are kept depends on their
number in the stream only.

`changed_columns` compares rows before with rows since a change, one column after the other. The
column is cut into bins at the quantiles of all these rows; ties, such as the two values of a
category, stay in one bin. Three statistics, each near an F distribution if nothing changed:

    distribution   Pearson's chi^2 / (bins - 1) of the counts before and since
    relation       change of the mean error r = y - p in each bin b, about its mean over the bins,

                       F = sum_b (D_b - D)^2 / v_b / (bins - 1),  D_b = r_since,b - r_before,b,

                   v_b the variance of D_b; and the same for log |r|, which sees an interaction

A column that moves slowly, such as the time, differs in any two parts of the stream. So each
statistic is divided by its mean over earlier parts of the same length, each against the other rows,
if that is above 1. The p-value of a column is three times the smallest, times the number of
outputs, and Holm's method over all columns bounds the chance of naming any column wrongly by 1 %.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from pronk.core.linalg import GrowingRows
from pronk.core.state import Count, Rows, Sizes, Stateful, require

Array = NDArray[np.float64]

#: All of the newest rows are kept, and every STRIDEth of the STRIDE * NEWEST rows before.
NEWEST, LEAST_NEWEST, STRIDE = 512, 128, 11
#: Most numbers of all the newest rows, if LEAST_NEWEST rows have no more.
NUMBERS = 2**16
#: Least rows before and since a change, and of a bin since.
LEAST, LEAST_IN_BIN = 24, 3
#: Most bins, and rows since the change per bin.
BINS, PER_BIN = 8, 10
#: Least expected count of a bin since the change.
EXPECTED = 2.0
#: Earlier parts that are compared in the same way: most and least, and least rows of one.
PARTS, LEAST_PARTS, LEAST_IN_PART = 24, 4, 4
#: An error counts as at most this many mean absolute errors.
REACH = 4.0
#: Chance that any column is named wrongly, and most columns that are named.
CHANCE, MOST_NAMED = 0.01, 8
#: What changed.
DISTRIBUTION, RELATION = 0, 1


class RecentRows(Stateful):
    """Keep the last rows with targets and predictions, and some of the rows before."""

    def __init__(self, columns: int, outputs: int, timed: bool = False) -> None:
        self.columns, self.outputs, self.timed = columns, outputs, timed
        # Not by the outputs: those of labels grow with the classes, at once or one by one.
        fitting = NUMBERS // (columns + 2 + timed)
        self.newest = max(LEAST_NEWEST, min(NEWEST, fitting // 64 * 64))
        self._chunk = self.newest // 2  # rows between two removals
        self.rows = 0
        self._X = GrowingRows(columns)
        self._Y, self._P = GrowingRows(outputs), GrowingRows(outputs)
        self._gaps = GrowingRows(1) if timed else None

    def _all(self) -> list[tuple[str, GrowingRows]]:
        names = ("_X", "_Y", "_P", *(("_gaps",) if self.timed else ()))
        return [(name, getattr(self, name)) for name in names]

    def _kept(self, last: int) -> NDArray[np.int64]:
        """Return the numbers of the rows that are kept at row ``last``, and all since."""
        recent = max(0, last - self.newest)
        first = max(0, recent - STRIDE * self.newest)
        older = np.arange(-(-first // STRIDE) * STRIDE, recent, STRIDE)
        return np.concatenate((older, np.arange(recent, self.rows)))

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Numbers of the rows held, in the stream, increasing."""
        return self._kept(self.rows - self.rows % self._chunk)

    def add(self, X: Array, Y: Array, P: Array, gaps: Array | None = None) -> None:
        """Add rows with targets and predictions, and with the gaps before them if timed."""
        done = 0
        while done < len(X):
            rows = slice(done, min(len(X), done + self._chunk - self.rows % self._chunk))
            self._X.append(X[rows])
            self._Y.append(Y[rows])
            self._P.append(P[rows])
            if self._gaps is not None and gaps is not None:
                self._gaps.append(gaps[rows, None])
            self.rows += rows.stop - rows.start
            done = rows.stop
            if self.rows % self._chunk == 0:
                held = self._kept(self.rows - self._chunk)
                kept = np.isin(held, self._kept(self.rows), assume_unique=True)
                for name, own in self._all():
                    setattr(self, name, GrowingRows.from_state(own.values[kept]))

    def last(self, rows: int, before: int = 0) -> tuple[Array, Array, Array, Array | None]:
        """Return X, Y, P and the gaps of ``rows`` rows that lie ``before`` rows back; views."""
        stop = self._X.size - before
        part = slice(max(0, stop - rows), stop)
        gaps = None if self._gaps is None else self._gaps.values[part, 0]
        return self._X.values[part], self._Y.values[part], self._P.values[part], gaps

    def changed(self, since: int, known: int) -> list[Changed]:
        """Return the columns that changed at row ``since``, by the ``known`` rows with a target."""
        numbers = self.numbers
        held = int(np.searchsorted(numbers, known))
        first = int(np.searchsorted(numbers, since))
        errors = self._Y.values[:held] - self._P.values[:held]
        return changed_columns(self._X.values[:held], errors, numbers[:held], first)

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self.outputs = matrix.shape[1]
        for name in ("_Y", "_P"):
            rows = GrowingRows.from_state(getattr(self, name).values)
            rows.remap(matrix)
            setattr(self, name, rows)

    STATE = (
        Count("rows", "rows"),
        Rows("X", ("held", "columns")),
        Rows("Y", ("held", "outputs")),
        Rows("P", ("held", "outputs")),
        Rows("gaps", ("held", 1), low=0.0),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self.columns, "outputs": self.outputs}

    def _restored(self, sizes: Sizes) -> None:
        require(sizes["held"] == len(self.numbers), "X has another number of rows than rows says")


class Changed(NamedTuple):
    """A column that changed.

    ``before`` and ``since`` are its 10, 50 and 90 % quantiles, or, where its relation to y changed,
    the mean error in the lower, middle and upper third of its values.
    """

    column: int
    kind: int
    p: float
    before: tuple[float, float, float]
    since: tuple[float, float, float]


def changed_columns(X: Array, E: Array, numbers: NDArray[np.int64], first: int) -> list[Changed]:
    """Return the columns that changed at the row in place ``first``, the most certain one first.

    X (n, columns) and errors E (n, outputs) of rows with increasing ``numbers`` in the stream.
    """
    since = len(X) - first
    if min(first, since) < LEAST:
        return []
    E = np.clip(E, -1e140, 1e140)
    late = np.arange(len(X)) >= first
    parts = _earlier_parts(numbers, first)
    found = []
    for column in range(X.shape[1]):
        codes, bins = _bins(X[:, column], since)
        if bins < 2:
            continue
        M = np.zeros((len(X), bins))
        M[np.arange(len(X)), codes] = 1.0
        F, freedom = _statistics(M, E, late)
        times = np.ones(len(F))
        times[1:] = E.shape[1]
        p = times * fdtrc(bins - 1.0, freedom, F)
        if p.min() < CHANCE and len(parts) >= LEAST_PARTS:
            p = times * _against_parts(M[:first], E[:first], parts, F, freedom, since)
        least = int(np.argmin(p))
        kind = DISTRIBUTION if least == 0 else RELATION
        found.append((min(1.0, 3.0 * float(p[least])), -float(F[least]), column, kind))
    found.sort()
    named = []
    for i, (p_value, _, column, kind) in enumerate(found[:MOST_NAMED]):
        if p_value * (len(found) - i) > CHANCE:  # Holm
            break
        named.append(_described(X[:, column], E, late, column, kind, p_value))
    return named


def _earlier_parts(numbers: NDArray[np.int64], first: int) -> list[slice]:
    """Return places of earlier rows of the stream, as long a time as from ``first`` to the end."""
    since = numbers[-1] + 1 - numbers[first]
    ends = numbers[first] - since * np.arange(PARTS + 1)
    places = np.searchsorted(numbers, ends[ends >= numbers[0]]).tolist()
    return [slice(i, j) for j, i in pairwise(places) if j - i >= LEAST_IN_PART]


def _against_parts(
    M: Array, E: Array, parts: list[slice], F: Array, freedom: Array, since: int
) -> Array:
    """Return p-values of the statistics by those of earlier ``parts``, each against the others.

    With c rows in a part, its statistic is about 1 + (c - 1) rho, rho the correlation within parts;
    so is that of ``since`` rows. The degrees of freedom are those of the parts' statistics.
    """
    own = []
    for part in parts:
        late = np.zeros(len(M), dtype=bool)
        late[part] = True
        own.append(_statistics(M, E, late)[0])
    c = np.array([[part.stop - part.start - 1.0] for part in parts])
    rho = np.maximum((c * (np.array(own) - 1.0)).sum(axis=0) / (c * c).sum(), 0.0)
    spread = np.var(np.array(own) / (1.0 + c * rho), axis=0)
    one = np.clip(2.0 / np.maximum(spread, 1e-9), 1.0, M.shape[1] - 1.0)
    two = np.where(rho > 0.0, np.minimum(freedom, len(parts) * one), freedom)
    return np.asarray(fdtrc(one, two, F / (1.0 + (since - 1.0) * rho)))


def _bins(x: Array, since: int) -> tuple[NDArray[np.int64], int]:
    """Return the bin (n,) of each value, and their number; ``since`` rows are late."""
    most = int(min(BINS, max(2, since // PER_BIN)))
    edges = np.unique(np.quantile(x, np.arange(1, most) / most, method="lower"))
    codes = np.searchsorted(edges, x, side="left")
    counts = np.bincount(codes, minlength=len(edges) + 1)
    # A bin with too few rows is joined with the next one, the last with the one before.
    share, place, held, places = since / len(x), 0, 0.0, []
    for count in counts.tolist():
        places.append(place)
        held += share * count
        if held >= EXPECTED:
            place, held = place + 1, 0.0
    if held or place == 0:
        places = [min(p, max(place - 1, 0)) for p in places]
    return np.array(places)[codes], max(place, 1)


def _statistics(M: Array, E: Array, late: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Return the statistics (1 + 2 outputs,) and their second degrees of freedom.

    M (n, bins) is 1 in the bin of each row, E (n, outputs) are errors.
    """
    bins, outputs = M.shape[1], E.shape[1]
    counts = np.stack((M[~late].sum(axis=0), M[late].sum(axis=0)))
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    expected = np.outer(rows, columns) / rows.sum()
    used = columns > 0
    chi = ((counts - expected)[:, used] ** 2 / expected[:, used]).sum()
    F, freedom = np.zeros(1 + 2 * outputs), np.full(1 + 2 * outputs, 1e6)
    F[0] = chi / (bins - 1)
    full = (counts >= LEAST_IN_BIN).all(axis=0)
    if full.sum() < 2:
        return F, freedom
    n0, n1 = counts[:, full]
    sums = []
    for own, part in ((M[~late][:, full], E[~late]), (M[late][:, full], E[late])):
        size = np.abs(part).mean(axis=0)
        part = np.clip(part, -REACH * size, REACH * size)
        logs = np.log(np.maximum(np.abs(part) + 0.1 * size, 1e-300))
        part = np.hstack((part, logs))
        n = own.sum(axis=0)[:, None]
        means = own.T @ part / n
        inside = own.sum(axis=1) > 0
        spread = ((part - own @ means)[inside] ** 2).sum(axis=0)
        sums.append((means, spread / max(inside.sum() - len(n), 1)))
    (mean0, var0), (mean1, var1) = sums
    D = mean1 - mean0
    v = var0 / n0[:, None] + var1 / n1[:, None]
    good = (v > 0.0).all(axis=0)
    weights = 1.0 / np.where(v > 0.0, v, 1.0)
    center = (weights * D).sum(axis=0) / weights.sum(axis=0)
    Q = (weights * (D - center) ** 2).sum(axis=0) / (full.sum() - 1)
    F[1:] = np.where(good, Q, 0.0)
    freedom[1:] = max(n1.sum() - full.sum(), 1.0)
    return F, freedom


def _described(
    x: Array, E: Array, late: NDArray[np.bool_], column: int, kind: int, p: float
) -> Changed:
    """Return a changed column with its values before and since."""
    shown = []
    if kind == RELATION:
        edges = np.quantile(x, (1 / 3, 2 / 3))
        thirds = np.searchsorted(edges, x)
        output = int(np.argmax(np.abs(E[late]).mean(axis=0) / (np.abs(E).mean(axis=0) + 1e-300)))
    for part in (~late, late):
        if kind == DISTRIBUTION:
            shown.append(tuple(np.quantile(x[part], (0.1, 0.5, 0.9)).tolist()))
        else:
            own = [E[part & (thirds == i), output] for i in range(3)]
            shown.append(tuple(float(e.mean()) if len(e) else 0.0 for e in own))
    return Changed(column, kind, p, *shown)
