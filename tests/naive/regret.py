"""Regret identities of Kernel-AWV and the log det chain (definition B4; Lemma 3 of KONS)."""

import numpy as np
from scipy.optimize import minimize

from . import losses
from .awv import kernel_awv
from .features import root
from .leverage import effective_dimension, online_effective_dimension


def novelties(K, alpha):
    """q_t = (k_tt - k'(K_{t-1} + alpha I)^-1 k)/alpha for every t (1.7)."""
    q = np.zeros(len(K))
    for t in range(len(K)):
        k = K[:t, t]
        q[t] = (K[t, t] - k @ np.linalg.solve(K[:t, :t] + alpha * np.eye(t), k)) / alpha
    return q


def best_regularised_loss(K, y, alpha):
    """min_f sum (y - f(x))^2 + alpha |f|^2, by lstsq in the space of the root of K."""
    F = root(K)
    rows = np.vstack([F, np.sqrt(alpha) * np.eye(len(K))])
    targets = np.append(y, np.zeros(len(K)))
    f = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return np.sum((targets - rows @ f) ** 2)


def best_within_clip(K, y, loss, alpha, clip):
    """min_f sum l(f(x), y) + alpha |f|^2 with |f(x)| <= clip on all rows, by SLSQP.

    Returns the predictions and |f|^2, in the span of the largest directions.
    """
    loss, F = losses.get(loss), root(K)
    F = F[:, np.linalg.norm(F, axis=0) > 1e-5]

    def value(w):
        z = F @ w
        return sum(loss.value(a, b) for a, b in zip(z, y, strict=True)) + alpha * w @ w

    def gradient(w):
        slopes = [loss.slope(a, b) for a, b in zip(F @ w, y, strict=True)]
        return F.T @ np.array(slopes) + 2 * alpha * w

    inside = {
        "type": "ineq",
        "fun": lambda w: np.concatenate((clip - F @ w, clip + F @ w)),
        "jac": lambda w: np.vstack((-F, F)),
    }
    w = minimize(value, np.zeros(F.shape[1]), jac=gradient, constraints=inside, method="SLSQP").x
    return np.clip(F @ w, -clip, clip), w @ w


def regret_supremum(X, y, kernel, alpha, predictions=None):
    """sup_f [R(f) - alpha|f|^2] = sum (y - yhat)^2 - alpha y'(K + alpha I)^-1 y (B4).

    The predictions are Kernel-AWV's unless given.
    """
    if predictions is None:
        predictions = kernel_awv(X, y, kernel, alpha, True)
    K = kernel(X, X)
    best = alpha * y @ np.linalg.solve(K + alpha * np.eye(len(y)), y)
    return np.sum((y - predictions) ** 2) - best


def regret_supremum_closed_form(X, y, kernel, alpha):
    """The same for Kernel-AWV: sum y_t^2 q_t/(1+q_t) - sum yhat_t^2 q_t (B4)."""
    predictions = kernel_awv(X, y, kernel, alpha, True)
    q = novelties(kernel(X, X), alpha)
    return np.sum(y**2 * q / (1 + q)) - np.sum(predictions**2 * q)


def log_det(K, alpha):
    """log det(K/alpha + I)."""
    return np.linalg.slogdet(K / alpha + np.eye(len(K)))[1]


def log_det_chain(K, alpha):
    """(d_onl, log det(K/alpha + I), d_eff (1 + log(|K|/alpha + 1))), increasing (Lemma 3)."""
    upper = effective_dimension(K, alpha) * (1 + np.log(np.linalg.norm(K, 2) / alpha + 1))
    return online_effective_dimension(K, alpha), log_det(K, alpha), upper
