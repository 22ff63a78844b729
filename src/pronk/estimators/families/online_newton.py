"""What the online Newton learners share: loss, curvature eta and clip, and their certificate."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

from pronk.engines.newton.curvature import OnlineNewton
from pronk.estimators.faces.base import OnlineLearner
from pronk.estimators.faces.classifier import OnlineClassifier
from pronk.estimators.faces.constraints import Interval, StrOptions
from pronk.estimators.faces.regressor import OnlineRegressor
from pronk.estimators.families.first_order import with_losses
from pronk.parts.losses import get_loss


class OnlineNewtonLearner(OnlineLearner):
    """Parameters of the step; ``eta`` is the coefficient of g g' in A."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **OnlineLearner._parameter_constraints,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "eta": [Interval(Real, 0, None, closed="left"), StrOptions({"auto", "convex"})],
        "clip": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
    }
    eta: Any
    clip: Any
    loss: str

    def _takes_weights(self) -> bool:
        return True

    def _rule(self) -> OnlineNewton:
        """The step; an automatic clip is 1 for labels and the largest |y| so far for numbers."""
        labels = isinstance(self, OnlineClassifier)
        clip = (1.0 if labels else None) if self.clip == "auto" else float(self.clip)
        eta = self.eta if isinstance(self.eta, str) else float(self.eta)
        return OnlineNewton(get_loss(self.loss), eta, clip)


class OnlineNewtonRegressor(OnlineNewtonLearner, OnlineRegressor):
    """The regression face: losses on numbers."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = with_losses(
        OnlineNewtonLearner, "regression"
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A Newton step on a row that is far from all others goes to 2 y: with so few rows that
        # each is alone, as in scikit-learn's checks, the fit of the training rows is poor.
        tags.regressor_tags.poor_score = True
        return tags


class OnlineNewtonClassifier(OnlineNewtonLearner, OnlineClassifier):
    """The classification face: losses on labels, one output against the rest."""

    _linear_in_targets: ClassVar[bool] = False
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = with_losses(
        OnlineNewtonLearner, "classification"
    )
