"""`Keyed`: one learner per key (a customer, a sensor), as one model.

Keys share nothing: the predictions of a key's rows are those of a learner of its own that gets its
rows alone, to the last bit where it gets them in the same calls. The rows of a call are sorted by
key and shard, so that each model is read and written once per call.
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
from pronk.core.runtime import held_back
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
    decoded,
    digest,
    groups,
    split_keys,
)
from pronk.keyed.store import LAYOUT, ModelStore, StoreError


def learner_of(model: Any) -> Any:
    """The learner, without the scaler before it."""
    return model.learner if isinstance(model, Prepared) else model


class Keyed:
    """One learner a key; a bounded number of them in memory, the others in files of a folder.

    Parameters
    ----------
    learner : a pronk learner, or `Prepared` around one; optional
        The settings of every key's learner; it is not learned with itself. By default
        `OnlineKernelRegressor` with at most 32 points and few experts. `Prepared` takes text, dates
        and gaps; its columns are those of the first rows of all keys. A learner that draws random
        numbers gets a seed of its own for each key, made of its ``random_state`` and the key.
    by : str or int, optional
        The column of X that holds the keys, by name (frames and tables) or number. A call that is
        given ``keys`` has them apart: its X has no such column.
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

    #: Called between the keys of a call that learns: the service lets predictions pass.
    between_keys: Callable[[], None] = staticmethod(lambda: None)

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
        if learner is None:
            learner = make_for_key(DEFAULT_ALGORITHM, random_state=0)
        self.learner = learner
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
        #: The columns beside the keys; of a `Prepared` they may be known already.
        self._columns: Layout | None = getattr(learner, "_layout", None)
        self._front: Prepared | None = None

    # -- learning --------------------------------------------------------------------------------

    def predict_then_learn(
        self, X: Any, y: Any, keys: Sequence[Any] | NDArray[Any] | Keys | None = None
    ) -> NDArray[Any]:
        """Walk the rows in order, each through the learner of its key; see the learners' own.

        A refused call changes nothing. Ctrl-C waits for the end of the call, so that all keys have
        learned their rows; a second one does not wait.
        """
        known = self._columns, self._front
        try:
            rows, keys = self._rows(X, keys)
            targets = checked_targets(y, len(rows), self._classifies)
            with held_back():
                return self._learn_groups(groups(keys, self.store.shards), rows, targets)
        except BaseException:
            self._columns, self._front = known
            raise

    def _learn_groups(
        self, grouped: list[Any], rows: NDArray[np.float64], targets: NDArray[Any]
    ) -> NDArray[Any]:
        before, parts = Before(self.store), []
        try:
            for text, numbers in grouped:
                self.between_keys()
                # A learner that refuses its rows is as it was: the last one needs no copy.
                copied = before if text != grouped[-1][0] else None
                parts.append(self._learn(text, rows[numbers], targets[numbers], copied))
        except BaseException as error:
            before.put_back()
            if isinstance(error, ValueError) and not isinstance(error, StoreError):
                raise ValueError(f"key {text}, first at row {numbers[0]}: {error}") from None
            raise
        before.forget()
        self._describe_columns()
        return _in_order(parts, [numbers for _, numbers in grouped])

    def _learn(
        self, text: str, X: NDArray[np.float64], y: NDArray[Any], before: Before | None
    ) -> NDArray[Any]:
        if before is not None:
            before.remember(text)
        found = self.store.get_text(text)
        model, notes = found if found is not None else (self._fresh(text), None)
        notes = None if notes is None else self._noted(text, notes)
        predictions: NDArray[Any] = model.predict_then_learn(X, y)
        sums = [float(metric.rows(y, predictions).sum()) for metric in self._metrics]
        if notes is not None:
            sums = [a + b for a, b in zip(notes[1:], sums, strict=True)]
        self.store.put_text(text, model, [len(y) + (notes[0] if notes else 0), *sums])
        return predictions

    def _fresh(self, text: str) -> Any:
        """The learner of a new key."""
        seed = (self._seed ^ digest(text)) & (2**63 - 1)
        model = clone(self.learner)
        inner = learner_of(model)
        if hasattr(inner, "random_state"):
            inner.random_state = seed
        if isinstance(model, Prepared):
            columns = self._known_columns()
            assert columns is not None
            _with(columns, model)
        return model

    def partial_fit(self, X: Any, y: Any, keys: Any = None) -> Self:
        """Learn the rows in order."""
        self.predict_then_learn(X, y, keys)
        return self

    def predict(self, X: Any, keys: Any = None) -> NDArray[Any]:
        """Predictions by the current models; changes nothing.

        A key that has no model is predicted 0, or no label (None).
        """
        known = self._columns, self._front
        rows, keys = self._rows(X, keys)
        self._columns, self._front = known  # rows that are learned decide what they are
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
        if keys is None:
            if self.by is None:
                raise ValueError("give the keys, as a column, by=.., or as keys=.. in the call")
            X, keys = split_keys(X, self.by)
        rows = self._prepared_rows(X) if isinstance(self.learner, Prepared) else self._plain_rows(X)
        if len(keys) != len(rows):
            raise ValueError(f"keys has {len(keys)} rows but X has {len(rows)}")
        return rows, keys

    def _plain_rows(self, X: Any) -> NDArray[np.float64]:
        columns = self._known_columns()
        rows = checked_rows(X, None if columns is None else len(columns.kinds))
        if columns is None:
            self._columns = Layout(None, (NUMBER,) * rows.shape[1])
        return rows

    def _prepared_rows(self, X: Any) -> NDArray[np.float64]:
        """Rows of numbers as each key's `Prepared` takes them: categories are their codes."""
        columns = self._known_columns()
        if columns is None:
            columns = layout_of(X, self.learner.categorical, self.learner.dates)
            self._columns = columns
        if self._front is None:
            self._front = _with(columns, clone(self.learner))
        return self._front._rows(X)

    def _known_columns(self) -> Layout | None:
        """The columns beside the keys, once they are known."""
        if self._columns is None and (self._store is not None or _is_store(self.folder)):
            held = self.store.about["columns"]
            if held is not None:
                names, kinds, orders = held
                named = None if names is None else tuple(names)
                self._columns = Layout(named, tuple(kinds), tuple(orders))
        return self._columns

    def _describe_columns(self) -> None:
        """Write what the columns are into the folder, where that is not there yet."""
        if self.store.about["columns"] is None:
            self.store.describe({**self.store.about, "columns": self._described_columns()})

    def _described_columns(self) -> Any:
        if self._columns is None:
            return None
        known = self._columns
        names = None if known.names is None else list(known.names)
        return [names, list(known.kinds), list(known.orders)]

    # -- the columns, as a single model has them --------------------------------------------------

    @property
    def kinds_(self) -> list[str]:
        """What each column beside the keys holds."""
        columns = self._known_columns()
        if columns is None:
            raise AttributeError("nothing was learned yet: the columns are not known")
        return list(columns.kinds)

    @property
    def orders_(self) -> list[str]:
        """How dates with the year last are read in each column beside the keys."""
        columns = self._known_columns()
        return [] if columns is None else list(columns.orders)

    @property
    def n_features_in_(self) -> int:
        """Columns beside the keys."""
        return len(self.kinds_)

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the columns beside the keys, where they have names."""
        columns = self._known_columns()
        if columns is None or columns.names is None:
            raise AttributeError("the columns have no names")
        return np.array(columns.names, dtype=object)

    @property
    def missing(self) -> str:
        """What a missing number is; see `Prepared`."""
        return getattr(self.learner, "missing", "error")

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
            if _checked(self._store.about, folder)["learner"] != self._about()["learner"]:
                raise StoreError(
                    f"{folder} holds models of other settings; open it with pronk.load"
                )
            held = self._store.about["columns"]
            if held is not None and self._columns and self._described_columns() != held:
                raise StoreError(f"{folder} holds models of other columns: {_listed(held)}")
            self.shards = self._store.shards
            self._seed = self._store.about["seed"]
            self._store.check = self._check_model
        return self._store

    def _about(self) -> dict[str, Any]:
        return {
            "learner": files.settings_text(self.learner),
            "by": self.by,
            "seed": self._seed,
            "metrics": [metric.name for metric in self._metrics],
            "columns": self._described_columns(),
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
        except StoreError:
            raise
        except Exception as error:  # whatever stands in the file, the answer is one kind of error
            reason = " ".join(str(error).split()) or type(error).__name__
            raise StoreError(f"{path} cannot be opened: {reason}") from None
        return keyed

    @classmethod
    def _of_layout(cls, store: ModelStore, path: str | Path, held: int) -> Keyed:
        about = _checked(store.about, path)
        learner, by, seed = about["learner"], about["by"], about["seed"]
        template = files.from_settings_text(learner, path)
        learner_of(template)._validate_params()
        keyed = cls(template, by, folder=path, held=held, metrics=about["metrics"])
        keyed._store, keyed._seed, keyed.shards = store, seed, store.shards
        store.check = keyed._check_model
        if isinstance(template, Prepared):  # what it says of the preparation must work
            _with(keyed._known_columns() or Layout(None, (NUMBER,)), clone(template))
        return keyed

    def _check_model(self, model: Any) -> None:
        """Raise a StateError if the model of a file is not of the kind of this object's."""
        kind = type(self.learner), type(self._inner)
        require((type(model), type(learner_of(model))) == kind, "it is of another class")
        columns = self._known_columns()
        if columns is not None:
            require(model.n_features_in_ == len(columns.kinds), "it has other columns")
            kinds = getattr(model, "kinds_", list(columns.kinds))
            require(kinds == list(columns.kinds), "it has columns of other kinds")
            orders = getattr(model, "orders_", list(columns.orders))
            require(orders == list(columns.orders), "it reads dates in another order")

    def close(self) -> None:
        """Flush and leave the files."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def abandon(self) -> None:
        """Leave the files; what was not flushed is gone."""
        if self._store is not None:
            self._store.abandon()
            self._store = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.learner!r}, by={self.by!r})"


def _listed(columns: Any) -> str:
    names, kinds, _ = columns
    return ", ".join(names if names is not None else kinds)


def _with(columns: Layout, model: Prepared) -> Prepared:
    return model.with_columns(columns.names, columns.kinds, columns.orders)


def _is_store(folder: Any) -> bool:
    return folder is not None and (Path(folder) / LAYOUT).exists()


def _checked(about: dict[str, Any], path: Any) -> dict[str, Any]:
    """What a folder says of its models, if it is that: a file may hold anything."""
    try:
        require(
            set(about) == {"learner", "by", "seed", "metrics", "columns"}, "entries are missing"
        )
        require(type(about["learner"]) is str, "learner is not text")
        by = about["by"]
        numbered = type(by) is int and 0 <= by < 2**31
        require(numbered or type(by) in (str, type(None)), "by is no column")
        seed = about["seed"]
        require(type(seed) is int and 0 <= seed < 2**63, "seed is not a whole number")
        require(type(about["metrics"]) is list, "metrics are not a list")
        if about["columns"] is not None:
            names, kinds, orders = about["columns"]
            require(type(kinds) is list and len(kinds) > 0, "columns are missing")
            require(set(map(str, kinds)) <= set(KINDS), "columns are of unknown kinds")
            ordered = type(orders) is list and len(orders) == len(kinds)
            require(ordered and set(map(str, orders)) <= set(ORDERS), "orders are unknown")
            named = names is None or (type(names) is list and len(names) == len(kinds))
            require(named and all(type(name) is str for name in names or ()), "names do not fit")
    except (TypeError, ValueError) as error:
        raise StoreError(f"{path}: {LAYOUT} is damaged: {error}") from None
    return about


class Before:
    """The models of a call as they were, put back if the call fails.

    A model that was not changed since it was read is in its file: the row of the file is kept
    there, in case the model is written meanwhile. One that was changed is copied; at most as many
    of these are in memory as the store holds. A new one is removed.
    """

    def __init__(self, store: ModelStore) -> None:
        self.store = store
        self._copies: dict[str, tuple[Any, Any]] = {}
        self._on_disk: list[str] = []
        self._new: list[str] = []

    def remember(self, text: str) -> None:
        """Keep the model of a key as it is now."""
        found = self.store.get_text(text)
        if found is None:
            self._new.append(text)
        elif self.store.is_changed(text):
            self._copies[text] = copy.deepcopy(found)
        else:
            self.store.keep_row(text)
            self._on_disk.append(text)

    def put_back(self) -> None:
        for text in self._new:
            self.store.discard(decoded(text))
        for text in self._on_disk:
            self.store.put_back_row(text)
        for text, (model, notes) in self._copies.items():
            self.store.put_text(text, model, notes)

    def forget(self) -> None:
        """The call has ended well."""
        self.store.forget_rows(self._on_disk)


def _in_order(parts: list[NDArray[Any]], numbers: list[NDArray[np.int64]]) -> NDArray[Any]:
    """Results of groups of rows in the order of the rows."""
    joined = np.concatenate(parts)
    out = np.empty_like(joined)
    out[np.concatenate(numbers)] = joined
    return out
