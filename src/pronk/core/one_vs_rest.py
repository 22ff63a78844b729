"""Several outputs from learners that have one: independent copies, one per column of targets.

Valid for learners that are odd in their targets, learn(X, -y) = -learn(X, y), as all losses on
margins and differences are: a new output that is minus an old one is a copy with its sign changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pronk.core.arrays import Array
from pronk.core.linalg import signed_columns
from pronk.core.state import Parts, Sizes, Stateful, require


class OneVsRest(Stateful):
    """One model per output; ``make`` builds a new one, a `Stateful` engine of one output.

    Its ``remap`` gets a matrix (1, 1) of 1 or -1; ``learn`` gets weights where they have a meaning.
    ``same_points``: all outputs have the same points, so that `points` returns those of one.
    """

    def __init__(self, make: Callable[[], Any], outputs: int, *, same_points: bool = False) -> None:
        self.models = [make() for _ in range(outputs)]
        self.same_points = same_points

    @property
    def points(self) -> Array | None:
        """The points of all outputs, one after the other."""
        return self.points_from(0)

    def points_from(self, first: int) -> Array | None:
        """Return the points of the outputs from ``first`` on; those before belong to no class."""
        models = self.models[first : first + 1] if self.same_points else self.models[first:]
        held = [points for model in models if (points := model.points) is not None]
        return np.concatenate(held) if held else None

    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array:
        given = () if weights is None else (weights,)
        return np.hstack([m.learn(X, Y[:, [o]], *given) for o, m in enumerate(self.models)])

    def predict(self, X: Array) -> Array:
        return np.hstack([model.predict(X) for model in self.models])

    def remap(self, matrix: Array) -> None:
        self.models = remapped(self.models, matrix)

    STATE = (Parts("models", "models"),)

    def to_state(self) -> dict[str, Any]:
        """Return the states of the models by number."""
        return {str(o): state for o, state in enumerate(super().to_state()["models"])}

    def _load(self, state: Any) -> Sizes:
        require(isinstance(state, dict), "the state is not a table")
        numbers = [str(o) for o in range(len(self.models))]
        require(sorted(state) == sorted(numbers), f"there are not {len(numbers)} outputs")
        return super()._load({"models": [state[o] for o in numbers]})


def remapped(models: Sequence[Any], matrix: Array) -> list[Any]:
    """Return models for outputs that are plus or minus one old output each.

    The first output that is plus an old one keeps its model; the others get copies. So a new class
    costs one copy, however many classes there are.
    """
    sources, signs = signed_columns(matrix)
    new, taken = [], set()
    for source, sign in zip(sources.tolist(), signs.tolist(), strict=True):
        if sign > 0 and source not in taken:
            taken.add(source)
            new.append(models[source])
            continue
        model = copy.deepcopy(models[source])
        if sign < 0:
            model.remap(-np.eye(1))
        new.append(model)
    return new
