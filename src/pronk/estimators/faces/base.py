"""What all learners share: one pass over rows, checked first, then given to the engine."""

from __future__ import annotations

import copy
import warnings
from contextlib import AbstractContextManager
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from pronk.engines.newton.certificate import Certificate
from pronk.engines.onevsrest import OneVsRest
from pronk.estimators import storage
from pronk.estimators.faces.inputs import LARGEST, check_rows, dense_blocks
from pronk.estimators.faces.threads import check_splits, learn_on_threads
from pronk.parts.kernels import KERNELS, Kernel, Linear, Polynomial, UserKernel, get_kernel
from pronk.parts.randomness import make_seed
from pronk.parts.threads import limited

Array = NDArray[np.float64]

#: Rows of a call that is worth being spread over threads.
LONG_CALL = 512
#: From here on a row costs milliseconds, which a user should know of.
MANY_POINTS = 2000


class Model(Protocol):
    """What an engine offers to the learner around it."""

    @property
    def points(self) -> Array | None: ...
    def learn(self, X: Array, Y: Array) -> Array: ...
    def predict(self, X: Array) -> Array: ...
    def remap(self, matrix: Array) -> None: ...
    def to_state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...


class _Call:
    """A call that learns: BLAS is limited, and if it raises the learner's attributes are put back.

    All checks come before learning, so the engine itself needs no copy, except where learning
    itself may fail. (A plain class: calls are short.)
    """

    def __init__(self, learner: OnlineLearner) -> None:
        self._learner = learner

    def __enter__(self) -> None:
        self._before = dict(self._learner.__dict__)
        if "_model" in self._before and self._learner._may_fail_midway():
            self._before["_model"] = copy.deepcopy(self._before["_model"])
        limited.__enter__()

    def __exit__(self, kind: Any, *_: Any) -> None:
        limited.__exit__()
        if kind is not None:
            self._learner.__dict__.clear()
            self._learner.__dict__.update(self._before)


class OnlineLearner(BaseEstimator):
    """One state-changing operation, `predict_then_learn`; everything else is built on it.

    A subclass stores its parameters and builds its engine in ``_make_model(columns, outputs)``.
    ``sample_weight`` is not supported: a row is learned once, or twice if it comes twice.
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
        """A call that raises leaves every attribute as it was."""
        return _Call(self)

    def _may_fail_midway(self) -> bool:
        """Whether a call may raise after it has begun to learn, as a user's kernel function may."""
        return self._user_kernel

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
        self._user_kernel = isinstance(kernel, UserKernel)
        self._dot_kernel = isinstance(kernel, Linear | Polynomial)

    def _check_kernel_values(self, X: Any) -> None:
        """Refuse rows whose kernel values would overflow: by Cauchy-Schwarz k(x, x) tells."""
        kernel = get_kernel(self.kernel)
        if not isinstance(kernel, Linear | Polynomial):
            return
        with np.errstate(over="ignore"):
            for rows, block in dense_blocks(X):
                diagonal = kernel.diagonal(block())
                if not diagonal.max() <= LARGEST:
                    row = rows.start + int(np.argmax(~(diagonal <= LARGEST)))
                    raise ValueError(
                        f"X makes k(x, x) overflow at row {row} (counting from 0); rescale it"
                    )

    def _pass(self, X: Any, Y: Array) -> Array:
        """Predict then learn all rows."""
        if isinstance(X, np.ndarray):
            P = self._learn(X, Y)
        else:
            P = np.concatenate(
                [self._model.learn(block(), Y[rows]) for rows, block in dense_blocks(X)]
            )
        self.n_seen_ += len(Y)
        if self._dictionary_grows:
            self._warn_of_size()
        return P

    def _learn(self, X: Array, Y: Array) -> Array:
        """The engine's pass; on the threads that ``n_jobs`` asks for where a call is long."""
        jobs = getattr(self, "n_jobs", None)
        if jobs is None or len(X) < LONG_CALL:
            return self._model.learn(X, Y)
        return learn_on_threads(self._model, X, Y, jobs)

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
        with limited:
            parts = [self._model.predict(block()) for _, block in dense_blocks(X)]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    # -- what is held --------------------------------------------------------------------------

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
        with limited:
            certificate: Certificate = self._model.certificate(self._first_output())
        return certificate

    def _first_output(self) -> int:
        """The first output that stands for something the user asked for."""
        return 0

    # -- saving ----------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the complete state to one file (no pickle); `pronk.load` reads it."""
        storage.save(self, path)

    def _fitted_state(self) -> dict[str, Any]:
        check_is_fitted(self)
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

    def _restore(self, state: dict[str, Any], outputs: int) -> None:
        self.n_features_in_ = state["n_features_in_"]
        if "feature_names_in_" in state:
            self.feature_names_in_ = np.array(state["feature_names_in_"], dtype=object)
        if state["keys"] is not None:
            self._keys = state["keys"]
        self._seed = state["seed"]
        with limited:
            self._model = self._make_model(self.n_features_in_, outputs)
            self._model.restore(state["model"])
        self._note_kernel()
        self.n_seen_ = state["n_seen_"]

    # -- scikit-learn ----------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
