"""Predictions of many rows: in pieces, as one answer, while other requests are answered."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import created, learn, opened
from serving import Site

from pronk.serve import worker
from pronk.serve.http.bodies import MOST_WAITING
from pronk.serve.online import PIECE, OnlineModel
from pronk.serve.rows import pack
from pronk.serve.spec import HTTPError
from pronk.serve.worker import Work, predict_each

DEFAULT: dict[str, Any] = {"algorithm": "online-kernel", "parameters": {"budget": 20}}
SPECS: dict[str, dict[str, Any]] = {
    "regression": DEFAULT,
    "classification": {**DEFAULT, "task": "classification"},
    "text": {**DEFAULT, "columns": ["a", {"name": "b", "kind": "category"}]},
    "keyed": {"key": "k"},
    "keyed text": {"key": "k", "columns": ["a", {"name": "b", "kind": "category"}]},
}


def trained(folder: Path, name: str) -> tuple[Any, list[list[Any]]]:
    """Return a service with a trained model "m", and rows for it."""
    service = opened(folder)
    created(service, **SPECS[name])
    rng = np.random.default_rng(0)
    level = np.cumsum(rng.normal(size=3000))
    rows: list[list[Any]] = rng.normal(size=(3000, 2)).tolist()
    if "text" in name:
        rows = [[a, f"v{int(3 * abs(b))}"] for a, b in rows]
    if "keyed" in name:
        rows = [[f"key {i % 3}", *row] for i, row in enumerate(rows)]
    labels: list[Any] = level.tolist()
    if name == "classification":
        labels = ["high" if y > 0 else "low" for y in labels]
    model = service.model("m")
    packed = model.columns.pack(rows[:400])
    service.writer.group([Work(model, None, packed, pack(labels[:400]), 400)])
    return service, rows


def asked(service: Any, rows: list[list[Any]]) -> Work:
    model = service.model("m")
    return Work(model, None, model.columns.pack(rows), None, len(rows))


def equal(one: Any, other: Any) -> None:
    assert (one is None) == (other is None)
    if one is not None and (not one or isinstance(one[0], str)):
        assert one == other
    elif one is not None:
        np.testing.assert_allclose(
            np.array(one, dtype=float), np.array(other, dtype=float), rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("count", [PIECE + 1, 2600])
@pytest.mark.parametrize("name", SPECS)
def test_the_answer_is_that_of_one_prediction(tmp_path: Path, name: str, count: int) -> None:
    service, rows = trained(tmp_path, name)
    work = asked(service, rows[:count])
    whole = work.model.predict(work.rows or b"")
    pieces = work.model.columns.split(work.rows or b"", count, PIECE)
    predict_each([work], service.counters)
    found = work.outcome
    assert len(pieces) == -(-count // PIECE) and isinstance(found, worker.Answer)
    assert (found.version, found.classes, found.untrained) == (
        whole.version,
        whole.classes,
        whole.untrained,
    )
    for part in ("prediction", "lower", "upper", "probability"):
        equal(getattr(found, part), getattr(whole, part))
    assert len(found.prediction) == count
    service.close()


def test_other_requests_come_between_the_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While many rows are predicted, the model learns and predicts one row; those wait in turn."""
    service, rows = trained(tmp_path, "regression")
    order: list[Work] = []
    large, other, small = asked(service, rows), asked(service, rows), asked(service, rows[:1])
    before, model, predict = large.model.version, large.model, OnlineModel.predict
    copies: set[int] = set()

    def watched(self: OnlineModel, packed: bytes, waits: bool = False, later: bool = False) -> Any:
        if self is not model:
            copies.add(id(self))
        if later and len(copies) == 1 and model.version == before:
            service.writer.group([learn(service, None, rows[0], 5.0)])
            service.submit(small)
            while not order:
                time.sleep(0.01)
        return predict(self, packed, waits, later)

    monkeypatch.setattr(OnlineModel, "predict", watched)
    service.deliver = order.extend
    for work in (large, other):
        service.submit(work)
    while small not in order or len(order) < 4:
        time.sleep(0.01)
    answered = [work for work in order if work in (large, other, small)]
    assert answered == [small, large, other]
    versions = [work.outcome.version - before for work in answered]  # type: ignore[union-attr]
    assert versions[:2] == [1, 0]
    service.stop()


def test_an_error_in_a_piece_ends_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, rows = trained(tmp_path, "classification")
    work = asked(service, rows[:2600])
    monkeypatch.setattr(worker, "MOST_PROBABILITIES", 5199)
    predict_each([work], service.counters)
    assert isinstance(work.outcome, HTTPError) and work.outcome.status == 413
    assert "5,200 probabilities" in str(work.outcome)
    monkeypatch.setattr(worker, "MOST_PROBABILITIES", 5200)
    predict = OnlineModel.predict

    def failing(self: OnlineModel, packed: bytes, waits: bool = False, later: bool = False) -> Any:
        if later:
            raise ValueError("lost")
        return predict(self, packed, waits, later)

    monkeypatch.setattr(OnlineModel, "predict", failing)
    again = asked(service, rows[:2600])
    predict_each([again], service.counters)
    assert isinstance(again.outcome, HTTPError) and again.outcome.status == 422
    service.close()


def test_few_rows_wait_for_their_labels_under_one_id(site: Site) -> None:
    path = site.create("few-wait")
    rows = np.random.default_rng(0).normal(size=(MOST_WAITING + 1, 2)).round(3).tolist()
    body = {"id": "a", "rows": rows}
    reply = site.call("POST", f"{path}/infer", body)
    assert reply.status == 413 and "split them over several ids" in reply.error
    assert site.call("GET", path).json["waiting"] == 0
    assert site.call("POST", f"{path}/infer", {**body, "rows": rows[1:]}).status == 200
    learned = {"id": "a", "labels": [1.0] * MOST_WAITING}
    assert site.call("POST", f"{path}/learn", learned).status == 200
    assert site.call("POST", f"{path}/infer", {"rows": rows}).status == 200
