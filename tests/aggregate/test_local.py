"""The forest of local experts against its brute-force twin, and its laws."""

import copy
import pickle
from collections import Counter
from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import typeof
from numpy.testing import assert_allclose

import pronk
from laws import fields
from laws.interrupts import Lines, state_of
from naive import local as naive
from naive.default import mixture_rows
from pronk.aggregate.boosting import Boosting
from pronk.aggregate.local import Forest, LocalExperts
from pronk.aggregate.mixture import WINDOWS
from pronk.aggregate.trees import FREE, LAMBDA, LEAF_ROWS, RETIRED
from pronk.core.state import StateError
from pronk.estimators import files

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
    "some memory": lambda: numbers(700, memory=1_300_000),
    "few trees": lambda: numbers(600, columns=2, memory=SMALL, small=True),
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

    None for a dropped tree.
    """
    starts = np.cumsum([0, *state["counts"]])
    rows = [state["rows"][a:b] for a, b in pairwise(starts)]
    trees, first, leaf = [], 0, 0
    for count, leaves in state["trees"][:, :2]:
        if not leaves:
            trees.append(None)
            continue
        nodes, cuts = state["nodes"][first : first + count], state["cuts"][first : first + count]
        own = dict(zip(np.flatnonzero(nodes[:, 0] < 0), range(leaf, leaf + leaves), strict=True))

        def built(i, nodes=nodes, cuts=cuts, own=own):
            if i in own:
                return rows[own[i]].tolist()
            column, left, right = nodes[i]
            return int(column), float(cuts[i]), built(left), built(right)

        trees.append(built(0))
        first, leaf = first + count, leaf + leaves
    return trees


def twin_trees(forest):
    """Return the trees of the twin, as `split_state` does."""

    def built(node):
        if isinstance(node, naive.Leaf):
            return [row.tolist() for row in node.rows]
        return node.column, float(node.cut), built(node.left), built(node.right)

    return [None if tree.dropped else built(tree.root) for tree in forest.trees]


@cache
def learned(name):
    """Return the twin of a case and its predictions."""
    stream = case(name)
    twin = stream.forest(naive.Forest)
    return twin, twin.learn(stream.Z, stream.Y, stream.G)


#: Cases whose mechanisms others have too.
REPEATED = ("four classes", "a full pool", "some memory")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.matrix] * (name in REPEATED)) for name in CASES],
)
def test_the_forest_is_its_twin(name):
    stream, (twin, expected) = case(name), learned(name)
    assert twin.margin > 2e-5  # no decision is decided by rounding
    forest = stream.forest()
    got = np.concatenate(
        [forest.learn(*stream.rows(0, 150)), forest.learn(*stream.rows(150, None))]
    )
    assert_allclose(got, expected, rtol=0, atol=TOLERANCE)
    state = forest.to_state()
    assert split_state(state) == twin_trees(twin)
    alive = [not tree.dropped for tree in twin.trees]
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
        assert min(leaves[name]) > 1 and max(leaves[name]) > 3
    for name in ("a full pool", "a full pool of labels"):
        assert leaves[name].count(0) == 5 and sum(leaves[name]) > 6
    assert leaves["few trees"].count(0) == 1 and sum(leaves["few trees"]) == 4
    assert 1 <= leaves["some memory"].count(0) < 5 and sum(leaves["some memory"]) > 10
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
    Z, Y, G = stream.rows(0, None)
    boosted = Boosting(Z.shape[1], Y.shape[1], stream.signed, stream.seed).learn(Z, Y, G)
    P = np.concatenate((G[:, None], learned(name)[1], boosted[:, None]), axis=1)
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
    return forest.learn(z[None], y[None], g[None])[0]


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
        all_slots_are_known(forest)
    rest = stream.rows(start, None)
    np.testing.assert_array_equal(forest.learn(*rest), untouched.learn(*rest))
    same_bits(forest, untouched)


def all_slots_are_known(forest):
    """Raise unless each slot of the pool is used by one leaf, free, or retired."""
    pool = forest._pool
    free, retired = pool.free[: pool.sizes[FREE]], pool.retired[: pool.sizes[RETIRED]]
    known = np.sort(np.concatenate((forest._slots(), free, retired)))
    assert np.array_equal(known, np.arange(len(pool.counts)))


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
#: Bytes for 12 leaves with four outputs; fewer fit with five.
MEMORY = 12 * (4 * (128 * 3 + 128 * 129 // 2) + 16 * 128 * 4)

NEW_CLASS = {
    "a fourth class": (
        lambda: with_ones(labels(1200, late=LATE, memory=MEMORY)),
        np.array([[1, 0, 0, 0, -1], [0, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 1, 0.0]]),
    ),
    "a third class": (
        lambda: with_ones(labels(1200, classes=3, late=LATE, memory=MEMORY)),
        np.array([[1, 0, 0, -1], [0, -1, 1, 0.0]]),
    ),
}


@pytest.mark.parametrize("name", NEW_CLASS)
def test_a_class_that_comes_late_is_one_that_was_known(name):
    """A call knows the classes of its rows from its start, so any cut of a stream needs this."""
    make, M = NEW_CLASS[name]
    stream, known, later = known_later(make(), LATE, M)
    same_structure(later, known)
    same_structure(pickle.loads(pickle.dumps(later)), known)
    rest = stream.rows(LATE, None)
    assert_allclose(later.learn(*rest), known.learn(*rest), rtol=0, atol=1e-9)
    same_structure(later, known)


def test_new_outputs_compile_nothing_again():
    """Compiled functions are compiled again for arrays of another layout, which takes seconds."""
    forest = with_ones(case("four classes")).forest()
    before = [typeof(part) for part in (forest._pool, forest._trees)]
    forest.remap(NEW_CLASS["a fourth class"][1])
    assert [typeof(part) for part in (forest._pool, forest._trees)] == before


# -- states from anywhere ---------------------------------------------------------------------


@cache
def saved(name="a full pool of labels", rows=600):
    stream = case(name)
    forest = stream.forest()
    forest.learn(*stream.rows(0, rows))
    return forest.to_state()


def with_entry(field, place, value):
    """Return a function that sets an entry of a field."""

    def change(state):
        state[field][place] = value

    return change


def with_array(field, make):
    """Return a function that replaces a field by ``make`` of it."""

    def change(state):
        state[field] = make(state[field])

    return change


def last_tree(state):
    return slice(-int(state["trees"][-1, 0]), None)


def swap_children(state):
    nodes = state["nodes"][last_tree(state)]
    nodes[0, 1:] = nodes[0, :0:-1]  # left and right: works
    nodes[1, 1:] = nodes[0, 1:]  # two parents


def drop_everything(state):
    state["trees"][:, :2] = 0


def move_a_row(state):
    state["counts"][0] -= 1


def exchange_kinds(state):
    state["trees"][[0, 1], 3] = 1, 0


def leaves_of_a_dropped_tree(state):
    dropped = int(np.flatnonzero(state["trees"][:, 1] == 0)[0])
    state["trees"][dropped, 0] = 2**30


def wrapped_sums(state):
    """Numbers of nodes and leaves whose sums and doubles are right modulo 2^64."""
    state["trees"][:4, 0], state["trees"][:4, 1] = 2**63 - 1, 2**62


HOSTILE = {
    "a column that does not exist": with_entry("nodes", (0, 0), 3),
    "a child that is its parent": with_entry("nodes", (0, 1), 0),
    "a child behind the last": with_entry("nodes", (0, 2), 10**6),
    "two parents": swap_children,
    "an inner node as a leaf": with_entry("nodes", (0, 0), -1),
    "fewer nodes": with_array("nodes", lambda nodes: nodes[:-1]),
    "other kinds": exchange_kinds,
    "no trees": drop_everything,
    "nodes of a dropped tree": leaves_of_a_dropped_tree,
    "sums that wrap": wrapped_sums,
    "a full leaf": with_entry("counts", 0, LEAF_ROWS),
    "rows without a leaf": move_a_row,
    "fewer rows": with_array("rows", lambda rows: rows[:-1]),
    "double precision": with_array("rows", lambda rows: rows.astype(float)),
    "a row that is infinite": with_entry("rows", (0, 0), np.inf),
    "a row that is far": with_entry("rows", (0, 0), 1e31),
    "a coefficient that is not a number": with_entry("Z", (0, 0), np.nan),
    "a coefficient that overflows": with_entry("Z", (0, 0), 1e200),
    "limits in the wrong order": with_array("limits", lambda limits: limits[::-1]),
    "a negative square": with_entry("squares", (0, 0), -1.0),
    "a negative loss": with_entry("losses", 0, -1.0),
    "rows that overflow": with_entry("seen", 0, 2**63 - 1),
    "other outputs": with_array("limits", lambda limits: limits[:, :2]),
    "another metric": with_entry("metrics", (0, 0), -1.0),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_state_that_does_not_fit_is_refused(what):
    stream, state = case("a full pool of labels"), copy.deepcopy(saved())
    HOSTILE[what](state)
    with pytest.raises(StateError):
        stream.forest().restore(state)


def test_more_leaves_than_the_memory_allows_are_refused():
    stream = case("one number")
    forest = stream.forest()
    forest.learn(*stream.rows(0, None))
    assert sum(forest.leaves) > 10
    with pytest.raises(StateError, match="memory"):
        stream._replace(memory=SMALL).forest().restore(forest.to_state())


@pytest.mark.parametrize("name", ["a full pool", "a full pool of labels"])
def test_a_changed_state_works_or_is_refused(name):
    """Change an array at random: predictions are finite and the state can be saved again."""
    stream, outcomes = case(name), Counter()
    for seed in range(120):
        rng, state = np.random.default_rng(seed), dict(saved(name))
        field = str(rng.choice(sorted(state)))
        what = field, fields._change_array(state, field, rng)
        forest = stream.forest()
        try:
            forest.restore(state)
        except StateError:
            outcomes["refused"] += 1
            continue
        outcomes["works"] += 1
        out = forest.learn(*stream.rows(600, 800))
        assert np.isfinite(out).all(), what
        stream.forest().restore(forest.to_state())
    assert min(outcomes["refused"], outcomes["works"]) > 10, outcomes


def test_rows_beyond_single_precision_are_clipped():
    """Lagged targets that keep growing become that large."""
    stream = case("a full pool")
    Z = stream.Z.copy()
    Z[100:, 0] *= 1e25 ** np.linspace(0, 2, len(Z) - 100)
    stream = stream._replace(Z=Z)
    forest, twin = stream.forest(), stream.forest(naive.Forest)
    out = forest.learn(stream.Z, stream.Y, stream.G)
    assert np.isfinite(out).all()
    same_bits(loaded(forest, stream), forest)
    assert_allclose(out[:300], twin.learn(*stream.rows(0, 300)), rtol=0, atol=TOLERANCE)


# -- the whole learner ------------------------------------------------------------------------

RNG = np.random.default_rng(5)
ROWS = 3600
X = np.round(RNG.normal(size=(ROWS, 3)), 2)
SIGNAL = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * RNG.normal(size=ROWS)
LABELS = np.where(SIGNAL > 0.3, "up", np.where(SIGNAL < -0.3, "down", "same"))
LABELS[:2900][LABELS[:2900] == "same"] = "up"  # the third class comes late
#: Bytes for about 40 leaves: trees are dropped, and some are left.
LEAVES = 40 * 40_000
#: Bytes for all leaves of the stream.
ALL_LEAVES = 10 * LEAVES
LEARNERS = {
    "numbers": (pronk.OnlineKernelRegressor, SIGNAL),
    "labels": (pronk.OnlineKernelClassifier, LABELS),
}


def begin(kind, rows, memory=LEAVES):
    """Return a learner of the first rows."""
    return files.from_bytes(begun(kind, rows, memory), "a model")


@cache
def begun(kind, rows, memory):
    make, y = LEARNERS[kind]
    model = make(budget=20, random_state=0, memory_limit=memory)
    return files.to_bytes(model.partial_fit(X[:rows], y[:rows]))


def continued(model, kind, cuts):
    """Return predictions of the other rows, in calls between the cuts."""
    y, output = LEARNERS[kind][1], {"output": "probability"} if kind == "labels" else {}
    parts = []
    for start, stop in pairwise([model.n_seen_, *cuts, ROWS]):
        if stop > start:
            parts.append(model.predict_then_learn(X[start:stop], y[start:stop], **output))
    width = max(part.reshape(len(part), -1).shape[1] for part in parts)
    return np.concatenate([_wide(part, width) for part in parts]), model


def _wide(part, width):
    """Return probabilities (n, width), with 0 for a class that was not known."""
    part = part.reshape(len(part), -1)
    return part if part.shape[1] == width else np.insert(part, 1, 0.0, axis=1)


def forest_of(model):
    return model._model.experts.local.forest


@cache
def whole(kind):
    return continued(begin(kind, 2000), kind, [])


def close(got, expected):
    assert_allclose(got, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", LEARNERS)
def test_uneven_calls_of_the_learner_are_one_call(kind):
    expected, model = whole(kind)
    leaves = forest_of(model).leaves
    assert leaves.count(0) and sum(leaves) > 20
    cuts = [2047, 2048, 2049, 2100, 2101, 2333, *range(2334, 2350), 2890, 2950, 3001, 3400]
    got, other = continued(begin(kind, 2000), kind, cuts)
    close(got, expected)
    same_structure(forest_of(other), forest_of(model))


@pytest.mark.parametrize("kind", LEARNERS)
def test_a_learner_that_is_loaded_continues_to_the_same_bits(kind, tmp_path):
    model = begin(kind, 2700)
    model.save(tmp_path / "model")
    copies = [pronk.load(tmp_path / "model"), copy.deepcopy(model)]
    expected, _ = continued(model, kind, [2750, 3300])
    for other in copies:
        got, _ = continued(other, kind, [2750, 3300])
        assert np.array_equal(got, expected)
        assert state_of(other) == state_of(model)


@pytest.mark.parametrize("kind", LEARNERS)
@pytest.mark.parametrize("rows", ["a block", "a row", "a row that fills a leaf"])
def test_a_call_of_the_learner_that_is_stopped_is_rolled_back(kind, rows):
    """Stop at some lines."""
    start, y = 2850, LEARNERS[kind][1]
    count = 400 if rows == "a block" else 1
    model = begin(kind, start, LEAVES if count > 1 else ALL_LEAVES)
    if count == 1:
        first = first_row(model, y, start, splits=rows != "a row")
        model.partial_fit(X[start:first], y[start:first])
        start = first
    now, later = slice(start, start + count), slice(start + count, start + count + 40)
    before, done, lines = state_of(model), copy.deepcopy(model), Lines()
    lines.run(lambda: done.predict_then_learn(X[now], y[now]))
    after = state_of(done)
    expected = done.predict_then_learn(X[later], y[later])
    for at in np.random.default_rng(count).integers(1, lines.count + 1, 4):
        stopped = copy.deepcopy(model)
        Lines(int(at)).run(lambda stopped=stopped: stopped.predict_then_learn(X[now], y[now]))
        learned = stopped.n_seen_ == start + count
        assert state_of(stopped) == (after if learned else before), at
        if not learned:
            stopped.predict_then_learn(X[now], y[now])
        assert np.array_equal(stopped.predict_then_learn(X[later], y[later]), expected), at


def first_row(model, y, start, splits):
    """Return the first row from ``start`` on that fills a leaf, or one that does not."""
    model = copy.deepcopy(model)
    for row in range(start, ROWS):
        leaves = sum(forest_of(model).leaves)
        model.partial_fit(X[row : row + 1], y[row : row + 1])
        if (sum(forest_of(model).leaves) != leaves) == splits:
            return row
    raise AssertionError("no such row")
