"""Files of every format version that was ever written keep loading."""

from pathlib import Path

import numpy as np
import pytest

import pronk
from pronk.estimators import storage

DATA = Path(__file__).parent.parent / "data"

#: For each format: predictions of the committed file at `POINTS`, and after learning them.
POINTS = np.array([[0.1, 0.2], [-0.5, 0.9], [0.7, -0.3]])
KNOWN = {
    1: (
        [-0.05287616927396875, -0.4938700329058663, -0.22768635839672766],
        [-0.04709951700363501, -0.4452474784402266, -0.14504508023596707],
    )
}


def test_there_is_a_file_of_every_version():
    assert set(KNOWN) == set(range(1, storage.FORMAT + 1))


@pytest.mark.parametrize("version", KNOWN)
def test_an_old_file_loads_predicts_and_learns(version):
    # PKAWVRegressor(Gaussian(0.7), alpha=0.1, gamma=2, budget=8, random_state=1) after 200 rows
    path = DATA / f"model-v{version}.pronk"
    assert storage.read_header(path)["format"] == version
    model = pronk.load(path)
    before, after = KNOWN[version]
    assert isinstance(model, pronk.PKAWVRegressor) and model.n_seen_ == 200 and model.size_ == 8
    np.testing.assert_allclose(model.predict(POINTS), before, rtol=0, atol=1e-12)
    model.partial_fit(POINTS, [0.0, 1.0, 2.0])
    np.testing.assert_allclose(model.predict(POINTS), after, rtol=0, atol=1e-12)


def test_the_same_model_makes_the_same_bytes(tmp_path):
    model = pronk.load(DATA / f"model-v{storage.FORMAT}.pronk")
    for i in range(5):  # the container writes its metadata in any order
        model.save(tmp_path / str(i))
        assert (tmp_path / str(i)).read_bytes() == (tmp_path / "0").read_bytes()
