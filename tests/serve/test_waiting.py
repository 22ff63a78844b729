"""Labels that arrive later than their predictions: what predictions and baselines knew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import bits, crashed, created, infer, label, learn, opened

import pronk
from pronk.serve.rows import Answer, pack_kept, unpack_kept
from pronk.serve.spec import read_upload

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
    losses: dict[int, list[float]] = {}
    for i, value in enumerate(y):
        if known:
            counts = {one: known.count(one) for one in dict.fromkeys(known)}
            average = max(counts, key=lambda one: counts[one]) if labels else np.mean(known)
            score = (lambda p, v=value: p != v) if labels else (lambda p, v=value: (p - v) ** 2)
            losses[i] = [float(score(average)), float(score(known[-1]))]
        if i % 4 == 3:
            known.append(value)
        before = i - LATE
        if before >= 0 and before % 4 != 3:
            known.append(y[before])
    arrived = [i for i in range(150) if i % 4 == 3 or i + LATE < 150]
    expected = np.mean([losses[i] for i in arrived if i in losses], axis=0)
    found = service.model("m").scores.metrics()
    name = "error" if labels else "mse"
    assert found["rows"] == len(arrived) and found["unpredicted"] == 4
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
    for i, value in enumerate([100.0, 101.0, 103.0, 104.0, 106.0]):
        row = rng.normal(size=2).tolist()  # says nothing about the label
        service.writer.group([learn(service, str(i), row, value)])
    text = "; ".join(service.model("m").scores.notes())
    assert "worse than the last value: mean squared error" in text
    service.close()


def test_rows_from_before_the_first_label_are_not_scored(tmp_path: Path) -> None:
    """A target far from 0: a first prediction of 0 would be most of the loss."""
    service = opened(tmp_path)
    created(service, algorithm="online-kernel", parameters={"budget": 20})
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, (60, 2))
    y = (288 + 5 * X[:, 0]).tolist()
    answers = []
    for i, row in enumerate(X.tolist()):
        work = learn(service, str(i), row, y[i]) if i > 3 else infer(service, str(i), row)
        service.writer.group([work])
        answers.append(work.outcome.prediction[0])
    service.writer.group([label(service, str(i), y[i]) for i in range(4)])
    assert answers[:5] == [None] * 5 and None not in answers[5:]
    found = service.model("m").scores.metrics()
    assert (found["rows"], found["unpredicted"]) == (60, 5)
    assert found["mse"] == pytest.approx(np.mean((np.array(answers[5:]) - y[5:]) ** 2))
    means = [np.mean(y[4:i]) for i in range(5, 60)]
    assert found["mse_baseline"] == pytest.approx(np.mean((np.array(means) - y[5:]) ** 2))
    assert service.model("m").scores.curve.rows == 55
    service.close()


def test_an_uploaded_model_is_scored_where_the_baselines_know_no_label(tmp_path: Path) -> None:
    learner = pronk.make("fogd", random_state=0).partial_fit([[1.0, 2.0]] * 9, [1.0] * 9)
    learner.save(tmp_path / "model")
    service = opened(tmp_path / "served")
    service.create("m", *read_upload((tmp_path / "model").read_bytes()))
    expected = float(learner.predict([[1.0, 2.0]])[0])
    service.writer.group([infer(service, "early", [1.0, 2.0])])
    service.writer.group([label(service, "early", 3.0)])
    scores = service.model("m").scores
    found = scores.metrics()
    assert found["unpredicted"] == 0 and found["mse"] == pytest.approx((3 - expected) ** 2)
    assert found["mse_baseline"] is found["mse_repeat_last"] is None and scores.notes() == []
    service.writer.group([learn(service, "now", [1.0, 2.0], 4.0)])
    found = scores.metrics()
    assert found["mse_baseline"] == found["mse_repeat_last"] == 1.0
    assert scores.curve.rows == 2 and scores.compared == 1
    service.close()
    again = opened(tmp_path / "served")
    assert again.model("m").scores.metrics() == found
    again.close()


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_a_replay_learns_rows_as_they_were_predicted_to_the_same_bits(
    tmp_path: Path, task: str
) -> None:
    """Labels come late and out of order, in groups with others; the process is killed twice."""
    rng = np.random.default_rng(2)
    X, level = rng.uniform(-1, 1, (420, 2)), np.cumsum(0.3 * rng.normal(size=420))
    y: list[Any] = level.tolist()
    if task == "classification":
        y = np.where(level > 1, "high", np.where(level > -1, "mid", "low")).tolist()
    default: dict[str, Any] = {"algorithm": "online-kernel", "parameters": {"budget": 20}}

    def drive_rows(service: Any, rows: range) -> None:
        for i in rows:
            if i % 5 == 4:
                service.writer.group([learn(service, f"now {i}", X[i].tolist(), y[i])])
            else:
                service.writer.group([infer(service, str(i), X[i].tolist())])
            if i % 20 == 19 and i >= 40:  # a group of labels, the latest first, and a row
                late = [j for j in range(i - 21, i - 41, -1) if j % 5 != 4]
                works = [label(service, str(j), y[j]) for j in late]
                works.insert(3, learn(service, f"too {i}", X[i].tolist(), y[i]))
                service.writer.group(works)
                assert all(isinstance(work.outcome, Answer) for work in works)

    whole = opened(tmp_path / "whole")
    created(whole, task=task, **default)
    drive_rows(whole, range(420))
    stopped = opened(tmp_path / "stopped")
    created(stopped, task=task, **default)
    drive_rows(stopped, range(170))
    crashed(stopped)
    again = opened(tmp_path / "stopped")
    drive_rows(again, range(170, 300))
    crashed(again)
    last = opened(tmp_path / "stopped")
    drive_rows(last, range(300, 420))
    assert bits(last) == bits(whole)
    found, expected = (one.model("m").scores.metrics() for one in (last, whole))
    assert found == expected
    learner = whole.model("m").inner
    assert learner._model.incumbent.lateness >= 15
    assert learner.reads_past_ or task == "classification"
    for one in (whole, last):
        one.close()


@pytest.mark.slow
def test_intervals_of_predictions_that_wait_hold_at_the_lateness_of_their_labels(
    tmp_path: Path,
) -> None:
    rng = np.random.default_rng(3)
    n, late = 1500, 24
    X, level = rng.uniform(-1, 1, (n, 2)), np.zeros(n)
    for t in range(1, n):
        level[t] = 0.98 * level[t - 1] + 0.2 * rng.normal()
    y = (np.sin(3 * X[:, 0]) + level).tolist()
    service = opened(tmp_path)
    created(service, algorithm="online-kernel", parameters={"budget": 20})
    for i in range(n):
        works = [infer(service, str(i), X[i].tolist())]
        if i >= late:
            works.append(label(service, str(i - late), y[i - late]))
        for work in works:
            service.writer.group([work])
    assert 0.87 < service.model("m").scores.metrics()["coverage"] < 0.93
    service.close()


def test_what_is_kept_of_several_rows_is_read_back(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    X, y = rng.uniform(-1, 1, (60, 2)), rng.normal(size=60)
    service = opened(tmp_path)
    created(service, algorithm="online-kernel", parameters={"budget": 20})
    model = service.model("m")
    for i in range(40):
        service.writer.group([learn(service, None, X[i].tolist(), float(y[i]))])
    rows = model.columns.pack(X[40:])
    answer = model.predict_to_wait(rows)
    assert answer.kept is not None and answer.baselines == [pytest.approx(y[:40].mean()), y[39]]
    lines = unpack_kept(answer.kept)
    assert len(lines) == 20
    singles = [model.predict_to_wait(model.columns.pack(X[i : i + 1])) for i in range(40, 60)]
    for line, single, prediction in zip(lines, singles, answer.prediction, strict=True):
        assert line is not None and single.kept is not None
        (own,) = unpack_kept(single.kept)
        assert own is not None and own[0].header == line[0].header
        np.testing.assert_allclose(own[1], line[1], rtol=1e-7, atol=1e-9)
        assert single.prediction[0] == pytest.approx(prediction)
    with pytest.raises(ValueError, match="a record has another form"):
        unpack_kept(pack_kept(None) or b"\x92\x01\xc4\x00")
    service.close()
