"""Keyed models in the service: one model per key, in the store that `pronk run --by` uses.

The models are in one file of a folder beside the journal. A snapshot writes them there with their
version and the scores, in one transaction; after a crash the file is as the last snapshot left it,
and the journal is replayed from that version.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pronk.core.state import require
from pronk.estimators import files
from pronk.estimators.waiting import Line
from pronk.keyed import Keyed
from pronk.serve import recovery
from pronk.serve.journal import Entry, Journal, ModelRow
from pronk.serve.online import Array, OnlineModel, finite_or_none
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
        self.learner = Keyed(
            self.learner, self.spec.key, folder=place, cache_size=CACHE_SIZE, shards=1
        )
        self.learner.between_keys = self.lock.release_and_reacquire
        shard = self.learner.store.shard(0)
        if shard.extra is not None:
            self.restore(files.decode(shard.extra, place)[0]["state"], place)
            require(self.version == shard.position, "its scores are of another version")
        # Before a replay, new keys start from the targets that the scores have counted.
        self.learner.prior = copy.deepcopy(self.scores.baseline)

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
        self, entries: Sequence[Entry], X: Array, y: NDArray[Any], lines: Sequence[Line]
    ) -> tuple[NDArray[Any], Array | None]:
        keys = [key for entry in entries for key in self.columns.keys(entry.rows or b"")]
        with self.lock:
            return np.asarray(self.learner.predict_then_learn(X, y, keys=keys)), None

    def flush(self) -> None:
        """Write the models of all keys, their version and the scores to disk."""
        with self.lock:
            self.learner.flush(self.version, files.encode(files.CHECKPOINT, {}, self.tree()))

    def close(self) -> None:
        """Close the store without writing; later rows are in the journal."""
        self.learner.abandon()


def restored(journal: Journal, row: ModelRow, folder: Path, log: recovery.Log) -> OnlineModel:
    """Return a keyed model as its store has it; its journal is not replayed."""
    generation = journal.last_rollback(row.number) or row.start
    place = store_folder(folder, row.name, generation)
    try:
        online = KeyedOnlineModel(row, place)
        if online.version >= row.dropped:
            return online
        online.close()
        reason = f"the journal was dropped up to {row.dropped}, the models are older"
    except Exception as error:  # a damaged file may raise anything
        if not row.dropped:
            log("store of keys recreated", model=row.name, reason=str(error))
            shutil.rmtree(place, ignore_errors=True)
            return KeyedOnlineModel(row, place)
        reason = str(error)
    return recovery.unusable(OnlineModel(row), reason, log)


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
