"""DualSGD: kernel gradient descent whose surplus terms move into random features.

The steps have size 1/(alpha t), on the objective alpha/2 |f|^2 + l(f(x), y). Points with a non-zero
slope become kernel terms. When there are more than ``budget`` terms, the ``merge`` smallest are not
dropped but moved into a vector of random Fourier features, which approximates the same functions:

    s = (sum_i r_i k(x_i, x_t) + m'phi(x_t)) / (alpha (t-1))     (0 at t = 1);   r_t = -l'(s, y_t)
    more than B terms: the k with the least |r_i|, oldest first, move:   m <- m + r_i phi(x_i)

r_i = alpha t c_i are the coefficients before shrinking. So the shrinking (1 - 1/t) f of a step
costs nothing for old terms, and equal coefficients (all of them under the hinge loss) tie exactly.

Cost per row: O(B d + L d) time and O(B (L + d) + L d) memory; each class adds O(B + L).

Reference: Le, Nguyen, Nguyen, Phung, "Dual space gradient descent for online learning", NeurIPS
2016, Algorithm 1 with k-merging. The test "more than B" follows the insertion, as in its text.
"""

from __future__ import annotations

from pronk.core.features import Fourier
from pronk.core.kernels import get_kernel
from pronk.estimators.classifier import MulticlassClassifier
from pronk.estimators.families import DualLearner
from pronk.estimators.inputs import COUNT, POSITIVE, parameter
from pronk.estimators.regressor import OnlineRegressor
from pronk.first_order.dual_sgd import DualSGD

ENTRY = {
    "place": 70,
    "classes": ["DualSGDRegressor", "DualSGDClassifier"],
    "paper": "Le, Nguyen, Nguyen, Phung 2016 (DualSGD)",
    "guarantee": """\
No regret bound for a given stream. The reference proves convergence in expectation, for rows drawn
independently, up to a gap that the random features leave and that shrinks with their number.""",
    "names": {
        "dual-sgd": {
            "use": "kernel terms and random features, any loss",
            "time": "(B + L) d",
            "memory": "B (L + d) + L d",
            "bounded": True,
        },
    },
}


class _DualSGD(DualLearner):
    """Parameters and engine of the regressor and the classifier."""

    _step_parameter = "alpha"

    alpha: float = parameter(POSITIVE, default=0.3)
    n_features: int = parameter(COUNT, default=200)
    budget: int = parameter(COUNT, default=100)
    merge: int = parameter(COUNT, default=1)

    def _make_engine(self, columns: int, outputs: int = 1) -> DualSGD:
        kernel = get_kernel(self.kernel)
        embedding = Fourier(kernel, columns, self.n_features, self._seed)
        return DualSGD(
            kernel, embedding, self._get_loss(), float(self.alpha), columns, self.budget,
            self.merge, outputs,
        )  # fmt: skip

    def _steps_are_safe(self) -> bool:
        # A step multiplies by up to c/t - 1, c = 1 + 2/alpha; all steps to t = c/2 by at most 2^c.
        return self.alpha >= 0.01


class DualSGDRegressor(_DualSGD, OnlineRegressor):
    """DualSGD on numbers; several outputs are learned independently, with separate terms.

    Parameters
    ----------
    kernel : name or kernel, default "gaussian"
        Gaussian, Laplacian or Matern.
    alpha : float, default 0.3
        Regularisation, and the step size 1/(alpha t). With the squared loss a small alpha makes the
        first 2/alpha steps overshoot, each more than the last: use at least 0.1 there.
    n_features : int, default 200
        Random frequencies; each gives a cosine and a sine feature.
    budget : int, default 100
        Most kernel terms.
    merge : int, default 1
        Number of terms that move when the budget is exceeded.
    loss : "squared", "absolute", "epsilon_insensitive" or "huber", default "squared"
        epsilon is 0.1, and the Huber loss is linear beyond 1.
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import DualSGDRegressor, Gaussian
    >>> X = np.random.default_rng(0).uniform(-3, 3, (5000, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> learner = DualSGDRegressor(Gaussian(0.5), loss="absolute", alpha=0.1, random_state=0)
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}, {learner.size_} points")
    mean squared error 0.0056, 100 points
    """


class DualSGDClassifier(_DualSGD, MulticlassClassifier):
    """DualSGD on labels; three or more classes by the margin s_y - max s_c (Crammer, Singer).

    A new class starts with the zero function; when the third class appears, the function s of the
    first two becomes -s/2 and s/2.

    Parameters
    ----------
    kernel, n_features, budget, merge, random_state : as in `DualSGDRegressor`
    alpha : float, default 1e-4
        Regularisation, and the step size 1/(alpha t).
    loss : "hinge", "logistic", "squared_hinge", "smooth_hinge" or "squared", default "hinge"

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import DualSGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> labels = DualSGDClassifier(random_state=0).predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.3f}")
    error 0.097
    """

    alpha: float = 1e-4
    loss: str = "hinge"
