"""KRLS: kernel recursive least squares over a dictionary of nearly independent points.

A row whose feature vector is nearly a linear combination of those of the dictionary (approximate
linear dependence) is learned as that combination; any other row is added to the dictionary. The
weights are the least-squares solution over all rows so far; sparsity replaces a regulariser.

    a = K^-1 k(x);   delta = k(x, x) - k(x)'a;   delta > nu: x is added, its row is a unit vector
    predict k(x)'w, w = argmin |A K w - y|^2 over the rows a of all past

Cost per row with m points: O(m d + m^2) time, O(m d + m^2) memory. For nu > 0 and inputs from a
bounded region m stays finite, but may be large: ``budget`` bounds it. At the budget no more rows
are added, and each row is learned as its projection on the span.

Reference: Engel, Mannor, Meir, "The kernel recursive least-squares algorithm", IEEE Transactions on
Signal Processing 52(8), 2004, Table I. The "KRLS" of the PROS-N-KONS paper is the kernel ridge
forecaster, `KernelAWVRegressor(anticipate=False)` here.
"""

from __future__ import annotations

from pronk.core.kernels import get_kernel
from pronk.estimators.inputs import COUNT, NOT_NEGATIVE, parameter
from pronk.estimators.regressor import OnlineRegressor
from pronk.newton.krls import KRLS

ENTRY = {
    "place": 140,
    "classes": ["KRLSRegressor"],
    "paper": "Engel, Mannor, Meir 2004 (KRLS)",
    "guarantee": """\
No regret bound, because the least squares are not regularised. For nu > 0 and rows of a bounded
region the dictionary stays finite (reference), and every row is within sqrt(nu) of its span.""",
    "names": {
        "krls": {
            "use": "least squares on few points, with little noise",
            "time": "m d + m^2",
            "memory": "m d + m^2, m finite for nu > 0, at most the budget",
            "bounded": True,
        },
    },
}


class KRLSRegressor(OnlineRegressor):
    """Kernel recursive least squares with approximate linear dependence.

    Parameters
    ----------
    kernel : name, kernel or function, default "gaussian"
    nu : float, default 0.1
        A row is added to the dictionary when its squared distance to the span exceeds nu. A smaller
        nu is more accurate and slower. With nu = 0 every linearly independent row is added.
    budget : int, default None
        Most points of the dictionary; None for no limit.
    random_state : ignored, as the algorithm is deterministic

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import Gaussian, KRLSRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (2000, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> learner = KRLSRegressor(Gaussian(0.5), nu=0.01)
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}, {learner.size_} points")
    mean squared error 0.0015, 16 points
    """

    nu: float = parameter(NOT_NEGATIVE, default=0.1)
    budget: int | None = parameter(COUNT, None, default=None)
    _weighted = True

    @property
    def _dictionary_grows(self) -> bool:
        return True

    def _make_model(self, columns: int, outputs: int) -> KRLS:
        return KRLS(get_kernel(self.kernel), float(self.nu), columns, outputs, self.budget)
