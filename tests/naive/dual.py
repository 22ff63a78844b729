"""DualSGD and DualSVRG (definition 1.8, 1.9, D1-D13), row by row and by a second route.

A model is (coefficients, weights): f(x) = sum_i coefficients[i] k(x_i, x) + weights'phi~(x),
phi~(x) = [cos(W'x), sin(W'x)]/sqrt(L) for the (d, L) frequencies W. Each function returns
the scores made before each label was used, and the last model: a dict from rows (counted
from 0, in the order of their age) to coefficients, and the weights.

Binary and regression: y is a vector of floats and the slope is l'(f, y) in f, which is
l'(yf) y for a margin loss. Multi-class (Crammer-Singer, D13): labels 0..n_classes-1, scores
(n, n_classes), a coefficient is one number per class, weights (2 L, n_classes).

The functions named `..._explicit` work with plain vectors: x_i is a row of the square root
of the kernel matrix where it counts as itself, of the random features where it was moved.
"""

from typing import NamedTuple

import numpy as np

from . import losses
from .features import root


class Dual(NamedTuple):
    predictions: np.ndarray
    coefficients: dict
    weights: np.ndarray


def random_features(X, W):
    """Rows [cos(x'W), sin(x'W)]/sqrt(L)."""
    XW = np.atleast_2d(X) @ W
    return np.hstack([np.cos(XW), np.sin(XW)]) / np.sqrt(W.shape[1])


def decision(model, X_seen, kernel, W, X):
    """Scores of the last model on new rows X; X_seen is the stream it learned from."""
    scores = random_features(X, W) @ model.weights
    for i, coefficient in model.coefficients.items():
        k = kernel(X_seen[i : i + 1], X)[0]
        scores = scores + np.multiply.outer(k, coefficient)
    return scores


# A gradient function (scores of a row, its label) -> vector over the outputs.


def _single_output(loss):
    loss = losses.get(loss)
    return lambda scores, y: np.array([float(loss.slope(scores[0], y))])


def crammer_singer(loss):
    """l'(a)(e_y - e_z) with a = s_y - s_z, z the best other class, lowest index on ties."""
    loss = losses.get(loss)

    def gradient(scores, y):
        others = [c for c in range(len(scores)) if c != y]
        z = max(others, key=lambda c: scores[c])  # max keeps the first of equals
        slope = loss.slope(scores[y] - scores[z], 1.0)
        g = np.zeros(len(scores))
        g[y] += slope
        g[z] -= slope
        return g

    return gradient


def _squeeze(model):
    """The one output of a binary or regression model."""
    return Dual(
        model.predictions[:, 0],
        {i: float(a[0]) for i, a in model.coefficients.items()},
        model.weights[:, 0],
    )


def _score(coefficients, weights, K, Phi, t):
    s = Phi[t] @ weights
    for i, a in coefficients.items():
        s = s + a * K[i, t]
    return s


# --- DualSGD --------------------------------------------------------------------


def _least(raw, merge):
    """The `merge` rows with the smallest |r_i|, oldest first on ties (D4)."""
    return sorted(raw, key=lambda i: (np.abs(raw[i]).max(), i))[:merge]


def _dual_sgd(X, y, kernel, W, alpha, budget, merge, gradient, outputs):
    """w <- (1 - 1/t) w - g_t/(alpha t), every coefficient shrunk at every row.

    `raw` holds -g_t, which ties where the shrunk coefficients tie up to rounding only.
    """
    K, Phi = kernel(X, X), random_features(X, W)
    coefficients, raw, weights = {}, {}, np.zeros((Phi.shape[1], outputs))
    predictions = np.zeros((len(X), outputs))
    for row in range(len(X)):
        t = row + 1
        predictions[row] = _score(coefficients, weights, K, Phi, row)
        g = gradient(predictions[row], y[row])
        coefficients = {i: (1 - 1 / t) * a for i, a in coefficients.items()}
        weights = (1 - 1 / t) * weights
        if np.any(g != 0):
            coefficients[row] = -g / (alpha * t)
            raw[row] = -g
        if len(raw) > budget:
            for i in _least(raw, merge):
                weights = weights + np.outer(Phi[i], coefficients.pop(i))
                del raw[i]
    return Dual(predictions, coefficients, weights)


