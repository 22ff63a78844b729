"""Brute-force twin of the forest of local experts: every row solves its leaves again.

Trees partition the rows. A leaf holds rows r_1 .. r_n with targets t and residuals t - g, and fits
both by kernel ridge regression in the kernel k(x, r) = 1 + exp(-|x - r|_1), x = z w in single
precision for the factors w of the tree's metric. All else is double precision.

Three decisions could be decided by rounding in a program of another precision: whether a label is
held, which column is cut, and which tree is dropped. `Forest.margin` is how near the closest was.
"""

from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import solve

from naive.randomness import stream

LEAF_ROWS, SIDE_ROWS = 128, 16
LAMBDA, TUBE, FLAT, KEPT = 0.03, 0.2, 0.02, 0.9999
TABLE = 256
REACH, REACH_WINDOW = 5, 200
FARTHEST = 2.0**100  # rows are clipped to this range
SPLITS = 5  # the stream of the seed for random splits


@dataclass
class Leaf:
    """Rows (n, D) in single precision, targets and residuals (n, 2K).

    K (n, n) is kept beside the rows only because it takes long to compute.
    """

    rows: list
    T: list
    K: np.ndarray = field(init=False)

    def __post_init__(self):
        self.K = kernel(self.rows, self.rows) if self.rows else np.zeros((0, 0))

    def append(self, x, t):
        k = kernel([x], [*self.rows, x])
        self.K = np.vstack((np.column_stack((self.K, k[0, :-1])), k))
        self.rows.append(x)
        self.T.append(t)


@dataclass
class Node:
    """An inner node: rows with x[column] <= cut go left."""

    column: int
    cut: np.float32
    left: "Leaf | Node"
    right: "Leaf | Node"


@dataclass
class Tree:
    number: int
    number_of_metric: int
    metric: np.ndarray
    random: bool
    v: np.ndarray
    root: "Leaf | Node"
    loss: float = 0.0
    dropped: bool = False

    def path(self, x):
        """Return the nodes from the root to the leaf of x."""
        nodes = [self.root]
        while isinstance(nodes[-1], Node):
            node = nodes[-1]
            nodes.append(node.left if x[node.column] <= node.cut else node.right)
        return nodes

    def leaves(self):
        """Return the leaves from left to right; none of a dropped tree."""
        open_nodes, found = [] if self.dropped else [self.root], []
        while open_nodes:
            node = open_nodes.pop()
            if isinstance(node, Leaf):
                found.append(node)
            else:
                open_nodes += [node.right, node.left]
        return found

    def replace(self, leaf, node, x):
        """Put ``node`` in the place of the leaf of x."""
        parents = self.path(x)[:-1]
        if not parents:
            self.root = node
        elif parents[-1].left is leaf:
            parents[-1].left = node
        else:
            parents[-1].right = node


def kernel(A, B):
    """1 + exp(-|a - b|_1) of single precision rows, in double precision."""
    A, B = np.asarray(A, dtype=float), np.asarray(B, dtype=float)
    return 1 + np.exp(-np.abs(A[:, None] - B[None]).sum(axis=2))


def fit(leaf, x, width):
    """Return p = k'(K + lambda I)^-1 T (width,)."""
    if not leaf.rows:
        return np.zeros(width)
    k = kernel([x], leaf.rows)[0]
    coefficients = solve(leaf.K + LAMBDA * np.eye(len(k)), k, assume_a="pos", check_finite=False)
    return coefficients @ np.array(leaf.T)


