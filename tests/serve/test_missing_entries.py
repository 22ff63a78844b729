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
from pronk.serve.spec import read_upload
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


def test_an_older_journal_is_refused_or_accepted_with_what_snapshots_have(tmp_path: Path) -> None:
    folder, copy = tmp_path / "served", tmp_path / "copy.sqlite"
    service = opened(folder)
    created(service)
    created(service, "n")
    _learned(service, 0, 5)
    _backup(service, copy)
    _learned(service, 5, 5)
    expected = bits(service)
    _learned(service, 0, 2, "n")
    service.snapshot("m")  # that of n is missing
    crashed(service)
    for suffix in ("-wal", "-shm"):
        (folder / f"journal.sqlite{suffix}").unlink(missing_ok=True)
    shutil.copy(copy, folder / "journal.sqlite")
    with pytest.raises(JournalError, match=r"ends at 5, entries up to 12 .* m up to 10.*accept"):
        opened(folder)
    again, notes = _noted(folder, accept_missing=True)
    assert len([fields for event, fields in notes if event.startswith("WARNING")]) == 1
    assert again.model("m").version == 10 and bits(again) == expected
    assert again.model("n").version == 0
    assert _learned(again, 2, 1, "n")[0].outcome.version == 13  # type: ignore[union-attr]
    assert _learned(again, 10, 1)[0].outcome.version == 14  # type: ignore[union-attr]
    after = bits(again)
    crashed(again)
    last, notes = _noted(folder)
    assert not any(event.startswith("WARNING") for event, _ in notes)
    assert last.model("m").version == 14 and bits(last) == after
    assert _ids(last)[-1:] == ["m10"]
    last.close()
    for path in folder.glob("m-*.pronk"):  # without the snapshot there is a gap, which is said
        path.unlink()
    broken = opened(folder)
    assert "no readable snapshot" in (broken.model("m").broken or "")
    broken.close()


def _empty(folder: Path) -> None:
    (folder / "journal.sqlite").write_bytes(b"")


def _remove(folder: Path) -> None:
    (folder / "journal.sqlite").unlink()


@pytest.mark.parametrize("damage", [_empty, _remove])
@pytest.mark.parametrize("stopped", [False, True])
def test_a_journal_that_is_emptied_is_refused(
    tmp_path: Path, damage: Callable[[Path], None], stopped: bool
) -> None:
    service = opened(tmp_path)
    created(service)
    _learned(service, 0, 6)
    service.stop() if stopped else crashed(service)
    damage(tmp_path)
    for _ in range(2):  # a start that was refused changes nothing
        with pytest.raises(JournalError, match="ends at 0, entries up to 6"):
            opened(tmp_path)
    again = opened(tmp_path, accept_missing=True)
    assert not again.models and again.journal.sequence == 6
    if stopped:  # a model that the journal does not have is created again from its snapshot
        given, learner = read_upload((tmp_path / "m-6.pronk").read_bytes())
        assert again.create("m", given, learner)[1] and again.model("m").learner.n_seen_ == 6
    again.close()


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
    last = 30 if kept else 31
    with pytest.raises(JournalError, match=f"entries up to {last} were acknowledged"):
        opened(killed)
    again, notes = _noted(killed, accept_missing=True)
    assert not kept or bits(again) == expected
    assert any(event.startswith("WARNING") for event, _ in notes)
    work = _learned(again, 100, 1)[0]
    assert work.outcome.version == 31 + (not kept)  # type: ignore[union-attr]
    again.close()
