"""`Keyed`: one learner per key (a customer, a sensor), as one model.

The predictions of a key are those of a separate learner that sees only the rows of this key, to the
last bit if the calls are the same. Keys share one thing: until a key has learned its first row, its
prediction is the mean of the targets of all keys so far, or their most frequent label. The rows of
a call are sorted by key and shard, so that each model is read and written once per call.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.metaestimators import available_if

from pronk._interrupts import deferred_interrupts
from pronk.aggregate.calibration import check_levels, ends_of, requested_levels
from pronk.columns.frames import Layout
from pronk.columns.model import one_vector
from pronk.columns.values import NUMBER
from pronk.core.checks import did_you_mean, without_gaps, without_label
from pronk.core.randomness import make_seed
from pronk.core.state import require
from pronk.estimators import files
from pronk.estimators.inputs import check_weights, missing_labels
from pronk.estimators.prepared import Prepared
from pronk.estimators.quantiles import check_has_quantiles
from pronk.estimators.registry import DEFAULT_ALGORITHM, make_for_key
from pronk.evaluate.baselines import make_baselines
from pronk.evaluate.metrics import DEFAULTS, Metric, get_metrics
from pronk.evaluate.models import own_delay
from pronk.keyed.keys import (
    Key,
    Keys,
    checked_targets,
    encode_key,
    rows_by_key,
    split_keys,
    with_own_seeds,
)
from pronk.keyed.store import STORE_FILE, Backup, ModelStore, StoreError


def learner_of(model: Any) -> Any:
    """Return the learner inside a `Prepared`, or the model itself."""
    return model.learner if isinstance(model, Prepared) else model


@dataclass(frozen=True)
class Call:
    """Rows to learn: numbers, targets, which are learned, and predictions for a new key.

    ``options`` are those of the learner; arrays among them have an entry per row.
    """

    X: NDArray[np.float64]
    y: NDArray[Any]
    learned: NDArray[np.bool_]
    firsts: NDArray[Any]
    options: dict[str, Any]

    def of(self, numbers: NDArray[np.intp]) -> Call:
        """Return some of the rows."""
        own = {
            name: value[numbers] if isinstance(value, np.ndarray) else value
            for name, value in self.options.items()
        }
        learned, firsts = self.learned[numbers], self.firsts[numbers]
        return Call(self.X[numbers], self.y[numbers], learned, firsts, own)

    @property
    def targets(self) -> NDArray[Any]:
        """The targets as the learner gets them: labels of their own type if none is missing."""
        whole = self.y.dtype != object or without_label(self.y) is not None
        return self.y if whole else without_gaps(self.y)


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
        self.metric_names = metrics
        self._inner = inner = learner_of(self.learner)
        if files.has_kernel_function(learner):
            raise ValueError("learner has a kernel function, which no file can hold: name a kernel")
        try:
            files.check_has_file(learner)
        except ValueError as error:
            raise ValueError(f"learner: models of keys are files, and {error}") from None
        self._classifies = self.__sklearn_tags__().estimator_type == "classifier"
        task = "classification" if self._classifies else "regression"
        default = DEFAULTS[task]
        #: The mean or the most frequent label of all keys' targets: the first prediction of a key.
        self.prior: Any = make_baselines(task)[0]
        self._metrics: list[Metric] = get_metrics(default if metrics is None else metrics)
        self._seed = make_seed(getattr(inner, "random_state", None))
        self._store: ModelStore | None = None
        #: The columns beside the keys; a learner may have them already.
        self._columns: Layout | None = getattr(learner, "layout_", None)
        #: A learner that learns nothing: it turns rows of all keys into numbers.
        self._coder: Any = None

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters by name; with ``deep`` also the learner's, as ``learner__alpha``."""
        names = ("learner", "by", "folder", "cache_size", "shards")
        found = {name: getattr(self, name) for name in names} | {"metrics": self.metric_names}
        if deep:
            inner = self.learner.get_params(deep=True)
            found |= {f"learner__{name}": value for name, value in inner.items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, also the learner's as ``learner__alpha``, before the first row."""
        if not params:
            return self
        if self._store is not None and len(self):
            raise ValueError(
                "the parameters of keyed models are set before the first row; set them in a clone: "
                f"sklearn.base.clone(model).set_params({next(iter(params))}=..)"
            )
        inner = {name: value for name, value in params.items() if name.startswith("learner__")}
        own = {name: value for name, value in params.items() if name not in inner}
        known = self.get_params(deep=False)
        for name in own.keys() - known.keys():
            raise ValueError(f"Keyed has no parameter {name!r}{did_you_mean(name, known)}")
        given = known | own
        if inner:
            parts = {name.removeprefix("learner__"): value for name, value in inner.items()}
            given["learner"] = clone(given["learner"]).set_params(**parts)
        self.abandon()
        self.__init__(**given)  # type: ignore[misc]
        return self

    def __sklearn_clone__(self) -> Keyed:
        """Return the same settings without anything learned, in a folder of its own."""
        given = {**self.get_params(deep=False), "learner": clone(self.learner), "folder": None}
        return Keyed(**given)

    def __getstate__(self) -> dict[str, Any]:
        if self._store is not None:
            raise TypeError(
                "Keyed cannot be pickled or copied after it has opened its folder: its models are "
                "files; use save(folder) and pronk.load(folder)"
            )
        return self.__dict__

    # -- learning --------------------------------------------------------------------------------

    def predict_then_learn(
        self,
        X: Any,
        y: Any,
        keys: Sequence[Any] | NDArray[Any] | Keys | None = None,
        *,
        interval: float | None = None,
        quantiles: Any = None,
        sample_weight: Any = None,
        times: Any = None,
    ) -> Any:
        """Predict, then learn, the rows in order, each with the learner of its key.

        Until a key has learned its first row, its rows are predicted by the mean of all targets
        before them, or by their most frequent label; the first row of all by 0 or None, and so are
        the first rows of each key up to its first learned label if the learner has a ``delay``;
        `metrics` leaves such rows out. A row whose label is missing (None or NaN), or of weight 0,
        is predicted and not learned. The options are those of the learner: with ``interval=0.9``
        return the pair of predictions and intervals, with ``quantiles`` that with quantiles.

        A call that raises changes nothing. Ctrl-C is deferred to the end of the call, so that all
        keys have learned their rows; a second Ctrl-C is not deferred.
        """
        levels = None if quantiles is None else tuple(check_levels(quantiles).tolist())
        options = {
            "interval": interval, "quantiles": levels, "sample_weight": sample_weight,
            "times": times,
        }  # fmt: skip
        given = {name: value for name, value in options.items() if value is not None}
        check_has_quantiles(self._inner, given)
        return self._predict_then_learn(X, y, keys, **given)

    def _predict_then_learn(
        self, X: Any, y: Any, keys: Any, firsts: NDArray[Any] | None = None, **options: Any
    ) -> Any:
        """Predict, then learn; ``firsts`` are the predictions of each row as the first of its key,
        if they are known already: the targets are then counted elsewhere.
        """
        before = self._columns, self._coder
        try:
            rows, keys = self._rows(X, keys)
            targets, learned = self._checked_targets(y, len(rows), options.get("sample_weight"))
            if not len(rows):
                self._columns, self._coder = before
                return _no_rows(targets, **options)
            grouped, prior = rows_by_key(keys, self.store.shards), self.prior
            if firsts is None:
                prior, firsts = self.count_targets(targets, learned)
            call = Call(rows, targets, learned, firsts, self._by_row(options, len(rows)))
            with deferred_interrupts():
                found = self._learn_groups(grouped, call)
                self.prior = prior
                return found
        except BaseException:
            self._columns, self._coder = before
            raise

    def _checked_targets(
        self, y: Any, rows: int, weights: Any
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the targets, and which rows are learned: those with a label and a weight."""
        missing = missing_labels(y, rows)
        learned = np.ones(rows, dtype=bool) if missing is None else ~missing
        own = check_weights(weights, rows)
        if own is not None:
            learned &= np.asarray(own if own.ndim == 1 else own[:, 0]) > 0.0
        if missing is None:
            return checked_targets(y, rows, self._classifies), learned
        known = without_gaps(np.asarray(y)[~missing])
        known = checked_targets(known, len(known), self._classifies)
        kind = object if self._classifies else np.float64
        targets = np.full((rows, *known.shape[1:]), None if self._classifies else np.nan, kind)
        targets[~missing] = known
        return targets, learned

    def _by_row(self, options: dict[str, Any], rows: int) -> dict[str, Any]:
        """Return options of the learner, those with an entry per row as arrays."""
        found = dict(options)
        for name in ("sample_weight", "times"):
            if name in found:
                found[name] = np.asanyarray(found[name])  # weights may have times
                if len(found[name]) != rows:
                    raise ValueError(f"{name} has {len(found[name])} entries, X has {rows} rows")
        return found

    def count_targets(
        self, targets: NDArray[Any], learned: NDArray[np.bool_] | None = None
    ) -> tuple[Any, NDArray[Any]]:
        """Return `prior` after some rows, and the predictions that it has for each of them.

        Before the first target of all keys there is none: NaN or None. Rows that are not learned
        are predicted and not counted.
        """
        _ = self.store  # `prior` is read with the folder
        prior = copy.deepcopy(self.prior)
        new = not (prior.counts if self._classifies else prior.rows)
        learned = np.ones(len(targets), dtype=bool) if learned is None else learned
        known = targets if learned.all() else targets[learned]
        known = without_gaps(known) if self._classifies and len(known) else known
        before = prior.predict_then_learn(None, known)
        after = prior.predict(np.empty(1))
        firsts = np.concatenate((before, after))[np.cumsum(learned) - learned]
        if new and not self._classifies:
            firsts[: _up_to_first(learned)] = np.nan
        return prior, firsts

    def _learn_groups(self, grouped: list[Any], call: Call) -> Any:
        backup, parts = Backup(self.store), []
        try:
            for text, numbers in grouped:
                self.between_keys()
                # A learner that raises is unchanged, so the last key needs no backup.
                if text != grouped[-1][0]:
                    backup.add(text)
                parts.append(self._learn(text, call.of(numbers)))
        except BaseException as error:
            backup.restore()
            if isinstance(error, ValueError) and not isinstance(error, StoreError):
                raise ValueError(f"key {text}, first at row {numbers[0]}: {error}") from None
            raise
        backup.delete()
        self._write_columns()
        return in_order(parts, [numbers for _, numbers in grouped])

    def _learn(self, text: str, call: Call) -> Any:
        """Learn the rows of a key; return their predictions, or those and intervals."""
        found = self.store.get(text)
        model, notes = found if found is not None else (self._new_model(text), None)
        none = [0] * (2 + len(self._metrics))
        notes = none if notes is None else self._checked_notes(text, notes)
        answer = model.predict_then_learn(call.X, call.targets, **call.options)
        predictions = answer[0] if isinstance(answer, tuple) else answer
        late, learned, unscored = own_delay(self._inner), call.learned, 0
        if notes[0] <= late and not late:  # up to the first learned row of the key
            rows = _up_to_first(learned)
            first = call.firsts[:rows]
            kind = object if self._classifies else np.float64
            if (unknown := without_label(first)) is not None:  # no key had a target yet
                first = first.copy()
                first[unknown] = predictions[:rows][unknown]
                unscored = int((learned[:rows] & unknown).sum())
            predictions = np.concatenate((first, predictions[rows:])).astype(kind)
        elif late:  # rows before the first label that is learned have no prediction
            unscored = min(max(0, 1 + late - notes[0]), int(learned.sum()))
        scored = np.flatnonzero(learned)[unscored:]
        sums = [float(metric.rows(call.y[scored], predictions[scored]).sum())
                for metric in self._metrics]  # fmt: skip
        total = [a + b for a, b in zip(notes, [int(learned.sum()), *sums, unscored], strict=True)]
        self.store.put(text, model, total if total[-1] else total[:-1])
        return (predictions, *answer[1:]) if isinstance(answer, tuple) else predictions

    def _new_model(self, text: str) -> Any:
        """Return the learner of a new key."""
        columns = self._current_columns()
        assert columns is not None
        return with_own_seeds(clone(self.learner), text, self._seed).with_layout(columns)

    def partial_fit(
        self, X: Any, y: Any, keys: Any = None, *, sample_weight: Any = None, times: Any = None
    ) -> Self:
        """Learn the rows in order."""
        self.predict_then_learn(X, y, keys, sample_weight=sample_weight, times=times)
        return self

    def fit(
        self, X: Any, y: Any, keys: Any = None, *, sample_weight: Any = None, times: Any = None
    ) -> Self:
        """Forget all keys, then learn the rows in order; a call that raises forgets none."""
        fresh = clone(self)
        fresh.partial_fit(X, y, keys, sample_weight=sample_weight, times=times)
        fresh.flush()
        with deferred_interrupts():
            for key in list(self):
                self.store.discard(encode_key(key))
            for text in map(encode_key, list(fresh)):
                self.store.put(text, *fresh.store.get(text))
            self.prior, self._columns, self._coder = fresh.prior, fresh._columns, fresh._coder
            self._seed = fresh._seed
            self.store.write_metadata(self._metadata())
            self.flush()
        fresh.abandon()
        return self

    def learn_one(self, x: Any, y: Any, key: Any = None) -> Self:
        """Learn one row, a dict or a vector; without ``key`` a dict with the column of the keys."""
        return self.partial_fit(*self._one(x, [y], key))

    def predict_one(self, x: Any, key: Any = None) -> Any:
        """Predict the next row of a key; see `learn_one`."""
        X, _, keys = self._one(x, None, key)
        found = self.predict(X, keys)[0]
        return found if self._classifies or np.ndim(found) else float(found)

    def _one(self, x: Any, y: Any, key: Any) -> tuple[Any, Any, Any]:
        rows = [dict(x)] if isinstance(x, Mapping) else one_vector(x)
        return rows, y, None if key is None else [key]

    def predict(self, X: Any, keys: Any = None) -> NDArray[Any]:
        """Predict rows that follow the stream in order, with the current models; nothing changes.

        The prediction of a key without a model is the mean of the targets of all keys, or their
        most frequent label; before the first label 0 or None.
        """
        return self._predicted(X, keys, lambda model, rows: model.predict(rows), self.prior.predict)

    @available_if(lambda self: hasattr(self._inner, "predict_interval"))
    def predict_interval(self, X: Any, coverage: float = 0.9, keys: Any = None) -> NDArray[Any]:
        """Return intervals (n, 2) by the current models; NaN for a key without a model."""
        return self.predict_quantiles(X, ends_of(coverage), keys)

    @available_if(lambda self: hasattr(self._inner, "predict_quantiles"))
    def predict_quantiles(
        self, X: Any, quantiles: Any = (0.1, 0.5, 0.9), keys: Any = None
    ) -> NDArray[Any]:
        """Return quantiles (n, q) by the current models; NaN for a key without a model."""
        levels = check_levels(quantiles)

        def unknown(numbers: Any) -> NDArray[Any]:
            middle = np.asarray(self.prior.predict(numbers), dtype=np.float64)
            return np.full((*middle.shape, len(levels)), np.nan)

        own = lambda model, rows: model.predict_quantiles(rows, levels)  # noqa: E731
        return self._predicted(X, keys, own, unknown)

    @available_if(lambda self: hasattr(self._inner, "predict_interval"))
    def predict_interval_one(self, x: Any, coverage: float = 0.9, key: Any = None) -> Any:
        """Return the interval of the next row of a key, a pair or (outputs, 2); see `learn_one`."""
        X, _, keys = self._one(x, None, key)
        found = self.predict_interval(X, coverage, keys)[0]
        return found if found.ndim == 2 else tuple(found.tolist())

    @available_if(lambda self: hasattr(self._inner, "predict_proba"))
    def predict_proba(self, X: Any, keys: Any = None) -> NDArray[Any]:
        """Return probabilities (n, classes) of the labels of all keys, ``classes_``.

        A label that a key has not had has probability 0; a key without a model has the frequencies
        of the labels of all keys.
        """
        classes = self.classes_

        def own(model: Any, rows: Any) -> NDArray[Any]:
            shares = np.zeros((len(rows), len(classes)))
            places = np.searchsorted(classes, model.classes_)
            shares[:, places] = model.predict_proba(rows)
            return shares

        def unknown(numbers: Any) -> NDArray[Any]:
            counts = np.array([self.prior.counts[label] for label in classes.tolist()], dtype=float)
            return np.tile(counts / counts.sum(), (len(numbers), 1))

        return self._predicted(X, keys, own, unknown)

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels of all keys so far, sorted."""
        if not self._classifies:
            raise AttributeError("the learner predicts numbers, which have no classes")
        _ = self.store  # `prior` is read with the folder
        return np.unique(np.array(list(self.prior.counts)))

    def score(self, X: Any, y: Any, keys: Any = None, sample_weight: Any = None) -> float:
        """Return the accuracy of classifiers, R2 of regressors, by the current models."""
        measure = accuracy_score if self._classifies else r2_score
        return float(measure(y, self.predict(X, keys), sample_weight=sample_weight))

    def _predicted(
        self, X: Any, keys: Any, own: Callable[..., Any], unknown: Callable[..., Any]
    ) -> NDArray[Any]:
        """Return ``own(model, rows)`` of each key, ``unknown(numbers)`` where it has no model."""
        before = self._columns, self._coder
        rows, keys = self._rows(X, keys)
        self._columns, self._coder = before  # only learned rows determine the columns
        grouped = rows_by_key(keys, self.store.shards)
        if not grouped:
            return np.asarray(unknown(np.empty(0, dtype=np.intp)))
        parts = []
        for text, numbers in grouped:
            found = self.store.get(text)
            known = found is not None and found[0].__sklearn_is_fitted__() and found[0].n_seen_
            if found is not None and known:
                parts.append(np.asarray(own(found[0], rows[numbers])))
            else:
                parts.append(np.asarray(unknown(numbers)))
        return np.asarray(in_order(parts, [numbers for _, numbers in grouped]))

    def _rows(self, X: Any, keys: Any) -> tuple[NDArray[np.float64], Any]:
        """Return rows of numbers, which the learner of each key accepts, and their keys."""
        if keys is None:
            if self.by is None:
                raise ValueError("the keys are missing: give their column as by=, or keys=")
            X, keys = split_keys(X, self.by)
        columns = self._current_columns()
        if self._coder is None:
            self._coder = clone(self.learner)
            if columns is not None:
                self._coder.with_layout(columns)
        rows = self._coder.encode(X)
        if not rows.shape[1]:
            raise ValueError(f"X must have columns beside the keys, got {rows.shape}")
        if columns is None:
            self._columns = self._coder.layout_
        if len(keys) != len(rows):
            raise ValueError(f"keys has {len(keys)} rows but X has {len(rows)}")
        return rows, keys

    def _current_columns(self) -> Layout | None:
        """Return the columns beside the keys, from the folder if need be, or None before any."""
        if self._columns is None:
            folder = self.folder
            held = folder is not None and (Path(folder) / STORE_FILE).exists()
            if held or self._store is not None:
                self._columns = _layout(self.store.metadata["columns"])
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
        return getattr(self.learner, "missing", "mean")

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
                listed = ", ".join(stored[1] if stored[0] is None else stored[0])
                raise StoreError(f"{folder} holds models of other columns: {listed}")
            self.shards = self._store.shards
            self._seed = metadata["seed"]
            self._store.check = self._check_model
            self._read_prior()
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
        return copy.deepcopy(self._stored(key)[0])

    def _stored(self, key: Key) -> tuple[Any, Any]:
        """Return the model and the notes of a key; raise a KeyError if there are none."""
        found = self.store.get(encode_key(key))
        if found is None:
            raise KeyError(key)
        return found

    @property
    def n_seen_(self) -> int:
        """Rows learned so far."""
        return sum(self._checked_notes(key, notes)[0] for key, notes in self.store.items())

    def metrics(self, key: Key | None = None) -> dict[str, float]:
        """Return the metrics over the rows of one key, or over all rows."""
        if key is not None:
            return self._means(self._checked_notes(key, self._stored(key)[1]))
        total = np.zeros(2 + len(self._metrics))
        for name, notes in self.store.items():
            total += self._checked_notes(name, notes)
        return self._means(total)

    def metrics_by_key(self) -> Iterator[tuple[Key, int, dict[str, float]]]:
        """Yield every key with its number of rows and its metrics; models are not read."""
        for key, notes in self.store.items():
            yield key, notes[0], self._means(self._checked_notes(key, notes))

    def _checked_notes(self, key: Any, notes: Any) -> list[Any]:
        """Return the rows, the sums of losses and the rows that were not scored of a key.

        Raise if the file is damaged. The last number is missing where it is 0.
        """
        size = 1 + len(self._metrics)
        found = [*notes, *([0] if len(notes) == size else [])] if type(notes) is list else []
        whole = len(found) == size + 1 and type(found[0]) is type(found[-1]) is int
        if not whole or {type(n) for n in found} - {int, float} or not 0 <= found[-1] <= found[0]:
            raise StoreError(f"{self.store.folder}: the notes of key {key} are damaged")
        return found

    def _means(self, notes: Any) -> dict[str, float]:
        rows = float(notes[0] - notes[-1])
        sums = zip(self._metrics, notes[1:-1], strict=True)
        return {m.name: m.finish(float(s) / rows) if rows else float("nan") for m, s in sums}

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        return self.learner.__sklearn_tags__()

    # -- saving ----------------------------------------------------------------------------------

    def flush(self, position: int | None = None, extra: bytes | None = None) -> None:
        """Write all models to disk; see `ModelStore.flush`."""
        self.store.flush(position, extra)
        self.write_prior()

    def write_prior(self) -> None:
        """Write `prior` to the folder, if it has changed."""
        state = {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in self.prior.to_state().items()
        }
        if self.store.metadata.get("prior") != state:
            self.store.write_metadata({**self.store.metadata, "prior": state})

    def _read_prior(self) -> None:
        """Read `prior` from the folder; earlier versions did not write it."""
        state = self.store.metadata.get("prior")
        if state is not None:
            try:
                require(type(state) is dict, "prior is not a table")
                total = state.get("total")
                state = {**state, "total": np.array(total)} if type(total) is list else state
                self.prior.restore(state)
            except (TypeError, ValueError) as error:
                where = self.store.folder
                raise StoreError(f"{where}: {STORE_FILE} is damaged: {error}") from None

    def save(self, path: str | Path) -> None:
        """Save all models to a folder, which `pronk.load` opens."""
        if Path(path).resolve() == self.store.folder.resolve():
            self.flush()
        else:
            self.flush()
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
        files.check_parameters(template)
        keyed = cls(template, by, folder=path, cache_size=cache_size, metrics=metrics)
        keyed._store, keyed._seed, keyed.shards = store, seed, store.shards
        keyed._read_prior()
        store.check = keyed._check_model
        # Raise now if the settings do not work.
        clone(template).with_layout(keyed._current_columns() or Layout(None, (NUMBER,)))
        return keyed

    def _check_model(self, model: Any) -> None:
        """Raise a StateError if a model from a file has another class or other columns."""
        expected = type(self.learner), type(self._inner)
        require((type(model), type(learner_of(model))) == expected, "it is of another class")
        columns = self._current_columns()
        if columns is not None:
            require(model.n_features_in_ == len(columns.kinds), "it has other columns")
            require(model.layout_ == columns, "it has columns of other kinds or names")

    def close(self) -> None:
        """Flush and close the files."""
        if self._store is not None:
            self.flush()
            self._store.abandon()
            self._store = None

    def abandon(self) -> None:
        """Close the files without flushing; changes since the last flush are lost."""
        if self._store is not None:
            self._store.abandon()
            self._store = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.learner!r}, by={self.by!r})"


