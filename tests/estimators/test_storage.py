"""Model files: written atomically, checked when they are read."""

import contextlib
import copy
import json
import pickle
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import numpy as safetensors_numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn.base import clone

import pronk
from laws.cases import CASES, parametrized, two_classes
from pronk import Gaussian, PKAWVClassifier, PKAWVRegressor
from pronk.estimators import files


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    learner = PKAWVClassifier(Gaussian(0.7), random_state=np.random.default_rng(1))
    learner.partial_fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    path = tmp_path_factory.mktemp("models") / "model.pronk"
    learner.save(path)
    return path, learner, X


def test_parameters_and_names_come_back(model):
    path, learner, X = model
    loaded = pronk.load(path)
    assert loaded.kernel.bandwidth == 0.7
    assert loaded.random_state is None  # the seed drawn from the generator is in the state
    assert loaded.classes_.tolist() == ["no", "yes"]
    assert np.array_equal(loaded.decision_function(X), learner.decision_function(X))


@settings(deadline=None, max_examples=200)
@given(data=st.data())
def test_altered_files_give_a_clear_error_or_the_intact_model(model, data):
    path, learner, X = model
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place] ^= 1 << data.draw(st.integers(0, 7))
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    other = path.with_name("altered.pronk")
    other.write_bytes(content)
    loaded = None
    with contextlib.suppress(pronk.ModelFileError):  # any other error fails the test
        loaded = pronk.load(other)
    if loaded is not None:
        assert np.array_equal(loaded.decision_function(X), learner.decision_function(X))


def test_foreign_files_are_refused(tmp_path):
    with pytest.raises(pronk.ModelFileError, match="cannot be read"):
        pronk.load(tmp_path / "missing.pronk")
    foreign = {
        "empty": b"",
        "text": b"hello world, this is no model",
        "huge header": b"\xff" * 64,
        "zip": b"PK\x03\x04" + bytes(100),
    }
    for name, content in foreign.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(pronk.ModelFileError, match="not a pronk model"):
            pronk.load(path)
    save_file({"weights": np.ones(3)}, tmp_path / "other.safetensors")
    with pytest.raises(pronk.ModelFileError, match="not a pronk model"):
        pronk.load(tmp_path / "other.safetensors")


def rewrite(path, target, **changes):
    arrays = load_file(path)
    with safe_open(path, "numpy") as file:
        header = json.loads(file.metadata()["pronk"])
    text = json.dumps({**header, **changes}, sort_keys=True)
    metadata = {"pronk": text, "sha256": files.digest(text, arrays)}
    save_file(arrays, target, metadata=metadata)
    return target


def test_newer_formats_and_unknown_classes_are_named(model, tmp_path):
    path, _, _ = model
    with pytest.raises(pronk.ModelFileError, match="upgrade"):
        pronk.load(rewrite(path, tmp_path / "new", format=99))
    for name in ("Nonsense", "load", "os"):
        with pytest.raises(pronk.ModelFileError, match=name):
            pronk.load(rewrite(path, tmp_path / "unknown", **{"class": name}))


def test_a_user_kernel_must_be_given_again(tmp_path):
    def kernel(X, Z):
        return (1.0 + X @ Z.T) ** 2

    X = np.random.default_rng(0).normal(size=(40, 2))
    learner = PKAWVRegressor(kernel, random_state=0).partial_fit(X, X[:, 0])
    path = tmp_path / "model.pronk"
    learner.save(path)
    with pytest.raises(pronk.ModelFileError, match="kernel="):
        pronk.load(path)
    assert np.array_equal(pronk.load(path, kernel=kernel).predict(X), learner.predict(X))


def test_a_failed_write_leaves_the_old_file(model, tmp_path, monkeypatch):
    _, learner, _ = model
    target = tmp_path / "model.pronk"
    learner.save(target)
    old = target.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        learner.save(target)
    assert target.read_bytes() == old
    assert list(tmp_path.iterdir()) == [target]


def test_an_unfitted_learner_has_nothing_to_save(tmp_path):
    with pytest.raises(ValueError, match="fitted"):
        PKAWVRegressor().save(tmp_path / "model.pronk")


