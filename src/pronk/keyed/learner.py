"""`Keyed`: one learner per key (a customer, a sensor), as one model.

Keys share nothing: the predictions of a key are those of a separate learner that sees only the rows
of this key, to the last bit if the calls are the same. The rows of a call are sorted by key and
shard, so that each model is read and written once per call.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pronk.core.randomness import make_seed
from pronk.core.runtime import deferred_interrupts
from pronk.core.state import require
from pronk.data.dates import ORDERS
from pronk.data.frames import Layout, layout_of
from pronk.data.prepared import Prepared
from pronk.data.values import KINDS, NUMBER
from pronk.estimators import files
from pronk.estimators.registry import DEFAULT_ALGORITHM, make_for_key
from pronk.evaluate.metrics import DEFAULTS, Metric, get_metrics
from pronk.keyed.keys import (
    Key,
    Keys,
    checked_rows,
    checked_targets,
    decode_key,
    digest,
    rows_by_key,
    split_keys,
)
from pronk.keyed.store import STORE_FILE, ModelStore, StoreError


def learner_of(model: Any) -> Any:
    """Return the learner inside a `Prepared`, or the model itself."""
    return model.learner if isinstance(model, Prepared) else model


class Keyed:
    """One learner per key; a bounded number of them in memory, the others in files of a folder.

    Parameters
    ----------
    learner : a pronk learner, or `Prepared` around one; optional
        The template of every key's learner; it is cloned and never learns itself. By default
        `OnlineKernelRegressor` with at most 32 points and few experts. `Prepared` accepts text,
        dates and missing values; the first rows of all keys determine its columns. A learner that
        uses random numbers gets a different seed for each key, from ``random_state`` and the key.
    by : str or int, optional
        The column of X with the keys, by name (frames and tables) or number. In a call with
        ``keys`` X does not have this column.
    folder : directory, optional
        The folder of the models; an existing store in it is resumed. By default a temporary folder
        that is removed with this object.
    cache_size : int, default 1000
        Most models in memory.
    shards : int, default 16
        Number of files for the models.
    metrics : names, optional
        Metrics that are averaged for each key; by default "mse" and "mae", or "error".

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

    #: Called between the keys of a call that learns; the service serves predictions there.
    between_keys: Callable[[], None] = staticmethod(lambda: None)

    def __init__(
        self,
        learner: Any = None,
        by: str | int | None = None,
        *,
        folder: str | Path | None = None,
        cache_size: int = 1000,
        shards: int = 16,
        metrics: Any = None,
    ) -> None:
        if learner is None:
            learner = make_for_key(DEFAULT_ALGORITHM, random_state=0)
        self.learner = learner
        self.by = by
        self.folder = folder
        self.cache_size = cache_size
        self.shards = shards
        self._inner = inner = learner_of(self.learner)
        if callable(getattr(inner, "kernel", None)) and not hasattr(inner.kernel, "get_params"):
            raise ValueError("learner has a kernel function, which no file can hold: name a kernel")
        self._classifies = self.__sklearn_tags__().estimator_type == "classifier"
        default = DEFAULTS["classification" if self._classifies else "regression"]
        self._metrics: list[Metric] = get_metrics(default if metrics is None else metrics)
        self._seed = make_seed(getattr(inner, "random_state", None))
        self._store: ModelStore | None = None
        #: The columns beside the keys; a `Prepared` may have them already.
        self._columns: Layout | None = getattr(learner, "_layout", None)
        #: Turns rows of all keys into numbers; None until it is needed, or without `Prepared`.
        self._preparation: Prepared | None = None

    # -- learning --------------------------------------------------------------------------------

    def predict_then_learn(
        self, X: Any, y: Any, keys: Sequence[Any] | NDArray[Any] | Keys | None = None
    ) -> NDArray[Any]:
        """Predict, then learn, the rows in order, each with the learner of its key.

        A call that raises changes nothing. Ctrl-C is deferred to the end of the call, so that all
        keys have learned their rows; a second Ctrl-C is not deferred.
        """
        before = self._columns, self._preparation
        try:
            rows, keys = self._rows(X, keys)
            targets = checked_targets(y, len(rows), self._classifies)
            with deferred_interrupts():
                return self._learn_groups(rows_by_key(keys, self.store.shards), rows, targets)
        except BaseException:
            self._columns, self._preparation = before
            raise

    def _learn_groups(
        self, grouped: list[Any], rows: NDArray[np.float64], targets: NDArray[Any]
    ) -> NDArray[Any]:
        backup, parts = Backup(self.store), []
        try:
            for text, numbers in grouped:
                self.between_keys()
                # A learner that raises is unchanged, so the last key needs no backup.
                if text != grouped[-1][0]:
                    backup.add(text)
                parts.append(self._learn(text, rows[numbers], targets[numbers]))
        except BaseException as error:
            backup.restore()
            if isinstance(error, ValueError) and not isinstance(error, StoreError):
                raise ValueError(f"key {text}, first at row {numbers[0]}: {error}") from None
            raise
        backup.delete()
        self._write_columns()
        return _in_order(parts, [numbers for _, numbers in grouped])

    def _learn(self, text: str, X: NDArray[np.float64], y: NDArray[Any]) -> NDArray[Any]:
        found = self.store.get_encoded(text)
        model, notes = found if found is not None else (self._new_model(text), None)
        notes = None if notes is None else self._checked_notes(text, notes)
        predictions: NDArray[Any] = model.predict_then_learn(X, y)
        sums = [float(metric.rows(y, predictions).sum()) for metric in self._metrics]
        if notes is not None:
            sums = [a + b for a, b in zip(notes[1:], sums, strict=True)]
        self.store.put_encoded(text, model, [len(y) + (notes[0] if notes else 0), *sums])
        return predictions

    def _new_model(self, text: str) -> Any:
        """Return the learner of a new key."""
        seed = (self._seed ^ digest(text)) & (2**63 - 1)
        model = clone(self.learner)
        inner = learner_of(model)
        if hasattr(inner, "random_state"):
            inner.random_state = seed
        if isinstance(model, Prepared):
            columns = self._current_columns()
            assert columns is not None
            _set_columns(model, columns)
        return model

    def partial_fit(self, X: Any, y: Any, keys: Any = None) -> Self:
        """Learn the rows in order."""
        self.predict_then_learn(X, y, keys)
        return self

    def predict(self, X: Any, keys: Any = None) -> NDArray[Any]:
        """Predict with the current models; nothing changes.

        The prediction of a key without a model is 0, or None for labels.
        """
        before = self._columns, self._preparation
        rows, keys = self._rows(X, keys)
        self._columns, self._preparation = before  # only learned rows determine the columns
        grouped = rows_by_key(keys, self.store.shards)
        parts = []
        for text, numbers in grouped:
            found = self.store.get_encoded(text)
            if found is not None:
                parts.append(np.asarray(found[0].predict(rows[numbers])))
            else:
                default: Any = None if self._classifies else 0.0
                parts.append(np.full(len(numbers), default))
        return _in_order(parts, [numbers for _, numbers in grouped])

    def _rows(self, X: Any, keys: Any) -> tuple[NDArray[np.float64], Any]:
        if keys is None:
            if self.by is None:
                raise ValueError("the keys are missing: give their column as by=, or keys=")
            X, keys = split_keys(X, self.by)
        prepared = isinstance(self.learner, Prepared)
        rows = self._prepared_rows(X) if prepared else self._number_rows(X)
        if len(keys) != len(rows):
            raise ValueError(f"keys has {len(keys)} rows but X has {len(rows)}")
        return rows, keys

    def _number_rows(self, X: Any) -> NDArray[np.float64]:
        columns = self._current_columns()
        rows = checked_rows(X, None if columns is None else len(columns.kinds))
        if columns is None:
            self._columns = Layout(None, (NUMBER,) * rows.shape[1])
        return rows

    def _prepared_rows(self, X: Any) -> NDArray[np.float64]:
        """Return rows of numbers for the `Prepared` of each key; categories become codes."""
        columns = self._current_columns()
        if columns is None:
            columns = layout_of(X, self.learner.categorical, self.learner.dates)
            self._columns = columns
        if self._preparation is None:
            self._preparation = _set_columns(clone(self.learner), columns)
        return self._preparation._rows(X)

    def _current_columns(self) -> Layout | None:
        """Return the columns beside the keys, from the folder if need be, or None before any."""
        if self._columns is None and (self._store is not None or _is_store(self.folder)):
            stored = self.store.metadata["columns"]
            if stored is not None:
                names, kinds, orders = stored
                named = None if names is None else tuple(names)
                self._columns = Layout(named, tuple(kinds), tuple(orders))
        return self._columns

    def _write_columns(self) -> None:
        """Write the columns to the folder, if they are not there yet."""
        if self.store.metadata["columns"] is None:
            self.store.write_metadata({**self.store.metadata, "columns": self._columns_as_json()})

    def _columns_as_json(self) -> Any:
        columns = self._columns
        if columns is None:
            return None
        names = None if columns.names is None else list(columns.names)
        return [names, list(columns.kinds), list(columns.orders)]

    # -- the columns, under the same names as for a single model -----------------------------------

    @property
    def kinds_(self) -> list[str]:
        """The kind of each column beside the keys."""
        columns = self._current_columns()
        if columns is None:
            raise AttributeError("no rows were learned yet, so the columns are unknown")
        return list(columns.kinds)

    @property
    def orders_(self) -> list[str]:
        """The order of day and month in each column beside the keys, for dates."""
        columns = self._current_columns()
        return [] if columns is None else list(columns.orders)

    @property
    def n_features_in_(self) -> int:
        """Number of columns beside the keys."""
        return len(self.kinds_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns beside the keys, if they have names."""
        columns = self._current_columns()
        if columns is None or columns.names is None:
            raise AttributeError("the columns have no names")
        return np.array(columns.names, dtype=object)

    @property
    def missing(self) -> str:
        """How missing numbers are handled; see `Prepared`."""
        return getattr(self.learner, "missing", "error")

    # -- models and metrics ----------------------------------------------------------------------

    @property
    def store(self) -> ModelStore:
        """The store of the models, opened on first use."""
        if self._store is None:
            folder = self.folder
            if folder is None:
                folder = tempfile.mkdtemp(prefix="pronk-keyed-")
                weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
            self._store = ModelStore(
                folder, shards=self.shards, cache_size=self.cache_size, metadata=self._metadata()
            )
            metadata = _checked_metadata(self._store.metadata, folder)
            if metadata["learner"] != self._metadata()["learner"]:
                raise StoreError(
                    f"{folder} holds models of other settings; open it with pronk.load"
                )
            stored = metadata["columns"]
            if stored is not None and self._columns and self._columns_as_json() != stored:
                raise StoreError(f"{folder} holds models of other columns: {_listed(stored)}")
            self.shards = self._store.shards
            self._seed = metadata["seed"]
            self._store.check = self._check_model
        return self._store

    def _metadata(self) -> dict[str, Any]:
        return {
            "learner": files.settings_text(self.learner),
            "by": self.by,
            "seed": self._seed,
            "metrics": [metric.name for metric in self._metrics],
            "columns": self._columns_as_json(),
        }

    def __len__(self) -> int:
        return len(self.store)

    def __iter__(self) -> Iterator[Key]:
        return iter(self.store)

    def __contains__(self, key: Key) -> bool:
        return key in self.store

    def __getitem__(self, key: Key) -> Any:
        """Return a copy of the model of a key."""
        model = self.store.get(key)
        if model is None:
            raise KeyError(key)
        return copy.deepcopy(model)

    @property
    def n_seen_(self) -> int:
        """Rows learned so far."""
        return sum(self._checked_notes(key, notes)[0] for key, notes in self.store.items())

    def metrics(self, key: Key | None = None) -> dict[str, float]:
        """Return the metrics over the rows of one key, or over all rows."""
        if key is not None:
            notes = self.store.notes(key)
            if notes is None:
                raise KeyError(key)
            return self._means(self._checked_notes(key, notes))
        total = np.zeros(1 + len(self._metrics))
        for name, notes in self.store.items():
            total += self._checked_notes(name, notes)
        return self._means(total)

    def metrics_by_key(self) -> Iterator[tuple[Key, int, dict[str, float]]]:
        """Yield every key with its number of rows and its metrics; models are not read."""
        for key, notes in self.store.items():
            yield key, notes[0], self._means(self._checked_notes(key, notes))

    def _checked_notes(self, key: Any, notes: Any) -> list[Any]:
        """Return the rows and the sums of losses of a key; raise if the file is damaged."""
        right_size = type(notes) is list and len(notes) == 1 + len(self._metrics)
        if not right_size or type(notes[0]) is not int or {type(n) for n in notes} - {int, float}:
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

    def flush(self, position: int | None = None) -> None:
        """Write all models to disk; see `ModelStore.flush`."""
        self.store.flush(position)

    def save(self, path: str | Path) -> None:
        """Save all models to a folder, which `pronk.load` opens."""
        if Path(path).resolve() == self.store.folder.resolve():
            self.flush()
        else:
            self.store.copy_to(path)

    @classmethod
    def open(cls, path: str | Path, cache_size: int = 1000) -> Keyed:
        """Open the models of a folder; further learning changes this folder."""
        store = ModelStore(path, cache_size=cache_size)
        try:
            keyed = cls._from_store(store, path, cache_size)
        except (ImportError, StoreError):
            raise
        except Exception as error:  # a damaged file always raises a StoreError
            reason = " ".join(str(error).split()) or type(error).__name__
            raise StoreError(f"{path} cannot be opened: {reason}") from None
        return keyed

    @classmethod
    def _from_store(cls, store: ModelStore, path: str | Path, cache_size: int) -> Keyed:
        metadata = _checked_metadata(store.metadata, path)
        by, seed, metrics = metadata["by"], metadata["seed"], metadata["metrics"]
        template = files.from_settings_text(metadata["learner"], path)
        learner_of(template)._validate_params()
        keyed = cls(template, by, folder=path, cache_size=cache_size, metrics=metrics)
        keyed._store, keyed._seed, keyed.shards = store, seed, store.shards
        store.check = keyed._check_model
        if isinstance(template, Prepared):  # raise now if its settings do not work
            _set_columns(clone(template), keyed._current_columns() or Layout(None, (NUMBER,)))
        return keyed

    def _check_model(self, model: Any) -> None:
        """Raise a StateError if a model from a file has another class or other columns."""
        expected = type(self.learner), type(self._inner)
        require((type(model), type(learner_of(model))) == expected, "it is of another class")
        columns = self._current_columns()
        if columns is not None:
            require(model.n_features_in_ == len(columns.kinds), "it has other columns")
            kinds = getattr(model, "kinds_", list(columns.kinds))
            require(kinds == list(columns.kinds), "it has columns of other kinds")
            orders = getattr(model, "orders_", list(columns.orders))
            require(orders == list(columns.orders), "it reads dates in another order")

    def close(self) -> None:
        """Flush and close the files."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def abandon(self) -> None:
        """Close the files without flushing; changes since the last flush are lost."""
        if self._store is not None:
            self._store.abandon()
            self._store = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.learner!r}, by={self.by!r})"


