"""What the first-order learners share: their losses, and steps that must not run away."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from pronk.estimators.faces.base import OnlineLearner
from pronk.estimators.faces.constraints import StrOptions
from pronk.parts.losses import LOSSES, SQUARED, SQUARED_HINGE, Loss, get_loss

Array = NDArray[np.float64]


def with_losses(base: type[OnlineLearner], task: str) -> dict[str, list[Any]]:
    """The parameter checks of ``base``, and of ``loss`` for one of its faces."""
    names = {name for name, loss in LOSSES.items() if loss.task in (task, "both")}
    return {**base._parameter_constraints, "loss": [StrOptions(names)]}


class FirstOrder(OnlineLearner):
    """A learner by gradient steps on a loss.

    With an unbounded slope (squared and squared hinge loss) steps above a limit overshoot more and
    more, until the weights overflow. Such a call is refused: it raises and leaves the learner as it
    was. Where the steps are known to be below the limit nothing is looked at for that.
    """

    _step_parameter: ClassVar[str] = "eta"
    loss: str

    def _get_loss(self) -> Loss:
        return get_loss(self.loss)

    def _steps_are_safe(self) -> bool:
        """Whether steps on a loss of curvature 2 cannot overshoot for ever."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if tags.regressor_tags is not None:
            # One pass of small steps over a hundred rows cannot fit them well.
            tags.regressor_tags.poor_score = True
        return tags

    def _may_overflow(self) -> bool:
        return self._get_loss().code in (SQUARED, SQUARED_HINGE) and not self._steps_are_safe()

    def _check_result(self, P: Array) -> None:
        if not ("_learning" in self.__dict__ and self._may_overflow()):  # else `_pass` words it
            super()._check_result(P)

    def _pass(self, X: Any, Y: Array, weights: Array | None = None) -> Array:
        if not self._may_overflow():
            return super()._pass(X, Y, weights)
        with np.errstate(over="ignore", invalid="ignore"):
            P = super()._pass(X, Y, weights)
            finite = np.isfinite(P).all(axis=1)
            models = getattr(self._model, "models", [self._model])
            if finite.all() and all(np.isfinite(model.weights).all() for model in models):
                return P
        row = int(np.argmin(finite)) if not finite.all() else len(P)
        name = self._step_parameter
        raise ValueError(
            f"{name}={getattr(self, name)!r} with loss={self.loss!r} makes steps that overshoot: "
            f"the weights overflowed before row {row} (counting from 0); choose a "
            f"{'larger' if name == 'alpha' else 'smaller'} {name}, or a loss with a bounded slope"
        )
