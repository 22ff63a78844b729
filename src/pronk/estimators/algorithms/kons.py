"""KONS: the online Newton step in the whole RKHS, exact.

The matrix A collects the curvature of past gradients g = l'(f(x)) k(x, .). On losses with curvature
the regret of the Newton step is logarithmic, where that of gradient steps is sqrt(T):

    u = w - A^-1 g;   w = u moved along A^-1 phi_t until |f(x_t)| <= clip;   predict f(x_t)
    A <- A + eta_t g_t g_t'

computed from kernel values alone, with one growing Cholesky factor.

Cost at row t: O(t^2) time and memory; all rows are stored. Bounded forms: PROS-N-KONS, CON-KONS,
B-KONS.

Reference: Calandriello, Lazaric, Valko, "Second-order kernel online convex optimization with
adaptive sketching", ICML 2017, Algorithm 1 and Lemma 1 (with unscaled coefficients, so that a zero
gradient with clipping does not divide by zero).
"""

from __future__ import annotations

from functools import partial

from pronk.core.kernels import get_kernel
from pronk.core.one_vs_rest import OneVsRest
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import OnlineNewtonLearner
from pronk.estimators.regressor import OnlineRegressor
from pronk.newton.exact import KONS

ENTRY = {
    "place": 40,
    "classes": ["KONSRegressor", "KONSClassifier"],
    "paper": "Calandriello, Lazaric, Valko 2017 (KONS)",
    "bounds": ["newton_bound", "kons_bound", "kons_convex_bound"],
    "names": {
        "kons": {
            "use": "small streams; losses with curvature",
            "time": "t^2 + t d",
            "memory": "t^2 + t d",
            "bounded": False,
        },
    },
}


class _KONS(OnlineNewtonLearner):
    """Engine of the regressor and the classifier."""

    _covered_by = "kons"

    def _make_model(self, columns: int, outputs: int) -> OneVsRest:
        make = partial(KONS, get_kernel(self.kernel), self.alpha, self._rule(), columns)
        return OneVsRest(make, outputs, same_points=True)


class KONSRegressor(_KONS, OnlineRegressor):
    """The online Newton step on numbers, exact in the span of all points.

    Parameters
    ----------
    kernel : name, kernel or function, default "gaussian"
    alpha : float, default 1.0
        Regularisation: A starts as alpha I.
    eta : float, "auto", "convex" or "unit", default "auto"
        Coefficient of g g' in A. "auto" is half the curvature constant of the loss on
        [-clip, clip] (squared loss: 1 / (16 clip^2)). "convex" is 1 / (L clip sqrt t), the choice
        with a guarantee for losses without curvature, where "auto" is the same as "convex". "unit"
        is 1 / (4 clip^2 + 4), for squared loss and targets in [-1, 1].
    clip : float or "auto", default "auto"
        Predictions stay in [-clip, clip]; "auto" is the largest |y| seen so far.
    loss : str, default "squared"
    random_state : ignored, as the algorithm is deterministic

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import KONSRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (500, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> predictions = KONSRegressor().predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}")
    mean squared error 0.0205
    """


class KONSClassifier(_KONS, OnlineClassifier):
    """The online Newton step on labels, exact in the span of all points; one-vs-rest.

    Parameters are those of `KONSRegressor`, but ``loss`` is "squared_hinge" by default and an
    automatic ``clip`` is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import KONSClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> y = np.sign(X[:, 0] * X[:, 1])
    >>> labels = KONSClassifier().predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.3f}")
    error 0.108
    """

    loss: str = "squared_hinge"
