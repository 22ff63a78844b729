"""Second-order learners of weighted rows, each from its weighted problem, solved anew at every row.

A row of weight 0 is predicted as a row of weight 1 would be, and then forgotten.
"""

import numpy as np

from . import losses


def weighted_fit(Phi, y, weights, alpha):
    """argmin_w sum_s weight_s (w'phi_s - y_s)^2 + alpha |w|^2."""
    A = alpha * np.eye(Phi.shape[1]) + Phi.T @ (weights[:, None] * Phi)
    return np.linalg.solve(A, Phi.T @ (weights * y))


def ridge(spaces, y, weights, alpha, anticipate):
    """The ridge forecaster, or AWV, which adds weight_t f(x_t)^2 to the problem before it predicts.

    spaces[t] has the features of the rows 0 .. t in the space of row t.
    """
    predictions = []
    for t, Phi in enumerate(spaces):
        now = weights[: t + 1].copy()
        now[t] = (1.0 if weights[t] == 0 else weights[t]) if anticipate else 0.0
        targets = np.append(y[:t], 0.0)  # of no consequence where its weight is 0
        predictions.append(Phi[t] @ weighted_fit(Phi, targets, now, alpha))
    return np.array(predictions)


def online_newton(Phi, y, weights, alpha, loss, eta, clip):
    """Online Newton on the losses weight_t l_t: g = weight slope phi, A += (eta/weight) g g'.

    v is moved by A_{t-1} until |phi'v| <= clip; the new A makes the step.
    """
    loss = losses.get(loss)
    A, v, predictions = alpha * np.eye(Phi.shape[1]), np.zeros(Phi.shape[1]), []
    for phi, target, weight in zip(Phi, y, weights, strict=True):
        f = phi @ v
        p = np.clip(f, -clip, clip)
        predictions.append(p)
        if weight == 0:
            continue
        if f != p:
            direction = np.linalg.solve(A, phi)
            v = v - (f - p) / (phi @ direction) * direction
        g = weight * float(loss.slope(p, target)) * phi
        A = A + eta / weight * np.outer(g, g)
        v = v - np.linalg.solve(A, g)
    return np.array(predictions)


def gradient(Phi, y, weights, eta, loss):
    """w -= eta weight slope phi."""
    loss, w, predictions = losses.get(loss), np.zeros(Phi.shape[1]), []
    for phi, target, weight in zip(Phi, y, weights, strict=True):
        predictions.append(w @ phi)
        w = w - eta * weight * float(loss.slope(predictions[-1], target)) * phi
    return np.array(predictions)


def krls(X, y, weights, kernel, nu):
    """Least squares with weights over the rows a = K^-1 k of a growing dictionary."""
    points, rows, predictions = [], [], []
    for t in range(len(X)):
        K, k = kernel(X[points], X[points]), kernel(X[points], X[t : t + 1])[:, 0]
        a = np.linalg.solve(K, k)
        A = np.array([np.append(row, np.zeros(len(points) - len(row))) for row, _ in rows])
        past = np.array([s for _, s in rows], int)
        theta = np.zeros(len(points))
        if len(points):
            W = weights[past][:, None]
            theta = np.linalg.solve(A.T @ (W * A), A.T @ (W[:, 0] * y[past]))
        predictions.append(a @ theta)
        if weights[t] == 0:
            continue
        if kernel(X[t : t + 1], X[t : t + 1])[0, 0] - k @ a > max(nu, 1e-10):
            points.append(t)
            a = np.eye(len(points))[-1]
        rows.append((a, t))
    return np.array(predictions)
