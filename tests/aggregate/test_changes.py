"""Which columns changed: the rows that are kept, the statistics, names on streams that change."""

from itertools import pairwise

import numpy as np
import pytest

import pronk
from pronk.aggregate import changes
from pronk.aggregate.changes import DISTRIBUTION, RELATION, RecentRows


def kept_naively(rows, newest, stride):
    """Return the rows held after ``rows`` rows: removed every ``newest`` / 2 rows."""
    held = []
    for row in range(rows):
        held.append(row)
        if (row + 1) % (newest // 2) == 0:
            recent = row + 1 - newest
            first = recent - stride * newest
            held = [r for r in held if r >= recent or (r % stride == 0 and r >= first)]
    return held


@pytest.mark.parametrize("columns", [2, 300])
def test_the_rows_that_are_kept_do_not_depend_on_the_cut(columns):
    rng = np.random.default_rng(0)
    rows = 9000 if columns == 2 else 4000
    X, Y, P = rng.normal(size=(rows, columns)), rng.normal(size=(rows, 1)), np.zeros((rows, 1))
    whole, parts = RecentRows(columns, 1), RecentRows(columns, 1)
    whole.add(X, Y, P)
    edges = np.unique([0, *rng.integers(0, rows, 60), rows])
    for i, j in pairwise(edges):
        parts.add(X[i:j], Y[i:j], P[i:j])
    expected = kept_naively(rows, whole.newest, changes.STRIDE)
    for recent in (whole, parts):
        assert recent.numbers.tolist() == expected
        assert (recent._X.values == X[expected]).all()
    again = RecentRows(columns, 1)
    again.restore(parts.to_state())
    snapshot = again.snapshot()
    again.add(X[:700], Y[:700], P[:700])
    again.roll_back(snapshot)
    assert again.numbers.tolist() == expected and (again._X.values == X[expected]).all()


def statistics_naively(codes, e, late):
    """Return the three statistics of a column, bin by bin."""
    bins = np.unique(codes)
    n0, n1 = ([int(np.sum(codes[part] == b)) for b in bins] for part in (~late, late))
    chi = 0.0
    for a, b in zip(n0, n1, strict=True):
        for seen, part in ((a, sum(n0)), (b, sum(n1))):
            expected = (a + b) * part / len(codes)
            chi += (seen - expected) ** 2 / expected
    found = [chi / (len(bins) - 1)]
    full = [b for b, a, c in zip(bins, n0, n1, strict=True) if min(a, c) >= 3]
    for logs in (False, True):
        groups = {}
        for side, part in enumerate((~late, late)):
            own, size = e[part], np.mean(np.abs(e[part]))
            own = np.clip(own, -4 * size, 4 * size)
            own = np.log(np.abs(own) + 0.1 * size) if logs else own
            groups[side] = [own[codes[part] == b] for b in full]
        variance = [
            sum(((g - g.mean()) ** 2).sum() for g in own) / (sum(map(len, own)) - len(full))
            for own in groups.values()
        ]
        D = np.array([b.mean() - a.mean() for a, b in zip(*groups.values(), strict=True)])
        v = np.array([
            variance[0] / len(a) + variance[1] / len(b)
            for a, b in zip(*groups.values(), strict=True)
        ])  # fmt: skip
        center = np.average(D, weights=1 / v)
        found.append(((D - center) ** 2 / v).sum() / (len(full) - 1))
    return found


def test_the_statistics_are_the_naive_ones():
    rng = np.random.default_rng(1)
    x, e = rng.normal(size=600), rng.standard_t(3, size=600)
    late = np.arange(600) >= 520
    e[late] += x[late]
    for values in (x, np.round(x), (x > 1).astype(float)):
        codes, bins = changes._bins(values, 80)
        M = np.eye(bins)[codes]
        found, _ = changes._statistics(M, e[:, None], late)
        np.testing.assert_allclose(found, statistics_naively(codes, e, late), rtol=1e-9, atol=1e-12)


def rows_that_change(kind, seed, rows=3000, since=64):
    """Return rows, errors and the column that changes in the last rows."""
    rng = np.random.default_rng([seed, 3])
    X, E = rng.normal(size=(rows, 8)), 0.3 * rng.normal(size=(rows, 1))
    X[:, 5], X[:, 6] = X[:, 5] > 0.8, np.arange(rows)  # a category and a time
    j, late = int(rng.integers(0, 5)), np.arange(rows) >= rows - since
    if kind == "shift":
        X[late, j] += 1.5
    elif kind == "scale":
        X[late, j] *= 4.0
    elif kind == "shape":
        X[late, j] = np.sign(X[late, j])
    elif kind == "unit":
        X[late, j] = 1.8 * X[late, j] + 32.0
    elif kind == "category":
        j = 5
        X[late, j] = 1.0 - X[late, j]
    elif kind == "relation":
        E[late, 0] += np.sin(2.0 * X[late, j])
    return X, E, j


@pytest.mark.parametrize(
    "kind", ["shift", "scale", "shape", "unit", "category", "relation", "nothing"]
)
def test_the_column_that_changed_is_named_first(kind):
    named = []
    for seed in range(20):
        X, E, j = rows_that_change(kind, seed)
        recent = RecentRows(8, 1)
        recent.add(X, E, np.zeros(E.shape))
        found = recent.changed(len(X) - 64, len(X))
        if kind == "nothing":
            named.append(not found)
        else:
            what = RELATION if kind == "relation" else DISTRIBUTION
            named.append(bool(found) and (found[0].column, found[0].kind) == (j, what))
    assert sum(named) >= 18


def stream(seed, kind):
    rng = np.random.default_rng([seed, 5])
    X, late = rng.normal(size=(1300, 4)), np.arange(1300) >= 1000
    y = X @ [1.0, -1.0, 0.7, 0.5] + 0.1 * rng.normal(size=1300)
    j = int(rng.integers(0, 4))
    if kind == "relation":
        y = y + np.where(late, 2.0 * np.sin(2.0 * X[:, j]), 0.0)
    else:  # a sensor is off
        X[late, j] = 1.8 * X[late, j] + 2.0
    return X, y, j


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["relation", "unit"])
def test_the_learner_names_the_column(kind):
    right = 0
    for seed in range(10):
        X, y, j = stream(seed, kind)
        model = pronk.OnlineKernelRegressor(random_state=0, experts="few").partial_fit(X, y)
        right += any(c["row"] >= 1000 and c["columns"][:1] == [f"x{j}"] for c in model.changes_)
    assert right >= 9


