"""Keyed models in the service: one model per key, in the store that `pronk run --by` uses.

The models are in the shards of a folder beside the journal. Each shard records the sequence number
up to which it has learned. After a crash a shard is in the state of its last snapshot; the replay
learns in every shard the rows that it has not learned, and reads the predictions for other rows
from the stored answers. The models of keys share nothing, and the targets of all keys, from which
new keys start, are counted again from those of the scores. So the result has the same bits as
without the crash.
"""

from __future__ import annotations

import copy
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
from pronk.serve.journal import Entry, Journal, ModelRow
from pronk.serve.online import Array, LiveScores, OnlineModel, finite_or_none
from pronk.serve.rows import Answer
from pronk.serve.spec import HTTPError

#: Models of keys in memory, per keyed model.
CACHE_SIZE = 1000


def store_folder(folder: Path, name: str, generation: int) -> Path:
    """Return the folder of the keys' models; each rollback starts a new generation."""
    return folder / f"{name}-{generation}.keys"


class KeyedOnlineModel(OnlineModel):
    """Predict and learn with one model per key."""

    def __init__(self, row: ModelRow, place: Path) -> None:
        super().__init__(row)
        self.place = place
        self.learner = Keyed(self.learner, by=self.spec.key, folder=place, cache_size=CACHE_SIZE)
        self.learner.between_keys = self.lock.release_and_reacquire
        self.positions = self.learner.store.positions()

    @property
    def points(self) -> int:
        return 0

    @property
    def outputs(self) -> list[str]:
        return ["prediction"]

    @property
    def keys(self) -> int:
        """Count the keys that have a model."""
        return len(self.learner)

    @property
    def _blind(self) -> int:
        return int(not self.scores.rows)  # new keys start from the targets of the others

    def start_again(self) -> None:
        """Let new keys start from the targets that the scores have counted, before a replay."""
        self.learner.prior = copy.deepcopy(self.scores.baseline)

    def predict(self, packed: bytes, waits: bool = False, later: bool = False) -> Answer:
        X, keys = self.columns.matrix(packed), self.columns.keys(packed)
        with self.lock:
            if self._blind:
                return Answer(self.version, [None] * len(X), untrained=True)
            found = finite_or_none(np.asarray(self.learner.predict(X, keys=keys)))
            return Answer(self.version, found)

    def frozen(self) -> OnlineModel:
        """Return the model itself: its keys are too many for a copy."""
        return self

    def _learn_rows(
        self, entries: Sequence[Entry], X: Array, y: NDArray[Any]
    ) -> tuple[NDArray[Any], Array | None]:
        keys = [key for entry in entries for key in self.columns.keys(entry.rows or b"")]
        with self.lock:
            return np.asarray(self.learner.predict_then_learn(X, y, keys=keys)), None

    def relearn(self, entries: Sequence[Entry], stored: list[Answer] | None) -> list[Answer]:
        """Learn a block of the journal that some shards may have learned already."""
        last = entries[-1].sequence
        if all(position < last for position in self.positions.values()):
            return self.learn(entries)
        if stored is None:
            raise StoreError("the answers of a learned block are missing")
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
        with self.lock:
            prior, firsts = self.learner.count_targets(y)
            if todo.any():
                left = [key for key, wanted in zip(keys, todo, strict=True) if wanted]
                self.learner._predict_then_learn(X[todo], y[todo], left, firsts[todo])
            self.learner.prior = prior
        given = self._scored([value for answer in stored for value in answer.prediction])
        P = np.array(given, dtype=np.float64 if self.spec.task == "regression" else object)
        self.scores.add(y, P, None, None, self._known(entries))
        self.rows_since_snapshot += len(y)
        return stored

    def tree(self) -> dict[str, Any]:
        return super().tree() | {"model": None}

    def flush(self) -> None:
        """Write the models of all keys and their version to disk."""
        with self.lock:
            self.learner.flush(self.version)

    def close(self) -> None:
        """Close the store without writing; later rows are in the journal."""
        self.learner.abandon()


def restored(journal: Journal, row: ModelRow, folder: Path, log: recovery.Log) -> OnlineModel:
    """Return a keyed model of its shards and the newest snapshot of its scores."""
    generation = max(
        (before for _, before in journal.rolled_back_ranges(row.number)), default=row.start
    )
    place = store_folder(folder, row.name, generation)
    try:
        try:
            online = KeyedOnlineModel(row, place)
        except StoreError as error:
            if row.dropped:
                raise
            log("store of keys recreated", model=row.name, reason=str(error))
            shutil.rmtree(place, ignore_errors=True)
            online = KeyedOnlineModel(row, place)
        learned = min(online.positions.values())
        for sequence, path in reversed(recovery.usable_snapshots(journal, row, folder).items()):
            if sequence > learned:
                continue  # the shards are older: they were recreated
            try:
                online.restore(files.load_checkpoint(path), path)
                break
            except Exception as error:  # a damaged file may raise anything
                log("snapshot skipped", model=row.name, file=path.name, reason=str(error))
                online.scores = LiveScores(online.spec.task)
        online.start_again()
        if online.version < row.dropped:
            raise StoreError(f"the journal was dropped up to {row.dropped}, the models are older")
    except StoreError as error:
        broken = OnlineModel(row)
        broken.broken = str(error)
        log("model not recovered", model=row.name, reason=broken.broken)
        return broken
    return online


def catch_up(journal: Journal, online: OnlineModel, log: recovery.Log) -> None:
    """Replay the journal in the shards that are behind it."""
    try:
        recovery.catch_up(journal, online, log)
    except StoreError as error:
        online.broken = str(error)
        log("model not recovered", model=online.name, reason=online.broken)


def rolled_back(journal: Journal, row: ModelRow, folder: Path, version: int) -> KeyedOnlineModel:
    """Return a keyed model at a version, learned again from the start of its journal."""
    if row.dropped:
        raise HTTPError(
            422,
            f"version {version} cannot be reached: a keyed model is rolled back by learning its "
            f"journal again, and rows up to {row.dropped} were dropped",
        )
    place = store_folder(folder, row.name, journal.sequence + 1)
    shutil.rmtree(place, ignore_errors=True)
    online = KeyedOnlineModel(row, place)
    recovery.replay(journal, online, version)
    online.flush()
    return online


def remove_stores(folder: Path, name: str, keep: Path | None = None) -> None:
    """Remove the stores of a keyed model, except for the folder to keep."""
    for path in folder.glob(f"{name}-*.keys"):
        if path != keep and path.name.removeprefix(f"{name}-").removesuffix(".keys").isdigit():
            shutil.rmtree(path, ignore_errors=True)