def _listed(columns: Any) -> str:
    names, kinds, _ = columns
    return ", ".join(names if names is not None else kinds)


def _set_columns(model: Prepared, columns: Layout) -> Prepared:
    return model.with_columns(columns.names, columns.kinds, columns.orders)


def _is_store(folder: Any) -> bool:
    return folder is not None and (Path(folder) / STORE_FILE).exists()


def _checked_metadata(metadata: dict[str, Any], path: Any) -> dict[str, Any]:
    """Return the metadata of a store; raise a StoreError if they are damaged."""
    try:
        entries = {"learner", "by", "seed", "metrics", "columns"}
        require(set(metadata) == entries, "entries are missing")
        require(type(metadata["learner"]) is str, "learner is not text")
        by = metadata["by"]
        numbered = type(by) is int and 0 <= by < 2**31
        require(numbered or type(by) in (str, type(None)), "by is not a column")
        seed = metadata["seed"]
        require(type(seed) is int and 0 <= seed < 2**63, "seed is not an integer")
        require(type(metadata["metrics"]) is list, "metrics are not a list")
        if metadata["columns"] is not None:
            names, kinds, orders = metadata["columns"]
            require(type(kinds) is list and len(kinds) > 0, "columns are missing")
            require(set(map(str, kinds)) <= set(KINDS), "columns are of unknown kinds")
            ordered = type(orders) is list and len(orders) == len(kinds)
            require(ordered and set(map(str, orders)) <= set(ORDERS), "orders are unknown")
            named = names is None or (type(names) is list and len(names) == len(kinds))
            require(named and all(type(name) is str for name in names or ()), "names do not fit")
    except (TypeError, ValueError) as error:
        raise StoreError(f"{path}: {STORE_FILE} is damaged: {error}") from None
    return metadata


