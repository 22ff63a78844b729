"""Keyed models online: one model a key, in the store that `pronk run --by` uses.

The models are in the shards of a folder beside the journal, each shard with the sequence number up
to which it has learned. After a crash a shard is as its last snapshot left it; the replay gives
every shard the rows that it does not have yet, and takes the predictions of the others from the
stored answers. Keys share nothing, so the bits are those of a server that was never stopped.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.estimators import files
from pronk.keyed import Keyed, StoreError
from pronk.keyed.keys import encode_key, shard_of
from pronk.serve import recovery
from pronk.serve.errors import Refused
from pronk.serve.journal import Entry, Journal, ModelRow
from pronk.serve.online import Array, LiveScores, Online, finite_or_none
from pronk.serve.rows import Answer

#: Models in memory, of each keyed model.
HELD = 1000


def store_folder(folder: Path, name: str, generation: int) -> Path:
    """Where the models of the keys are; a rollback begins a new generation."""
    return folder / f"{name}-{generation}.keys"


class KeyedOnline(Online):
    """A template, and the models of the keys."""

    def __init__(self, row: ModelRow, place: Path) -> None:
        super().__init__(row)
        self.place = place
        self.learner = Keyed(self.learner, by=self.spec.key, folder=place, cache_size=HELD)
        self.learner.between_keys = self.lock.let_pass
        self.positions = self.learner.store.positions()

    @property
    def points(self) -> int:
        return 0

    @property
    def keys(self) -> int:
        """How many keys have a model."""
        return len(self.learner)

    def predict(self, packed: bytes) -> Answer:
        X, keys = self.columns.matrix(packed), self.columns.keys(packed)
        with self.lock:
            missing = {key for key in set(keys) if key not in self.learner}
            found = finite_or_none(np.asarray(self.learner.predict(X, keys=keys)))
            version = self.version
        prediction = [
            None if key in missing else value for key, value in zip(keys, found, strict=True)
        ]
        return Answer(version, prediction, untrained=missing.issuperset(keys))

    def _pass(
        self, entries: Sequence[Entry], X: Array, y: NDArray[Any]
    ) -> tuple[NDArray[Any], Array | None]:
        keys = [key for entry in entries for key in self.columns.keys(entry.rows or b"")]
        with self.lock:
            return np.asarray(self.learner.predict_then_learn(X, y, keys=keys)), None

    def relearn(self, entries: Sequence[Entry], stored: list[Answer] | None) -> list[Answer]:
        """A block of the journal, of which some shards may have learned their part."""
        last = entries[-1].sequence
        if all(position < last for position in self.positions.values()):
            return self.learn(entries)
        if stored is None:
            raise StoreError("the answers of a block that is learned are missing")
        if any(answer.error for answer in stored) and len(entries) > 1:
            pairs = zip(entries, stored, strict=True)
            return [self.relearn([entry], [answer])[0] for entry, answer in pairs]
        self.version = last
        if stored[0].error:
            return stored
        X = np.concatenate([self.columns.matrix(entry.rows or b"") for entry in entries])
        keys = [key for entry in entries for key in self.columns.keys(entry.rows or b"")]
        y = self._targets(entries)
        shards = [shard_of(encode_key(key), self.learner.shards) for key in keys]
        todo = np.array([self.positions[shard] < last for shard in shards])
        if todo.any():
            left = [key for key, wanted in zip(keys, todo, strict=True) if wanted]
            with self.lock:
                self.learner.predict_then_learn(X[todo], y[todo], keys=left)
        given = self._scored([value for answer in stored for value in answer.prediction])
        P = np.array(given, dtype=np.float64 if self.spec.task == "regression" else object)
        self.scores.add(y, P, None, None)
        self.rows_since_snapshot += len(y)
        return stored

    def tree(self) -> dict[str, Any]:
        return super().tree() | {"model": None}

    def flush(self) -> None:
        """Let the models of all keys reach the disk, with the version they are of."""
        with self.lock:
            self.learner.flush(self.version)

    def close(self) -> None:
        """Leave the files as the last flush left them: what came after is in the journal."""
        self.learner.abandon()


def recover(journal: Journal, row: ModelRow, folder: Path, note: recovery.Note) -> Online:
    """A keyed model as it was: its shards, the newest snapshot of its scores, and the journal."""
    generation = max((before for _, before in journal.voided(row.number)), default=row.start)
    place = store_folder(folder, row.name, generation)
    try:
        try:
            online = KeyedOnline(row, place)
        except StoreError as error:
            if row.dropped:
                raise
            note("store of keys made anew", model=row.name, reason=str(error))
            shutil.rmtree(place, ignore_errors=True)
            online = KeyedOnline(row, place)
        learned = min(online.positions.values())
        for sequence, path in reversed(recovery.valid(journal, row, folder).items()):
            if sequence > learned:
                continue  # the shards are older: they were made anew
            try:
                online.restore(files.load_checkpoint(path), path)
                break
            except Exception as error:  # whatever stands in the file
                note("snapshot skipped", model=row.name, file=path.name, reason=str(error))
                online.scores = LiveScores(online.spec.task)
        if online.version < row.dropped:
            raise StoreError(f"the journal was dropped up to {row.dropped}, the models are older")
        recovery.replay(journal, online)
    except StoreError as error:
        broken = Online(row)
        broken.broken = str(error)
        note("model not recovered", model=row.name, reason=broken.broken)
        return broken
    online.waiting = journal.waiting(row.number)
    note("recovered", model=row.name, version=online.version)
    return online


def rolled_back(journal: Journal, row: ModelRow, folder: Path, version: int) -> KeyedOnline:
    """A keyed model as it was at a version, learned anew from the start of its journal."""
    if row.dropped:
        raise Refused(
            422,
            f"version {version} cannot be reached: rows up to {row.dropped} were dropped, and a "
            "keyed model goes back by learning its journal again",
        )
    place = store_folder(folder, row.name, journal.sequence + 1)
    shutil.rmtree(place, ignore_errors=True)
    online = KeyedOnline(row, place)
    recovery.replay(journal, online, version)
    online.flush()
    return online


def remove_stores(folder: Path, name: str, keep: Path | None = None) -> None:
    """Remove the models of a keyed model's keys, but for those of one generation."""
    for path in folder.glob(f"{name}-*.keys"):
        if path != keep and path.name.removeprefix(f"{name}-").removesuffix(".keys").isdigit():
            shutil.rmtree(path, ignore_errors=True)
