"""Boosted trees, fitted again and again while the stream goes on: one more local expert.

Kernels blur a jump along a column; trees cut there. An ensemble is gradient boosting for the
squared loss: with F the prediction so far, starting at the mean of the targets, each tree fits the
residuals y - F of the stored rows, and F <- F + 0.1 tree.

**A tree** has at most 31 leaves of at least 20 rows. Columns are cut between at most 255 bins
whose edges are quantiles, and which have about 8 rows or more. The leaf with the best split is
split next, at the column and edge with the largest gain,

    gain  =  S_left^2 / n_left + S_right^2 / n_right - S^2 / n,     S the sum of the residuals,

and a leaf predicts the mean of its residuals. Of several outputs the splits are those of one
combination of the residuals with random signs, another one for each tree; the leaves predict all
outputs. Outputs that do not vary in the rows take no part, and of labels with two classes the last.

**When.** Rows are kept in single precision. An ensemble is fitted to the last rows, at most 16,384,
when 512, 768, 1024, 1536, .. 16,384 rows have been learned and then every 16,384 rows. Its columns
are put in bins and its trees grown in turn while a quarter as many further rows are learned; then
it replaces the ensemble before. What is done after row t depends on t alone, so the cut into calls
changes nothing, and no row waits for more than some columns or trees. Before the first ensemble
there is no prediction.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import informative_outputs
from pronk.core.compiling import compiled
from pronk.core.linalg import recombined
from pronk.core.randomness import generator
from pronk.core.state import LARGEST_TARGET, Count, Numbers, Sizes, Stateful, require

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Bins = NDArray[np.uint8]
Whole = NDArray[np.int64]

#: Rows at which an ensemble is fitted first, and most rows that it is fitted to.
FIRST, MOST = 512, 16384
#: Trees of one output, most trees, leaves, rows per leaf at least, bins, and the learning rate.
TREES, MOST_TREES, LEAVES, LEAF_ROWS, BINS, RATE = 100, 400, 31, 20, 255, 0.1
#: Share of the rows of a fit during which its columns are put in bins.
BINNING = 1 / 8
#: Rows per bin of a column of many values, at least, and fewest bins of such a column.
BIN_ROWS, FEWEST_BINS = 8, 32
#: Nodes of a tree.
NODES = 2 * LEAVES - 1
#: Rows of a chunk of stored rows.
CHUNK = 512
#: Chunks that are kept behind a new one: a fit of MOST rows may be under way.
KEPT_CHUNKS = (MOST + MOST // 4) // CHUNK
#: Wider rows have no boosted trees; most bins of all columns.
MOST_COLUMNS, MOST_CELLS = 512, 2**16
#: Rows are clipped to this range, so that they are finite in single precision.
WIDEST = 2.0**100
#: Random stream of the signs.
SIGNS = 8
#: Gains of splits that differ by a smaller share are equal.
ROUNDING = 1e-10
#: Columns of ``histograms``: sum of the residuals, number of rows.
SUM, ROWS = 0, 1


class Ensemble(NamedTuple):
    """Trees, of which the first ones may be used.

    columns  (trees, NODES) column of the cut, -1 in a leaf
    cuts     (trees, NODES) values up to the cut go left
    left     (trees, NODES) number of the left child, the right one is the next; number of a leaf
    values   (trees, LEAVES, outputs) what a leaf adds to the prediction
    start    (outputs,) the prediction without trees
    """

    columns: Whole
    cuts: Single
    left: Whole
    values: Single
    start: Array

    @property
    def trees(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The arrays of the trees."""
        return self.columns, self.cuts, self.left, self.values


def new_ensemble(trees: int, start: Array) -> Ensemble:
    """Return an ensemble of trees with one leaf that adds nothing."""
    shape, values = (trees, NODES), (trees, LEAVES, len(start))
    return Ensemble(
        np.full(shape, -1), np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.int64),
        np.zeros(values, dtype=np.float32), start.copy(),
    )  # fmt: skip


def ensemble_of(trees: Sequence[NDArray[Any]], start: Array) -> Ensemble:
    """Return an ensemble from the arrays of its trees."""
    columns, cuts, left, values = trees
    return Ensemble(columns, cuts, left, values, start)


# -- compiled -----------------------------------------------------------------------------------


