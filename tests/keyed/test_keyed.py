"""Keyed models: each key has the predictions of a separate learner; the store loses nothing."""

import copy
import json
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import SGDRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV

import pronk
from pronk.columns.values import spelled
from pronk.keyed import Keyed, ModelStore, StoreError
from pronk.keyed.keys import (
    Keys,
    decode_key,
    digest,
    encode_key,
    rows_by_key,
    shard_of,
)
from pronk.keyed.store import MOST_SHARDS

RNG = np.random.default_rng(0)
ROWS = 120
KEYS = RNG.choice(["a", "b", "c", "d", "e"], ROWS)
X = RNG.normal(size=(ROWS, 2))
Y = np.sin(X[:, 0]) + (KEYS == "a")
LABELS = np.where(Y > 0.3, "high", "low")


def naive(make, X, y, keys):
    """From the definition: a dict of learners, row by row; the first row of a key from all keys."""
    models, out = {}, []
    for t, (x, target, key) in enumerate(zip(X, y, keys, strict=True)):
        new = key not in models
        if new:
            models[key] = make(key)
        out.append(models[key].predict_then_learn(x[None], np.array([target]))[0])
        if new and t:
            before = y[:t].tolist()
            out[-1] = max(before, key=before.count) if y.dtype.kind == "U" else np.mean(before)
    return np.array(out), models


#: Rows that are not the first of their key.
LATER = np.array([key in KEYS[:t] for t, key in enumerate(KEYS)])


def of_key(template):
    """The learner that `Keyed` gives to a key: the template with a seed of its own."""
    seed = template.random_state

    def make(key):
        model = type(template)(**template.get_params(deep=False))
        model.random_state = (seed ^ digest(encode_key(key))) & (2**63 - 1)
        return model

    return make


@cache
def of_each_key():
    """Return a template, and the predictions and the learners of all keys by definition."""
    template = pronk.PKAWVRegressor(budget=8, random_state=3)
    return template, *naive(of_key(template), X, Y, KEYS)


@given(cuts=st.lists(st.integers(1, ROWS - 1), max_size=4), cache_size=st.integers(1, 6))
@settings(max_examples=12, deadline=None)
def test_each_key_has_a_separate_learner(cuts, cache_size):
    template, expected, models = of_each_key()
    model = Keyed(template, cache_size=cache_size, shards=3)
    edges = [0, *sorted(set(cuts)), ROWS]
    parts = [model.predict_then_learn(X[i:j], Y[i:j], KEYS[i:j]) for i, j in pairwise(edges)]
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-9, atol=1e-9)
    assert len(model) == len(models) and set(model) == set(models)
    assert len(model.store._models) <= cache_size
    for key, own in models.items():
        assert model[key].n_seen_ == own.n_seen_
        np.testing.assert_allclose(
            model.predict(X[:3], [key] * 3), own.predict(X[:3]), rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize(
    "template",
    [
        pronk.PKAWVClassifier(budget=8, random_state=1),
        pronk.FOGDClassifier(n_features=5, random_state=1),
    ],
)
def test_labels(template):
    expected, _ = naive(of_key(template), X, LABELS, KEYS)
    model = Keyed(template, cache_size=2, shards=2)
    assert (model.predict_then_learn(X, LABELS, KEYS) == expected).all()
    assert expected[0] is None  # it has no prediction and no score
    assert model.metrics()["error"] == pytest.approx(np.mean(expected[1:] != LABELS[1:]))
    most = max(["high", "low"], key=LABELS.tolist().count)
    assert model.predict(X[:1], ["never seen"]).tolist() == [most]
    assert Keyed(template).predict(X[:1], ["never seen"]).tolist() == [None]


def test_metrics_by_key_and_over_all():
    model = Keyed(pronk.PKAWVRegressor(budget=8, random_state=1), cache_size=2)
    P = model.predict_then_learn(X, Y, KEYS)
    errors = (P - Y) ** 2
    assert model.metrics()["mse"] == pytest.approx(errors[1:].mean())
    found = {key: (rows, means["mse"]) for key, rows, means in model.metrics_by_key()}
    for key in set(KEYS):
        own = key == KEYS
        scored = own & (np.arange(ROWS) > 0)  # no label was known before row 0
        assert found[key] == (own.sum(), pytest.approx(errors[scored].mean()))
        assert model.metrics(key)["mse"] == found[key][1]
    assert model.n_seen_ == ROWS
    with pytest.raises(KeyError):
        model.metrics("nobody")


def test_keys_from_a_column_of_any_kind_of_table():
    columns = {"x": X[:, 0], "who": KEYS, "z": X[:, 1]}
    template = pronk.PKAWVRegressor(budget=8, random_state=1)
    expected = Keyed(template).predict_then_learn(X, Y, KEYS)
    for table in (pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)):
        of_table = Keyed(template, by="who", shards=2)
        assert (of_table.predict_then_learn(table, Y) == expected).all()
    numbers = np.array([ord(key) for key in KEYS], dtype=float)
    by_number = Keyed(template, by=1)
    P = by_number.predict_then_learn(np.column_stack((X[:, 0], numbers, X[:, 1])), Y)
    assert np.isfinite(P).all() and ord("a") in by_number and "a" not in by_number


