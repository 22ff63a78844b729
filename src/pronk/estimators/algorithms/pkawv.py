"""PKAWV: the AWV forecaster in a small space of functions, and PKRR, ridge in the same space.

The forecaster works not in the whole RKHS but in the span of r features: Taylor features of the
Gaussian kernel, random Fourier features, or a Nystrom dictionary that KORS or another rule samples
from the stream. With A = alpha I + sum phi phi' and b = sum y phi,

    A <- A + phi_t phi_t';   predict phi_t' A^-1 b;   b <- b + y_t phi_t

(ridge adds phi_t phi_t' after predicting). When the dictionary grows, ``history="projected"`` keeps
each past row as its projection on the span at the time of the row, in bounded memory;
``history="exact"`` solves again with all past rows in the new span, as in the paper.

With a ``discount`` below 1, or a ``half_life``, older rows count less: at row t row s counts
discount^(t-1-s) in A and b, while alpha I does not fade. This is the discounted AWV forecaster of
Jacobsen and Cutkosky, in which alpha fades too, so that A becomes singular where no rows come. The
certificate is then that of the discounted losses; the regret against a sequence of functions that
change over time follows from it (`pronk.regret.discounted_awv_bound`). The best discount for a
stream is not chosen: the default learner has experts with several.

Cost per row: O(r^2) time and memory; with "exact" also O(t r) at each growth and O(t r) memory;
with a discount O(r^3) time, which is spread over several rows beyond 128 features.

Reference: Jezequel, Gaillard, Rudi, "Efficient online learning with kernels for adversarial large
scale problems", NeurIPS 2019, Eq. 4 and 8, Algorithms 1 and 2. Discount: Jacobsen, Cutkosky,
"Online linear regression in dynamic environments via discounting", ICML 2024.
"""

from __future__ import annotations

from pronk.core.kernels import get_kernel
from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import (
    ForgettingLearner,
    PosteriorRegressor,
    SpaceLearner,
    discount_of,
    fixed_embedding,
    growing_dictionary,
    half_life_seconds,
    rule_of,
)
from pronk.estimators.inputs import StrOptions, parameter
from pronk.newton.discounted import DiscountedForecaster
from pronk.newton.engine import Newton, Squared
from pronk.newton.spaces import FixedFeatures, GrowingFeatures, Growth

ENTRY = {
    "place": 30,
    "classes": ["PKAWVRegressor", "PKAWVClassifier"],
    "paper": "Jezequel, Gaillard, Rudi 2019 (PKAWV)",
    "bounds": ["pkawv_bound", "pkawv_taylor_bound", "pkawv_kors_bound", "discounted_awv_bound"],
    "names": {
        "pkawv-taylor": {
            "use": "few columns, with a regret bound",
            "time": "r^2, r = C(M+d, d)",
            "memory": "r^2",
            "bounded": True,
            "params": {"features": "taylor"},
        },
        "pkawv-nystrom": {
            "use": "any kernel, with a regret bound; all rows in memory",
            "time": "j^2 + j d (t j at growth)",
            "memory": "j^2 + t (j + d)",
            "bounded": False,
            "params": {"features": "nystrom", "history": "exact"},
        },
        "pkrr-taylor": {
            "use": "ridge, to compare with pkawv-taylor",
            "time": "r^2, r = C(M+d, d)",
            "memory": "r^2",
            "bounded": True,
            "params": {"features": "taylor", "anticipate": False},
        },
        "pkrr-nystrom": {
            "use": "ridge, to compare with pkawv-nystrom",
            "time": "j^2 + j d (t j at growth)",
            "memory": "j^2 + t (j + d)",
            "bounded": False,
            "params": {"features": "nystrom", "history": "exact", "anticipate": False},
        },
    },
}


