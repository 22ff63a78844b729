"""Groups of requests in the journal and in the learner."""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import bits, created, infer, label, learn, opened
from numpy.testing import assert_allclose
from serving import Site

from pronk.serve.journal import Batch
from pronk.serve.rows import Answer, pack
from pronk.serve.spec import HTTPError
from pronk.serve.worker import Queues, Task, Work


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_a_large_group_is_learned_in_portions_and_an_error_affects_no_other(
    tmp_path: Path, monkeypatch: Any, piece: int
) -> None:
    monkeypatch.setattr("pronk.serve.online.PIECE", piece)
    service = opened(tmp_path)
    created(service, algorithm="kernel-awv", parameters={"kernel": "polynomial"}, scale="none")
    model = service.model("m")
    works = []
    for i in range(7):  # requests of one to three rows; the last row of the fourth is too much
        rows = [[1.0 + i, 0.5 * j] for j in range(1 + i % 3)] + [[1.0, 1e140]] * (i == 3)
        kept = pack([float(i)] * len(rows))
        works.append(Work(model, str(i), model.columns.pack(rows), kept, len(rows)))
    service.writer.group(works)
    assert [isinstance(work.outcome, HTTPError) for work in works] == [i == 3 for i in range(7)]
    taken = sum(work.count for i, work in enumerate(works) if i != 3)
    assert model.scores.rows == taken == model.rows_since_snapshot
    alone = opened(tmp_path / "alone")
    created(alone, algorithm="kernel-awv", parameters={"kernel": "polynomial"}, scale="none")
    for work in works:
        again = Work(alone.model("m"), work.id, work.rows, work.labels, work.count)
        alone.writer.group([again])
        if isinstance(again.outcome, Answer) and isinstance(work.outcome, Answer):
            found, wanted = work.outcome.prediction, again.outcome.prediction
            assert_allclose(np.array(found, float), np.array(wanted, float), rtol=1e-9, atol=1e-9)
    before = bits(service)
    service.close()
    replayed = opened(tmp_path)
    assert bits(replayed) == before
    replayed.close()
    alone.close()


def test_a_journal_with_pages_of_another_size_is_used(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "journal.sqlite") as old:  # as earlier versions made them
        old.execute("PRAGMA page_size=4096")
        old.execute("PRAGMA journal_mode=WAL")
    service = opened(tmp_path)
    created(service)
    service.writer.group([learn(service, "1", [1.0, 2.0], 3.0)])
    assert service.journal.connection.execute("PRAGMA page_size").fetchone() == (4096,)
    service.close()
    again = opened(tmp_path)
    assert again.model("m").scores.rows == 1
    again.close()
    fresh = opened(tmp_path / "fresh")
    assert fresh.journal.connection.execute("PRAGMA page_size").fetchone() == (8192,)
    fresh.close()


def test_a_model_that_learns_for_long_stops_no_other_model(site: Site, monkeypatch: Any) -> None:
    slow, quick = site.create("slow"), site.create("quick")
    begun, go_on = threading.Event(), threading.Event()
    learner = site.service.model("slow").learner
    whole = learner.predict_then_learn

    def patient(X: Any, y: Any) -> Any:
        begun.set()
        assert go_on.wait(240)
        return whole(X, y)

    monkeypatch.setattr(learner, "predict_then_learn", patient)
    body = {"id": "1", "row": [1, 2], "label": 3}
    replies: list[Any] = []

    def ask(call: str, asked: Any) -> None:
        replies.append(site.call("POST", f"{slow}/{call}", asked))

    waiting = [
        threading.Thread(target=ask, args=asked)
        for asked in (("learn", body), ("infer", {"row": [1, 2]}), ("snapshot", {}))
    ]
    for thread in waiting:
        thread.start()
        assert begun.wait(60)
    for i in range(3):
        for call, asked in (
            ("learn", {"row": [1, i], "label": i}),
            ("infer", {"row": [1, i]}),
            ("infer", {"id": f"late {i}", "row": [1, i]}),
            ("learn", {"id": f"late {i}", "label": i}),
            ("snapshot", {}),
        ):
            assert site.call("POST", f"{quick}/{call}", asked).status == 200
    assert not replies and site.call("GET", quick).json["rows"] == 6
    go_on.set()
    for thread in waiting:
        thread.join()
    assert [reply.status for reply in replies] == [200] * 3


def test_two_models_that_become_ready_at_once_have_two_threads() -> None:
    """Requests of two models come at once, one of them slow."""
    go_on, done = threading.Event(), {name: threading.Event() for name in ("first", "quick")}
    queues = Queues(10, 10, lambda items: [item.call() for item in items])  # type: ignore[union-attr,misc]
    queues.put("first", Task(done["first"].set))
    assert done["first"].wait(60)
    while queues._queues:
        time.sleep(0.001)
    with queues._changed:
        queues.put("slow", Task(lambda: go_on.wait(60)))
        queues.put("quick", Task(done["quick"].set))
    assert done["quick"].wait(30)
    go_on.set()
    queues.close()
    queues.join()


