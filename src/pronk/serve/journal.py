"""The journal: every request that changes something, on disk before it is answered.

One SQLite file in WAL mode with ``synchronous=FULL``: a transaction that was committed survives a
power cut. One thread writes. Sequence numbers grow by one and are never given twice; the version of
a model is the number of the last row it learned.

    models     a number for life (names may come again), the name, what it is, first sequence number
    journal    sequence, model, id, kind, rows as they came, labels, block, time, and what was
               answered to a prediction that waits for its label
    blocks     the answers of a block that was learned, in the order of its rows
    snapshots  which snapshots were made by hand and are kept
    highest    the last sequence number when rows were dropped

The answers of a block are written with the transaction after it (they are no part of the promise: a
replay of the block gives them again), so learning costs one sync, not two.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

NAME = "journal.sqlite"
#: Of the tables below; a journal of a later version is refused.
FORMAT = 1

#: Bytes of a page. A request of many rows fills many pages, and each costs two calls.
PAGE = 8192

PREDICT, LEARN, LABEL, ROLLBACK = range(4)

_TABLES = """
CREATE TABLE IF NOT EXISTS models (
    number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL COLLATE NOCASE, spec TEXT NOT NULL,
    start INTEGER NOT NULL, created REAL NOT NULL, removed REAL, dropped INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX IF NOT EXISTS models_name ON models (name) WHERE removed IS NULL;
CREATE TABLE IF NOT EXISTS journal (
    sequence INTEGER PRIMARY KEY, model INTEGER NOT NULL, id TEXT, kind INTEGER NOT NULL,
    size INTEGER NOT NULL, rows BLOB, labels BLOB, block INTEGER, answer BLOB,
    time REAL NOT NULL, done INTEGER, void INTEGER
);
CREATE UNIQUE INDEX IF NOT EXISTS journal_id ON journal (model, id, kind) WHERE id IS NOT NULL;
CREATE INDEX IF NOT EXISTS journal_model ON journal (model, sequence);
CREATE TABLE IF NOT EXISTS blocks (
    block INTEGER, model INTEGER NOT NULL, answers BLOB NOT NULL, PRIMARY KEY (block, model)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS snapshots (
    model INTEGER, sequence INTEGER, PRIMARY KEY (model, sequence)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS highest (sequence INTEGER NOT NULL);
"""

_COLUMNS = "sequence, model, id, kind, size, rows, labels, block, answer, time"


class Entry(NamedTuple):
    """A row of the journal."""

    sequence: int
    model: int
    id: str | None
    kind: int
    size: int
    rows: bytes | None
    labels: bytes | None
    block: int | None
    answer: bytes | None
    time: float


class ModelRow(NamedTuple):
    """A row of the table of models."""

    number: int
    name: str
    spec: str
    start: int
    created: float
    dropped: int


class JournalError(Exception):
    """The journal cannot be opened, or did not take a transaction."""


class Journal:
    """The open journal of a folder; one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        try:
            self.connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False
            )
            self._open()
        except sqlite3.Error as error:
            raise JournalError(f"{self.path} cannot be used: {error}") from None
        found = self.connection.execute(
            "SELECT max(coalesce((SELECT max(sequence) FROM journal), 0),"
            " coalesce((SELECT max(sequence) FROM highest), 0),"
            " coalesce((SELECT max(start) FROM models), 0)),"
            " coalesce((SELECT max(time) FROM journal), 0)"
        ).fetchone()
        self.sequence: int = found[0]
        self._latest: float = found[1]
        self.failed: str | None = None  # why the last transaction was not taken

    def _open(self) -> None:
        execute = self.connection.execute
        execute(f"PRAGMA page_size={PAGE}")  # of a new file
        if execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise sqlite3.OperationalError("the file system does not allow a write-ahead log")
        execute("PRAGMA synchronous=FULL")
        execute("PRAGMA journal_size_limit=67108864")
        version = execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            raise sqlite3.OperationalError(f"it has format {version}: upgrade pronk")
        problem = execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise sqlite3.DatabaseError(f"it is damaged ({problem}); put a backup in its place")
        self.connection.executescript(_TABLES)
        execute(f"PRAGMA user_version={FORMAT}")

    def close(self) -> None:
        """Close the file; what was committed stays."""
        self.connection.close()

    def now(self) -> float:
        """The time of day, which never goes back inside a journal."""
        self._latest = max(self._latest, time.time())
        return self._latest

    # -- writing ---------------------------------------------------------------------------------

    def write(
        self,
        entries: Iterable[Entry] = (),
        answers: Iterable[tuple[int, int, bytes]] = (),
        more: Iterable[tuple[str, tuple[Any, ...]]] = (),
    ) -> None:
        """One transaction: all or nothing, on disk when this returns."""
        entries = list(entries)
        execute = self.connection.execute
        try:
            execute("BEGIN IMMEDIATE")
            marks = ",".join("?" * len(Entry._fields))
            self.connection.executemany(
                f"INSERT INTO journal ({_COLUMNS}) VALUES ({marks})", entries
            )
            self.connection.executemany("INSERT OR REPLACE INTO blocks VALUES (?, ?, ?)", answers)
            for statement, values in more:
                execute(statement, values)
            execute("COMMIT")
        except sqlite3.Error as error:
            if self.connection.in_transaction:
                self.connection.rollback()
            if not (entries and self._has(entries[-1].sequence)):
                self.failed = str(error)
                raise JournalError(f"the journal did not take it: {error}") from None
        self.failed = None
        if entries:
            self.sequence = max(self.sequence, entries[-1].sequence)

    def _has(self, sequence: int) -> bool:
        """After a failure that may have come after the commit: is it there?"""
        try:
            found = self.connection.execute(
                "SELECT 1 FROM journal WHERE sequence = ?", (sequence,)
            ).fetchone()
        except sqlite3.Error:
            return False
        return found is not None

    def add_model(self, name: str, spec: str) -> ModelRow:
        """A new model, which gets a number for life."""
        now = self.now()
        self.write(
            more=[
                (
                    "INSERT INTO models (name, spec, start, created) VALUES (?, ?, ?, ?)",
                    (name, spec, self.sequence, now),
                )
            ]
        )
        return next(row for row in self.models() if row.name == name)

    # -- reading ---------------------------------------------------------------------------------

    def models(self) -> list[ModelRow]:
        """The models that are there."""
        return [
            ModelRow(*row)
            for row in self.connection.execute(
                "SELECT number, name, spec, start, created, dropped FROM models"
                " WHERE removed IS NULL ORDER BY name"
            )
        ]

    def find(self, model: int, ids: list[str]) -> dict[str, dict[int, Entry]]:
        """The entries of some ids, by id and kind."""
        found: dict[str, dict[int, Entry]] = {}
        few = len(ids) == 1
        wanted = "id = ?" if few else "id IN (SELECT value FROM json_each(?))"
        for row in self.connection.execute(
            f"SELECT {_COLUMNS} FROM journal WHERE model = ? AND {wanted}",
            (model, ids[0] if few else json.dumps(ids)),
        ):
            entry = Entry(*row)
            found.setdefault(entry.id or "", {})[entry.kind] = entry
        return found

    def answers(self, block: int, model: int) -> bytes | None:
        """The answers of a block that was learned."""
        row = self.connection.execute(
            "SELECT answers FROM blocks WHERE block = ? AND model = ?", (block, model)
        ).fetchone()
        return None if row is None else row[0]

    def learned(self, model: int, after: int, up_to: int | None = None) -> Iterable[list[Entry]]:
        """What a model learned after a sequence number, block by block."""
        block: list[Entry] = []
        for row in self.connection.execute(
            f"SELECT {_COLUMNS} FROM journal WHERE model = ? AND sequence > ? AND sequence <= ?"
            f" AND kind IN ({LEARN}, {LABEL}) AND void IS NULL ORDER BY sequence",
            (model, after, self.sequence if up_to is None else up_to),
        ):
            entry = Entry(*row)
            if block and entry.block != block[0].block:
                yield block
                block = []
            block.append(entry)
        if block:
            yield block

    def pinned(self, model: int) -> set[int]:
        """Snapshots that were made by hand and stay."""
        found = self.connection.execute("SELECT sequence FROM snapshots WHERE model = ?", (model,))
        return {row[0] for row in found}

    def size(self) -> int:
        """Bytes on disk."""
        found = 0
        for path in (self.path, self.path.with_name(f"{NAME}-wal")):
            with suppress(OSError):
                found += path.stat().st_size
        return found

    def voided(self, model: int) -> list[tuple[int, int]]:
        """Ranges (after, before) of sequence numbers that rollbacks took back."""
        found = self.connection.execute(
            f"SELECT block, sequence FROM journal WHERE model = ? AND kind = {ROLLBACK}", (model,)
        )
        return [(row[0], row[1]) for row in found]

    def waiting(self, model: int) -> int:
        """Predictions whose label has not come."""
        found = self.connection.execute(
            f"SELECT count(*) FROM journal WHERE model = ? AND kind = {PREDICT} AND done IS NULL",
            (model,),
        ).fetchone()
        return int(found[0])