def test_save_load_and_resume(tmp_path):
    template = pronk.PKAWVRegressor(budget=8, random_state=1)
    never = Keyed(template, by="who", shards=2)
    table = pd.DataFrame({"who": KEYS, "x": X[:, 0], "z": X[:, 1]})
    cut = (slice(0, 50), slice(50, ROWS))
    expected = np.concatenate([never.predict_then_learn(table[rows], Y[rows]) for rows in cut])
    first = Keyed(template, by="who", cache_size=2)
    head = first.predict_then_learn(table[:50], Y[:50])
    first.save(tmp_path / "saved")
    first.predict_then_learn(table[50:60], Y[50:60])  # of no concern to what was saved
    second = pronk.load(tmp_path / "saved")
    tail = second.predict_then_learn(table[50:], Y[50:])
    assert (np.concatenate((head, tail)) == expected).all()
    assert second.metrics() == pytest.approx(never.metrics())
    second.close()
    assert pronk.load(tmp_path / "saved").n_seen_ == ROWS


def test_the_default_is_a_small_configuration_of_the_default_learner():
    model = Keyed()
    P = model.predict_then_learn(1000.0 * X, Y, KEYS)
    own = KEYS == "b"
    assert type(model["b"]) is pronk.OnlineKernelRegressor
    assert (model["b"].budget, model["b"].experts) == (32, "few")
    alone = Keyed(pronk.OnlineKernelRegressor(budget=32, experts="few", random_state=0))
    expected = alone.predict_then_learn(1000.0 * X[own], Y[own], KEYS[own])
    assert (expected[1:] == P[own][1:]).all()  # the first is predicted from all keys


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda X, y, keys: (X, y, [*keys[:-1], None]), "row 119"),
        (lambda X, y, keys: (X, y, keys[:-1]), "keys has 119 rows"),
        (lambda X, y, keys: (X[:, :1], y, keys), "X has 1 features"),
        (lambda X, y, keys: (np.where(X[7, 1] == X, np.inf, X), y, keys), "inf at row 7"),
        (lambda X, y, keys: (X, np.where(y == y[9], np.inf, y), keys), "inf at row 9"),
    ],
)
def test_an_invalid_call_changes_nothing(spoil, message):
    model = Keyed(pronk.PKAWVRegressor(budget=8, random_state=1), cache_size=2, shards=2)
    model.predict_then_learn(X, Y, KEYS)
    before = [model.n_seen_, model.predict(X, KEYS).tolist()]
    with pytest.raises(ValueError, match=message):
        model.predict_then_learn(*spoil(X, Y, list(KEYS)))
    assert [model.n_seen_, model.predict(X, KEYS).tolist()] == before


