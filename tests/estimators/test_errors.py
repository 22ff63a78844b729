"""Rare errors of learners and files, and the description in a notebook."""

import json

import numpy as np
import pytest
import scipy.sparse

import pronk
from pronk.core.state import StateError
from pronk.estimators import files

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.sin(X[:, 0])
LABELS = np.where(X[:, 0] > 0, "yes", "no")


@pytest.mark.parametrize(
    "y, words",
    [
        (Y * 1j, "Complex data not supported"),
        ([{}] * 40, "y must hold numbers"),
        (np.zeros((40, 1, 1)), "y must have one or two dimensions, got shape"),
    ],
)
def test_targets_that_are_refused(y, words):
    learner = pronk.make("ogd", "regression", random_state=0)
    with pytest.raises(ValueError, match=words):
        learner.predict_then_learn(X, y)
    assert not learner.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    "learner, name",
    [
        (pronk.OnlineKernelRegressor(delay=True), "delay"),
        (pronk.OnlineKernelRegressor(random_state=False), "random_state"),
        (pronk.PKAWVRegressor(budget=np.True_), "budget"),
        (pronk.PKAWVRegressor(alpha=True), "alpha"),
    ],
)
def test_true_and_false_are_no_numbers(learner, name):
    with pytest.raises(ValueError, match=f"'{name}' parameter .* Got (True|False|np.True_)"):
        learner.fit(X, Y)


def test_a_regressor_with_one_output():
    """`_several_outputs = False` of CONTRIBUTING."""

    class One(pronk.FOGDRegressor):
        _several_outputs = False

    learner = One(random_state=0)
    with pytest.raises(ValueError, match="y has 2 columns; this learner has one output"):
        learner.fit(X, np.zeros((40, 2)))
    assert not learner.__sklearn_tags__().target_tags.multi_output
    assert learner.fit(X, Y[:, None]).predict(X).shape == (40, 1)


@pytest.mark.parametrize(
    "y, words",
    [
        (np.full((40, 2), "a"), "y must be one label per row, got shape"),
        (np.zeros(40, dtype="M8[D]"), "y must hold numbers, booleans or text"),
        ([object()] * 40, r"text, got object; convert its labels to text, as with y.astype\(str\)"),
        (np.array(["a", 2] * 20, dtype=object), r"y mixes text and other labels: \['int', 'str'\]"),
    ],
)
def test_labels_that_are_refused(y, words):
    learner = pronk.make("fogd", "classification", random_state=0)
    with pytest.raises(ValueError, match=words):
        learner.predict_then_learn(X, y)
    assert not learner.__sklearn_is_fitted__()


def test_outputs_that_a_classifier_does_not_have():
    learner = pronk.make("fogd", "classification", random_state=0)
    with pytest.raises(ValueError, match="output must be one of"):
        learner.predict_then_learn(X, LABELS, output="smell")
    with pytest.raises(ValueError, match=r"has no probabilities here; .* loss='logistic'"):
        learner.predict_then_learn(X, LABELS, output="both")


def test_a_third_label_beside_a_pair():
    """A learner on margins that was told of two classes cannot learn of a third."""
    learner = pronk.make("perceptron", "classification", random_state=0)
    learner.partial_fit(X, LABELS, classes=["no", "yes"])
    with pytest.raises(ValueError, match="maybe"):
        learner.partial_fit(X[:1], np.array(["maybe"]))
    assert learner.classes_.tolist() == ["no", "yes"]


def test_fixed_features_hold_no_points():
    learner = pronk.make("fogd", "regression", random_state=0).fit(X, Y)
    with pytest.raises(AttributeError, match="fixed features hold no points"):
        _ = learner.dictionary_
    assert learner.size_ == 0


def test_sparse_rows_of_the_default_learner_keep_what_each_row_met():
    """Learned in blocks; intervals and probabilities are those of all rows."""
    rows = RNG.normal(size=(300, 3)) * (RNG.random((300, 3)) < 0.5)
    y = rows @ [1.0, -1.0, 0.5]
    sparse, dense = (pronk.OnlineKernelRegressor(budget=20, random_state=0) for _ in range(2))
    got = sparse.predict_then_learn(scipy.sparse.csr_array(rows), y, interval=0.9)[1]
    expected = dense.predict_then_learn(rows, y, interval=0.9)[1]
    for one, two in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9)


