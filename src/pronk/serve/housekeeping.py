"""What is done now and then: old rows dropped or archived, labels that never came given up.

Rows of the journal go once they are older than the retention time and lie before the oldest of the
automatic snapshots that can be read: recovery and rollbacks to versions after that still have what
they need. Until then the same id gives the same answer.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pronk.serve import recovery
from pronk.serve.journal import LABEL, LEARN, PREDICT, Batch, Journal
from pronk.serve.labels import unpack_labels
from pronk.serve.online import Online

DAY = 86_400.0
#: Rows dropped in one transaction, so that requests wait no longer than for these.
PORTION = 5_000

Note = Callable[..., None]


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
    for sequence, path in recovery.snapshots(folder, online.name).items():
        if sequence in pinned or not journal.rows(_OLD, (online.number, sequence, before, 1)):
            continue
        try:
            recovery.verify(online, path)
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