class _PKAWV(SpaceLearner, ForgettingLearner):
    """Parameters and engine of the regressor and the classifier."""

    history: str = parameter(StrOptions({"projected", "exact"}), default="projected")

    @property
    def _theorem(self) -> str | None:
        passes = getattr(self.__dict__.get("_model"), "passes", 1)
        plain = self.anticipate and discount_of(self) == 1.0 and passes == 1
        return "pkawv" if plain else None

    def _why_not_merged(self) -> str | None:
        if rule_of(self) is not None:
            return (
                "its dictionary is sampled from its own rows; give all learners the same points, "
                "dictionary=points, or use features='taylor' or 'fourier'"
            )
        if discount_of(self) != 1.0:
            return "its rows count less with age, and the other learner's rows have no age in it"
        if self._measures_bandwidth:
            return "its bandwidth is measured from its own first rows; give a number"
        return None

    def _make_model(self, columns: int, outputs: int) -> FixedFeatures | GrowingFeatures:
        kernel = get_kernel(self.kernel)
        dictionary = growing_dictionary(self, kernel, columns)
        if dictionary is not None:
            growth: Growth = "exact" if self.history == "exact" else "carry"
            if growth == "exact" and discount_of(self) != 1.0:
                raise ValueError(
                    "discount needs history='projected': exact history keeps all rows with the "
                    "same weight and learns them again when the dictionary grows"
                )
            return GrowingFeatures(kernel, dictionary, self._learner(0, outputs), growth, lag=0)
        embedding = fixed_embedding(self, kernel, columns)
        return FixedFeatures(embedding, self._learner(embedding.size, outputs))

    def _learner(self, size: int, outputs: int) -> Newton:
        """Return the engine in R^size."""
        discount = discount_of(self)
        if discount == 1.0:
            return Newton(Squared(self.anticipate), self.alpha, size, outputs)
        return DiscountedForecaster(
            self.anticipate, self.alpha, size, outputs, discount, half_life_seconds(self)
        )


class PKAWVRegressor(_PKAWV, PosteriorRegressor):
    """PKAWV or PKRR regression in bounded time and memory per row.

    Parameters
    ----------
    kernel : name, kernel or function, default "gaussian"
    alpha : float, default 1.0
        Regularisation: alpha |f|^2 is added to the sum of squares.
    anticipate : bool, default True
        The AWV forecaster (PKAWV); False is the ridge forecaster (PKRR).
    features : "nystrom", "taylor" or "fourier", default "nystrom"
        The space: a dictionary sampled from the stream, Taylor features (Gaussian kernel), or
        random Fourier features (Gaussian, Laplacian, Matern).
    degree : int, default 2
        Degree of the Taylor features; C(degree + d, d) of them.
    n_features : int, default 100
        Random frequencies; each gives a cosine and a sine feature.
    gamma, epsilon, beta : float, default 1.0, 0.5, 1.0
        KORS: regularisation of the leverage scores, accuracy, oversampling. A smaller gamma makes a
        larger dictionary.
    dictionary : "kors", "ald", "first", "uniform", a rule or array (points, columns), optional
        Which rows become points: by leverage score with gamma, epsilon and beta (KORS, the
        default), by approximate linear dependence, the first ``budget`` rows, or one row in ten; a
        `pronk.core.dictionary.Rule` sets the parameters of a rule. An array gives fixed points. The
        paper's bounds are for KORS and for fixed points.
    budget : int, optional
        Most points, at which the dictionary stops growing.
    history : "projected" or "exact", default "projected"
        Past rows when the dictionary grows: projections on the old span, in bounded memory, or
        recomputed from all past inputs, as in the paper.
    discount : float in (0, 1], default 1.0
        At row t, row s < t counts discount^(t-1-s), and the row that is predicted 1 in the AWV
        forecaster; the regulariser alpha does not fade. For streams that drift. Not with exact
        history. Beyond 128 features the regulariser is put back every few rows, in between it
        fades by at most a tenth, or for eight rows.
    half_life : float or str, optional
        Rows after which a row counts half: another way to give discount = 0.5^(1 / half_life). Or a
        time such as "90s", "15min", "1h", "7d" or "2w": then every call that learns needs
        ``times``, in seconds or datetimes (see `docs/howto/time.md`).
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import Gaussian, PKAWVRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, (5000, 1))
    >>> y = np.sin(2 * X[:, 0])
    >>> learner = PKAWVRegressor(Gaussian(0.5), alpha=0.1, random_state=1)
    >>> predictions = learner.predict_then_learn(X, y)
    >>> print(f"mean squared error {np.mean((predictions - y) ** 2):.4f}, {learner.size_} points")
    mean squared error 0.0022, 124 points
    """


class PKAWVClassifier(_PKAWV, OnlineClassifier):
    """PKAWV or PKRR on labels coded +-1; one matrix A serves all classes.

    Parameters are those of `PKAWVRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import PKAWVClassifier
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> learner = PKAWVClassifier(features="taylor", degree=3)
    >>> labels = learner.predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.3f}")
    error 0.042
    """