@pytest.mark.parametrize("learned", [False, True])
def test_a_call_without_rows_predicts_nothing(learned):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "key": KEYS})
    model = Keyed(pronk.OnlineKernelRegressor(budget=8, experts="few", random_state=1), by="key")
    labels = Keyed(pronk.FOGDClassifier(n_features=5, random_state=1))
    if learned:
        model.partial_fit(frame, Y)
        labels.partial_fit(X, LABELS, KEYS)
    seen = model.n_seen_
    none = frame[:0]
    assert model.predict(none).shape == model.predict_then_learn(none, Y[:0]).shape == (0,)
    assert model.predict_interval(none).shape == (0, 2)
    found = model.predict_then_learn(none, [], quantiles=(0.1, 0.5, 0.9))
    assert [one.shape for one in found] == [(0,), (0, 3)]
    assert labels.predict(X[:0], []).shape == (0,)
    assert labels.predict_then_learn(X[:0], LABELS[:0], []).shape == (0,)
    assert labels.partial_fit(X[:0], [], []) is labels
    assert model.n_seen_ == seen
    model.partial_fit(frame.rename(columns={"a": "c"}) if not learned else frame, Y)


@pytest.mark.parametrize("labels", [False, True])
def test_rows_before_the_first_target_of_all_keys_in_any_cut(labels):
    """They are predicted by the model of the key: 0 or None, in one call and row by row."""
    kind, y = ("classification", LABELS) if labels else ("regression", Y)
    template = pronk.make("fogd", kind, n_features=5, random_state=1)
    weights = (np.random.default_rng(0).random(ROWS) < 0.6).astype(float)
    weights[:4] = 0.0, 0.0, 1.0, 0.0
    keys = np.array(["a", "b", "b", "a", *KEYS[4:]])
    whole, single = Keyed(template), Keyed(template)
    found = whole.predict_then_learn(X, y, keys, sample_weight=weights).tolist()
    for i in range(ROWS):
        row = slice(i, i + 1)
        (each,) = single.predict_then_learn(X[row], y[row], keys[row], sample_weight=weights[row])
        assert each == found[i] if labels else abs(each - found[i]) < 1e-9
    assert found[:2] == ([None] * 2 if labels else [0.0] * 2)
    assert single.metrics() == pytest.approx(whole.metrics(), rel=1e-9)


def test_a_seed_of_any_size_is_saved(tmp_path):
    model = Keyed(pronk.FOGDRegressor(n_features=5, random_state=2**70)).partial_fit(X, Y, KEYS)
    model.save(tmp_path)
    assert np.array_equal(pronk.load(tmp_path).predict(X, KEYS), model.predict(X, KEYS))


def test_parameters_are_set_by_name_before_the_first_row():
    model = Keyed(pronk.FOGDRegressor(n_features=5, random_state=1), by="key")
    assert model.set_params(learner__n_features=7, cache_size=3) is model
    assert (model.learner.n_features, model.cache_size) == (7, 3)
    model.set_params(learner=pronk.FOGDClassifier(random_state=1), learner__n_features=9)
    assert model.learner.n_features == 9 and len(model.classes_) == 0
    with pytest.raises(ValueError, match="no parameter 'cache'; did you mean 'cache_size'"):
        model.set_params(cache=3)
    frame = pd.DataFrame({"a": X[:, 0], "key": KEYS})
    found = GridSearchCV(
        Keyed(pronk.PKAWVRegressor(budget=5, random_state=1), by="key"),
        {"learner__alpha": [0.1, 100.0]}, cv=2, n_jobs=2,
    ).fit(frame, Y)  # fmt: skip
    assert found.best_params_ == {"learner__alpha": 0.1}
    with pytest.raises(ValueError, match="before the first row; set them in a clone"):
        found.best_estimator_.set_params(learner__alpha=1.0)
    clone(found.best_estimator_).set_params(learner__alpha=1.0).partial_fit(frame, Y)


def test_a_model_of_another_library_is_refused():
    for learner in (pronk.Intervals(SGDRegressor()), pronk.Prepared(SGDRegressor())):
        with pytest.raises(ValueError, match=r"learner: models of keys are files, and .* pickle"):
            Keyed(learner)


