"""`pronk run --by`: a model a key, in this process or by workers, a task a shard."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pronk.cli.errors import CommandError
from pronk.cli.parallel import open_cluster
from pronk.keyed import Keyed, StoreError
from pronk.keyed.keys import Keys
from pronk.keyed.spread import Processes, SpreadKeyed
from pronk.streams.reading import Reading

if TYPE_CHECKING:
    from pronk.cli.run_options import RunOptions

#: Numbers of a block of keyed rows, and its rows at least and at most: each model is read and
#: written once a block.
NUMBERS, LEAST, MOST = 1 << 23, 1 << 12, 1 << 21


def keyed_rows(columns: int) -> int:
    """Rows of a block where each key has its model."""
    return max(LEAST, min(MOST, NUMBERS // (columns + 1)))


def with_key(reading: Reading, by: str) -> Reading:
    """The column of keys goes along and is no feature."""
    if by == reading.target:
        raise CommandError(f"--by: {by!r} is the target")
    if reading.target is not None and "," in reading.target:
        raise CommandError("--by: a model a key has one target; name one with --target")
    return replace(reading, keep=(*reading.keep, by), drop=(*reading.drop, by))


class KeyedRun:
    """Keyed models for a walk that gives rows in order: the keys are given beforehand."""

    def __init__(self, learner: Any, by: str, keyed: Keyed) -> None:
        self.learner, self.by, self.keyed = learner, by, keyed
        self._keys = Keys([], np.empty(0, dtype=np.int64))
        self._who: Any = keyed  # or workers

    def give(self, kept: Any) -> None:
        """The keys of the next rows; those before have been taken."""
        self._keys = Keys.of(kept.column(self.by))
        if None in self._keys.values:
            raise CommandError(f"--by: column {self.by!r} is empty in some row; fill it in")

    def _take(self, rows: int) -> Keys:
        taken, self._keys = self._keys[:rows], self._keys[rows:]
        return taken

    def predict_then_learn(self, X: NDArray[np.float64], y: NDArray[Any]) -> NDArray[Any]:
        found: NDArray[Any] = self._who.predict_then_learn(X, y, self._take(len(y)))
        return found

    def predict(self, X: NDArray[np.float64]) -> NDArray[Any]:
        found: NDArray[Any] = self._who.predict(X, self._take(len(X)))
        return found

    @contextmanager
    def shared(self, workers: int | None, cluster: str | None) -> Iterator[None]:
        """Let workers do the calls, where some are asked for."""
        if workers is None and cluster is None:
            yield
            return
        opened = Processes(workers) if workers is not None else open_cluster(str(cluster))
        with opened as client:
            self._who = SpreadKeyed(self.keyed, client)
            try:
                yield
            except BrokenProcessPool:
                raise CommandError(
                    "--workers: processes were lost again and again, most likely out of memory; "
                    "take fewer",
                    1,
                ) from None
            self._who = self.keyed

    def save(self, path: Any) -> None:
        self.keyed.store.forget_answers()
        self.keyed.save(path)

    @property
    def classes_(self) -> list[str]:
        return ["of each", "key"]

    def __sklearn_tags__(self) -> Any:
        return self.learner.__sklearn_tags__()


@contextmanager
def place_of_models(job: RunOptions, model: Any) -> Iterator[Path | None]:
    """The folder that a run learns in.

    Workers write to a copy beside that of --save, so that a run which fails leaves the models as
    they were; it is removed.
    """
    if job.workers is None and job.cluster is None:
        yield job.save
        return
    beside = None
    if job.save is not None:
        beside = job.save.absolute().parent
        beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pronk-keyed-", dir=beside) as folder:
        if job.save is not None and (job.save / "store.json").exists():
            before = Keyed(model, folder=job.save)
            try:
                before.save(folder)
            except StoreError as error:
                raise CommandError(f"--save: {error}") from None
            before.close()
        yield Path(folder)
