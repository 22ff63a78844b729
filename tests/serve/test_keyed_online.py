"""Keyed models in the service survive crashes, whatever state their files are in."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import crashed, created, opened
from serving import Site

import pronk
from pronk.keyed import Keyed
from pronk.serve import recovery
from pronk.serve.rows import pack
from pronk.serve.service import Service
from pronk.serve.spec import HTTPError
from pronk.serve.worker import Work

TEMPLATE: dict[str, Any] = {"columns": ["x"], "key": "k", "scale": "none"}


def _work(service: Service, id: str, rows: list[Any], labels: list[float]) -> Work:
    model = service.model("m")
    return Work(model, id, model.columns.pack(rows), pack(labels), len(rows))


def _groups(service: Service, first: int, count: int) -> None:
    """Some groups of three requests over seven keys."""
    for group in range(first, first + count):
        rng = np.random.default_rng(group)
        works = []
        for i in range(3):
            keys = rng.integers(0, 7, 4)
            rows = [{"k": f"key{key}", "x": float(rng.normal())} for key in keys]
            works.append(_work(service, f"{group}-{i}", rows, [row["x"] ** 2 for row in rows]))
        service.writer.group(works)
        assert not any(isinstance(work.outcome, Exception) for work in works)


def _bits(service: Service) -> dict[str, bytes]:
    from pronk.estimators import files

    keyed = service.model("m").learner
    return {str(key): files.to_bytes(keyed[key]) for key in keyed}


@pytest.mark.parametrize("torn", [None, "before", "after"])
def test_a_crash_leaves_every_key_as_if_there_had_been_none(
    tmp_path: Path, monkeypatch: Any, torn: str | None
) -> None:
    whole = opened(tmp_path / "whole")
    created(whole, **TEMPLATE)
    _groups(whole, 0, 9)
    expected, scores = _bits(whole), whole.model("m").scores.metrics()
    whole.close()
    service = opened(tmp_path / "torn")
    created(service, **TEMPLATE)
    _groups(service, 0, 3)
    service.snapshot("m")
    _groups(service, 3, 3)
    if torn:  # killed before or after the models are written, without the file of the snapshot
        from pronk.keyed.store import Shard

        commit = Shard.commit

        def gone(self: Any, *values: Any) -> None:
            if torn == "after":
                commit(self, *values)
            raise KeyboardInterrupt

        monkeypatch.setattr(Shard, "commit", gone)
        with pytest.raises(KeyboardInterrupt):
            service.snapshot("m")
        monkeypatch.undo()
    crashed(service)
    again = opened(tmp_path / "torn")
    _groups(again, 6, 3)
    assert _bits(again) == expected
    assert again.model("m").scores.metrics() == scores
    assert again.model("m").keys == 7  # type: ignore[attr-defined]
    again.stop()
    last = opened(tmp_path / "torn")
    assert _bits(last) == expected and last.model("m").scores.metrics() == scores
    last.close()


def test_a_rollback_learns_the_journal_again(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service, **TEMPLATE)
    _groups(service, 0, 3)
    expected, version = _bits(service), service.model("m").version
    _groups(service, 3, 2)
    service.snapshot("m")
    assert service.rollback("m", version) == version
    assert _bits(service) == expected
    _groups(service, 3, 1)
    after = _bits(service)
    crashed(service)
    again = opened(tmp_path)
    assert _bits(again) == after
    assert len(list(tmp_path.glob("*.keys"))) == 1
    again.remove("m")
    assert not list(tmp_path.glob("m-*"))
    again.close()


def test_a_lost_store_is_rebuilt_from_the_journal(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service, **TEMPLATE)
    _groups(service, 0, 3)
    service.snapshot("m")
    expected = _bits(service)
    crashed(service)
    for path in tmp_path.glob("*.keys/shard-*"):
        path.write_bytes(b"damaged" * 1000)
    again = opened(tmp_path)
    assert again.model("m").broken is None and _bits(again) == expected
    assert again.model("m").scores.rows == 36
    assert recovery.snapshots(tmp_path, "m")
    again.close()


def test_a_bad_row_of_one_key_leaves_its_neighbour_learned_once(
    tmp_path: Path, monkeypatch: Any
) -> None:
    learn = pronk.PKAWVRegressor._learn

    def refuse(learner: Any, X: Any, y: Any) -> Any:
        if (np.abs(y) > 1e9).any():
            raise FloatingPointError("the numbers overflow")
        return learn(learner, X, y)

    monkeypatch.setattr(pronk.PKAWVRegressor, "_learn", refuse)
    spoilt, twin = opened(tmp_path / "spoilt"), opened(tmp_path / "twin")
    for service in (spoilt, twin):
        created(service, **TEMPLATE, scale_target="none")
        service.writer.group([_work(service, "0", [["a", 0.5], ["b", 0.5]], [1.0, 2.0])])
    works = [
        _work(spoilt, "1", [["a", 1.0]], [3.0]),
        _work(spoilt, "2", [["b", 1.0]], [1e10]),
        _work(spoilt, "3", [["c", 1.0], ["a", 0.0]], [3.0, 4.0]),
    ]
    spoilt.writer.group(works)
    alone = [_work(twin, "1", [["a", 1.0]], [3.0])]
    alone.append(_work(twin, "3", [["c", 1.0], ["a", 0.0]], [3.0, 4.0]))
    twin.writer.group(alone)
    assert "overflow" in str(works[1].outcome)
    given = [works[0].outcome.prediction, works[2].outcome.prediction]  # type: ignore[union-attr]
    assert given == [work.outcome.prediction for work in alone]  # type: ignore[union-attr]
    assert _bits(spoilt) == _bits(twin)
    for service in (spoilt, twin):
        service.close()


def test_text_and_times_beside_a_key(site: Site) -> None:
    columns = ["x", {"name": "colour", "kind": "category"}, {"name": "when", "kind": "time"}]
    path = site.create("shop", columns=columns, key="who", scale="minmax")
    rows = [["a", 1.0, "red", "2024-01-01T10:00"], ["b", 2.0, "blue", "2024-01-02T10:00"]]
    for _ in range(5):
        reply = site.call("POST", f"{path}/learn", {"rows": rows, "labels": [5.0, 7.0]})
        assert reply.status == 200, reply.body
    assert reply.prediction == pytest.approx([5.0, 7.0], abs=0.5)


def test_predictions_wait_for_one_key_and_not_for_a_block(tmp_path: Path, monkeypatch: Any) -> None:
    service = opened(tmp_path)
    created(service, **TEMPLATE)
    model = service.model("m")
    service.writer.group([_work(service, "1", [{"k": "a", "x": 1.0}], [2.0])])
    asked = model.columns.pack([{"k": "a", "x": 1.0}])
    begun, answered = threading.Event(), threading.Event()
    whole = Keyed._learn
    keys = 0

    def patient(self: Keyed, *arguments: Any) -> Any:
        nonlocal keys
        keys += 1
        begun.set()
        if keys == 1:  # until the prediction waits for the lock
            for _ in range(6000):
                if model.lock._turn.locked():
                    break
                time.sleep(0.01)
        else:
            assert answered.wait(60)
        return whole(self, *arguments)

    def predict() -> None:
        assert begun.wait(60)
        assert model.predict(asked).prediction[0] is not None
        answered.set()

    monkeypatch.setattr(Keyed, "_learn", patient)
    reader = threading.Thread(target=predict)
    reader.start()
    work = _work(service, "2", [{"k": key, "x": 1.0} for key in "bcd"], [1.0] * 3)
    service.writer.group([work])
    reader.join()
    assert not isinstance(work.outcome, Exception) and keys == 3
    service.close()


def test_keys_over_http(site: Site) -> None:
    path = site.create("keys", columns=["x"], key="sensor", scale="none")
    rows = [{"sensor": "a", "x": 1.0}, {"sensor": 7, "x": 2.0}, ["a", 0.5]]
    reply = site.call("POST", f"{path}/learn", {"rows": rows, "labels": [1, 2, 3]})
    assert reply.status == 200, reply.body
    assert reply.prediction[:2] == [None, 1.0]  # a new key starts from the mean of the others
    told = site.call("GET", path).json
    assert told["keys"] == 2 and told["rows"] == 3
    asked = site.call("POST", f"{path}/infer", {"rows": [["a", 1.0], ["new", 0.5]]})
    assert asked.prediction[0] not in (None, 2.0) and asked.prediction[1] == 2.0
    for row, words in (
        ({"x": 1.0}, "row 0 has no key 'sensor'"),
        ({"sensor": None, "x": 1.0}, "a key must be"),
        ({"sensor": "a", "x": "y"}, "row 0, column 'x'"),
        ({"sensor": "a"}, "no column 'x'"),
        ([], "row 0 has 0 values; the model has 1 columns beside the key 'sensor'"),
        ([None, 1.0], "a key must be"),
    ):
        wrong = site.call("POST", f"{path}/learn", {"row": row, "label": 1})
        assert wrong.status == 422 and words in wrong.error, wrong.body
    clash = {"columns": ["x"], "key": "x"}
    assert site.call("PUT", "/v2/models/clash", clash).status == 422
    late = {"columns": ["x"], "key": "k", "algorithm": "online-kernel", "parameters": {"delay": 3}}
    refused = site.call("PUT", "/v2/models/clash", late)
    assert refused.status == 422 and "delay does not work with key" in refused.error
    with pytest.raises(HTTPError):
        site.service.model("clash")
