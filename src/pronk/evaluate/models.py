"""One interface for the models that can be evaluated: pronk's with blocks, river's with rows.

An adapter returns a `Forecast`: predictions of some rows, with probabilities, or intervals and
quantiles.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from pronk.aggregate.calibration import check_levels, ends_of
from pronk.core.state import require
from pronk.estimators.prepared import Prepared
from pronk.evaluate.fields import checked_column, checked_labels, doubles, figure

Array = NDArray[np.float64]
Weights = Array | None

# -- forecasts -----------------------------------------------------------------------------------

#: Arrays with an entry per row.
_NUMBERS = ("probabilities", "intervals", "quantiles")
_FIELDS = ("values", "probabilities", "classes", "intervals", "coverage", "quantiles", "levels")


@dataclass(frozen=True, slots=True)
class Forecast:
    """Predictions of some rows, in order."""

    values: NDArray[Any]
    """Labels or numbers."""
    probabilities: Array | None = None
    """(n, classes); NaN before any label was known."""
    classes: NDArray[Any] | None = None
    """Whose probabilities they are."""
    intervals: Array | None = None
    """(n, 2), or (n, outputs, 2)."""
    coverage: float | None = None
    """That of the intervals."""
    quantiles: Array | None = None
    """(n, q), or (n, outputs, q)."""
    levels: Array | None = None
    """(q,), those of the quantiles."""

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Forecast:
        return self._mapped(self.values[rows], lambda numbers: numbers[rows])

    def _mapped(self, values: NDArray[Any], change: Callable[[Array], Array]) -> Forecast:
        """Return the forecast with other values, and all numbers changed."""
        own: dict[str, Any] = {
            name: change(numbers)
            for name in _NUMBERS
            if (numbers := getattr(self, name)) is not None
        }
        return replace(self, values=values, **own)

    def output(self, place: int) -> Forecast:
        """Return the forecast of one of several outputs."""
        values = np.ascontiguousarray(self.values[:, place])
        return self._mapped(values, lambda numbers: numbers[:, place])

    def widened(self, outputs: int | None) -> Forecast:
        """Repeat the forecast of a model that has learned nothing for several outputs."""
        if outputs is None or self.values.ndim == 2:
            return self

        def repeated(numbers: NDArray[Any]) -> NDArray[Any]:
            return np.repeat(numbers[:, None], outputs, axis=1)

        return self._mapped(repeated(self.values), repeated)

    def without(self, count: int) -> Forecast:
        """Return the forecast with no prediction for the first ``count`` rows."""
        if not count:
            return self
        labels = self.values.dtype.kind != "f"
        values = self.values.astype(object) if labels else self.values.copy()
        values[:count] = None if labels else np.nan

        def blank(numbers: Array) -> Array:
            return np.concatenate((np.full_like(numbers[:count], np.nan), numbers[count:]))

        return self._mapped(values, blank)

    def share_of(self, classes: NDArray[Any]) -> Array:
        """Return the probabilities of other classes; 0 for unknown ones."""
        assert self.probabilities is not None and self.classes is not None
        if self.classes is classes or np.array_equal(self.classes, classes):
            return self.probabilities
        shares = np.zeros((len(self), len(classes)))
        for i, label in enumerate(classes.tolist()):
            for place in np.flatnonzero(self.classes == label):
                shares[:, i] = self.probabilities[:, place]
        unknown = np.isnan(self.probabilities).any(axis=1) | (len(self.classes) == 0)
        shares[unknown] = np.nan
        return shares

    def to_state(self) -> dict[str, Any]:
        """Return the forecast for a checkpoint."""
        values, classes = self.values, self.classes
        state = {name: getattr(self, name) for name in _FIELDS}
        state["values"] = values.tolist() if values.dtype.kind in "USO" else values
        state["classes"] = None if classes is None else classes.tolist()
        return state

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Forecast:
        """Read the result of `to_state` from a file; raise a StateError if it is damaged."""
        require(
            isinstance(state, dict) and set(state) == set(_FIELDS), "a forecast has other fields"
        )
        found = dict(state)
        values, classes, levels = found["values"], found["classes"], found["levels"]
        if isinstance(values, list):
            values = checked_column(values, "values")
        good = isinstance(values, np.ndarray) and values.ndim > 0 and values.dtype.kind in "biufUO"
        require(good, "values of a forecast are not labels or numbers")
        for name, own in (("probabilities", classes), ("quantiles", levels)):
            require((found[name] is None) == (own is None), f"{name} of a forecast have no names")
        if classes is not None:
            classes = np.asarray(checked_labels(classes, "classes"))
        if levels is not None:
            levels = doubles(levels, "levels", least=1, most=1)
        for name, each in (("probabilities", classes), ("intervals", "lh"), ("quantiles", levels)):
            if found[name] is not None:
                most = 2 if name == "probabilities" else 3
                numbers = found[name] = doubles(found[name], name, least=2, most=most)
                good = numbers.shape[0] == len(values) and numbers.shape[-1] == len(each)
                require(good, f"{name} are of other rows")
        if found["coverage"] is not None:
            found["coverage"] = figure(found["coverage"], "coverage")
        return cls(**{**found, "values": values, "classes": classes, "levels": levels})


def column(values: Sequence[Any]) -> NDArray[Any]:
    """Return predictions or targets of single rows as an array; labels may be None."""
    return np.array(values, dtype=object if any(value is None for value in values) else None)


def nothing_known(rows: int) -> tuple[Array, Array]:
    """Return probabilities and classes of rows before any label is known."""
    return np.empty((rows, 0)), np.empty(0)


def joined(parts: Sequence[Forecast]) -> Forecast:
    """Concatenate forecasts, with the classes of all of them."""
    if len(parts) == 1:
        return parts[0]
    kinds = {part.values.dtype.kind for part in parts}
    held = [part.values.astype(object) if "O" in kinds else part.values for part in parts]
    values = np.concatenate(held)
    numbers: dict[str, Any] = {"probabilities": None, "classes": None}
    if all(part.probabilities is not None for part in parts):
        known = [part.classes for part in parts if part.classes is not None and len(part.classes)]
        classes = np.unique(np.concatenate(known)) if known else np.empty(0)
        shares = np.concatenate([part.share_of(classes) for part in parts])
        numbers = {"probabilities": shares, "classes": classes}
    for name in ("intervals", "quantiles"):
        each = [getattr(part, name) for part in parts]
        numbers[name] = None if any(one is None for one in each) else np.concatenate(each)
    return replace(parts[0], values=values, **numbers)


# -- adapters ------------------------------------------------------------------------------------


class Adapter(Protocol):
    """A model as the evaluation calls it."""

    def predict_then_learn(self, X: Any, y: NDArray[Any], weights: Weights) -> Forecast: ...
    def predict(self, X: Any) -> Forecast: ...
    def learn(self, X: Any, y: NDArray[Any], weights: Weights) -> None: ...


class BlockAdapter:
    """A model with ``predict_then_learn``, which is called with whole blocks.

    ``shares``: predict probabilities; ``coverage``: predict intervals; ``quantiles``: predict
    quantiles at these levels.
    """

    def __init__(
        self, model: Any, labels: bool, shares: bool = False, coverage: float | None = None,
        ahead: bool | None = False, quantiles: Any = None,
    ) -> None:  # fmt: skip
        self.model = model
        #: Rows that are only predicted: each the next one, all far ahead, or None: in order.
        self._ahead = {"ahead": ahead} if getattr(model, "_looks_ahead", False) else {}
        self._first: Any = None if labels else 0.0
        self._started = False
        self._shares = shares
        self._quantiles = None if quantiles is None else check_levels(quantiles)
        ends = None if coverage is None else ends_of(coverage)
        self._coverage, self._ends = coverage, 0 if ends is None else 2
        parts = [part for part in (ends, self._quantiles) if part is not None]
        #: Levels of the ends of the interval, then those of the quantiles.
        self._levels = np.concatenate(parts) if parts else None

    def predict_then_learn(self, X: Any, y: NDArray[Any], weights: Weights = None) -> Forecast:
        more = _weighted(weights)
        if self._shares:
            values, shares = self.model.predict_then_learn(X, y, output="both", **more)
            return Forecast(np.asarray(values), shares, self.model.classes_)
        if self._levels is not None:
            learn = self.model.predict_then_learn
            return self._with_quantiles(*learn(X, y, quantiles=self._levels, **more))
        return Forecast(np.asarray(self.model.predict_then_learn(X, y, **more)))

    def _with_quantiles(self, values: Any, found: Array) -> Forecast:
        """Return a forecast with the ends of the interval and the quantiles."""
        return Forecast(
            np.asarray(values),
            intervals=found[..., :2] if self._ends else None,
            coverage=self._coverage,
            quantiles=None if self._quantiles is None else found[..., self._ends :],
            levels=self._quantiles,
        )

    def predict(self, X: Any) -> Forecast:
        """Predict without learning; 0, or no label, before the first row was learned."""
        if not self._started:
            self._started = bool(getattr(self.model, "__sklearn_is_fitted__", lambda: True)())
        if not self._started:
            n = X.shape[0]
            values = np.full(n, self._first)
            if self._levels is not None:
                return self._with_quantiles(values, np.zeros((n, len(self._levels))))
            return Forecast(values, *(nothing_known(n) if self._shares else ()))
        where = self._ahead
        if where == {"ahead": None}:  # the next row is in the first block
            self._ahead = {"ahead": True}
        values = np.asarray(self.model.predict(X, **where))
        if self._shares:
            shares = self.model.predict_proba(X, **where)
            return Forecast(values, shares, self.model.classes_)
        if self._levels is not None:
            return self._with_quantiles(
                values, self.model.predict_quantiles(X, self._levels, **where)
            )
        return Forecast(values)

    def learn(self, X: Any, y: NDArray[Any], weights: Weights = None) -> None:
        self.model.partial_fit(X, y, **_weighted(weights))


class RowAdapter:
    """A model with river's ``predict_one`` and ``learn_one``, called with one dict per row."""

    def __init__(self, model: Any, labels: bool, columns: Sequence[str] | None) -> None:
        self.model = model
        self.columns = columns
        self._labels = labels

    def predict_then_learn(self, X: Any, y: NDArray[Any], weights: Weights = None) -> Forecast:
        _refuse_weights(weights)
        predictions = []
        for x, target in zip(self._dicts(X), y.tolist(), strict=True):
            predictions.append(self.model.predict_one(x))
            self.model.learn_one(x, target)
        return self._forecast(predictions)

    def predict(self, X: Any) -> Forecast:
        return self._forecast([self.model.predict_one(x) for x in self._dicts(X)])

    def learn(self, X: Any, y: NDArray[Any], weights: Weights = None) -> None:
        _refuse_weights(weights)
        for x, target in zip(self._dicts(X), y.tolist(), strict=True):
            self.model.learn_one(x, target)

    def _dicts(self, X: Any) -> list[dict[Any, float]]:
        names = self.columns if self.columns is not None else range(X.shape[1])
        return [dict(zip(names, row, strict=True)) for row in np.asarray(X).tolist()]

    def _forecast(self, predictions: list[Any]) -> Forecast:
        """Return a forecast; river predicts None before the first row."""
        if self._labels:
            return Forecast(np.array(predictions, dtype=object))
        return Forecast(np.array([0.0 if p is None else p for p in predictions], dtype=np.float64))


