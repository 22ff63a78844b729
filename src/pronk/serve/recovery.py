"""Snapshots, and the way back: the newest good snapshot, then the journal in its blocks.

A snapshot is a checkpoint file of the project, `MODEL-SEQUENCE.pronk`: written whole or not at all,
with a checksum, and loading it executes nothing. `pronk.load` reads its model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from pronk.estimators import storage
from pronk.parts.state import require
from pronk.serve import answers
from pronk.serve.answers import Answer
from pronk.serve.journal import Entry, Journal, ModelRow
from pronk.serve.online import Online

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


def save(online: Online, folder: Path) -> Path:
    """Write a snapshot of the model as it is."""
    online.flush()
    path = snapshot_path(folder, online.name, online.version)
    storage.save_checkpoint(online.tree(), path)
    online.snapshot = online.version
    online.rows_since_snapshot = 0
    return path


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
            online.restore(storage.load_checkpoint(path), path)
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
        number = block[0].block or 0
        kept = journal.answers(number, online.number)
        found = online.relearn(block, None if kept is None else _of(block, kept))
        if kept is None:
            missing.append((number, online.number, answers.pack(found)))
        if len(missing) >= 1000:
            journal.write(answers=missing)
            missing = []
    if missing:
        journal.write(answers=missing)


def _of(block: list[Entry], kept: bytes) -> list[Answer] | None:
    """The stored answers of a block's entries, some of which a rollback may have taken back."""
    by_version = {answer.version: answer for answer in answers.unpack_block(kept)}
    found = [by_version.get(entry.sequence) for entry in block]
    return None if None in found else [answer for answer in found if answer is not None]
