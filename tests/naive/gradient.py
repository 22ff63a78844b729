"""FOGD and NOGD (definition 1.10, X5, X6): gradient descent in an embedding.

Predictions are those made before each label was used.
"""

import numpy as np

from . import losses
from .dual import random_features
from .features import CUTOFF, root


def fogd(X, y, W, eta, loss):
    """w <- w - eta l'(w'z, y) z, z = [cos(W'x), sin(W'x)]/sqrt(L). Returns (predictions, w)."""
    loss = losses.get(loss)
    Z = random_features(X, W)
    w, predictions = np.zeros(Z.shape[1]), np.zeros(len(Z))
    for t, z in enumerate(Z):
        predictions[t] = w @ z
        w = w - eta * loss.slope(predictions[t], y[t]) * z
    return predictions, w


def _largest_eigenpairs(K, rank):
    """(values, vectors) of the `rank` largest eigenvalues above CUTOFF * largest (K4)."""
    values, vectors = np.linalg.eigh(K)
    values, vectors = values[::-1][:rank], vectors[:, ::-1][:, :rank]
    kept = values > CUTOFF * values[0]
    return values[kept], vectors[:, kept]


def nogd(X, y, kernel, budget, rank, eta, loss):
    """Kernel OGD until |S| = budget, then OGD on z(x) = D^-1/2 V'k_S(x) from w = D^1/2 V'a.

    Returns (predictions, rows of S, coefficients c with f = sum_i c_i k(x_i, .)): c = a
    before the change of space, V D^-1/2 w after it.
    """
    loss = losses.get(loss)
    S, a = [], []
    embedding = None  # D^-1/2 V' after the change
    predictions = np.zeros(len(X))
    for t in range(len(X)):
        k = kernel(X[S], X[t : t + 1])[:, 0] if S else np.zeros(0)
        if embedding is None:
            predictions[t] = np.dot(a, k)
            slope = loss.slope(predictions[t], y[t])
            if slope != 0:
                S.append(t)
                a.append(-eta * slope)
            if len(S) == budget:
                values, V = _largest_eigenpairs(kernel(X[S], X[S]), rank)
                embedding = V.T / np.sqrt(values)[:, None]
                w = np.sqrt(values) * (V.T @ a)
        else:
            z = embedding @ k
            predictions[t] = w @ z
            w = w - eta * loss.slope(predictions[t], y[t]) * z
    return predictions, S, np.array(a) if embedding is None else embedding.T @ w


def nogd_explicit(X, y, kernel, budget, rank, eta, loss):
    """Rows f_t of the root of the kernel matrix; after the change projected on the `rank`
    leading right singular vectors of the rows of S. Returns (predictions, w)."""
    loss = losses.get(loss)
    F = root(kernel(X, X))
    P, S = np.eye(len(F)), []
    w, predictions = np.zeros(len(F)), np.zeros(len(F))
    for t in range(len(F)):
        phi = P @ F[t]
        predictions[t] = w @ phi
        slope = loss.slope(predictions[t], y[t])
        w = w - eta * slope * phi
        if slope != 0 and len(S) < budget:
            S.append(t)
            if len(S) == budget:
                _, singular, directions = np.linalg.svd(F[S], full_matrices=False)
                kept = directions[:rank][singular[:rank] ** 2 > CUTOFF * singular[0] ** 2]
                P = kept.T @ kept
                w = P @ w
    return predictions, w
