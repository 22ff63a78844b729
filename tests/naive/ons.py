"""Online Newton step, KONS and Sketched-KONS (definition 1.2-1.4), the last two by two routes.

Common arguments: `loss` a name or a `losses.Loss`; `eta` a number, "auto"
(sigma/2, or convex where sigma = 0), "convex" (1/(L C sqrt t)) or a callable
(t, C) with t from 1; `clip` a number or "auto".
"""

import numpy as np

from . import losses
from .features import root
from .kors import novelty_score


def clip_levels(y, clip, loss):
    """(C for each row's prediction, C for its eta): "auto" is 1 for margin losses, else max |y|.

    The first uses labels of earlier rows only, the second also the row's own.
    """
    if clip == "auto" and losses.get(loss).margin:
        clip = 1.0
    if clip != "auto":
        return np.full(len(y), float(clip)), np.full(len(y), float(clip))
    largest = np.array([np.max(np.abs(y[:t]), initial=0.0) for t in range(len(y) + 1)])
    return largest[:-1], largest[1:]


def coefficient(eta, loss, t, C):
    """eta_t, the coefficient of g g' in A at row t = 1, 2, ..."""
    loss = losses.get(loss)
    if callable(eta):
        return eta(t, C)
    if eta == "auto":
        eta = loss.sigma(C) / 2 or "convex"
    if eta == "convex":
        eta = 1 / (loss.lipschitz(C) * C * np.sqrt(t))
    return eta


def excess(z, C):
    """h(z) = sign(z) max(|z| - C, 0)."""
    return np.sign(z) * max(abs(z) - C, 0.0)


def clipped(z, C):
    """min(max(z, -C), C), exactly (N5)."""
    return min(max(z, -C), C)


def slope_and_eta(loss, eta, t, prediction, y, C):
    """(l'(yhat_t), eta_t) of row t = 1, 2, ...; both 0 while the clip is 0: nothing is learned."""
    if C == 0:
        return 0.0, 0.0
    return losses.get(loss).slope(prediction, y), coefficient(eta, loss, t, C)


def project(v, phi, A, C):
    """(w, clip(phi'v)): v moved along A^-1 phi until |phi'w| <= C (1.2 step 2)."""
    raw = phi @ v
    h = excess(raw, C)
    if h != 0:
        direction = np.linalg.solve(A, phi)
        v = v - h / (phi @ direction) * direction
    return v, clipped(raw, C)


def ons(Phi, y, alpha, loss, eta, clip):
    """1.2 on feature rows: w = u = w - A^-1 g, projected to |phi'w| <= C; A += eta_t g g'."""
    n, dimension = Phi.shape
    before, after = clip_levels(y, clip, loss)
    A, w, g = alpha * np.eye(dimension), np.zeros(dimension), np.zeros(dimension)
    predictions = np.zeros(n)
    for t, phi in enumerate(Phi):
        w, predictions[t] = project(w - np.linalg.solve(A, g), phi, A, before[t])
        slope, eta_t = slope_and_eta(loss, eta, t + 1, predictions[t], y[t], after[t])
        g = slope * phi
        A = A + eta_t * np.outer(g, g)
    return predictions


def kons_explicit(X, y, kernel, alpha, loss, eta, clip):
    """KONS as ONS in the space of the square root of the full kernel matrix."""
    return ons(root(kernel(X, X)), y, alpha, loss, eta, clip)


def _raw_prediction(K, t, c, d, R, alpha):
    """yb = (k'c - e'D_R K_R. c)/alpha, q = (k_tt - e'D_R k_R)/alpha, e = E^-1 D_R k_R (1.4)."""
    E = (d[R][:, None] * K[np.ix_(R, R)]) * d[R] + alpha * np.eye(len(R))
    left = np.linalg.solve(E, d[R] * K[R, t])
    raw = (K[t, :t] @ c[:t] - left @ (d[R] * (K[R][:, :t] @ c[:t]))) / alpha
    return raw, (K[t, t] - left @ (d[R] * K[R, t])) / alpha


