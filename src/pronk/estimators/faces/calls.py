"""A call that learns: one at a time, and undone if it does not come to its end."""

from __future__ import annotations

import threading
from typing import Any

from pronk.parts.threads import limited


def own_lock(learner: Any) -> Any:
    """The lock of a learner: calls from several threads wait for each other.

    Made at the first call, because a constructor only stores; not copied, not pickled.
    """
    lock = learner.__dict__.get("_lock")
    if lock is None:
        # Atomic. A lock around it would stay held where a signal comes just before its block.
        lock = learner.__dict__.setdefault("_lock", threading.RLock())
    return lock


class Call:
    """A call that learns: alone with the learner, BLAS limited, undone if it raises.

    Whatever stops it (an error, Ctrl-C, no memory), the learner is then what it was before the
    call, or, if the last row was learned already, what it is after it; ``n_seen_`` tells. All
    checks of the input come first; for the rest the engine is marked. (A plain class: calls are
    short.)
    """

    def __init__(self, learner: Any) -> None:
        self._learner = learner

    def __enter__(self) -> None:
        held = self._learner.__dict__
        self._lock = lock = own_lock(self._learner)
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