def median_cut(values):
    """Return (left, cut) of the cut nearest to the median of single precision values, or None."""
    n, middle = len(values), np.sort(values)[len(values) // 2]
    found = []
    if (values < middle).any():
        found.append((int((values < middle).sum()), values[values < middle].max(), middle))
    if (values > middle).any():
        found.append((int((values <= middle).sum()), middle, values[values > middle].min()))
    found = [ends for ends in found if SIDE_ROWS <= ends[0] <= n - SIDE_ROWS]
    if not found:
        return None
    left, below, above = min(found, key=lambda ends: abs(ends[0] - n // 2))
    cut = np.float32((float(below) + float(above)) / 2)
    return (left, cut) if (values <= cut).sum() == left else None


def scores(leaf, counted, uniforms):
    """Return {column: (score, cut)}; ``uniforms`` (D,) in a random tree, else None."""
    X, T, found = np.array(leaf.rows), np.array(leaf.T)[:, np.flatnonzero(counted)], {}
    n = len(X)
    for column, values in enumerate(X.T):
        cut = median_cut(values)
        if cut is None:
            continue
        left = values <= cut[1]
        share = cut[0] * (n - cut[0]) / n**2
        spread = np.abs(values.astype(float) - float(np.sort(values)[n // 2])).mean()
        reduction = share * ((T[left].mean(axis=0) - T[~left].mean(axis=0)) ** 2).sum()
        last = reduction + FLAT if uniforms is None else float(uniforms[column])
        found[column] = (spread * 4 * share * last, cut[1])
    return found


@dataclass
class Forest:
    """The forest with metrics (m, D), first limits (2, K); labels are +-1 if ``signed``."""

    metrics: np.ndarray
    limits: np.ndarray
    signed: bool
    seed: int
    memory: int
    small: bool = False
    rows: int = 0
    trees: list = field(init=False)
    margin: float = np.inf

    def __post_init__(self):
        D, K = self.metrics.shape[1], self.limits.shape[1]
        random = (False,) if self.small else (False, True, True)
        kinds = [(m, r) for m in range(len(self.metrics)) for r in random]
        self.trees = [
            Tree(i, m, self.metrics[m].astype(np.float32), r, np.zeros(2 * K), self.leaf([]))
            for i, (m, r) in enumerate(kinds)
        ]
        self.uniforms = stream(self.seed, SPLITS).random((D, TABLE)).T.astype(np.float32)
        self.low, self.high = self.limits[0].copy(), self.limits[1].copy()
        self.labels = [set() for _ in range(K)]

    def limit(self, counted):
        """Return the most leaves of all trees; labels have the output 1 beside the others."""
        D, K = self.metrics.shape[1], counted.sum() + self.signed
        per_leaf = 4 * (LEAF_ROWS * D + LEAF_ROWS * (LEAF_ROWS + 1) // 2) + 16 * LEAF_ROWS * K
        return max(self.memory // per_leaf, 2 * len(self.trees))

    @staticmethod
    def leaf(rows, T=()):
        return Leaf(list(rows), list(T))

    def learn(self, Z, Y, G):
        """Predict then learn rows one after the other; return (n, 4, K)."""
        return np.array([self.learn_row(*row) for row in zip(Z, Y, G, strict=True)])

    def learn_row(self, z, y, g):
        fits = [self.fit_tree(tree, z, g) for tree in self.trees]
        out = self.experts(fits)
        self.rows += 1
        live = self.note(y)
        for tree, of_tree in zip(self.trees, fits, strict=True):
            if not tree.dropped:
                self.learn_in_tree(tree, *of_tree, y, g, live)
        counted = live.copy()
        if self.signed and live.sum() == 2:  # two classes so far: an output and minus it
            counted[np.flatnonzero(live)[0]] = False
        for tree, (x, leaf, *_) in zip(self.trees, fits, strict=True):
            if not tree.dropped and len(leaf.rows) == LEAF_ROWS:
                self.split(tree, leaf, x, counted)
        return out

    @staticmethod
    def fit_tree(tree, z, g):
        """Return the row in the tree's metric, its leaf, p and the two fits (2, K)."""
        x = np.clip(z * tree.metric.astype(float), -FARTHEST, FARTHEST).astype(np.float32)
        leaf = tree.path(x)[-1]
        p = fit(leaf, x, 2 * len(g))
        return x, leaf, p, np.array([p[: len(g)], g + p[len(g) :]])

    def experts(self, fits):
        found = []
        for m in (0, 1):
            fits_of = {0: [], 1: []}
            for tree, (*_, c) in zip(self.trees, fits, strict=True):
                if not tree.dropped:
                    fits_of[tree.number_of_metric].append(c)
            found += [*np.mean(fits_of[m] or fits_of[1 - m], axis=0)]
        return np.array(found)

    def note(self, y):
        """Extend ranges and labels by a target; return which outputs are live."""
        self.low, self.high = np.minimum(self.low, y), np.maximum(self.high, y)
        if not self.signed:
            return np.ones(len(y), dtype=bool)
        for seen, label in zip(self.labels, y, strict=True):
            seen.add(label)
        live = np.array([len(seen) == 2 for seen in self.labels])
        return live if live.any() else np.arange(len(y)) == 0

    def learn_in_tree(self, tree, x, leaf, p, c, y, g, live):
        width = self.high - self.low
        counted = live & (width > 0)
        errors = (c[:, counted] - y[counted]) / width[counted]
        loss = (errors[0] ** 2).sum() / live.sum()
        tree.loss = KEPT * tree.loss + loss
        t = np.concatenate((y, y - g))
        if self.signed:
            misses = np.abs(c[0] - y)[counted]
            self.margin = min(self.margin, *np.abs(misses - TUBE), np.inf)
            if not (misses > TUBE).any():
                return
        else:
            e, bound = t - p, np.where(tree.v > 0, REACH * np.sqrt(tree.v), np.inf)
            e = np.clip(e, -bound, bound)
            tree.v = tree.v + (e**2 - tree.v) / min(self.rows, REACH_WINDOW)
            t = p + e
        leaf.append(x, t)

    def split(self, tree, leaf, x, counted):
        uniforms = self.uniforms[(self.rows + tree.number) % TABLE] if tree.random else None
        found = scores(leaf, counted, uniforms)
        column = max(found, key=lambda j: found[j][0], default=None)  # the first of equal ones
        if column is not None and found[column][0] > 0:
            self.note_margin([score for score, _ in found.values()])
            room = self.make_room(self.limit(counted))
            if tree.dropped:
                return
            if room:
                cut = found[column][1]
                sides: tuple = ([], [])
                for i, row in enumerate(leaf.rows):
                    sides[not row[column] <= cut].append(i)
                children = [
                    self.leaf([leaf.rows[i] for i in side], [leaf.T[i] for i in side])
                    for side in sides
                ]
                tree.replace(leaf, Node(column, cut, *children), x)
                return
        half = LEAF_ROWS // 2
        tree.replace(leaf, self.leaf(leaf.rows[-half:], leaf.T[-half:]), x)

    def make_room(self, limit):
        """Drop trees until one more leaf fits; return whether the tree may have it."""
        while sum(len(other.leaves()) for other in self.trees) >= limit:
            alive = [other for other in self.trees if not other.dropped]
            if len(alive) == 1:
                return False
            # Trees that were not split yet may be equal to the bit; the first is dropped.
            self.note_margin(sorted({other.loss for other in alive}))
            max(alive, key=lambda other: other.loss).dropped = True
        return True

    def note_margin(self, values):
        """Note how much the largest value is ahead of the second, as a share of it."""
        *_, second, first = 0.0, *sorted(values)
        self.margin = min(self.margin, (first - second) / first)
