"""The forecaster of sktime: sktime's own checks, and updates without a new fit."""

import numpy as np
import pandas as pd
import pytest

import pronk

pytest.importorskip("sktime", reason="sktime is not installed (make sktime)")

from sktime.utils.estimator_checks import check_estimator

from pronk.compat.sktime import PronkForecaster


def test_the_checks_of_sktime():
    found = check_estimator(PronkForecaster, raise_exceptions=False, verbose=False)
    assert len(found) > 100
    assert {name: why for name, why in found.items() if why != "PASSED"} == {}


def test_an_update_is_more_rows_of_the_same_stream():
    rng = np.random.default_rng(0)
    index = pd.period_range("2020-01", periods=80, freq="M")
    y = pd.Series(10 + np.sin(np.arange(80) / 2) + 0.1 * rng.normal(size=80), index=index)
    learner = pronk.OnlineKernelRegressor(budget=16, experts="few", random_state=0)
    forecaster = PronkForecaster(learner).fit(y[:50], fh=[2, 5])
    expected = forecaster.update(y[50:]).predict()
    whole = learner.fit(np.zeros((80, 1)), y.to_numpy())
    np.testing.assert_array_equal(expected.to_numpy(), whole.predict(np.zeros((5, 1)))[[1, 4]])
    ends = forecaster.predict_interval(coverage=0.9).to_numpy()
    np.testing.assert_array_equal(ends, whole.predict_interval(np.zeros((5, 1)))[[1, 4]])
