"""Partition trees whose leaves are small exact kernel ridge learners.

The dictionary of the other experts is full after some thousand rows; from then on they hardly
improve. The trees keep learning: a leaf holds up to 128 rows of its region and splits in two when
it is full, so the capacity grows with the stream and the cost per row does not.

**A leaf** fits, with the rows r_1 .. r_n that it holds and g the prediction of the other experts,

    targets      p = k' (K + lambda I)^-1 y
    residuals    p = k' (K + lambda I)^-1 (y - g)

in the kernel k(x, r) = 1 + exp(-|x - r|_1), x in the metric of the tree (below), lambda = 0.03. It
holds the factor L of K + lambda I = L L' and Z = L^-1 (y, y - g). A row costs one triangular solve,
which prediction and learning share:

    v = L^-1 k,   p = Z'v,   q = k(x, x) - v'v
    predictions   p of the targets, and g + p of the residuals
    learning      append (v, s) to L and (t - p) / s to Z,   s = sqrt(q + lambda)

q >= 0 in exact arithmetic and is clipped at 0, so s >= sqrt(lambda) and no factorisation can fail.

**Which rows are held.** For numbers all; for labels those that the leaf's fit of the targets misses
by more than 0.2 on some output.

**Outliers.** A leaf would reproduce the target of an outlier around its row. Errors t - p of
numeric targets and residuals are clipped before they are learned (`clipping`), to five root mean
squares over the last 200 rows of the tree.

**A split** of a leaf that a row has filled, after all trees have learned the row: of all columns
the one with the largest

    mean absolute deviation  x  balance of the halves  x  (variance reduction of the targets + 0.02)

in two trees of three with a uniform number instead of the last factor. The cut is the one nearest
to the median between two different values, with at least 16 rows on each side. Both halves take
their rows again in order. Where no column can be cut, or there is no memory, the newest half is
kept. The variance reduction is summed over outputs; with two classes so far it is that of one of
them.

**The trees.** Six in two metrics: the learned one and a mild form of it
(`representation.local_metrics`). When the memory is full, the tree with the largest discounted loss
is dropped; the last one keeps the newest halves.

**Exactness.** What is held, where a leaf splits and which tree is dropped depends on rows and
targets alone, never on g, which is the same for all cuts of a stream into calls only up to
rounding, and on the classes seen so far, never on those that a call will bring. Rows and factors
are single precision, computed for one row at a time by the same compiled functions in calls of one
row and of many, so they have the same bits for any cut; Z, in which g enters, is double precision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import leave_out_negative, live_outputs, note_labels
from pronk.aggregate.clipping import LEAF_REACH, clip_errors
from pronk.core.compiling import compiled
from pronk.core.elementary import exp_scalar
from pronk.core.selection import nth_smallest

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Whole = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: Most rows of a leaf; the rows on each side of a cut, at least.
LEAF_ROWS, SIDE_ROWS = 128, 16
#: Numbers of a packed factor.
TRIANGLE = LEAF_ROWS * (LEAF_ROWS + 1) // 2
#: Regularisation.
LAMBDA = 0.03
#: Labels whose fit is nearer than this are not held.
TUBE = 0.2
#: Added to the variance reduction of a split.
FLAT = 0.02
#: Discount per row of the losses by which trees are dropped.
KEPT = 0.9999
#: Rows of the table of uniform numbers; split number s of a stream reads the rows s modulo this.
TABLE = 256

#: Rows are clipped to this range, so that distances are finite in single precision. Lagged targets
#: that keep growing can leave it.
FARTHEST_ROW = 2.0**100

#: Experts of the forest: of metric m, from FITS m on, the means of its trees' two fits.
FIT, RESIDUAL = range(2)
FITS = 2
NAMES = ("mild fit", "mild residuals", "local fit", "local residuals")
#: Columns of ``nodes``: column of the cut (-1 in a leaf), the two children, the slot of a leaf.
COLUMN, LEFT, RIGHT, SLOT = range(4)
#: Columns of ``trees``: nodes and leaves in use (both 0: dropped), metric, whether splits are
#: random.
NODES, LEAVES, METRIC, RANDOM = range(4)
#: Entries of ``sizes``: free slots, retired slots, rows so far, bytes of all leaves at most.
FREE, RETIRED, ROWS, MEMORY = range(4)


class Pool(NamedTuple):
    """Slots for leaves, D columns, K outputs.

    rows       (slots, D, LEAF_ROWS) rows in the metric of their tree
    factors    (slots, TRIANGLE) L by columns, its diagonal inverted
    Z          (slots, LEAF_ROWS, 2 K) L^-1 (y, y - g)
    counts     (slots,) rows in the slot
    free       (slots,) stack of free slots
    protected  (slots,) slots that the last snapshot knows
    retired    (slots,) protected slots that are no longer used
    sizes      (4,) FREE, RETIRED, ROWS, MEMORY
    """

    rows: Single
    factors: Single
    Z: Array
    counts: Whole
    free: Whole
    protected: Flags
    retired: Whole
    sizes: Whole


class Trees(NamedTuple):
    """Partition trees.

    nodes        (trees, nodes, 4) COLUMN, LEFT, RIGHT, SLOT
    cuts         (trees, nodes) cut of an inner node: values up to it go left
    trees        (trees, 4) NODES, LEAVES, METRIC, RANDOM
    losses       (trees,) discounted losses of the fit of the targets
    squares      (trees, 2 K) mean squares v of the errors of targets and residuals
    metrics      (metrics, D) factors of the columns
    uniforms     (TABLE, D) for random splits
    limits       (2, K) range of the targets
    seen_labels  (2, K) as in `baselines`
    """

    nodes: NDArray[np.int32]
    cuts: Single
    trees: Whole
    losses: Array
    squares: Array
    metrics: Single
    uniforms: Single
    limits: Array
    seen_labels: Array


class LocalRow(NamedTuple):
    """A row between prediction and learning.

    x           (metrics, D) the row in each metric
    nodes       (trees,) the leaf of each tree
    slots       (trees,) its slot; any slot for a dropped tree
    v, q, p     (trees, LEAF_ROWS), (trees,), (trees, 2 K) as in the formulas
    """

    x: Single
    nodes: Whole
    slots: Whole
    v: Single
    q: Array
    p: Array


def new_local_row(metrics: int, columns: int, trees: int, outputs: int) -> LocalRow:
    """Allocate a row; not compiled, as no function that returns a named tuple is (`compiled`)."""
    return LocalRow(
        np.empty((metrics, columns), dtype=np.float32),
        np.empty(trees, dtype=np.int64),
        np.zeros(trees, dtype=np.int64),
        np.empty((trees, LEAF_ROWS), dtype=np.float32),
        np.empty(trees),
        np.empty((trees, 2 * outputs)),
    )


# -- a leaf -----------------------------------------------------------------------------------


@compiled
def solve_factor(factor: Single, n: int, v: Single) -> None:
    """Write L^-1 v to v for the first n rows: four columns at a time, then one.

    Slices instead of indices: the compiler then knows that no index is negative, and the inner
    loops are six times as fast.
    """
    first = j = 0
    while j + 4 <= n:
        # columns j .. j + 3 of L begin at first, second, third and fourth
        second = first + LEAF_ROWS - j
        third = second + LEAF_ROWS - j - 1
        fourth = third + LEAF_ROWS - j - 2
        a = v[j] * factor[first]
        b = (v[j + 1] - factor[first + 1] * a) * factor[second]
        c = v[j + 2] - factor[first + 2] * a - factor[second + 1] * b
        c *= factor[third]
        d = v[j + 3] - factor[first + 3] * a - factor[second + 2] * b - factor[third + 1] * c
        d *= factor[fourth]
        v[j], v[j + 1], v[j + 2], v[j + 3] = a, b, c, d
        left = n - j - 4
        rest = v[j + 4 : n]
        A, B = factor[first + 4 : first + 4 + left], factor[second + 3 : second + 3 + left]
        C, D = factor[third + 2 : third + 2 + left], factor[fourth + 1 : fourth + 1 + left]
        for i in range(left):
            rest[i] -= (A[i] * a + B[i] * b) + (C[i] * c + D[i] * d)
        first = fourth + LEAF_ROWS - j - 3
        j += 4
    while j < n:
        a = v[j] * factor[first]
        v[j] = a
        rest, A = v[j + 1 : n], factor[first + 1 : first + n - j]
        for i in range(rest.size):
            rest[i] -= A[i] * a
        first += LEAF_ROWS - j
        j += 1


@compiled
def solve_leaf(x: Single, rows: Single, factor: Single, n: int, v: Single) -> None:
    """Write v = L^-1 k (LEAF_ROWS,) of the row x (D,) for the n rows of a slot."""
    # k_i = 1 + exp(-sum_j |x_j - r_ij|)
    v[:n] = np.float32(0.0)
    for j in range(x.size):
        value, column = x[j], rows[j]
        for i in range(n):
            v[i] += abs(value - column[i])
    for i in range(n):
        v[i] = np.float32(1.0 + exp_scalar(-np.float64(v[i])))
    solve_factor(factor, n, v)


@compiled
def fit_leaf(v: Single, Z: Array, n: int, p: Array) -> float:
    """Write p = Z'v (2 K,) of the n rows of a slot, Z (LEAF_ROWS, 2 K); return q."""
    # q = k(x, x) - v'v,  k(x, x) = 2
    q = 2.0
    p[:] = 0.0
    for i in range(n):
        value = np.float64(v[i])
        q -= value * value
        for o in range(p.size):
            p[o] += Z[i, o] * value
    return max(q, 0.0)


