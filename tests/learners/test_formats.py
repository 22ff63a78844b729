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
    ),
    2: (
        [0.024506949730456015, -0.36165426739417417, -0.30210002372887407],
        [0.03585537055330886, -0.3141185930338298, -0.21557652436547772],
    ),
}

#: Learners of format 1 that draw at every row, saved after 20 rows: their last three predictions of
#: the 40 rows after them, as the version that wrote the file made them.
GOING_ON = {
    "pkawv": [0.2434672218355035, 0.3503355519085562, -0.2671022578711796],
    "fogd": [0.2577886617832207, 0.4090824076292734, 0.12594670702637634],
    "bogd": [-0.171314515614799, -0.2144496512454059, -0.1601470977332834],
}


@pytest.mark.parametrize("name", GOING_ON)
@pytest.mark.parametrize("again", [False, True])
def test_a_model_of_format_1_goes_on_with_its_own_streams(name, again, tmp_path):
    """KORS's coins, frequencies and removals; also after it was saved in today's format."""
    X = np.random.default_rng(77).uniform(-1, 1, (60, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1]
    model = pronk.load(DATA / f"model-v1-{name}.pronk")
    if again:
        model.save(tmp_path / "model.pronk")
        assert storage.read_header(tmp_path / "model.pronk")["format"] == storage.FORMAT
        model = pronk.load(tmp_path / "model.pronk")
    predictions = model.predict_then_learn(X[20:], y[20:])
    np.testing.assert_allclose(predictions[-3:], GOING_ON[name], rtol=0, atol=1e-12)


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


def test_an_earlier_form_of_the_default_learner_is_said_to_be_one(tmp_path):
    X = np.random.default_rng(0).normal(size=(40, 2))
    learner = pronk.OnlineKernelRegressor(random_state=0).fit(X, X[:, 0])
    tree = storage.learner_tree(learner)
    tree["state"]["model"]["sums"] = np.zeros(1)
    with pytest.raises(pronk.ModelFileError, match="had another form then; learn it anew"):
        storage.learner_from_tree(tree, tmp_path / "model.pronk")
