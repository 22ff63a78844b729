"""A journal with missing entries is noticed at the start, and no number is used twice."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from driving import bits, crashed, created, infer, learn, opened

from pronk.serve.journal import JournalError
from pronk.serve.service import Service, Settings
from pronk.serve.worker import Work


def _learned(service: Service, first: int, count: int, name: str = "m") -> list[Work]:
    """Rows acknowledged one by one."""
    works = [
        learn(service, f"{name}{i}", [float(i % 5), 1.0 + i], float(i % 3), name)
        for i in range(first, first + count)
    ]
    for work in works:
        service.writer.group([work])
        assert not isinstance(work.outcome, Exception), work.outcome
    return works


def _ids(service: Service, name: str = "m") -> list[str | None]:
    blocks = service.journal.learned(service.model(name).number, 0)
    return [entry.id for block in blocks for entry in block]


def _noted(folder: Path, **settings: Any) -> tuple[Service, list[tuple[str, dict[str, Any]]]]:
    notes: list[tuple[str, dict[str, Any]]] = []
    service = Service(
        folder, Settings(**settings), lambda event, **more: notes.append((event, more))
    )
    return service, notes


def _backup(service: Service, place: Path) -> None:
    copy = sqlite3.connect(place)
    with service.journal.lock:
        service.journal.connection.backup(copy)
    copy.close()


def test_an_older_journal_in_place_loses_no_label_that_a_snapshot_has(tmp_path: Path) -> None:
    folder, copy = tmp_path / "served", tmp_path / "copy.sqlite"
    service = opened(folder)
    created(service)
    _learned(service, 0, 20)
    _backup(service, copy)
    _learned(service, 20, 40)
    expected = bits(service)
    service.stop()
    shutil.copy(copy, folder / "journal.sqlite")
    again, notes = _noted(folder)
    warned = [fields for event, fields in notes if event.startswith("WARNING")]
    assert len(warned) == 1 and "ends at 20" in warned[0]["reason"]
    assert "up to 60" in warned[0]["reason"] and "all" in warned[0]["labels"]
    assert again.model("m").version == 60 and bits(again) == expected
    versions = [work.outcome.version for work in _learned(again, 60, 10)]  # type: ignore[union-attr]
    assert versions == list(range(61, 71))
    after = bits(again)
    crashed(again)
    last, notes = _noted(folder)
    assert not any(event.startswith("WARNING") for event, _ in notes)
    assert last.model("m").version == 70 and bits(last) == after
    assert _ids(last)[-10:] == [f"m{i}" for i in range(60, 70)]
    last.close()
    for path in folder.glob("m-*.pronk"):  # without the snapshot there is a gap, which is said
        path.unlink()
    broken = opened(folder)
    assert "no readable snapshot" in (broken.model("m").broken or "")
    broken.close()


def test_an_older_journal_is_refused_where_labels_came_after_the_snapshots(tmp_path: Path) -> None:
    folder, copy = tmp_path / "served", tmp_path / "copy.sqlite"
    service = opened(folder)
    created(service)
    created(service, "n")
    _learned(service, 0, 5)
    _backup(service, copy)
    _learned(service, 5, 5)
    _learned(service, 0, 2, "n")
    service.snapshot("m")  # that of n is missing
    crashed(service)
    for suffix in ("-wal", "-shm"):
        (folder / f"journal.sqlite{suffix}").unlink(missing_ok=True)
    shutil.copy(copy, folder / "journal.sqlite")
    with pytest.raises(JournalError, match=r"ends at 5, entries up to 12 .* m up to 10.*accept"):
        opened(folder)
    again, notes = _noted(folder, accept_missing=True)
    assert [fields["labels"] for event, fields in notes if "WARN" in event] == ["some are lost"]
    assert again.model("m").version == 10 and again.model("n").version == 0
    assert _learned(again, 2, 1, "n")[0].outcome.version == 13  # type: ignore[union-attr]
    crashed(again)
    opened(folder).close()


def _empty(folder: Path) -> None:
    (folder / "journal.sqlite").write_bytes(b"")


def _remove(folder: Path) -> None:
    (folder / "journal.sqlite").unlink()


@pytest.mark.parametrize("damage", [_empty, _remove])
def test_a_journal_that_is_emptied_leaves_the_models_of_the_snapshots(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    service = opened(tmp_path)
    created(service)
    created(service, "n")
    _learned(service, 0, 6)
    _learned(service, 0, 3, "n")
    expected = bits(service), bits(service, "n")
    service.stop()
    damage(tmp_path)
    again, notes = _noted(tmp_path)
    assert any(event.startswith("WARNING") for event, _ in notes)
    assert (bits(again), bits(again, "n")) == expected
    assert _learned(again, 6, 1)[0].outcome.version == 10  # type: ignore[union-attr]
    after = bits(again)
    crashed(again)
    last = opened(tmp_path)
    assert bits(last) == after and bits(last, "n") == expected[1]
    last.close()
    for path in tmp_path.glob("n-*.pronk"):
        path.unlink()
    broken = opened(tmp_path)
    assert broken.model("n").broken and not broken.model("m").broken
    broken.close()


def test_a_journal_that_is_emptied_after_a_crash_is_refused(tmp_path: Path) -> None:
    service = opened(tmp_path)
    created(service)
    _learned(service, 0, 6)
    crashed(service)  # without a snapshot
    _empty(tmp_path)
    for _ in range(2):  # a start that was refused changes nothing
        with pytest.raises(JournalError, match="ends at 0, entries up to 6"):
            opened(tmp_path)


def _cut(log: Path) -> None:
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def _flip(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)


def _unlink(log: Path) -> None:
    log.unlink()


@pytest.mark.parametrize("damage", [_cut, _flip, _unlink])
@pytest.mark.parametrize("kept", [False, True])
def test_a_log_that_is_damaged_after_a_crash_never_costs_labels_silently(
    tmp_path: Path, damage: Callable[[Path], None], kept: bool
) -> None:
    service = opened(tmp_path / "served")
    created(service)
    service.journal.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    _learned(service, 0, 30)
    if kept:
        service.snapshot("m")
    else:
        service.writer.group([infer(service, "late", [1.0, 2.0])])
    expected = bits(service)
    killed = tmp_path / "killed"  # the files as kill -9 leaves them
    shutil.copytree(service.folder, killed)
    service.close()
    (killed / "journal.sqlite-shm").unlink(missing_ok=True)
    damage(killed / "journal.sqlite-wal")
    if not kept:
        with pytest.raises(JournalError, match="entries up to 31 were acknowledged"):
            opened(killed)
        again, notes = _noted(killed, accept_missing=True)
    else:
        again, notes = _noted(killed)
        assert bits(again) == expected
    assert any(event.startswith("WARNING") for event, _ in notes)
    work = _learned(again, 100, 1)[0]
    assert work.outcome.version == 31 + (not kept)  # type: ignore[union-attr]
    again.close()