def test_models_in_a_folder_are_not_pickled():
    model = Keyed(pronk.FOGDRegressor(n_features=5, random_state=1))
    assert isinstance(pickle.loads(pickle.dumps(model)), Keyed)
    model.partial_fit(X, Y, KEYS)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match=r"use save\(folder\) and pronk.load\(folder\)"):
            copied(model)
    model.predict(X, KEYS)


def test_errors_while_learning_are_rolled_back():
    pair = np.where(Y > 0.3, 1, -1)
    model = Keyed(pronk.FOGDClassifier(n_features=5, random_state=1), shards=2)
    model.predict_then_learn(X, pair, KEYS)
    before = [model.n_seen_, model.predict(X, KEYS).tolist(), sorted(model)]
    third = pair.copy()
    third[-1] = 5
    with pytest.raises(ValueError, match="label"):
        model.predict_then_learn(X, third, [*KEYS[:-2], "new", KEYS[-1]])
    assert [model.n_seen_, model.predict(X, KEYS).tolist(), sorted(model)] == before


@pytest.mark.parametrize("cache_size", [1, 2, 100])
@pytest.mark.parametrize(
    "around",
    [lambda learner: learner, lambda learner: pronk.Prepared(learner, scale_target="none")],
    ids=["plain", "prepared"],
)
@pytest.mark.parametrize("before", [0, 1])
@pytest.mark.thinned
def test_an_invalid_row_of_one_key_changes_no_other_key(
    tmp_path, monkeypatch, cache_size, around, before
):
    template = around(pronk.PKAWVRegressor(budget=8, random_state=1))
    options = {"cache_size": cache_size, "shards": 2}
    model, twin = (Keyed(template, folder=tmp_path / name, **options) for name in "ab")
    for _ in range(before):
        assert (model.predict_then_learn(X, Y, KEYS) == twin.predict_then_learn(X, Y, KEYS)).all()
    learn = pronk.PKAWVRegressor._learn

    def refuse(learner, rows, targets):
        if (np.abs(targets) > 1e9).any():
            raise FloatingPointError("the numbers overflow")
        return learn(learner, rows, targets)

    monkeypatch.setattr(pronk.PKAWVRegressor, "_learn", refuse)
    y = np.where(np.arange(ROWS) == ROWS - 1, 1e120, Y)
    keys = [*KEYS[:-2], "new", "bad"]
    with pytest.raises(ValueError, match='key "bad", first at row 119'):
        model.predict_then_learn(X, y, keys)
    assert sorted(model) == sorted(twin) and model.n_seen_ == twin.n_seen_
    good = slice(0, ROWS - 1)
    again = model.predict_then_learn(X[good], y[good], keys[:-1])
    assert (again == twin.predict_then_learn(X[good], y[good], keys[:-1])).all()
    assert (model.predict(X, KEYS) == twin.predict(X, KEYS)).all()


