"""Snapshots, and the way back: the newest good snapshot, then the journal in its blocks.

A snapshot is a checkpoint file of the project, `MODEL-SEQUENCE.pronk`: written whole or not at all,
with a checksum, and loading it executes nothing. `pronk.load` reads its model. It is read back when
it was written.

A snapshot also records how far the journal was when it was made, and the versions of all models.
A journal that ends before a number that a snapshot, or the file `sequence`, knows has lost entries:
an older backup, a write-ahead log that was cut or removed. `compare` finds that out, and whether
the snapshots hold every label that was acknowledged.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pronk.core.state import require
from pronk.estimators import files
from pronk.serve import rows, spec
from pronk.serve.journal import (
    LABEL,
    LARGEST,
    LEARN,
    PREDICT,
    Batch,
    Entry,
    Journal,
    JournalError,
    ModelRow,
)
from pronk.serve.online import Known, Online
from pronk.serve.rows import Answer, unpack_labels

#: Snapshots kept beside those made by hand: one may be damaged.
KEPT = 3

Note = Callable[..., None]


def snapshot_path(folder: Path, name: str, sequence: int) -> Path:
    return folder / f"{name}-{sequence}.pronk"


def snapshots(folder: Path, name: str) -> dict[int, Path]:
    """The snapshots of a model by sequence number, oldest first."""
    pattern = re.compile(re.escape(name) + r"-(\d+)\.pronk")
    found = {}
    for path in folder.iterdir():
        match = pattern.fullmatch(path.name)
        if match:
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def save(online: Online, folder: Path, known: Known) -> Path:
    """Write a snapshot of the model as it is, and read it back."""
    online.flush()
    path = snapshot_path(folder, online.name, online.version)
    tree = {**online.tree(), "journal": known.sequence, "versions": known.versions}
    files.save_checkpoint(tree, path)
    try:
        verify(online, path)
    except ValueError as error:
        path.unlink(missing_ok=True)
        raise OSError(f"{path.name} was written but cannot be read back: {error}") from None
    online.snapshot = online.version
    online.rows_since_snapshot = 0
    return path


def verify(online: Online, path: Path) -> None:
    """Raise a ValueError unless a snapshot of this model can be read; once for each file."""
    status = path.stat()
    stamp = (path.name, status.st_mtime_ns, status.st_size)
    if stamp in online.verified:
        return
    twin = Online(ModelRow(online.number, online.name, spec.canonical(online.spec), 0, 0.0, 0))
    try:
        twin.restore(files.load_checkpoint(path), path)
    except Exception as error:  # whatever stands in the file
        raise ValueError(str(error) or type(error).__name__) from None
    online.verified.add(stamp)


def valid(
    journal: Journal, row: ModelRow, folder: Path, up_to: int | None = None
) -> dict[int, Path]:
    """Snapshots of states that were not taken back by a rollback."""
    voided = journal.voided(row.number)
    return {
        sequence: path
        for sequence, path in snapshots(folder, row.name).items()
        if sequence >= row.start
        and (up_to is None or sequence <= up_to)
        and not any(after < sequence < before for after, before in voided)
    }


def recover(
    journal: Journal, row: ModelRow, folder: Path, note: Note, up_to: int | None = None
) -> Online:
    """The model as it was after a sequence number, or after the last one."""
    online = Online(row)
    for sequence, path in reversed(valid(journal, row, folder, up_to).items()):
        try:
            online.restore(files.load_checkpoint(path), path)
            require(online.version == sequence, "it is of another sequence number")
            break
        except Exception as error:  # whatever stands in the file: it is not used, and that is said
            note("snapshot skipped", model=row.name, file=path.name, reason=str(error))
            online = Online(row)
    if online.version < row.dropped and online.version != up_to:
        online.broken = (
            f"no good snapshot after sequence number {row.dropped}, up to which the journal was "
            "dropped; put a snapshot of a backup into the folder"
        )
        note("model not recovered", model=row.name, reason=online.broken)
        return online
    if online.learner is None:
        online.broken = "none of its snapshots can be read; it began as a model file"
        note("model not recovered", model=row.name, reason=online.broken)
        return online
    began = online.version
    replay(journal, online, up_to)
    online.waiting = journal.waiting(row.number)
    note("recovered", model=row.name, snapshot=began, version=online.version)
    return online


def replay(journal: Journal, online: Online, up_to: int | None = None) -> None:
    """Learn what the journal has after the model's version; answers that were not kept are now."""
    missing = []
    for block in journal.learned(online.number, online.version, up_to):
        if journal.stopping.is_set():
            raise JournalError("stopped before the journal was replayed")
        number = block[0].block or 0
        kept = journal.answers(number, online.number)
        found = online.relearn(block, None if kept is None else _of(block, kept))
        if kept is None:
            missing.append((number, online.number, rows.pack(found)))
        if len(missing) >= 1000:
            journal.write(answers=missing)
            missing = []
    if missing:
        journal.write(answers=missing)


