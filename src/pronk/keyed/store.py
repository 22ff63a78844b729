"""A store of many models in a folder, a bounded number of them in memory.

Keys are hashed into shards. A shard is one SQLite file with one row per model: the bytes of its
model file. A model is read when it is needed; when more models are in memory than allowed, the
least recently used ones are written back. Writes take effect at the next `flush`: after a crash
every shard is as its last flush left it. `flush` may store a position, an integer saved in the same
transaction, from which the caller knows which rows a shard has learned.
"""

from __future__ import annotations

import copy
import json
import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Self

from pronk.core.state import StateError
from pronk.estimators import files
from pronk.estimators.atomic import write_atomically
from pronk.keyed.keys import Key, decode_key, encode_key, shard_of

__all__ = ["ModelStore", "StoreError"]

# -- one shard ------------------------------------------------------------------------------------

_TABLES = """
CREATE TABLE IF NOT EXISTS models (key TEXT PRIMARY KEY, model BLOB NOT NULL, notes TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS positions (name TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS extras (name TEXT PRIMARY KEY, value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS backups (key TEXT PRIMARY KEY, model BLOB NOT NULL, notes TEXT NOT NULL);
"""

#: Most bytes of a model, checked before memory is allocated.
MOST_BYTES = 1 << 30


class StoreError(ValueError):
    """A store that cannot be opened, read or written."""


class InUseError(StoreError):
    """Another process has the file open."""


class Shard:
    """The file of one shard; writes take effect at the next `commit`.

    Only one process can open a shard at a time; a second one raises an `InUseError`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Transactions are started explicitly: reading needs none, writing needs one from commit
            # to commit. The threads of a process take turns (see `ModelStore`).
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
        """Return the bytes and the notes of a model, or None."""
        found = self._one("SELECT model, notes FROM models WHERE key = ?", (key,))
        return None if found is None else (self._bytes(key, found[0]), self._json(key, found[1]))

    def _bytes(self, key: str, packed: Any) -> bytes:
        try:
            opened = zlib.decompressobj()
            data = opened.decompress(packed, MOST_BYTES)
        except (zlib.error, TypeError, MemoryError):
            raise self._damaged(key) from None
        if not opened.eof:  # truncated, or larger than any model
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
        """Insert a model or replace the one before."""
        self._begin()
        self._do(
            "INSERT INTO models VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
            "model = excluded.model, notes = excluded.notes",
            (key, zlib.compress(model, 1), json.dumps(notes)),
        )

    def remove(self, key: str) -> None:
        """Delete a model."""
        self._begin()
        self._do("DELETE FROM models WHERE key = ?", (key,))

    def back_up(self, key: str) -> None:
        """Copy the row of a model to the backups."""
        self._begin()
        self._do("INSERT OR REPLACE INTO backups SELECT * FROM models WHERE key = ?", (key,))

    def restore_backup(self, key: str) -> None:
        """Replace the row of a model by its backup, and delete the backup."""
        self._do("INSERT OR REPLACE INTO models SELECT * FROM backups WHERE key = ?", (key,))
        self.delete_backup(key)

    def delete_backup(self, key: str) -> None:
        """Delete the backup of a model."""
        self._do("DELETE FROM backups WHERE key = ?", (key,))

    def has(self, key: str) -> bool:
        return self._one("SELECT 1 FROM models WHERE key = ?", (key,)) is not None

    def count(self) -> int:
        return int(self._all("SELECT count(*) FROM models")[0][0])

    def notes(self) -> Iterator[tuple[str, Any]]:
        """Yield all keys with their notes; models are not read."""
        for key, notes in self._all("SELECT key, notes FROM models ORDER BY key"):
            yield key, self._json(key, notes)

    @property
    def position(self) -> int:
        """The position stored by the last commit that had one, or 0."""
        found = self._one("SELECT value FROM positions WHERE name = 'position'")
        if found is not None and type(found[0]) is not int:
            raise StoreError(f"{self.path}: its position is damaged")
        return 0 if found is None else found[0]

    @property
    def extra(self) -> bytes | None:
        """The bytes stored by the last commit that had some, or None."""
        found = self._one("SELECT value FROM extras WHERE name = 'extra'")
        if found is not None and type(found[0]) is not bytes:
            raise StoreError(f"{self.path}: its extra bytes are damaged")
        return None if found is None else found[0]

    def commit(self, position: int | None = None, extra: bytes | None = None) -> None:
        """Commit all writes, and a position and bytes if given, in one transaction."""
        for table, name, value in (("positions", "position", position), ("extras", "extra", extra)):
            if value is not None:
                self._begin()
                self._do(f"INSERT OR REPLACE INTO {table} VALUES ('{name}', ?)", (value,))
        if self._file.in_transaction:
            self._do("COMMIT")

    def copy_to(self, path: Path) -> None:
        """Write a copy of the committed shard."""
        try:
            other = sqlite3.connect(path)
            try:
                self._file.backup(other)
            finally:
                other.close()
        except sqlite3.Error as error:
            raise self._failed(error) from None

    def close(self) -> None:
        """Close the file; uncommitted writes are lost."""
        self._file.close()

    def _begin(self) -> None:
        if not self._file.in_transaction:
            self._do("BEGIN IMMEDIATE")

    def _one(self, statement: str, values: tuple[Any, ...] = ()) -> tuple[Any, ...] | None:
        found = self._all(statement, values)
        return found[0] if found else None

    def _all(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; damage may be detected only while rows are fetched."""
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


