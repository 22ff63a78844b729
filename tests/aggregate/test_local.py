"""The forest of local experts against its brute-force twin, and its laws."""

import copy
import pickle
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from naive import local as naive
from naive.default import mixture_rows
from pronk.aggregate.local import (
    LAMBDA,
    LEAF_ROWS,
    WINDOW_LEAVES,
    Forest,
    LocalExperts,
)
from pronk.aggregate.mixture import WINDOWS

#: Errors of single precision factors, for targets of size 1: the condition of K + lambda I, whose
#: largest eigenvalue is at most the trace 2 n + lambda with n < 128, times the unit roundoff.
TOLERANCE = (2 * LEAF_ROWS + LAMBDA) / LAMBDA * np.finfo(np.float32).eps / 2
#: Room for everything that the tests hold, and for two leaves per tree.
LARGE, SMALL = 10**9, 0


class Stream(NamedTuple):
    """Rows, targets and inner predictions, and the arguments of a forest."""

    Z: np.ndarray
    Y: np.ndarray
    G: np.ndarray
    metrics: np.ndarray
    signed: bool
    memory: int = LARGE
    small: bool = False
    seed: int = 7

    @property
    def limits(self):
        if self.signed:
            return np.tile([[-1.0], [1.0]], (1, self.Y.shape[1]))
        return np.stack((self.Y[:5].min(axis=0), self.Y[:5].max(axis=0)))

    def forest(self, kind=Forest):
        return kind(self.metrics, self.limits, self.signed, self.seed, self.memory, self.small)

    def rows(self, start, stop):
        return self.Z[start:stop], self.Y[start:stop], self.G[start:stop]


def with_inner(Y, rng):
    """Return inner predictions: the targets in part, and noise."""
    return 0.6 * Y + 0.3 * rng.normal(size=Y.shape)


def grid_rows(rng, n, columns):
    """Return rows on a grid, of which many values are equal and all are exact in any metric."""
    Z = rng.integers(-64, 65, (n, columns)) / 32.0
    if columns > 1:
        Z[:, 1] = np.round(Z[:, 1])
    return Z


def signal(Z, rng):
    return np.sin(2 * Z[:, 0]) + Z[:, -1] ** 2 / 4 + 0.1 * rng.normal(size=len(Z))


def numbers(n=500, columns=3, outputs=1, seed=0, grid=True, **options):
    rng = np.random.default_rng(seed)
    Z = grid_rows(rng, n, columns) if grid else rng.normal(size=(n, columns))
    s = signal(Z, rng)
    Y = np.column_stack([s, s**2 + Z[:, 0]][:outputs])
    Y[rng.random(n) < 0.01] *= 20  # outliers
    metrics = np.stack((np.ones(columns), 2.0 ** np.arange(columns) / 4))
    if not grid:
        metrics = rng.uniform(0.2, 2, (2, columns))
    return Stream(Z, Y, with_inner(Y, rng), metrics, False, **options)