def _of(block: list[Entry], kept: bytes) -> list[Answer] | None:
    """The stored answers of a block's entries, some of which a rollback may have taken back."""
    by_version = {answer.version: answer for answer in rows.unpack_block(kept)}
    found = [by_version.get(entry.sequence) for entry in block]
    return None if None in found else [answer for answer in found if answer is not None]


# -- a journal that has lost entries ---------------------------------------------------------------


@dataclass
class Missing:
    """Entries that were acknowledged and are not in the journal."""

    first: int
    last: int
    #: Whether snapshots hold every label among them.
    complete: bool
    #: Models that go on from a snapshot behind the end of the journal.
    ahead: dict[str, Online]
    #: Those of them that the journal does not know.
    unknown: dict[str, Online] = field(default_factory=dict)

    def __str__(self) -> str:
        found = f"the journal ends at {self.first - 1}, numbers up to {self.last} were given out"
        held = ", ".join(f"{name} up to {online.version}" for name, online in self.ahead.items())
        return found + (f"; snapshots hold {held}" if held else "")


def compare(journal: Journal, folder: Path, models: dict[str, Online]) -> Missing | None:
    """What the journal lacks, by what the folder knows beside it; None if nothing."""
    end = journal.sequence
    named = _snapshot_names(folder)
    records = [online.known for online in models.values() if online.known is not None]
    largest = max((sequence for found in named.values() for sequence in found), default=0)
    last = max([journal.recorded, largest, *(known.sequence for known in records)])
    if last <= end:
        return None
    ahead = {name: online for name, online in models.items() if online.version > end}
    unknown = {}
    for name in named.keys() - models.keys():
        online = _from_snapshot(name, named[name])
        if online is not None and online.known is not None and online.known.sequence > end:
            records.append(online.known)
            unknown[name] = online
    newest = max(records, key=lambda known: known.sequence, default=None)
    together = {**models, **unknown}
    complete = newest is not None and newest.sequence >= last
    for name, version in newest.versions.items() if newest else ():
        online = together.get(name)
        complete = complete and online is not None and online.version == version
        complete = complete and not (online and online.broken)
    return Missing(end + 1, last, complete, {**ahead, **unknown}, unknown)


def refuse(missing: Missing, folder: Path) -> JournalError:
    """Why a service does not start with a journal that lacks labels, and what to do."""
    return JournalError(
        f"{folder}: acknowledged entries are missing: {missing}. Put the newest journal.sqlite "
        "back, with its -wal file if there was one; or go on without them with --accept-missing"
    )


def _snapshot_names(folder: Path) -> dict[str, dict[int, Path]]:
    """All snapshots of a folder, by model and sequence number."""
    found: dict[str, dict[int, Path]] = {}
    for path in folder.iterdir():
        match = re.fullmatch(r"(.+)-(\d{1,19})\.pronk", path.name)
        if match and int(match[2]) < LARGEST:
            found.setdefault(match[1], {})[int(match[2])] = path
    return found


def _from_snapshot(name: str, made: dict[int, Path]) -> Online | None:
    """A model that no journal knows, as its newest good snapshot has it; keyed ones have none."""
    for sequence in sorted(made, reverse=True):
        try:
            tree: dict[str, Any] = files.load_checkpoint(made[sequence])
            row = ModelRow(0, name, tree["spec"], 0, 0.0, 0)
            require(spec.read(row.spec).key is None, "keyed models are not in their snapshots")
            online = Online(row)
            online.restore(tree, made[sequence])
            require(online.version == sequence, "it is of another sequence number")
            return online
        except Exception:  # whatever stands in the file
            continue
    return None


