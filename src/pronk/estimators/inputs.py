"""Check rows, targets, weights and parameters before anything is learned.

A C-contiguous float64 array skips scikit-learn's full validation, which takes longer than learning
a row; everything else passes through it. Errors name the argument, the row and the column.
"""

from __future__ import annotations

from dataclasses import Field, dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, dataclass_transform

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval as _Interval
from sklearn.utils._param_validation import InvalidParameterError, StrOptions
from sklearn.utils.validation import validate_data

from pronk.columns.frames import check_rows_of
from pronk.core.arrays import Array
from pronk.core.checks import check_finite, unmasked, without_label
from pronk.core.state import LARGEST_TARGET

#: A weight of this size times a squared target stays far below the largest number of a state.
LARGEST_WEIGHT = 1e10


def check_rows(learner: Any, X: Any, *, first: bool) -> Any:
    """Return an array or a list of numbers as float64, C-contiguous, or a CSR matrix.

    NaN is a missing value, but not in a matrix. ``first`` sets the columns. X may have no rows: an
    empty batch has empty predictions.
    """
    if (
        type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and X.flags.c_contiguous
        and X.size
        and (first or X.shape[1] == learner.n_features_in_)
    ):
        if first:  # as scikit-learn does for an array, which has no names
            learner.n_features_in_ = X.shape[1]
            learner.__dict__.pop("feature_names_in_", None)
        check_finite(X, "X", gaps=True)
        return X
    check_form(X)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    rows = validate_data(
        learner,
        X,
        reset=first,
        accept_sparse="csr",
        dtype=np.float64,
        order="C",
        ensure_all_finite=False,
        ensure_min_samples=0,
    )
    if isinstance(rows, np.ndarray):
        check_finite(rows, "X", gaps=True)
    else:
        check_finite(rows.data, "X", rows)
    return rows


def check_form(X: Any) -> None:
    """Raise if X is no array, frame or list of rows, or if its rows are not equally long."""
    check_rows_of(X)
    if not isinstance(X, list | tuple) or not all(hasattr(row, "__len__") for row in X):
        return
    for i, row in enumerate(X):
        if len(row) != len(X[0]):
            raise ValueError(
                f"X has {len(row)} values at row {i} (counting from 0), and {len(X[0])} at row 0"
            )


class TimedWeights(np.ndarray):
    """Weights and times in seconds, (n, 2), as `with_times` makes them of two arguments."""


