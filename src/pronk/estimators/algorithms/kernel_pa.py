"""Kernel PA: Passive-Aggressive learning, PA-I and PA-II.

Each update is the smallest that corrects the row: f is unchanged if the row's loss is 0 (passive);
otherwise it moves to the nearest function with a smaller loss, where the remaining loss xi has the
price C (aggressive),

    f <- argmin_g 1/2 |g - f|^2 + C xi,    l(g(x), y) <= xi, xi >= 0                      (PA-I)
    f <- argmin_g 1/2 |g - f|^2 + C xi^2,  l(g(x), y) <= xi                               (PA-II)

with the hinge loss l = max(0, 1 - y f(x)) for labels, or l = max(0, |f(x) - y| - epsilon) for
numbers. Both have a closed form, f += tau s k(x, .) with s = y, or the sign of y - f(x), and

    tau = min(C, l / k(x, x))  (PA-I)        tau = l / (k(x, x) + 1 / (2 C))  (PA-II).

A row of weight w has the price w C. Every row with a loss becomes a support vector. A ``budget`` is
enforced as in kernel gradient descent: by dropping a random or the smallest one, or by merging.

Cost per row with s support vectors in d columns: O(s d) time and memory.

Reference: Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, "Online passive-aggressive algorithms",
JMLR 7, 2006, Figures 1 and 2 with kernels (Section 3), Section 5 for regression. The paper has no
budget; its bounds are for learners without one.
"""

from __future__ import annotations

from dataclasses import replace

from pronk.core.losses import Loss, get_loss
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import ExpansionLearner
from pronk.estimators.inputs import NOT_NEGATIVE, POSITIVE, StrOptions, parameter
from pronk.estimators.regressor import OnlineRegressor
from pronk.first_order.support import UpdateRule, passive

ENTRY = {
    "place": 130,
    "classes": ["KernelPARegressor", "KernelPAClassifier"],
    "paper": "Crammer, Dekel, Keshet, Shalev-Shwartz, Singer 2006 (PA)",
    "bounds": ["pa_mistake_bound", "pa_squared_loss_bound"],
    "time": "s d",
    "memory": "s d",
    "bounded": False,
    "names": {
        "pa-1": {
            "use": "the smallest step that corrects a row; noisy rows",
            "params": {"variant": "pa-1"},
        },
        "pa-2": {"use": "as pa-1, with little noise", "params": {"variant": "pa-2"}},
    },
}


class _KernelPA(ExpansionLearner):
    """Parameters and engine of the regressor and the classifier."""

    variant: str = parameter(StrOptions({"pa-1", "pa-2"}), default="pa-1")
    C: float = parameter(POSITIVE, default=1.0)
    _weighted = True

    def _loss(self) -> Loss:
        raise NotImplementedError

    def _update(self) -> UpdateRule:
        return passive(self._loss(), self.C, squared=self.variant == "pa-2")


class KernelPARegressor(_KernelPA, OnlineRegressor):
    """Passive-Aggressive regression with kernels; several outputs are learned independently.

    Parameters
    ----------
    kernel : name, kernel or function, default "gaussian"
    variant : "pa-1" or "pa-2", default "pa-1"
        Whether the remaining loss has a linear or a quadratic price.
    C : float, default 1.0
        The price of the remaining loss: a larger C makes larger steps. PA-I bounds every
        coefficient by C.
    epsilon : float, default 0.1
        Predictions within epsilon of y have no loss and change nothing.
    budget : int, optional
        Most support vectors per output.
    maintenance : None, "random", "smallest" or "merge", default None
        Budget strategy; merging needs the Gaussian kernel.
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import Gaussian, KernelPARegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (2000, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> learner = KernelPARegressor(Gaussian(0.5), epsilon=0.05)
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}, {learner.size_} points")
    mean squared error 0.0034, 198 points
    """

    epsilon: float = parameter(NOT_NEGATIVE, default=0.1)

    def _loss(self) -> Loss:
        return replace(get_loss("epsilon_insensitive"), parameter=float(self.epsilon))


class KernelPAClassifier(_KernelPA, OnlineClassifier):
    """Passive-Aggressive learning of labels coded +-1; several classes are learned one-vs-rest.

    Parameters are those of `KernelPARegressor`, without ``epsilon``: the loss is the hinge loss.

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import Gaussian, KernelPAClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> learner = KernelPAClassifier(Gaussian(0.3), budget=50, maintenance="merge")
    >>> labels = learner.predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.3f}, {learner.size_} support vectors")
    error 0.033, 50 support vectors
    """

    def _loss(self) -> Loss:
        return get_loss("hinge")
