"""NOGD: kernel gradient descent that turns into gradient descent in a Nystrom space.

The first ``budget`` points with a non-zero slope are kernel terms, as in kernel gradient descent.
When the budget is full, the function is projected on the ``rank`` leading eigenvectors of their
kernel matrix, and learning continues there at a constant cost per row:

    f <- f - eta l'(f(x), y) k(x, .)                                  until |S| = budget
    K = V D V' (rank largest);  z(x) = D^-1/2 V' k_S(x);  w = D^1/2 V' a
    predict f = w'z;  w <- w - eta l'(f, y) z                         from then on

Eigenvalues below 1e-10 of the largest (duplicate points) are dropped. Three or more classes are
learned one-vs-rest, each with its own points.

Cost per row: O(B d + B r) time and O(B d + B r) memory, for each output; O(B^3) once.

Reference: Lu, Hoi, Wang, Zhao, Liu, "Large scale online kernel learning", JMLR 17, 2016,
Algorithm 4. The space changes when the budget is full, not at the next loss after that.
"""

from __future__ import annotations

from functools import partial

from pronk.core.kernels import get_kernel
from pronk.core.one_vs_rest import OneVsRest
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import FirstOrder
from pronk.estimators.inputs import COUNT, POSITIVE, parameter
from pronk.estimators.regressor import OnlineRegressor
from pronk.first_order.gradient import NystromGradient

ENTRY = {
    "place": 100,
    "classes": ["NOGDRegressor", "NOGDClassifier"],
    "paper": "Lu, Hoi, Wang, Zhao, Liu 2016 (FOGD, NOGD)",
    "guarantee": """\
Until the budget is full it is OGD. From then on, in the space of its points, with the weights w_0
at the change of space, any convex loss, every w of that space:

    R(w) <= |w - w_0|^2/(2 eta) + (eta/2) sum_t l'_t^2 |z(x_t)|^2,    |z(x)|^2 <= k(x, x).

The error of the space depends on the first points; the reference bounds it.""",
    "names": {
        "nogd": {
            "use": "long streams; fast, in the span of the first points",
            "time": "B d + B r",
            "memory": "B d + B r",
            "bounded": True,
        },
    },
}


class _NOGD(FirstOrder):
    """Parameters and engine of the regressor and the classifier."""

    budget: int = parameter(COUNT, default=100)
    rank: int = parameter(COUNT, default=20)
    eta: float = parameter(POSITIVE, default=0.1)
    _weighted = True

    def _make_model(self, columns: int, outputs: int) -> OneVsRest:
        make = partial(
            NystromGradient, get_kernel(self.kernel), self._get_loss(), float(self.eta), columns,
            self.budget, self.rank,
        )  # fmt: skip
        return OneVsRest(make, outputs)

    def _steps_are_safe(self) -> bool:
        kernel = get_kernel(self.kernel, auto=True)
        return kernel.normalised and self.eta <= 1.0  # 2 eta k(x, x) <= 2


class NOGDRegressor(_NOGD, OnlineRegressor):
    """Online gradient descent in the span of the first points.

    Parameters
    ----------
    kernel : name, kernel or function, default "gaussian"
    budget : int, default 100
        Number of points per output.
    rank : int, default 20
        Dimension of the space after the budget is full; at most ``budget``.
    eta : float, default 0.1
        Step size, constant. With the squared loss eta k(x, x) must stay below 1.
    loss : "squared", "absolute", "epsilon_insensitive" or "huber", default "squared"
        epsilon is 0.1, and the Huber loss is linear beyond 1.
    random_state : ignored, as the algorithm is deterministic

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import Gaussian, NOGDRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (5000, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> learner = NOGDRegressor(Gaussian(0.5))
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}, {learner.size_} points")
    mean squared error 0.0024, 100 points
    """


class NOGDClassifier(_NOGD, OnlineClassifier):
    """NOGD on labels coded +-1.

    Parameters
    ----------
    kernel, budget, rank, random_state : as in `NOGDRegressor`
    eta : float, default 0.5
        Step size, constant.
    loss : "hinge", "logistic", "squared_hinge", "smooth_hinge" or "squared", default "hinge"

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import NOGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    >>> labels = NOGDClassifier().predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.3f}")
    error 0.091
    """

    eta: float = 0.5
    loss: str = "hinge"
