"""scikit-learn's own checks, pipelines and searches."""

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import pronk
from helpers import unweighted_checks
from pronk import Gaussian, PKAWVClassifier, PKAWVRegressor


def every_class():
    return sorted(
        (
            getattr(pronk, name)
            for name in pronk.__all__
            if name.endswith(("Regressor", "Classifier", "Perceptron"))
        ),
        key=lambda c: c.__name__,
    )


#: Checks that cannot hold, with the reason. Empty is the aim.
EXPECTED: dict[str, dict[str, str]] = {
    "ProsNKONSClassifier(restart=True)": {
        "check_classifiers_train": "the last row enters the dictionary, so it restarts with "
        "scores of 0, which are the positive class (API) and not the negative one"
    }
}


def expected(estimator):
    name = type(estimator).__name__
    known = EXPECTED.get(f"{name}(restart={getattr(estimator, 'restart', None)})", {})
    return {**known, **unweighted_checks(estimator)}


#: Learners with methods or checks of their own; what the checks test is shared by all others.
OWN_CODE = ("OnlineKernelRegressor", "KernelOGDRegressor", "DualSVRGClassifier", "KRLSRegressor")


@parametrize_with_checks(
    [*(getattr(pronk, name)() for name in OWN_CODE), pronk.ProsNKONSClassifier(restart=False)],
    expected_failed_checks=expected,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.matrix
@parametrize_with_checks(
    [cls() for cls in every_class() if cls.__name__ not in OWN_CODE],
    expected_failed_checks=expected,
)
def test_scikit_learn_checks_of_the_others(estimator, check):
    check(estimator)


@pytest.mark.slow
def test_the_bandwidth_can_be_searched():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, size=(200, 1))
    y = np.sin(3 * X[:, 0])
    for kernel in ("gaussian", Gaussian(3.0)):
        search = GridSearchCV(
            PKAWVRegressor(kernel, alpha=0.01, random_state=0),
            {"kernel__bandwidth": [0.01, 0.5, 50.0]},
            n_jobs=2,
        )
        assert search.fit(X, y).best_params_ == {"kernel__bandwidth": 0.5}


@pytest.mark.parametrize("name", ["online-kernel", "pkawv-taylor", "kernel-awv", "fogd"])
def test_a_learner_that_joblib_maps_from_a_file_continues(name, tmp_path):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(700, 2)), rng.normal(size=700)
    learner = pronk.make(name, "regression", random_state=0).fit(X[:300], y[:300])
    joblib.dump(learner, tmp_path / "learner.joblib")
    mapped = joblib.load(tmp_path / "learner.joblib", mmap_mode="r")
    expected = learner.predict_then_learn(X[300:], y[300:])
    assert np.array_equal(mapped.predict_then_learn(X[300:], y[300:]), expected)


def test_pipelines_and_cross_validation():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 2)) * [1, 1000]
    y = np.where(X[:, 0] > 0, "up", "down")
    pipeline = make_pipeline(StandardScaler(), PKAWVClassifier(random_state=0))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.9
    pipeline.set_params(pkawvclassifier__kernel__bandwidth=2.0)
    assert pipeline.get_params()["pkawvclassifier__kernel__bandwidth"] == 2.0


@pytest.mark.parametrize("cls", every_class())
def test_parameters_of_the_kernel_are_reached(cls):
    learner = cls()
    assert learner.get_params()["kernel__bandwidth"] == 1.0
    learner.set_params(kernel__bandwidth=3.0)
    assert learner.kernel.bandwidth == 3.0
    assert cls().kernel == "gaussian"