def test_the_container_is_what_safetensors_writes():
    """All kinds of numbers, empty arrays and numbers without a dimension, in any order."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        arrays = {}
        for kind in "?bBhHiIlLefd":
            shape = tuple(rng.integers(0, 4, rng.integers(0, 4)))
            name = "".join(rng.choice(list("abXY/_0é"), 4))
            arrays[name] = np.asarray(9.0 * rng.random(shape)).astype(kind)
        text = 'é "'
        words = {"pronk": text, "sha256": files.digest(text, arrays)}
        data = safetensors_numpy.save(arrays, metadata=words)
        end = 8 + int.from_bytes(data[:8], "little")
        ours = files._container(arrays, text)
        begin = 8 + int.from_bytes(ours[:8], "little")
        assert json.loads(ours[8:begin]) == json.loads(data[8:end]) and begin % 8 == 0
        assert ours[begin:] == data[end:]


def test_settings_that_were_good_are_no_reason_for_others():
    """1 is not True, though they are equal; a seed is looked at every time."""
    PKAWVRegressor(anticipate=True, random_state=1).partial_fit([[1.0]], [1.0])
    for wrong in ({"anticipate": 1}, {"alpha": -1.0}, {"random_state": -1}, {"random_state": "a"}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            PKAWVRegressor(**{"random_state": 1, **wrong}).partial_fit([[1.0]], [1.0])


def test_a_folder_that_is_not_there_is_named_and_not_made(tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 2))
    learner = pronk.FOGDRegressor(random_state=np.random.RandomState(3)).fit(X, X[:, 0])
    missing = tmp_path / "models" / "today"
    for model in (learner, pronk.Prepared(learner).fit(X, X[:, 0])):
        with pytest.raises(OSError, match="there is no folder") as caught:
            model.save(missing / "model.pronk")
        assert str(missing) in str(caught.value) and not missing.parent.exists()
    learner.save(tmp_path / "model.pronk")  # of a RandomState the seed that was drawn
    again = pronk.load(tmp_path / "model.pronk")
    assert np.array_equal(again.predict(X), learner.predict(X))


#: Targets from the largest to the smallest, and how they lie.
SIZES = [1e150, 1e141, 1e140, 1e75, 1e-75, 1e-150, 1e-200, 5e-324, 0.0]
SHAPES = {
    "both signs": lambda y: np.sign(y),
    "constant": lambda y: np.ones(len(y)),
    "one outlier": lambda y: np.where(np.arange(len(y)) == len(y) // 2, 1.0, 1e-140 * y),
    "weights": lambda y: np.sign(y),
}


@pytest.mark.parametrize("size", SIZES)
@parametrized([case for case in CASES if case.task == "regression"], by_engine=True)
def test_targets_that_are_accepted_can_be_kept(case, size):
    """Every learner: a call is refused and changes nothing, or its model loads as it was."""
    X, y = case.stream(80)
    for shape, values in SHAPES.items():
        learner, more = case.make(), {}
        if shape == "weights":
            if not learner._accepts_weights():
                continue
            more = {"sample_weight": np.where(np.arange(80) % 7 == 0, 1e10, 1.0)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                learner.partial_fit(X, size * values(y), **more)
            except ValueError as error:
                refusal = str(error)
            else:
                refusal = None
            if refusal is not None:
                assert "rescale" in refusal or "overshoot" in refusal
                assert not hasattr(learner, "n_seen_")
                continue
            assert size <= 1e140
            loaded = files.from_bytes(files.to_bytes(learner), "file")
        assert np.isfinite(learner.predict(X)).all()
        assert np.array_equal(loaded.predict(X), learner.predict(X))


LABELS = {
    "large whole numbers": [2**62, 2**62 + 1, -(2**63)],
    "unsigned": np.array([2**64 - 1, 2**64 - 2, 0], dtype=np.uint64),
    "floats": [2.0**53, -(2.0**53), 0.0],
    "half precision": np.array([1, 2, 3], dtype=np.float16),
    "long doubles": np.array([1, 2, 3], dtype=np.longdouble),
    "big-endian": np.array([1, 2, 300], dtype=">i4"),
    "booleans": [True, False, True],
    "one label": [1, 1, 1],
    "text": ["", "a\0b", "\ud800"],
    "long text": ["x" * 5000, "x" * 5000 + "y", "\u00e9" * 300],
}


@pytest.mark.parametrize("kind", LABELS)
@two_classes
def test_labels_that_are_accepted_can_be_kept(case, kind):
    X, _ = case.stream(30)
    y = np.resize(np.asarray(LABELS[kind]), 30)
    learner = case.make().partial_fit(X, y)
    assert learner.classes_.tolist() == sorted(set(y.tolist()))
    loaded = files.from_bytes(files.to_bytes(learner), "file")
    assert loaded.classes_.tolist() == learner.classes_.tolist()
    assert loaded.classes_.dtype.kind == learner.classes_.dtype.kind
    assert np.array_equal(loaded.predict(X), learner.predict(X))
    np.testing.assert_array_equal(
        loaded.predict_then_learn(X, y, output="decision"),
        learner.predict_then_learn(X, y, output="decision"),
    )


@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_file_that_would_not_load_is_not_written(tmp_path, monkeypatch, checkpoint):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = pronk.OnlineKernelRegressor(random_state=0).fit(X, X[:, 0])
    path = tmp_path / "model.pronk"

    def write():
        if checkpoint:
            files.save_checkpoint({"model": files.learner_tree(model), "rows": 60}, path)
        else:
            model.save(path)

    write()
    before, expected = path.read_bytes(), model.predict(X)
    monkeypatch.setattr(model._model, "_rows", 61)  # as after a fault in the arithmetic
    with pytest.raises(OSError, match=r"was not written, because .* could not be loaded"):
        write()
    assert path.read_bytes() == before
    assert np.array_equal(pronk.load(path).predict(X), expected)


@pytest.mark.parametrize("wrap", [pronk.Prepared, pronk.Intervals, pronk.Pending])
def test_a_kernel_function_inside_a_wrapper_is_refused_at_save(tmp_path, wrap):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = wrap(pronk.KernelAWVRegressor(kernel=lambda A, B: A @ B.T + 1.0))
    if wrap is not pronk.Pending:
        model.fit(X, X[:, 0])
    with pytest.raises(ValueError, match="pickle"):
        model.save(tmp_path / "model.pronk")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "learner, later",
    [
        (pronk.PKAWVRegressor(dictionary=np.eye(2)), {"dictionary": -np.eye(2)}),
        (pronk.PKAWVRegressor(dictionary=np.eye(2)), {"dictionary": np.ones((1, 2))}),
        (pronk.PKAWVRegressor(features="taylor", random_state=0), {"features": "nystrom"}),
        (pronk.KernelAWVRegressor(pronk.Gaussian(0.5)), {"kernel__bandwidth": 3.0}),
        (pronk.KernelAWVRegressor(), {"kernel__bandwidth": 3.0}),
        (pronk.FOGDRegressor(n_features=8, random_state=0), {"n_features": 9}),
    ],
)
def test_parameters_that_are_set_later_are_those_of_the_next_fit(tmp_path, learner, later):
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    y = np.sin(3 * X[:, 0])
    learner = clone(learner).fit(X[:40], y[:40])
    untouched, expected = copy.deepcopy(learner), learner.predict(X)
    learner.set_params(**later)
    np.testing.assert_array_equal(learner.predict(X), expected)
    learner.save(tmp_path / "model.pronk")
    again = pronk.load(tmp_path / "model.pronk")
    for one in (learner, again, copy.deepcopy(learner), pickle.loads(pickle.dumps(learner))):
        np.testing.assert_array_equal(one.predict(X), expected)
    for one in (untouched, learner, again):
        one.partial_fit(X[40:], y[40:])
        np.testing.assert_array_equal(one.predict(X), untouched.predict(X))
    fresh = clone(untouched).set_params(**later).fit(X, y)
    np.testing.assert_array_equal(learner.fit(X, y).predict(X), fresh.predict(X))
    assert "_first_params" not in learner.__dict__