# -- the store ------------------------------------------------------------------------------------

#: The file with the format, the number of shards and the metadata of a store.
STORE_FILE = "store.json"
FORMAT = 1
#: Most shards of a store.
MOST_SHARDS = 4096


def _shard_name(number: int) -> str:
    return f"shard-{number:03d}.sqlite"


def _header(shards: int, metadata: dict[str, Any]) -> bytes:
    return json.dumps({"format": FORMAT, "shards": shards, "metadata": metadata}, indent=1).encode()


@dataclass
class _Entry:
    """A model in memory, and whether it may differ from its row in the file."""

    model: Any
    notes: Any
    changed: bool


class ModelStore:
    """Models by encoded key in the files of ``folder``; each call is safe for several threads.

    Parameters
    ----------
    folder : directory, created if missing
    shards : int, default 16
        Number of files; fixed when the folder is created.
    cache_size : int, default 1000
        Most models in memory.
    only : numbers of shards, optional
        The shards that may be opened; by default all.
    metadata : dict, optional
        JSON values that are written to the folder when it is created.

    Examples
    --------
    >>> import tempfile
    >>> import pronk
    >>> from pronk.keyed import ModelStore
    >>> from pronk.keyed.keys import encode_key
    >>> store = ModelStore(tempfile.mkdtemp())
    >>> store.put(encode_key("a"), pronk.make("fogd", random_state=0).fit([[0.5]], [1.0]))
    >>> store.flush()
    >>> print(list(store), store.get(encode_key("b")))
    ['a'] None
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        shards: int = 16,
        cache_size: int = 1000,
        only: Any = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        if shards < 1 or cache_size < 1:
            got = f"{shards} and {cache_size}"
            raise ValueError(f"shards and cache_size must be at least 1, got {got}")
        if shards > MOST_SHARDS:
            raise ValueError(f"shards must be at most {MOST_SHARDS}, got {shards}")
        self.folder = Path(folder)
        self.cache_size = cache_size
        #: Called with every model that is read; raises a StateError if it does not belong here.
        self.check: Callable[[Any], None] = lambda model: None
        header = self._open(shards, metadata or {})
        self.shards, self.metadata = int(header["shards"]), header["metadata"]
        self._only = range(self.shards) if only is None else sorted(only)
        self._files: dict[int, Shard] = {}
        self._models: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.RLock()

    def _open(self, shards: int, metadata: dict[str, Any]) -> dict[str, Any]:
        """Create the folder if it is missing, and return the contents of its header file."""
        path = self.folder / STORE_FILE
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                write_atomically(path, _header(shards, metadata))
            found: Any = json.loads(path.read_text())
        except (OSError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise StoreError(f"{self.folder} cannot be a store of models: {reason}") from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            number = found.get("format") if isinstance(found, dict) else None
            raise StoreError(f"{path} has format {number!r}, not {FORMAT}")
        count = found.get("shards")
        valid = type(count) is int and 1 <= count <= MOST_SHARDS
        if not valid or type(found.get("metadata")) is not dict:
            raise StoreError(f"{path} is damaged")
        return found

    def write_metadata(self, metadata: dict[str, Any]) -> None:
        """Replace the metadata of the store; all values must be JSON."""
        self._write_header(self.folder, metadata)
        self.metadata = metadata

    def _write_header(self, folder: Path, metadata: dict[str, Any]) -> None:
        try:
            write_atomically(folder / STORE_FILE, _header(self.shards, metadata))
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error.strerror or error}") from None

    # -- models ----------------------------------------------------------------------------------

    def get(self, text: str) -> tuple[Any, Any] | None:
        """Return the model and the notes of an encoded key, or None.

        A model that has learned is `put` again.
        """
        with self._lock:
            entry = self._find(text)
            return None if entry is None else (entry.model, entry.notes)

    def put(self, text: str, model: Any, notes: Any = None) -> None:
        """Store a model and JSON notes; both are on disk after the next `flush`."""
        with self._lock:
            entry = self._models.get(text)
            if entry is None:
                self._check_open_here(text)
                self._models[text] = _Entry(model, notes, True)
            else:
                entry.model, entry.notes, entry.changed = model, notes, True
            self._models.move_to_end(text)
            self._evict()

    def discard(self, text: str) -> None:
        """Delete a model, if there is one."""
        with self._lock:
            self._models.pop(text, None)
            self._file(text).remove(text)

    def _find(self, text: str) -> _Entry | None:
        entry = self._models.get(text)
        if entry is None:
            found = self._file(text).read(text)
            if found is None:
                return None
            data, notes = found
            name = f"the model of key {text} in {self.folder}"
            try:
                model = files.from_bytes(data, "it", tried=False)
                self.check(model)
            except (files.ModelFileError, StateError) as error:
                reason = " ".join(str(error).split())
                raise StoreError(f"{name} cannot be used: {reason}") from None
            entry = self._models[text] = _Entry(model, notes, False)
            self._evict(text)
        self._models.move_to_end(text)
        return entry

    def _evict(self, wanted: str | None = None) -> None:
        """Write back the least recently used models, except for the wanted one."""
        extra = len(self._models) - self.cache_size
        if extra <= 0:
            return
        free = (text for text in self._models if text != wanted)
        for text in list(islice(free, extra)):
            self._write(text, self._models[text])
            del self._models[text]

    def _write(self, text: str, entry: _Entry) -> None:
        if entry.changed:
            self._file(text).write(text, files.to_bytes(entry.model), entry.notes)
            entry.changed = False

    # -- shards ----------------------------------------------------------------------------------

    def _file(self, text: str) -> Shard:
        self._check_open_here(text)
        return self.shard(shard_of(text, self.shards))

    def _check_open_here(self, text: str) -> None:
        number = shard_of(text, self.shards)
        if number not in self._only:
            raise StoreError(f"key {text} belongs to shard {number}, which is not open here")

    def shard(self, number: int) -> Shard:
        """Return the file of a shard, opened on first use."""
        if number not in self._files:
            self._files[number] = Shard(self.folder / _shard_name(number))
        return self._files[number]

    def _existing(self) -> list[int]:
        """Return the numbers of the shards that have a file: the others have no models."""
        return [number for number in self._only if (self.folder / _shard_name(number)).exists()]

    def flush(self, position: int | None = None, extra: bytes | None = None) -> None:
        """Write all models to disk, one transaction per shard, with a position and bytes if given.

        A store of one shard thus has all of them, or none, after a crash.
        """
        with self._lock:
            self.write_changed()
            numbers = self._only if position is not None else list(self._files)
            for number in numbers:
                self.shard(number).commit(position, extra)

    def __len__(self) -> int:
        with self._lock:
            self.write_changed()
            return sum(self.shard(number).count() for number in self._existing())

    def __contains__(self, key: Key) -> bool:
        with self._lock:
            text = encode_key(key)
            return text in self._models or self._file(text).has(text)

    def __iter__(self) -> Iterator[Key]:
        return (key for key, _ in self.items())

    def items(self) -> Iterator[tuple[Key, Any]]:
        """Yield all keys with their notes, shard by shard; models are not read."""
        with self._lock:
            self.write_changed()
        for number in self._existing():
            with self._lock:
                self.write_changed()
                found = list(self.shard(number).notes())
            for text, notes in found:
                try:
                    key = decode_key(text)
                except (ValueError, TypeError, RecursionError):
                    shown = repr(text)[:80]
                    raise StoreError(f"{self.folder} is damaged: {shown} is not a key") from None
                yield key, notes

    def write_changed(self) -> None:
        """Write all changed models; they take effect at the next commit."""
        for text, entry in self._models.items():
            self._write(text, entry)

    def copy_to(self, folder: str | Path) -> None:
        """Copy the store to another folder."""
        folder = Path(folder)
        self.flush()
        with self._lock:
            numbers = self._existing()
            for number in numbers:
                self.shard(number)  # raises if another process has it, before anything is written
            folder.mkdir(parents=True, exist_ok=True)
            for number in numbers:
                name = _shard_name(number)
                part = folder / f".{name}.part"
                part.unlink(missing_ok=True)
                self.shard(number).copy_to(part)
                part.replace(folder / name)
            self._write_header(folder, self.metadata)

    def close(self) -> None:
        """Flush and close the files."""
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Close the files without flushing; changes since the last flush are lost."""
        with self._lock:
            self._models.clear()
            for file in self._files.values():
                file.close()
            self._files.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Backup:
    """The models of a call of `Keyed` before the call, restored if the call raises.

    The file has a model that did not change since it was read: its row is backed up in the file, in
    case the model is written during the call. A changed model is copied in memory; there are at
    most as many copies as the store has models in memory. A new model is deleted.
    """

    def __init__(self, store: ModelStore) -> None:
        self._store = store
        self._copies: dict[str, tuple[Any, Any]] = {}
        self._on_disk: list[str] = []
        self._new: list[str] = []

    def add(self, text: str) -> None:
        """Back up the model of a key."""
        with self._store._lock:
            entry = self._store._find(text)
            if entry is None:
                self._new.append(text)
            elif entry.changed:
                self._copies[text] = copy.deepcopy((entry.model, entry.notes))
            else:
                self._store._file(text).back_up(text)
                self._on_disk.append(text)

    def restore(self) -> None:
        """Restore all models."""
        with self._store._lock:
            for text in self._new:
                self._store.discard(text)
            for text in self._on_disk:
                self._store._models.pop(text, None)
                self._store._file(text).restore_backup(text)
            for text, (model, notes) in self._copies.items():
                self._store.put(text, model, notes)

    def delete(self) -> None:
        """Delete the backups after a call that did not raise."""
        with self._store._lock:
            for text in self._on_disk:
                self._store._file(text).delete_backup(text)