def test_models_that_wait_together_share_a_transaction(tmp_path: Path) -> None:
    service = opened(tmp_path)
    names = [f"m{i}" for i in range(4)]
    for name in names:
        created(service, name)
    transactions = []
    write = service.journal.write

    def counted(batch: Batch) -> None:
        transactions.append(len(batch.entries))
        write(batch)

    service.journal.write = counted  # type: ignore[method-assign]
    works = [learn(service, None, [1.0, 2.0], 3.0, name) for name in names]
    threads = [threading.Thread(target=service.writer.group, args=([work],)) for work in works]
    with service.journal.lock:  # as another writer has it for its transaction
        for thread in threads:
            thread.start()
        for _ in range(1000):
            if len(service.journal._queue) == 4:
                break
            time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert transactions == [4]
    versions = sorted(work.outcome.version for work in works)  # type: ignore[union-attr]
    assert versions == [1, 2, 3, 4] and service.journal.sequence == 4
    service.close()


@pytest.mark.parametrize("bad", ["a\0", "\0", "\ud800"])
def test_an_id_that_no_text_is_harms_no_other_request(site: Site, bad: str) -> None:
    path = site.create(f"ids{len(bad)}{ord(bad[-1])}")
    good = {"id": "a", "row": [1, 2], "label": 3}
    lines = [good, {**good, "id": bad}, {**good, "id": "b"}]
    body = "\n".join(json.dumps(line) for line in lines)
    ndjson = {"Content-Type": "application/x-ndjson"}
    reply = site.call("POST", f"{path}/learn", body, headers=ndjson)
    assert [line.get("status", 200) for line in reply.lines] == [200, reply.lines[1]["status"], 200]
    assert reply.lines[1]["status"] in (400, 422)
    assert site.call("POST", f"{path}/infer", {**good, "id": bad}).status in (400, 422)
    assert site.call("GET", path).json["rows"] == 2


def test_a_batch_that_the_journal_does_not_take_fails_alone(tmp_path: Path) -> None:
    service = opened(tmp_path)
    names = ["m", "n", "o"]
    for name in names:
        created(service, name)
    works = [learn(service, None, [1.0, 2.0], 3.0, name) for name in names]
    works[1].labels = [1.0]  # type: ignore[assignment]  # what no check before it let pass
    threads = [threading.Thread(target=service.writer.work, args=([work],)) for work in works]
    with service.journal.lock:
        for thread in threads:
            thread.start()
        for _ in range(1000):
            if len(service.journal._queue) == 3:
                break
            time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert [isinstance(work.outcome, Exception) for work in works] == [False, True, False]
    assert service.journal.sequence == 2
    service.close()


def test_labels_beyond_the_limit_of_classes_do_not_reach_the_journal(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service, task="classification", algorithm="fogd", parameters={})
    model = service.model("m")
    model.scores.baseline.counts.update(f"c{i}" for i in range(998))  # as if it had learned them
    works = [
        learn(service, "1", [1.0, 2.0], "new"),
        learn(service, "2", [1.0, 2.0], "newer"),
        learn(service, "3", [1.0, 2.0], "newest"),
        learn(service, "4", [1.0, 2.0], "c7"),
        infer(service, "5", [1.0, 2.0]),
    ]
    service.writer.group(works)
    assert [isinstance(work.outcome, HTTPError) for work in works] == [False] * 2 + [True] + [
        False
    ] * 2
    assert "label 1,001" in str(works[2].outcome) and "max_classes" in str(works[2].outcome)
    late = label(service, "5", "yet another")
    service.writer.group([late])
    assert isinstance(late.outcome, HTTPError) and "row 0" in str(late.outcome)
    written = [entry.id for block in service.journal.learned(model.number, 0) for entry in block]
    assert written == ["1", "2", "4"]
    service.close()


@pytest.mark.parametrize("more", [{}, {"key": "k"}, {"scale": "none"}])
def test_the_limit_of_classes_is_a_parameter(site: Site, more: dict[str, Any]) -> None:
    spec = {"task": "classification", "algorithm": "fogd", "parameters": {"max_classes": 3}}
    path = site.create(f"few-classes-{len(more)}{more.get('key')}", **spec, **more)
    rows = [[*("k" * len(more.get("key", ""))), 1.0, float(i)] for i in range(4)]
    reply = site.call("POST", f"{path}/learn", {"rows": rows, "labels": ["a", "b", "c", "d"]})
    assert reply.status == 422 and reply.error.startswith("row 3, label"), reply.body
    assert site.call("GET", path).json["rows"] == 0
    reply = site.call("POST", f"{path}/learn", {"rows": rows, "labels": ["a", "b", "c", "a"]})
    assert reply.status == 200, reply.body


def test_one_request_of_too_many_classes_is_refused_at_once(site: Site) -> None:
    path = site.create("too-many-classes", task="classification")
    rows = [[1.0, float(i)] for i in range(1500)]
    body = {"rows": rows, "labels": [f"c{i % 1200}" for i in range(1500)]}
    reply = site.call("POST", f"{path}/learn", body)
    assert reply.status == 422 and reply.error.startswith("row 1000, label"), reply.body
    assert site.call("GET", path).json["rows"] == 0
