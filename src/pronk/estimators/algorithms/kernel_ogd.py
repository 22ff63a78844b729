"""Online gradient descent in the RKHS (OGD, NORMA), and its forms that stay within a budget.

    f <- (1 - eta alpha) f - eta l'(f(x), y) k(x, .)

``alpha`` = 0 is plain OGD, ``eta="pegasos"`` is the step 1 / (alpha t). Every row whose slope is
not 0 becomes a support vector. Strategies for at most B support vectors:

    random     at |S| = B first drop one at random and multiply the others by B / (B - 1)   (BOGD)
    smallest   drop the smallest a^2 k(x, x), the oldest of equals                  (BSGD, removal)
    merge      replace the same point and its best partner of the same sign by one point on the
               line between them; drop the point if it has no partner               (BSGD, merging)

With "pegasos" the coefficients are stored as alpha t a, which is exactly +-1 under the hinge loss:
equal coefficients tie, and removal is first in, first out.

Cost per row with s support vectors in d columns: O(s d) time and memory; shrinking is one
multiplication.

References: Kivinen, Smola, Williamson, "Online learning with kernels", IEEE Transactions on Signal
Processing 52(8), 2004 (NORMA). Zhao, Wang, Wu, Jin, Hoi, "Fast bounded online gradient descent
algorithms for scalable kernel-based online learning", ICML 2012, Algorithm 1 with uniform sampling.
Wang, Crammer, Vucetic, "Breaking the curse of kernelization: budgeted stochastic gradient descent
for large-scale SVM training", JMLR 13, 2012, Algorithm 1 with removal and merging.
"""

from __future__ import annotations

from typing import Any

from pronk.core.kernels import get_kernel
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import ExpansionLearner, FirstOrder
from pronk.estimators.inputs import NOT_NEGATIVE, POSITIVE, StrOptions, parameter
from pronk.estimators.regressor import OnlineRegressor
from pronk.first_order.support import UpdateRule, descent

ENTRY = {
    "place": 120,
    "classes": ["KernelOGDRegressor", "KernelOGDClassifier"],
    "guarantee": """\
Plain OGD (no budget, alpha = 0, a constant step), any convex loss, every f of the RKHS:

    R(f) <= |f|^2/(2 eta) + (eta/2) sum_t l'_t^2 k(x_t, x_t),

of the order of sqrt(T) for a step of the order of 1/sqrt(T). The step "pegasos", without a budget:
the sum of alpha/2 |f_t|^2 + l(f_t(x_t), y_t) exceeds that of any fixed f by at most

    G^2 (1 + log T)/(2 alpha),    G the largest |alpha f_t + l'_t k(x_t, .)|.

Dropping and merging add their errors, which the references bound.""",
    "time": "B d",
    "memory": "B d",
    "bounded": True,
    "names": {
        "ogd": {
            "use": "any convex loss; the baseline of gradient methods",
            "paper": "Kivinen, Smola, Williamson 2004 (NORMA)",
            "time": "s d",
            "memory": "s d",
            "bounded": False,
        },
        "bogd": {
            "use": "labels, any convex loss; a budget, by random removal",
            "paper": "Zhao, Wang, Wu, Jin, Hoi 2012 (BOGD)",
            "tasks": ["classification"],
            "params": {"alpha": 0.001, "budget": 100, "maintenance": "random"},
        },
        "bsgd-r": {
            "use": "labels; an SVM on a budget, by removal",
            "paper": "Wang, Crammer, Vucetic 2012 (BSGD)",
            "tasks": ["classification"],
            "params": {"eta": "pegasos", "alpha": 0.001, "budget": 100, "maintenance": "smallest"},
        },
        "bsgd-m": {
            "use": "labels; an SVM on a budget, by merging",
            "paper": "Wang, Crammer, Vucetic 2012 (BSGD)",
            "tasks": ["classification"],
            "params": {"eta": "pegasos", "alpha": 0.001, "budget": 100, "maintenance": "merge"},
        },
    },
}


class _KernelOGD(ExpansionLearner, FirstOrder):
    """Parameters and engine of the regressor and the classifier."""

    eta: Any = parameter(POSITIVE, StrOptions({"pegasos"}), default=0.2)
    alpha: float = parameter(NOT_NEGATIVE, default=0.0)
    _weighted = True

    def _update(self) -> UpdateRule:
        if self.eta == "pegasos" and self.alpha == 0:
            raise ValueError("eta='pegasos' is 1 / (alpha t) and needs alpha > 0")
        if self.eta != "pegasos" and self.eta * self.alpha > 1:
            raise ValueError(f"eta * alpha must be at most 1, got {self.eta} * {self.alpha}")
        return descent(self._get_loss(), self.eta, self.alpha)

    def _steps_are_safe(self) -> bool:
        # 2 eta k(x, x) <= 2: no step increases the distance to the label
        if self.eta == "pegasos" or self.maintenance is not None:
            return False
        return bool(self.eta <= 1 and get_kernel(self.kernel, auto=True).normalised)


class KernelOGDRegressor(_KernelOGD, OnlineRegressor):
    """Kernel online gradient descent for regression; several outputs are learned independently.

    Parameters
    ----------
    kernel : name, kernel or function, default "gaussian"
    eta : float or "pegasos", default 0.2
        Step size; "pegasos" is 1 / (alpha t). With the squared loss eta k(x, x) must stay below 1.
    alpha : float, default 0.0
        Regularisation: f shrinks by 1 - eta alpha at every row.
    loss : "squared", "absolute", "epsilon_insensitive" or "huber", default "squared"
        epsilon is 0.1, and the Huber loss is linear beyond 1.
    budget : int, optional
        Most support vectors per output. Without a budget every row with a slope is kept.
    maintenance : None, "random", "smallest" or "merge", default None
        Budget strategy: BOGD, or BSGD with removal or merging (Gaussian kernel).
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import Gaussian, KernelOGDRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (2000, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> predictions = KernelOGDRegressor(Gaussian(0.5)).predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}")
    mean squared error 0.0034
    """


class KernelOGDClassifier(_KernelOGD, OnlineClassifier):
    """Kernel online gradient descent on labels coded +-1; several classes are learned one-vs-rest.

    Parameters
    ----------
    kernel, alpha, budget, maintenance, random_state : as in `KernelOGDRegressor`
    eta : float or "pegasos", default 0.5
        Step size; "pegasos" is 1 / (alpha t).
    loss : "hinge", "logistic", "squared_hinge", "smooth_hinge" or "squared", default "hinge"

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import Gaussian, KernelOGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> learner = KernelOGDClassifier(
    ...     Gaussian(0.3), eta="pegasos", alpha=0.001, budget=50, maintenance="merge"
    ... )
    >>> labels = learner.predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.3f}, {learner.size_} support vectors")
    error 0.047, 50 support vectors
    """

    eta: Any = 0.5
    loss: str = "hinge"