def labels(n=600, columns=3, classes=4, late=0, seed=1, **options):
    """One of several classes is +1; two classes have one output. The last class comes late."""
    rng = np.random.default_rng(seed)
    Z = grid_rows(rng, n, columns)
    s = signal(Z, rng)
    label = np.digitize(s, np.quantile(s, np.arange(1, classes) / classes))
    label[:late][label[:late] == classes - 1] = 0
    label[: late // 10] = 0
    names = np.arange(1, 2) if classes == 2 else np.arange(classes)
    Y = np.where(label[:, None] == names, 1.0, -1.0)
    metrics = np.stack((np.ones(columns), 2.0 ** np.arange(columns) / 4))
    return Stream(Z, Y, with_inner(Y, rng), metrics, True, **options)


def replaced(stream, **columns):
    """Return the stream with some columns of Z (by the names z0, z1, ..) replaced."""
    Z = stream.Z.copy()
    for name, values in columns.items():
        Z[:, int(name[1:])] = values
    return stream._replace(Z=Z)


def adjacent(n):
    """Return values of two neighbours in single precision whose mean rounds to the upper one."""
    return np.where(np.arange(n) % 2, 1 + 2.0**-23, 1 + 2.0**-22)


def rare(n):
    """Return values of which fewer than 16 in 128 differ from the others."""
    return np.where(np.arange(n) % 11, 0.0, 1.0)


def constant_output(stream):
    Y = stream.Y.copy()
    Y[:, 1] = 0.5
    return stream._replace(Y=Y)


CASES = {
    "one number": lambda: numbers(grid=False),
    "two numbers": lambda: numbers(400, outputs=2, seed=2),
    "a constant output": lambda: constant_output(numbers(200, outputs=2)),
    "two classes": lambda: labels(classes=2),
    "four classes": lambda: labels(late=200),
    "a full pool": lambda: numbers(800, memory=SMALL),
    "a full pool of labels": lambda: labels(900, memory=SMALL, seed=4),
    "some memory": lambda: numbers(700, memory=17 * 40_000),
    "few trees": lambda: numbers(600, columns=2, memory=SMALL, small=True),
    "a full window tree": lambda: numbers(3300, columns=1, small=True),
    "no cut": lambda: replaced(numbers(400, columns=2), z0=1.5, z1=rare(400)),
    "no cut that can be rounded": lambda: replaced(numbers(300, columns=1), z0=adjacent(300)),
    "one cut that can be rounded": lambda: replaced(numbers(300, columns=2), z0=adjacent(300)),
}


@cache
def case(name):
    return CASES[name]()


# -- the forest and its twin ------------------------------------------------------------------


def split_state(state):
    """Return the trees of a state as nested tuples: (column, cut, left, right), leaves as rows.

    None for a dropped tree, and the weights of all leaves in the same order as `twin_trees`.
    """
    starts = np.cumsum([0, *state["counts"]])
    rows = [state["rows"][a:b] for a, b in zip(starts[:-1], starts[1:], strict=True)]
    trees, weights, first, leaf = [], [], 0, 0
    for count, leaves in state["trees"][:, :2]:
        if not leaves:
            trees.append(None)
            continue
        nodes, cuts = state["nodes"][first : first + count], state["cuts"][first : first + count]
        own = dict(zip(np.flatnonzero(nodes[:, 0] < 0), range(leaf, leaf + leaves), strict=True))

        def built(i, nodes=nodes, cuts=cuts, own=own):
            if i in own:
                weights.append(state["log_w"][own[i]])
                return rows[own[i]].tolist()
            column, left, right = nodes[i]
            return int(column), float(cuts[i]), built(left), built(right)

        trees.append(built(0))
        first, leaf = first + count, leaf + leaves
    return trees, np.array(weights)


def twin_trees(forest):
    """Return the trees of the twin and the weights of its leaves, as `split_state` does."""

    def built(node):
        if isinstance(node, naive.Leaf):
            return [row.tolist() for row in node.rows]
        return node.column, float(node.cut), built(node.left), built(node.right)

    trees = [None if tree.dropped else built(tree.root) for tree in forest.trees]
    return trees, np.array([leaf.log_w for tree in forest.trees for leaf in tree.leaves()])


@cache
def learned(name):
    """Return the twin of a case and its predictions."""
    stream = case(name)
    twin = stream.forest(naive.Forest)
    return twin, twin.learn(stream.Z, stream.Y, stream.G)


@pytest.mark.parametrize("name", CASES)
def test_the_forest_is_its_twin(name):
    stream, (twin, expected) = case(name), learned(name)
    assert twin.margin > 2e-5  # no decision is decided by rounding
    forest = stream.forest()
    got = np.concatenate(
        [forest.learn(*stream.rows(0, 150)), forest.learn(*stream.rows(150, None))]
    )
    assert_allclose(got, expected, rtol=0, atol=TOLERANCE)
    state = forest.to_state()
    trees, weights = split_state(state)
    twins, twin_weights = twin_trees(twin)
    assert trees == twins
    alive = [not tree.dropped for tree in twin.trees]
    assert_allclose(weights, twin_weights, rtol=0, atol=TOLERANCE)
    assert_allclose(state["losses"][alive], _of(twin, "loss")[alive], rtol=TOLERANCE, atol=0)
    assert_allclose(state["squares"][alive], _of(twin, "v")[alive], rtol=TOLERANCE, atol=1e-30)
    assert_allclose(state["limits"], [twin.low, twin.high], rtol=0, atol=0)
    assert forest.leaves == [len(tree.leaves()) for tree in twin.trees]
    assert forest.rows_held == sum(len(leaf.rows) for t in twin.trees for leaf in t.leaves())
    following = copy.deepcopy(twin).learn(*stream.rows(0, 5))
    assert_allclose(
        forest.predict(stream.Z[:1], stream.G[:1]), following[:1], rtol=0, atol=TOLERANCE
    )


def _of(twin, name):
    return np.array([getattr(tree, name) for tree in twin.trees])


def test_the_cases_have_the_property_in_their_name():
    leaves = {name: [len(tree.leaves()) for tree in learned(name)[0].trees] for name in CASES}
    for name in ("one number", "two numbers", "two classes", "four classes"):
        assert min(leaves[name]) > 1 and max(leaves[name]) > 4
    for name in ("a full pool", "a full pool of labels"):
        assert leaves[name].count(0) == 3 and sum(leaves[name]) == learned(name)[0].limit == 10
    assert learned("few trees")[0].limit == 6 and leaves["few trees"].count(0) == 1
    assert 1 <= leaves["some memory"].count(0) < 3 and learned("some memory")[0].limit > 10
    *long, window = leaves["a full window tree"]
    assert window == WINDOW_LEAVES < min(long)
    assert set(leaves["no cut"] + leaves["no cut that can be rounded"]) == {1}
    assert {len(leaf.rows) for tree in learned("no cut")[0].trees for leaf in tree.leaves()} == {80}
    roots = {tree.root.column for tree in learned("one cut that can be rounded")[0].trees}
    assert roots == {1}


@pytest.mark.parametrize("name", ["two numbers", "four classes"])
def test_local_experts_are_the_mixture_of_the_inner_prediction_and_the_forest(name):
    stream, lags = case(name), (1, 3)
    local = LocalExperts(
        stream.metrics, stream.limits, stream.signed, stream.seed, stream.memory, lags=lags
    )
    got = np.concatenate([local.learn(*stream.rows(0, 99)), local.learn(*stream.rows(99, None))])
    P = np.concatenate((stream.G[:, None], learned(name)[1]), axis=1)
    rows = mixture_rows(P, stream.Y, stream.limits, WINDOWS, stream.signed, lags=lags)
    assert_allclose(got, [row["final"] for row in rows], rtol=0, atol=20 * TOLERANCE)


# -- exact in blocks --------------------------------------------------------------------------

#: What depends on rows and targets alone.
STRUCTURE = (
    "trees", "nodes", "cuts", "rows", "counts", "losses", "limits", "seen_labels", "seen",
)  # fmt: skip


def same_bits(one, other, fields=None):
    """Raise unless two forests have the same state."""
    one, other = one.to_state(), other.to_state()
    for name in fields or one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


def same_structure(one, other):
    """Raise unless two forests have the same state, but for what inner predictions enter."""
    same_bits(one, other, STRUCTURE)


def one_row(forest, z, y, g):
    """Predict and learn one row as calls of one row do."""
    row, out = forest.new_row(), np.empty((6, len(y)))
    forest.peek(z, g, row, out)
    forest.commit(y, g, row)
    return out


def in_pieces(forest, stream, pieces):
    """Learn the stream in pieces (rows, whether row by row)."""
    out, start = [], 0
    for rows, single in [*pieces, (len(stream.Z), False)]:
        now = stream.rows(start, start + rows)
        if single:
            out += [one_row(forest, *row)[None] for row in zip(*now, strict=True)]
        elif len(now[0]):
            out.append(forest.learn(*now))
        start += rows
    return np.concatenate(out)


@cache
def in_one_call(name):
    stream = case(name)
    forest = stream.forest()
    return forest, forest.learn(stream.Z, stream.Y, stream.G)


BLOCKS = [
    "one number",
    "four classes",
    "a full pool",
    "a full pool of labels",
    "a full window tree",
]


@pytest.mark.parametrize("name", BLOCKS)
@given(pieces=st.lists(st.tuples(st.integers(1, 400), st.booleans()), max_size=6))
@settings(max_examples=8, deadline=None)
def test_any_cut_into_calls_gives_the_same_bits(name, pieces):
    stream, (expected, predictions) = case(name), in_one_call(name)
    forest = stream.forest()
    np.testing.assert_array_equal(in_pieces(forest, stream, pieces), predictions)
    same_bits(forest, expected)


@pytest.mark.parametrize("name", ["two numbers", "a full pool", "a full pool of labels"])
def test_the_structure_does_not_depend_on_inner_predictions(name):
    stream, (expected, _) = case(name), in_one_call(name)
    forest = stream.forest()
    forest.learn(stream.Z, stream.Y, np.cos(np.arange(stream.G.size)).reshape(stream.G.shape))
    same_structure(forest, expected)


def test_predictions_change_nothing_and_are_those_of_learning():
    stream = case("a full pool")
    forest = stream.forest()
    forest.learn(*stream.rows(0, 500))
    before = forest.to_state()
    predicted = forest.predict(stream.Z[500:540], stream.G[500:540])
    for name, values in forest.to_state().items():
        np.testing.assert_array_equal(values, before[name])
    assert np.array_equal(forest.learn(*stream.rows(500, 501)), predicted[:1])


# -- saved, copied, rolled back ---------------------------------------------------------------


def loaded(forest, stream):
    made = stream.forest()
    made.restore(forest.to_state())
    return made


COPIES = {
    "restore": loaded,
    "pickle": lambda forest, _: pickle.loads(pickle.dumps(forest)),
    "copy": lambda forest, _: copy.deepcopy(forest),
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", ["one number", "a full pool", "a full pool of labels"])
@pytest.mark.parametrize("rows", [0, 1, 127, 128, 333, 480])
def test_a_copy_continues_to_the_same_bits(name, rows, way):
    stream = case(name)
    forest = stream.forest()
    forest.learn(*stream.rows(0, rows))
    made = COPIES[way](forest, stream)
    same_bits(made, forest)
    rest = stream.rows(rows, None)
    np.testing.assert_array_equal(made.learn(*rest), forest.learn(*rest))
    same_bits(made, forest)


#: Steps of a stream: rows that are learned, whether they are then rolled back, in one piece or not.
STEPS = st.lists(st.tuples(st.integers(0, 300), st.booleans(), st.booleans()), max_size=8)


@pytest.mark.parametrize("name", ["one number", "a full pool", "a full pool of labels"])
@given(steps=STEPS)
@settings(max_examples=12, deadline=None)
def test_a_call_that_is_rolled_back_leaves_no_trace(name, steps):
    stream = case(name)
    forest, untouched, start = stream.forest(), stream.forest(), 0
    for rows, undone, single in steps:
        snapshot, now = forest.snapshot(), stream.rows(start, start + rows)
        if single:
            made = [one_row(forest, *row) for row in zip(*now, strict=True)]
        else:
            made = forest.learn(*now)
        if undone:
            forest.roll_back(snapshot)
        else:
            expected = untouched.learn(*now)
            np.testing.assert_array_equal(np.reshape(made, expected.shape), expected)
            start += len(now[0])
        same_bits(forest, untouched)
    rest = stream.rows(start, None)
    np.testing.assert_array_equal(forest.learn(*rest), untouched.learn(*rest))
    same_bits(forest, untouched)


@pytest.mark.parametrize("name", ["one number", "a full pool of labels"])
@given(places=st.sets(st.integers(0, 499), max_size=40))
@settings(max_examples=6, deadline=None)
def test_one_row_that_is_put_back_leaves_no_trace(name, places):
    """Of rows that fill no leaf: of some rows others are learned first and put back."""
    stream = case(name)
    forest, untouched, row = stream.forest(), stream.forest(), stream.forest().new_row()
    for i in range(500):
        z, y, g = (values[i] for values in (stream.Z, stream.Y, stream.G))
        if i in places:
            other = (7 * i) % len(stream.Z)
            forest.peek(stream.Z[other], stream.G[other], row, np.empty((6, len(y))))
            if not forest.may_split(row):
                saved = forest.save_row(row)
                forest.commit(-stream.Y[other], stream.G[other], row)
                forest.put_back_row(saved)
                same_bits(forest, untouched)
        np.testing.assert_array_equal(
            one_row(forest, z, y, g), one_row(untouched, z, y, g), err_msg=str(i)
        )
    same_bits(forest, untouched)


# -- new outputs ------------------------------------------------------------------------------


def with_ones(stream):
    """Return the stream with the output 1 before the others, which labels have."""
    Y, G = (np.column_stack((np.ones(len(stream.Z)), V)) for V in (stream.Y, stream.G))
    G[:, 0] = 0.9 + 0.1 * np.cos(np.arange(len(G)))
    return stream._replace(Y=Y, G=G)


def known_later(stream, late, M):
    """Return forests that know the last class from the start, and from row ``late`` on.

    Old outputs @ M are the new ones, for the inner predictions as well.
    """
    G, old = stream.G.copy(), [int(np.flatnonzero(row)[0]) for row in M]
    G[:late] = G[:late, old] * M[np.arange(len(M)), old] @ M
    stream = stream._replace(G=G)
    fewer = stream._replace(Y=stream.Y[:, old] * M[np.arange(len(M)), old], G=G[:, old])
    fewer = fewer._replace(G=fewer.G * M[np.arange(len(M)), old])
    known, later = stream.forest(), fewer.forest()
    known.learn(*stream.rows(0, late))
    later.learn(*fewer.rows(0, late))
    later.remap(M)
    return stream, known, later


#: Row of the first label of the last class, after the first splits and drops.
LATE = 700

NEW_CLASS = {
    "a fourth class": (
        lambda: with_ones(labels(1200, late=LATE, memory=500_000)),
        np.array([[1, 0, 0, 0, -1], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0.0]]),
    ),
    "a third class": (
        lambda: with_ones(labels(1200, classes=3, late=LATE, memory=500_000)),
        np.array([[1, 0, 0, -1], [0, -1, 1, 0.0]]),
    ),
}


@pytest.mark.parametrize("name", NEW_CLASS)
def test_a_class_that_comes_late_is_one_that_was_known(name):
    """A call knows the classes of its rows from its start, so any cut of a stream needs this."""
    make, M = NEW_CLASS[name]
    stream, known, later = known_later(make(), LATE, M)
    same_structure(later, known)
    rest = stream.rows(LATE, None)
    assert_allclose(later.learn(*rest), known.learn(*rest), rtol=0, atol=1e-9)
    same_structure(later, known)
