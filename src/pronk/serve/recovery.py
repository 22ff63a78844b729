"""Recovery of a model from its newest readable snapshot and the journal; snapshots; housekeeping.

A snapshot is a checkpoint file, `MODEL-SEQUENCE.pronk`, written atomically with a checksum and read
back after writing; loading it executes no code. `pronk.load` reads its model. The journal is
replayed after it in the same blocks, to the same bits.

A journal that ends before a sequence number in the name of a snapshot or in the file `sequence` has
lost entries: it is an older backup, or its write-ahead log was cut or removed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pronk.core.state import require
from pronk.estimators import files
from pronk.keyed import StoreError
from pronk.serve import spec
from pronk.serve.journal import (
    LARGEST,
    PREDICT,
    Batch,
    Entry,
    Journal,
    JournalError,
    ModelRow,
)
from pronk.serve.online import OnlineModel
from pronk.serve.rows import unpack

#: Automatic snapshots to keep: one may be damaged.
KEPT = 3

#: log(event, **fields)
Log = Callable[..., None]


def snapshot_path(folder: Path, name: str, sequence: int) -> Path:
    return folder / f"{name}-{sequence}.pronk"


def snapshots(folder: Path, name: str) -> dict[int, Path]:
    """Return the snapshots of a model by sequence number, oldest first."""
    pattern = re.compile(re.escape(name) + r"-(\d+)\.pronk")
    found = {}
    for path in folder.iterdir():
        match = pattern.fullmatch(path.name)
        if match:
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def save(online: OnlineModel, folder: Path) -> Path:
    """Write a snapshot of the model, read it back, and return its path."""
    online.flush()
    path = snapshot_path(folder, online.name, online.version)
    files.save_checkpoint(online.tree(), path)
    try:
        verify(online, path)
    except ValueError as error:
        path.unlink(missing_ok=True)
        raise OSError(f"{path.name} was written but cannot be read back: {error}") from None
    online.snapshot = online.version
    online.rows_since_snapshot = 0
    return path


def verify(online: OnlineModel, path: Path) -> None:
    """Raise a ValueError if a snapshot of this model cannot be read; check each file once."""
    status = path.stat()
    stamp = (path.name, status.st_mtime_ns, status.st_size)
    if stamp in online.verified:
        return
    copy = OnlineModel(ModelRow(online.number, online.name, spec.canonical(online.spec), 0, 0.0, 0))
    try:
        copy.restore(files.load_checkpoint(path), path)
    except Exception as error:  # a damaged file may raise anything
        raise ValueError(str(error) or type(error).__name__) from None
    online.verified.add(stamp)


def recover(
    journal: Journal, row: ModelRow, folder: Path, log: Log, up_to: int | None = None
) -> OnlineModel:
    """Return the model as it was at a version, or at its last one."""
    online = restored(journal, row, folder, log, up_to)
    if not online.broken:
        catch_up(journal, online, log, up_to)
    return online


def restored(
    journal: Journal, row: ModelRow, folder: Path, log: Log, up_to: int | None = None
) -> OnlineModel:
    """Return the model of its newest readable snapshot; its journal is not replayed."""
    online = OnlineModel(row)
    for sequence, path in reversed(snapshots(folder, row.name).items()):
        if sequence < row.start or (up_to is not None and sequence > up_to):
            continue
        if journal.was_undone(row.number, sequence):
            continue
        try:
            online.restore(files.load_checkpoint(path), path)
            require(online.version == sequence, "it is of another sequence number")
            break
        except Exception as error:  # a damaged file may raise anything
            log("snapshot skipped", model=row.name, file=path.name, reason=str(error))
            online = OnlineModel(row)
    if online.version < row.dropped and online.version != up_to:
        reason = (
            f"there is no readable snapshot after sequence number {row.dropped}, up to which the "
            "journal was dropped; copy a snapshot from a backup into the folder"
        )
        return unusable(online, reason, log)
    if online.learner is None:
        reason = "none of its snapshots can be read, and it was created from a model file"
        return unusable(online, reason, log)
    return online


def unusable(online: OnlineModel, reason: str, log: Log) -> OnlineModel:
    """Return a model that cannot be used, with the reason for its requests and for the log."""
    online.broken = reason
    log("model not recovered", model=online.name, reason=reason)
    return online


def catch_up(journal: Journal, online: OnlineModel, log: Log, up_to: int | None = None) -> None:
    """Replay the journal after the model's snapshot; the model can be used afterwards."""
    began = online.version
    try:
        replay(journal, online, up_to)
    except StoreError as error:  # of the models of keys
        unusable(online, str(error), log)
        return
    online.waiting = journal.waiting(online.number)
    online.broken = None
    log("recovered", model=online.name, snapshot=began, version=online.version)


