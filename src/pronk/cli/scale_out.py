"""`pronk run` with one model per key (--by), on several cores (--workers)."""

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

from pronk.cli.screen import CommandError
from pronk.data import Prepared, Preparing, Reading, StreamError
from pronk.estimators import files
from pronk.estimators.targets import scales_targets
from pronk.keyed import Keyed, StoreError
from pronk.keyed.keys import Keys
from pronk.keyed.learner import learner_of
from pronk.keyed.workers import KeyedWorkers

if TYPE_CHECKING:
    from pronk.cli.run import RunOptions


def local_workers(workers: int | None, cluster: str | None) -> int | None:
    """Return the workers of a run: ``--cluster local:N`` is ``--workers N``."""
    if cluster is None:
        return workers
    if workers is not None:
        raise CommandError("--workers and --cluster exclude each other: choose one")
    kind, _, number = cluster.partition(":")
    if kind != "local":
        raise CommandError(
            f"--cluster: {cluster!r} must be local:N, which is --workers N; a pass is not split "
            "over machines; for one model per key on Spark or Kafka see pronk.spark and pronk.step"
        )
    if not number.isdigit() or not int(number):
        raise CommandError(f"--cluster: {cluster!r} must be local:N with N processes")
    return int(number)


# -- one model per key (--by) ----------------------------------------------------------------------

#: File in a folder of models with the training record: target, metrics, files learned.
RECORD = "run.pronk"
#: Numbers in a block of keyed rows, its least and most rows: each model is read and written once
#: per block.
NUMBERS, LEAST, MOST = 1 << 23, 1 << 12, 1 << 21


