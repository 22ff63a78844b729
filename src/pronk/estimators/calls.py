"""Calls of a learner: one at a time, and a call that raises changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, TypeVar, cast

from pronk._interrupts import deferred_interrupts
from pronk.core.runtime import limited

#: Attributes that hold what learns in place, and the learner inside a wrapper.
LEARNING, INNER = ("_model", "_tracker", "_slopes"), ("learner_", "model_")

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])


def own_lock(learner: Any) -> Any:
    """Return the lock of a learner: calls from several threads wait for each other.

    It is made at the first call, because a constructor only stores parameters, and is neither
    copied nor pickled.
    """
    lock = learner.__dict__.get("_lock")
    if lock is None:
        # `setdefault` is atomic. A lock around it could stay held after a signal.
        lock = learner.__dict__.setdefault("_lock", threading.RLock())
    return lock


def all_or_nothing(learner: Any, call: Callable[..., T], *args: Any, **options: Any) -> T:
    """Run a call that learns: lock the learner, and roll it back if the call raises.

    Whatever stops the call (an error, Ctrl-C, no memory), the learner and the learners inside it
    are then in the state before the call or, if the last row was learned already, in the state
    after it (see ``n_seen_``). BLAS has one thread inside.

    A signal can raise at the first line of a function written in Python, so also in the
    ``__exit__`` of a context manager. The ``try`` here and the ``with`` of a lock, whose methods
    are not written in Python, have no such line.
    """
    held = learner.__dict__
    with own_lock(learner):
        if "_learning" in held:  # `fit` calls `partial_fit`; no other thread has the lock
            return call(*args, **options)
        saved = [Savepoint(one) for one in with_inner(learner)]
        try:
            for one in saved:
                one.held["_learning"] = True
            with limited:
                return call(*args, **options)
        except BaseException:
            with deferred_interrupts(patient=True):
                for one in saved:
                    one.roll_back()
            raise
        finally:
            for one in saved:
                one.held.pop("_learning", None)


class Savepoint:
    """The attributes of one learner, and snapshots of those that learn in place."""

    def __init__(self, learner: Any) -> None:
        self.held = learner.__dict__
        self._before = dict(self.held)
        parts = [self.held[name] for name in LEARNING if self.held.get(name) is not None]
        self._parts = [(part, part.snapshot()) for part in parts]

    def roll_back(self) -> None:
        """Return to these attributes. Other threads may read what the call has not changed."""
        for part, snapshot in self._parts:
            part.roll_back(snapshot)
        self.held.update(self._before)
        for name in self.held.keys() - self._before.keys() - {"_learning"}:
            del self.held[name]


def with_inner(learner: Any) -> Iterator[Any]:
    """Yield a learner and the pronk learners inside it."""
    yield learner
    for name in INNER:
        inner = learner.__dict__.get(name)
        if hasattr(inner, "encode"):
            yield from with_inner(inner)


def replace_learned(learner: Any, fresh: Any, names: Iterable[str]) -> None:
    """Replace the attributes of a learner that hold what was learned by those of a fresh one."""
    with own_lock(learner):
        kept = {name: held for name, held in learner.__dict__.items() if name not in names}
        learned = {name: held for name, held in fresh.__dict__.items() if name in names}
        learner.__dict__ = {**kept, **learned}  # one assignment: a signal cannot split it


def rolled_back(method: Method) -> Method:
    """Decorate a method that learns: it is run by `all_or_nothing`."""

    @wraps(method)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        return all_or_nothing(self, method, self, *args, **options)

    return cast("Method", run)
