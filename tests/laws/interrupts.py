"""Interrupt a call at a random line: the learner is that of before the call, or of after it.

`stop` raises an error at a chosen line of pronk's code, so that every moment can be tried without a
clock. `attempt` compares the learner with twins that were never stopped.
"""

from __future__ import annotations

import copy
import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import pronk
from laws.cases import Case
from pronk import _interrupts
from pronk.core import runtime
from pronk.core.runtime import limited
from pronk.estimators import calls

#: The folder of the package; a clone of the project may have any name.
PACKAGE = os.path.join(os.path.dirname(pronk.__file__), "")
UNTRACED = runtime.__file__, calls.__file__, _interrupts.__file__


class Lines:
    """A trace function that counts lines of pronk and raises at one of them."""

    def __init__(self, at: int = 0, error: type[BaseException] = KeyboardInterrupt) -> None:
        self.at, self.error, self.count = at, error, 0

    def __call__(self, frame: Any, event: str, _: Any) -> Any:
        name = frame.f_code.co_filename
        # Python looks for signals at calls and loops. A tracer can also raise where a ``with`` has
        # left its block and not yet released its lock, which no signal does.
        if not name.startswith(PACKAGE) or name in UNTRACED:
            return None
        if event == "line":
            self.count += 1
            if self.count == self.at:
                sys.settrace(None)
                raise self.error("stopped")
        return self

    def run(self, call: Callable[[], Any]) -> bool:
        """Return whether the call was stopped."""
        before, inside = sys.gettrace(), bool(limited._inside)
        sys.settrace(self)
        try:
            call()
        except self.error:
            return True
        finally:
            sys.settrace(before)
            if limited._inside and not inside:  # stopped at the start of `Limit.__exit__`
                limited.forget()  # or BLAS would keep one thread in all later tests
        return False


def state_of(learner: Any) -> bytes:
    """Return everything that a learner would save."""
    return pickle.dumps(copy.deepcopy(learner._fitted_state()))


def attempt(case: Case, rng: np.random.Generator, error: type[BaseException]) -> str:
    """Stop a call at a random line; return the state of the learner, "before" or "after"."""
    first, rows = int(rng.integers(20, 120)), int(rng.choice([1, 2, 5, 40, 130]))
    X, y = case.stream(first + rows + 30)
    learner = case.make().partial_fit(X[:first], y[:first])
    twin, done = copy.deepcopy(learner), copy.deepcopy(learner)
    now = slice(first, first + rows)
    lines = Lines()
    lines.run(lambda: done.predict_then_learn(X[now], y[now]))
    at = int(rng.integers(1, lines.count + 1))
    # The twin's first call makes its lock, so the last lines may not come: then it is "after".
    Lines(at, error).run(lambda: learner.predict_then_learn(X[now], y[now]))
    after = learner.n_seen_ == first + rows
    expected = done if after else twin
    where = (case.id, first, rows, at)
    assert state_of(learner) == state_of(expected), where
    later = slice(first + rows, None)
    assert np.array_equal(
        learner.predict_then_learn(X[later], y[later]),
        expected.predict_then_learn(X[later], y[later]),
    ), where
    return "after" if after else "before"