def _weighted(weights: Weights) -> dict[str, Any]:
    """Return the argument ``sample_weight``, if there are weights."""
    return {} if weights is None else {"sample_weight": weights}


def _refuse_weights(weights: Weights) -> None:
    if weights is not None:
        raise ValueError("sample_weight is not supported by a model with predict_one and learn_one")


def adapt(
    model: Any,
    labels: bool,
    columns: Sequence[str] | None = None,
    shares: bool = False,
    coverage: float | None = None,
    ahead: bool = False,
    quantiles: Any = None,
) -> Adapter:
    """Return the adapter for a model; ``ahead``: rows that are only predicted lie far ahead."""
    if hasattr(model, "predict_then_learn"):
        return BlockAdapter(model, labels, shares, coverage, ahead, quantiles)
    if hasattr(model, "predict_one") and hasattr(model, "learn_one"):
        return RowAdapter(model, labels, columns)
    raise TypeError(
        f"model must have predict_then_learn(X, y), or predict_one(x) and learn_one(x, y); a "
        f"{type(model).__name__} has neither"
    )


def can(model: Any, method: str) -> bool:
    """Return whether a model has a method beside ``predict_then_learn``, behind a scaler too."""
    learner = getattr(model, "learner", model)
    return hasattr(model, "predict_then_learn") and hasattr(learner, method)


