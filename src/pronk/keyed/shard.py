"""One shard of a store: an SQLite file with a row a model."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_TABLES = """
CREATE TABLE IF NOT EXISTS models (key TEXT PRIMARY KEY, model BLOB NOT NULL, notes TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS answers (mark INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS kept (key TEXT PRIMARY KEY, model BLOB NOT NULL, notes TEXT NOT NULL);
"""

#: No model of a key is larger: sizes are bounded before memory is taken.
MOST_BYTES = 1 << 30


class StoreError(ValueError):
    """A store that cannot be opened, read or written."""


class InUseError(StoreError):
    """Another process has the file."""


class Shard:
    """The file of one shard. What is written counts from the next `commit` on.

    One process has a shard open at a time; a second one is refused.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Transactions are begun by hand: a reader needs none, a writer one from commit to
            # commit. The threads of a process take turns (see `ModelStore`).
            self._file = sqlite3.connect(
                path, timeout=0.1, isolation_level=None, check_same_thread=False
            )
            self._file.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute("PRAGMA synchronous=FULL")
            self._file.executescript(_TABLES)
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def read(self, key: str) -> tuple[bytes, Any] | None:
        """The bytes and the notes of a model."""
        found = self._one("SELECT model, notes FROM models WHERE key = ?", (key,))
        return None if found is None else (self._bytes(key, found[0]), self._json(key, found[1]))

    def _bytes(self, key: str, packed: Any) -> bytes:
        try:
            opened = zlib.decompressobj()
            data = opened.decompress(packed, MOST_BYTES)
        except (zlib.error, TypeError, MemoryError):
            raise self._damaged(key) from None
        if not opened.eof:  # cut, or larger than any model
            raise self._damaged(key)
        return data

    def _json(self, key: str, notes: Any) -> Any:
        try:
            return json.loads(notes)
        except (ValueError, TypeError, RecursionError):
            raise self._damaged(key) from None

    def _damaged(self, key: str) -> StoreError:
        return StoreError(f"{self.path}: the model of key {key} is damaged")

    def write(self, key: str, model: bytes, notes: Any) -> None:
        """Keep a model in place of the one before."""
        self._begin()
        self._do(
            "INSERT INTO models VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
            "model = excluded.model, notes = excluded.notes",
            (key, zlib.compress(model, 1), json.dumps(notes)),
        )

    def remove(self, key: str) -> None:
        """Forget a model."""
        self._begin()
        self._do("DELETE FROM models WHERE key = ?", (key,))

    def keep(self, key: str) -> None:
        """Keep the row of a model beside the others until `put_back` or `forget`."""
        self._begin()
        self._do("INSERT OR REPLACE INTO kept SELECT * FROM models WHERE key = ?", (key,))

    def put_back(self, key: str) -> None:
        """Let the row of a model be what `keep` has kept."""
        self._do("INSERT OR REPLACE INTO models SELECT * FROM kept WHERE key = ?", (key,))
        self.forget(key)

    def forget(self, key: str) -> None:
        """Remove what `keep` has kept."""
        self._do("DELETE FROM kept WHERE key = ?", (key,))

    def has(self, key: str) -> bool:
        return self._one("SELECT 1 FROM models WHERE key = ?", (key,)) is not None

    def count(self) -> int:
        return int(self._all("SELECT count(*) FROM models")[0][0])

    def notes(self) -> Iterator[tuple[str, Any]]:
        """All keys with their notes, without their models."""
        for key, notes in self._all("SELECT key, notes FROM models ORDER BY key"):
            yield key, self._json(key, notes)

    @property
    def mark(self) -> int:
        """The mark of the last commit that had one; 0 before."""
        found = self._one("SELECT value FROM marks WHERE name = 'mark'")
        if found is not None and type(found[0]) is not int:
            raise StoreError(f"{self.path}: its mark is damaged")
        return 0 if found is None else found[0]

    def commit(self, mark: int | None = None) -> None:
        """Let everything written reach the disk, all of it or nothing."""
        if mark is not None:
            self._begin()
            self._do("INSERT OR REPLACE INTO marks VALUES ('mark', ?)", (mark,))
        if self._file.in_transaction:
            self._do("COMMIT")

    def keep_answer(self, mark: int, text: str) -> None:
        """Keep what the rows up to a mark were answered, in place of earlier answers."""
        self.forget_answers()
        self._do("INSERT INTO answers VALUES (?, ?)", (mark, text))

    def answer(self, mark: int) -> str | None:
        """What was kept with a mark."""
        found = self._one("SELECT text FROM answers WHERE mark = ?", (mark,))
        return None if found is None else str(found[0])

    def forget_answers(self) -> None:
        self._begin()
        self._do("DELETE FROM answers")

    def copy_to(self, path: Path) -> None:
        """A copy of the committed models."""
        try:
            other = sqlite3.connect(path)
            try:
                self._file.backup(other)
            finally:
                other.close()
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Leave the file; what was not committed is gone."""
        self._file.close()

    def _begin(self) -> None:
        if not self._file.in_transaction:
            self._do("BEGIN IMMEDIATE")

    def _one(self, statement: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        found = self._all(statement, values)
        return found[0] if found else None

    def _all(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement; a damaged file may show only when they are fetched."""
        cursor = self._do(statement, values)
        try:
            return cursor.fetchall()
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def _do(self, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
        try:
            return self._file.execute(statement, values)
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def _failed(self, error: sqlite3.Error) -> StoreError:
        if "locked" in str(error):
            return InUseError(f"{self.path} is in use by another process; close that one first")
        return StoreError(f"{self.path} cannot be used: {' '.join(str(error).split())}")
