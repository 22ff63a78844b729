"""The fitted state of a learner: saved to a file, restored from one, rolled back after a call.

A file may come from an untrusted source, so everything in it is checked before it is used.
"""

from __future__ import annotations

import threading
import warnings
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from pronk.core.kernels import get_kernel, is_automatic
from pronk.core.runtime import limited
from pronk.core.state import checked_count, require
from pronk.estimators import files
from pronk.estimators.bandwidth import AutomaticBandwidth, EngineFactory
from pronk.estimators.inputs import Parameters

Array = NDArray[np.float64]

#: Most numbers of a model that is built for a file before the file's arrays are checked.
MOST_NUMBERS = 2**30
#: Models with fewer numbers also learn a few rows when they are loaded, which is rolled back.
SMALL_STATE = 2**20


def own_lock(learner: Any) -> Any:
    """Return the lock of a learner: calls from several threads wait for each other.

    It is made at the first call, because a constructor only stores parameters, and is neither
    copied nor pickled.
    """
    lock = learner.__dict__.get("_lock")
    if lock is None:
        # `setdefault` is atomic. A lock around it could stay held after a signal.
        lock = learner.__dict__.setdefault("_lock", threading.RLock())
    return lock


class LearningCall:
    """A context for a call that learns: it locks the learner and rolls back if the call raises.

    Whatever stops the call (an error, Ctrl-C, no memory), the learner is then in the state before
    the call or, if the last row was learned already, in the state after it (see ``n_seen_``).
    BLAS has one thread inside. (A class and no generator, because calls are short.)
    """

    def __init__(self, learner: Any) -> None:
        self._learner = learner

    def __enter__(self) -> None:
        held = self._learner.__dict__
        self._lock = lock = own_lock(self._learner)
        owned = lock._is_owned()
        self._nested = owned and "_learning" in held  # `fit` calls `partial_fit`
        try:
            lock.acquire()
            if not self._nested:
                self._before = dict(held)
                model = held.get("_model")
                self._snapshot = None if model is None else model.snapshot()
                held["_learning"] = True
            limited.__enter__()
        except BaseException:  # a signal may come at any moment, also right after the lock
            if not self._nested:
                held.pop("_learning", None)
            if lock._is_owned() and not owned:
                lock.release()
            raise

    def __exit__(self, kind: Any, *_: Any) -> None:
        held = self._learner.__dict__
        try:
            limited.__exit__()
            if kind is None or self._nested:
                return
            if self._snapshot is not None:
                self._before["_model"].roll_back(self._snapshot)
            held.clear()
            held.update(self._before)
        finally:
            if not self._nested:
                held.pop("_learning", None)
            self._lock.release()


class Model(Protocol):
    """An engine, as the learner around it uses it."""

    @property
    def points(self) -> Array | None: ...
    def learn(self, X: Array, Y: Array) -> Array: ...
    def predict(self, X: Array) -> Array: ...
    def remap(self, matrix: Array) -> None: ...
    def to_state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
    def snapshot(self) -> Any: ...
    def roll_back(self, snapshot: Any) -> None: ...


