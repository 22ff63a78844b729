"""The base class of all learners: check rows, pass them to the engine, describe what is held."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import pairwise
from numbers import Integral
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pronk.columns.frames import Layout, count_rows, is_table, layout_of, whole
from pronk.columns.model import TIMES_ONLY, Columns, Options
from pronk.columns.values import NUMBER
from pronk.core.arrays import Array
from pronk.core.checks import LARGEST_INPUT
from pronk.core.first_rows import learned_rows
from pronk.core.kernels import KERNELS, Kernel, get_kernel, is_automatic, with_bandwidth
from pronk.core.one_vs_rest import OneVsRest
from pronk.core.randomness import make_seed
from pronk.core.runtime import limited
from pronk.estimators.bandwidth import AutomaticBandwidth, EngineFactory
from pronk.estimators.calls import own_lock, rolled_back
from pronk.estimators.files import SavedState
from pronk.estimators.inputs import (
    Interval,
    StrOptions,
    check_rows,
    check_weights,
    dense_blocks,
    parameter,
)
from pronk.estimators.rows import WithColumns
from pronk.estimators.waiting import Kept, Line
from pronk.newton.certificate import Certificate

#: Points from which on a row takes milliseconds, so that the learner warns.
MANY_POINTS = 2000


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


#: Parameters that a learner reads in every call, or only in `fit`; the others make its engine.
USED_AT_ONCE = ("max_classes", "random_state")
#: What a learner holds beside its columns.
LEARNED = (
    *("_model", "_warned", "_seed", "_bandwidth", "_first_params", "n_seen_"),
    *("_flat", "_outputs", "_labels"),
)


class OnlineLearner(WithColumns, SavedState):
    """Predict, then learn, rows in order; everything else is built on `predict_then_learn`.

    A subclass declares its parameters and builds its engine in ``_make_model(columns, outputs)``.
    ``sample_weight`` is the weight of each row, where weights have a meaning (`_accepts_weights`):
    a second-order learner counts the row that often in its sums, a first-order learner makes a step
    that many times as long. A row of weight 0 is predicted and not learned.
    """

    kernel: Any = parameter(
        StrOptions(set(KERNELS)), Kernel, callable, default="gaussian", kw_only=False
    )
    random_state: Any = parameter(
        Interval(Integral, 0, None, closed="left"), np.random.Generator, np.random.RandomState,
        None, default=None,
    )  # fmt: skip
    _weighted: ClassVar[bool] = False  # see `_accepts_weights`
    _covered_by: ClassVar[str | None] = None  # see `_theorem`
    _model: Model = field(init=False)
    _outputs: int = field(init=False)  # of the engine
    _seed: int = field(init=False)
    _bandwidth: float = field(init=False)  # measured from the first rows, once it is final
    _user_kernel: bool = field(init=False)

    @property
    def _theorem(self) -> str | None:
        """The name of the theorem of `pronk.regret` that holds for the learner, if there is one."""
        return self._covered_by

    @property
    def _dictionary_grows(self) -> bool:
        """Whether a dictionary grows with the data, until a budget is reached if there is one."""
        return False

    def _why_not_merged(self) -> str | None:
        """Return why the learner cannot be merged with others (`merging`); None if it can."""
        return "its state depends on the order of its rows"

    # -- the parameters of the kernel are parameters of the learner -----------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return parameters by name; with ``deep`` also the kernel's, as ``kernel__bandwidth``."""
        params: dict[str, Any] = super().get_params(deep=deep)
        if deep and isinstance(self.kernel, str) and self.kernel in KERNELS:
            nested = KERNELS[self.kernel]().get_params()
            params |= {f"kernel__{name}": value for name, value in nested.items()}
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``kernel__bandwidth`` also on a kernel given by its name.

        A learner that has learned rows continues, and is saved and merged, with the parameters of
        its first row (except ``max_classes``); new ones are used by the next `fit`.
        """
        kernel = params.get("kernel", self.kernel)
        nested = any(name.startswith("kernel__") for name in params)
        if nested and isinstance(kernel, str) and kernel in KERNELS:
            params["kernel"] = KERNELS[kernel]()
        elif nested and isinstance(kernel, Kernel):
            params["kernel"] = copy.copy(kernel)  # the engine has the old one
        if params and self.__sklearn_is_fitted__() and "_first_params" not in self.__dict__:
            self._first_params = self.get_params(deep=False)
        super().set_params(**params)
        return self

    def _file_params(self) -> dict[str, Any]:
        """Return the parameters that the engine was made with."""
        params = self.get_params(deep=False)
        first: dict[str, Any] = self.__dict__.get("_first_params", params)
        return params | {name: first[name] for name in params if name not in USED_AT_ONCE}

    # -- the engine ------------------------------------------------------------------------

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

    # -- fit, built on `partial_fit` -------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any, *, sample_weight: Any = None, times: Any = None) -> Self:
        """Learn the rows in order."""
        raise NotImplementedError

    @rolled_back
    def fit(self, X: Any, y: Any, sample_weight: Any = None, times: Any = None) -> Self:
        """Forget everything, then learn the rows in order: one pass."""
        self._reset()
        self.partial_fit(X, y, sample_weight=sample_weight, times=times)
        if not self.__sklearn_is_fitted__():
            what = "y has no label" if count_rows(X) else "X has 0 rows"
            raise ValueError(f"{what}: there is nothing to learn")
        if not self.n_seen_:
            what = (
                "y has no label" if sample_weight is None else "sample_weight is zero for all rows"
            )
            raise ValueError(f"{what}: there is nothing to learn")
        return self

    # -- rows that wait for their labels (`waiting`) -----------------------------------------------

    def _predict_to_wait(self, X: Any) -> tuple[NDArray[Any], Kept | None]:
        """Predict rows that are learned later; return predictions and what is kept of them."""
        return self.predict(X), None

    def _learn_waiting(self, X: Any, y: Any, lines: Sequence[Line], **options: Any) -> Any:
        """Learn rows in order, with what was kept of their predictions; return the predictions.

        ``options`` are those of `predict_then_learn`.
        """
        return self.predict_then_learn(X, y, **options)

    # -- a pass ------------------------------------------------------------------------------

    def _reset(self) -> None:
        """Discard the fitted state."""
        self._forget_columns()
        for name in LEARNED:
            self.__dict__.pop(name, None)

    # -- the columns -----------------------------------------------------------------------------

    def _begin(self, layout: Layout) -> None:
        self._set_columns(Columns(layout, self._options))

    @property
    def _options(self) -> Options:
        """How columns of text and times are prepared; numbers are left as they are."""
        return Options("none" if getattr(self, "_scales_itself", False) else TIMES_ONLY)

    @property
    def columns_(self) -> list[dict[str, Any]]:
        """What each column became, by the rows so far: its name, its kind, and its categories."""
        check_is_fitted(self)
        return self._columns.described()

    def encode(self, X: Any) -> Array:
        """Return X as numbers that all methods accept in its place; the first X sets the columns.

        A category is its code, a time its seconds since 1970, and a missing value NaN.
        """
        rows = self._numbers(X, "_columns" not in self.__dict__)
        return rows if isinstance(rows, np.ndarray) else np.asarray(rows.toarray())

    def _rows(self, X: Any, weights: Any = None, *, learns: bool = False) -> Any:
        """Return the rows of the engine; the first call also checks the parameters.

        With ``learns`` they are learned, except those of weight 0.
        """
        columns = self.__dict__.get("_columns")
        fitted = self.__sklearn_is_fitted__()
        if fitted and weights is None and columns is not None and columns.takes(X):
            if learns:
                self._columns = columns.with_numbers(X)
            if self._dot_kernel:
                self._check_kernel_values(X)
            return X
        if not fitted:
            self._validate_params()
            get_kernel(self.kernel, auto=True)
        new = columns is None
        rows = self._numbers(X, new)
        if not rows.shape[0]:
            if new:  # an empty batch does not set the columns
                self._forget_columns()
            return rows
        if not isinstance(rows, np.ndarray):
            if not self._columns.unchanged:
                raise ValueError("X is sparse, but this model has columns of text or times")
        elif learns:
            if weights is not None and weights.ndim == 2:
                weights = weights[:, 0]
            self._columns, rows = self._columns.learned(rows, weights)
        else:
            rows = self._columns.transform(rows)
        if not fitted or self._dot_kernel:
            self._check_kernel_values(rows)
        return rows

    def _numbers(self, X: Any, new: bool) -> Any:
        """Return X as numbers, with NaN for what is missing; ``new`` X sets the columns."""
        if is_table(X):
            X = whole(X)
            if new:
                self._begin(layout_of(X))
            return self._columns.encode(X)
        rows = check_rows(self, X, first=new)
        if new:
            layout = Layout(None, (NUMBER,) * rows.shape[1])
            self._columns = Columns(layout, self._options)
        elif not self._columns.unchanged and isinstance(rows, np.ndarray):
            return self._columns.encode(rows)
        return rows

    def _start(self, columns: int, outputs: int) -> None:
        """Build the engine for the first rows."""
        self._seed = make_seed(self.random_state)
        self._model = self._new_model(columns, outputs)
        self._read_kernel()
        self.n_seen_ = 0

    def _read_kernel(self) -> None:
        """Store the facts about the kernel that every call needs."""
        kernel = get_kernel(self.kernel, auto=True)
        self._user_kernel = kernel.foreign
        self._dot_kernel = kernel.unlimited

    def _check_kernel_values(self, X: Any) -> None:
        """Raise if kernel values would overflow: |k(x, y)| <= max(k(x, x), k(y, y))."""
        kernel = get_kernel(self.kernel, auto=True)
        if not kernel.unlimited:
            return
        with np.errstate(over="ignore"):
            for rows, block in dense_blocks(X):
                diagonal = kernel.diagonal(block())
                if not diagonal.max() <= LARGEST_INPUT:
                    row = rows.start + int(np.argmax(~(diagonal <= LARGEST_INPUT)))
                    raise ValueError(
                        f"X makes k(x, x) overflow at row {row} (counting from 0); rescale it"
                    )

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take the state of a pickle; joblib may have mapped its arrays, which learning changes."""
        fitted = {name: state[name] for name in ("_model", "_columns") if name in state}
        super().__setstate__(state | copy.deepcopy(fitted))

    def _accepts_weights(self) -> bool:
        """Return whether the weight of a row has a meaning for the learner."""
        return self._weighted

    def _accepts_times(self) -> bool:
        """Return whether the times of rows have a meaning for the learner."""
        return False

    def _check_weights(self, sample_weight: Any, rows: int) -> Array | None:
        """Return checked weights, one per row; None where all are 1. Raise if there are times."""
        weights = check_weights(sample_weight, rows)
        if weights is not None and weights.ndim == 2:
            raise ValueError(
                f"times has no meaning for {self!r}; leave it out, or use the default learner or "
                "one with a half_life in time, such as half_life='1h'"
            )
        if weights is None or (weights == 1.0).all():
            return None
        if not self._accepts_weights():
            self._check_zero_or_one(weights)
        return weights

    def _check_zero_or_one(self, weights: Array, why: str = "") -> None:
        """Raise if a weight has no meaning for a learner of rows that count once, or not at all."""
        if (other := (weights != 0.0) & (weights != 1.0)).any():
            row = int(other.argmax())
            raise ValueError(
                f"sample_weight has no meaning for {self!r} except 0 and 1, got {weights[row]:.3g} "
                f"at row {row} (counting from 0){why}; use a learner that accepts weights (docs: "
                "rows that count more)"
            )

    def _pass_weighted(self, X: Any, Y: Array, weights: Array) -> Array:
        """Predict then learn rows of positive weight, predict the others, in order."""
        parts = []
        for part, place, learned in runs(X, weights):
            given = (weights[place],) if self._accepts_weights() else ()
            if learned:
                parts.append(self._model.learn(part, Y[place], *given))
            else:
                parts.append(self._model.predict(part))
        return np.concatenate(parts)

    def _pass(self, X: Any, Y: Array, weights: Array | None = None) -> Array:
        """Predict, then learn, all rows with the engine."""
        try:
            if weights is not None:
                P = self._pass_weighted(X, Y, weights)
            elif isinstance(X, np.ndarray):
                P = self._learn(X, Y)
            else:
                P = np.concatenate(
                    [self._learn(block(), Y[rows]) for rows, block in dense_blocks(X)]
                )
        except FloatingPointError as error:
            raise ValueError(f"{error}; rescale X and y, or choose a larger alpha") from None
        model: Any = self._model
        if isinstance(model, AutomaticBandwidth) and model.is_over:  # the bandwidth is final
            self._bandwidth, self._model = model.bandwidth, model.inner
        self._check_result(P)
        self.n_seen_ += len(Y) if weights is None else int(learned_rows(weights).sum())
        if self._dictionary_grows:
            self._warn_of_size()
        return P

    def _learn(self, X: Array, Y: Array) -> Array:
        """Predict, then learn, rows of weight 1 with the engine."""
        return self._model.learn(X, Y)

    def _check_result(self, P: Array) -> None:
        """Raise a ValueError if a prediction is not finite."""
        total = P.sum()
        if total - total == 0.0:  # then all are finite
            return
        finite = np.isfinite(P).all(axis=1)
        if not finite.all():
            row = int(np.argmin(finite))
            raise ValueError(
                f"the prediction of row {row} (counting from 0) overflows; rescale X and y"
            )

    def _warn_of_size(self) -> None:
        """Warn once when a dictionary is so large that learning becomes slow."""
        points = self._model.points
        size = 0 if points is None else len(points)
        if size < MANY_POINTS or getattr(self, "_warned", False):
            return
        self._warned = True
        warnings.warn(
            f"the dictionary holds {size} points, and time per row grows with the square of that; "
            "set budget=, a larger bandwidth or gamma, or scale the columns",
            UserWarning,
            stacklevel=4,
        )

    def _predict(self, X: Any, ahead: bool | None = None) -> Array:
        """Predict rows; ``ahead`` is for learners whose `predict` has it."""
        check_is_fitted(self)
        X = self._rows(X)
        if not X.shape[0]:
            return np.empty((0, self._outputs))
        with own_lock(self), limited:
            parts = [self._model.predict(*part) for part in self._parts(X, ahead)]
        P = np.concatenate(parts) if len(parts) > 1 else parts[0]
        self._check_result(P)
        return P

    def _parts(self, rows: Any, ahead: bool | None) -> Iterator[tuple[Any, ...]]:
        """Yield what the engine's `predict` takes, for some rows at a time."""
        return ((block(),) for _, block in dense_blocks(rows))

    # -- what is held --------------------------------------------------------------------------

    @property
    def kernel_(self) -> Kernel:
        """The kernel; where its bandwidth is "auto", with the one measured from the first rows."""
        kernel = get_kernel(self.kernel, auto=True)
        if not self._measures_bandwidth:
            return kernel
        check_is_fitted(self)
        held = self.__dict__.get("_bandwidth")
        return with_bandwidth(kernel, self._model.bandwidth if held is None else held)  # type: ignore[attr-defined]

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
        with own_lock(self):
            model = getattr(self._model, "inner", self._model)
            if isinstance(model, OneVsRest):
                return model.points_from(self._first_output())
            return self._model.points

    def certificate(self) -> Certificate:
        """Return the regret so far against the best function in hindsight, and its bound.

        Ridge and AWV learners always have a certificate, online Newton learners have one with
        ``track_regret=True``. It holds for one output: the first of several, or that of two
        classes.
        """
        check_is_fitted(self)
        if not hasattr(self._model, "certificate"):
            raise ValueError(f"{type(self).__name__} has no certificate: its regret is not tracked")
        with own_lock(self), limited:
            certificate: Certificate = self._model.certificate(self._first_output())
        return certificate

    def _first_output(self) -> int:
        """Return the first output that belongs to a target or a class."""
        return 0

    @property
    def _classifies(self) -> bool:
        return isinstance(self, ClassifierMixin)

    # -- scikit-learn ----------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.input_tags.string = tags.input_tags.categorical = True
        return tags


def runs(X: Any, weights: Array) -> Iterator[tuple[Array, slice, bool]]:
    """Yield rows that follow each other and are all learned, or all not; their place, and which."""
    for rows, block in dense_blocks(X):
        values, learned = block(), learned_rows(weights[rows])
        ends = np.flatnonzero(np.diff(learned)) + 1
        for start, stop in pairwise([0, *ends.tolist(), len(values)]):
            place = slice(rows.start + start, rows.start + stop)
            yield np.ascontiguousarray(values[start:stop]), place, bool(learned[start])