@compiled
def add_trees(X: Single, ensemble: Ensemble, first: int, last: int, out: Array) -> None:
    """Add the trees ``first`` .. ``last`` - 1 to ``out`` (n, outputs) for rows X (n, columns)."""
    for t in range(len(X)):
        for tree in range(first, last):
            columns, node = ensemble.columns[tree], 0
            while columns[node] >= 0:
                right = X[t, columns[node]] > ensemble.cuts[tree, node]
                node = ensemble.left[tree, node] + right
            leaf = ensemble.left[tree, node]
            for o in range(out.shape[1]):
                out[t, o] += ensemble.values[tree, leaf, o]


@compiled
def predict_rows(X: Single, ensemble: Ensemble, out: Array) -> None:
    """Write the predictions of rows X (n, columns) to ``out`` (n, outputs)."""
    for t in range(len(X)):
        for o in range(out.shape[1]):
            out[t, o] = ensemble.start[o]
    add_trees(X, ensemble, 0, len(ensemble.columns), out)


@compiled
def put_in_bins(values: Single, edges: Single, j: int, out: Bins) -> None:
    """Write the bin of each of the values (n,) of column j: the number of edges below it.

    ``edges`` increase; the bins go to column j of ``out`` (n, columns).
    """
    for t in range(values.size):
        low, high = 0, edges.size
        while low < high:
            middle = (low + high) // 2
            if values[t] > edges[middle]:
                low = middle + 1
            else:
                high = middle
        out[t, j] = low


@compiled
def add_to_histogram(bins: Bins, r: Array, rows: Whole, starts: Whole, histogram: Array) -> None:
    """Add residuals r (n,) of some rows to ``histogram`` (cells, 2)."""
    for i in range(rows.size):
        row = rows[i]
        for j in range(bins.shape[1]):
            cell = histogram[starts[j] + bins[row, j]]
            cell[SUM] += r[row]
            cell[ROWS] += 1.0


@compiled
def best_split(histogram: Array, starts: Whole) -> tuple[float, int, int]:
    """Return gain, column and edge of the best split of a leaf; column -1: none.

    ``histogram`` (cells, 2) has the cells of column j from ``starts[j]`` on. Of splits whose gains
    differ by rounding, such as the same one along two columns, it is the first.
    """
    total, rows = 0.0, 0.0
    for cell in range(starts[1]):
        total += histogram[cell, SUM]
        rows += histogram[cell, ROWS]
    whole = total * total / rows
    best, column, edge = whole + 1e-12, -1, 0
    for j in range(starts.size - 1):
        left, below = 0.0, 0.0
        for cell in range(starts[j], starts[j + 1] - 1):
            left += histogram[cell, SUM]
            below += histogram[cell, ROWS]
            above = rows - below
            if below < LEAF_ROWS:
                continue
            if above < LEAF_ROWS:
                break
            right = total - left
            score = left * left / below + right * right / above
            if score > best * (1.0 + ROUNDING):
                best, column, edge = score, j, cell - starts[j]
    return best - whole, column, edge