def keyed_rows(columns: int) -> int:
    """Return the rows of a block with one model per key."""
    return max(LEAST, min(MOST, NUMBERS // (columns + 1)))


def with_key(reading: Reading, by: str) -> Reading:
    """Keep the column of keys, which is not a feature."""
    if by == reading.target:
        raise CommandError(f"--by: {by!r} is the target")
    if reading.target is not None and "," in reading.target:
        raise CommandError("--by supports one target; name one with --target")
    keep = reading.keep if by in reading.keep else (*reading.keep, by)
    return replace(reading, by=by, keep=keep, drop=(*reading.drop, by))


@contextmanager
def key_errors(by: str | None) -> Iterator[None]:
    """Report a missing column of keys as an error of --by."""
    try:
        yield
    except StreamError as error:
        if by is None or error.column != by or error.argument not in ("drop", "keep"):
            raise
        raise error.changed(argument="by") from None


#: Attributes of the keyed models that a `KeyedRun` has too.
_DELEGATED = ("feature_names_in_", "n_features_in_", "kinds_", "orders_", "missing", "n_seen_")


class KeyedRun:
    """Keyed models with the interface of a single model: the last column of its rows is the key.

    `with_keys` adds that column: numbers of keys in the order of their first rows.
    """

    training_record_: dict[str, Any]

    def __init__(self, keyed: Keyed) -> None:
        if keyed.by is None or isinstance(keyed.by, int):
            raise CommandError(
                f"--model: the models in {str(keyed.folder)!r} were made without the name of a "
                "column of keys; make them with by='NAME'"
            )
        self.keyed, self.by = keyed, keyed.by
        self.learner = learner_of(keyed.learner)
        self.without_model = 0  # rows predicted for keys without a model
        self._numbers: dict[Any, int] = {}  # of the keys so far
        self._models: Any = keyed  # or workers that share the models

    @classmethod
    def load(cls, path: Path) -> KeyedRun:
        """Load the models of a folder, with their training record."""
        found = cls(Keyed.open(path))
        record = training_record_in(path)
        if record is not None:
            found.training_record_ = record
        return found

    def move_to(self, folder: Path | None) -> None:
        """Copy the models to another folder and use the copy."""
        if folder is not None and folder.resolve() != self.keyed.store.folder.resolve():
            self.keyed.save(folder)
            self.keyed.close()
            self.keyed = self._models = Keyed.open(folder)

    def abandon(self) -> None:
        """Close the files; models that were not saved are lost."""
        self.keyed.abandon()

    def with_keys(self, X: NDArray[np.float64], kept: Any) -> NDArray[np.float64]:
        """Return rows with the column of their keys."""
        found = Keys.from_values(kept.column(self.by))
        numbers = [self._numbers.setdefault(key, len(self._numbers)) for key in found.values]
        return np.column_stack((X, np.array(numbers, dtype=np.float64)[found.codes]))

    def _split(self, X: NDArray[np.float64]) -> tuple[NDArray[np.float64], Keys]:
        codes = X[:, -1].astype(np.int64)
        return np.ascontiguousarray(X[:, :-1]), Keys(list(self._numbers), codes)

    def predict_then_learn(self, X: NDArray[np.float64], y: NDArray[Any], **options: Any) -> Any:
        rows, keys = self._split(X)
        return self._models.predict_then_learn(rows, y, keys, **options)

    def partial_fit(self, X: NDArray[np.float64], y: NDArray[Any], **options: Any) -> KeyedRun:
        self.predict_then_learn(X, y, **options)
        return self

    def predict(self, X: NDArray[np.float64]) -> NDArray[Any]:
        rows, keys = self._split(X)
        known = np.array([key in self.keyed for key in keys.values], dtype=bool)
        self.without_model += int(np.count_nonzero(~known[keys.codes]))
        found: NDArray[Any] = self._models.predict(rows, keys)
        return found

    def predict_quantiles(self, X: NDArray[np.float64], quantiles: Any) -> NDArray[Any]:
        rows, keys = self._split(X)
        found: NDArray[Any] = self._models.predict_quantiles(rows, quantiles, keys)
        return found

    @contextmanager
    def on_workers(self, workers: int | None) -> Iterator[None]:
        """Share the calls among processes, if there are any."""
        if workers is None:
            yield
            return
        with KeyedWorkers(self.keyed, workers) as self._models:
            try:
                yield
            except BrokenProcessPool:
                raise CommandError(
                    "--workers: a process was killed, most likely out of memory; use fewer", 1
                ) from None
            finally:
                self._models = self.keyed

    def save(self, path: Any) -> None:
        """Write the models and their training record to a folder."""
        self.keyed.save(path)
        files.save_checkpoint({"training_record": self.training_record_}, Path(path) / RECORD)

    def model_of_new_key(self) -> Any:
        """Return the model of a new key."""
        return self.keyed._new_model("")

    @property
    def classes_(self) -> list[str]:
        return ["of each", "key"]

    @property
    def labels_(self) -> Any:
        """The labels of one key, which have the type of all labels."""
        for key in self.keyed:
            return self.keyed[key].classes_
        return [""]

    # Columns and their preparation, as for a single model.

    def __getattr__(self, name: str) -> Any:
        if name in _DELEGATED:
            return getattr(self.keyed, name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def preparing(self) -> Preparing:
        """The preparation of the columns."""
        how = self.keyed.learner
        if not isinstance(how, Prepared):
            return Preparing("none", scale_target="none")
        return Preparing(how.scaling_, how.encoding, how.slots, how.scale_target)

    @property
    def target_scaled_(self) -> bool:
        """Return whether the learner of each key gets (y - mean) / deviation."""
        return scales_targets(self.learner, self.preparing.scale_target)

    def __sklearn_tags__(self) -> Any:
        return self.learner.__sklearn_tags__()


def training_record_in(folder: Path) -> dict[str, Any] | None:
    """Return the training record of a folder of models; None if it has none."""
    if not (folder / RECORD).exists():
        return None
    record: dict[str, Any] = files.load_checkpoint(folder / RECORD)["training_record"]
    return record


@contextmanager
def models_folder(job: RunOptions) -> Iterator[Path | None]:
    """Return the folder that a run writes its models to.

    Workers write to a temporary copy beside the folder of --save, so that a failed run does not
    change the models.
    """
    if job.workers is None:
        yield job.save
        return
    beside = None
    if job.save is not None:
        beside = job.save.absolute().parent
        beside.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".pronk-keyed-", dir=beside) as folder:
        if job.save is not None and (job.save / "store.json").exists():
            try:
                before = Keyed.open(job.save)
                before.save(folder)
                before.close()
            except StoreError as error:
                raise CommandError(f"--save: {error}") from None
        yield Path(folder)
