"""Many models in a folder, a bounded number of them in memory.

Keys are hashed into shards; a shard is one SQLite file with a row a model, the bytes of its model
file. A model is read when it is asked for. When more are held than allowed, the ones that were
not used for longest are written back. What is written counts from the next `flush` on: after a
crash every shard is as its last flush left it. `flush` may leave a mark, a number that stands in
the shard with what it speaks of; whoever feeds the store sees by it which rows a shard has.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Self

from pronk.core.state import StateError
from pronk.estimators import files
from pronk.keyed.keys import Key, decoded, encoded, shard_of

# ----------------------------------------------------------------------------------------
# One shard of a store: an SQLite file with a row a model.

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


__all__ = ["ModelStore", "StoreError"]

#: The file that tells how a folder is laid out.
LAYOUT = "store.json"
FORMAT = 1
#: Files of a store at most.
MOST_SHARDS = 4096


@dataclass
class _Held:
    """A model in memory."""

    model: Any
    notes: Any
    changed: bool
    users: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)


class ModelStore:
    """Models by key, in files of ``folder``; safe to be used by several threads.

    Parameters
    ----------
    folder : directory, made if it is not there
    shards : int, default 16
        Files; fixed when the folder is made.
    held : int, default 1000
        Most models in memory.
    only : numbers of shards, optional
        A process that works on some shards opens no others.
    about : dict, optional
        Anything JSON that is kept in the folder when it is made.

    Examples
    --------
    >>> import tempfile
    >>> import pronk
    >>> from pronk.keyed import ModelStore
    >>> store = ModelStore(tempfile.mkdtemp())
    >>> with store.hold("sensor 7", make=lambda key: pronk.make("fogd", random_state=0)) as model:
    ...     prediction = model.predict_then_learn([[0.5]], [1.0])
    >>> store.flush()
    >>> print(len(store), store.get("sensor 7").n_seen_, store.get("sensor 8"))
    1 1 None
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        shards: int = 16,
        held: int = 1000,
        only: Any = None,
        about: dict[str, Any] | None = None,
    ) -> None:
        if shards < 1 or held < 1:
            raise ValueError(f"shards and held must be at least 1, got {shards} and {held}")
        if shards > MOST_SHARDS:
            raise ValueError(f"shards must be at most {MOST_SHARDS}, got {shards}")
        self.folder = Path(folder)
        self.held = held
        #: Raises a StateError for a model of a file that is not of the kind of the others.
        self.check: Callable[[Any], None] = lambda model: None
        layout = self._layout(shards, about or {})
        self.shards, self.about = int(layout["shards"]), layout["about"]
        self._only = range(self.shards) if only is None else sorted(only)
        self._files: dict[int, Shard] = {}
        self._models: OrderedDict[str, _Held] = OrderedDict()
        self._lock = threading.RLock()

    def _layout(self, shards: int, about: dict[str, Any]) -> dict[str, Any]:
        place = self.folder / LAYOUT
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                layout = {"format": FORMAT, "shards": shards, "about": about}
                files.write_atomically(place, json.dumps(layout, indent=1).encode())
            found: Any = json.loads(place.read_text())
        except (OSError, ValueError, RecursionError) as error:
            reason = " ".join(str(error).split())
            raise StoreError(f"{self.folder} cannot be a store of models: {reason}") from None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            held = found.get("format") if isinstance(found, dict) else None
            raise StoreError(f"{place} has format {held!r}, not {FORMAT}")
        number, told = found.get("shards"), found.get("about")
        if type(number) is not int or not 1 <= number <= MOST_SHARDS or type(told) is not dict:
            raise StoreError(f"{place} is damaged")
        return found

    def describe(self, about: dict[str, Any]) -> None:
        """Write anything JSON about the models into the folder, in place of what was there."""
        self._write_layout(self.folder, about)
        self.about = about

    def _write_layout(self, folder: Path, about: dict[str, Any]) -> None:
        layout = {"format": FORMAT, "shards": self.shards, "about": about}
        try:
            files.write_atomically(folder / LAYOUT, json.dumps(layout, indent=1).encode())
        except OSError as error:
            raise StoreError(f"{folder} cannot be written: {error.strerror or error}") from None

    # -- models ----------------------------------------------------------------------------------

    def get(self, key: Key) -> Any | None:
        """The model of a key, None if there is none. To learn with it, use `hold`."""
        with self._lock:
            entry = self._find(encoded(key))
            return None if entry is None else entry.model

    def notes(self, key: Key) -> Any:
        """What was put beside a model."""
        with self._lock:
            entry = self._find(encoded(key))
            return None if entry is None else entry.notes

    def put(self, key: Key, model: Any, notes: Any = None) -> None:
        """Keep a model, and anything JSON beside it; written by the next `flush` or before."""
        self.put_text(encoded(key), model, notes)

    def put_text(self, text: str, model: Any, notes: Any = None) -> None:
        """As `put`, for an encoded key."""
        with self._lock:
            entry = self._models.get(text)
            if entry is None:
                self._check_mine(text)
                self._models[text] = _Held(model, notes, True)
            else:
                entry.model, entry.notes, entry.changed = model, notes, True
            self._models.move_to_end(text)
            self._push_out()

    def get_text(self, text: str) -> tuple[Any, Any] | None:
        """Model and notes of an encoded key."""
        with self._lock:
            entry = self._find(text)
            return None if entry is None else (entry.model, entry.notes)

    # -- models as they were: see `Keyed` ----------------------------------------------------------

    def is_changed(self, text: str) -> bool:
        """Whether a model in memory differs from that of its file."""
        with self._lock:
            entry = self._models.get(text)
            return entry is not None and entry.changed

    def keep_row(self, text: str) -> None:
        """Keep the row of a model in its file, whatever is written to it meanwhile."""
        with self._lock:
            self._file(text).keep(text)

    def put_back_row(self, text: str) -> None:
        """Let a model be what `keep_row` has kept."""
        with self._lock:
            self._models.pop(text, None)
            self._file(text).put_back(text)

    def forget_rows(self, texts: Sequence[str]) -> None:
        """Remove what `keep_row` has kept."""
        with self._lock:
            for text in texts:
                self._file(text).forget(text)

    @contextmanager
    def hold(self, key: Key, make: Callable[[Key], Any] | None = None) -> Iterator[Any]:
        """The model of a key for one thread at a time; it is kept when the block ends well.

        ``make`` builds the model of a key that has none; without it that is a KeyError.
        """
        text = encoded(key)
        with self._lock:
            entry = self._find(text)
            if entry is None:
                if make is None:
                    raise KeyError(key)
                self._check_mine(text)
                entry = self._models[text] = _Held(make(key), None, False)
            entry.users += 1
        try:
            with entry.lock:
                yield entry.model
                entry.changed = True
        finally:
            with self._lock:
                entry.users -= 1
                if not entry.users and not entry.changed and not self._on_disk(text):
                    del self._models[text]  # the first use of a key failed
                self._push_out()

    def discard(self, key: Key) -> None:
        """Forget a model, if there is one."""
        text = encoded(key)
        with self._lock:
            self._models.pop(text, None)
            self._file(text).remove(text)

    def _find(self, text: str) -> _Held | None:
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
            entry = self._models[text] = _Held(model, notes, False)
            self._push_out(text)
        self._models.move_to_end(text)
        return entry

    def _push_out(self, wanted: str | None = None) -> None:
        """Write back what was not used for longest; a model that is held or wanted stays."""
        extra = len(self._models) - self.held
        if extra <= 0:
            return
        free = (text for text, entry in self._models.items() if not entry.users and text != wanted)
        for text in list(islice(free, extra)):
            self._write(text, self._models[text])
            del self._models[text]

    def _write(self, text: str, entry: _Held) -> None:
        if entry.changed:
            self._file(text).write(text, files.to_bytes(entry.model), entry.notes)
            entry.changed = False

    # -- shards ----------------------------------------------------------------------------------

    def _file(self, text: str) -> Shard:
        self._check_mine(text)
        return self.shard(shard_of(text, self.shards))

    def _check_mine(self, text: str) -> None:
        number = shard_of(text, self.shards)
        if number not in self._only:
            raise StoreError(f"key {text} belongs to shard {number}, which is not open here")

    def shard(self, number: int) -> Shard:
        """The file of a shard; opened when first needed."""
        if number not in self._files:
            self._files[number] = Shard(self.folder / f"shard-{number:03d}.sqlite")
        return self._files[number]

    def _on_disk(self, text: str) -> bool:
        return self._file(text).has(text)

    def flush(self, mark: int | None = None) -> None:
        """Let all models reach the disk, a transaction a shard, with the mark if there is one."""
        with self._lock:
            held = list(self._models.items())
        for text, entry in held:
            # A thread that holds a model may use the store: its lock comes first, here as there.
            with entry.lock, self._lock:
                self._write(text, entry)
        with self._lock:
            numbers = self._only if mark is not None else list(self._files)
            for number in numbers:
                self.shard(number).commit(mark)

    def marks(self) -> dict[int, int]:
        """The mark of each shard: what the last flush with one left."""
        with self._lock:
            return {number: self.shard(number).mark for number in self._only}

    def __len__(self) -> int:
        with self._lock:
            self.write_changed()
            return sum(self.shard(number).count() for number in self._only)

    def __contains__(self, key: Key) -> bool:
        with self._lock:
            text = encoded(key)
            return text in self._models or self._on_disk(text)

    def __iter__(self) -> Iterator[Key]:
        return (key for key, _ in self.items())

    def items(self) -> Iterator[tuple[Key, Any]]:
        """All keys with their notes, shard by shard; models are not read."""
        for number in self._only:
            with self._lock:
                self.write_changed()
                found = list(self.shard(number).notes())
            for text, notes in found:
                try:
                    key = decoded(text)
                except (ValueError, TypeError, RecursionError):
                    shown = repr(text)[:80]
                    raise StoreError(f"{self.folder} is damaged: {shown} is no key") from None
                yield key, notes

    def write_changed(self) -> None:
        """Write all models but those that are held by a thread; `flush` lets them count."""
        for text, entry in self._models.items():
            if not entry.users:
                self._write(text, entry)

    def forget_answers(self) -> None:
        """Answers that were kept for tasks done again; see `pronk.keyed.workers`."""
        with self._lock:
            for number in self._only:
                self.shard(number).forget_answers()

    def copy_to(self, folder: str | Path) -> None:
        """Write all models into another folder, which is then a store of its own."""
        folder = Path(folder)
        self.flush()
        with self._lock:
            folder.mkdir(parents=True, exist_ok=True)
            for number in self._only:
                name = f"shard-{number:03d}.sqlite"
                part = folder / f".{name}.part"
                part.unlink(missing_ok=True)
                self.shard(number).copy_to(part)
                part.replace(folder / name)
            self._write_layout(folder, self.about)

    def close(self) -> None:
        """Flush and leave the files."""
        self.flush()
        self.abandon()

    def abandon(self) -> None:
        """Leave the files; what was not flushed is gone."""
        with self._lock:
            self._models.clear()
            for file in self._files.values():
                file.close()
            self._files.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