@compiled
def append_to_factor(v: Single, q: float, n: int, factor: Single) -> float:
    """Append row number n, with v (LEAF_ROWS,) and q of its prediction, to L; return 1 / s."""
    # L <- (L, 0; v', s),  s = sqrt(q + lambda)
    place = n
    for j in range(n):
        factor[place] = v[j]
        place += LEAF_ROWS - 1 - j
    factor[place] = np.float32(1.0 / np.sqrt(q + LAMBDA))
    return factor[place]


@compiled
def append_to_leaf(
    x: Single, v: Single, q: float, p: Array, t: Array, slot: int, pool: Pool
) -> None:
    """Append a row x (D,) with targets t (2 K,); v, q and p are those of its prediction."""
    n = pool.counts[slot]
    for j in range(x.size):
        pool.rows[slot, j, n] = x[j]
    # Z <- (Z; (t - p) / s)
    inverse = append_to_factor(v, q, n, pool.factors[slot])
    for o in range(t.size):
        pool.Z[slot, n, o] = (t[o] - p[o]) * np.float64(inverse)
    pool.counts[slot] = n + 1


@compiled
def leaf_targets(slot: int, pool: Pool) -> Array:
    """Return the targets and residuals (n, 2 K) of a slot: T = L Z."""
    n, factor, Z = pool.counts[slot], pool.factors[slot], pool.Z[slot]
    T = np.zeros((n, Z.shape[1]))
    start = 0
    for j in range(n):
        for o in range(Z.shape[1]):
            T[j, o] += Z[j, o] / np.float64(factor[start])
        for i in range(1, n - j):
            for o in range(Z.shape[1]):
                T[j + i, o] += np.float64(factor[start + i]) * Z[j, o]
        start += LEAF_ROWS - j
    return T