def _dual_sgd_explicit(X, y, kernel, W, alpha, budget, merge, gradient, outputs):
    """s = e_t'(sum_i psi_i r_i')/(alpha (t-1)) summed anew at every row.

    e_t = (f_t, phi~_t) is x_t as a test point, psi_i = (f_i, 0) or (0, phi~_i) as a term.
    """
    F, Phi = root(kernel(X, X)), random_features(X, W)
    n = len(X)
    test, moved, r = np.hstack([F, Phi]), np.zeros(n, bool), np.zeros((n, outputs))
    predictions = np.zeros((n, outputs))
    for row in range(n):
        psi = np.hstack([F * ~moved[:, None], Phi * moved[:, None]])
        if row > 0:
            predictions[row] = test[row] @ (psi.T @ r) / (alpha * row)
        r[row] = -gradient(predictions[row], y[row])
        held = {i: r[i] for i in range(row + 1) if np.any(r[i] != 0) and not moved[i]}
        if len(held) > budget:
            moved[_least(held, merge)] = True
    coefficients = {i: r[i] / (alpha * n) for i in range(n) if np.any(r[i] != 0) and not moved[i]}
    return Dual(predictions, coefficients, (Phi * moved[:, None]).T @ r / (alpha * n))


def dual_sgd(X, y, kernel, W, alpha, budget, merge, loss):
    """DualSGD, binary or regression."""
    gradient = _single_output(loss)
    return _squeeze(_dual_sgd(X, y, kernel, W, alpha, budget, merge, gradient, 1))


def dual_sgd_explicit(X, y, kernel, W, alpha, budget, merge, loss):
    gradient = _single_output(loss)
    return _squeeze(_dual_sgd_explicit(X, y, kernel, W, alpha, budget, merge, gradient, 1))


def dual_sgd_multiclass(X, labels, n_classes, kernel, W, alpha, budget, merge, loss):
    """DualSGD on the margin s_y - max_{c != y} s_c; |r_i| is |l'(a_i)|."""
    gradient = crammer_singer(loss)
    return _dual_sgd(X, labels, kernel, W, alpha, budget, merge, gradient, n_classes)


def dual_sgd_multiclass_explicit(X, labels, n_classes, kernel, W, alpha, budget, merge, loss):
    gradient = crammer_singer(loss)
    return _dual_sgd_explicit(X, labels, kernel, W, alpha, budget, merge, gradient, n_classes)


# --- DualSVRG -------------------------------------------------------------------


def moved_rows(X, oracle, budget=None, radius=None):
    """Z_t of every row: True where the row lives in the random features. Needs no label."""
    moved, core = [], []
    for x in X:
        if oracle == "always-move":
            moved.append(True)
        elif oracle == "budget":
            moved.append(len(core) >= budget)
        else:
            moved.append(any(np.linalg.norm(x - c) <= radius for c in core))
        if not moved[-1]:
            core.append(x)
    return np.array(moved, bool)