def replay(journal: Journal, online: OnlineModel, up_to: int | None = None) -> None:
    """Learn the journal's entries after the model's version; store answers that are missing."""
    for block in journal.learned(online.number, online.version, up_to):
        if journal.stopping.is_set():
            raise JournalError("stopped before the journal was replayed")
        number = block[0].block or 0
        answers = online.learn(block)
        if journal.answers(number, online.number) is None:
            online.unwritten[number] = answers
        if len(online.unwritten) >= 1000:
            write_answers(journal, online)
    write_answers(journal, online)


def write_answers(journal: Journal, online: OnlineModel) -> None:
    """Write the answers that wait for the model's next transaction."""
    if online.unwritten:
        journal.commit(lambda last: Batch(answers=online.answers()))
        online.unwritten.clear()


def last_acknowledged(journal: Journal, folder: Path) -> int:
    """Return the last sequence number that the journal, its file or a snapshot has."""
    numbers = [journal.sequence, journal.recorded]
    for path in folder.iterdir():
        match = re.fullmatch(r".+-(\d{1,19})\.pronk", path.name)
        if match and int(match[1]) < LARGEST:
            numbers.append(int(match[1]))
    return max(numbers)


# -- housekeeping ----------------------------------------------------------------------------------

#: Seconds.
DAY = 86_400.0
#: Most entries dropped per transaction, which requests have to wait for.
PORTION = 5_000


def expire(journal: Journal, online: OnlineModel, days: float) -> int:
    """Drop predictions that have waited for their label too long; return how many."""
    before = journal.now() - days * DAY
    gone = journal.unlabelled(online.number, before, PORTION)
    if gone:
        journal.drop(gone)
        online.waiting -= len(gone)
    return len(gone)


def drop(
    journal: Journal, online: OnlineModel, folder: Path, days: float, archive: bool, log: Log
) -> int:
    """Drop old rows of a model from the journal, up to a portion; return how many.

    Rows are dropped if they are older than ``days`` and lie before the oldest readable automatic
    snapshot, so that recovery, and rollback to versions after that snapshot, remain possible. An
    id is known, and gives the same answer, until its rows are dropped.
    """
    before = journal.now() - days * DAY
    limit = 0
    pinned = journal.pinned(online.number)
    for sequence, path in snapshots(folder, online.name).items():
        if sequence in pinned or not journal.old(online.number, sequence, before, 1):
            continue
        try:
            verify(online, path)
        except (OSError, ValueError) as error:
            log("snapshot cannot be read", model=online.name, file=path.name, reason=str(error))
            continue
        limit = sequence
        break
    entries = journal.old(online.number, limit, before, PORTION) if limit else []
    if not entries:
        return 0
    if archive:
        _archive(entries, online, folder)
    end = max((entry.sequence for entry in entries if entry.kind != PREDICT), default=0)
    journal.drop_learned(online.number, (entry.sequence for entry in entries), end)
    return len(entries)


def _archive(entries: list[Entry], online: OnlineModel, folder: Path) -> None:
    """Write learned rows to one Parquet file before they are dropped."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {"sequence": [], "id": [], "time": [], "label": []}
    own, features = online.columns, list[list[Any]]()
    for entry in entries:
        if entry.rows is None or entry.labels is None:
            continue
        features += own.values(entry.rows)
        columns["label"] += unpack(entry.labels)
        for name in ("sequence", "id", "time"):
            columns[name] += [getattr(entry, name)] * entry.size
    if not features:
        return
    for place, (name, kind) in enumerate(zip(own.fields, own.field_kinds, strict=True)):
        cells = [row[place] for row in features]
        if kind != "number":  # numbers and booleans in the place of text are written as text
            cells = [one if one is None or isinstance(one, str) else str(one) for one in cells]
        columns[f"x_{name}" if name in columns else name] = cells
    home = folder / "archive"
    home.mkdir(exist_ok=True)
    path = home / f"{online.name}-{columns['sequence'][0]}-{columns['sequence'][-1]}.parquet"
    beside = path.with_suffix(".writing")
    pq.write_table(pa.table(columns), beside)
    beside.replace(path)