# ----------------------------------------------------------------------------------------
# What is done now and then: old rows dropped or archived, labels that never came given up.
#
# Rows of the journal go once they are older than the retention time and lie before the oldest of
# the automatic snapshots that can be read: recovery and rollbacks to versions after that still
# have what they need. Until then the same id gives the same answer.

DAY = 86_400.0
#: Rows dropped in one transaction, so that requests wait no longer than for these.
PORTION = 5_000


def expire(journal: Journal, online: Online, days: float) -> int:
    """Give up predictions whose label did not come in time; how many."""
    before = journal.now() - days * DAY
    gone = journal.rows(
        "SELECT sequence FROM journal WHERE model = ? AND kind = ? AND done IS NULL AND time < ?"
        " LIMIT ?",
        (online.number, PREDICT, before, PORTION),
    )
    if not gone:
        return 0
    drop = [("DELETE FROM journal WHERE sequence = ?", (row[0],)) for row in gone]
    journal.commit(lambda last: Batch(more=[_highest(last), *drop]))
    online.waiting -= len(gone)
    return len(gone)


def drop(
    journal: Journal, online: Online, folder: Path, days: float, archive: bool, note: Note
) -> int:
    """Drop old rows of a model that no readable snapshot needs; how many."""
    before = journal.now() - days * DAY
    limit = 0
    pinned = journal.pinned(online.number)
    for sequence, path in snapshots(folder, online.name).items():
        if sequence in pinned or not journal.rows(_OLD, (online.number, sequence, before, 1)):
            continue
        try:
            verify(online, path)
        except (OSError, ValueError) as error:
            note("snapshot cannot be read", model=online.name, file=path.name, reason=str(error))
            continue
        limit = sequence
        break
    rows = journal.rows(_OLD, (online.number, limit, before, PORTION)) if limit else []
    if not rows:
        return 0
    if archive:
        _archive(rows, online, folder)
    highest = max((row[0] for row in rows if row[2] != PREDICT), default=0)
    more: list[tuple[str, tuple[Any, ...]]] = [
        ("UPDATE models SET dropped = max(dropped, ?) WHERE number = ?", (highest, online.number)),
        *(("DELETE FROM journal WHERE sequence = ?", (row[0],)) for row in rows),
        (
            "DELETE FROM blocks WHERE model = ? AND block <= ? AND NOT EXISTS (SELECT 1 FROM"
            " journal WHERE journal.model = blocks.model AND journal.block = blocks.block)",
            (online.number, highest),
        ),
    ]
    journal.commit(lambda last: Batch(more=[_highest(last), *more]))
    return len(rows)


#: Rows of a model up to a number and before a time.
_OLD = (
    "SELECT sequence, id, kind, size, rows, labels, block, time FROM journal"
    " WHERE model = ? AND sequence <= ? AND time < ?"
    f" AND (kind <> {PREDICT} OR done IS NOT NULL) ORDER BY sequence LIMIT ?"
)


def _highest(sequence: int) -> tuple[str, tuple[Any, ...]]:
    """The last number is kept when the row that has it goes."""
    return "INSERT INTO highest VALUES (?)", (sequence,)


def _archive(rows: list[tuple[Any, ...]], online: Online, folder: Path) -> None:
    """Learned rows as one Parquet file, a row of features a line, before they are dropped."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, list[Any]] = {"sequence": [], "id": [], "time": [], "label": []}
    features: list[list[Any]] = []
    for sequence, id, kind, _, packed, labels, _, moment in rows:
        if kind not in (LEARN, LABEL) or packed is None:
            continue
        values = online.columns.values(packed)
        if online.columns.key is not None:
            columns.setdefault("key", []).extend(map(str, online.columns.keys(packed)))
        features += values
        columns["label"] += unpack_labels(labels)
        for name, value in (("sequence", sequence), ("id", id), ("time", moment)):
            columns[name] += [value] * len(values)
    if not features:
        return
    for place, name in enumerate(online.columns.names):
        columns[f"x_{name}" if name in columns else name] = [
            _plain(row[place], online.columns.kinds[place]) for row in features
        ]
    home = folder / "archive"
    home.mkdir(exist_ok=True)
    path = home / f"{online.name}-{columns['sequence'][0]}-{columns['sequence'][-1]}.parquet"
    beside = path.with_suffix(".writing")
    pq.write_table(pa.table(columns), beside)
    beside.replace(path)


def _plain(value: Any, kind: str) -> Any:
    return value if kind == "number" or value is None or isinstance(value, str) else str(value)