def check_weights(weights: Any, n: int) -> Array | None:
    """Return one finite number >= 0 for each row; None stands for 1 everywhere.

    `TimedWeights` stay such.
    """
    if weights is None:
        return None
    if isinstance(weights, TimedWeights) and weights.ndim == 2:
        if len(weights) != n:
            raise ValueError(f"times has {len(weights)} entries, X has {n} rows")
        check_finite(weights[:, 1], "times")
        check_weights(weights[:, 0], n)
        return weights
    try:
        values = np.ascontiguousarray(unmasked(weights), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers ({error})") from None
    if values.ndim != 1:
        raise ValueError(f"sample_weight must have one dimension, got shape {values.shape}")
    if len(values) != n:
        raise ValueError(f"sample_weight has {len(values)} entries, X has {n} rows")
    check_finite(values, "sample_weight", largest=LARGEST_WEIGHT)
    if values.size and values.min() < 0.0:
        row = int(np.argmin(values))
        raise ValueError(
            f"sample_weight is {values[row]:.3g} at row {row} (counting from 0); it must be at "
            "least 0, which means predicted but not learned"
        )
    return values


def learned_only(weights: Any, missing: NDArray[np.bool_] | None, n: int) -> Any:
    """Return weights that are 0 for rows without a label, which are predicted and not learned."""
    if missing is None:
        return weights
    own = check_weights(weights, n)
    if own is None:
        return np.where(missing, 0.0, 1.0)
    own = own.copy()
    own[(missing, 0) if own.ndim == 2 else missing] = 0.0
    return own


def known_targets(y: Any, weights: Any, n: int) -> tuple[Any, Any]:
    """Return targets and weights that are both 0 in rows whose label is missing."""
    missing = missing_labels(y, n)
    if missing is None:
        return y, weights
    y = np.array(unmasked(y), dtype=np.float64)
    y[missing] = 0.0
    return y, learned_only(weights, missing, n)


def missing_labels(y: Any, n: int) -> NDArray[np.bool_] | None:
    """Return which of ``n`` rows have no label (None or NaN); None if all have one."""
    if type(y) is np.ndarray and y.size:
        least = y.item(0) if y.size == 1 else y.min() if y.dtype == np.float64 else None
        if y.dtype.kind in "biuUS" or (y.dtype == np.float64 and least == least):
            return None  # a least number that is NaN is not equal to itself
    check_given(y)
    values = np.asarray(unmasked(y))
    if values.ndim not in (1, 2):
        return None  # the learner raises
    check_length(values, n)
    return without_label(values)


def with_times(weights: Any, times: Any) -> Any:
    """Return weights and times in seconds as `TimedWeights`; the weights if times is None.

    Times are numbers, in seconds, or datetimes; they must not decrease.
    """
    if times is None:
        return weights
    seconds = seconds_of(times)
    check_ordered(seconds)
    own = check_weights(weights, len(seconds))
    return timed_weights(np.ones(len(seconds)) if own is None else own, seconds)


def timed_weights(weights: Array, seconds: Array) -> TimedWeights:
    """Return weights (n,) and times (n,) in seconds as one array."""
    return np.column_stack((weights, seconds)).view(TimedWeights)


def seconds_of(times: Any) -> Array:
    """Return times (n,) in seconds; datetimes count from 1970."""
    try:
        values = np.asarray(unmasked(times))
        if values.dtype.kind == "O" or values.dtype.kind == "U":
            values = values.astype("datetime64[us]")
        if values.dtype.kind == "M":
            missing = np.isnat(values)
            values = values.astype("datetime64[us]").astype(np.int64) / 1e6
            values[missing] = np.nan
        values = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"times must hold seconds or datetimes ({error})") from None
    if values.ndim != 1:
        raise ValueError(f"times must have one dimension, got shape {values.shape}")
    check_finite(values, "times")
    return values


def check_ordered(seconds: Array, last: float | None = None) -> None:
    """Raise if a time is before the one of an earlier row; ``last`` is that of the last call."""
    first = seconds[:1] if last is None else [last]
    before = np.concatenate((first, seconds[:-1]))[: len(seconds)]
    if (early := seconds < before).any():
        row = int(np.argmax(early))
        raise ValueError(
            f"times decrease at row {row} (counting from 0): {seconds[row]:.17g} after "
            f"{before[row]:.17g} seconds; sort the rows by time"
        )


def check_targets(y: Any, n: int) -> Array:
    """Return the finite targets of a regression, (n,) or (n, outputs)."""
    if type(y) is np.ndarray and y.dtype == np.float64 and y.ndim == 1 and len(y) == n:
        check_finite(y, "y", largest=LARGEST_TARGET)
        return np.ascontiguousarray(y)
    check_given(y)
    try:
        values = np.asarray(unmasked(y))
        if np.iscomplexobj(values):
            raise ValueError("Complex data not supported: y has complex values")
        if values.dtype.kind in "mM":
            raise ValueError("y has dates or durations; give numbers, such as seconds")
        numbers = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(_no_number(y) or f"y must hold numbers ({error})") from None
    values = numbers
    if values.ndim not in (1, 2):
        raise ValueError(f"y must have one or two dimensions, got shape {values.shape}")
    check_length(values, n)
    check_finite(values, "y", largest=LARGEST_TARGET)
    return values


def _no_number(y: Any) -> str | None:
    """Return which target is no number; None if that is not what is wrong with y."""
    for i, value in enumerate(y if isinstance(y, list | tuple) else np.asarray(y).tolist()):
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                return f"y must hold numbers, got {value!r} at row {i} (counting from 0)"
    return None


