"""Model files: whole or not at all, and never trusted."""

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import numpy as safetensors_numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import pronk
from pronk import Gaussian, PKAWVClassifier, PKAWVRegressor
from pronk.estimators import encoding, storage


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
    metadata = {"pronk": text, "sha256": encoding.digest(text, arrays)}
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

    monkeypatch.setattr(storage.os, "fsync", full)
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
        words = {"pronk": 'é "', "sha256": "1"}
        data = safetensors_numpy.save(arrays, metadata=words)
        end = 8 + int.from_bytes(data[:8], "little")
        ours = encoding._container(arrays, words)
        text = 8 + int.from_bytes(ours[:8], "little")
        assert json.loads(ours[8:text]) == json.loads(data[8:end]) and text % 8 == 0
        assert ours[text:] == data[end:]


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
