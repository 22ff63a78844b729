"""After any crash, acknowledged rows are learned exactly once, to the same bits."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from driving import Crash, bits, crashed, created, infer, label, learn, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from pronk.serve import recovery
from pronk.serve.journal import LABEL, LEARN
from pronk.serve.rows import pack
from pronk.serve.service import Service
from pronk.serve.worker import Work

#: Where a process may be gone: before the transaction, in it, after it, after the block.
POINTS = ("whole", "before commit", "in the transaction", "after commit", "after learning")


def _break(service: Service, point: str) -> None:
    """Have the next group crash at a point."""
    writer, journal = service.writer, service.journal

    def gone(*_: Any, **__: Any) -> Any:
        raise Crash

    if point == "before commit":
        journal.write = gone  # type: ignore[method-assign]
    elif point == "in the transaction":
        connection = journal.connection

        class Torn:
            in_transaction = False

            def execute(self, statement: str, *more: Any) -> Any:
                if statement == "COMMIT":
                    raise Crash
                return connection.execute(statement, *more)

            def __getattr__(self, name: str) -> Any:
                return getattr(connection, name)

        journal.connection = Torn()  # type: ignore[assignment]
    elif point == "after commit":
        writer._learn = gone  # type: ignore[method-assign]
    elif point == "after learning":
        writer.deliver = gone


def _replayed(folder: Path) -> bytes:
    """A model fed the journal from its start, never stopped."""
    service = opened(folder)
    row = service.journal.models()[0]
    for path in recovery.snapshots(folder, "m").values():
        path.unlink()
    service.models["m"] = recovery.recover(service.journal, row, folder, service.log)
    found = bits(service)
    service.close()
    return found


step = st.tuples(
    st.integers(1, 5),  # requests of the group
    st.sampled_from(POINTS),
    st.sampled_from(["learn", "predict and label"]),
    st.booleans(),  # a snapshot afterwards
)


@settings(max_examples=15, deadline=None)
@given(st.lists(step, min_size=1, max_size=6))
def test_a_crash_at_any_point_is_repaired_exactly_once(steps: Any) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        service = opened(folder)
        created(service)
        acknowledged: set[str] = set()
        number = 0
        for count, point, form, keep in steps:
            ids = [f"id{number + i}" for i in range(count)]
            number += count
            for kind in ("infer", form) if form != "learn" else (form,):
                todo = ids
                while todo:
                    works = [_work(service, kind, id) for id in todo]
                    _break(service, point)
                    try:
                        service.writer.group(works)
                    except Crash:
                        point = "whole"  # the client asks again, with the same ids
                        crashed(service)
                        service = opened(folder)
                        continue
                    assert all(not isinstance(work.outcome, Exception) for work in works)
                    todo = []
            acknowledged |= set(ids)
            if keep:
                service.snapshot("m")
        before = bits(service)
        learned = [entry.id for block in service.journal.learned(1, 0) for entry in block]
        assert sorted(learned) == sorted(acknowledged)  # each one, once
        assert service.model("m").scores.rows == len(acknowledged)
        crashed(service)
        again = opened(folder)
        assert bits(again) == before
        again.close()
        assert _replayed(folder) == before


def _work(service: Service, kind: str, id: str) -> Work:
    row = [float(len(id)), float(hash_of(id))]
    if kind == "infer":
        return infer(service, id, row)
    if kind == "learn":
        return learn(service, id, row, sum(row))
    return label(service, id, sum(row))


def hash_of(id: str) -> int:
    return sum(map(ord, id)) % 7


def test_a_damaged_snapshot_is_skipped_with_a_message(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service)
    service.writer.group([learn(service, "1", [1.0, 2.0], 3.0)])
    service.snapshot("m")
    service.writer.group([learn(service, "2", [2.0, 2.0], 4.0)])
    service.snapshot("m")
    expected = bits(service)
    service.close()
    newest = tmp_path / "m-2.pronk"
    data = bytearray(newest.read_bytes())
    data[-1] ^= 1
    newest.write_bytes(data)
    notes: list[Any] = []
    again = Service(tmp_path, None, lambda event, **fields: notes.append((event, fields)))
    assert notes[0] == ("recovering", {"models": 1})
    assert notes[1][0] == "snapshot skipped" and notes[1][1]["file"] == "m-2.pronk"
    assert notes[2] == ("recovered", {"model": "m", "snapshot": 1, "version": 2})
    assert bits(again) == expected
    again.close()


def test_a_rollback_takes_back_what_came_after_also_after_a_restart(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service)
    service.writer.group([infer(service, "late", [0.0, 1.0])])
    for i in range(4):
        service.writer.group([learn(service, str(i), [float(i), 1.0], float(i))])
        if i == 1:
            wanted = bits(service)
    service.writer.group([label(service, "late", 5.0)])
    service.snapshot("m")
    assert service.model("m").waiting == 0
    assert service.rollback("m", 3) == 3
    assert bits(service) == wanted and service.model("m").waiting == 1
    # What was taken back may come again, with other content too.
    works = [learn(service, "3", [9.0, 1.0], 1.0), label(service, "late", 6.0)]
    service.writer.group(works)
    assert not any(isinstance(work.outcome, Exception) for work in works)
    after = bits(service)
    crashed(service)
    again = opened(tmp_path)
    assert bits(again) == after
    kinds = [entry.kind for block in again.journal.learned(1, 0) for entry in block]
    assert kinds == [LEARN, LEARN, LEARN, LABEL]
    with pytest.raises(Exception, match="undone by an earlier rollback"):
        again.rollback("m", 5)
    again.close()


def test_snapshots_and_restarts_anywhere_change_no_bit(tmp_path: Path) -> None:
    """Blocks long and short, so that all walks of an engine leave their traces in its buffers."""
    rng = np.random.default_rng(0)
    service = opened(tmp_path)
    created(service, columns=4, parameters={"history": "projected", "budget": 30})
    number = 0
    for _ in range(8):
        for _ in range(rng.integers(1, 12)):
            works = []
            for _ in range(rng.integers(1, 9)):
                rows = rng.normal(size=(rng.integers(1, 4), 4))
                number += 1
                model = service.model("m")
                packed = model.columns.pack(rows.tolist())
                labels = pack(rows[:, 0].tolist())
                works.append(Work(model, str(number), packed, labels, len(rows)))
            service.writer.group(works)
        if rng.random() < 0.6:
            service.snapshot("m")
        crashed(service)
        service = opened(tmp_path)
    found = bits(service)
    service.close()
    assert _replayed(tmp_path) == found
