"""Groups of requests on their way through the journal and the learner."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from driving import bits, created, learn, opened
from numpy.testing import assert_allclose

from pronk.serve.answers import Answer
from pronk.serve.errors import Refused
from pronk.serve.labels import pack_labels
from pronk.serve.queues import Work


@pytest.mark.parametrize("piece", [1, 2, 3, 100])
def test_a_large_group_goes_in_portions_and_one_refusal_harms_no_other(
    tmp_path: Path, monkeypatch: Any, piece: int
) -> None:
    monkeypatch.setattr("pronk.serve.online.PIECE", piece)
    service = opened(tmp_path)
    created(service, algorithm="kernel-awv", parameters={"kernel": "polynomial"}, scale="none")
    model = service.model("m")
    works = []
    for i in range(7):  # requests of one to three rows; the last row of the fourth is too much
        rows = [[1.0 + i, 0.5 * j] for j in range(1 + i % 3)] + [[1.0, 1e140]] * (i == 3)
        kept = pack_labels([float(i)] * len(rows))
        works.append(Work(model, str(i), model.columns.pack(rows), kept, len(rows)))
    service.writer.group(works)
    assert [isinstance(work.outcome, Refused) for work in works] == [i == 3 for i in range(7)]
    taken = sum(work.count for i, work in enumerate(works) if i != 3)
    assert model.scores.rows == taken == model.rows_since_snapshot
    alone = opened(tmp_path / "alone")
    created(alone, algorithm="kernel-awv", parameters={"kernel": "polynomial"}, scale="none")
    for work in works:
        again = Work(alone.model("m"), work.id, work.rows, work.labels, work.count)
        alone.writer.group([again])
        if isinstance(again.outcome, Answer) and isinstance(work.outcome, Answer):
            found, wanted = work.outcome.prediction, again.outcome.prediction
            assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    before = bits(service)
    service.close()
    replayed = opened(tmp_path)
    assert bits(replayed) == before
    replayed.close()
    alone.close()


def test_a_journal_with_pages_of_another_size_goes_on(tmp_path: Path) -> None:
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
