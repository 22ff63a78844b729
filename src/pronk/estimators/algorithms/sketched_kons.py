"""Sketched-KONS: KONS whose matrix A contains only a sample of the rows' curvature.

The gradient of a row always moves the weights. Its curvature is added to A with a probability that
is its estimated leverage score times beta, at least ``floor``:

    A <- A + z_t eta_t g_t g_t',     z_t = 1{u_t < max(min(beta tau_t, 1), floor)}

with tau_t from KORS on the rescaled points g_t sqrt(eta_t), which uses the same u_t.

Cost at row t: O(t + B^2) time with B rows in the sketch, O(t + B^2) memory; all rows are stored.

Reference: Calandriello, Lazaric, Valko, "Second-order kernel online convex optimization with
adaptive sketching", ICML 2017, Algorithm 3 (with z_i in the coefficient of Lemma 4, which is
missing in print).
"""

from __future__ import annotations

from functools import partial
from numbers import Real

from pronk.core.kernels import get_kernel
from pronk.core.one_vs_rest import OneVsRest
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import OnlineNewtonLearner
from pronk.estimators.inputs import POSITIVE, Interval, parameter
from pronk.estimators.regressor import OnlineRegressor
from pronk.newton.exact import SketchedKONS

ENTRY = {
    "place": 50,
    "classes": ["SketchedKONSRegressor", "SketchedKONSClassifier"],
    "paper": "Calandriello, Lazaric, Valko 2017 (KONS)",
    "bounds": ["sketched_kons_bound"],
    "names": {
        "sketched-kons": {
            "use": "as kons, cheaper per row",
            "time": "t d + B^2, B points in the sketch",
            "memory": "t d + B^2",
            "bounded": False,
        },
    },
}


class _SketchedKONS(OnlineNewtonLearner):
    """Parameters and engine of the regressor and the classifier."""

    _covered_by = "sketched-kons"
    floor: float = parameter(Interval(Real, 0, 1, closed="both"), default=0.1)
    epsilon: float = parameter(Interval(Real, 0, 1, closed="left"), default=0.5)
    beta: float = parameter(POSITIVE, default=1.0)

    def _make_model(self, columns: int, outputs: int) -> OneVsRest:
        make = partial(
            SketchedKONS, get_kernel(self.kernel), self.alpha, self._rule(), columns, self.floor,
            self.epsilon, self.beta, self._seed,
        )  # fmt: skip
        return OneVsRest(make, outputs, same_points=True)


class SketchedKONSRegressor(_SketchedKONS, OnlineRegressor):
    """KONS on numbers with a sketch of the curvature.

    Parameters
    ----------
    kernel, alpha, eta, clip, loss : as in `KONSRegressor`
    floor : float, default 0.1
        The least probability with which the curvature of a row is added to A.
    epsilon, beta : float, default 0.5, 1.0
        KORS: accuracy and oversampling of the leverage scores.
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import SketchedKONSRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (500, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> learner = SketchedKONSRegressor(random_state=1)
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}")
    mean squared error 0.0382
    """


class SketchedKONSClassifier(_SketchedKONS, OnlineClassifier):
    """KONS on labels with a sketch of the curvature; one-vs-rest.

    Parameters are those of `SketchedKONSRegressor`, but ``loss`` is "squared_hinge" by default and
    an automatic ``clip`` is 1.
    """

    loss: str = "squared_hinge"