class Backup:
    """The models of a call before the call, restored if the call raises.

    The file has a model that did not change since it was read: its row is backed up in the file, in
    case the model is written during the call. A changed model is copied in memory; there are at
    most as many copies as the store has models in memory. A new model is deleted.
    """

    def __init__(self, store: ModelStore) -> None:
        self.store = store
        self._copies: dict[str, tuple[Any, Any]] = {}
        self._on_disk: list[str] = []
        self._new: list[str] = []

    def add(self, text: str) -> None:
        """Back up the model of a key."""
        found = self.store.get_encoded(text)
        if found is None:
            self._new.append(text)
        elif self.store.is_changed(text):
            self._copies[text] = copy.deepcopy(found)
        else:
            self.store.back_up(text)
            self._on_disk.append(text)

    def restore(self) -> None:
        """Restore all models."""
        for text in self._new:
            self.store.discard(decode_key(text))
        for text in self._on_disk:
            self.store.restore_backup(text)
        for text, (model, notes) in self._copies.items():
            self.store.put_encoded(text, model, notes)

    def delete(self) -> None:
        """Delete the backups after a call that did not raise."""
        self.store.delete_backups(self._on_disk)


def _in_order(parts: list[NDArray[Any]], numbers: list[NDArray[np.int64]]) -> NDArray[Any]:
    """Return the results of groups of rows in the order of the rows."""
    joined = np.concatenate(parts)
    out = np.empty_like(joined)
    out[np.concatenate(numbers)] = joined
    return out
