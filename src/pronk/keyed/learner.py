"""`Keyed`: one learner a key (a customer, a sensor), as one model.

Keys share nothing: the predictions of a key's rows are those of a learner of its own that gets its
rows alone, to the last bit where it gets them in the same calls. The rows of a call are sorted by
key and shard, so that each model is read and written once a call.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pronk.estimators import storage
from pronk.estimators.registry import make
from pronk.evaluate.metrics import DEFAULTS, Metric, get_metrics
from pronk.keyed.keys import Key, Keys, decoded, digest, groups
from pronk.keyed.rows import checked_rows, checked_targets, split_keys
from pronk.keyed.store import ModelStore, StoreError
from pronk.parts.interrupting import held_back
from pronk.parts.randomness import make_seed
from pronk.parts.state import require
from pronk.streams.prepared import Prepared

#: What a key gets where no learner is named: tens of points are plenty for what one key sees.
SMALL = {"features": "nystrom", "history": "projected", "budget": 32, "alpha": 0.1}


def small_learner(task: str = "regression", scaler: str = "minmax") -> Any:
    """The learner of a key where none is named: PKAWV with at most 32 points, on scaled columns."""
    learner = make("pkawv-nystrom", task, random_state=0, **SMALL)
    return learner if scaler == "none" else Prepared(learner, scale=scaler, scale_target="none")


def learner_of(model: Any) -> Any:
    """The learner, without the scaler before it."""
    return model.learner if isinstance(model, Prepared) else model


class Keyed:
    """One learner a key; a bounded number of them in memory, the others in files of a folder.

    Parameters
    ----------
    learner : a pronk learner, or `Prepared` around one; optional
        The settings of every key's learner; it is not learned with itself. By default a regressor
        (PKAWV) with at most 32 points. A learner that draws random numbers gets a seed of its own
        for each key, made of its ``random_state`` and the key.
    by : str or int, optional
        The column of X that holds the keys, by name (frames and tables) or number. Without it every
        call is given ``keys``.
    folder : directory, optional
        Where the models are kept; a folder that holds a store goes on from it. By default a
        temporary one that is removed with this object.
    held : int, default 1000
        Most models in memory.
    shards : int, default 16
        Files that the models are spread over.
    metrics : names, optional
        What is averaged for each key; "mse" and "mae" or "error".

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import pronk
    >>> rng = np.random.default_rng(0)
    >>> X = pd.DataFrame({"sensor": rng.choice(["a", "b"], 2000), "x": rng.uniform(-1, 1, 2000)})
    >>> y = np.where(X.sensor == "a", np.sin(3 * X.x), -np.sin(3 * X.x))
    >>> model = pronk.Keyed(pronk.PKAWVRegressor(budget=20, random_state=0), by="sensor")
    >>> predictions = model.predict_then_learn(X, y)
    >>> print(f"{len(model)} keys, mean squared error {model.metrics()['mse']:.3f}")
    2 keys, mean squared error 0.039
    """

    def __init__(
        self,
        learner: Any = None,
        by: str | int | None = None,
        *,
        folder: str | Path | None = None,
        held: int = 1000,
        shards: int = 16,
        metrics: Any = None,
    ) -> None:
        self.learner = small_learner() if learner is None else learner
        self.by = by
        self.folder = folder
        self.held = held
        self.shards = shards
        self._inner = inner = learner_of(self.learner)
        if callable(getattr(inner, "kernel", None)) and not hasattr(inner.kernel, "get_params"):
            raise ValueError("learner has a kernel function, which no file holds: name a kernel")
        self._classifies = self.__sklearn_tags__().estimator_type == "classifier"
        default = DEFAULTS["classification" if self._classifies else "regression"]
        self._metrics: list[Metric] = get_metrics(default if metrics is None else metrics)
        self._seed = make_seed(getattr(inner, "random_state", None))
        self._store: ModelStore | None = None
        self._columns: int | None = None

    # -- learning --------------------------------------------------------------------------------

    def predict_then_learn(
        self, X: Any, y: Any, keys: Sequence[Any] | NDArray[Any] | Keys | None = None
    ) -> NDArray[Any]:
        """Walk the rows in order, each through the learner of its key; see the learners' own.

        A refused call changes nothing. Ctrl-C waits for the end of the call, so that all keys have
        learned their rows; a second one does not wait.
        """
        rows, keys = self._rows(X, keys)
        targets = checked_targets(y, len(rows), self._classifies)
        grouped = groups(keys, self.store.shards)
        with held_back():
            return self._learn_groups(grouped, rows, targets)

    def _learn_groups(
        self, grouped: list[Any], rows: NDArray[np.float64], targets: NDArray[Any]
    ) -> NDArray[Any]:
        undo = _Undo(self.store, self._may_fail_midway())
        parts = []
        try:
            for text, numbers in grouped:
                parts.append(self._learn(text, rows[numbers], targets[numbers], undo))
        except BaseException as error:
            undo.put_back()
            if isinstance(error, ValueError):
                raise ValueError(f"key {text}: {error}") from None
            raise
        self._columns = rows.shape[1]
        return _in_order(parts, [numbers for _, numbers in grouped])

    def _learn(
        self, text: str, X: NDArray[np.float64], y: NDArray[Any], undo: _Undo
    ) -> NDArray[Any]:
        found = self.store.get_text(text)
        model, notes = found if found is not None else (self._fresh(text), None)
        notes = None if notes is None else self._noted(text, notes)
        undo.remember(text, model, notes, new=found is None)
        predictions: NDArray[Any] = model.predict_then_learn(X, y)
        sums = [float(metric.rows(y, predictions).sum()) for metric in self._metrics]
        if notes is not None:
            sums = [a + b for a, b in zip(notes[1:], sums, strict=True)]
        self.store.put_text(text, model, [len(y) + (notes[0] if notes else 0), *sums])
        return predictions

    def _may_fail_midway(self) -> bool:
        """Whether a learner may refuse rows that passed all checks."""
        inner = self._inner
        linear = getattr(inner, "_linear_in_targets", False) if self._classifies else True
        return not linear or bool(getattr(inner, "_may_overflow", lambda: False)())

    def _fresh(self, text: str) -> Any:
        """The learner of a new key."""
        template, seed = self.learner, (self._seed ^ digest(text)) & (2**63 - 1)
        model = clone(template)
        inner = learner_of(model)
        if hasattr(inner, "random_state"):
            inner.random_state = seed
        return model

    def partial_fit(self, X: Any, y: Any, keys: Any = None) -> Self:
        """Learn the rows in order."""
        self.predict_then_learn(X, y, keys)
        return self

    def predict(self, X: Any, keys: Any = None) -> NDArray[Any]:
        """Predictions by the current models; changes nothing.

        A key that has no model is predicted 0, or no label (None).
        """
        rows, keys = self._rows(X, keys)
        grouped = groups(keys, self.store.shards)
        parts = []
        for text, numbers in grouped:
            found = self.store.get_text(text)
            if found is not None:
                parts.append(np.asarray(found[0].predict(rows[numbers])))
            else:
                nothing: Any = None if self._classifies else 0.0
                parts.append(np.full(len(numbers), nothing))
        return _in_order(parts, [numbers for _, numbers in grouped])

    def _rows(self, X: Any, keys: Any) -> tuple[NDArray[np.float64], Any]:
        if (self.by is None) == (keys is None):
            raise ValueError("give the keys either as a column, by=.., or as keys=.. in the call")
        if self.by is not None:
            X, keys = split_keys(X, self.by)
        fills = isinstance(self.learner, Prepared) and self.learner.missing == "mean"
        rows = checked_rows(X, self._width(), fills)
        if len(keys) != len(rows):
            raise ValueError(f"keys has {len(keys)} rows but X has {len(rows)}")
        return rows, keys

    def _width(self) -> int | None:
        """Columns of X beside the keys, once something was learned."""
        if self._columns is None:
            for key in self.store:
                model: Any = self.store.get(key)
                self._columns = int(model.n_features_in_)
                break
        return self._columns

    # -- what is held ----------------------------------------------------------------------------

    @property
    def store(self) -> ModelStore:
        """The models; opened when first needed."""
        if self._store is None:
            folder = self.folder
            if folder is None:
                folder = tempfile.mkdtemp(prefix="pronk-keyed-")
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._store = ModelStore(
                folder, shards=self.shards, held=self.held, about=self._about()
            )
            if self._store.about["learner"] != self._about()["learner"]:
                raise StoreError(
                    f"{folder} holds models of other settings; open it with pronk.load"
                )
            self.shards = self._store.shards
            self._seed = int(self._store.about["seed"])
        return self._store

    def _about(self) -> dict[str, Any]:
        return {
            "learner": storage.settings_text(self.learner),
            "by": self.by,
            "seed": self._seed,
            "metrics": [metric.name for metric in self._metrics],
        }

    def __len__(self) -> int:
        return len(self.store)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.store)

    def __contains__(self, key: Key) -> bool:
        return key in self.store

    def __getitem__(self, key: Key) -> Any:
        """A copy of the model of a key."""
        model = self.store.get(key)
        if model is None:
            raise KeyError(key)
        return copy.deepcopy(model)

    @property
    def n_seen_(self) -> int:
        """Rows learned so far."""
        return sum(self._noted(key, notes)[0] for key, notes in self.store.items())

    def metrics(self, key: Key | None = None) -> dict[str, float]:
        """The metrics of one key's rows, or of all rows."""
        if key is not None:
            notes = self.store.notes(key)
            if notes is None:
                raise KeyError(key)
            return self._means(self._noted(key, notes))
        total = np.zeros(1 + len(self._metrics))
        for name, notes in self.store.items():
            total += self._noted(name, notes)
        return self._means(total)

    def metrics_by_key(self) -> Iterator[tuple[Key, int, dict[str, float]]]:
        """Every key with its rows and metrics; models are not read."""
        for key, notes in self.store.items():
            yield key, notes[0], self._means(self._noted(key, notes))

    def _noted(self, key: Any, notes: Any) -> list[Any]:
        """Rows of a key and sums of its losses, if they are that: a file may hold anything."""
        known = type(notes) is list and len(notes) == 1 + len(self._metrics)
        if not known or type(notes[0]) is not int or {type(n) for n in notes} - {int, float}:
            raise StoreError(f"{self.store.folder}: the notes of key {key} are damaged")
        return list(notes)

    def _means(self, notes: Any) -> dict[str, float]:
        rows = float(notes[0])
        sums = zip(self._metrics, notes[1:], strict=True)
        return {m.name: m.finish(float(s) / rows) if rows else float("nan") for m, s in sums}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        return self.learner.__sklearn_tags__()

    # -- saving ----------------------------------------------------------------------------------

    def flush(self, mark: int | None = None) -> None:
        """Let all models reach the disk; see `ModelStore.flush`."""
        self.store.flush(mark)

    def save(self, path: str | Path) -> None:
        """Write all models to a folder, which `pronk.load` reads."""
        if Path(path).resolve() == self.store.folder.resolve():
            self.flush()
        else:
            self.store.copy_to(path)

    @classmethod
    def open(cls, path: str | Path, held: int = 1000) -> Keyed:
        """The models of a folder; they go on there."""
        store = ModelStore(path, held=held)
        try:
            keyed = cls._of_layout(store, path, held)
        except ImportError:
            raise
        except Exception as error:  # whatever stands in the file, the answer is one kind of error
            raise StoreError(f"{path} cannot be opened: {error or type(error).__name__}") from None
        return keyed

    @classmethod
    def _of_layout(cls, store: ModelStore, path: str | Path, held: int) -> Keyed:
        about = store.about
        learner, by, seed = about["learner"], about["by"], about["seed"]
        require(type(learner) is str, "learner is not text")
        require(type(by) in (str, int, type(None)), "by is no column")
        require(type(seed) is int and 0 <= seed < 2**63, "seed is not a whole number")
        require(type(about["metrics"]) is list, "metrics are not a list")
        template = storage.from_settings_text(learner, path)
        learner_of(template)._validate_params()
        keyed = cls(template, by, folder=path, held=held, metrics=about["metrics"])
        keyed._store, keyed._seed, keyed.shards = store, seed, store.shards
        return keyed

    def close(self) -> None:
        """Flush and leave the files."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.learner!r}, by={self.by!r})"


class _Undo:
    """Puts models back if a call fails midway.

    Input is checked before anything is learned, so this is for what only learning shows: wrong
    parameters at the first row, and for some learners (``copies``) a third label beside a pair or
    steps that overflow. Those are copied before they learn.
    """

    def __init__(self, store: ModelStore, copies: bool) -> None:
        self.store = store
        self._copies = copies
        self._before: dict[str, tuple[bytes | None, Any]] = {}

    def remember(self, text: str, model: Any, notes: Any, *, new: bool) -> None:
        if new or self._copies:
            self._before[text] = (None if new else storage.to_bytes(model), notes)

    def put_back(self) -> None:
        for text, (data, notes) in self._before.items():
            if data is None:
                self.store.discard(decoded(text))
            else:
                self.store.put_text(
                    text, storage.from_bytes(data, f"key {text}", tried=False), notes
                )


def _in_order(parts: list[NDArray[Any]], numbers: list[NDArray[np.int64]]) -> NDArray[Any]:
    """Results of groups of rows in the order of the rows."""
    joined = np.concatenate(parts)
    out = np.empty_like(joined)
    out[np.concatenate(numbers)] = joined
    return out