def test_text_and_missing_values_beside_the_keys(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": KEYS, "x": X[:, 0], "colour": rng.choice(["red", "blue"], ROWS)})
    frame.loc[5, "x"] = np.nan
    template = pronk.Prepared(pronk.PKAWVRegressor(budget=8, random_state=3), missing="mean")
    model = Keyed(template, by="who", folder=tmp_path / "models", cache_size=2)
    P = model.predict_then_learn(frame, Y)
    for key in "ab":
        own = (frame.who == key).to_numpy()
        alone = of_key(template.learner)(key)
        expected = pronk.Prepared(alone, missing="mean").predict_then_learn(
            frame[own].drop(columns="who"), Y[own]
        )
        np.testing.assert_array_equal(P[own][1:], expected[1:])
    model.close()
    again = pronk.load(tmp_path / "models")
    assert again.by == "who" and again.feature_names_in_.tolist() == ["x", "colour"]
    assert again.kinds_ == ["number", "category"] and again.n_features_in_ == 2
    assert np.isfinite(again.predict(frame)).all()
    bare = Keyed(template.learner, by="who").predict_then_learn(frame, Y)
    itself = Keyed(pronk.Prepared(template.learner, scale="none", scale_target="none"), by="who")
    np.testing.assert_array_equal(bare, itself.predict_then_learn(frame, Y))
    renamed = frame.rename(columns={"colour": "color"})
    with pytest.raises(ValueError, match="no column 'colour'; did you mean 'color'"):
        again.predict(renamed)
    mixed = frame[["colour", "who", "x"]]
    np.testing.assert_array_equal(again.predict(mixed), again.predict(frame))
    rows = frame.to_dict("records")
    np.testing.assert_array_equal(again.predict(rows), again.predict(frame))
    assert again.predict_one(rows[9]) == again.predict(rows[9:10])[0]
    np.testing.assert_array_equal(
        Keyed(template.learner, by=0).predict_then_learn(
            [list(row.values()) for row in rows], Y
        ), bare,
    )  # fmt: skip


def test_weights_times_intervals_and_missing_labels_reach_the_learner_of_each_key():
    template = pronk.OnlineKernelRegressor(budget=8, experts="few", random_state=3)
    y = Y.copy()
    y[4::9] = np.nan
    weights = np.where(np.arange(ROWS) % 7 == 5, 0.0, 1.0)
    times = np.arange(ROWS) * 60.0
    model = Keyed(template)
    P, ends = model.predict_then_learn(X, y, KEYS, interval=0.8, sample_weight=weights, times=times)
    for key in "ab":
        own = key == KEYS
        expected = of_key(template)(key).predict_then_learn(
            X[own], y[own], interval=0.8, sample_weight=weights[own], times=times[own]
        )
        first = int(np.argmax((weights[own] > 0) & ~np.isnan(y[own]))) + 1
        np.testing.assert_array_equal(P[own][first:], expected[0][first:])
        np.testing.assert_array_equal(ends[own], expected[1])
    learned = (weights > 0) & ~np.isnan(y)
    assert model.n_seen_ == learned.sum()
    assert model.predict_interval(X[:5], 0.8, KEYS[:5]).shape == (5, 2)
    assert np.isnan(model.predict_interval(X[:1], 0.8, ["new"])).all()
    with pytest.raises(ValueError, match="times has 3 entries"):
        model.predict_then_learn(X, y, KEYS, times=times[:3])


def test_fit_forgets_and_a_clone_has_learned_nothing(tmp_path):
    template = pronk.PKAWVRegressor(budget=8, random_state=3)
    model = Keyed(template, folder=tmp_path / "models", shards=2).partial_fit(3.0 * X, Y, KEYS)
    twin = clone(model)
    assert len(twin) == 0 and twin.folder is None and len(model) == len(set(KEYS))
    expected = Keyed(template, shards=2).partial_fit(X, Y, KEYS)
    assert model.fit(X, Y, KEYS) is model and model.n_seen_ == ROWS
    np.testing.assert_array_equal(model.predict(X, KEYS), expected.predict(X, KEYS))
    model.close()
    loaded = pronk.load(tmp_path / "models")
    np.testing.assert_array_equal(loaded.predict(X, KEYS), expected.predict(X, KEYS))
    loaded.close()
    assert expected.score(X, Y, KEYS) == r2_score(Y, expected.predict(X, KEYS))
    with pytest.raises(ValueError, match="inf"):
        model.fit(np.where(X > 0, np.inf, X), Y, KEYS)
    np.testing.assert_array_equal(model.predict(X, KEYS), expected.predict(X, KEYS))


def test_probabilities_of_the_labels_of_all_keys():
    labels = np.where(Y > 0, np.where(KEYS == "a", "high", "up"), "low")
    model = Keyed(pronk.OnlineKernelClassifier(budget=8, experts="few", random_state=3))
    model.partial_fit(X, labels, KEYS)
    assert model.classes_.tolist() == ["high", "low", "up"]
    shares = model.predict_proba(X, KEYS)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, rtol=1e-12, atol=0)
    assert (shares[KEYS == "a", 2] == 0.0).all() and (shares[KEYS == "b", 0] == 0.0).all()
    counts = [np.mean(labels == one) for one in model.classes_]
    np.testing.assert_allclose(model.predict_proba(X[:1], ["new"])[0], counts, rtol=1e-12, atol=0)


