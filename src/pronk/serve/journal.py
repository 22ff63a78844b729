"""The journal: every request that changes something, on disk before it is answered.

One SQLite file in WAL mode with ``synchronous=FULL``: a transaction that was committed survives a
power cut. One thread at a time writes, and takes what other threads wait to write into its
transaction. Sequence numbers grow by one and are never given twice; the version of a model is the
number of the last row it learned.

    models     a number for life (names may come again), the name, what it is, first sequence number
    journal    sequence, model, id, kind, rows as they came, labels, block, time, and what was
               answered to a prediction that waits for its label
    blocks     the answers of a block that was learned, in the order of its rows
    snapshots  which snapshots were made by hand and are kept
    highest    the last sequence number when rows were dropped

The answers of a block are written with the transaction after it (they are no part of the promise: a
replay of the block gives them again), so learning costs one sync, not two.

Beside the journal, the file `sequence` holds the last number that was committed. It is written
after each commit and not synchronised, so it may lag behind the journal and is never ahead of it: a
journal that ends before this number has lost what was acknowledged.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

NAME = "journal.sqlite"
#: The file with the last number that was committed.
LAST = "sequence"
#: Of the tables below; a journal of a later version is refused.
FORMAT = 1

#: Bytes of a page. A request of many rows fills many pages, and each costs two calls.
PAGE = 8192

PREDICT, LEARN, LABEL, ROLLBACK = range(4)

#: Numbers above this are no sequence numbers, wherever they are read.
LARGEST = 2**62
#: Values of one question: SQLite bounds them.
_FEW = 500
#: Rows of a replay that are read at once.
_PAGE_ROWS = 1000

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


class Batch(NamedTuple):
    """What one thread writes: all or nothing."""

    entries: list[Entry] = []
    answers: list[tuple[int, int, bytes]] = []
    more: list[tuple[str, tuple[Any, ...]]] = []


#: Makes a batch when the number before its first entry is known.
Build = Callable[[int], Batch]


@dataclass(eq=False)
class _Waiting:
    """A batch that waits for its transaction."""

    build: Build
    done: bool = False
    error: Exception | None = None


class JournalError(Exception):
    """The journal cannot be opened, or did not take a transaction."""


class Journal:
    """The open journal of a folder, for any number of threads."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.lock = threading.RLock()  # held for a transaction or a question
        self._queue: list[_Waiting] = []
        self._queueing = threading.Lock()
        #: The version of each model, by its number: the last row that was written for it to learn.
        self.versions: dict[int, int] = {}
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
        self.stopping = threading.Event()  # set: a replay ends early
        #: The last number that was committed according to the file beside the journal.
        self.recorded = self._open_last(folder / LAST)

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

    def _open_last(self, path: Path) -> int:
        try:
            flags = (
                os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            )
            self._last = os.open(path, flags, 0o600)
            text = os.read(self._last, 64).decode("ascii", "replace").strip()
        except OSError as error:
            self.connection.close()
            raise JournalError(f"{path} cannot be used: {error.strerror or error}") from None
        number = int(text) if text.isascii() and text.isdigit() else 0
        return number if number < LARGEST else 0

    def _record(self) -> None:
        """Note the last committed number; a lost note is found lagging, not wrong."""
        with suppress(OSError):
            os.lseek(self._last, 0, os.SEEK_SET)
            os.write(self._last, b"%020d\n" % self.sequence)

    def close(self) -> None:
        """Close the files; what was committed stays."""
        with self.lock:
            self.connection.close()
            if self._last >= 0:
                os.close(self._last)
                self._last = -1

    def now(self) -> float:
        """The time of day, which never goes back inside a journal."""
        with self.lock:
            self._latest = max(self._latest, time.time())
            return self._latest

    # -- writing ---------------------------------------------------------------------------------

    def commit(self, build: Build) -> None:
        """Write a batch in one transaction with those that wait; on disk when this returns.

        The thread that gets the lock first writes the batches of all that wait for it, so that
        threads share a sync. Where a transaction of several fails each is tried alone.
        """
        mine = _Waiting(build)
        with self._queueing:
            self._queue.append(mine)
        with self.lock:
            if not mine.done:
                with self._queueing:
                    taken, self._queue = self._queue, []
                self._commit_together(taken)
        if mine.error is not None:
            raise mine.error
        if not mine.done:  # the thread that took it was interrupted
            raise JournalError("the journal did not take it: interrupted")

    def _commit_together(self, taken: list[_Waiting]) -> None:
        try:
            whole, last = Batch([], [], []), self.sequence
            for waiting in taken:
                batch = waiting.build(last)
                last += len(batch.entries)
                whole.entries.extend(batch.entries)
                whole.answers.extend(batch.answers)
                whole.more.extend(batch.more)
            self.write(*whole)
        except Exception as error:
            if len(taken) > 1:
                for waiting in taken:
                    self._commit_together([waiting])
            else:
                taken[0].error = error
        for waiting in taken:
            waiting.done = True

    def write(
        self,
        entries: Iterable[Entry] = (),
        answers: Iterable[tuple[int, int, bytes]] = (),
        more: Iterable[tuple[str, tuple[Any, ...]]] = (),
    ) -> None:
        """One transaction: all or nothing, on disk when this returns."""
        entries = list(entries)
        with self.lock:
            self._write(entries, answers, more)
            self.failed = None
            if not entries:
                return
            self.sequence = max(self.sequence, entries[-1].sequence)
            for entry in entries:
                if entry.kind in (LEARN, LABEL):
                    self.versions[entry.model] = entry.sequence
                elif entry.kind == ROLLBACK:
                    self.versions[entry.model] = entry.block or 0
            self._record()

    def _write(
        self,
        entries: list[Entry],
        answers: Iterable[tuple[int, int, bytes]],
        more: Iterable[tuple[str, tuple[Any, ...]]],
    ) -> None:
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
        with self.lock:
            self.write(more=[_new_model(name, spec, self.sequence, self.now(), 0)])
            found = next(row for row in self.models() if row.name == name)
            self.versions[found.number] = found.start
            return found

    def accept(self, sequence: int, learned: dict[str, int], added: dict[str, str]) -> None:
        """Go on behind a number that this journal has not reached.

        ``learned`` are versions that models have from snapshots alone: before them the journal is
        not whole. ``added`` are the specs of those that the journal does not know.
        """
        known = {row.name: row.number for row in self.models()}
        more: list[tuple[str, tuple[Any, ...]]] = [("INSERT INTO highest VALUES (?)", (sequence,))]
        for name, version in learned.items():
            if name in added:  # it starts before the snapshot, so that it is nothing without it
                start = max(version - 1, 0)
                more.append(_new_model(name, added[name], start, self.now(), version))
            else:
                more.append(_dropped(version, known[name]))
        with self.lock:
            self.write(more=more)
            self.sequence = sequence
            self._record()

    # -- reading ---------------------------------------------------------------------------------

    def rows(self, question: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """The rows that a question gives."""
        with self.lock:
            return self.connection.execute(question, values).fetchall()

    def models(self) -> list[ModelRow]:
        """The models that are there."""
        found = self.rows(
            "SELECT number, name, spec, start, created, dropped FROM models"
            " WHERE removed IS NULL ORDER BY name"
        )
        return [ModelRow(*row) for row in found]

    def find(self, model: int, ids: list[str]) -> dict[str, dict[int, Entry]]:
        """The entries of some ids, by id and kind."""
        found: dict[str, dict[int, Entry]] = {}
        for start in range(0, len(ids), _FEW):
            some = ids[start : start + _FEW]
            marks = ",".join("?" * len(some))
            for row in self.rows(
                f"SELECT {_COLUMNS} FROM journal WHERE model = ? AND id IN ({marks})",
                (model, *some),
            ):
                entry = Entry(*row)
                found.setdefault(entry.id or "", {})[entry.kind] = entry
        return found

    def answers(self, block: int, model: int) -> bytes | None:
        """The answers of a block that was learned."""
        found = self.rows(
            "SELECT answers FROM blocks WHERE block = ? AND model = ?", (block, model)
        )
        return found[0][0] if found else None

    def learned(self, model: int, after: int, up_to: int | None = None) -> Iterable[list[Entry]]:
        """What a model learned after a sequence number, block by block."""
        block: list[Entry] = []
        last = self.sequence if up_to is None else up_to
        while True:
            rows = self.rows(
                f"SELECT {_COLUMNS} FROM journal WHERE model = ? AND sequence > ?"
                f" AND sequence <= ? AND kind IN ({LEARN}, {LABEL}) AND void IS NULL"
                " ORDER BY sequence LIMIT ?",
                (model, after, last, _PAGE_ROWS),
            )
            for row in rows:
                entry = Entry(*row)
                if block and entry.block != block[0].block:
                    yield block
                    block = []
                block.append(entry)
            if len(rows) < _PAGE_ROWS:
                break
            after = rows[-1][0]
        if block:
            yield block

    def pinned(self, model: int) -> set[int]:
        """Snapshots that were made by hand and stay."""
        found = self.rows("SELECT sequence FROM snapshots WHERE model = ?", (model,))
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
        found = self.rows(
            f"SELECT block, sequence FROM journal WHERE model = ? AND kind = {ROLLBACK}", (model,)
        )
        return [(row[0], row[1]) for row in found]

    def waiting(self, model: int) -> int:
        """Predictions whose label has not come."""
        found = self.rows(
            f"SELECT count(*) FROM journal WHERE model = ? AND kind = {PREDICT} AND done IS NULL",
            (model,),
        )
        return int(found[0][0])


def _new_model(
    name: str, spec: str, start: int, created: float, dropped: int
) -> tuple[str, tuple[Any, ...]]:
    return (
        "INSERT INTO models (name, spec, start, created, dropped) VALUES (?, ?, ?, ?, ?)",
        (name, spec, start, created, dropped),
    )


def _dropped(sequence: int, model: int) -> tuple[str, tuple[Any, ...]]:
    """Rows of a model up to a number are no longer in the journal."""
    return "UPDATE models SET dropped = max(dropped, ?) WHERE number = ?", (sequence, model)
