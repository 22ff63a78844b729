"""What all learners share: one pass over rows, checked first, then given to the engine."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from numbers import Integral
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pronk.engines.certificate import Certificate
from pronk.engines.onevsrest import OneVsRest
from pronk.estimators import storage
from pronk.estimators.inputs import (
    LARGEST,
    check_rows,
    check_targets,
    dense_blocks,
    one_row,
)
from pronk.estimators.labels import Labels
from pronk.parts.kernels import KERNELS, Kernel, Linear, Polynomial, UserKernel, get_kernel
from pronk.parts.randomness import make_seed

Array = NDArray[np.float64]

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


class _Unchanged:
    """Puts a learner's attributes back if the block raises (a plain class: calls are short).

    All checks come before learning, so the engine itself needs no copy, except where learning
    itself may fail.
    """

    def __init__(self, learner: OnlineLearner) -> None:
        self._learner = learner

    def __enter__(self) -> None:
        self._before = dict(self._learner.__dict__)
        if "_model" in self._before and self._learner._may_fail_midway():
            self._before["_model"] = copy.deepcopy(self._before["_model"])

    def __exit__(self, kind: Any, *_: Any) -> None:
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
        return _Unchanged(self)

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
            P = self._model.learn(X, Y)
        else:
            P = np.concatenate(
                [self._model.learn(block(), Y[rows]) for rows, block in dense_blocks(X)]
            )
        self.n_seen_ += len(Y)
        if self._dictionary_grows:
            self._warn_of_size()
        return P

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
        self._model = self._make_model(self.n_features_in_, outputs)
        self._model.restore(state["model"])
        self._note_kernel()
        self.n_seen_ = state["n_seen_"]

    # -- scikit-learn ----------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class OnlineRegressor(RegressorMixin, OnlineLearner):
    """A learner of real numbers; several outputs where y has several columns."""

    _several_outputs: ClassVar[bool] = True

    def predict_then_learn(self, X: Any, y: Any) -> Array:
        """Walk the rows in order; return the predictions made before each row's y was used."""
        with self._all_or_nothing():
            rows = self._rows(X)
            Y = check_targets(y, rows.shape[0])
            outputs = 1 if Y.ndim == 1 else Y.shape[1]
            self._check_outputs(Y.ndim, outputs)
            if not self.__sklearn_is_fitted__():
                self._start(rows.shape[1], outputs)
                self._flat, self._outputs = Y.ndim == 1, outputs
            P = self._pass(rows, Y.reshape(len(Y), outputs))
        return P[:, 0] if self._flat else P

    def _check_outputs(self, dimensions: int, outputs: int) -> None:
        if dimensions == 2 and not self._several_outputs and outputs > 1:
            raise ValueError(f"y has {outputs} columns; this learner has one output")
        if self.__sklearn_is_fitted__() and outputs != self._outputs:
            raise ValueError(
                f"y has {outputs} columns; the learner was started with {self._outputs}"
            )

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn the rows in order."""
        self.predict_then_learn(X, y)
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then learn the rows in order: one pass."""
        self._reset()
        return self.partial_fit(X, y)

    def predict(self, X: Any) -> Array:
        """The current model's predictions; changes nothing."""
        P = self._predict(X)
        return P[:, 0] if self._flat else P

    def learn_one(self, x: Any, y: float) -> Self:
        """Learn one row, a dict or a vector."""
        return self.partial_fit(one_row(self, x), [y])

    def predict_one(self, x: Any) -> float:
        """Predict one row, a dict or a vector; 0 before the first row is learned."""
        if not self.__sklearn_is_fitted__():
            return 0.0
        return float(self.predict(one_row(self, x))[0])

    def _reset(self) -> None:
        super()._reset()
        for name in ("_flat", "_outputs"):
            self.__dict__.pop(name, None)

    def _fitted_state(self) -> dict[str, Any]:
        return {**super()._fitted_state(), "flat": self._flat, "outputs": self._outputs}

    def _restore(self, state: dict[str, Any], outputs: int = 1) -> None:
        self._flat, self._outputs = state["flat"], state["outputs"]
        super()._restore(state, self._outputs)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._several_outputs
        tags.target_tags.single_output = True
        return tags