@compiled
def take_again(source: int, chosen: Flags, T: Array, target: int, pool: Pool) -> None:
    """Append the chosen rows (n,) of a slot, with targets T (n, 2 K), to an empty slot in order."""
    x = np.empty(pool.rows.shape[1], dtype=np.float32)
    v = np.empty(LEAF_ROWS, dtype=np.float32)
    p = np.empty(T.shape[1])
    pool.counts[target] = 0
    for i in range(len(T)):
        if chosen[i]:
            for j in range(x.size):
                x[j] = pool.rows[source, j, i]
            n = pool.counts[target]
            solve_leaf(x, pool.rows[target], pool.factors[target], n, v)
            q = fit_leaf(v, pool.Z[target], n, p)
            append_to_leaf(x, v, q, p, T[i], target, pool)


@compiled
def factor_again(slot: int, pool: Pool) -> None:
    """Compute the factor of a slot from its rows, to the same bits."""
    x = np.empty(pool.rows.shape[1], dtype=np.float32)
    v = np.empty(LEAF_ROWS, dtype=np.float32)
    nothing = np.empty(0)
    rows, factor, n = pool.rows[slot], pool.factors[slot], pool.counts[slot]
    for i in range(n):
        for j in range(x.size):
            x[j] = rows[j, i]
        solve_leaf(x, rows, factor, i, v)
        q = fit_leaf(v, pool.Z[slot, :, :0], i, nothing)
        append_to_factor(v, q, i, factor)


