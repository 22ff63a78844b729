"""`Intervals`: adaptive quantiles and prediction intervals around any regressor.

The quantiles are those of the default learner (`pronk.aggregate.calibration`), which need nothing
but predictions made before the target was used, and the targets. A quantile is p + s q:

    s   the error scale: how large errors are at such rows, an AWV forecaster of log e^2 on
        (1, p, p^2) and kernel features of the numbers in the row
    q   by quantile tracking: a miss widens the next intervals, a hit narrows them, so that the
        share of misses goes to 1 - coverage on any stream, for any model

`ErrorTracker` sets scales and points from the first rows, as the default learner does: at rows 8,
32, 128 and 512 from all rows so far, which it then learns again. Predictions of a model that
diverges are not bounded, so where the error scale reads them they are clipped to three standard
deviations of the targets, and their errors to a hundred. Before row 8 the ends of all intervals lie
at the largest error so far.

References: Gibbs, Candes, NeurIPS 2021; Angelopoulos, Candes, Tibshirani, NeurIPS 2023.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from pronk.aggregate.calibration import (
    LEVELS,
    POINTS,
    ErrorScale,
    Quantiles,
    around,
    requested_levels,
)
from pronk.aggregate.representation import typical_distance
from pronk.aggregate.settings import PLAIN, View
from pronk.columns.frames import count_rows
from pronk.compat.models import (
    NumericColumns,
    Predictor,
    copy_of,
    is_classifier,
    predictor,
    until_error,
)
from pronk.core.checks import labelled_runs
from pronk.core.kernels import Gaussian
from pronk.core.linalg import GrowingRows
from pronk.core.runtime import limited
from pronk.core.scales import FixedScale, without_outliers
from pronk.core.state import (
    Count,
    Numbers,
    Part,
    Real,
    Rows,
    Sizes,
    Stateful,
    checked_count,
    require,
)
from pronk.estimators import files
from pronk.estimators.calls import all_or_nothing, own_lock, replace_learned
from pronk.estimators.inputs import (
    Parameters,
    check_targets,
    check_weights,
    known_targets,
    learned_only,
    missing_labels,
    with_times,
)
from pronk.estimators.quantiles import QuantileRegressor
from pronk.estimators.rows import Around, OneRow

Array = NDArray[np.float64]

#: Rows at which scales and points are set from all rows so far.
STAGES = (8, 32, 128, 512)
#: Predictions are clipped here, in deviations of the targets, where the error scale reads them.
LARGEST_READ = 3.0
#: An error counts as at most this many deviations of the targets in the error scale.
LARGEST_ERROR = 100.0


class ErrorTracker(Stateful):
    """Quantiles of y from rows X (n, columns), predictions P and targets Y (n, outputs).

    Blocks are exact: the cut into calls changes nothing but rounding.
    """

    def __init__(self, columns: int, outputs: int) -> None:
        self.columns, self.outputs = columns, outputs
        self._rows = 0
        self._first_X = GrowingRows(columns)
        self._first_P, self._first_Y = GrowingRows(outputs), GrowingRows(outputs)
        self._level, self._size = np.zeros(outputs), np.ones(outputs)
        self._unit = 1.0
        self._scale: FixedScale | None = None
        self._points = np.empty((0, columns))  # scaled
        self._error_scale: ErrorScale | None = None
        self._quantiles = Quantiles(outputs)

    # -- learning ---------------------------------------------------------------------------

    def learn(self, X: Array, P: Array, Y: Array, weights: Array | None = None) -> Array:
        """Track the errors of rows in order; return offsets (n, levels, outputs) before each.

        The errors of rows of weight 0 are unknown.
        """
        if weights is not None and (unknown := weights == 0.0).any():
            parts = [
                self.offsets(X[rows], P[rows]) if skipped else self.learn(X[rows], P[rows], Y[rows])
                for rows, skipped in labelled_runs(unknown)
            ]
            return np.concatenate(parts)
        offsets, start = [np.empty((0, len(LEVELS), self.outputs))], 0
        while start < len(X):
            left = [stage - self._rows for stage in STAGES if stage > self._rows]
            rows = slice(start, min(len(X), start + left[0]) if left else len(X))
            offsets.append(self._learn_rows(X[rows], P[rows], Y[rows]))
            start = rows.stop
            if self._rows in STAGES:
                self._set_stage()
        return np.concatenate(offsets)

    def _learn_rows(self, X: Array, P: Array, Y: Array) -> Array:
        if self._rows < STAGES[-1]:
            for held, values in ((self._first_X, X), (self._first_P, P), (self._first_Y, Y)):
                held.append(values)
        scales = np.ones(P.shape)
        if self._error_scale is not None:
            Z = X if self._scale is None else self._scale.learn_transform(X)
            scales = self._error_scale.learn(self._features(Z), *self._read(P, Y)) * self._size
        self._rows += len(X)
        return self._quantiles.learn(P, scales, Y)

    def _set_stage(self) -> None:
        """Set scales and points from the rows so far; learn their errors again."""
        X, P, Y = (rows.values for rows in (self._first_X, self._first_P, self._first_Y))
        usual = without_outliers(Y)
        deviation = usual.std(axis=0)
        varies = deviation > 1e-12 * np.abs(usual).max(axis=0)
        self._level, self._size = usual.mean(axis=0), np.where(varies, deviation, 1.0)
        self._points, self._scale = np.empty((0, self.columns)), None
        Z = X
        if self.columns:
            self._scale = FixedScale(X)
            Z = self._scale.transform(X)
            self._unit = typical_distance(Gaussian(), Z)
        self._error_scale = self._new_error_scale()
        if self.columns:
            places = np.unique(np.linspace(0, len(Z) - 1, POINTS).astype(np.intp))
            self._extend_span(np.ascontiguousarray(Z[places]))
        self._error_scale.grow()
        self._error_scale.learn(self._features(Z[1:]), *self._read(P[1:], Y[1:]))
        if len(X) == STAGES[-1]:
            self._first_X = GrowingRows(self.columns)
            self._first_P, self._first_Y = GrowingRows(self.outputs), GrowingRows(self.outputs)

    def _new_error_scale(self) -> ErrorScale:
        view = View(PLAIN, Gaussian(), np.ones(self.columns), self._unit)
        return ErrorScale(view, self.outputs, POINTS)

    def _extend_span(self, rows: Array) -> None:
        """Make the span of some scaled rows; those that depend on others are no points."""
        assert self._error_scale is not None
        kept = self._error_scale.group.offer(rows, self._points, len(rows))
        self._points = np.ascontiguousarray(rows[kept])

    def _features(self, Z: Array) -> Array:
        """Return the kernel features (n, r) of scaled rows."""
        assert self._error_scale is not None
        if not self.columns:
            return np.empty((len(Z), 0))
        group = self._error_scale.group
        return group.features(np.ascontiguousarray(Z), self._points)

    def _read(self, P: Array, Y: Array) -> tuple[Array, Array]:
        """Return predictions as the error scale reads them, and targets with the same errors."""
        read = np.clip((P - self._level) / self._size, -LARGEST_READ, LARGEST_READ)
        return read, read + np.clip((Y - P) / self._size, -LARGEST_ERROR, LARGEST_ERROR)

    # -- the current state --------------------------------------------------------------------

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._rows

    def quantiles(self, X: Array, P: Array, levels: Array) -> Array:
        """Return the quantiles (n, outputs, q) of rows that may come next."""
        return around(P, self.offsets(X, P), levels)

    def offsets(self, X: Array, P: Array) -> Array:
        """Return the offsets (n, levels, outputs) of rows that may come next."""
        scales = np.ones(P.shape)
        if self._error_scale is not None:
            Z = X if self._scale is None else self._scale.transform(X)
            read = self._read(P, P)[0]
            scales = self._error_scale.predict(self._features(Z), read) * self._size
        return self._quantiles.current(P, scales)

    STATE = (
        Count("rows"),
        Rows("first_X", ("first", "columns")),
        Rows("first_P", ("first", "outputs")),
        Rows("first_Y", ("first", "outputs")),
        Numbers("level", ("outputs",), written="replaced"),
        Numbers("size", ("outputs",), low=1e-300, written="replaced"),
        Real("unit", low=1e-300),
        Part("scale", make="_empty_scale"),
        Numbers("points", ("points", "columns"), written="replaced"),
        Part("error_scale", make="_new_error_scale"),
        Part("quantiles", sizes={"outputs": "outputs"}),
    )

    def _sizes(self) -> dict[str, int]:
        return {"columns": self.columns, "outputs": self.outputs}

    def _empty_scale(self) -> FixedScale:
        return FixedScale(np.zeros((1, self.columns)))

    def _load(self, state: Any) -> Sizes:
        # The unit is a parameter of the error scale's kernel, which is made before it is restored.
        unit = state.get("unit") if isinstance(state, dict) else None
        require(type(unit) is float and 1e-300 <= unit <= 1e150, "unit is not a positive number")
        self._unit = unit  # type: ignore[assignment]
        return super()._load(state)

    def _restored(self, sizes: Sizes) -> None:
        held = self._rows >= STAGES[0]
        rule = f"must be given if, and only if, rows >= {STAGES[0]}"
        require((self._error_scale is not None) == held, f"error_scale {rule}")
        scaled = held and self.columns > 0
        require((self._scale is not None) == scaled, f"scale {rule}, with columns")
        kept = self._rows if self._rows < STAGES[-1] else 0
        require(sizes["first"] == kept, f"first_X has {sizes['first']} rows, not {kept}")
        if self._error_scale is None:
            require(not len(self._points), "points are there before the first stage")
            return
        points = self._points
        require(len(points) <= POINTS, "points are too many")
        require(np.abs(points).max(initial=0.0) <= 1e6, "points are not scaled rows")
        self._points = np.empty((0, self.columns))
        if len(points):
            self._extend_span(points)
        require(len(self._points) == len(points), "points depend on each other")
        self._error_scale.require_size()


# -- the estimator -------------------------------------------------------------------------------


#: The attributes of a wrapper that hold what was learned.
HELD = frozenset({
    "model_", "n_seen_", "_keys", "_predictor", "_begun",
    "_tracker", "_columns", "_flat",
    "_labels", "_slopes", "_decisions", "_given_classes",
})  # fmt: skip


class ModelWrapper(Around, OneRow, files.Saved, Parameters):
    """An estimator around a model of any library, of which a copy learns, ``model_``."""

    _labels_expected: ClassVar[bool]
    _inside: ClassVar[str] = "model_"
    model_: Any
    n_seen_: int
    partial_fit: Callable[..., Self]

    @property
    def _classifies(self) -> bool:
        return self._labels_expected

    def __init__(self, model: Any) -> None:
        self.model = model

    def _checked_copy(self) -> Any:
        """Return a copy of the model that has not learned anything; raise if it does not fit."""
        predictor(self.model)  # raises if it is no model
        found = is_classifier(self.model)
        if found is not None and found != self._labels_expected:
            what, other = ("classifier", "Calibrated") if found else ("regressor", "Intervals")
            raise ValueError(
                f"model must not be a {what}, got {type(self.model).__name__}; use pronk.{other}"
            )
        self._check_delay()
        begun = self.__dict__.get("_begun")
        return copy_of(self.model) if begun is None else copy.deepcopy(begun)

    def _check_delay(self) -> None:
        """Raise if a pronk learner inside holds labels back, which are learned here at once."""
        if not hasattr(self.model, "predict_then_learn"):
            return
        for name, value in self.model.get_params().items():
            if name.rpartition("__")[2] == "delay" and value:
                what = "probabilities" if self._labels_expected else "intervals"
                raise ValueError(
                    f"model has {name}={value}, but {type(self).__name__} learns from each label "
                    f"at once: leave the delay out, or use the learner alone, which has {what} "
                    "of its own"
                )

    def encode(self, X: Any) -> Array:
        """Return X as numbers that all methods accept in its place; the first X sets the columns.

        A category is its code, a time its seconds since 1970, and a missing value NaN.
        """
        with own_lock(self):
            model = self._current
            model = self._checked_copy() if model is self.model else model
            if not hasattr(model, "encode"):
                raise ValueError(
                    f"{type(self).__name__} around a {type(model).__name__} does not turn rows "
                    f"into numbers; use Prepared({type(self).__name__}(model))"
                )
            rows: Array = model.encode(X)
            if not self.__sklearn_is_fitted__():
                self._begun = model
        return rows

    def with_columns(
        self, names: Sequence[str] | None, kinds: Sequence[str], orders: Sequence[str] = ()
    ) -> Self:
        """Declare the columns of the model (`Prepared.with_columns`) before rows come."""
        self._begun = self._checked_copy().with_columns(names, kinds, orders)
        return self

    @property
    def layout_(self) -> Any:
        """The columns of the model, where it is a pronk learner that has seen rows."""
        return self._current.layout_

    @property
    def _current(self) -> Any:
        """The model that learns; before that, one that has its columns, or the one given."""
        return self.__dict__.get("model_", self.__dict__.get("_begun", self.model))

    def _checked_weights(self, y: Any, n: int, weights: Any) -> Array | None:
        """Return the weights, 0 for a row without a label; None if all are 1."""
        checked = check_weights(learned_only(weights, missing_labels(y, n), n), n)
        if checked is not None and checked.ndim == 2:
            raise ValueError(
                f"times has no meaning for {type(self).__name__}; leave it out, or use the default "
                "learner, which has intervals and probabilities of its own"
            )
        return None if checked is None or (checked == 1.0).all() else checked

    def learn_one(self, x: Any, y: Any, **options: Any) -> Self:
        """Learn one row, a dict or a vector."""
        super().learn_one(x, y, **options)
        if isinstance(x, dict):
            self._keys = self._keys_of(x)
        return self

    def _one(self, x: Any) -> Any:
        """Return one row, a dict or a vector, as rows of the model."""
        if hasattr(self.model, "encode"):  # a pronk learner
            return self._current._one(x)
        if not isinstance(x, dict):
            return np.asarray(x, dtype=np.float64).reshape(1, -1)
        if hasattr(self.model, "learn_one"):  # river, `Keyed`
            return [x]
        names = self._keys_of(x)
        missing = [name for name in names if name not in x]
        if missing or len(x) != len(names):
            extra = [name for name in x if name not in names]
            raise ValueError(f"x must have the keys {names}; missing {missing}, unknown {extra}")
        return np.array([[x[name] for name in names]], dtype=np.float64)

    def _whole(self, call: Callable[..., Any], *args: Any) -> Any:
        """Run a call that learns; if it raises, a pronk learner inside and this one roll back."""
        if hasattr(self.model, "encode"):
            return all_or_nothing(self, call, *args)
        return call(*args)

    def _keys_of(self, x: dict[Any, Any]) -> list[Any]:
        """Return the columns of a model of another library: those of its first row."""
        names: list[Any] | None = self.__dict__.get("_keys")
        return names or list(getattr(self, "feature_names_in_", x))

    def _encoded(self, X: Any, model: Any = None) -> Any:
        """Return rows as numbers if the model is a pronk learner, else as they are."""
        model = self.__dict__.get("model_") if model is None else model
        return model.encode(X) if hasattr(model, "encode") else X

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Forget everything, then learn the rows in order: one pass."""
        fresh = type(self)(**self.get_params(deep=False))
        fresh.partial_fit(X, y, sample_weight=sample_weight)
        if not fresh.__sklearn_is_fitted__():
            raise ValueError("X has 0 rows: there is nothing to learn")
        replace_learned(self, fresh, HELD)
        return self

    @property
    def size_(self) -> int:
        """Points that the model holds now; 0 for a model without points."""
        check_is_fitted(self)
        return int(getattr(self.model_, "size_", 0))

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    def _predictor_of(self) -> Predictor:
        """Return the interface of the model that learns."""
        held = self.__dict__.get("_predictor")
        if held is None:
            classes = self.__dict__.get("_given_classes")
            held = self._predictor = predictor(self.model_, classes, self.n_seen_ > 0)
        return held

    # -- files ---------------------------------------------------------------------------------

    def _check_can_be_saved(self) -> None:
        if files.has_kernel_function(self.model) or not hasattr(self.model, "_fitted_state"):
            raise ValueError(
                f"a {type(self.model).__name__} cannot be saved without pickle; use pickle.dump or "
                f"joblib.dump for the whole {type(self).__name__}, or wrap a pronk learner"
            )

    def _file_params(self) -> dict[str, Any]:
        self._check_can_be_saved()
        params = self.get_params(deep=False)
        return {**params, "model": files.settings_text(params["model"])}

    @classmethod
    def _from_file(cls, params: dict[str, Any]) -> Self:
        model = files.from_settings_text(params["model"], "the file")
        return cls(**{**params, "model": model})

    def _saved_model(self) -> dict[str, Any]:
        self._check_can_be_saved()
        check_is_fitted(self)
        return {"model": files.learner_tree(self.model_), "n_seen_": self.n_seen_}

    def _restore_model(self, state: Any, names: set[str]) -> None:
        require(isinstance(state, dict), "the state is not a table")
        known = {"model", "n_seen_"} | names
        require(set(state) == known, "the state has other entries than it should")
        self.model_ = files.learner_from_tree(state["model"], "model", tried=False)
        require(type(self.model_) is type(self.model), "model is of another class")
        self.n_seen_ = checked_count(state["n_seen_"], "n_seen_")

    def _try_out(self) -> None:
        """Test the model and the wrapper of a file; raise if they do not work."""
        require(self.model_.n_seen_ == self.n_seen_, "model has other rows than n_seen_")
        self.model_._try_out()