def written(path, text, arrays=None):
    """A file whose checksum holds, with any header."""
    arrays = arrays or {"nothing": np.zeros(1)}
    metadata = {"pronk": text, "sha256": files.digest(text, arrays)}
    path.write_bytes(files.safetensors_numpy.save(arrays, metadata=metadata))
    return path


@pytest.mark.parametrize(
    "text, words",
    [
        ("{", "has a header that cannot be read"),
        ("[" * 100_000, "has a header that cannot be read"),
        ("[]", "has a header without"),
        ('{"format": true}', "has a header without"),
    ],
)
def test_headers_that_are_none(tmp_path, text, words):
    with pytest.raises(files.ModelFileError, match=words):
        files.load(written(tmp_path / "m", text))


def test_trees_that_hold_no_learner(tmp_path):
    learner = pronk.make("fogd", "regression", random_state=0).fit(X, Y)
    learner.save(tmp_path / "m")
    with pytest.raises(files.ModelFileError, match="is not a file"):
        files.read_header("/dev/null")
    files.save_checkpoint({"model": None, "rows": 0}, tmp_path / "c")
    with pytest.raises(files.ModelFileError, match="before the first labelled row"):
        files.load(tmp_path / "c")
    with pytest.raises(files.ModelFileError, match="contains no learner"):
        files.learner_from_tree({"class": "FOGDRegressor", "params": []}, "here")
    with pytest.raises(files.ModelFileError, match="does not describe its learner"):
        files.from_settings_text(json.dumps({"class": "FOGDRegressor"}), "here")
    again = files.from_settings_text(files.settings_text(learner), "here")
    assert files.settings_text(again) == files.settings_text(learner)


def test_a_bandwidth_that_was_found_is_saved(tmp_path):
    """After row 256 the engine stands alone, and its bandwidth is the file's."""
    rows = RNG.normal(size=(400, 2))
    y = np.sin(rows[:, 0])
    kernel = pronk.Gaussian(bandwidth="auto")
    learner = pronk.FOGDRegressor(kernel, random_state=0).fit(rows[:300], y[:300])
    learner.save(tmp_path / "m")
    again = pronk.load(tmp_path / "m")
    assert again.kernel_.bandwidth == learner.kernel_.bandwidth != 1.0
    got = again.predict_then_learn(rows[300:], y[300:])
    assert np.array_equal(got, learner.predict_then_learn(rows[300:], y[300:]))
    state = learner._fitted_state()
    for wrong in (0.0, -1.0, np.inf, np.nan, "x", 1):
        with pytest.raises(StateError, match="bandwidth is not a positive number"):
            pronk.FOGDRegressor(kernel, random_state=0)._restore({**state, "bandwidth": wrong})


def test_names_of_single_rows_are_saved(tmp_path):
    """Rows as dicts: a loaded learner finds the columns by the same keys."""
    learner = pronk.make("fogd", "regression", random_state=0)
    for x, y in zip(X, Y, strict=True):
        learner.learn_one({"a": x[0], "b": x[1]}, y)
    learner.save(tmp_path / "m")
    again = pronk.load(tmp_path / "m")
    row = {"b": 0.5, "a": -0.5}
    assert again.predict_one(row) == learner.predict_one(row)
    state = learner._fitted_state()
    with pytest.raises(StateError, match="keys"):
        pronk.make("fogd", "regression", random_state=0)._restore({**state, "keys": ["a"]})


@pytest.mark.parametrize("name", ["pkawv-taylor", "fogd", "perceptron"])
@pytest.mark.parametrize("first", [1, -1])
def test_a_pair_of_which_one_label_was_seen_is_saved(tmp_path, name, first):
    """1 alone stands for the pair -1 and 1; then comes the other, or a third in its place."""
    for other in (-first, 5):
        learner = pronk.make(name, "classification", random_state=0)
        learner.partial_fit(X[:10], np.full(10, first))
        learner.save(tmp_path / "m")
        again = pronk.load(tmp_path / "m")
        y = np.where(X[10:, 0] > 0, first, other)
        for one in (learner, again):
            one.partial_fit(X[10:], y)
        assert again.classes_.tolist() == learner.classes_.tolist() == sorted([first, other])
        assert np.array_equal(again.decision_function(X), learner.decision_function(X))
        whole = pronk.make(name, "classification", random_state=0)
        whole.fit(X, np.append(np.full(10, first), y))
        np.testing.assert_allclose(
            whole.decision_function(X), learner.decision_function(X), rtol=1e-9, atol=1e-9
        )
