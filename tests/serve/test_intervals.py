"""Intervals of learned rows are in the units of the labels, also if the spec scales targets."""

from __future__ import annotations

import numpy as np
import pytest

from pronk.serve import spec
from pronk.serve.journal import LEARN, Entry, ModelRow
from pronk.serve.online import OnlineModel
from pronk.serve.rows import pack, response


def test_intervals_of_scaled_targets_are_in_the_units_of_the_labels() -> None:
    given = spec.Spec(columns=["a", "b"], scale_target="standard", parameters={"budget": 20})
    model = OnlineModel(ModelRow(1, "m", spec.canonical(given), 0, 0.0, 0))
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    y = 1e6 + 1e4 * X[:, 0] * X[:, 1] + 100 * rng.normal(size=300)
    rows, labels = model.columns.pack(X), pack(y.tolist())
    (answer,) = model.learn([Entry(1, 1, None, LEARN, 300, rows, labels, 1, None, 0.0)])
    assert answer.lower is not None and answer.upper is not None and answer.error is None
    widths = np.array(answer.upper[-100:], float) - np.array(answer.lower[-100:], float)
    assert (widths > 100).all() and (widths < 1e5).all()
    assert 0.8 < model.scores.metrics()["coverage"] < 0.98


def test_quantiles_of_the_specification_are_in_the_answers() -> None:
    given = spec.Spec(columns=["a"], quantiles=[0.05, 0.5], parameters={"budget": 20})
    spec.check(given)
    model = OnlineModel(ModelRow(1, "m", spec.canonical(given), 0, 0.0, 0))
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 1))
    y = X[:, 0] + rng.exponential(size=200)
    rows, labels = model.columns.pack(X), pack(y.tolist())
    (answer,) = model.learn([Entry(1, 1, None, LEARN, 200, rows, labels, 1, None, 0.0)])
    assert answer.quantiles is not None and answer.quantiles[0] == [None, None]
    assert [row[0] for row in answer.quantiles] == answer.lower
    asked = model.predict(model.columns.pack(X[:3]))
    outputs = {one.name: one for one in response("m", None, asked, model.spec).outputs}
    tensor = outputs["quantiles"]
    assert tensor.shape == [3, 2] and tensor.parameters == {"levels": [0.05, 0.5]}
    assert tensor.data[0::2] == outputs["lower"].data and model.outputs == [*outputs]
    expected = model.learner.predict_quantiles(X[:3], [0.05, 0.5]).ravel()
    np.testing.assert_array_equal(tensor.data, expected)


@pytest.mark.parametrize(
    "more",
    [
        {"quantiles": [0.5, 2.0]}, {"quantiles": [0.5], "task": "classification"},
        {"quantiles": [0.5], "algorithm": "fogd"}, {"quantiles": [0.5], "key": "k"},
    ],
)  # fmt: skip
def test_quantiles_that_a_model_does_not_have_are_refused(more: dict[str, object]) -> None:
    with pytest.raises(spec.HTTPError, match="quantiles"):
        spec.check(spec.Spec(columns=["a"], **more))  # type: ignore[arg-type]
