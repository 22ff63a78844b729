"""PROS-N-KONS, CON-KONS, B-KONS and NONS-ALD: the online Newton step in the span of a dictionary.

KORS selects few points; the online Newton step runs in their span, R^j, not in the whole RKHS.
After a point is added, the learner restarts in the larger span or carries its state over:

    phi_t = E k_J(x_t),  E'E = K_JJ^+;   v = w - A^-1 g;   w = v moved until |phi_t'w| <= clip
    predict phi_t'w;   A <- A + eta_t g_t g_t'

PROS-N-KONS restarts at the row after each addition, which its regret bound needs; CON-KONS
(``restart=False``) keeps w and A, with alpha in the new direction, which is usually more accurate;
B-KONS stops adding points at a ``budget``. NONS-ALD, for squared loss, has another dictionary: a
row enters if its squared distance to the span exceeds ``nu``. The state is carried over, and the
row that enters is already predicted and learned in the larger span (``lag=0``), so each row is
within sqrt(nu) of its features: this gives the regret bound that CON-KONS does not have.

With ``features="taylor"`` or ``"fourier"`` the same step runs on fixed features.

Cost per row: O(j^2 + j d) time and memory, j points.

Reference: Calandriello, Lazaric, Valko, "Efficient second-order online kernel learning with
adaptive embedding", NeurIPS 2017, Figure 1 and Section 5 (CON-KONS with the gradient step and the
projection also at an addition, so that no prediction leaves [-clip, clip]). NONS-ALD: Li, Liao,
"Nearly optimal algorithms with sublinear computational complexity for online kernel regression",
ICML 2023.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from pronk.core.dictionary import ALD
from pronk.core.kernels import get_kernel
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import (
    OnlineNewtonLearner,
    SpaceLearner,
    fixed_embedding,
    growing_dictionary,
    rule_of,
)
from pronk.estimators.inputs import NOT_NEGATIVE, Interval, parameter
from pronk.estimators.regressor import OnlineRegressor
from pronk.newton.spaces import FixedFeatures, GrowingFeatures, NewtonBank

ENTRY = {
    "place": 60,
    "classes": ["ProsNKONSRegressor", "ProsNKONSClassifier"],
    "paper": "Calandriello, Lazaric, Valko 2017 (PROS-N-KONS)",
    "bounds": ["newton_bound", "pros_n_kons_bound", "pros_n_kons_squared_bound", "nons_ald_bound"],
    "time": "j^2 + j d",
    "memory": "j^2 + j d",
    "bounded": False,
    "names": {
        "pros-n-kons": {"use": "losses with curvature, with a regret bound"},
        "con-kons": {"use": "as pros-n-kons, usually more accurate", "params": {"restart": False}},
        "b-kons": {
            "use": "as con-kons, in bounded memory",
            "time": "J^2 + J d, J the budget",
            "memory": "J^2 + J d",
            "bounded": True,
            "params": {"budget": 100},
        },
        "nons-ald": {
            "use": "squared loss, state carried over, with a regret bound",
            "paper": "Li, Liao 2023 (NONS-ALD)",
            "tasks": ["regression"],
            "params": {"dictionary": "ald", "restart": False, "lag": 0, "eta": "unit"},
        },
    },
}


class _ProsNKONS(SpaceLearner, OnlineNewtonLearner):
    """Parameters and engine of the regressor and the classifier."""

    restart: bool = parameter("boolean", default=True)
    nu: float = parameter(NOT_NEGATIVE, default=0.01)
    lag: int = parameter(Interval(Integral, 0, 1, closed="both"), default=1)
    track_regret: bool = parameter("boolean", default=False)

    @property
    def _theorem(self) -> str | None:
        ald = isinstance(rule_of(self), ALD) and not self.restart and self.lag == 0
        return "nons-ald" if ald and self.loss == "squared" else "pros-n-kons"

    def _make_model(self, columns: int, outputs: int) -> FixedFeatures | GrowingFeatures:
        kernel, rule = get_kernel(self.kernel), self._rule()
        dictionary = growing_dictionary(self, kernel, columns)
        if dictionary is None:
            embedding = fixed_embedding(self, kernel, columns)
            bank = NewtonBank(rule, self.alpha, embedding.size, outputs, self.track_regret)
            return FixedFeatures(embedding, bank)
        bank = NewtonBank(rule, self.alpha, 0, outputs, self.track_regret)
        return GrowingFeatures(
            kernel, dictionary, bank, "restart" if self.restart else "carry", self.lag
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if tags.classifier_tags is not None:
            # With restarts, the learner forgets the rows before the last addition.
            tags.classifier_tags.poor_score = self.restart
        return tags


class ProsNKONSRegressor(_ProsNKONS, OnlineRegressor):
    """PROS-N-KONS, CON-KONS, B-KONS or NONS-ALD on numbers.

    ``pronk.make("nons-ald")`` sets dictionary="ald", restart=False, lag=0 and eta="unit".

    Parameters
    ----------
    kernel, alpha, eta, clip, loss : as in `KONSRegressor`
    gamma, epsilon, beta : float, default 1.0, 0.5, 1.0
        KORS: regularisation of the leverage scores, accuracy, oversampling. A smaller gamma makes a
        larger dictionary.
    restart : bool, default True
        Restart after each new point (PROS-N-KONS); False carries the state over (CON-KONS).
    budget : int, optional
        Most points (B-KONS).
    dictionary : "kors", "ald", "first", "uniform", a rule or array (points, columns), optional
        Which rows become points, as in `PKAWVRegressor`, or fixed points. The bound of PROS-N-KONS
        is for KORS, the default.
    nu : float, default 0.01
        With ``dictionary="ald"``: rows enter whose squared distance to the span exceeds nu.
    lag : 0 or 1, default 1
        A row that enters the dictionary is predicted and learned in the old span, and the next row
        in the larger one (1, PROS-N-KONS), or already itself (0, NONS-ALD).
    features : "nystrom", "taylor" or "fourier", default "nystrom"
    degree, n_features : int, default 2, 100
        Degree of the Taylor features; number of random frequencies.
    track_regret : bool, default False
        Keep the sums that `certificate` needs; they cost O(j^2) more per row.
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import Gaussian, ProsNKONSRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (5000, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> learner = ProsNKONSRegressor(Gaussian(0.5), restart=False, random_state=1)
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}, {learner.size_} points")
    mean squared error 0.0021, 124 points
    """


class ProsNKONSClassifier(_ProsNKONS, OnlineClassifier):
    """PROS-N-KONS, CON-KONS or B-KONS on labels; classes share dictionary and kernel values.

    Parameters are those of `ProsNKONSRegressor`, but ``loss`` is "squared_hinge" by default and an
    automatic ``clip`` is 1.

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import ProsNKONSClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.sign(X[:, 0] * X[:, 1])
    >>> labels = ProsNKONSClassifier(restart=False, random_state=1).predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.3f}")
    error 0.059
    """

    loss: str = "squared_hinge"