def supports_times(model: Any) -> bool:
    """Return whether a model forgets by the times of rows."""
    learner = getattr(model, "learner", model)
    return bool(getattr(learner, "_accepts_times", lambda: False)())


def predicts_labels(model: Any, y: NDArray[Any]) -> bool:
    """Return whether a model is a classifier; if it does not say so, whether y has labels."""
    if hasattr(model, "__sklearn_tags__"):
        return bool(model.__sklearn_tags__().estimator_type == "classifier")
    kinds = {kind.__name__ for kind in type(model).__mro__}
    if kinds & {"Classifier", "MultiLabelClassifier", "RunningMajority", "LastLabel"}:
        return True
    if kinds & {"Regressor", "RunningMean", "LastValue"}:
        return False
    return y.dtype.kind in "bUSO"


def labels_learned(model: Any) -> int:
    """Return how many rows a model has learned; 0 for a model that does not count them."""
    if not getattr(model, "__sklearn_is_fitted__", lambda: True)():
        return 0
    return int(getattr(model, "n_seen_", 0))


# -- late labels ---------------------------------------------------------------------------------


def own_delay(model: Any) -> int:
    """Return the ``delay`` of a model's learner; 0 if it has no such parameter."""
    for name in ("model", "learner"):  # of Intervals and Calibrated; of Prepared and keyed models
        model = getattr(model, name, model)
    return int(getattr(model, "delay", 0))


