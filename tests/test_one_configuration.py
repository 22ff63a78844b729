"""The same words build the same learner: `pronk.make`, the command line and the service."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest

import pronk
from laws.cases import SAME_CODE
from pronk.cli import main
from pronk.estimators import registry
from pronk.evaluate.formatting import setting
from pronk.serve import spec

NAMES = [
    pytest.param(name, task, marks=[pytest.mark.matrix] if name in SAME_CODE else [])
    for name, one in pronk.algorithms().items()
    for task in one.tasks
]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(320, 3)) * [1, 100, 0.01]
    y = 20 + np.sin(X[:, 0]) + X[:, 1] / 100
    label = np.where(y > 20, "high", "low")
    folder = tmp_path_factory.mktemp("data")
    table = pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "y": y, "label": label})
    arrow_csv.write_csv(table, folder / "data.csv")
    return folder, X, {"regression": y, "classification": label}


def settings(model):
    """The parameters of a model's learner, in words."""
    learner = getattr(model, "learner", model)
    return type(learner).__name__, {k: setting(v) for k, v in learner.get_params().items()}


def command_line(folder, task, name, *more):
    """The model that `pronk run` saves, and its predictions."""
    target, other = ("y", "label") if task == "regression" else ("label", "y")
    words = [str(folder / "data.csv"), "-t", target, "--drop", other, "-a", name, *more]
    out = ["--save", str(folder / "m.pronk"), "--predictions", str(folder / "p.csv"), "--json"]
    with pytest.raises(SystemExit) as exit_:
        main(["run", *words, *out])
    assert exit_.value.code == 0
    made = arrow_csv.read_csv(folder / "p.csv")["prediction"].to_numpy()
    if task == "classification":  # before the first label there is none
        made = np.array([label or None for label in made.tolist()], dtype=object)
    else:
        assert np.isnan(made[0])  # in a file it is empty, in an array 0
        made = np.nan_to_num(made)
    return pronk.load(folder / "m.pronk"), made


def service(task, name, **more):
    """The model that the service makes of a request."""
    return spec.build(spec.Spec(["a", "b", "c"], task=task, algorithm=name, **more))


@pytest.mark.parametrize(("name", "task"), NAMES)
def test_one_name_is_one_learner_everywhere(data, capsys, name, task):
    folder, X, targets = data
    library = pronk.Prepared(pronk.make(name, task, random_state=0))
    expected = library.predict_then_learn(X, targets[task])
    model, predictions = command_line(folder, task, name)
    online = service(task, name)
    assert settings(library) == settings(model) == settings(online)
    np.testing.assert_array_equal(predictions, expected)
    np.testing.assert_array_equal(online.predict_then_learn(X, targets[task]), expected)


def test_the_same_words_are_the_same_choices(data, capsys):
    folder, X, targets = data
    words = {"kernel": "matern", "nu": 1.5, "alpha": 0.5, "budget": None}
    library = pronk.make("con-kons", **words, random_state=0)
    assert library.kernel.get_params() == {"bandwidth": "auto", "nu": 1.5}
    assert library.budget is None and library.alpha == 0.5
    flags = [f"-p{key}={value}" for key, value in words.items()]
    model, predictions = command_line(folder, "regression", "con-kons", "--scale", "none", *flags)
    online = service("regression", "con-kons", parameters=words, scale="none")
    assert settings(library) == settings(model) == settings(online)
    assert model.scaling_ == online.scaling_ == "none"
    expected = pronk.Prepared(library, scale="none").predict_then_learn(X, targets["regression"])
    np.testing.assert_array_equal(predictions, expected)
    np.testing.assert_array_equal(online.predict_then_learn(X, targets["regression"]), expected)


def test_what_is_given_is_used_as_it_is():
    kernel = pronk.Gaussian(0.5)
    assert pronk.make("con-kons", kernel=kernel).kernel is kernel
    assert pronk.make("con-kons", bandwidth=2.0).kernel.bandwidth == 2.0
    assert pronk.make("con-kons", kernel__bandwidth=2.0).kernel.bandwidth == 2.0
    assert pronk.make("b-kons").budget == 100  # the paper's
    assert pronk.make("pkawv-nystrom").history == "exact"
    assert pronk.make("online-kernel").kernel == "gaussian"
    assert pronk.make("krls", kernel="linear").kernel == "linear"
    with pytest.raises(TypeError, match="con-kons has no parameter 'badget'; did you mean"):
        pronk.make("con-kons", badget=1)


@pytest.mark.parametrize(("name", "task"), NAMES)
def test_the_papers_own_choices_can_be_had(name, task):
    algorithm = pronk.algorithms()[name]
    expected = algorithm.learner_class(task)(**algorithm.params)
    assert settings(registry.make_as_in_paper(name, task)) == settings(expected)


def test_what_was_chosen_is_printed(data, capsys):
    folder, *_ = data
    command_line(folder, "regression", "con-kons")
    chosen = json.loads(capsys.readouterr().out)["chosen"]
    assert chosen["budget"] == registry.BUDGET and chosen["bandwidth"] > 0


@pytest.mark.parametrize("name", ["con-kons", "pros-n-kons", "pkawv-nystrom", "dual-svrg-b"])
def test_with_a_kernel_object_everything_else_is_the_papers_choice(name):
    kernel = pronk.Gaussian(0.7)
    made = registry.make(name, "regression", kernel=kernel)
    assert settings(made) == settings(registry.make_as_in_paper(name, "regression", kernel=kernel))