def _dual_svrg(X, y, kernel, W, alpha, eta, moved, memory, period, gradient, outputs):
    """1.9 with dicts. Every row of the memory gets its gradient at u anew at every step."""
    K, Phi = kernel(X, X), random_features(X, W)

    def zero():
        return {}, np.zeros((Phi.shape[1], outputs))

    (w, w_weights), (u, u_weights), (total, total_weights) = zero(), zero(), zero()
    predictions = np.zeros((len(X), outputs))
    for row in range(len(X)):
        t = row + 1
        s = predictions[row] = _score(w, w_weights, K, Phi, row)
        remembered = range(max(0, t - memory), t)  # includes the current row (D9)
        v = {
            i: gradient(_score(u, u_weights, K, Phi, i), y[i]) / len(remembered) for i in remembered
        }
        at_w, at_u = gradient(s, y[row]), gradient(_score(u, u_weights, K, Phi, row), y[row])
        v[row] = v[row] + (at_w - at_u)
        for i in remembered:
            if moved[i]:
                w_weights = w_weights - eta * np.outer(Phi[i], v[i])
            else:
                w[i] = w.get(i, np.zeros(outputs)) - eta * v[i]
        w = {i: a / (1 + eta * alpha) for i, a in w.items()}
        w_weights = w_weights / (1 + eta * alpha)
        for i, a in w.items():
            total[i] = total.get(i, np.zeros(outputs)) + a
        total_weights = total_weights + w_weights
        if t % period == 0:
            u, u_weights = {i: a / period for i, a in total.items()}, total_weights / period
            w, w_weights = dict(u), u_weights.copy()
            total, total_weights = zero()
    return Dual(predictions, w, w_weights)


def _dual_svrg_explicit(X, y, kernel, W, alpha, eta, moved, memory, period, gradient, outputs):
    """w_t = (w_{t-1} - eta v_t)/(1 + eta alpha) in R^{n + 2L}, u the mean of the kept iterates."""
    F, Phi = root(kernel(X, X)), random_features(X, W)
    n = len(X)
    test = np.hstack([F, Phi])
    psi = np.hstack([F * ~moved[:, None], Phi * moved[:, None]])
    w, u = np.zeros((test.shape[1], outputs)), np.zeros((test.shape[1], outputs))
    iterates, predictions = [], np.zeros((n, outputs))
    for row in range(n):
        predictions[row] = test[row] @ w
        remembered = np.arange(n)[: row + 1][-memory:]
        full = np.mean([np.outer(psi[i], gradient(test[i] @ u, y[i])) for i in remembered], axis=0)
        at_w = np.outer(psi[row], gradient(test[row] @ w, y[row]))
        at_u = np.outer(psi[row], gradient(test[row] @ u, y[row]))
        w = (w - eta * (at_w - at_u + full)) / (1 + eta * alpha)
        iterates.append(w)
        if (row + 1) % period == 0:
            u = np.mean(iterates[-period:], axis=0)
            w = u
    return predictions, test @ w


def dual_svrg(X, y, kernel, W, alpha, eta, oracle, budget, radius, memory, period, loss):
    """DualSVRG, binary or regression; budget or radius is None where the oracle has none."""
    moved, gradient = moved_rows(X, oracle, budget, radius), _single_output(loss)
    return _squeeze(_dual_svrg(X, y, kernel, W, alpha, eta, moved, memory, period, gradient, 1))


def dual_svrg_explicit(X, y, kernel, W, alpha, eta, oracle, budget, radius, memory, period, loss):
    """(predictions, scores of the last model on the rows of X)."""
    moved, gradient = moved_rows(X, oracle, budget, radius), _single_output(loss)
    predictions, last = _dual_svrg_explicit(
        X, y, kernel, W, alpha, eta, moved, memory, period, gradient, 1
    )
    return predictions[:, 0], last[:, 0]


def dual_svrg_multiclass(
    X, labels, n_classes, kernel, W, alpha, eta, oracle, budget, radius, memory, period, loss
):
    """DualSVRG on the margin s_y - max_{c != y} s_c."""
    moved, gradient = moved_rows(X, oracle, budget, radius), crammer_singer(loss)
    return _dual_svrg(X, labels, kernel, W, alpha, eta, moved, memory, period, gradient, n_classes)


def dual_svrg_multiclass_explicit(
    X, labels, n_classes, kernel, W, alpha, eta, oracle, budget, radius, memory, period, loss
):
    """(predictions, scores of the last model on the rows of X)."""
    moved, gradient = moved_rows(X, oracle, budget, radius), crammer_singer(loss)
    return _dual_svrg_explicit(
        X, labels, kernel, W, alpha, eta, moved, memory, period, gradient, n_classes
    )
