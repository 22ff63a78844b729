"""What is done now and then: old rows dropped or archived, labels that never came given up.

Rows of the journal go once they are older than the retention time and lie before the oldest of the
automatic snapshots: recovery and rollbacks to versions after that still have what they need. Until
then the same id gives the same answer.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pronk.serve import recovery
from pronk.serve.journal import LABEL, LEARN, PREDICT, Journal
from pronk.serve.labels import unpack_labels
from pronk.serve.online import Online

DAY = 86_400.0
#: Rows dropped in one transaction, so that requests wait no longer than for these.
PORTION = 5_000


def expire(journal: Journal, online: Online, days: float) -> int:
    """Give up predictions whose label did not come in time; how many."""
    before = journal.now() - days * DAY
    gone = journal.connection.execute(
        "SELECT sequence FROM journal WHERE model = ? AND kind = ? AND done IS NULL AND time < ?"
        " LIMIT ?",
        (online.number, PREDICT, before, PORTION),
    ).fetchall()
    if not gone:
        return 0
    last = [("INSERT INTO highest VALUES (?)", (journal.sequence,))]
    drop = [("DELETE FROM journal WHERE sequence = ?", (row[0],)) for row in gone]
    journal.write(more=[*last, *drop])
    online.waiting -= len(gone)
    return len(gone)


def drop(journal: Journal, online: Online, folder: Path, days: float, archive: bool) -> int:
    """Drop old rows of a model that no kept snapshot needs; how many."""
    pinned = journal.pinned(online.number)
    automatic = [
        sequence for sequence in recovery.snapshots(folder, online.name) if sequence not in pinned
    ]
    if not automatic:
        return 0
    limit, before = min(automatic), journal.now() - days * DAY
    rows = journal.connection.execute(
        "SELECT sequence, id, kind, size, rows, labels, block, time FROM journal"
        " WHERE model = ? AND sequence <= ? AND time < ?"
        f" AND (kind <> {PREDICT} OR done IS NOT NULL) ORDER BY sequence LIMIT ?",
        (online.number, limit, before, PORTION),
    ).fetchall()
    if not rows:
        return 0
    if archive:
        _archive(rows, online, folder)
    highest = max((row[0] for row in rows if row[2] != PREDICT), default=0)
    journal.write(
        more=[
            ("INSERT INTO highest VALUES (?)", (journal.sequence,)),
            (
                "UPDATE models SET dropped = max(dropped, ?) WHERE number = ?",
                (highest, online.number),
            ),
            *(("DELETE FROM journal WHERE sequence = ?", (row[0],)) for row in rows),
            (
                "DELETE FROM blocks WHERE model = ? AND block <= ? AND NOT EXISTS (SELECT 1 FROM"
                " journal WHERE journal.model = blocks.model AND journal.block = blocks.block)",
                (online.number, highest),
            ),
        ]
    )
    return len(rows)


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


class Housekeeper:
    """Calls the above at most once a minute, a portion at a time."""

    def __init__(self, every: float = 60.0) -> None:
        self.every = every
        self._last = time.monotonic()
        self.expired = 0
        self.dropped = 0

    def due(self) -> bool:
        """Whether it is time again."""
        now = time.monotonic()
        if now - self._last < self.every:
            return False
        self._last = now
        return True

    def run(
        self,
        journal: Journal,
        models: list[Online],
        folder: Path,
        label_days: float,
        retention_days: float,
        archive: bool,
    ) -> None:
        """One round over all models; full portions bring the next round forward."""
        full = False
        for online in models:
            expired = expire(journal, online, label_days)
            dropped = drop(journal, online, folder, retention_days, archive)
            self.expired += expired
            self.dropped += dropped
            full = full or PORTION in (expired, dropped)
        if full:
            self._last -= self.every