def takes_delay(model: Any, delay: int) -> bool:
    """Return whether a model's learner has labels learned ``delay`` rows late by itself.

    A learner with the parameter ``delay`` that has learned nothing yet gets it.
    """
    learners = [model]
    if isinstance(model, Prepared):
        learners = [model.learner, *([model.learner_] if hasattr(model, "learner_") else [])]
    if not all(hasattr(learner, "delay") for learner in learners):
        return False
    if learners[0].delay == delay:
        return True
    if learners[0].delay:
        raise ValueError(
            f"delay={delay}, but the model has delay={learners[0].delay}: leave out the former"
        )
    started = (getattr(one, "__sklearn_is_fitted__", lambda: False)() for one in learners)
    if any(started) or not hasattr(model, "predict_then_learn"):
        return False
    for learner in learners:
        learner.delay = delay
    return True


# -- memory ----------------------------------------------------------------------------------------

_ATOMS = frozenset({str, bytes, int, float, complex, bool, type(None)})


def held_bytes(model: Any) -> int:
    """Return the bytes of all objects reachable from a model, without code and classes.

    Each object counts once; arrays count with the memory they own or keep alive, including
    reserved capacity.

    >>> import numpy as np
    >>> from pronk.evaluate import held_bytes
    >>> held_bytes(np.zeros((100, 100))[:5]) >= 80_000
    True
    """
    total = 0
    seen: set[int] = set()
    stack = [model]
    while stack:
        item = stack.pop()
        while isinstance(item, np.ndarray) and isinstance(item.base, np.ndarray):
            item = item.base
        if id(item) in seen:
            continue
        seen.add(id(item))
        kind = type(item)
        if kind in _ATOMS:  # most of all objects
            total += sys.getsizeof(item)
        elif isinstance(item, np.ndarray):
            total += max(item.nbytes, sys.getsizeof(item))
            if item.dtype == object:
                stack.extend(item.tolist())
        elif not isinstance(item, type | ModuleType) and not _is_function(item):
            total += sys.getsizeof(item, 0)
            if isinstance(item, dict):
                stack.extend(item.keys())
                stack.extend(item.values())
            elif isinstance(item, list | tuple | set | frozenset | deque):
                stack.extend(item)
            elif not isinstance(item, np.generic):
                stack.extend(_attributes(item))
    return total


def _is_function(item: Any) -> bool:
    """Return whether an object is a function, also a compiled one."""
    return callable(item) and hasattr(item, "__name__")


def _attributes(item: Any) -> list[Any]:
    values = [item.__dict__] if hasattr(item, "__dict__") else []
    for kind in type(item).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(item, name):
                values.append(getattr(item, name))
    return values
