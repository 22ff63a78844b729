"""The format number of model files; their size and bytes follow from the model."""

import numpy as np
import pytest

import pronk
from pronk.estimators import files


def model():
    X = np.random.default_rng(0).normal(size=(200, 2))
    return pronk.PKAWVRegressor(budget=8, random_state=1).fit(X, X[:, 0])


@pytest.mark.parametrize("version", [files.FORMAT - 1, files.FORMAT + 1])
def test_a_file_of_another_format_is_refused_with_a_remedy(version, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "FORMAT", version)
    model().save(tmp_path / "model.pronk")
    monkeypatch.undo()
    remedy = "train it again" if version < files.FORMAT else "upgrade pronk"
    with pytest.raises(pronk.ModelFileError, match=f"has format {version}.*{remedy}"):
        pronk.load(tmp_path / "model.pronk")


def test_the_same_model_makes_the_same_bytes(tmp_path):
    learner = model()
    for i in range(5):  # the container writes its metadata in any order
        learner.save(tmp_path / str(i))
        assert (tmp_path / str(i)).read_bytes() == (tmp_path / "0").read_bytes()
