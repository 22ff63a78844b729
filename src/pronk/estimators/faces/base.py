"""What all learners share: one pass over rows, checked first, then given to the engine."""

from __future__ import annotations

import threading
import warnings
from contextlib import AbstractContextManager, suppress
from itertools import pairwise
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from pronk.engines.newton.certificate import Certificate
from pronk.engines.onevsrest import OneVsRest
from pronk.estimators import storage
from pronk.estimators.faces.constraints import Interval, StrOptions
from pronk.estimators.faces.inputs import LARGEST, check_rows, check_weights, dense_blocks
from pronk.estimators.faces.showing import as_html
from pronk.estimators.faces.threads import check_splits, learn_on_threads
from pronk.parts.kernels import KERNELS, Kernel, get_kernel
from pronk.parts.randomness import make_seed
from pronk.parts.state import checked_count, require
from pronk.parts.threads import limited

Array = NDArray[np.float64]

#: Rows of a call that is worth being spread over threads.
LONG_CALL = 512
#: From here on a row costs milliseconds, which a user should know of.
MANY_POINTS = 2000
#: A model from a file may be made of at most so many numbers before its arrays are looked at.
MOST_NUMBERS = 2**30
#: States of fewer numbers are tried out in full when they are loaded.
SMALL_STATE = 2**20


class Model(Protocol):
    """What an engine offers to the learner around it."""

    @property
    def points(self) -> Array | None: ...
    def learn(self, X: Array, Y: Array) -> Array: ...
    def predict(self, X: Array) -> Array: ...
    def remap(self, matrix: Array) -> None: ...
    def to_state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...
    def mark(self) -> Any: ...
    def undo(self, mark: Any) -> None: ...


class _Call:
    """A call that learns: alone with the learner, BLAS limited, undone if it raises.

    Whatever stops it (an error, Ctrl-C, no memory), the learner is then what it was before the
    call, or, if the last row was learned already, what it is after it; ``n_seen_`` tells. All
    checks of the input come first; for the rest the engine is marked. (A plain class: calls are
    short.)
    """

    def __init__(self, learner: OnlineLearner) -> None:
        self._learner = learner

    def __enter__(self) -> None:
        held = self._learner.__dict__
        self._lock = lock = self._learner._own_lock()
        owned = lock._is_owned()
        self._nested = owned and "_learning" in held  # `fit` calls `partial_fit`: one mark for both
        try:
            lock.acquire()
            if not self._nested:
                self._before = dict(held)
                model = held.get("_model")
                self._mark = None if model is None else model.mark()
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
            if self._mark is not None:
                self._before["_model"].undo(self._mark)
            held.clear()
            held.update(self._before)
        finally:
            if not self._nested:
                held.pop("_learning", None)
            self._lock.release()


#: Held while a learner gets its lock.
_MAKING_LOCKS = threading.Lock()


