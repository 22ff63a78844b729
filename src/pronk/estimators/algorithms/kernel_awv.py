"""Kernel-AWV: the Azoury-Warmuth-Vovk forecaster in the whole RKHS, and kernel ridge.

At each row the regularised least-squares problem already contains the new input, with the target
y = 0. This shrinks the prediction where the input is new, which gives logarithmic regret without a
known bound on y. ``anticipate=False`` is the kernel ridge forecaster.

    c = (K_t + alpha I)^-1 (y_1, .., y_{t-1}, 0)      prediction k_t'c        (anticipate)
    c = (K_{t-1} + alpha I)^-1 y_{<t}                  prediction k_t'c        (ridge)

Cost at row t: O(t^2) time and memory; all rows are stored. The bounded form is PKAWV.

Reference: Jezequel, Gaillard, Rudi, "Efficient online learning with kernels for adversarial large
scale problems", NeurIPS 2019, Eq. 3 (PKAWV with the full space).
"""

from __future__ import annotations

from pronk.core.kernels import get_kernel
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import (
    ForgettingLearner,
    PosteriorRegressor,
    discount_of,
    half_life_seconds,
)
from pronk.newton.discounted import DiscountedSpan
from pronk.newton.exact import ExactSpan

ENTRY = {
    "place": 20,
    "classes": ["KernelAWVRegressor", "KernelAWVClassifier"],
    "bounds": ["kernel_awv_bound"],
    "time": "t^2 + t d",
    "memory": "t^2 + t d",
    "bounded": False,
    "names": {
        "kernel-awv": {
            "use": "small streams, with a regret bound",
            "paper": "Jezequel, Gaillard, Rudi 2019 (PKAWV)",
        },
        "kernel-ridge": {
            "use": "small streams; the classical baseline",
            "paper": "Zhdanov, Kalnishkan 2010; Jezequel, Gaillard, Rudi 2019 (PKAWV)",
            "params": {"anticipate": False},
        },
    },
}


class _KernelAWV(ForgettingLearner):
    """Parameters and engine of the regressor and the classifier."""

    @property
    def _theorem(self) -> str | None:
        return "kernel-awv" if self.anticipate and discount_of(self) == 1.0 else None

    def _why_not_merged(self) -> str | None:
        return "it stores all its rows; pass the rows of one learner to partial_fit of the other"

    def _make_model(self, columns: int, outputs: int) -> ExactSpan:
        kernel, discount = get_kernel(self.kernel), discount_of(self)
        if discount == 1.0:
            return ExactSpan(kernel, self.alpha, self.anticipate, columns, outputs)
        return DiscountedSpan(
            kernel, self.alpha, self.anticipate, columns, outputs, discount,
            half_life_seconds(self),
        )  # fmt: skip


class KernelAWVRegressor(_KernelAWV, PosteriorRegressor):
    """Kernel-AWV or kernel ridge regression, exact.

    Parameters
    ----------
    kernel : name, kernel or function, default "gaussian"
    alpha : float, default 1.0
        Regularisation: alpha |f|^2 is added to the sum of squares.
    anticipate : bool, default True
        The AWV forecaster; False is the kernel ridge forecaster.
    discount, half_life : float, default 1.0, None
        How fast older rows lose weight, as in `PKAWVRegressor`. With either, a row takes O(t^3)
        time, which is spread over several rows beyond 128 points.
    random_state : ignored, as the algorithm is deterministic

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import KernelAWVRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (500, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> predictions = KernelAWVRegressor(alpha=0.1).predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}")
    mean squared error 0.0137

    The standard deviation of y, as of a Gaussian process, among the rows and far from them:

    >>> noisy = y + 0.3 * np.random.default_rng(1).normal(size=500)
    >>> learner = KernelAWVRegressor(alpha=0.1).fit(X, noisy)
    >>> learner.predict([[0.5], [9.0]], return_std=True)[1].round(2)
    array([0.28, 0.91])
    """


class KernelAWVClassifier(_KernelAWV, OnlineClassifier):
    """Kernel-AWV or kernel ridge on labels coded +-1; one factor serves all classes.

    Parameters are those of `KernelAWVRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import KernelAWVClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (500, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> labels = KernelAWVClassifier().predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.3f}")
    error 0.084
    """