def _no_rows(targets: NDArray[Any], interval: Any = None, quantiles: Any = None, **_: Any) -> Any:
    """Return the predictions, and intervals or quantiles, of a call without rows."""
    levels = requested_levels(interval, quantiles)
    return targets if levels is None else (targets, np.empty((*targets.shape, len(levels))))


def _up_to_first(learned: NDArray[np.bool_]) -> int:
    """Return the number of rows up to the first one that is learned, or all."""
    return int(learned.argmax()) + 1 if learned.any() else len(learned)


def _layout(stored: Any) -> Layout | None:
    """Return the columns of a store, which its file has as lists; raise a ValueError if it cannot.

    `Layout` checks names, kinds and orders.
    """
    if stored is None:
        return None
    names, kinds, orders = stored
    lists = all(type(one) is list for one in (kinds, orders, [] if names is None else names))
    require(lists, "columns are not lists")
    require(len(orders) == len(kinds), "orders do not fit")
    return Layout(None if names is None else tuple(names), tuple(kinds), tuple(orders))


def _checked_metadata(metadata: dict[str, Any], path: Any) -> dict[str, Any]:
    """Return the metadata of a store; raise a StoreError if they are damaged."""
    try:
        entries = {"learner", "by", "seed", "metrics", "columns"}
        require(set(metadata) - {"prior"} == entries, "entries are missing")
        require(type(metadata["learner"]) is str, "learner is not text")
        by = metadata["by"]
        numbered = type(by) is int and 0 <= by < 2**31
        require(numbered or type(by) in (str, type(None)), "by is not a column")
        seed = metadata["seed"]
        require(type(seed) is int and seed >= 0, "seed is not an integer")
        require(type(metadata["metrics"]) is list, "metrics are not a list")
        layout = _layout(metadata["columns"])
        require(layout is None or len(layout.kinds) > 0, "columns are missing")
    except (TypeError, ValueError) as error:
        raise StoreError(f"{path}: {STORE_FILE} is damaged: {error}") from None
    return metadata


def in_order(parts: list[Any], numbers: list[NDArray[np.int64]]) -> Any:
    """Return results of groups of rows, arrays or tuples of them, in the order of the rows."""
    if isinstance(parts[0], tuple):
        return tuple(in_order(list(one), numbers) for one in zip(*parts, strict=True))
    joined = np.concatenate(parts)
    out = np.empty_like(joined)
    out[np.concatenate(numbers)] = joined
    return out