def kons(X, y, kernel, alpha, loss, eta, clip):
    """1.3, kernel only: c_t = eta_t gd^2 yhat - gd - h(yb)/q, d_t = gd sqrt(eta_t). Predictions."""
    n = len(y)
    before, after = clip_levels(y, clip, loss)
    K = kernel(X, X)
    c, d, predictions = np.zeros(n), np.zeros(n), np.zeros(n)
    for t in range(n):
        raw, q = _raw_prediction(K, t, c, d, np.arange(t), alpha)
        h = excess(raw, before[t])
        predictions[t] = clipped(raw, before[t])
        slope, eta_t = slope_and_eta(loss, eta, t + 1, predictions[t], y[t], after[t])
        c[t] = eta_t * slope**2 * predictions[t] - slope - (h / q if h != 0 else 0.0)
        d[t] = slope * np.sqrt(eta_t)
    return predictions


def sketched_kons(X, y, kernel, alpha, floor, epsilon, beta, uniforms, loss, eta, clip):
    """1.4, kernel only, KORS coupled as in S2: (predictions, rows in the sketch, rows in KORS)."""
    n = len(y)
    before, after = clip_levels(y, clip, loss)
    K = kernel(X, X)
    c, d, predictions, p = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    sketched, kept = np.zeros(n, bool), np.zeros(n, bool)
    for t in range(n):
        raw, q = _raw_prediction(K, t, c, d, np.flatnonzero(sketched[:t]), alpha)
        h = excess(raw, before[t])
        predictions[t] = clipped(raw, before[t])
        slope, eta_t = slope_and_eta(loss, eta, t + 1, predictions[t], y[t], after[t])
        d[t] = slope * np.sqrt(eta_t)
        I = np.flatnonzero(kept[:t])
        rescaled = (d[: t + 1, None] * K[: t + 1, : t + 1]) * d[: t + 1]
        tau = novelty_score(
            rescaled[t, t], rescaled[I, t], rescaled[np.ix_(I, I)], p[I], alpha, epsilon
        )
        p[t] = min(max(beta * tau, 0.0), 1.0)
        kept[t] = uniforms[t] < p[t]
        sketched[t] = uniforms[t] < max(p[t], floor)
        c[t] = eta_t * sketched[t] * slope**2 * predictions[t] - slope - (h / q if h != 0 else 0.0)
    return predictions, sketched, kept


def sketched_kons_explicit(X, y, kernel, alpha, floor, epsilon, beta, uniforms, loss, eta, clip):
    """The same as ONS in the space of the root of the full kernel matrix, with A += eta_t z_t g g'.

    tau = (1+eps) f'(B + f f' + alpha I)^-1 f, f = d_t phi_t, B = sum_{i in KORS} f_i f_i'/p_i.
    """
    F = root(kernel(X, X))
    n = len(y)
    before, after = clip_levels(y, clip, loss)
    A, B = alpha * np.eye(n), np.zeros((n, n))
    w, g, predictions = np.zeros(n), np.zeros(n), np.zeros(n)
    sketched, kept = np.zeros(n, bool), np.zeros(n, bool)
    for t, phi in enumerate(F):
        w, predictions[t] = project(w - np.linalg.solve(A, g), phi, A, before[t])
        slope, eta_t = slope_and_eta(loss, eta, t + 1, predictions[t], y[t], after[t])
        g = slope * phi
        f = np.sqrt(eta_t) * g
        tau = (1 + epsilon) * f @ np.linalg.solve(B + np.outer(f, f) + alpha * np.eye(n), f)
        p = min(max(beta * tau, 0.0), 1.0)
        kept[t], sketched[t] = uniforms[t] < p, uniforms[t] < max(p, floor)
        if kept[t]:
            B = B + np.outer(f, f) / p
        if sketched[t]:
            A = A + eta_t * np.outer(g, g)
    return predictions, sketched, kept
