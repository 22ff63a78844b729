"""AIOLI: online logistic regression whose regret does not grow exponentially with the norm.

The online Newton step on the logistic loss needs a curvature that holds for all margins, which is
exponentially small in their size. AIOLI uses the curvature of the loss at the prediction, divided
by 1 + BR, and anticipates the row as the AWV forecaster does: before the label is known, the
minimiser contains the losses of both labels. With s(f) = 1 / (1 + exp(-f)), g_t the gradient of row
t's loss at its prediction, and features phi of the PKAWV kinds (Taylor, Fourier, Nystrom),

    v = A^-1 b;   predict the root f of f + (phi_t'A^-1 phi_t) tanh(f/2) = phi_t'v
    A <- A + c phi_t phi_t',  c = s(f) s(-f) / (1 + BR);   b <- b + c f phi_t - g_t

from A = 2 alpha I and b = 0. s(f) is the predicted probability. Several classes are learned one
against the rest, each with a matrix of its own on shared features. When the dictionary grows, past
rows stay as their projections on the span of their own times.

Cost per row and output: O(r^2) time and memory, r features.

Reference: Jezequel, Gaillard, Rudi, "Efficient improper learning for online logistic regression",
COLT 2020 (here on kernel features).
"""

from __future__ import annotations

from typing import ClassVar

from pronk.core.kernels import get_kernel
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import SpaceLearner, fixed_embedding, growing_dictionary
from pronk.estimators.inputs import NOT_NEGATIVE, POSITIVE, parameter
from pronk.newton.engine import AIOLI
from pronk.newton.spaces import FixedFeatures, GrowingFeatures, NewtonBank

ENTRY = {
    "place": 35,
    "classes": ["AIOLIClassifier"],
    "paper": "Jezequel, Gaillard, Rudi 2020 (AIOLI)",
    "bounds": ["aioli_bound"],
    "names": {
        "aioli": {
            "use": "probabilities of labels, with a regret bound",
            "time": "r^2 + r d",
            "memory": "r^2 + r d",
            "bounded": False,
        },
    },
}


class AIOLIClassifier(SpaceLearner, OnlineClassifier):
    """AIOLI: logistic regression on kernel features, with probabilities of its own.

    Labels other than -1 and 1 or False and True cost a second matrix A while a third class is
    possible; ``partial_fit(..., classes=)`` avoids it.

    Parameters
    ----------
    kernel : name, kernel or function, default "gaussian"
    alpha : float, default 1.0
        Regularisation, the paper's lambda: alpha |f|^2 is added to the sum of the losses.
    radius : float, default 2.0
        BR, the largest margin |f(x)| of the functions that the regret is measured against. Learning
        is slower and steadier with a larger one; 0 is the plain Hessian, without a guarantee.
    features : "nystrom", "taylor" or "fourier", default "nystrom"
        The space: a dictionary sampled from the stream, Taylor features (Gaussian kernel), or
        random Fourier features (Gaussian, Laplacian, Matern).
    degree, n_features : int, default 2, 100
        Degree of the Taylor features; number of random frequencies.
    gamma, epsilon, beta, dictionary, budget : as in `PKAWVRegressor`
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import AIOLIClassifier, Gaussian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = np.where(rng.random(2000) < 1 / (1 + np.exp(-8 * X[:, 0] * X[:, 1])), 1, -1)
    >>> learner = AIOLIClassifier(Gaussian(0.7), alpha=0.1, random_state=1)
    >>> margins = learner.predict_then_learn(X, y, output="decision")
    >>> print(f"log loss {np.mean(np.logaddexp(0, -y * margins)):.3f}, {learner.size_} points")
    log loss 0.435, 101 points
    """

    #: The loss is always this one, so the classifier has probabilities.
    loss: ClassVar[str] = "logistic"
    _linear_in_targets: ClassVar[bool] = False

    alpha: float = parameter(POSITIVE, default=1.0)
    radius: float = parameter(NOT_NEGATIVE, default=2.0)
    _weighted = True
    _covered_by = "aioli"

    def _make_model(self, columns: int, outputs: int) -> FixedFeatures | GrowingFeatures:
        kernel, rule = get_kernel(self.kernel), AIOLI(float(self.radius))
        dictionary = growing_dictionary(self, kernel, columns)
        if dictionary is not None:
            bank = NewtonBank(rule, 2.0 * self.alpha, 0, outputs)
            return GrowingFeatures(kernel, dictionary, bank, "carry", lag=0)
        embedding = fixed_embedding(self, kernel, columns)
        return FixedFeatures(embedding, NewtonBank(rule, 2.0 * self.alpha, embedding.size, outputs))
