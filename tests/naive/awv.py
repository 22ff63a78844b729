"""Vovk-Azoury-Warmuth and ridge forecasters from their argmin (definition 1.7).

`anticipate=True` is AWV: row t enters the argmin with target 0 before its
prediction. False is the ridge forecaster. Y is (n,) or (n, k); the returned
predictions have its shape. Row t's prediction uses labels of rows before t.
"""

from itertools import pairwise

import numpy as np

from .features import projector, root


def _columns(Y):
    Y = np.asarray(Y, float)
    return Y.reshape(len(Y), -1), Y.shape


def kernel_awv(X, Y, kernel, alpha, anticipate):
    """AWV: c = (K_t + alpha I)^-1 (y_1..y_{t-1}, 0), yhat = k_t'c. Ridge: over rows < t."""
    Y, shape = _columns(Y)
    K = kernel(X, X)
    predictions = np.zeros_like(Y)
    for t in range(len(Y)):
        n = t + 1 if anticipate else t
        targets = np.vstack([Y[:t], np.zeros((1, Y.shape[1]))])[:n]
        c = np.linalg.solve(K[:n, :n] + alpha * np.eye(n), targets)
        predictions[t] = K[t, :n] @ c
    return predictions.reshape(shape)


def feature_awv(Phi, Y, alpha, anticipate):
    """yhat = v_t'A^-1 b with

    A = alpha I + sum_{s<t} v_s v_s' (+ v_t v_t' for AWV), b = sum_{s<t} y_s v_s.
    """
    Y, shape = _columns(Y)
    predictions = [_feature_awv_row(Phi, Y, t, alpha, anticipate) for t in range(len(Y))]
    return np.array(predictions).reshape(shape)


def _feature_awv_row(Phi, Y, t, alpha, anticipate):
    seen = Phi[: t + 1] if anticipate else Phi[:t]
    A = alpha * np.eye(Phi.shape[1]) + seen.T @ seen
    return Phi[t] @ np.linalg.solve(A, Phi[:t].T @ Y[:t])


def discounted_awv(Phi, Y, alpha, anticipate, discount, faded=None):
    """Q3: yhat = v_t'A^-1 b with row s < t counting discount^(t-1-s), and row t 1 (AWV).

    A = alpha I + sum_s discount^(t-1-s) v_s v_s' (+ v_t v_t'), b = sum_s discount^(t-1-s) y_s v_s.
    ``faded`` has the share of alpha at each row where it is not 1. With discounts (n,) row s counts
    the product of those of rows s + 1, .., t - 1.
    """
    Y, shape = _columns(Y)
    discount = np.broadcast_to(discount, len(Y))
    faded = np.ones(len(Y)) if faded is None else faded
    predictions = np.zeros_like(Y)
    for t in range(len(Y)):
        w = np.array([np.prod(discount[s + 1 : t]) for s in range(t)]).reshape(t, 1)
        A = faded[t] * alpha * np.eye(Phi.shape[1]) + Phi[:t].T @ (w * Phi[:t])
        if anticipate:
            A = A + np.outer(Phi[t], Phi[t])
        predictions[t] = Phi[t] @ np.linalg.solve(A, Phi[:t].T @ (w * Y[:t]))
    return predictions.reshape(shape)


def time_discounts(times, half_life, longest=0.95):
    """Discounts of rows by their times: 2^-(gap / half_life), a gap of at most 0.95 half-lives."""
    gaps = [0.0, *(b - a for a, b in pairwise(times))]
    return np.array([2.0 ** -min(gap / half_life, longest) for gap in gaps])


def discounted_best(Phi, y, alpha, discount):
    """(V_T, w): the least sum_t discount^(T-t) (y_t - w'v_t)^2 + alpha |w|^2, and its w."""
    root = np.sqrt(discount ** np.arange(len(y) - 1, -1, -1.0))
    rows = np.vstack([root[:, None] * Phi, np.sqrt(alpha) * np.eye(Phi.shape[1])])
    targets = np.concatenate([root * y, np.zeros(Phi.shape[1])])
    w = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return np.sum((rows @ w - targets) ** 2), w


def _nystrom_prediction(K_I, K_II, k_t, Y_past, alpha, anticipate):
    """k_t'a, a = argmin |Y - K_I a|^2 + alpha a'K_II a, as one least-squares problem."""
    size, outputs = len(K_II), Y_past.shape[1]
    if size == 0:
        return np.zeros(outputs)
    values, vectors = np.linalg.eigh(K_II)
    half = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    rows = [K_I, np.sqrt(alpha) * half] + ([k_t[None, :]] if anticipate else [])
    rows = np.vstack(rows)
    targets = np.zeros((len(rows), outputs))
    targets[: len(K_I)] = Y_past
    a = np.linalg.lstsq(rows, targets, rcond=None)[0]
    return k_t @ a


def nystrom_awv_exact(X, Y, kernel, alpha, anticipate, accepted):
    """At row t the argmin over the span of I_t = {s <= t accepted}, all past rows recomputed."""
    Y, shape = _columns(Y)
    K = kernel(X, X)
    predictions = np.zeros_like(Y)
    for t in range(len(Y)):
        I = np.flatnonzero(accepted[: t + 1])
        predictions[t] = _nystrom_prediction(
            K[:t][:, I], K[np.ix_(I, I)], K[t, I], Y[:t], alpha, anticipate
        )
    return predictions.reshape(shape)


def nystrom_awv_exact_by_projection(X, Y, kernel, alpha, anticipate, accepted):
    """The same in coordinates of the span of all points: row s <= t enters as P_{I_t} phi_s."""
    Y, shape = _columns(Y)
    F = root(kernel(X, X))
    predictions = np.zeros_like(Y)
    for t in range(len(Y)):
        rows = F[: t + 1] @ projector(F[np.flatnonzero(accepted[: t + 1])])
        predictions[t] = _feature_awv_row(rows, Y, t, alpha, anticipate)
    return predictions.reshape(shape)


def nystrom_awv_projected(X, Y, kernel, alpha, anticipate, accepted):
    """Row s enters as P_{I_s} phi_s, its projection at its own time; x_s itself may be in I_s."""
    F = root(kernel(X, X))
    rows = np.zeros_like(F)
    for t in range(len(F)):
        rows[t] = projector(F[np.flatnonzero(accepted[: t + 1])]) @ F[t]
    return feature_awv(rows, Y, alpha, anticipate)


def nystrom_awv_fixed(X, Y, kernel, alpha, anticipate, points):
    """The argmin over the span of `points`, given beforehand."""
    Y, shape = _columns(Y)
    K_I, K_II = kernel(X, points), kernel(points, points)
    predictions = np.zeros_like(Y)
    for t in range(len(Y)):
        predictions[t] = _nystrom_prediction(K_I[:t], K_II, K_I[t], Y[:t], alpha, anticipate)
    return predictions.reshape(shape)


def merged_awv(parts, phi, alpha, anticipate):
    """The prediction at phi (r,) after learners of disjoint rows were merged (Q4).

    ``parts`` are pairs (Phi, y); A = sum A_i - (len(parts) - 1) alpha I, b = sum b_i, where each
    learner has A_i = alpha I + Phi'Phi and b_i = Phi'y. AWV adds phi phi' to A.
    """
    identity = alpha * np.eye(len(phi))
    A = sum(identity + Phi.T @ Phi for Phi, _ in parts) - (len(parts) - 1) * identity
    b = sum(Phi.T @ y for Phi, y in parts)
    if anticipate:
        A = A + np.outer(phi, phi)
    return phi @ np.linalg.solve(A, b)
