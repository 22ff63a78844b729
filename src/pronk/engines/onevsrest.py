"""Several outputs from learners that have one: independent copies, one a column of targets.

Valid for learners that are odd in their targets, learn(X, -y) = -learn(X, y), as all losses on
margins and differences are: a new output that is minus an old one is a copy with its sign changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Signed(Protocol):
    """A model of one output whose sign can be changed."""

    @property
    def points(self) -> Array | None: ...
    def learn(self, X: Array, Y: Array) -> Array: ...
    def predict(self, X: Array) -> Array: ...
    def negate(self) -> None: ...
    def to_state(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any]) -> None: ...


class OneVsRest:
    """One model an output; ``make`` builds a new one.

    ``same_points`` says that all outputs hold the same points, so that they are told once.
    """

    def __init__(
        self, make: Callable[[], Signed], outputs: int, *, same_points: bool = False
    ) -> None:
        self.models = [make() for _ in range(outputs)]
        self.same_points = same_points

    @property
    def points(self) -> Array | None:
        """The points of all outputs, one after the other."""
        return self.points_from(0)

    def points_from(self, first: int) -> Array | None:
        """The points of the outputs from ``first`` on; the ones before stand for no class."""
        models = self.models[first : first + 1] if self.same_points else self.models[first:]
        held = [points for model in models if (points := model.points) is not None]
        return np.concatenate(held) if held else None

    def learn(self, X: Array, Y: Array) -> Array:
        return np.hstack([model.learn(X, Y[:, [o]]) for o, model in enumerate(self.models)])

    def predict(self, X: Array) -> Array:
        return np.hstack([model.predict(X) for model in self.models])

    def remap(self, matrix: Array) -> None:
        self.models = remapped(self.models, matrix)

    def to_state(self) -> dict[str, Any]:
        return {str(o): model.to_state() for o, model in enumerate(self.models)}

    def restore(self, state: dict[str, Any]) -> None:
        for o, model in enumerate(self.models):
            model.restore(state[str(o)])


def remapped(models: Sequence[Any], matrix: Array) -> list[Any]:
    """Copies of models, with their sign, for outputs that are plus or minus one old output each."""
    new = []
    for column in matrix.T:
        (source,) = np.flatnonzero(column)
        model = copy.deepcopy(models[int(source)])
        if column[source] < 0:
            model.negate()
        new.append(model)
    return new