def test_a_kernel_function_raises():
    with pytest.raises(ValueError, match="kernel function"):
        Keyed(pronk.PKAWVRegressor(kernel=lambda A, B: A @ B.T))


def test_by_and_keys_are_alternatives():
    with pytest.raises(ValueError, match="the keys are missing"):
        Keyed().predict_then_learn(X, Y)
    with pytest.raises(ValueError, match="no column 'who'"):
        Keyed(by="who").predict_then_learn(pd.DataFrame({"x": [1.0]}), [1.0])


# -- keys ----------------------------------------------------------------------------------------


@given(st.one_of(st.text(max_size=8), st.integers(), st.booleans()))
@settings(max_examples=50, deadline=None)
def test_keys_are_decoded(key):
    text = encode_key(key)
    assert encode_key(decode_key(text)) == text and 0 <= shard_of(text, 7) < 7
    assert decode_key(text) == key or str(decode_key(text)).lower() == spelled(str(key)).lower()


def test_equal_keys_are_one_and_different_ones_are_not():
    same = [3, np.int64(3), 3.0, "3", "3.0", np.str_("3")]
    assert {encode_key(key) for key in same} == {"3"}
    assert encode_key("true") == encode_key("True") == encode_key(True)
    assert encode_key("03") == '"03"' and encode_key(np.str_("x")) == encode_key("x")
    found = dict(rows_by_key([1, "1", 1.0, "01"], 4))
    assert sorted(rows.tolist() for rows in found.values()) == [[0, 1, 2], [3]]


def test_keys_of_any_type_are_grouped_the_same():
    """By shard, and in a shard by first rows, from the definition."""
    for values in (np.array([7, 3, 7, 5, 3, 9]), np.array(["b", "a", "b", "d", "a", "c"])):
        texts = [encode_key(value) for value in values]
        expected = {text: [i for i, t in enumerate(texts) if t == text] for text in texts}
        order = sorted(expected, key=lambda text: (shard_of(text, 3), expected[text][0]))
        arrow = pa.array(values)
        for keys in (values, values.tolist(), arrow, pa.chunked_array([arrow[:2], arrow[2:]])):
            found = rows_by_key(keys, 3)
            assert [text for text, _ in found] == order
            assert all(rows.tolist() == expected[text] for text, rows in found)
        assert len(Keys.from_values(values)) == 6


@pytest.mark.parametrize("rows", [ROWS, 17])
def test_small_blocks_and_few_models_in_memory_lose_nothing(tmp_path, rows):
    """Every key's model goes to its file and comes back; bits are those of a learner alone."""
    template = pronk.PKAWVRegressor(budget=8, random_state=3)
    model = Keyed(template, cache_size=1, shards=2, folder=tmp_path)
    alone = {key: of_key(template)(key) for key in KEYS.tolist()}
    for start in range(0, ROWS, rows):
        part = slice(start, start + rows)
        found = model.predict_then_learn(X[part], Y[part], KEYS[part])
        for key in set(KEYS[part].tolist()):
            own = KEYS[part] == key
            expected = alone[key].predict_then_learn(X[part][own], Y[part][own])
            later = LATER[part][own]
            assert np.array_equal(found[own][later], expected[later])


# -- the store -----------------------------------------------------------------------------------


def model_of(rows):
    return pronk.PKAWVRegressor(budget=4, random_state=0).fit(X[:rows], Y[:rows])


