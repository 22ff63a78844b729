"""Labels that arrive later than their predictions: what predictions and baselines knew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import created, infer, label, learn, opened

LATE = 5


def drive(service: Any, X: Any, y: Any) -> None:
    """Predict rows under ids, and send their labels LATE rows later; every fourth row at once."""
    for i, row in enumerate(X.tolist()):
        if i % 4 == 3:
            service.writer.group([learn(service, str(i), row, y[i])])
        else:
            service.writer.group([infer(service, str(i), row)])
        before = i - LATE
        if before >= 0 and before % 4 != 3:
            service.writer.group([label(service, str(before), y[before])])


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_baselines_know_the_labels_that_the_prediction_knew(tmp_path: Path, task: str) -> None:
    rng = np.random.default_rng(0)
    X, level = rng.normal(size=(150, 2)), np.cumsum(rng.normal(size=150))
    labels = task == "classification"
    y: list[Any] = np.where(level > 0, "up", "down").tolist() if labels else level.tolist()
    service = opened(tmp_path)
    created(service, task=task)
    drive(service, X, y)
    # The definition: which labels were known when a row was predicted, in order of arrival.
    known: list[Any] = []
    losses: list[list[float]] = []
    for i, value in enumerate(y):
        last = known[-1] if known else (None if labels else 0.0)
        counts = {one: known.count(one) for one in dict.fromkeys(known)}
        naive = max(counts, key=lambda one: counts[one]) if known else None
        average = naive if labels else (float(np.mean(known)) if known else 0.0)
        score = (lambda p, v=value: p != v) if labels else (lambda p, v=value: (p - v) ** 2)
        losses.append([float(score(average)), float(score(last))])
        if i % 4 == 3:
            known.append(value)
        before = i - LATE
        if before >= 0 and before % 4 != 3:
            known.append(y[before])
    arrived = [i for i in range(150) if i % 4 == 3 or i + LATE < 150]
    expected = np.mean([losses[i] for i in arrived], axis=0)
    found = service.model("m").scores.metrics()
    name = "error" if labels else "mse"
    assert found["rows"] == len(arrived)
    if not labels:  # among equals the most frequent label is the first to be that frequent
        assert found["mse_baseline"] == pytest.approx(expected[0])
    assert found[f"{name}_repeat_last"] == pytest.approx(expected[1])
    service.close()
    again = opened(tmp_path)  # replays the journal
    assert again.model("m").scores.metrics() == found
    again.close()


def test_a_note_says_that_the_last_label_is_better(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service)
    rng = np.random.default_rng(1)
    level = 100 + np.cumsum(rng.normal(size=120))
    for i, value in enumerate(level.tolist()):
        row = rng.normal(size=2).tolist()  # says nothing about the label
        service.writer.group([learn(service, str(i), row, value)])
    first, *more = service.model("m").scores.notes()
    assert "worse than the last value: mean squared error" in "; ".join([first, *more])
    service.close()
