"""Local experts: a forest that learns for as long as the stream lasts, beside the other experts.

The forest has six partition trees in two metrics, with exact kernel learners in their leaves
(`trees`). Its memory grows with the stream up to a limit.

**Predictions.** Four experts of a second mixture, next to g: of the trees of each metric the means
of the two fits.

**Rolling back.** A leaf only appends behind its rows, and a split moves them to other slots of the
pool. Slots that a snapshot knows are retired when they are no longer used, and free again at the
next snapshot only. So a snapshot copies counts and nodes, and no rows or factors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.baselines import remapped_labels
from pronk.aggregate.boosting import Boosting, Fit
from pronk.aggregate.mixture import WINDOWS, Mixture, Row
from pronk.aggregate.representation import local_metrics
from pronk.aggregate.trees import (
    COLUMN,
    FARTHEST_ROW,
    FREE,
    LEAF_ROWS,
    LEAVES,
    LEFT,
    MEMORY,
    METRIC,
    NAMES,
    NODES,
    RIGHT,
    ROWS,
    SLOT,
    TABLE,
    Array,
    LocalRow,
    Pool,
    Trees,
    Whole,
    factor_again,
    leaf_arrays,
    learn_local_rows,
    most_leaves,
    needs_memory,
    new_local_row,
    new_pool,
    new_slot,
    predict_local_rows,
    protect_slots,
    small_arrays,
    split_leaves,
)
from pronk.core.linalg import recombined
from pronk.core.randomness import generator
from pronk.core.state import Numbers, Part, Sizes, Stateful, require

#: Name of the boosted trees among the experts.
BOOSTED = "boosted trees"
#: Slots of a new pool, nodes per tree of a new forest.
FIRST_SLOTS, FIRST_NODES = 64, 64
#: Random stream of the table for random splits.
SPLITS = 5
#: Targets of a state lie in this range, so that the squares of predictions stay finite.
FARTHEST_TARGET = 1e145
#: Nodes are numbered in 32 bits; rows and bytes are counted in 64.
MOST_NODES, MOST_ROWS, MOST_BYTES = 2**31 - 1, 2**62, 2**62


class Forest(Stateful):
    """Trees of local experts for scaled rows (with lagged targets) and scaled targets.

    Parameters
    ----------
    metrics : (2, D)
        Factors of the columns in the two metrics.
    limits : (2, K)
        Range of the first targets.
    memory : int
        Bytes of the leaves, at most.
    small : bool
        One tree per metric instead of three.
    """

    def __init__(
        self, metrics: Array, limits: Array, signed: bool, seed: int, memory: int,
        small: bool = False,
    ) -> None:  # fmt: skip
        self.signed, self.seed, self.memory, self.small = signed, seed, memory, small
        columns, outputs = metrics.shape[1], limits.shape[1]
        random = (0,) if small else (0, 1, 1)
        kinds = [(1, 1, m, r) for m in range(len(metrics)) for r in random]
        count = len(kinds)
        # column by column: those of a column do not depend on the columns behind it
        uniforms = generator(seed, SPLITS).random((columns, TABLE)).astype(np.float32).T.copy()
        self._trees = Trees(
            np.full((count, FIRST_NODES, 4), -1, dtype=np.int32),
            np.zeros((count, FIRST_NODES), dtype=np.float32),
            np.array(kinds),
            np.zeros(count),
            np.zeros((count, 2 * outputs)),
            metrics.astype(np.float32),
            uniforms,
            limits.copy(),
            np.zeros((2, outputs)),
        )
        self._pool = new_pool(FIRST_SLOTS, columns, outputs)
        self._pool.sizes[MEMORY] = min(memory, MOST_BYTES)
        for tree in range(count):
            self._trees.nodes[tree, 0, SLOT] = new_slot(self._pool)

    def _most_leaves(self, outputs: int) -> int:
        """Return the most leaves of all trees, for this number of outputs."""
        memory, columns = int(self._pool.sizes[MEMORY]), self._pool.rows.shape[1]
        return int(most_leaves(memory, columns, outputs, len(self._trees.trees)))

    def set_memory(self, memory: int) -> None:
        """Set the bytes that the leaves may use from now on."""
        self.memory = memory
        self._pool.sizes[MEMORY] = min(memory, MOST_BYTES)

    def copy(self) -> Forest:
        """Return a forest with the same leaves, without room for more."""
        slots = int(self._slots().max(initial=-1)) + 1
        pool, trees = self._pool, self._trees
        nodes = int(trees.trees[:, NODES].max())
        other = Forest.__new__(Forest)
        other.__dict__.update(self.__dict__)
        other._pool = new_pool(slots, pool.rows.shape[1], pool.Z.shape[2] // 2)
        for new, values in zip(leaf_arrays(other._pool), leaf_arrays(pool), strict=True):
            new[:] = values[:slots]
        other._pool.sizes[:] = [0, 0, pool.sizes[ROWS], pool.sizes[MEMORY]]
        losses, squares, limits, seen_labels = (array.copy() for array in small_arrays(trees))
        other._trees = trees._replace(
            nodes=trees.nodes[:, :nodes].copy(), cuts=trees.cuts[:, :nodes].copy(),
            trees=trees.trees.copy(), losses=losses, squares=squares, limits=limits,
            seen_labels=seen_labels,
        )  # fmt: skip
        return other

    @property
    def leaves(self) -> list[int]:
        """Number of leaves of each tree; 0 for a dropped one."""
        return [int(n) for n in self._trees.trees[:, LEAVES]]

    @property
    def limits(self) -> Array:
        """The range of the targets, (2, K)."""
        return self._trees.limits

    @property
    def rows_held(self) -> int:
        """Number of rows in all leaves."""
        return int(self._pool.counts[self._slots()].sum())

    # -- learning ---------------------------------------------------------------------------

    def learn(
        self, Z: Array, Y: Array, G: Array, later: Array | None = None, later_G: Array | None = None
    ) -> Array:
        """Predict then learn rows Z (m, D) with targets Y, given the inner predictions G (m, K).

        Return the predictions (n, 4, K) of the experts. With ``later`` rows (n, D) those are
        predicted, given later_G: the last m of them just before a row is learned.
        """
        row, done = self.new_row(), 0
        if later is None or later_G is None:
            out = np.empty((len(Z), len(NAMES), G.shape[1]))
            arriving, later, later_G = out, Z[:0], G[:0]
        else:
            early = len(later) - len(Z)
            out = np.empty((len(later), len(NAMES), G.shape[1]))
            if early:
                out[:early] = self.predict(later[:early], later_G[:early])
            arriving, later, later_G = out[early:], later[early:], later_G[early:]
        rows = [np.ascontiguousarray(part) for part in (Z, Y, G, later, later_G)]
        while done < len(Z):
            done += learn_local_rows(
                *(part[done:] for part in rows), self.signed, self._pool, self._trees, row,
                arriving[done:],
            )  # fmt: skip
            self._split(row)
        return out

    def predict(self, Z: Array, G: Array) -> Array:
        """Predict rows Z (n, D) that may come next; return (n, 4, K)."""
        Z, G = np.ascontiguousarray(Z), np.ascontiguousarray(G)
        out = np.empty((len(Z), len(NAMES), G.shape[1]))
        predict_local_rows(Z, G, self._pool, self._trees, self.new_row(), out)
        return out

    def new_row(self) -> LocalRow:
        """Allocate the row that `peek` fills."""
        (metrics, columns), outputs = self._trees.metrics.shape, self._pool.Z.shape[2] // 2
        return new_local_row(metrics, columns, len(self._trees.trees), outputs)

    def _split(self, row: LocalRow) -> None:
        """Split the leaves that a row has filled."""
        if LEAF_ROWS in self._pool.counts[row.slots]:
            self._grow()
            split_leaves(self.signed, self._pool, self._trees, row)

    def _grow(self) -> None:
        """Enlarge pool and nodes so that the next row fits."""
        if not needs_memory(self._pool, self._trees):
            return
        trees, pool = self._trees, self._pool
        count, nodes = trees.cuts.shape
        if trees.trees[:, NODES].max() + 2 > nodes:
            larger = np.full((count, 2 * nodes, 4), -1, dtype=np.int32)
            larger[:, :nodes] = trees.nodes
            cuts = np.zeros((count, 2 * nodes), dtype=np.float32)
            cuts[:, :nodes] = trees.cuts
            self._trees = trees._replace(nodes=larger, cuts=cuts)
        if pool.sizes[FREE] < 2 * count:
            self._pool = self._larger_pool(pool)

    def _larger_pool(self, pool: Pool) -> Pool:
        """Return a pool with free slots behind those of ``pool``.

        After the first steps all slots that the limit allows are allocated at once: pages that are
        not written to use no memory, and nothing is copied again. Beyond the limit a quarter is
        added, for retired slots.
        """
        old = len(pool.counts)
        most = self._most_leaves(pool.Z.shape[2] // 2) + 2 * len(self._trees.trees)
        slots = min(2 * old, most) if old < 8 * FIRST_SLOTS else most
        if slots <= old:
            slots = old + old // 4
        larger = new_pool(slots, pool.rows.shape[1], pool.Z.shape[2] // 2)
        for new, values in zip(leaf_arrays(larger), leaf_arrays(pool), strict=True):
            new[:old] = values
        larger.protected[:old] = pool.protected
        larger.retired[:old] = pool.retired
        free = int(pool.sizes[FREE])
        larger.free[slots - old : slots - old + free] = pool.free[:free]
        larger.free[: slots - old] = np.arange(old, slots)[::-1]
        larger.sizes[:] = pool.sizes
        larger.sizes[FREE] += slots - old
        return larger

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        outputs = matrix.shape[0]
        Z, used = self._pool.Z, self._slots()
        larger = np.empty((len(Z), LEAF_ROWS, 2 * matrix.shape[1]))
        for slot in used:
            n = self._pool.counts[slot]
            larger[slot, :n, : matrix.shape[1]] = recombined(Z[slot, :n, :outputs], matrix)
            larger[slot, :n, matrix.shape[1] :] = recombined(Z[slot, :n, outputs:], matrix)
        self._pool = self._pool._replace(Z=larger)
        halves = self._trees.squares[:, :outputs], self._trees.squares[:, outputs:]
        self._trees = self._trees._replace(
            squares=np.hstack([recombined(half, matrix, absolute=True) for half in halves]),
            limits=np.tile(self._trees.limits[:, :1], (1, matrix.shape[1])),
            seen_labels=remapped_labels(self._trees.seen_labels, matrix),
        )

    # -- rolling back -----------------------------------------------------------------------

    def snapshot(self) -> Any:
        protect_slots(self._pool)
        pool, trees = self._pool, self._trees
        nodes = int(trees.trees[:, NODES].max())
        return (
            pool, trees,
            [array.copy() for array in (pool.counts, pool.free, pool.sizes)],
            (trees.nodes[:, :nodes].copy(), trees.cuts[:, :nodes].copy()),
            [array.copy() for array in (trees.trees, *small_arrays(trees))],
        )  # fmt: skip

    def roll_back(self, snapshot: Any) -> None:
        pool, trees, of_pool, (nodes, cuts), of_trees = snapshot
        trees.nodes[:, : nodes.shape[1]], trees.cuts[:, : cuts.shape[1]] = nodes, cuts
        now = (trees.trees, *small_arrays(trees), pool.counts, pool.free, pool.sizes)
        for array, values in zip(now, (*of_trees, *of_pool), strict=True):
            array[...] = values
        self._pool, self._trees = pool, trees

    # -- state ------------------------------------------------------------------------------

    #: Of the trees one after the other: nodes and cuts in use, then of the leaves in the order of
    #: their nodes counts, rows and Z.
    STATE = (
        Numbers("trees", ("trees", 4), whole=True, low=0, high=MOST_NODES),
        Numbers("nodes", ("nodes", 3), whole=True, low=-1),
        Numbers("cuts", ("nodes",), low=-FARTHEST_ROW, high=FARTHEST_ROW),
        Numbers("losses", ("trees",), low=0.0),
        Numbers("squares", ("trees", "coefficients"), low=0.0),
        Numbers("metrics", ("metrics", "columns"), low=0.0, high=FARTHEST_ROW),
        Numbers("limits", (2, "outputs"), low=-FARTHEST_TARGET, high=FARTHEST_TARGET),
        Numbers("seen_labels", (2, "outputs"), low=0.0, high=1.0),
        Numbers("counts", ("leaves",), whole=True, low=0, high=LEAF_ROWS - 1),
        Numbers("rows", ("rows", "columns"), single=True, low=-FARTHEST_ROW, high=FARTHEST_ROW),
        Numbers("Z", ("rows", "coefficients"), low=-FARTHEST_TARGET, high=FARTHEST_TARGET),
        Numbers("seen", (1,), whole=True, low=0, high=MOST_ROWS),
    )

    def _slots(self) -> Whole:
        """Return the slots of all leaves, in the order of the trees and their nodes."""
        parts = [np.zeros(0, dtype=np.int64)]
        for nodes, tree in zip(self._trees.nodes, self._trees.trees, strict=True):
            used = nodes[: tree[NODES]]
            parts.append(used[used[:, COLUMN] < 0, SLOT].astype(np.int64))
        return np.concatenate(parts)

    def to_state(self) -> dict[str, Any]:
        pool, trees, slots = self._pool, self._trees, self._slots()
        counts = pool.counts[slots]
        kept = [
            (nodes[:n], cuts[:n])
            for nodes, cuts, n in zip(trees.nodes, trees.cuts, trees.trees[:, NODES], strict=True)
        ]
        held = [
            (pool.rows[slot, :, :n].T, pool.Z[slot, :n])
            for slot, n in zip(slots, counts, strict=True)
        ]
        return {
            "trees": trees.trees.copy(),
            "nodes": np.concatenate([nodes[:, :SLOT] for nodes, _ in kept]).astype(np.int64),
            "cuts": np.concatenate([cuts for _, cuts in kept]).astype(np.float64),
            "losses": trees.losses.copy(),
            "squares": trees.squares.copy(),
            "metrics": trees.metrics.astype(np.float64),
            "limits": trees.limits.copy(),
            "seen_labels": trees.seen_labels.copy(),
            "counts": counts,
            "rows": np.ascontiguousarray(np.concatenate([rows for rows, _ in held])),
            "Z": np.ascontiguousarray(np.concatenate([Z for _, Z in held])),
            "seen": pool.sizes[ROWS : ROWS + 1].copy(),
        }

    def _sizes(self) -> dict[str, int]:
        (metrics, columns), outputs = self._trees.metrics.shape, self._pool.Z.shape[2] // 2
        return {
            "trees": len(self._trees.trees), "metrics": metrics, "columns": columns,
            "outputs": outputs, "coefficients": 2 * outputs,
        }  # fmt: skip

    def _assign(self, values: dict[str, Any]) -> None:
        self._loaded = values

    def _restored(self, sizes: Sizes) -> None:
        values = self.__dict__.pop("_loaded")
        made, trees, nodes = self._trees, values["trees"], values["nodes"]
        require(
            np.array_equal(trees[:, METRIC:], made.trees[:, METRIC:]), "trees are of other kinds"
        )
        alive = trees[:, LEAVES] > 0
        require(alive.any(), "trees are all dropped")
        used = trees[:, NODES]
        require(used.sum() == sizes["nodes"], "nodes are not those of the trees")
        require((used == 2 * trees[:, LEAVES] - alive).all(), "trees have other leaves than nodes")
        require(trees[:, LEAVES].sum() == sizes["leaves"], "counts are not those of the leaves")
        # The leaves of labels may be older than some of the classes.
        most = self._most_leaves(2 if self.signed else sizes["outputs"])
        require(sizes["leaves"] <= most, "leaves are more than the memory allows")
        require(values["counts"].sum() == sizes["rows"], "rows are not those of the leaves")
        require((values["limits"][0] <= values["limits"][1]).all(), "limits are in the wrong order")
        self._set_nodes(trees, used, nodes, values["cuts"])
        self._set_leaves(values)
        for name in ("losses", "squares", "limits", "seen_labels"):
            getattr(self._trees, name)[...] = values[name]
        self._trees.metrics[...] = values["metrics"]
        self._pool.sizes[ROWS] = values["seen"][0]

    def _set_nodes(self, trees: Whole, used: Whole, nodes: Whole, cuts: Array) -> None:
        """Check and set the nodes; leaves get the slots 0, 1, .. in order."""
        made = self._trees
        capacity = max(FIRST_NODES, int(used.max()) + 2)
        shape = len(trees), capacity
        self._trees = made._replace(
            nodes=np.full((*shape, 4), -1, dtype=np.int32),
            cuts=np.zeros(shape, dtype=np.float32),
            trees=trees.copy(),
        )
        first = slot = 0
        for tree, count in enumerate(used):
            own = nodes[first : first + count]
            inner = own[:, COLUMN] >= 0
            require((own[:, COLUMN] < made.metrics.shape[1]).all(), "nodes have other columns")
            children = own[inner][:, LEFT : RIGHT + 1]
            # Node i of a tree comes before its children, and each but the first has one parent.
            later = (children > np.flatnonzero(inner)[:, None]).all()
            once = np.array_equal(np.sort(children.ravel()), np.arange(1, max(count, 1)))
            leaves = (own[~inner] == -1).all()
            require(later and once and leaves, "nodes are not those of trees")
            kept = self._trees.nodes[tree, :count]
            kept[:, :SLOT] = own
            kept[~inner, SLOT] = slot + np.arange((~inner).sum())
            self._trees.cuts[tree, :count] = cuts[first : first + count]
            first, slot = first + count, slot + int((~inner).sum())

    def _set_leaves(self, values: dict[str, Any]) -> None:
        counts = values["counts"]
        columns, outputs = self._pool.rows.shape[1], self._pool.Z.shape[2] // 2
        memory = self._pool.sizes[MEMORY]
        slots = max(FIRST_SLOTS, len(counts) + 2 * len(self._trees.trees))
        self._pool = pool = new_pool(slots, columns, outputs)
        pool.sizes[FREE], pool.sizes[MEMORY] = slots - len(counts), memory
        pool.counts[: len(counts)] = counts
        start = 0
        for slot, n in enumerate(counts):
            rows = slice(start, start + n)
            pool.rows[slot, :, :n], pool.Z[slot, :n] = values["rows"][rows].T, values["Z"][rows]
            factor_again(slot, pool)
            start += n

    def __reduce__(self) -> Any:
        made = self._trees.metrics.astype(np.float64), self._trees.limits.copy(), self.signed
        return _copied, ((*made, self.seed, self.memory, self.small), self.to_state())


def _copied(made: Any, state: dict[str, Any]) -> Forest:
    """Return a forest made with the arguments ``made``, with a state."""
    forest = Forest(*made)
    forest.restore(state)
    return forest


class LocalExperts(Stateful):
    """The forest, and the mixture of its experts with the inner prediction g.

    The mixture is that of all experts (`mixture`); g is its first expert, so the final prediction
    loses to g at most what the certificate of that mixture says.
    """

    def __init__(
        self, metrics: Array, limits: Array, signed: bool, seed: int, memory: int,
        small: bool = False, windows: tuple[float, ...] = WINDOWS, lags: tuple[int, ...] = (),
    ) -> None:  # fmt: skip
        self.forest = Forest(metrics, limits, signed, seed, memory, small)
        self.boosting: Boosting | None = None
        if not small:
            self.boosting = Boosting(metrics.shape[1], limits.shape[1], signed, seed)
        count = 1 + len(NAMES) + (self.boosting is not None)
        self.mixture = Mixture(count, limits, signed, windows, lags)

    def learn(
        self, Z: Array, Y: Array, G: Array, gaps: Array | None = None, later: Array | None = None,
        later_G: Array | None = None, recorded: tuple[NDArray[np.bool_], Row] | None = None,
    ) -> Array:  # fmt: skip
        """Predict then learn rows Z (m, D), given G; return the final predictions of all rows.

        Those of rows that wait for their targets come first. With ``later`` rows (n, D) those are
        predicted, given later_G; ``recorded`` is that of `Mixture.learn`.
        """
        new_G = G if later is None or later_G is None else later_G
        parts = [new_G[:, None], self.forest.learn(Z, Y, G, later, later_G)]
        if self.boosting is not None:
            parts.append(self.boosting.learn(Z, Y, new_G, later)[:, None])
        return self.mixture.learn(np.concatenate(parts, axis=1), Y, gaps, recorded).final

    def predict(self, Z: Array, G: Array) -> Row:
        """Predict rows that may come next; return all parts (`Mixture.predict`)."""
        parts = [G[:, None], self.forest.predict(Z, G)]
        if self.boosting is not None:
            parts.append(self.boosting.predict(Z, G)[:, None])
        return self.mixture.predict(np.concatenate(parts, axis=1))

    def remap(self, matrix: Array) -> None:
        """Replace the outputs by new ones, each plus or minus one old one."""
        self.forest.remap(matrix)
        if self.boosting is not None:
            self.boosting.remap(matrix)
        self.mixture.remap(matrix)

    def table(self) -> list[dict[str, Any]]:
        """Return one row per expert of the forest, with its weight and coefficient."""
        weights, coefficients = self.mixture.weights[1:], self.mixture.coefficients[1:]
        none = dict.fromkeys(("factor", "alpha", "window", "bandwidth"))
        held = self.forest.rows_held
        names = NAMES if self.boosting is None else (*NAMES, BOOSTED)
        return [
            {
                "kind": "local", **none, "view": name, "points": held, "active": True,
                "weight": float(weight), "coefficient": float(coefficient),
            }
            for name, weight, coefficient in zip(names, weights, coefficients, strict=True)
        ]  # fmt: skip

    STATE = (
        Part("forest", "forest"), Part("boosting", "boosting"), Part("mixture", "mixture"),
    )  # fmt: skip


def warm_up_local() -> None:
    """Compile what local experts run, or load it from the cache."""
    rows = np.linspace(-1.0, 1.0, 2 * LEAF_ROWS)[:, None]  # enough for a split
    local_metrics(rows, rows, 0)
    for signed in (False, True):
        local = LocalExperts(np.ones((2, 1)), np.array([[-1.0], [1.0]]), signed, 0, 1)
        local.learn(rows, np.sign(rows) if signed else rows, 0.0 * rows)
        local.predict(rows, rows)
        local.restore(local.to_state())
        local.snapshot()
        fit = Fit(rows.astype(np.float32), np.sign(rows), signed, 0, 0)
        fit.grow(1)
        fit.continue_with(fit.ensemble, 1)