def check_given(y: Any) -> None:
    """Raise a ValueError if there are no targets."""
    if y is None:
        raise ValueError("this learner requires y to be passed, but the target y is None")


def check_length(y: Any, n: int) -> None:
    """Raise a ValueError if y does not have n rows."""
    if len(y) != n:
        raise ValueError(f"y has {len(y)} rows but X has {n}: give one label per row")


def dense_blocks(X: Any, rows: int = 2048) -> list[tuple[slice, Any]]:
    """Return the blocks in which rows are learned: all rows, or dense pieces of a sparse matrix."""
    n = X.shape[0]
    if isinstance(X, np.ndarray):
        return [(slice(0, n), lambda: X)]
    return [
        (slice(i, min(i + rows, n)), lambda i=i: X[i : i + rows].toarray())
        for i in range(0, n, rows)
    ]


# -- parameters ------------------------------------------------------------------------------

# scikit-learn has these classes in a private module. They are imported here and nowhere else, so
# that a release of scikit-learn that moves them changes one file.
__all__ = ["Interval", "InvalidParameterError", "Parameters", "StrOptions"]


class Interval(_Interval):
    """An interval of numbers, which true and false are not."""

    def is_satisfied_by(self, val: Any) -> bool:
        return not isinstance(val, bool | np.bool_) and bool(super().is_satisfied_by(val))


#: Constraints of numbers, and of whole numbers from 1 on.
POSITIVE = Interval(Real, 0, None, closed="neither")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
COUNT = Interval(Integral, 1, None, closed="left")

#: Immutable types; a parameter of another type is checked every time.
_IMMUTABLE = {int, float, bool, str, type(None)}
#: Valid settings of all learners in this process, and how many are cached.
_VALID: set[Any] = set()
_MOST_VALID = 1000


class Parameters(BaseEstimator):
    """An estimator whose parameters are read and checked quickly, for thousands of keyed models.

    scikit-learn reads the signature of the constructor and checks every value every time.
    """

    _param_names: ClassVar[tuple[str, ...]]
    #: Attributes that are neither pickled nor copied: a lock, and what later calls find again.
    _TRANSIENT: ClassVar[set[str]] = {"_lock", "_learning", "_last_row", "_predictor"}

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: held for name, held in state.items() if name not in self._TRANSIENT}

    @classmethod
    def _get_param_names(cls) -> list[str]:
        names = cls.__dict__.get("_param_names")
        if names is None:
            names = cls._param_names = tuple(super()._get_param_names())
        return list(names)

    def _validate_params(self) -> None:
        """Check the parameters, except where the same setting was valid before."""
        params = self.get_params(deep=False)
        seed = params.pop("random_state", None)
        kinds, values = [type(value) for value in params.values()], params.values()
        valid_seed = seed is None or (type(seed) is int and seed >= 0)
        cacheable = _IMMUTABLE.issuperset(kinds) and valid_seed
        setting = (type(self), *kinds, *values) if cacheable else ()
        if cacheable and setting in _VALID:
            return
        super()._validate_params()
        if cacheable and len(_VALID) < _MOST_VALID:
            _VALID.add(setting)


def parameter(*allowed: Any, default: Any, kw_only: bool = True) -> Any:
    """Declare a parameter in the body of a `Declared` class: its constraints, and its default.

    A subclass that only has another default writes ``name: type = default``.
    """
    return field(default=default, kw_only=kw_only, metadata={"allowed": [*allowed]})


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(parameter, field))
class Declared(Parameters):
    """An estimator whose annotated attributes are its parameters: the constructor stores them.

    What else is annotated is ``ClassVar`` or ``field(init=False)``. A class may also write its own
    constructor.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Those of the bases, of the class by itself, and of the parameters that it declares.
        table: dict[str, list[Any]] = {}
        for base in reversed(cls.__mro__):
            table |= vars(base).get("_parameter_constraints", {})
        for name, value in vars(cls).items():
            if isinstance(value, Field) and "allowed" in value.metadata:
                table[name] = value.metadata["allowed"]
        cls._parameter_constraints = table
        dataclass(eq=False, repr=False, kw_only=True)(cls)
