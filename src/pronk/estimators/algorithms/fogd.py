"""FOGD: online gradient descent on random Fourier features.

The kernel function is replaced by a linear function of L random cosine and sine pairs, whose inner
products approximate the kernel; learning is then plain gradient descent, at a cost that does not
grow with the stream:

    z(x) = [cos(x'W), sin(x'W)] / sqrt(L);   predict f = w'z;   w <- w - eta l'(f, y) z

|z(x)| = 1, so ``eta`` has the scale of the loss: 1/2 makes a squared loss exact at the row just
learned. The published pseudo-code does not divide by sqrt(L); its step eta is eta L here.

Cost per row: O(L d) time (L sines and cosines), O(L d) memory; each further class adds O(L).

Reference: Lu, Hoi, Wang, Zhao, Liu, "Large scale online kernel learning", JMLR 17, 2016,
Algorithm 2. Orthogonal frequencies: Yu, Suresh, Choromanski, Holtmann-Rice, Kumar, "Orthogonal
random features", NeurIPS 2016.
"""

from __future__ import annotations

from pronk.core.features import Fourier
from pronk.core.kernels import get_kernel
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import FirstOrder
from pronk.estimators.inputs import COUNT, POSITIVE, parameter
from pronk.estimators.regressor import OnlineRegressor
from pronk.first_order.gradient import Gradient

ENTRY = {
    "place": 90,
    "classes": ["FOGDRegressor", "FOGDClassifier"],
    "paper": "Lu, Hoi, Wang, Zhao, Liu 2016 (FOGD, NOGD)",
    "guarantee": """\
In the space of its random features, where |z(x)| = 1, any convex loss, every w:

    R(w) <= |w|^2/(2 eta) + (eta/2) sum_t l'_t^2,

of the order of sqrt(T) for a step of the order of 1/sqrt(T). Inner products of features differ from
the kernel by O(1/sqrt(L)), with high probability on a bounded region.""",
    "names": {
        "fogd": {
            "use": "long streams; fast, on random features",
            "time": "L d",
            "memory": "L d",
            "bounded": True,
        },
    },
}


class _FOGD(FirstOrder):
    """Parameters and engine of the regressor and the classifier."""

    n_features: int = parameter(COUNT, default=200)
    eta: float = parameter(POSITIVE, default=0.1)
    orthogonal: bool = parameter("boolean", default=False)
    _weighted = True

    def _make_model(self, columns: int, outputs: int) -> Gradient:
        embedding = Fourier(
            get_kernel(self.kernel), columns, self.n_features, self._seed,
            orthogonal=self.orthogonal,
        )  # fmt: skip
        return Gradient(embedding, self._get_loss(), float(self.eta), outputs)

    def _steps_are_safe(self) -> bool:
        return self.eta <= 1.0  # 2 eta |z|^2 <= 2: no step increases the distance to the label


class FOGDRegressor(_FOGD, OnlineRegressor):
    """Online gradient descent on random Fourier features; several outputs share the features.

    Parameters
    ----------
    kernel : name or kernel, default "gaussian"
        Gaussian, Laplacian or Matern.
    n_features : int, default 200
        Random frequencies; each gives a cosine and a sine feature.
    eta : float, default 0.1
        Step size, constant. With the squared loss it must stay below 1.
    loss : "squared", "absolute", "epsilon_insensitive" or "huber", default "squared"
        epsilon is 0.1, and the Huber loss is linear beyond 1.
    orthogonal : bool, default False
        Frequencies orthogonal in blocks, which approximate the kernel better (Gaussian, Matern).
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import FOGDRegressor, Gaussian
    >>> X = np.random.default_rng(0).uniform(-3, 3, (5000, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> learner = FOGDRegressor(Gaussian(0.5), random_state=0)
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}")
    mean squared error 0.0028
    """


class FOGDClassifier(_FOGD, OnlineClassifier):
    """FOGD on labels coded +-1; three or more classes are learned one-vs-rest.

    Parameters
    ----------
    kernel, n_features, orthogonal, random_state : as in `FOGDRegressor`
    eta : float, default 0.5
        Step size, constant.
    loss : "hinge", "logistic", "squared_hinge", "smooth_hinge" or "squared", default "hinge"

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import FOGDClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> labels = FOGDClassifier(random_state=0).predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.3f}")
    error 0.083
    """

    eta: float = 0.5
    loss: str = "hinge"