def test_text_columns_have_the_users_names():
    import pandas as pd

    rng = np.random.default_rng(2)
    city = rng.choice(["Rome", "Oslo", "Bern"], 1100)
    frame = pd.DataFrame({"temperature": rng.normal(size=1100), "city": city})
    late = np.arange(1100) >= 900
    y = frame["temperature"] + 3.0 * (city == "Rome") + 0.05 * rng.normal(size=1100)
    frame["city"] = np.where(late, np.where(city == "Rome", "Oslo", "Rome"), city)
    for model in (
        pronk.OnlineKernelRegressor(random_state=0, experts="few", budget=24),
        pronk.Prepared(pronk.OnlineKernelRegressor(random_state=0, experts="few", budget=24)),
    ):
        model.partial_fit(frame, y)
        (change, *_) = [c for c in model.changes_ if c["row"] >= 900]
        assert change["columns"][0] == "city"
        assert change["details"][0]["column"] == "city"


def test_many_classes_at_once_or_one_by_one_make_the_same_model():
    """What is kept of recent rows may not depend on the classes that the first call had."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), np.r_[np.arange(80), rng.integers(0, 80, 220)]
    whole = pronk.OnlineKernelClassifier(random_state=0).partial_fit(X, y)
    cut = pronk.OnlineKernelClassifier(random_state=0)
    for rows in (slice(0, 3), slice(3, 40), slice(40, 300)):
        cut.partial_fit(X[rows], y[rows])
    loaded = pronk.loads(pronk.dumps(cut))
    np.testing.assert_equal(cut._model.to_state(), whole._model.to_state())
    for model in (cut, loaded):
        assert np.array_equal(model.predict_proba(X[:9]), whole.predict_proba(X[:9]))
