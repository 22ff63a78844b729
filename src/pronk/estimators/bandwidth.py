"""Engines whose bandwidth is measured from the first rows: ``bandwidth="auto"``.

The bandwidth is the median distance of the rows so far, and is final after row 256; see
`pronk.core.first_rows`. Until then a saved learner holds its first rows as they came (rows in their
blocks, new outputs between them), so that a loaded one has the same state to the last bit.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from sklearn.base import clone

from pronk.aggregate.representation import typical_distance
from pronk.core.arrays import Array
from pronk.core.first_rows import Block, FirstRows, checked_numbers, checked_targets
from pronk.core.kernels import Kernel, get_kernel, with_bandwidth
from pronk.core.state import StateError, checked_count, require

#: Most outputs of an engine in a file that holds first rows.
MOST_OUTPUTS = 1 << 16


class EngineFactory:
    """Build engines for given bandwidths with the parameters and the seed of a learner."""

    def __init__(self, learner: Any, columns: int) -> None:
        self._blank: Any = clone(learner)
        self._blank._seed, self._columns = learner._seed, columns

    def __call__(self, bandwidth: float, outputs: int) -> Any:
        twin = copy.copy(self._blank)
        twin.kernel = with_bandwidth(get_kernel(twin.kernel, auto=True), bandwidth)
        return twin._make_model(self._columns, outputs)


class AutomaticBandwidth(FirstRows):
    """An engine, ``inner``, that ``make(bandwidth, outputs)`` builds again at every restart."""

    def __init__(self, make: EngineFactory, kernel: Kernel, columns: int, outputs: int) -> None:
        self.bandwidth = 1.0
        super().__init__(make(self.bandwidth, outputs))
        self._make, self._kernel, self._columns = make, kernel, columns
        self._outputs, self._first_outputs = outputs, outputs  # now, and before the first event

    @property
    def points(self) -> Array | None:
        return self.inner.points

    def __getattr__(self, name: str) -> Any:
        """Return other public attributes of the engine: ``certificate``, ``models``, .."""
        if name.startswith("_") or "inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.inner, name)

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        return np.concatenate(self._learn(X, Y, weights, {}))

    def predict(self, X: Array) -> Array:
        return self.inner.predict(X)

    def remap(self, matrix: Array) -> None:
        self.inner.remap(matrix)
        self._outputs = matrix.shape[1]
        if not self.is_over:
            self._events = (*self._events, matrix.copy())

    def _learn_block(self, block: Block, options: dict[str, Any]) -> Any:
        given = block[:2] if block.weights is None else block
        return self.inner.learn(*given)

    def _measure(self, rows: int) -> None:
        X = np.concatenate([block.X for block in self.blocks])
        self.bandwidth = typical_distance(self._kernel, X[:rows])

    def _restart(self) -> None:
        self.inner = self._make(self.bandwidth, self._first_outputs)
        for event in self._events:
            if isinstance(event, Block):
                self._learn_block(event, {})
            else:
                self.inner.remap(event)

    # -- roll-back and files ------------------------------------------------------------------

    def snapshot(self) -> Any:
        return dict(self.__dict__), self.inner.snapshot()

    def roll_back(self, snapshot: Any) -> None:
        held, inner = snapshot
        self.__dict__.update(held)
        self.inner.roll_back(inner)

    def to_state(self) -> dict[str, Any]:
        """Return the rows so far; the engine follows from them."""
        return {**super().to_state(), "outputs": self._first_outputs}

    def restore(self, state: Any) -> None:
        """Learn the rows of a state, which may come from an untrusted file."""
        require(isinstance(state, dict) and "outputs" in state, "outputs are missing")
        expected = self._outputs
        self._outputs = checked_count(state["outputs"], "outputs", 0, MOST_OUTPUTS)
        self._first_outputs = self._outputs
        self._restore_events(
            {name: value for name, value in state.items() if name != "outputs"}, self._columns
        )
        require(self._outputs == expected, "events end with other outputs")
        require(not self.is_over, "the first rows are over")
        try:
            self._restart()
        except (ValueError, IndexError, FloatingPointError) as error:
            raise StateError(f"events cannot be learned: {error}") from None

    def _checked_matrix(self, matrix: Any) -> Array:
        checked = checked_numbers(matrix, (self._outputs, None), "matrix")
        self._outputs = checked.shape[1]
        return checked

    def _checked_targets(self, Y: Any, rows: int) -> Array:
        numbered = self._outputs > 1 and getattr(self.inner, "targets_are_classes", False)
        checked = checked_targets(Y, (rows, 1 if numbered else self._outputs))
        classes = np.arange(self._outputs)
        good = not numbered or bool(np.isin(checked, classes).all())
        require(good, "events/Y are not numbers of classes")  # they are indices in compiled code
        return checked