@compiled
def grow_tree(
    bins: Bins, edges: Single, starts: Whole, r: Array, R: Array, tree: int, ensemble: Ensemble,
    F: Array,
) -> None:  # fmt: skip
    """Fit a tree to the combination r (n,) of the residuals R (n, outputs); add it to F.

    ``bins`` (n, columns) are those of the rows, ``edges`` as in `put_in_bins`, ``starts`` (columns
    + 1,) the first cell of each column in a histogram. R is what the leaves predict, F (n, outputs)
    the prediction, from which the tree is subtracted in R.
    """
    n, outputs = R.shape
    order, spare = np.arange(n), np.empty(n, dtype=np.int64)
    histograms = np.empty((LEAVES, starts[-1], 2))
    # of each leaf: its first and last row in ``order``, node, histogram, and best split
    first, last = np.zeros(LEAVES, dtype=np.int64), np.zeros(LEAVES, dtype=np.int64)
    node, slots = np.zeros(LEAVES, dtype=np.int64), np.zeros(LEAVES, dtype=np.int64)
    gains, columns = np.zeros(LEAVES), np.full(LEAVES, -1)
    cut = np.zeros(LEAVES, dtype=np.int64)
    last[0] = n
    histograms[0] = 0.0
    add_to_histogram(bins, r, order, starts, histograms[0])
    gains[0], columns[0], cut[0] = best_split(histograms[0], starts)
    leaves, nodes = 1, 1
    while leaves < LEAVES:
        leaf = 0
        for k in range(1, leaves):
            if (gains[k] > gains[leaf] and columns[k] >= 0) or columns[leaf] < 0:
                leaf = k
        column = columns[leaf]
        if column < 0:
            break
        # rows of the left child, then those of the right one, in order
        begin, end, place, others = first[leaf], last[leaf], first[leaf], 0
        for i in range(begin, end):
            row = order[i]
            if bins[row, column] <= cut[leaf]:
                order[place] = row
                place += 1
            else:
                spare[others] = row
                others += 1
        for i in range(others):
            order[place + i] = spare[i]
        own = node[leaf]
        ensemble.columns[tree, own] = column
        ensemble.cuts[tree, own] = edges[column, cut[leaf]]
        ensemble.left[tree, own] = nodes
        new = leaves
        first[new], last[new], node[new] = place, end, nodes + 1
        last[leaf], node[leaf] = place, nodes
        nodes += 2
        leaves += 1
        small, large = (leaf, new) if place - begin <= end - place else (new, leaf)
        columns[leaf] = columns[new] = -1
        if last[large] - first[large] < 2 * LEAF_ROWS:
            continue  # neither child can be split
        # The histogram of the smaller child is counted, that of the larger one is the difference.
        slots[small], slots[large] = new, slots[leaf]
        counted, other = histograms[new], histograms[slots[large]]
        counted[:] = 0.0
        add_to_histogram(bins, r, order[first[small] : last[small]], starts, counted)
        for cell in range(len(other)):
            for k in range(2):
                other[cell, k] -= counted[cell, k]
        for k in (leaf, new):
            if last[k] - first[k] >= 2 * LEAF_ROWS:
                gains[k], columns[k], cut[k] = best_split(histograms[slots[k]], starts)
    for leaf in range(leaves):
        rows = last[leaf] - first[leaf]
        ensemble.left[tree, node[leaf]] = leaf
        for o in range(outputs):
            total = 0.0
            for i in range(first[leaf], last[leaf]):
                total += R[order[i], o]
            value = np.float32(RATE * total / rows)
            ensemble.values[tree, leaf, o] = value
            for i in range(first[leaf], last[leaf]):
                F[order[i], o] += value


# -- an ensemble that grows -----------------------------------------------------------------------


