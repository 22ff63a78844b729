"""The kernel Perceptron, and its forms that stay within a budget.

The Perceptron learns from mistakes only: where y f(x) <= 0 the row becomes a support vector,

    f += y k(x, .)                                                                   (Perceptron)

and f grows with every mistake. Strategies for at most B support vectors:

    random    at |S| = B first drop a support vector at random                       (RBP)
    forget    shrink f so that dropping the oldest changes little, and drop it       (Forgetron)
    project   if x is near the span, |delta| <= eta, or the budget is full, add the projection of
              y k(x, .) on the span instead of x                                     (Projectron)

``aggressive`` also learns from correct rows of margin below 1, within the span (Projectron++).

Cost per row with s support vectors in d columns: O(s d) time, O(s d) memory; the Projectron O(s^2)
more on a mistake, and O(s^2) memory; the Forgetron O(s^2) memory.

References: Cavallanti, Cesa-Bianchi, Gentile, "Tracking the best hyperplane with a simple budget
Perceptron", Machine Learning 69, 2007. Dekel, Shalev-Shwartz, Singer, "The Forgetron: a
kernel-based Perceptron on a budget", SIAM J. Computing 37(5), 2008, the self-tuned form. Orabona,
Keshet, Caputo, "Bounded kernel-based online learning", JMLR 10, 2009: the Projectron's threshold is
on |delta|, not on its square, and the margin step of Projectron++ is the minimum of three terms.
"""

from __future__ import annotations

from typing import Any

from pronk.estimators.classifier import OnlineClassifier
from pronk.estimators.families import ExpansionLearner
from pronk.estimators.inputs import NOT_NEGATIVE, StrOptions, parameter
from pronk.first_order.support import UpdateRule, mistakes

ENTRY = {
    "place": 110,
    "classes": ["KernelPerceptron"],
    "guarantee": """\
The Perceptron, without a budget, k(x, x) <= 1: where some f of the RKHS separates the rows with a
margin, y_t f(x_t) >= 1 for all t, it makes at most |f|^2 mistakes. With a budget there are bounds
against f of small enough norm (see the references).""",
    "bounded": True,
    "names": {
        "perceptron": {
            "use": "labels; the simplest baseline",
            "paper": "Rosenblatt 1958; Freund, Schapire 1999 (Perceptron)",
            "time": "s d",
            "memory": "s d",
            "bounded": False,
        },
        "rbp": {
            "use": "labels; a budget, by random removal",
            "paper": "Cavallanti, Cesa-Bianchi, Gentile 2007 (RBP)",
            "time": "B d",
            "memory": "B d",
            "params": {"budget": 100, "maintenance": "random"},
        },
        "forgetron": {
            "use": "labels; a budget, with a mistake bound",
            "paper": "Dekel, Shalev-Shwartz, Singer 2008 (Forgetron)",
            "time": "B d",
            "memory": "B d + B^2",
            "params": {"budget": 100, "maintenance": "forget"},
        },
        "projectron": {
            "use": "labels; few support vectors by projection",
            "paper": "Orabona, Keshet, Caputo 2009 (Projectron)",
            "time": "s d (+ s^2 at a mistake)",
            "memory": "s d + s^2, s finite for eta > 0",
            "params": {"maintenance": "project"},
        },
        "projectron++": {
            "use": "as projectron, usually more accurate, slower",
            "paper": "Orabona, Keshet, Caputo 2009 (Projectron)",
            "time": "s d (+ s^2 below margin 1)",
            "memory": "s d + s^2, s finite for eta > 0",
            "params": {"maintenance": "project", "aggressive": True},
        },
    },
}


class KernelPerceptron(ExpansionLearner, OnlineClassifier):
    """The kernel Perceptron: RBP, Forgetron, Projectron and Projectron++ by ``maintenance``.

    Three or more classes are learned one-vs-rest, each with its own budget.

    Parameters
    ----------
    kernel : name, kernel or function, default "gaussian"
        The Forgetron's guarantee needs k(x, x) <= 1.
    budget : int, optional
        Most support vectors; needed by "random" and "forget", optional for "project".
    maintenance : None, "random", "forget" or "project", default None
        Budget strategy: none (Perceptron), RBP, Forgetron, Projectron.
    eta : float, default 0.1
        The Projectron's threshold on the distance |delta| to the span of the support vectors.
    aggressive : bool, default False
        Projectron++: learn from margin errors as well. Needs ``maintenance="project"``.
    random_state : int, Generator or None

    Examples
    --------
    >>> import numpy as np
    >>> from pronk import Gaussian, KernelPerceptron
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "different")
    >>> learner = KernelPerceptron(Gaussian(0.3), maintenance="project", budget=50)
    >>> labels = learner.predict_then_learn(X, y)
    >>> print(f"error {np.mean(labels != y):.3f}, {learner.size_} support vectors")
    error 0.049, 36 support vectors
    """

    maintenance: Any = parameter(StrOptions({"random", "forget", "project"}), None, default=None)
    eta: float = parameter(NOT_NEGATIVE, default=0.1)
    aggressive: bool = parameter("boolean", default=False)

    def _accepts_weights(self) -> bool:
        # The analyses of the Forgetron and the Projectron assume steps of length 1.
        return self.maintenance in (None, "random")

    def _update(self) -> UpdateRule:
        if self.aggressive and self.maintenance != "project":
            raise ValueError("aggressive=True needs maintenance='project'")
        return mistakes(self.aggressive, self.eta)