class Intervals(RegressorMixin, QuantileRegressor, ModelWrapper):
    """Adaptive quantiles and prediction intervals around any regressor.

    Parameters
    ----------
    model : a regressor
        With ``partial_fit`` and ``predict`` (scikit-learn), ``learn_one`` and ``predict_one``
        (river), or a pronk learner. A copy of it learns, ``model_``.

    Rows are learned in order, those of other libraries' models one at a time, and quantiles are
    made before y is used. Their long-run coverage is correct for any model and stream, also under
    drift; they are wider where errors on similar rows were larger.

    If a call raises, a pronk learner inside is rolled back. Other models cannot be; they have then
    learned the rows before the one that raised, and ``n_seen_`` counts them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import SGDRegressor
    >>> import pronk
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 2))
    >>> y = X[:, 0] + (0.1 + np.abs(X[:, 1])) * rng.normal(size=3000)
    >>> model = pronk.Intervals(SGDRegressor())
    >>> predictions, intervals = model.predict_then_learn(X, y, interval=0.9)
    >>> covered = (intervals[:, 0] <= y) & (y <= intervals[:, 1])
    >>> print(f"coverage {covered[500:].mean():.2f}")
    coverage 0.90
    >>> narrow, wide = np.diff(model.predict_interval([[0, 0], [0, 1]], 0.9))[:, 0]
    >>> print(f"widths {narrow:.1f} and {wide:.1f}")
    widths 0.9 and 3.5
    """

    _labels_expected = False
    _tracker: ErrorTracker
    _columns: NumericColumns
    _flat: bool

    def predict_then_learn(
        self, X: Any, y: Any, interval: float | None = None, *, quantiles: Any = None,
        sample_weight: Any = None, times: Any = None,
    ) -> Any:  # fmt: skip
        """Predict each row, then learn it, in order; return the predictions.

        A row whose label is missing (None or NaN) is predicted and not learned. With
        ``interval=0.9`` the pair of predictions and intervals that were to hold y with that
        probability, (n, 2) or (n, outputs, 2); with ``quantiles=(0.1, 0.5, 0.9)`` the pair of
        predictions and quantiles of y, (n, 3) or (n, outputs, 3). NaN for the first two rows,
        before which no error is known.
        """
        levels = requested_levels(interval, quantiles)
        sample_weight = with_times(sample_weight, times)
        with own_lock(self), limited:
            n = count_rows(X)
            weights = self._checked_weights(y, n, sample_weight)
            Y = check_targets(known_targets(y, None, n)[0], n)
            if not n:
                return Y if levels is None else (Y, np.empty((*Y.shape, len(levels))))
            P, offsets = self._whole(self._learn, X, Y, weights)
        if levels is None:
            return P.reshape(Y.shape)
        return P.reshape(Y.shape), around(P, offsets, levels).reshape(*Y.shape, len(levels))

    def _learn(self, X: Any, Y: Array, weights: Array | None) -> tuple[Array, Array]:
        """Learn rows; return predictions (n, outputs) and offsets (n, levels, outputs)."""
        outputs = 1 if Y.ndim == 1 else Y.shape[1]
        if not self.__sklearn_is_fitted__():
            model = self._checked_copy()
            X = self._encoded(X, model)
            pronk = hasattr(model, "layout_")
            columns = NumericColumns.encoded(model.layout_.kinds) if pronk else NumericColumns(X)
            tracker = ErrorTracker(columns.width, outputs)
            started = {"n_seen_": 0, "_columns": columns, "_tracker": tracker, "model_": model}
        else:
            started = {}
            X = self._encoded(X)
            if (outputs, Y.ndim == 1) != (self._tracker.outputs, self._flat):
                raise ValueError(f"y has {outputs} columns; it began with {self._tracker.outputs}")
        columns = started.get("_columns") or self._columns
        numbers = columns.of(X)
        self.__dict__.update(started)
        self._flat = Y.ndim == 1
        parts, error = until_error(self._predictor_of().numbers(X, Y, weights))
        done = sum(len(part) for part in parts)
        if weights is not None:
            weights = weights[:done]
        learned = done if weights is None else int(np.count_nonzero(weights))
        if done:
            P, targets = np.concatenate(parts), Y[:done].reshape(done, outputs)
            offsets = self._tracker.learn(numbers[:done], P, targets, weights)
            self.n_seen_ += learned
        if not learned and started:
            for name in (*started, "_flat", "_predictor"):
                self.__dict__.pop(name, None)
        if error is not None:
            raise error
        return P, offsets

    def partial_fit(self, X: Any, y: Any, *, sample_weight: Any = None) -> Self:
        """Learn the rows in order."""
        self.predict_then_learn(X, y, sample_weight=sample_weight)
        return self

    def predict(self, X: Any) -> Array:
        """Predict with the current model; changes nothing."""
        check_is_fitted(self)
        with own_lock(self):
            P = self._predict(X)
        return P[:, 0] if self._flat else P

    @property
    def _outputs(self) -> int:
        return self._tracker.outputs

    def _predict(self, X: Any) -> Array:
        if not count_rows(X):
            return np.empty((0, self._outputs))
        X = self._encoded(X)
        return np.asarray(self._predictor_of().predict_numbers(X), dtype=np.float64)

    def _predict_quantiles(self, X: Any, levels: Array, ahead: bool | None) -> Array:
        check_is_fitted(self)
        if ahead is not None:
            raise ValueError("ahead has no meaning for Intervals: every row is the next one")
        with own_lock(self), limited:
            P = self._predict(X)
            if not len(P):
                return np.empty((*P.shape, len(levels)))
            return self._tracker.quantiles(self._columns.of(self._encoded(X)), P, levels)

    def _fitted_state(self) -> dict[str, Any]:
        with own_lock(self):
            return {
                **self._saved_model(),
                "flat": self._flat,
                "outputs": self._tracker.outputs,
                "tracker": self._tracker.to_state(),
            }

    def _restore(self, state: Any) -> None:
        self._restore_model(state, {"flat", "outputs", "tracker"})
        require(type(state["flat"]) is bool, "flat is not true or false")
        self._flat = state["flat"]
        outputs = checked_count(state["outputs"], "outputs", 1, 1 if self._flat else 1000)
        self._columns = NumericColumns.encoded(self.model_.layout_.kinds)
        self._tracker = ErrorTracker(self._columns.width, outputs)
        self._tracker.restore(state["tracker"])
        require(self._tracker.rows == self.n_seen_, "tracker has other rows than n_seen_")

    def _try_out(self) -> None:
        super()._try_out()
        P = self._predict(np.zeros((1, self.model_.n_features_in_)))
        require(P.shape[1] == self._tracker.outputs, "outputs are not those of the model")
        # A copy learns some rows; its state must be one that can be restored.
        tracker = copy.deepcopy(self._tracker)
        X = np.zeros((3, tracker.columns))
        X[1], X[2] = 0.5, 1.0
        P = np.tile(P, (3, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tracker.learn(X, P, np.zeros(P.shape))
            ErrorTracker(tracker.columns, tracker.outputs).restore(tracker.to_state())
            require(np.isfinite(tracker.quantiles(X, P, LEVELS)).all(), "quantiles are not finite")