# -- splits -----------------------------------------------------------------------------------


@compiled
def median_cut(values: Single) -> tuple[float, int, float]:
    """Return cut, rows up to it, and the mean absolute deviation; 0 rows: no cut.

    The cut of ``values`` (n,) lies between two different values and is the one nearest to the
    median; it has at least SIDE_ROWS values on each side.
    """
    n = values.size
    middle = nth_smallest(values.copy(), n // 2)
    # rows below and up to the median; the values next to it
    below, up_to, deviation = 0, 0, 0.0
    previous, following = np.float32(-np.inf), np.float32(np.inf)
    for i in range(n):
        deviation += abs(np.float64(values[i]) - middle)
        if values[i] < middle:
            below += 1
            previous = max(previous, values[i])
        elif values[i] > middle:
            following = min(following, values[i])
        else:
            up_to += 1
    up_to += below
    left = 0
    cut = np.float64(middle)
    if SIDE_ROWS <= below <= n - SIDE_ROWS:
        left, cut = below, 0.5 * (np.float64(previous) + np.float64(middle))
    nearer = abs(up_to - n // 2) < abs(left - n // 2)
    if SIDE_ROWS <= up_to <= n - SIDE_ROWS and (left == 0 or nearer):
        left, cut = up_to, 0.5 * (np.float64(middle) + np.float64(following))
    return cut, left, deviation / n


@compiled
def variance_reduction(values: Single, cut: float, left: int, T: Array, live: Flags) -> float:
    """Return by how much a cut reduces the variance of the live targets, summed over outputs.

    ``values`` (n,) are those of the column, T (n, ..) has the targets in its first columns.
    """
    n, total = values.size, 0.0
    for o in range(live.size):
        if not live[o]:
            continue
        low, high = 0.0, 0.0
        for i in range(n):
            if values[i] <= cut:
                low += T[i, o]
            else:
                high += T[i, o]
        # l r / n^2 (mean of the left - mean of the right)^2
        difference = low / left - high / (n - left)
        total += left * (n - left) / n**2 * difference * difference
    return total


@compiled
def choose_split(
    rows: Single, n: int, T: Array, live: Flags, random: bool, uniforms: Single
) -> tuple[int, float]:
    """Return column and cut of the best split of n rows (D, LEAF_ROWS); column -1: none."""
    best, chosen, where = 0.0, -1, 0.0
    for j in range(len(rows)):
        values = rows[j, :n]
        cut, left, deviation = median_cut(values)
        cut = np.float64(np.float32(cut))
        if left == 0 or deviation <= 0.0:
            continue
        # rounded to single precision the cut may no longer separate
        up_to = 0
        for i in range(n):
            up_to += values[i] <= cut
        if up_to != left:
            continue
        score = deviation * 4.0 * left * (n - left) / n**2
        if random:
            score *= uniforms[j]
        else:
            score *= variance_reduction(values, cut, left, T, live) + FLAT
        if score > best:
            best, chosen, where = score, j, cut
    return chosen, where


@compiled
def free_slot(slot: int, pool: Pool) -> None:
    """Return a slot to the pool, at once or at the next snapshot."""
    if pool.protected[slot]:
        pool.retired[pool.sizes[RETIRED]] = slot
        pool.sizes[RETIRED] += 1
    else:
        pool.free[pool.sizes[FREE]] = slot
        pool.sizes[FREE] += 1


@compiled
def new_slot(pool: Pool) -> int:
    """Return a free slot."""
    pool.sizes[FREE] -= 1
    return pool.free[pool.sizes[FREE]]


@compiled
def drop_tree(tree: int, pool: Pool, trees: Trees) -> None:
    """Free all leaves of a tree."""
    for node in range(trees.trees[tree, NODES]):
        if trees.nodes[tree, node, COLUMN] < 0:
            free_slot(np.int64(trees.nodes[tree, node, SLOT]), pool)
    trees.trees[tree, NODES] = 0
    trees.trees[tree, LEAVES] = 0


@compiled
def most_leaves(memory: int, columns: int, outputs: int, trees: int) -> int:
    """Return how many leaves of all trees fit into ``memory`` bytes, at least two per tree."""
    bytes_per_leaf = 4 * (LEAF_ROWS * columns + TRIANGLE) + 16 * LEAF_ROWS * outputs
    return max(memory // bytes_per_leaf, 2 * trees)


@compiled
def make_room(tree: int, outputs: int, pool: Pool, trees: Trees) -> bool:
    """Drop trees until one more leaf fits; return whether the given tree may grow."""
    limit = most_leaves(pool.sizes[MEMORY], pool.rows.shape[1], outputs, len(trees.trees))
    while True:
        worst, alive, leaves = len(trees.trees), 0, 0
        for other in range(len(trees.trees)):
            leaves += trees.trees[other, LEAVES]
            if trees.trees[other, LEAVES]:
                alive += 1
                if alive == 1 or trees.losses[other] > trees.losses[worst]:
                    worst = other
        if leaves < limit:
            return trees.trees[tree, LEAVES] > 0
        if alive <= 1:
            return False
        drop_tree(worst, pool, trees)


@compiled
def split_leaf(
    tree: int, node: int, counted: Flags, signed: bool, pool: Pool, trees: Trees
) -> None:
    """Split a full leaf, or keep its newest half; ``counted`` are the outputs (K,) that count."""
    own, slot = trees.nodes[tree], np.int64(trees.nodes[tree, node, SLOT])
    n = pool.counts[slot]
    rows, T = pool.rows[slot], leaf_targets(slot, pool)
    uniforms = trees.uniforms[(pool.sizes[ROWS] + tree) % TABLE]
    column, cut = choose_split(rows, n, T, counted, trees.trees[tree, RANDOM] == 1, uniforms)
    outputs = np.int64(signed)  # labels have the ones beside the outputs that count
    for o in range(counted.size):
        outputs += counted[o]
    if column >= 0 and not make_room(tree, outputs, pool, trees):
        column = -1
    if trees.trees[tree, LEAVES] == 0:  # dropped to make room
        return
    chosen = np.empty(n, dtype=np.bool_)
    if column < 0:
        for i in range(n):
            chosen[i] = i >= n // 2
        new = new_slot(pool)
        take_again(slot, chosen, T, new, pool)
        own[node, SLOT] = new
    else:
        first = trees.trees[tree, NODES]
        for side in range(2):
            for i in range(n):
                chosen[i] = (rows[column, i] > cut) == (side == 1)
            new = new_slot(pool)
            take_again(slot, chosen, T, new, pool)
            # what stands there may be of a call that was rolled back
            own[first + side, :SLOT] = -1
            own[first + side, SLOT] = new
            trees.cuts[tree, first + side] = np.float32(0.0)
            own[node, LEFT + side] = first + side
        own[node, COLUMN] = column
        trees.cuts[tree, node] = np.float32(cut)
        trees.trees[tree, NODES] += 2
        trees.trees[tree, LEAVES] += 1
    free_slot(slot, pool)


@compiled(unroll=False)
def split_leaves(signed: bool, pool: Pool, trees: Trees, row: LocalRow) -> None:
    """Split the leaves that the row has filled, in the order of the trees.

    Compiled apart from the functions that learn rows: within them it would be compiled twice more.
    """
    # Splits and memory count the classes seen so far, not those that the outputs have room for: a
    # call knows the labels of all its rows.
    counted = np.empty(trees.seen_labels.shape[1], dtype=np.bool_)
    leave_out_negative(signed, counted, live_outputs(trees.seen_labels, signed, counted))
    for tree in range(len(trees.trees)):
        if trees.trees[tree, LEAVES] == 0:
            continue
        node = row.nodes[tree]
        if pool.counts[trees.nodes[tree, node, SLOT]] == LEAF_ROWS:
            split_leaf(tree, node, counted, signed, pool, trees)


# -- a row ------------------------------------------------------------------------------------


@compiled
def find_leaf(x: Single, nodes: NDArray[np.int32], cuts: Single) -> int:
    """Return the leaf of the row x (D,) in a tree: ``nodes`` (nodes, 4), ``cuts`` (nodes,)."""
    node = 0
    while nodes[node, COLUMN] >= 0:
        side = LEFT if x[nodes[node, COLUMN]] <= cuts[node] else RIGHT
        node = nodes[node, side]
    return node


@compiled
def predict_local_row(
    z: Array, g: Array, pool: Pool, trees: Trees, row: LocalRow, out: Array
) -> None:
    """Predict a scaled row z (D,) with inner prediction g (K,); experts go to ``out`` (4, K)."""
    outputs = g.size
    for m in range(len(trees.metrics)):
        for j in range(z.size):
            value = z[j] * trees.metrics[m, j]
            row.x[m, j] = np.float32(min(max(value, -FARTHEST_ROW), FARTHEST_ROW))
    out[:] = 0.0
    counts = np.zeros(len(trees.metrics))
    for tree in range(len(trees.trees)):
        if trees.trees[tree, LEAVES] == 0:
            continue
        x = row.x[trees.trees[tree, METRIC]]
        node = find_leaf(x, trees.nodes[tree], trees.cuts[tree])
        slot = np.int64(trees.nodes[tree, node, SLOT])
        n, v, p = pool.counts[slot], row.v[tree], row.p[tree]
        row.nodes[tree], row.slots[tree] = node, slot
        solve_leaf(x, pool.rows[slot], pool.factors[slot], n, v)
        row.q[tree] = fit_leaf(v, pool.Z[slot], n, p)
        metric = trees.trees[tree, METRIC]
        counts[metric] += 1.0
        for o in range(outputs):
            out[FITS * metric + FIT, o] += p[o]
            out[FITS * metric + RESIDUAL, o] += g[o] + p[outputs + o]
    for k in range(len(out)):
        for o in range(outputs):
            out[k, o] /= max(counts[k // FITS], 1.0)
    # Where all trees of a metric were dropped, its predictions are those of the other.
    for k in range(len(out)):
        if counts[k // FITS] == 0.0:
            for o in range(outputs):
                out[k, o] = out[(k + FITS) % len(out), o]


@compiled
def learn_local_row(
    y: Array, g: Array, signed: bool, pool: Pool, trees: Trees, row: LocalRow
) -> bool:
    """Learn the targets y (K,) of a row that `predict_local_row` has filled.

    Return whether a leaf is full, which `split_leaves` splits.
    """
    outputs = y.size
    pool.sizes[ROWS] += 1
    live = np.empty(outputs, dtype=np.bool_)
    note_labels(y, trees.seen_labels)
    count = live_outputs(trees.seen_labels, signed, live)
    full = False
    t, learned = np.empty(2 * outputs), np.empty(2 * outputs)
    for o in range(outputs):
        t[o], t[outputs + o] = y[o], y[o] - g[o]
        trees.limits[0, o] = min(trees.limits[0, o], y[o])
        trees.limits[1, o] = max(trees.limits[1, o], y[o])
    for tree in range(len(trees.trees)):
        if trees.trees[tree, LEAVES] == 0:
            continue
        slot, p = np.int64(trees.nodes[tree, row.nodes[tree], SLOT]), row.p[tree]
        # loss (p - y)^2 / D^2 of the fit of the targets, D the range; mean over live outputs
        held, loss = not signed, 0.0
        for o in range(outputs):
            width = trees.limits[1, o] - trees.limits[0, o]
            if not live[o] or width == 0.0:
                continue
            loss += ((p[o] - y[o]) / width) ** 2 / count
            held = held or abs(p[o] - y[o]) > TUBE
        trees.losses[tree] = KEPT * trees.losses[tree] + loss
        if held:
            x = row.x[trees.trees[tree, METRIC]]
            for o in range(t.size):
                learned[o] = t[o]
            if not signed:
                learned -= p
                clip_errors(learned, LEAF_REACH, float(pool.sizes[ROWS]), trees.squares[tree])
                learned += p
            append_to_leaf(x, row.v[tree], row.q[tree], p, learned, slot, pool)
            full = full or pool.counts[slot] == LEAF_ROWS
    return full


@compiled(unroll=False)
def learn_local_rows(
    Z: Array, Y: Array, G: Array, later: Array, later_G: Array, signed: bool, pool: Pool,
    trees: Trees, row: LocalRow, out: Array,
) -> int:  # fmt: skip
    """Predict then learn rows Z (n, D), targets Y and inner predictions G (n, K).

    The experts' predictions go to ``out`` (n, 4, K). Where ``later`` (n, D) has rows, those are
    predicted, given later_G. Return the number of rows learned: fewer than n if the last of them,
    which ``row`` then has, has filled a leaf.
    """
    fresh = np.empty(out.shape[1:])
    for t in range(len(Z)):
        if len(later):
            predict_local_row(later[t], later_G[t], pool, trees, row, out[t])
            predict_local_row(Z[t], G[t], pool, trees, row, fresh)
        else:
            predict_local_row(Z[t], G[t], pool, trees, row, out[t])
        if learn_local_row(Y[t], G[t], signed, pool, trees, row):
            return t + 1
    return len(Z)


def needs_memory(pool: Pool, trees: Trees) -> bool:
    """Whether a row that splits a leaf of every tree would not fit."""
    if pool.sizes[FREE] < 2 * len(trees.trees):
        return True
    return int(trees.trees[:, NODES].max()) + 2 > trees.nodes.shape[1]


@compiled(unroll=False)
def predict_local_rows(
    Z: Array, G: Array, pool: Pool, trees: Trees, row: LocalRow, out: Array
) -> None:
    """Predict rows Z (n, D) that may come next, given G (n, K), into ``out`` (n, 4, K)."""
    for t in range(len(Z)):
        predict_local_row(Z[t], G[t], pool, trees, row, out[t])


# -- slots ------------------------------------------------------------------------------------


@compiled
def protect_slots(pool: Pool) -> None:
    """Protect the slots in use, and free the retired ones."""
    for i in range(pool.sizes[RETIRED]):
        pool.free[pool.sizes[FREE]] = pool.retired[i]
        pool.sizes[FREE] += 1
    pool.sizes[RETIRED] = 0
    pool.protected[:] = True
    for i in range(pool.sizes[FREE]):
        pool.protected[pool.free[i]] = False


def new_pool(slots: int, columns: int, outputs: int) -> Pool:
    """Return a pool of free slots; memory is used when it is written."""
    return Pool(
        np.empty((slots, columns, LEAF_ROWS), dtype=np.float32),
        np.empty((slots, TRIANGLE), dtype=np.float32),
        np.empty((slots, LEAF_ROWS, 2 * outputs)),
        np.zeros(slots, dtype=np.int64),
        np.arange(slots)[::-1].copy(),
        np.zeros(slots, dtype=np.bool_),
        np.zeros(slots, dtype=np.int64),
        np.array([slots, 0, 0, 0]),
    )


def leaf_arrays(pool: Pool) -> tuple[NDArray[Any], ...]:
    """Return the arrays with the contents of the slots."""
    return pool.rows, pool.factors, pool.Z, pool.counts


def small_arrays(trees: Trees) -> tuple[Array, ...]:
    """Return the arrays of the trees that every row changes."""
    return trees.losses, trees.squares, trees.limits, trees.seen_labels