class OnlineLearner(BaseEstimator):
    """One state-changing operation, `predict_then_learn`; everything else is built on it.

    A subclass stores its parameters and builds its engine in ``_make_model(columns, outputs)``.
    ``sample_weight`` says how much each row counts, where that has a meaning (`_takes_weights`): a
    second-order learner has the row that often in its sums, a first-order one takes the step that
    many times as long. A row of weight 0 is predicted and not learned.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [StrOptions(set(KERNELS)), Kernel, callable],
        "random_state": [Interval(Integral, 0, None, closed="left"), np.random.Generator, None],
    }
    kernel: Any
    random_state: Any

    def _make_model(self, columns: int, outputs: int) -> Model:
        raise NotImplementedError

    @property
    def _theorem(self) -> str | None:
        """Which theorem of `pronk.regret` speaks of the learner, if one does."""
        return None

    @property
    def _law_exceptions(self) -> dict[str, str]:
        """Laws of ``tests/laws`` that do not hold for this learner, each with the reason."""
        return {}

    @property
    def _dictionary_grows(self) -> bool:
        """Whether a dictionary grows with the data, until a budget is reached if there is one."""
        return False

    # -- the parameters of the kernel are parameters of the learner -----------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name; with ``deep`` also the kernel's, as ``kernel__bandwidth``."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.kernel, str) and self.kernel in KERNELS:
            nested = KERNELS[self.kernel]().get_params()
            params |= {f"kernel__{name}": value for name, value in nested.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``kernel__bandwidth`` also on a kernel given by its name."""
        kernel = params.get("kernel", self.kernel)
        nested = any(name.startswith("kernel__") for name in params)
        if nested and isinstance(kernel, str) and kernel in KERNELS:
            params["kernel"] = KERNELS[kernel]()
        super().set_params(**params)
        return self

    # -- a pass ------------------------------------------------------------------------------

    def _reset(self) -> None:
        """Forget everything that was learned."""
        for name in ("_model", "_warned", "_keys", "_seed", "_labels", "n_seen_", "n_features_in_"):
            self.__dict__.pop(name, None)
        self.__dict__.pop("feature_names_in_", None)

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def _all_or_nothing(self) -> AbstractContextManager[None]:
        """A call that raises leaves everything as it was."""
        return _Call(self)

    def _own_lock(self) -> Any:
        """The lock of this learner: calls from several threads wait for each other.

        Made at the first call, because a constructor only stores; not copied, not pickled.
        """
        lock = self.__dict__.get("_lock")
        if lock is None:
            with _MAKING_LOCKS:
                lock = self.__dict__.setdefault("_lock", threading.RLock())
        return lock

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: state[name] for name in state if name not in ("_lock", "_learning")}

    def _rows(self, X: Any) -> Any:
        """Checked rows; the first call also checks the parameters and sets the columns."""
        first = not self.__sklearn_is_fitted__()
        if first:
            self._validate_params()
            get_kernel(self.kernel)
        rows = check_rows(self, X, first=first)
        if first or self._dot_kernel:
            self._check_kernel_values(rows)
        return rows

    def _start(self, columns: int, outputs: int) -> None:
        self._seed = make_seed(self.random_state)
        self._model = self._make_model(columns, outputs)
        if getattr(self, "n_jobs", None) is not None:
            check_splits(self, self._model)
        self._note_kernel()
        self.n_seen_ = 0

    def _note_kernel(self) -> None:
        """What every call asks of the kernel, asked once."""
        kernel = get_kernel(self.kernel)
        self._user_kernel = kernel.foreign
        self._dot_kernel = kernel.unlimited

    def _check_kernel_values(self, X: Any) -> None:
        """Refuse rows whose kernel values would overflow: by Cauchy-Schwarz k(x, x) tells."""
        kernel = get_kernel(self.kernel)
        if not kernel.unlimited:
            return
        with np.errstate(over="ignore"):
            for rows, block in dense_blocks(X):
                diagonal = kernel.diagonal(block())
                if not diagonal.max() <= LARGEST:
                    row = rows.start + int(np.argmax(~(diagonal <= LARGEST)))
                    raise ValueError(
                        f"X makes k(x, x) overflow at row {row} (counting from 0); rescale it"
                    )

    def _takes_weights(self) -> bool:
        """Whether a weighted row has a meaning for the learner."""
        return False

    def _check_weights(self, sample_weight: Any, rows: int) -> Array | None:
        """Checked weights; none where all are 1."""
        weights = check_weights(sample_weight, rows)
        if weights is None or (weights == 1.0).all():
            return None
        if not self._takes_weights():
            raise ValueError(
                f"sample_weight has no meaning for {self!r}; leave it out, or take a learner "
                "that has one (docs: rows that count more)"
            )
        return weights

    def _learned_something(self) -> Self:
        """Refuse a fit in which every row had the weight 0."""
        if not self.n_seen_:
            raise ValueError("sample_weight is zero for all rows: there is nothing to learn")
        return self

    def _pass_weighted(self, X: Any, Y: Array, weights: Array) -> Array:
        """Predict then learn rows of positive weight, predict the others, in order."""
        P = np.empty((len(Y), Y.shape[1]))
        for rows, block in dense_blocks(X):
            values, own = block(), weights[rows]
            ends = np.flatnonzero(np.diff(own > 0.0)) + 1
            for start, stop in pairwise([0, *ends.tolist(), len(own)]):
                part = slice(start, stop)
                whole = slice(rows.start + start, rows.start + stop)
                if own[start] > 0.0:
                    P[whole] = self._model.learn(  # type: ignore[call-arg]
                        np.ascontiguousarray(values[part]), Y[whole], own[part]
                    )
                else:
                    P[whole] = self._model.predict(np.ascontiguousarray(values[part]))
        return P

    def _pass(self, X: Any, Y: Array, weights: Array | None = None) -> Array:
        """Predict then learn all rows."""
        try:
            if weights is not None:
                P = self._pass_weighted(X, Y, weights)
            elif isinstance(X, np.ndarray):
                P = self._learn(X, Y)
            else:
                P = np.concatenate(
                    [self._model.learn(block(), Y[rows]) for rows, block in dense_blocks(X)]
                )
        except FloatingPointError as error:
            raise ValueError(f"{error}; rescale X and y, or choose a larger alpha") from None
        self._check_result(P)
        self.n_seen_ += len(Y) if weights is None else int(np.count_nonzero(weights))
        if self._dictionary_grows:
            self._warn_of_size()
        return P

    def _learn(self, X: Array, Y: Array) -> Array:
        """The engine's pass; on the threads that ``n_jobs`` asks for where a call is long."""
        jobs = getattr(self, "n_jobs", None)
        if jobs is None or len(X) < LONG_CALL:
            return self._model.learn(X, Y)
        return learn_on_threads(self._model, X, Y, jobs)

    def _check_result(self, P: Array) -> None:
        """Refuse numbers that are none: only a state far out of range makes them."""
        total = P.sum()
        if total - total == 0.0:  # finite, in one quick look
            return
        finite = np.isfinite(P).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ValueError(
                f"the prediction of row {row} (counting from 0) overflows; rescale X and y"
            )

    def _warn_of_size(self) -> None:
        """Say once that a dictionary grows so large that rows become slow."""
        points = self._model.points
        size = 0 if points is None else len(points)
        if size < MANY_POINTS or getattr(self, "_warned", False):
            return
        self._warned = True
        warnings.warn(
            f"the dictionary holds {size} points and a row costs the square of that; set budget=, "
            "a larger bandwidth or gamma, or scale the columns",
            UserWarning,
            stacklevel=4,
        )

    def _predict(self, X: Any) -> Array:
        check_is_fitted(self)
        X = self._rows(X)
        with self._own_lock(), limited:
            parts = [self._model.predict(block()) for _, block in dense_blocks(X)]
        P = np.concatenate(parts) if len(parts) > 1 else parts[0]
        self._check_result(P)
        return P

    # -- what is held --------------------------------------------------------------------------

    @property
    def rows_seen_(self) -> int:
        """Rows learned so far, the same as ``n_seen_``.

        After a call that was stopped it says whether its rows were learned: none were, except where
        the call had ended and only its answer was lost.
        """
        check_is_fitted(self)
        return int(self.n_seen_)

    @property
    def size_(self) -> int:
        """Points held now; 0 for fixed features."""
        points = self._held_points()
        return 0 if points is None else len(points)

    @property
    def dictionary_(self) -> Array:
        """The held points, (size_, columns)."""
        points = self._held_points()
        if points is None:
            raise AttributeError("fixed features hold no points")
        return points.copy()

    def _held_points(self) -> Array | None:
        check_is_fitted(self)
        with self._own_lock():
            if isinstance(self._model, OneVsRest):
                return self._model.points_from(self._first_output())
            return self._model.points

    def certificate(self) -> Certificate:
        """Regret so far against the best function in hindsight, and its bound, from the state.

        Ridge and AWV learners always have it, online Newton learners with ``track_regret=True``.
        It speaks of one output: the first of several, or the classes' one output for two classes.
        """
        check_is_fitted(self)
        if not hasattr(self._model, "certificate"):
            raise ValueError(f"{type(self).__name__} has no certificate: its regret is not tracked")
        with self._own_lock(), limited:
            certificate: Certificate = self._model.certificate(self._first_output())
        return certificate

    def _first_output(self) -> int:
        """The first output that stands for something the user asked for."""
        return 0

    # -- in a notebook -----------------------------------------------------------------------------

    def _repr_html_inner(self) -> str:
        """What was learned, for a notebook; before that scikit-learn's diagram."""
        if self.__sklearn_is_fitted__():
            return as_html(self)
        diagram: str = super()._repr_html_inner()
        return diagram

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._repr_html_inner()}

    # -- saving ----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the complete state to one file (no pickle); `pronk.load` reads it."""
        storage.save(self, path)

    def _fitted_state(self) -> dict[str, Any]:
        check_is_fitted(self)
        with self._own_lock():
            return self._gather_state()

    def _gather_state(self) -> dict[str, Any]:
        """The state; the learner is still meanwhile."""
        state: dict[str, Any] = {
            "n_features_in_": self.n_features_in_,
            "n_seen_": self.n_seen_,
            "seed": self._seed,
            "keys": getattr(self, "_keys", None),
            "model": self._model.to_state(),
        }
        if hasattr(self, "feature_names_in_"):
            state["feature_names_in_"] = list(self.feature_names_in_)
        return state

    #: The entries of a fitted state; ``feature_names_in_`` may be there too.
    _FIELDS: ClassVar[tuple[str, ...]] = ("n_features_in_", "n_seen_", "seed", "keys", "model")

    def _restore(self, state: Any) -> None:
        """Take over a fitted state that anybody may have written; a StateError if it does not fit.

        The parameters are checked first, as at the first row.
        """
        self._validate_params()
        get_kernel(self.kernel)
        require(isinstance(state, dict), "the state is not a table")
        unknown = set(state) ^ set(self._FIELDS) - {"feature_names_in_"}
        unknown.discard("feature_names_in_")
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
        outputs = self._restore_face(state)
        self._check_sizes(columns, outputs, state["model"])
        with limited:
            self._model = self._make_model(columns, outputs)
            self._model.restore(state["model"])
        self._note_kernel()

    def _restore_face(self, state: dict[str, Any]) -> int:
        """What a face holds beside the engine; the number of outputs."""
        raise NotImplementedError

    def _check_sizes(self, columns: int, outputs: int, model: Any) -> None:
        """Bound what is made before the state is looked at: a file may name any sizes."""
        require(outputs <= _entries(model), "outputs are more than the model has entries")
        frequencies = getattr(self, "n_features", None)
        wide = frequencies if isinstance(frequencies, int) else 16
        points = getattr(self, "dictionary", None)
        given = 0 if points is None or isinstance(points, str) else np.size(points)
        large = columns * wide > MOST_NUMBERS or given > MOST_NUMBERS**0.5 / 4
        require(not large, "the model would take too much memory")

    def _try_out(self) -> None:
        """Predict and learn a few rows, and undo it: the answers must be numbers.

        Rows are only predicted where the state is large, and not even that with a user's kernel,
        which need not take any rows.
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
                    raise _TriedOut

    def _trial_targets(self, rows: int) -> Any:
        """Targets that the learner takes."""
        raise NotImplementedError

    # -- scikit-learn ----------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class _TriedOut(Exception):
    """Ends a trial, so that it is undone."""


def _checked_names(value: Any, field: str, columns: int) -> list[Any]:
    """A list of as many names (text or numbers) as there are columns."""
    require(isinstance(value, list) and len(value) == columns, f"{field} do not fit the columns")
    require(all(isinstance(name, str | int | float) for name in value), f"{field} are no names")
    return list(value)


def _entries(tree: Any) -> int:
    """The numbers, texts and array entries of a tree."""
    if isinstance(tree, dict):
        return len(tree) + sum(_entries(value) for value in tree.values())
    if isinstance(tree, list):
        return len(tree) + sum(_entries(value) for value in tree)
    return tree.size if isinstance(tree, np.ndarray) else 1
