"""Scale the targets of a regressor by mean and deviation of the first rows, final after row 256.

A regulariser shrinks predictions to 0, and a step of fixed length or a largest coefficient suits
numbers of size 1; prices of houses are neither. So the learner is given (y - centre) / size, with
the mean and the deviation of the first rows; see `pronk.core.first_rows`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from pronk.core.arrays import Array
from pronk.core.first_rows import Block, FirstRows, checked_targets
from pronk.core.state import LARGEST_TARGET, require
from pronk.estimators.inputs import TimedWeights, check_targets, check_weights, known_targets

#: Values of the parameter ``scale_target``.
TARGETS = ("auto", "standard", "none")


def scales_targets(learner: Any, target: str) -> bool:
    """Return whether the targets of a learner are scaled; "auto": unless it scales them itself."""
    if target not in TARGETS:
        raise ValueError(f"scale_target must be one of {', '.join(TARGETS)}; got {target!r}")
    labels = learner.__sklearn_tags__().estimator_type == "classifier"
    if labels and target == "standard":
        raise ValueError("scale_target='standard': labels have no size; leave it out")
    itself = getattr(learner, "_scales_itself", False)
    return not labels and (target == "standard" or (target == "auto" and not itself))


def _weighted(weights: Array | None) -> dict[str, Array]:
    """Return weights, with times (n, 2), as an argument of a learner."""
    if weights is None:
        return {}
    return {"sample_weight": weights.view(TimedWeights) if weights.ndim == 2 else weights}


class ScaledTargets(FirstRows):
    """A learner, ``inner``, behind the scaling of its targets.

    At every restart ``inner`` is a new copy of ``blank``. ``centre`` and ``size`` are numbers, or
    arrays (outputs,) where y has several columns.
    """

    def __init__(self, blank: Any, inner: Any) -> None:
        super().__init__(inner)
        self.blank = blank
        self.centre: Any = 0.0
        self.size: Any = 1.0

    # -- units -----------------------------------------------------------------------------------

    def scaled(self, y: Array) -> Array:
        """Return targets in the unit of the learner."""
        return np.asarray((y - self.centre) / self.size)

    def in_unit_of_y(self, predictions: Array) -> Array:
        """Return predictions of the learner in the unit of y."""
        return np.asarray(self.centre + self.size * predictions)

    def quantiles_in_unit_of_y(self, ends: Array) -> Array:
        """Return quantiles (.., q) of the learner in the unit of y."""
        several = np.ndim(self.centre) > 0
        centre, size = (np.asarray(v)[:, None] if several else v for v in (self.centre, self.size))
        return np.asarray(centre + size * ends)

    def answer_in_unit_of_y(self, answer: Any) -> Any:
        """Return predictions, or a pair of predictions and quantiles, in the unit of y."""
        if isinstance(answer, tuple):
            return self.in_unit_of_y(answer[0]), self.quantiles_in_unit_of_y(answer[1])
        return self.in_unit_of_y(answer)

    # -- learning --------------------------------------------------------------------------------

    def learn(self, X: Array, y: Any, options: dict[str, Any]) -> Any:
        """Predict, then learn, with options of the learner; the answer is in the unit of y."""
        others = dict(options)
        weights = check_weights(others.pop("sample_weight", None), len(X))
        y, weights = known_targets(y, weights, len(X))
        return joined(self._learn(X, check_targets(y, len(X)), weights, others))

    def _learn_block(self, block: Block, options: dict[str, Any]) -> Any:
        options = {**options, **_weighted(block.weights)}
        answer = self.inner.predict_then_learn(block.X, self.scaled(block.Y), **options)
        return self.answer_in_unit_of_y(answer)

    def _measure(self, rows: int) -> None:
        Y = np.concatenate([block.Y for block in self.blocks])[:rows]
        self.centre, self.size = Y.mean(axis=0), Y.std(axis=0)
        self.size = np.where(self.size > 1e-12 * np.abs(self.centre), self.size, 1.0)

    def _restart(self) -> None:
        """Let a new learner learn the held rows in one call, which is faster than row by row."""
        X, Y = (np.concatenate(parts) for parts in zip(*(b[:2] for b in self.blocks), strict=True))
        weights: Array | None = None
        if any(block.weights is not None for block in self.blocks):
            weights = np.concatenate(
                [np.ones(len(b.X)) if b.weights is None else b.weights for b in self.blocks]
            )
        self._events = (Block(X, Y, weights),)
        self.inner = clone(self.blank)
        self.inner.partial_fit(X, self.scaled(Y), **_weighted(weights))

    # -- files -----------------------------------------------------------------------------------

    def to_state(self) -> dict[str, Any]:
        """The rows held, or centre and size once these are final; without the learner."""
        final = {"centre": np.asarray(self.centre).tolist(), "size": np.asarray(self.size).tolist()}
        return {**super().to_state(), "final": final if self.is_over else None}

    def restore(self, state: Any) -> None:
        """Restore what `to_state` returned, which may come from an untrusted file.

        ``inner`` is restored already: columns and outputs must be those of the learner.
        """
        require(isinstance(state, dict) and "final" in state, "targets are not a table")
        rows = {name: value for name, value in state.items() if name != "final"}
        self._restore_events(rows, int(self.inner.n_features_in_))
        final = state["final"]
        require((final is not None) == self.is_over, "final does not agree with rows")
        if final is not None:
            names = {"centre", "size"}
            require(isinstance(final, dict) and set(final) == names, "final is not a table")
            self.centre, self.size = (
                self._checked_final(final[name]) for name in ("centre", "size")
            )
            require(bool(np.all(self.size > 0.0)), "final/size is not positive")

    @property
    def _output_shape(self) -> tuple[int, ...]:
        """The shape of one row's targets."""
        return () if self.inner._flat else (self.inner._outputs,)

    def _checked_targets(self, Y: Any, rows: int) -> Array:
        return checked_targets(Y, (rows, *self._output_shape))

    def _checked_final(self, value: Any) -> Array:
        values = value if isinstance(value, list) else [value]
        numbers = all(type(v) is float and abs(v) <= LARGEST_TARGET for v in values)
        fits = numbers and np.shape(value) == self._output_shape
        require(fits, "final is not one finite number per output")
        return np.array(value)


def joined(answers: list[Any]) -> Any:
    """Return the answers of several calls as that of one: arrays, or pairs of arrays."""
    if isinstance(answers[0], tuple):
        return tuple(np.concatenate(parts) for parts in zip(*answers, strict=True))
    return np.concatenate(answers)
