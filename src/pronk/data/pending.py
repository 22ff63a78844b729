"""`Pending`: predict rows now and learn them when their labels arrive.

A forecast is needed today, and its label is known next week. Until then the row is stored under an
id, as the numbers that were predicted. When its label arrives it is learned as the next row of the
stream, in the order in which labels arrive.

The default learner also uses past labels as inputs, where they help. What it reads of them when it
learns a row is what it could read when it predicted that row, and its weights, intervals and
probabilities learn from the predictions that were made then: a record of them is stored with the
row (`pronk.aggregate.late`). So the intervals hold at the lateness that labels really have.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from pronk._interrupts import deferred_interrupts
from pronk.aggregate.calibration import requested_levels
from pronk.columns.frames import count_rows
from pronk.core.arrays import Array
from pronk.core.checks import unmasked, without_gaps
from pronk.core.state import checked_count, require
from pronk.estimators import files
from pronk.estimators.inputs import missing_labels
from pronk.estimators.quantiles import check_has_quantiles
from pronk.estimators.rows import asked_for, before_labels
from pronk.estimators.waiting import Kept, Line, Meaning, by_meaning


class Pending(files.Saved):
    """Predict rows now and learn them when their labels arrive, by their ids.

    Parameters
    ----------
    model : a pronk learner, or `Prepared` around one
        It is changed in place; between calls it may be used and saved like any other.
    limit : int, default 100,000
        Largest number of pending rows. Beyond it the oldest is dropped and counted (`expired`).

    Examples
    --------
    >>> import numpy as np
    >>> import pronk
    >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 2))
    >>> y = X[:, 0] * X[:, 1]
    >>> pending = pronk.Pending(pronk.PKAWVRegressor(random_state=0))
    >>> predictions = []
    >>> for day in range(20):
    ...     ids = range(10 * day, 10 * day + 10)
    ...     predictions.append(pending.predict(X[ids], ids))
    ...     if day:  # the labels of yesterday
    ...         yesterday = range(10 * day - 10, 10 * day)
    ...         learned = pending.learn(yesterday, y[yesterday])
    >>> print(len(pending), pending.model.n_seen_)
    10 190
    """

    def __init__(self, model: Any, limit: int = 100_000) -> None:
        if type(limit) is not int or limit < 1:
            raise ValueError(f"limit must be a whole number, at least 1, got {limit!r}")
        if model is not None and not hasattr(model, "encode"):
            raise ValueError(
                f"model must be a pronk learner, or Prepared around a model: a "
                f"{type(model).__name__} does not turn rows into numbers"
            )
        self.model = model
        self.limit = limit
        #: Rows that were dropped before their label arrived, because of the limit.
        self.expired = 0
        #: The rows, and what the learner keeps of their predictions, the oldest first.
        self._rows: OrderedDict[Hashable, tuple[Array, Line]] = OrderedDict()
        self._lock = threading.RLock()

    def __len__(self) -> int:
        """Return the number of pending rows."""
        return len(self._rows)

    def __contains__(self, id: object) -> bool:
        """Return whether a row is pending under an id."""
        return id in self._rows

    def __repr__(self) -> str:
        return f"Pending({self.model!r}, limit={self.limit}): {len(self)} pending rows"

    @property
    def ids(self) -> list[Any]:
        """Return the ids of the pending rows, the oldest first."""
        return list(self._rows)

    # -- predicting ------------------------------------------------------------------------------

    def predict(
        self, X: Any, ids: Iterable[Any], *, interval: float | None = None,
        quantiles: Any = None, output: str = "label",
    ) -> Any:  # fmt: skip
        """Predict the rows and store them under their ids, text or whole numbers, until `learn`.

        Before the first label a prediction is 0, or None for a classifier. Each row is predicted as
        the next one, with the labels known now, whether it comes alone or with others. With
        ``interval=0.9`` return the pair of predictions and intervals, with ``quantiles`` that of
        predictions and quantiles, with ``output="probability"`` probabilities, and with
        ``output="both"`` the pair of labels and probabilities, where the model has them. A call
        that raises stores nothing.
        """
        levels = requested_levels(interval, quantiles)
        check_has_quantiles(self.model, {"interval": interval, "quantiles": quantiles})
        if output not in ("label", "probability", "both"):
            raise ValueError(f"output must be label, probability or both; got {output!r}")
        if output != "label" and not hasattr(self.model, "predict_proba"):
            raise ValueError(
                f"output: {type(self.model).__name__} has no predict_proba; the default learner has"
            )
        with self._lock:
            names = _checked_ids(ids, count_rows(X))
            for name in names:
                if name in self._rows:
                    raise ValueError(f"id {name!r} is already pending; an id is used only once")
            if not names:
                return self._predicted(np.empty((0, 0)))[0]
            rows = self.model.encode(X)
            found, kept = self._predicted(rows)
            answer = asked_for(self.model, rows, found, levels, output)
            lines = [None] * len(names) if kept is None else kept.lines
            copies = map(np.array, rows)  # a view would keep the whole batch
            with deferred_interrupts():
                self._rows.update(zip(names, zip(copies, lines, strict=True), strict=True))
                while len(self._rows) > self.limit:
                    self._rows.popitem(last=False)
                    self.expired += 1
            return answer

    def predict_one(self, x: Any, id: Any) -> Any:
        """Predict one row, a dict or a vector, and store it under its id."""
        with self._lock:
            found = self.predict(self.model._one(x), [id])[0]
            return found.item() if isinstance(found, np.generic) else found

    def _predicted(self, rows: Array) -> tuple[NDArray[Any], Kept | None]:
        """Return predictions, and what the learner keeps of them."""
        if self.model.__sklearn_is_fitted__() and len(rows):
            if hasattr(self.model, "_predict_to_wait"):
                return self.model._predict_to_wait(rows)
            return self.model.predict(rows), None
        return before_labels(self.model, len(rows)), None

    # -- learning --------------------------------------------------------------------------------

    def learn(self, ids: Iterable[Any], y: Any, *, unknown: str = "error") -> int:
        """Learn rows by their ids, in the order given; return how many were learned.

        A row whose label is missing (None or NaN) stays pending. An id that is not pending (it was
        never predicted, was learned before, or has expired) raises, or is left out with
        ``unknown="skip"``. A call that raises changes nothing.
        """
        if unknown not in ("error", "skip"):
            raise ValueError(f"unknown must be error or skip, got {unknown!r}")
        with self._lock:
            values = np.asarray(unmasked(y))
            if values.dtype.kind == "U" and isinstance(y, list | tuple):
                values = np.array(y, dtype=object)  # numbers stay numbers beside text
            names = _checked_ids(ids, len(values))
            missing = missing_labels(values, len(names))
            chosen = np.ones(len(names), dtype=bool) if missing is None else ~missing
            for place, name in enumerate(names):
                if name not in self._rows:
                    if unknown == "error":
                        raise ValueError(
                            f"id {name!r} is not pending: it was never predicted, was learned "
                            "before, or has expired; unknown='skip' leaves it out"
                        )
                    chosen[place] = False
            learned = [name for name, one in zip(names, chosen.tolist(), strict=True) if one]
            if learned:
                self._learn(learned, without_gaps(values[chosen]))
            return len(learned)

    def _learn(self, names: list[Any], y: NDArray[Any]) -> None:
        waited = [self._rows[name] for name in names]
        rows, lines = np.stack([row for row, _ in waited]), [own for _, own in waited]
        seen = self._learned
        try:
            if any(line is not None for line in lines):
                self.model._learn_waiting(rows, y, lines)
            else:
                self.model.partial_fit(rows, y)
        finally:  # also if the rows were learned and the call was then interrupted
            with deferred_interrupts():
                for name in names if self._learned != seen else ():
                    del self._rows[name]

    def learn_one(self, id: Any, y: Any) -> int:
        """Learn one row by its id; return 1, or 0 if the label is missing."""
        return self.learn([id], [y])

    def discard(self, ids: Iterable[Any]) -> int:
        """Drop rows whose label will never arrive; return how many of the ids were pending."""
        with self._lock:
            names = set(_checked_ids(ids, None))
            with deferred_interrupts():
                return sum(self._rows.pop(name, None) is not None for name in names)

    @property
    def _learned(self) -> int:
        """Return the number of rows that the model has learned."""
        return int(self.model.n_seen_) if self.model.__sklearn_is_fitted__() else 0

    # -- files -----------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            held = {**self.__dict__, "_rows": self._rows.copy()}
        del held["_lock"]
        return held

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()

    def _file_params(self) -> dict[str, Any]:
        if files.has_kernel_function(self.model):
            raise ValueError(
                "the model has a kernel function, which a file with pending rows cannot contain: "
                "pickle the whole, or name a kernel"
            )
        return {"limit": self.limit}

    def _fitted_state(self) -> dict[str, Any]:
        with self._lock:
            rows = [row for row, _ in self._rows.values()]
            kept = by_meaning([line for _, line in self._rows.values()])
            places = np.full(len(rows), -1)
            for number, (own, _) in enumerate(kept):
                places[own] = number
            return {
                "model": files.any_tree(self.model),
                "ids": list(self._rows),
                "rows": np.stack(rows) if rows else None,
                "expired": self.expired,
                "records": [group.values for _, group in kept],
                "meanings": [group.meaning.to_list() for _, group in kept],
                "places": places.tolist(),
            }

    @classmethod
    def _from_file(cls, params: dict[str, Any]) -> Self:
        require(set(params) == {"limit"}, "the parameters are not those of pending rows")
        return cls(None, checked_count(params["limit"], "limit", 1))

    def _restore(self, state: Any) -> None:
        """Restore a state from an untrusted file; raise StateError if it does not fit."""
        entries = {"model", "ids", "rows", "expired", "records", "meanings", "places"}
        require(isinstance(state, dict) and set(state) == entries, "the state is not a table")
        self.model = files.learner_from_tree(state["model"], "the file", tried=False)
        require(not isinstance(self.model, Pending), "there is no model")
        self.expired = checked_count(state["expired"], "expired")
        ids, rows = state["ids"], state["rows"]
        good = isinstance(ids, list) and len(ids) <= self.limit
        require(
            good and all(type(name) in (str, int) for name in ids),
            "ids must be texts or whole numbers, within the limit",
        )
        require(len(set(ids)) == len(ids), "ids are not unique")
        if not ids:
            require(rows is None, "rows must be missing without ids")
            return
        good = isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype == np.float64
        require(good and len(rows) == len(ids), "rows must be one per id")
        width = getattr(self.model, "n_features_in_", rows.shape[1])
        require(width == rows.shape[1], "rows have other columns than the model")
        lines = _restored_lines(state, len(ids))
        self._rows = OrderedDict(
            zip(ids, zip(map(np.array, rows), lines, strict=True), strict=True)
        )

    def _try_out(self) -> None:
        """Test the model and predict the pending rows; raise if a prediction is not a number."""
        if self.model.__sklearn_is_fitted__():
            self.model._try_out()
        if self._rows:
            self._predicted(self.model.encode(np.stack([row for row, _ in self._rows.values()])))


def _restored_lines(state: dict[str, Any], rows: int) -> list[Line]:
    """Return what is kept of each row from the state of an untrusted file."""
    records, meanings, places = state["records"], state["meanings"], state["places"]
    listed = all(isinstance(value, list) for value in (records, meanings, places))
    require(listed and len(places) == rows, "places must be one per id")
    require(len(records) == len(meanings), "records must have one meaning each")
    found: list[Line] = [None] * rows
    held = np.array([checked_count(place, "places", -1, len(records) - 1) for place in places])
    for number, (values, meaning) in enumerate(zip(records, meanings, strict=True)):
        kept = Kept(Meaning.from_list(meaning), values)
        kept.check()
        own = np.flatnonzero(held == number)
        require(len(own) == len(values), "places must name each line of a record once")
        for place, line in zip(own.tolist(), kept.lines, strict=True):
            found[place] = line
    return found


def _checked_ids(ids: Iterable[Any], n: int | None) -> list[Any]:
    """Return ids as text or int; raise if one is of another type or repeated."""
    names = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    names = [name.item() if isinstance(name, np.generic) else name for name in names]
    if n is not None and len(names) != n:
        raise ValueError(f"there are {len(names)} ids for {n} rows")
    for name in names:
        if type(name) not in (str, int):
            raise ValueError(f"ids must be text or whole numbers, got {name!r}")
    if len(set(names)) < len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise ValueError(f"id {twice!r} is given twice")
    return names