class FittedState(Parameters):
    """The part of a learner that builds its engine, saves its state and restores it."""

    kernel: Any
    _model: Model
    _user_kernel: bool
    _bandwidth: float
    _seed: int

    def _make_model(self, columns: int, outputs: int) -> Model:
        """Return a new engine; every algorithm defines this method."""
        raise NotImplementedError

    @property
    def _measures_bandwidth(self) -> bool:
        """Whether the bandwidth is measured from the first rows; not by the default learner."""
        return is_automatic(self.kernel) and not getattr(self, "_scales_itself", False)

    def _new_model(self, columns: int, outputs: int) -> Model:
        """Return a new engine, which measures its bandwidth where that is "auto" and not final."""
        if not is_automatic(self.kernel):
            return self._make_model(columns, outputs)
        make = EngineFactory(self, columns)
        if not self._measures_bandwidth:
            return make(1.0, outputs)
        if "_bandwidth" in self.__dict__:
            return make(self._bandwidth, outputs)
        return AutomaticBandwidth(make, get_kernel(self.kernel, auto=True), columns, outputs)

    def _read_kernel(self) -> None:
        raise NotImplementedError

    def _held_points(self) -> Array | None:
        raise NotImplementedError

    def _predict(self, X: Any) -> Array:
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def _all_or_nothing(self) -> AbstractContextManager[None]:
        """Return a context in which a call that raises is rolled back."""
        return LearningCall(self)

    def _own_lock(self) -> Any:
        """Return the lock of the learner: calls from several threads wait for each other."""
        return own_lock(self)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: state[name] for name in state if name not in ("_lock", "_learning")}

    def save(self, path: str | Path) -> None:
        """Write the fitted learner to one file (no pickle); `pronk.load` reads it."""
        files.save(self, path)

    def _fitted_state(self) -> dict[str, Any]:
        """Return the state as arrays, numbers and text."""
        check_is_fitted(self)
        with self._own_lock():
            return self._gather_state()

    def _gather_state(self) -> dict[str, Any]:
        """Return the state; the caller holds the lock."""
        state: dict[str, Any] = {
            "n_features_in_": self.n_features_in_,
            "n_seen_": self.n_seen_,
            "seed": self._seed,
            "keys": getattr(self, "_keys", None),
            "model": self._model.to_state(),
        }
        if hasattr(self, "feature_names_in_"):
            state["feature_names_in_"] = list(self.feature_names_in_)
        if "_bandwidth" in self.__dict__:
            state["bandwidth"] = self._bandwidth
        return state

    #: The entries of a fitted state; ``feature_names_in_`` and ``bandwidth`` are optional.
    _FIELDS: ClassVar[tuple[str, ...]] = ("n_features_in_", "n_seen_", "seed", "keys", "model")

    def _restore(self, state: Any) -> None:
        """Restore a fitted state of an untrusted file; raise a StateError if it does not fit.

        The parameters are checked first, as at the first row.
        """
        self._validate_params()
        get_kernel(self.kernel, auto=True)
        require(isinstance(state, dict), "the state is not a table")
        unknown = set(state) ^ set(self._FIELDS) - {"feature_names_in_"}
        unknown.discard("feature_names_in_")
        settled = self._measures_bandwidth and "bandwidth" in state
        unknown -= {"bandwidth"} if settled else set()
        require(not unknown, f"{min(unknown, default='')} is unknown or missing")
        columns = checked_count(state["n_features_in_"], "n_features_in_", 1)
        self.n_features_in_ = columns
        self.n_seen_ = checked_count(state["n_seen_"], "n_seen_")
        if "feature_names_in_" in state:
            names = _checked_names(state["feature_names_in_"], "feature_names_in_", columns)
            require(all(type(name) is str for name in names), "feature_names_in_ are not text")
            self.feature_names_in_ = np.array(names, dtype=object)
        if state["keys"] is not None:
            self._keys = _checked_names(state["keys"], "keys", columns)
        seed = state["seed"]
        whole = isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0
        require(whole, "seed is not a whole number from 0 on")
        self._seed = seed
        outputs = self._restore_outputs(state)
        self._check_sizes(columns, outputs, state["model"])
        if settled:
            self._bandwidth = _checked_bandwidth(state["bandwidth"])
        with limited:
            self._model = self._new_model(columns, outputs)
            self._model.restore(state["model"])
        self._read_kernel()

    def _restore_outputs(self, state: dict[str, Any]) -> int:
        """Restore the labels or the shape of y; return the number of outputs."""
        raise NotImplementedError

    def _check_sizes(self, columns: int, outputs: int, model: Any) -> None:
        """Limit the memory of the engine, which is built before the arrays are checked."""
        require(outputs <= _entries(model), "outputs are more than the model has entries")
        frequencies = getattr(self, "n_features", None)
        wide = frequencies if isinstance(frequencies, int) else 16
        points = getattr(self, "dictionary", None)
        given = 0 if points is None or isinstance(points, str) else np.size(points)
        large = columns * wide > MOST_NUMBERS or given > MOST_NUMBERS**0.5 / 4
        require(not large, "the model would take too much memory")

    def _try_out(self) -> None:
        """Predict and learn a few rows, and roll back; raise if a prediction is not finite.

        Where the state is large, rows are only predicted. With a user's kernel, which may not
        accept every row, nothing is tried.
        """
        if self._user_kernel:
            return
        X = np.zeros((3, self.n_features_in_))
        X[1], X[2] = 0.5, np.linspace(-1.0, 1.0, self.n_features_in_)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            held = self._held_points()
            if held is not None and len(held):
                X[2] = held[-1]
            self._predict(X)
            if _entries(self._model.to_state()) < SMALL_STATE:
                with suppress(_TriedOut), self._all_or_nothing():
                    self.partial_fit(X, self._trial_targets(len(X)))
                    self._predict(X)
                    clone(self)._restore(
                        self._fitted_state()
                    )  # the new state must be restorable too
                    raise _TriedOut

    def _trial_targets(self, rows: int) -> Any:
        """Return targets that the learner accepts."""
        raise NotImplementedError


def _checked_bandwidth(value: Any) -> float:
    good = isinstance(value, float) and 0.0 < value < float("inf")
    require(good, "bandwidth is not a positive number")
    return float(value)


class _TriedOut(Exception):
    """Raised to end a trial, so that the trial is rolled back."""


def _checked_names(value: Any, field: str, columns: int) -> list[Any]:
    """Return one name (text or number) per column."""
    require(isinstance(value, list) and len(value) == columns, f"{field} do not fit the columns")
    require(all(isinstance(name, str | int | float) for name in value), f"{field} are no names")
    return list(value)


def _entries(tree: Any) -> int:
    """Return how many numbers, texts and array entries a tree has."""
    if isinstance(tree, dict):
        return len(tree) + sum(_entries(value) for value in tree.values())
    if isinstance(tree, list):
        return len(tree) + sum(_entries(value) for value in tree)
    return tree.size if isinstance(tree, np.ndarray) else 1