class OnlineClassifier(ClassifierMixin, OnlineLearner):
    """A learner of labels, known beforehand (``classes``) or discovered on the way.

    ``_linear_in_targets`` says whether several outputs come at no cost (see `labels`).
    """

    _linear_in_targets: ClassVar[bool] = True

    @property
    def classes_(self) -> NDArray[Any]:
        """The labels known so far, sorted."""
        check_is_fitted(self)
        return self._labels.classes

    def predict_then_learn(self, X: Any, y: Any, output: str = "label") -> NDArray[Any]:
        """Walk the rows in order; return what was predicted before each row's label was used.

        ``output="decision"`` gives the margins (n,), or (n, classes) for three classes or more.
        """
        if output not in ("label", "decision"):
            raise ValueError(f"output must be 'label' or 'decision', got {output!r}")
        return self._walk(X, y, None, output)

    def _walk(self, X: Any, y: Any, classes: Sequence[Any] | None, output: str) -> NDArray[Any]:
        with self._all_or_nothing():
            rows = self._rows(X)
            labels = self._known_labels(classes)
            values, stages, after = labels.receive(y, rows.shape[0])
            if not self.__sklearn_is_fitted__():
                self._start(rows.shape[1], labels.outputs)
            if after is not labels and (after.classes is not labels.classes):
                self._model.remap(labels.matrix(after))
            self._labels = after
            P = self._pass(rows, after.targets(values))
        if output == "decision":
            return after.decisions(P)
        return after.name(P, stages, values.dtype)

    def _known_labels(self, classes: Sequence[Any] | None) -> Labels:
        if not self.__sklearn_is_fitted__():
            return Labels(classes, linear=self._linear_in_targets)
        if classes is not None and not np.array_equal(np.unique(classes), self._labels.classes):
            raise ValueError(
                f"classes={list(classes)} differ from the classes known so far, "
                f"{self._labels.classes.tolist()}"
            )
        return self._labels

    def partial_fit(self, X: Any, y: Any, classes: Sequence[Any] | None = None) -> Self:
        """Learn the rows in order. ``classes`` in the first call fixes the list of labels."""
        self._walk(X, y, classes, "label")
        return self

    def fit(self, X: Any, y: Any) -> Self:
        """Forget everything, then learn the rows in order: one pass."""
        self._reset()
        return self.partial_fit(X, y)

    def decision_function(self, X: Any) -> Array:
        """Margins of the current model, (n,) or (n, classes); >= 0 means ``classes_[1]``."""
        P = self._predict(X)
        return self._labels.decisions(P)

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels by the current model; changes nothing."""
        P = self._predict(X)
        return self._labels._name_rows(P, self._labels.classes)

    @available_if(lambda self: getattr(self, "loss", None) == "logistic")
    def predict_proba(self, X: Any) -> Array:
        """Probabilities (n, classes) by the logistic link; for three classes or more normalised."""
        positive = expit(np.atleast_2d(self.decision_function(X).T).T)
        if positive.shape[1] == 1:
            positive = np.hstack((1.0 - positive, positive))
        return np.asarray(positive / positive.sum(axis=1, keepdims=True))

    def _first_output(self) -> int:
        return self._labels.ones if len(self._labels.classes) > 1 else 0

    def learn_one(self, x: Any, y: Any) -> Self:
        """Learn one row, a dict or a vector."""
        return self.partial_fit(one_row(self, x), [y])

    def predict_one(self, x: Any) -> Any:
        """Predict one row, a dict or a vector; None before the first row is learned."""
        if not self.__sklearn_is_fitted__():
            return None
        return self.predict(one_row(self, x))[0]

    def _fitted_state(self) -> dict[str, Any]:
        return {**super()._fitted_state(), "labels": self._labels.to_state()}

    def _restore(self, state: dict[str, Any], outputs: int = 1) -> None:
        self._labels = Labels.from_state(state["labels"])
        super()._restore(state, self._labels.outputs)
