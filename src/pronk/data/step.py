"""`step`: bytes and rows in, bytes and predictions out, for the state store of a stream engine.

Spark, Kafka's streams, Flink and Beam hold bytes per key and commit them with their offsets. A step
is a pure function of its arguments: an engine may repeat it, resume from a checkpoint or move a key
to another process, and gets the same bytes and predictions. The bytes are those of `pronk.dumps`.

Parsing bytes takes longer than learning a row, so a process caches the models of its last states.
A model is taken out of the cache for the time of a step and put back under the new state:

    step(s0, ..) -> s1      the model of s0 becomes that of s1, and s0 is not cached any more
    step(s0, ..) -> s1'     again from s0, in a retry: parsed from the bytes

so a cached model is always the one that its bytes describe. A state is found by the checksum that
it contains and then compared byte by byte, so that damaged bytes are never mistaken for others.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from pronk.aggregate.calibration import requested_levels
from pronk.core.randomness import make_seed
from pronk.data.pending import Pending
from pronk.estimators import files
from pronk.estimators.quantiles import check_has_quantiles
from pronk.estimators.rows import asked_for

#: Most models in the cache of a process; one of the default learner takes 1 to 2 MB.
MOST_MODELS = 1024
#: Most bytes of the states of these models.
MOST_BYTES = 2**28

_CHECKSUM = b'","sha256":"'


class Cache:
    """Models by their state, the least recently used first; one thread at a time uses a model."""

    def __init__(self, models: int = MOST_MODELS, size: int = MOST_BYTES) -> None:
        #: Most models, and most bytes of their states.
        self.models, self.size = models, size
        self._held: OrderedDict[bytes, tuple[bytes, Any]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._held)

    def take(self, state: bytes) -> Any:
        """Remove and return the model of a state, or return None."""
        key = _checksum(state)
        with self._lock:
            held = self._held.get(key)
            if held is None or held[0] != state:
                return None
            del self._held[key]
            self._bytes -= len(state)
        return held[1]

    def put(self, state: bytes, model: Any) -> None:
        """Add the model of a state, and drop the least recently used ones beyond the limits."""
        key = _checksum(state)
        with self._lock:
            old = self._held.pop(key, None)
            self._bytes += len(state) - (0 if old is None else len(old[0]))
            self._held[key] = state, model
            while self._held and (len(self._held) > self.models or self._bytes > self.size):
                _, (dropped, _) = self._held.popitem(last=False)
                self._bytes -= len(dropped)

    def clear(self) -> None:
        """Drop all models."""
        with self._lock:
            self._held.clear()
            self._bytes = 0


def _checksum(state: bytes) -> bytes:
    """Return the checksum in the bytes of a model; anything for other bytes."""
    start = state.find(_CHECKSUM) + len(_CHECKSUM)
    return state[start : start + 64]


#: The models of the last states of this process.
CACHE = Cache()
#: Levels of quantiles, if there are any.
Levels = NDArray[np.float64] | None


def step(
    state: bytes | None,
    X: Any,
    y: Any = None,
    *,
    new: Any,
    ids: Iterable[Any] | None = None,
    interval: float | None = None,
    quantiles: Any = None,
    unknown: str = "error",
) -> tuple[bytes | None, Any]:
    """Predict rows, then learn them, with a model that is given and returned as bytes.

    The step is pure: the same arguments give the same state and predictions in any process, and a
    call that raises changes nothing. Any cut of a key's rows into steps gives the predictions of
    one model that learns the rows in the same calls, and its bytes (`pronk.dumps`).

    | given | what happens |
    |:--|:--|
    | X, y | rows are predicted, then learned; one whose label is missing is only predicted |
    | X | rows are predicted, each as the next one; the state is returned as it is |
    | X, ids | rows are predicted and stored in the state until their labels arrive |
    | ids, y, X=None | these rows are learned; the predictions are None |

    Parameters
    ----------
    state : bytes or None
        What the last step of this key returned; None for a new key.
    X : rows, or None
        Whatever the learner takes.
    y : labels, optional
        None or NaN where a label is missing.
    new : a pronk learner, `Prepared`, `Pending`, `Intervals` or `Calibrated`
        The model of a new key. A copy of it learns, and only if ``state`` is None: later states
        keep the parameters with which they started. If it has no ``random_state``, that is 0. The
        first rows of each key decide the kinds of its columns; ``with_columns`` declares them.
    ids : text or whole numbers, optional
        The names of rows whose labels arrive later, see `Pending`.
    interval : float, optional
        A coverage such as 0.9: return the pair of predictions and intervals.
    quantiles : levels, optional
        Such as (0.1, 0.5, 0.9): return the pair of predictions and quantiles.
    unknown : "error" or "skip"
        What to do with the label of an id that is not pending: raise, or leave it out.

    Returns
    -------
    state : bytes
        The state after the rows; None if nothing was given to store.
    predictions : array, or a pair of arrays
        Before the first label 0, or None for a classifier.

    Examples
    --------
    >>> import numpy as np
    >>> import pronk
    >>> rng = np.random.default_rng(0)
    >>> new = pronk.PKAWVRegressor(budget=20, random_state=0)
    >>> states = {}  # the state store of an engine
    >>> for batch in range(20):
    ...     for key in ("a", "b"):
    ...         X = rng.uniform(-1, 1, (10, 2))
    ...         y = X[:, 0] * X[:, 1] * (1 if key == "a" else -1)
    ...         states[key], predictions = pronk.step(states.get(key), X, y, new=new)
    >>> print(pronk.loads(states["a"]).n_seen_, type(states["b"]).__name__)
    200 bytes
    """
    _check_call(X, y, ids)
    levels = requested_levels(interval, quantiles)
    if state is None:
        files.check_has_file(new)
        model = _new_model(new)
    else:
        state = files.checked_bytes(state, "state")
        kernel = _kernel_function(new)
        model = None if kernel is not None else CACHE.take(state)
        if model is None:
            model = files.from_bytes(state, "state", kernel, tried=False)
    check_has_quantiles(_learner_of(model), {"interval": interval, "quantiles": quantiles})
    if y is None and ids is None:
        predictions = _predicted(model, X, levels)
    elif ids is None:
        options = {} if levels is None else {"quantiles": levels}
        predictions = _learner_of(model).predict_then_learn(X, y, **options)
    else:
        model = model if isinstance(model, Pending) else Pending(model)
        if X is None:
            model.learn(ids, y, unknown=unknown)
            predictions = None
        else:
            predictions = model.predict(X, ids, quantiles=levels)
    if y is not None or ids is not None:
        state = files.to_bytes(model)
    elif not _learner_of(model).__sklearn_is_fitted__():
        return state, predictions  # the rows may have set the columns
    assert state is not None
    if _kernel_function(new) is None:
        CACHE.put(state, model)
    return state, predictions


def _check_call(X: Any, y: Any, ids: Any) -> None:
    """Raise a ValueError for arguments that do not go together."""
    if X is None and (ids is None or y is None):
        raise ValueError("X is missing: give rows, or ids and y for rows that are pending")
    if X is not None and y is not None and ids is not None:
        raise ValueError(
            "X, y and ids together: rows with labels need no ids, and labels of pending rows come "
            "with X=None; call step twice if a batch has both"
        )


def _new_model(new: Any) -> Any:
    """Return a copy that has learned nothing, and whose random numbers are always the same.

    It has the columns that were declared, if there are any.
    """
    if isinstance(new, Pending):
        return Pending(_new_model(new.model), new.limit)
    model = clone(new)
    for name, value in model.get_params(deep=True).items():
        if name.rpartition("__")[2] == "random_state" and not isinstance(value, int | np.integer):
            model.set_params(**{name: 0 if value is None else make_seed(value)})
    layout = getattr(new, "layout_", None)
    return model if layout is None else model.with_layout(layout)


def _kernel_function(new: Any) -> Any:
    """Return the kernel function of a learner, which no state contains, or None."""
    return new.kernel if hasattr(new, "kernel") and files.has_kernel_function(new) else None


def _learner_of(model: Any) -> Any:
    """Return the model, or that of pending rows."""
    return model.model if isinstance(model, Pending) else model


def _predicted(model: Any, X: Any, levels: Levels) -> Any:
    """Predict rows, each as the next one."""
    learner = _learner_of(model)
    rows = learner.encode(X)
    return asked_for(learner, rows, Pending(learner)._predicted(rows)[0], levels)
