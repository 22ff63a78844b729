"""Intervals of learned rows are in the units of the labels, also if the spec scales targets."""

from __future__ import annotations

import numpy as np

from pronk.serve import spec
from pronk.serve.journal import LEARN, Entry, ModelRow
from pronk.serve.online import OnlineModel
from pronk.serve.rows import pack_labels


def test_intervals_of_scaled_targets_are_in_the_units_of_the_labels() -> None:
    given = spec.Spec(columns=["a", "b"], scale_target="standard", parameters={"budget": 20})
    model = OnlineModel(ModelRow(1, "m", spec.canonical(given), 0, 0.0, 0))
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 2))
    y = 1e6 + 1e4 * X[:, 0] * X[:, 1] + 100 * rng.normal(size=300)
    rows, labels = model.columns.pack(X), pack_labels(y.tolist())
    (answer,) = model.learn([Entry(1, 1, None, LEARN, 300, rows, labels, 1, None, 0.0)])
    assert answer.lower is not None and answer.upper is not None and answer.error is None
    widths = np.array(answer.upper[-100:], float) - np.array(answer.lower[-100:], float)
    assert (widths > 100).all() and (widths < 1e5).all()
    assert 0.8 < model.scores.metrics()["coverage"] < 0.98