def most_bins(rows: int, columns: int) -> int:
    """Return the most bins of a column in a fit of some rows."""
    return min(BINS, max(FEWEST_BINS, rows // BIN_ROWS), MOST_CELLS // columns)


def bin_edges(values: Single, most: int) -> Single:
    """Return the edges between the bins of the values (n,) of a column, ``most`` bins or fewer.

    Edges lie in the middle between two different values. With many values they are quantiles.
    """
    values = np.sort(values)
    changes = np.flatnonzero(values[1:] > values[:-1])
    if len(changes) >= most:  # the changes next to equal shares of the rows
        wanted = np.arange(1, most) * len(values) // most
        places = np.minimum(np.searchsorted(changes, wanted), len(changes) - 1)
        changes = np.unique(changes[places])
    middles = 0.5 * values[changes] + 0.5 * values[changes + 1]
    return np.unique(np.minimum(middles, np.nextafter(values[changes + 1], -np.inf)))


class Fit:
    """An ensemble that is being fitted to rows X (n, columns) with targets Y (n, outputs).

    First the columns are put in bins, then trees grow.
    """

    def __init__(self, X: Single, Y: Array, signed: bool, seed: int, number: int) -> None:
        self.edges = np.zeros((X.shape[1], BINS - 1), dtype=np.float32)
        self.counts = np.zeros(X.shape[1], dtype=np.int64)  # of edges
        self.bins, self._binned = np.empty(X.shape, dtype=np.uint8), 0
        self.X, self.Y, self.signed = X, Y, signed
        self._sources = informative_outputs(Y, signed)
        several = len(self._sources)
        self.trees = min(MOST_TREES, TREES * max(1, several))
        rng = generator(seed, SIGNS + 16 * number)
        self.signs = rng.choice([-1.0, 1.0], (self.trees, max(several, 1)))
        self.ensemble, self.grown = new_ensemble(self.trees, Y.mean(axis=0)), 0
        self._F = np.tile(self.ensemble.start, (len(Y), 1))

    def put_in_bins(self, columns: int) -> None:
        """Put columns in bins until this is done for ``columns`` of them, or all."""
        most = most_bins(*self.X.shape)
        while self._binned < min(columns, self.X.shape[1]):
            j, values = self._binned, self.X[:, self._binned].copy()
            edges = bin_edges(values, most)
            self.edges[j, : len(edges)], self.counts[j] = edges, len(edges)
            put_in_bins(values, edges, j, self.bins)
            self._binned += 1

    def grow(self, trees: int) -> None:
        """Grow trees until there are ``trees`` of them, or all."""
        if self.grown >= trees:
            return
        self.put_in_bins(self.X.shape[1])
        starts = np.concatenate(([0], np.cumsum(self.counts + 1)))
        while self.grown < min(trees, self.trees):
            R, r = self.Y - self._F, np.zeros(len(self.Y))
            for sign, source in zip(self.signs[self.grown], self._sources, strict=False):
                r += sign * R[:, source]
            if self._sources:
                grow_tree(self.bins, self.edges, starts, r, R, self.grown, self.ensemble, self._F)
            self.grown += 1

    def continue_with(self, ensemble: Ensemble, grown: int) -> None:
        """Continue with an ensemble of which the first trees are grown."""
        for array, empty in zip(ensemble.trees, new_ensemble(1, ensemble.start).trees, strict=True):
            array[grown:] = empty
        self.ensemble, self.grown = ensemble, grown
        self._F = np.tile(ensemble.start, (len(self.Y), 1))
        add_trees(self.X, ensemble, 0, grown, self._F)

    def remapped(self, matrix: Array) -> Fit:
        """Return the fit with new outputs, each plus or minus one old one."""
        other = copy.copy(self)
        other.Y = recombined(self.Y, matrix)
        other._sources = informative_outputs(other.Y, self.signed)
        other.continue_with(remapped_ensemble(self.ensemble, matrix), self.grown)
        return other


def remapped_ensemble(ensemble: Ensemble, matrix: Array) -> Ensemble:
    """Return an ensemble that predicts new outputs, each plus or minus one old one."""
    return ensemble._replace(
        values=_recombined(ensemble.values, matrix),
        start=recombined(ensemble.start, matrix),
    )


def _recombined(values: Single, matrix: Array) -> Single:
    """Return values of new outputs, each plus or minus one old one, in single precision."""
    return recombined(values.astype(np.float64), matrix).astype(np.float32)


def _step(rows: int) -> int:
    """Return the number of rows from one ensemble to the next: half the last power of two."""
    return MOST if rows >= MOST else 1 << (rows.bit_length() - 2)


def _single(values: Array) -> Single:
    """Return values in single precision, clipped to a range in which they are finite."""
    return np.minimum(np.maximum(values, -WIDEST), WIDEST).astype(np.float32)


class Boosting(Stateful):
    """The ensemble in use, the one that is being fitted, and the last rows.

    Rows are scaled, with lagged targets, Z (n, columns); targets are scaled, Y (n, outputs).
    """

    def __init__(self, columns: int, outputs: int, signed: bool, seed: int) -> None:
        self.columns, self.outputs, self.signed, self.seed = columns, outputs, signed, seed
        self._rows = 0
        #: Rows in chunks of CHUNK, the oldest first, the last with room; arrays (CHUNK, columns)
        #: and (CHUNK, outputs).
        self._chunks: list[tuple[Single, Single]] = []
        self._used: Ensemble | None = None
        self._fit: Fit | None = None

    # -- when -------------------------------------------------------------------------------

    @property
    def _began(self) -> int:
        """Number of rows after which the last ensemble was begun; 0: none was."""
        return self._rows - self._rows % _step(self._rows) if self._rows >= FIRST else 0

    @property
    def _ends(self) -> int:
        """Number of rows after which that ensemble replaces the one before."""
        return self._began + min(self._began, MOST) // 4

    def _rows_to_event(self) -> int:
        """Number of rows until an ensemble is begun or is complete."""
        began = self._began
        if self._fit is not None:
            return self._ends - self._rows
        return (began + _step(began) if began else FIRST) - self._rows

    def _advance(self) -> None:
        """Begin, grow or complete an ensemble, as the number of rows says."""
        began = self._began
        if not began or self.columns > MOST_COLUMNS:
            return
        if self._rows == began:
            self._fit = self._new_fit()
        elif self._fit is not None:
            self._fit.put_in_bins(self._due(self.columns, 0.0, BINNING))
            if trees := self._due(self._fit.trees, BINNING, 1.0):
                self._fit.grow(trees)
            if self._rows == self._ends:
                self._used, self._fit = self._fit.ensemble, None

    def _due(self, count: int, start: float, stop: float) -> int:
        """Number of ``count`` parts of a fit that are done after the rows so far.

        They are done in turn between two shares of the rows from its beginning to its end.
        """
        began = self._began
        done = (self._rows - began) / (self._ends - began)
        return math.ceil(count * min(max(done - start, 0.0) / (stop - start), 1.0))

    def _new_fit(self) -> Fit:
        """Return a fit of the rows that were there when it was begun."""
        began = self._began
        behind, held = self._rows - began, min(began, MOST)
        X, Y = (np.concatenate(part) for part in zip(*self._chunks, strict=True))
        last = self._held - behind
        rows = slice(last - held, last)
        return Fit(
            np.ascontiguousarray(X[rows]), Y[rows].astype(np.float64), self.signed, self.seed, began
        )

    @property
    def _held(self) -> int:
        """Number of rows in the chunks."""
        if not self._chunks:
            return 0
        return CHUNK * (len(self._chunks) - 1) + (self._rows - 1) % CHUNK + 1

    def _store(self, Z: Single, Y: Single) -> None:
        """Add rows to the chunks; drop chunks that no fit needs."""
        start = 0
        while start < len(Z):
            place = (self._rows + start) % CHUNK
            if place == 0:
                empty = np.empty((CHUNK, self.columns), dtype=np.float32)
                new = empty, np.zeros((CHUNK, self.outputs), dtype=np.float32)
                self._chunks = [*self._chunks[-KEPT_CHUNKS:], new]
            stop = min(len(Z), start + CHUNK - place)
            X, own = self._chunks[-1]
            X[place : place + stop - start] = Z[start:stop]
            own[place : place + stop - start] = Y[start:stop]
            start = stop

    # -- learning ---------------------------------------------------------------------------

    def learn(self, Z: Array, Y: Array, G: Array, later: Array | None = None) -> Array:
        """Predict then learn rows Z (m, columns); return the predictions (n, outputs).

        With ``later`` rows (n, columns) those are predicted: the last m of them just before a row
        is learned. Without an ensemble the predictions are those of G (n, outputs).
        """
        rows_Z, rows_Y = _single(Z), _single(Y)
        new = rows_Z if later is None else _single(later)
        early, start, out = len(new) - len(Z), 0, G.copy()
        if early:
            self._predict(new[:early], out[:early])
        while start < len(Z):
            stop = min(len(Z), start + self._rows_to_event())
            self._predict(new[early + start : early + stop], out[early + start : early + stop])
            self._store(rows_Z[start:stop], rows_Y[start:stop])
            self._rows += stop - start
            self._advance()
            start = stop
        return out

    def predict(self, Z: Array, G: Array) -> Array:
        """Predict rows Z (n, columns) that may come next; G where there is no ensemble."""
        out = G.copy()
        self._predict(_single(Z), out)
        return out

    def _predict(self, X: Single, out: Array) -> None:
        """Write the predictions of rows to ``out``, which stays as it is without an ensemble."""
        if self._used is not None:
            predict_rows(X, self._used, out)

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self.outputs = matrix.shape[1]
        self._chunks = [(X, _recombined(Y, matrix)) for X, Y in self._chunks]
        if self._used is not None:
            self._used = remapped_ensemble(self._used, matrix)
        if self._fit is not None:
            self._fit = self._fit.remapped(matrix)

    # -- rolling back -----------------------------------------------------------------------

    # Chunks and ensembles are appended to; a snapshot shares them.

    def snapshot(self) -> Any:
        grown = 0 if self._fit is None else self._fit.grown
        return self._rows, self._chunks, self._used, self._fit, grown, self.outputs

    def roll_back(self, snapshot: Any) -> None:
        self._rows, self._chunks, self._used, self._fit, grown, self.outputs = snapshot
        if self._fit is not None and self._fit.grown != grown:
            self._fit.continue_with(self._fit.ensemble, grown)

    # -- state ------------------------------------------------------------------------------

    #: The rows, then the trees of the ensemble in use and those grown so far of the next one.
    STATE = (
        Count("rows"),
        Numbers("X", ("held", "columns"), single=True, low=-WIDEST, high=WIDEST),
        Numbers("Y", ("held", "outputs"), single=True, low=-WIDEST, high=WIDEST),
        Numbers("used", (1,), whole=True, low=0, high=MOST_TREES),
        Numbers("columns", ("trees", NODES), whole=True, low=-1, high="columns"),
        Numbers("cuts", ("trees", NODES), single=True, low=-WIDEST, high=WIDEST),
        Numbers("left", ("trees", NODES), whole=True, low=0, high=NODES),
        Numbers("values", ("trees", LEAVES, "outputs"), single=True, low=-WIDEST, high=WIDEST),
        Numbers("starts", ("starts", "outputs"), low=-LARGEST_TARGET, high=LARGEST_TARGET),
    )

    def to_state(self) -> dict[str, Any]:
        held = self._held
        X, Y = np.empty((held, self.columns), "f4"), np.empty((held, self.outputs), "f4")
        for i, (own_X, own_Y) in enumerate(self._chunks):
            X[i * CHUNK : (i + 1) * CHUNK] = own_X[: held - i * CHUNK]
            Y[i * CHUNK : (i + 1) * CHUNK] = own_Y[: held - i * CHUNK]
        ensembles = [] if self._used is None else [self._used]
        if self._fit is not None:
            grown, start = self._fit.grown, self._fit.ensemble.start
            trees = [array[:grown] for array in self._fit.ensemble.trees]
            ensembles.append(ensemble_of(trees, start))
        parts = [*ensembles, new_ensemble(0, np.zeros(self.outputs))]
        columns, cuts, left, values = (
            np.concatenate(part) for part in zip(*(own.trees for own in parts), strict=True)
        )
        starts = np.array([part.start for part in ensembles]).reshape(-1, self.outputs)
        used = np.array([0 if self._used is None else len(self._used.columns)])
        return {
            "rows": self._rows, "X": X, "Y": Y, "used": used, "columns": columns, "cuts": cuts,
            "left": left, "values": values, "starts": starts,
        }  # fmt: skip

    def _sizes(self) -> dict[str, int]:
        return {"columns": self.columns, "outputs": self.outputs}

    def _assign(self, values: dict[str, Any]) -> None:
        self._loaded = values

    def _restored(self, sizes: Sizes) -> None:
        values = self.__dict__.pop("_loaded")
        rows, X, Y = values["rows"], values["X"], values["Y"]
        chunks = min(-(-rows // CHUNK), KEPT_CHUNKS + 1)
        held = max(0, CHUNK * (chunks - 1) + (rows - 1) % CHUNK + 1) if rows else 0
        require(len(X) == held, "X has other rows than are kept")
        columns, left = values["columns"], values["left"]
        inner, nodes = columns >= 0, np.arange(NODES)
        good = np.where(inner, (left > nodes) & (left + 1 < NODES), left < LEAVES)
        require(good.all(), "left has nodes that are not those of trees")
        self._rows = rows
        self._chunks = []
        for first in range(0, held, CHUNK):
            own = np.zeros((CHUNK, X.shape[1]), "f4"), np.zeros((CHUNK, Y.shape[1]), "f4")
            for array, given in zip(own, (X, Y), strict=True):
                part = given[first : first + CHUNK]
                array[: len(part)] = part
            self._chunks.append(own)
        boosts = self.columns <= MOST_COLUMNS and self._began > 0
        fits = boosts and rows < self._ends
        complete = boosts and (not fits or self._began > FIRST)
        require(len(values["starts"]) == complete + fits, "starts are not those of the ensembles")
        count, trees = int(values["used"][0]), (columns, values["cuts"], left, values["values"])
        require((count > 0) == complete and count <= len(columns), "used is not as rows is")
        self._used = self._fit = None
        if complete:
            self._used = ensemble_of([part[:count].copy() for part in trees], values["starts"][0])
        require(fits or count == len(columns), "columns have more trees than the ensemble")
        if fits:
            self._fit = fit = self._new_fit()
            grown = len(columns) - count
            require(
                grown == self._due(fit.trees, BINNING, 1.0), "columns has other trees than are due"
            )
            require(
                np.array_equal(values["starts"][-1], fit.ensemble.start), "starts has another mean"
            )
            for array, part in zip(fit.ensemble.trees, trees, strict=True):
                array[:grown] = part[count:]
            fit.continue_with(fit.ensemble, grown)