def test_unflushed_changes_are_lost_and_flushed_ones_complete(tmp_path):
    """A process is killed between two flushes."""
    code = f"""
import os, signal, numpy as np, pronk
from pronk.keyed import ModelStore
X = np.random.default_rng(0).normal(size=(50, 2)); y = X[:, 0]
store = ModelStore({str(tmp_path)!r}, shards=2, cache_size=2)
for key in range(6):
    store.put(str(key), pronk.PKAWVRegressor(budget=4, random_state=0).fit(X, y), [key])
store.flush(position=6)
for key in range(10):
    store.put(str(key), pronk.PKAWVRegressor(budget=4, random_state=0).fit(X[:9], y[:9]), [100])
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == -signal.SIGKILL
    store = ModelStore(tmp_path)
    assert sorted(store.items()) == [(key, [key]) for key in range(6)]
    assert [store.shard(i).position for i in range(2)] == [6, 6] and store.get("3")[0].n_seen_ == 50


def test_a_second_process_raises(tmp_path):
    store = ModelStore(tmp_path, shards=1)
    store.put('"a"', model_of(20))
    store.flush()
    code = f"from pronk.keyed import ModelStore; ModelStore({str(tmp_path)!r}).get('1')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "in use by another process" in done.stderr
    store.close()


def test_a_damaged_model_is_named(tmp_path):
    store = ModelStore(tmp_path, shards=1)
    store.put('"good"', model_of(20))
    store.put('"bad"', model_of(20))
    store.discard('"gone"')
    store.close()
    with sqlite3.connect(tmp_path / "shard-000.sqlite") as file:
        file.execute("UPDATE models SET model = x'00' WHERE key = ?", (json.dumps("bad"),))
    file.close()
    store = ModelStore(tmp_path)
    assert store.get('"good"')[0].n_seen_ == 20
    with pytest.raises(StoreError, match='key "bad" is damaged'):
        store.get('"bad"')


def test_a_folder_of_something_else_raises(tmp_path):
    (tmp_path / "store.json").write_text("{}")
    with pytest.raises(StoreError, match="format"):
        ModelStore(tmp_path)
    os.unlink(tmp_path / "store.json")
    Keyed(pronk.PKAWVRegressor(random_state=0), folder=tmp_path).flush()
    other = Keyed(pronk.PKAWVRegressor(alpha=2.0, random_state=0), folder=tmp_path)
    with pytest.raises(StoreError, match="other settings"):
        len(other)


def test_an_interrupted_call_has_learned_all_its_rows(tmp_path, monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, 2))
    keys = [f"k{i % 5}" for i in range(40)]
    learner = pronk.FOGDRegressor(n_features=5, random_state=0)
    twin = pronk.Keyed(learner, folder=tmp_path / "twin")
    twin.predict_then_learn(X, X[:, 0], keys=keys)
    learn, calls = pronk.FOGDRegressor.predict_then_learn, []

    def pressed(self, *given, **more):
        calls.append(self)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return learn(self, *given, **more)

    monkeypatch.setattr(pronk.FOGDRegressor, "predict_then_learn", pressed)
    stopped = pronk.Keyed(learner, folder=tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt):
        stopped.predict_then_learn(X, X[:, 0], keys=keys)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert len(calls) == 5 and stopped.metrics() == twin.metrics()
    monkeypatch.undo()
    again = [m.predict_then_learn(X, X[:, 1], keys=keys) for m in (twin, stopped)]
    assert np.array_equal(*again)
    assert list(stopped.store.items()) == list(twin.store.items())


def test_rows_that_are_refused_and_sparse_rows():
    keyed = Keyed(pronk.PKAWVRegressor(random_state=0))
    with pytest.raises(ValueError, match="0 feature"):
        keyed.predict_then_learn(np.zeros((3, 0)), np.zeros(3), keys=[1, 2, 3])
    rows = np.eye(3)
    dense = Keyed(pronk.PKAWVRegressor(random_state=0))
    expected = dense.predict_then_learn(rows, np.ones(3), keys=[1, 1, 1])
    found = keyed.predict_then_learn(scipy.sparse.csr_array(rows), np.ones(3), keys=[1, 1, 1])
    assert np.array_equal(found, expected)


def test_keys_without_a_model():
    X = np.random.default_rng(0).normal(size=(20, 2))
    keyed = Keyed(pronk.make("fogd", "regression", random_state=0))
    keys = np.repeat(["a", "b"], 10)
    assert keyed.partial_fit(X, X[:, 0], keys) is keyed and len(keyed) == 2
    with pytest.raises(KeyError):
        keyed["c"]
    assert "Keyed(" in repr(keyed)
    assert keyed.predict(X[:2], ["c", "d"]) == pytest.approx(X[:, 0].mean())


@pytest.mark.parametrize("labels", [False, True])
def test_a_new_key_starts_from_what_the_other_keys_have_learned(tmp_path, labels):
    """In any cut, after a call that raises, and from a saved folder, to the same bits."""
    y = np.where(LABELS == "high", "warm", "cold") if labels else 288.0 + 5.0 * Y
    kind = pronk.PKAWVClassifier if labels else pronk.PKAWVRegressor
    template = kind(budget=8, random_state=3)
    expected, _ = naive(of_key(template), X, y, KEYS)
    model = Keyed(template, folder=tmp_path / "models", shards=3, cache_size=2)
    found = []
    for t in range(ROWS):
        with pytest.raises(ValueError, match="inf"):
            model.predict_then_learn([[0.0, np.inf]], y[:1], ["z"])
        found.append(model.predict_then_learn(X[t : t + 1], y[t : t + 1], KEYS[t : t + 1]))
        if t in (0, 1, 2, 40):
            model.close()
            model = pronk.load(tmp_path / "models")
    found = np.concatenate(found)
    once = Keyed(template).predict_then_learn(X, y, KEYS)
    assert np.array_equal(found[~LATER], once[~LATER])
    if labels:
        assert (once == expected).all()
    else:
        np.testing.assert_allclose(once[~LATER], expected[~LATER], rtol=1e-12, atol=0)
        assert once[0] == 0.0 and (once[~LATER][1:] > 280).all()
    copy = tmp_path / "copy"
    model.save(copy)
    assert (pronk.load(copy).predict(X[:1], ["z"]) == model.predict(X[:1], ["z"])).all()


def test_an_older_folder_has_no_targets_of_all_keys(tmp_path):
    model = Keyed(pronk.PKAWVRegressor(budget=8, random_state=3), folder=tmp_path)
    model.partial_fit(X, Y, KEYS)
    model.close()
    header = json.loads((tmp_path / "store.json").read_text())
    for prior in (7, {"rows": -1, "total": 0.0}, {"rows": 1}, {"rows": 1, "total": "x"}):
        header["metadata"]["prior"] = prior
        (tmp_path / "store.json").write_text(json.dumps(header))
        with pytest.raises(StoreError, match=r"damaged|cannot be opened"):
            pronk.load(tmp_path)
    del header["metadata"]["prior"]
    (tmp_path / "store.json").write_text(json.dumps(header))
    model = pronk.load(tmp_path)
    assert model.predict(X[:1], ["z"]).tolist() == [0.0] and model.n_seen_ == ROWS


@pytest.mark.parametrize(
    "options, message",
    [
        ({"shards": 0}, "shards and cache_size must be at least 1"),
        ({"cache_size": 0}, "shards and cache_size must be at least 1"),
        ({"shards": MOST_SHARDS + 1}, f"shards must be at most {MOST_SHARDS}"),
    ],
)
def test_invalid_options_of_a_store_raise(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        ModelStore(tmp_path / "s", **options)
    assert not (tmp_path / "s").exists()


def test_keys_have_random_numbers_of_their_own_also_inside_a_wrapper():
    names = np.where(X[:, 0] > 0, "a", "b")
    plain = Keyed(pronk.PKAWVRegressor(budget=4, random_state=3)).partial_fit(X, Y, names)
    inside = Keyed(pronk.Intervals(pronk.PKAWVRegressor(budget=4, random_state=3)))
    inside.partial_fit(X, Y, names)
    assert inside["a"].model.random_state != inside["b"].model.random_state
    assert {plain[key].random_state for key in "ab"} == {
        inside[key].model.random_state for key in "ab"
    }
