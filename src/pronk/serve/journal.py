"""The journal: every request that changes a model is on disk before it is answered.

The journal is one SQLite file in WAL mode with ``synchronous=FULL``: a committed transaction
survives a power cut. One thread at a time writes, and includes the batches of all waiting threads
in its transaction. Sequence numbers grow by one and are never reused; the version of a model is the
sequence number of the last entry it learned.

    models     number (never reused, unlike names), name, spec, first sequence number
    journal    sequence, model, id, kind, rows as they were sent, labels, block, time, and the
               answer to a prediction that waits for its label
    blocks     the answers of a learned block, in the order of its entries
    snapshots  snapshots that a client requested; they are kept
    highest    the last sequence number when entries were dropped

The answers of a block are written in the following transaction, so that learning costs one sync and
not two. A crash in between loses no answer, because a replay of the block computes it again.

Beside the journal, the file `sequence` holds the last committed sequence number. It is written
after each commit without a sync, so it may lag behind the journal and is never ahead of it: a
journal that ends before this number has lost acknowledged entries.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

NAME = "journal.sqlite"
#: The file with the last committed sequence number.
LAST = "sequence"
#: Version of the tables below; a journal of a later version is not opened.
FORMAT = 1

#: Bytes per page. A request of many rows fills many pages, and each costs two system calls.
PAGE = 8192

PREDICT, LEARN, LABEL, ROLLBACK = range(4)

#: Larger numbers are not sequence numbers, wherever they are read.
LARGEST = 2**62
#: Values per query: SQLite limits them.
_FEW = 500
#: Entries of a replay that are read at once.
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

#: An SQL statement and its values.
Statement = tuple[str, tuple[Any, ...]]
#: Records up to which entry a model's rows were dropped.
_DROPPED = "UPDATE models SET dropped = max(dropped, ?) WHERE number = ?"
#: Records the last sequence number before entries are dropped.
_HIGHEST = "INSERT INTO highest VALUES (?)"


class Entry(NamedTuple):
    """Hold a row of the table `journal`."""

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


_COLUMNS = ", ".join(Entry._fields)
_INSERT = f"INSERT INTO journal ({_COLUMNS}) VALUES ({','.join('?' * len(Entry._fields))})"
#: Which entries a model has learned after a sequence number.
_LEARNED = f"model = ? AND sequence > ? AND kind IN ({LEARN}, {LABEL}) AND void IS NULL"


class ModelRow(NamedTuple):
    """Hold a row of the table `models`."""

    number: int
    name: str
    spec: str
    start: int
    created: float
    dropped: int


class Batch(NamedTuple):
    """Hold what is written in a transaction: entries, answers of blocks, other statements."""

    entries: Sequence[Entry] = ()
    answers: Sequence[tuple[int, int, bytes]] = ()
    more: Sequence[Statement] = ()


#: Builds a batch from the sequence number before its first entry.
Build = Callable[[int], Batch]


@dataclass(eq=False)
class _Waiting:
    """Hold a batch that waits for its transaction."""

    build: Build
    done: bool = False
    error: Exception | None = None


class JournalError(Exception):
    """Raised if the journal cannot be opened or a transaction fails."""


class Journal:
    """Read and write the journal of a folder, from any number of threads."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.lock = threading.RLock()  # held during a transaction or a query
        self._queue: list[_Waiting] = []
        self._queueing = threading.Lock()
        try:
            self.connection = sqlite3.connect(
                self.path, isolation_level=None, check_same_thread=False
            )
            self._open()
            found = self.connection.execute(
                "SELECT max(coalesce((SELECT max(sequence) FROM journal), 0),"
                " coalesce((SELECT max(sequence) FROM highest), 0),"
                " coalesce((SELECT max(start) FROM models), 0)),"
                " coalesce((SELECT max(time) FROM journal), 0)"
            ).fetchone()
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        self.sequence: int = found[0]
        self._latest: float = found[1]
        self.failed: str | None = None  # why the last transaction failed
        self.stopping = threading.Event()  # set to end a replay early
        #: The last committed sequence number according to the file `sequence`.
        self.recorded = self._open_last(folder / LAST)

    def _open(self) -> None:
        execute = self.connection.execute
        execute(f"PRAGMA page_size={PAGE}")  # applies to a new file
        if execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise sqlite3.OperationalError("the file system does not allow a write-ahead log")
        execute("PRAGMA synchronous=FULL")
        execute("PRAGMA journal_size_limit=67108864")
        version = execute("PRAGMA user_version").fetchone()[0]
        if version > FORMAT:
            raise sqlite3.OperationalError(
                f"its format {version} is newer than this version of pronk; upgrade pronk"
            )
        problem = execute("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise sqlite3.DatabaseError(f"it is damaged ({problem})")
        self.connection.executescript(_TABLES)
        execute(f"PRAGMA user_version={FORMAT}")

    def _unusable(self, error: sqlite3.Error) -> JournalError:
        """Return the error of a journal that cannot be opened, and what to do if it is damaged."""
        advice = ""
        if type(error) is sqlite3.DatabaseError:  # damaged, or not a database
            advice = (
                f"; move {NAME}, {NAME}-wal and {NAME}-shm away, then restore all files of one "
                "backup (a -wal or -shm file of the damaged journal must not stay beside it)"
            )
        return JournalError(f"{self.path} cannot be used: {error}{advice}")

    def _open_last(self, path: Path) -> int:
        try:
            path.touch(mode=0o600)
            self._last = path.open("r+b", buffering=0)
            text = (self._last.read(64) or b"").strip()
        except OSError as error:
            self.connection.close()
            raise JournalError(f"{path} cannot be used: {error.strerror or error}") from None
        number = int(text) if text.isdigit() else 0
        return number if number < LARGEST else 0

    def _record(self) -> None:
        """Write the last committed sequence number to its file; a failure only lets it lag."""
        with suppress(OSError, ValueError):  # a closed file raises a ValueError
            self._last.seek(0)
            self._last.write(b"%020d\n" % self.sequence)

    def close(self) -> None:
        """Close the files; committed entries stay."""
        with self.lock:
            self.connection.close()
            self._last.close()

    def now(self) -> float:
        """Return the current time, or the latest time in the journal if the clock went back."""
        with self.lock:
            self._latest = max(self._latest, time.time())
            return self._latest

    # -- writing ---------------------------------------------------------------------------------

    def commit(self, build: Build) -> None:
        """Write a batch, together with the waiting ones; it is on disk when this returns.

        The thread that gets the lock first writes the batches of all waiting threads in one
        transaction, so that threads share a sync. If that transaction fails, each batch is written
        in its own.
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
            raise JournalError("the journal could not be written: interrupted")

    def _commit_together(self, taken: list[_Waiting]) -> None:
        try:
            batches, last = [], self.sequence
            for waiting in taken:
                batches.append(waiting.build(last))
                last += len(batches[-1].entries)
            self.write(Batch(*(list(chain(*parts)) for parts in zip(*batches, strict=True))))
        except Exception as error:
            if len(taken) > 1:
                for waiting in taken:
                    self._commit_together([waiting])
            else:
                taken[0].error = error
        for waiting in taken:
            waiting.done = True

    def write(self, batch: Batch) -> None:
        """Write one transaction, all or nothing; it is on disk when this returns."""
        last = batch.entries[-1].sequence if batch.entries else None
        with self.lock:
            try:
                self.connection.execute("BEGIN IMMEDIATE")
                self.connection.executemany(_INSERT, batch.entries)
                self.connection.executemany(
                    "INSERT OR REPLACE INTO blocks VALUES (?, ?, ?)", batch.answers
                )
                for statement, values in batch.more:
                    self.connection.execute(statement, values)
                self.connection.execute("COMMIT")
            except sqlite3.Error as error:
                if self.connection.in_transaction:
                    self.connection.rollback()
                if last is None or not self._has(last):
                    self.failed = str(error)
                    raise JournalError(f"the journal could not be written: {error}") from None
            self.failed = None
            if last is not None:
                self.sequence = max(self.sequence, last)
                self._record()

    def _has(self, sequence: int) -> bool:
        """Return whether an entry is in the journal, after an error during its commit."""
        try:
            return bool(self.rows("SELECT 1 FROM journal WHERE sequence = ?", (sequence,)))
        except sqlite3.Error:
            return False

    def add_model(self, name: str, spec: str) -> ModelRow:
        """Add a model and return its row; its number is never reused."""
        statement = "INSERT INTO models (name, spec, start, created) VALUES (?, ?, ?, ?)"
        with self.lock:
            self.write(Batch(more=[(statement, (name, spec, self.sequence, self.now()))]))
            return self.model(name)

    def accept(self, sequence: int, learned: dict[int, int]) -> None:
        """Continue after a sequence number that this journal has not reached.

        ``learned`` has the versions, by the number of the model, up to which the journal is
        incomplete and a snapshot is complete.
        """
        more: list[Statement] = [(_HIGHEST, (sequence,))]
        more += [(_DROPPED, (version, number)) for number, version in learned.items()]
        with self.lock:
            self.write(Batch(more=more))
            self.sequence = sequence
            self._record()

    def pin(self, model: int, sequence: int) -> None:
        """Record a snapshot that a client requested."""
        statement = "INSERT OR REPLACE INTO snapshots VALUES (?, ?)"
        self.write(Batch(more=[(statement, (model, sequence))]))

    def drop(self, sequences: Iterable[int], *more: Statement) -> None:
        """Drop entries, then execute further statements."""
        gone = [("DELETE FROM journal WHERE sequence = ?", (one,)) for one in sequences]
        self.commit(lambda last: Batch(more=[(_HIGHEST, (last,)), *gone, *more]))

    def drop_learned(self, model: int, sequences: Iterable[int], end: int) -> None:
        """Drop entries of a model, with the answers of its blocks up to ``end`` that are empty."""
        answers = (
            "DELETE FROM blocks WHERE model = ? AND block <= ? AND NOT EXISTS (SELECT 1 FROM"
            " journal WHERE journal.model = blocks.model AND journal.block = blocks.block)"
        )
        self.drop(sequences, (_DROPPED, (end, model)), (answers, (model, end)))

    def remove_model(self, model: int) -> None:
        """Remove a model and all that belongs to it; its number is never reused."""
        removed = "UPDATE models SET removed = ? WHERE number = ?"
        tables = ("journal", "blocks", "snapshots")
        gone = [(f"DELETE FROM {table} WHERE model = ?", (model,)) for table in tables]
        self.drop((), (removed, (self.now(), model)), *gone)

    def roll_back(self, model: int, version: int) -> None:
        """Void the entries of a model after a version; their ids can be used again."""
        after = (model, version)

        def batch(last: int) -> Batch:
            sequence = last + 1
            entry = Entry(sequence, model, None, ROLLBACK, 0, None, None, version, None, self.now())
            void = f"UPDATE journal SET void = ?, id = NULL WHERE {_LEARNED}"
            return Batch(
                [entry],
                more=[
                    (void, (sequence, *after)),
                    ("UPDATE journal SET done = NULL WHERE model = ? AND done > ?", after),
                    ("DELETE FROM blocks WHERE model = ? AND block > ?", after),
                    ("DELETE FROM snapshots WHERE model = ? AND sequence > ?", after),
                ],
            )

        self.commit(batch)

    # -- reading ---------------------------------------------------------------------------------

    def rows(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        """Return the rows of a query."""
        with self.lock:
            return self.connection.execute(query, values).fetchall()

    def models(self) -> list[ModelRow]:
        """Return the models that were not removed, by name."""
        found = self.rows(
            "SELECT number, name, spec, start, created, dropped FROM models"
            " WHERE removed IS NULL ORDER BY name"
        )
        return [ModelRow(*row) for row in found]

    def model(self, name: str) -> ModelRow:
        """Return a model by name."""
        return next(row for row in self.models() if row.name == name)

    def find(self, model: int, ids: list[str]) -> dict[str, dict[int, Entry]]:
        """Return the entries with some ids, by id and kind."""
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
        """Return the packed answers of a learned block, or None if they were not stored."""
        found = self.rows(
            "SELECT answers FROM blocks WHERE block = ? AND model = ?", (block, model)
        )
        return found[0][0] if found else None

    def learned(self, model: int, after: int, up_to: int | None = None) -> Iterator[list[Entry]]:
        """Yield the entries that a model learned after a sequence number, block by block."""
        entries = self._learned(model, after, self.sequence if up_to is None else up_to)
        for _, block in groupby(entries, key=lambda entry: entry.block):
            yield list(block)

    def _learned(self, model: int, after: int, last: int) -> Iterator[Entry]:
        """Yield the entries that a model learned; read some at a time, for one model among many."""
        rows: list[Any] = [None] * _PAGE_ROWS
        while len(rows) == _PAGE_ROWS:
            rows = self.rows(
                f"SELECT {_COLUMNS} FROM journal WHERE {_LEARNED} AND sequence <= ?"
                " ORDER BY sequence LIMIT ?",
                (model, after, last, _PAGE_ROWS),
            )
            for row in rows:
                yield Entry(*row)
                after = row[0]

    def rows_behind(self, model: int, after: int) -> int:
        """Count the rows that a model learned after a sequence number."""
        query = f"SELECT coalesce(sum(size), 0) FROM journal WHERE {_LEARNED}"
        return int(self.rows(query, (model, after))[0][0])

    def unlabelled(self, model: int, before: float, most: int) -> list[int]:
        """Return predictions from before a time that still wait for their label."""
        query = f"SELECT sequence FROM journal WHERE model = ? AND kind = {PREDICT}"
        query += " AND done IS NULL AND time < ? LIMIT ?"
        return [row[0] for row in self.rows(query, (model, before, most))]

    def old(self, model: int, up_to: int, before: float, most: int) -> list[Entry]:
        """Return the first entries up to a number and before a time that wait for no label."""
        query = f"SELECT {_COLUMNS} FROM journal WHERE model = ? AND sequence <= ? AND time < ?"
        query += f" AND (kind <> {PREDICT} OR done IS NOT NULL) ORDER BY sequence LIMIT ?"
        return [Entry(*row) for row in self.rows(query, (model, up_to, before, most))]

    def pinned(self, model: int) -> set[int]:
        """Return the versions of the snapshots that a client requested."""
        found = self.rows("SELECT sequence FROM snapshots WHERE model = ?", (model,))
        return {row[0] for row in found}

    def size(self) -> int:
        """Return the bytes of the journal on disk."""
        found = 0
        for path in (self.path, self.path.with_name(f"{NAME}-wal")):
            with suppress(OSError):
                found += path.stat().st_size
        return found

    def was_undone(self, model: int, version: int) -> bool:
        """Return whether a version was undone by a later rollback."""
        query = f"SELECT 1 FROM journal WHERE model = ? AND kind = {ROLLBACK}"
        return bool(self.rows(f"{query} AND block < ? AND ? < sequence", (model, version, version)))

    def last_rollback(self, model: int) -> int | None:
        """Return the sequence number of the last rollback of a model, if there is one."""
        query = f"SELECT max(sequence) FROM journal WHERE model = ? AND kind = {ROLLBACK}"
        found: int | None = self.rows(query, (model,))[0][0]
        return found

    def waiting(self, model: int) -> int:
        """Count the predictions that wait for their label."""
        query = f"SELECT count(*) FROM journal WHERE model = ? AND kind = {PREDICT}"
        return int(self.rows(f"{query} AND done IS NULL", (model,))[0][0])
