"""PROS-N-KONS, B-KONS, CON-KONS (1.5, 1.6 in pronk's reading) and NONS-ALD (Q2), by two routes.

Arguments as in `ons`; `uniforms` are KORS's, one per row. Row t feeds KORS
before its label is seen, and the embedding takes in an accepted row one row
later (P1, P2). Both functions return (predictions, rows KORS accepted).
"""

import numpy as np

from .features import nystrom_map, projector, root
from .kors import kors, kors_eq6
from .ons import clip_levels, ons, project, slope_and_eta


def pros_n_kons(
    X,
    y,
    kernel,
    alpha,
    gamma,
    epsilon,
    beta,
    uniforms,
    loss,
    eta,
    clip,
    restart=True,
    budget=None,
):
    """1.5 in R^r, phi = E k_J(x), E from eigh of K_JJ; restart=False carries w and A over (1.6).

    Carried over: M = E_new K_{new,old} E_old', v = M(w - A^-1 g), A <- M A M' + alpha (I - M M').
    """
    accepted, _, _ = kors(X, kernel, gamma, epsilon, beta, uniforms, budget)
    before, after = clip_levels(y, clip, loss)
    J, E = np.zeros(0, int), np.zeros((0, 0))
    A, w, g = np.zeros((0, 0)), np.zeros(0), np.zeros(0)
    predictions = np.zeros(len(y))
    for t in range(len(y)):
        v = w - np.linalg.solve(A, g)
        reset = t > 0 and accepted[t - 1]
        if reset:
            J_old, E_old = J, E
            J = np.flatnonzero(accepted[:t])
            E = nystrom_map(kernel(X[J], X[J]))
            r = len(E)
            if restart or len(J_old) == 0:
                A, v = alpha * np.eye(r), np.zeros(r)
            else:
                M = E @ kernel(X[J], X[J_old]) @ E_old.T
                A, v = M @ A @ M.T + alpha * (np.eye(r) - M @ M.T), M @ v
        phi = E @ kernel(X[J], X[t : t + 1])[:, 0] if len(J) else np.zeros(0)
        w, predictions[t] = project(v, phi, A, before[t])
        slope, eta_t = slope_and_eta(loss, eta, t + 1, predictions[t], y[t], after[t])
        g = slope * phi
        A = A + eta_t * np.outer(g, g)
    return predictions, accepted


def pros_n_kons_explicit(
    X,
    y,
    kernel,
    alpha,
    gamma,
    epsilon,
    beta,
    uniforms,
    loss,
    eta,
    clip,
    restart=True,
    budget=None,
):
    """ONS in the span of all points on P_j phi_t, P_j the projector on the dictionary's span.

    A restart sets A = alpha I and w = g = 0; CON-KONS (restart=False) sets nothing at all (P9).
    """
    accepted, _, _ = kors_eq6(X, kernel, gamma, epsilon, beta, uniforms, budget)
    before, after = clip_levels(y, clip, loss)
    F = root(kernel(X, X))
    n = len(y)
    P, A, w, g = np.zeros((n, n)), alpha * np.eye(n), np.zeros(n), np.zeros(n)
    predictions = np.zeros(n)
    for t in range(n):
        if t > 0 and accepted[t - 1]:
            P = projector(F[np.flatnonzero(accepted[:t])])
            if restart:
                A, w, g = alpha * np.eye(n), np.zeros(n), np.zeros(n)
        phi = P @ F[t]
        w, predictions[t] = project(w - np.linalg.solve(A, g), phi, A, before[t])
        slope, eta_t = slope_and_eta(loss, eta, t + 1, predictions[t], y[t], after[t])
        g = slope * phi
        A = A + eta_t * np.outer(g, g)
    return predictions, accepted


def ald(X, kernel, nu):
    """Rows that enter: k(x, x) - k_I(x)'K_II^-1 k_I(x) > nu over the rows I that entered before."""
    accepted = np.zeros(len(X), bool)
    for t in range(len(X)):
        I = np.flatnonzero(accepted[:t])
        k = kernel(X[I], X[t : t + 1])[:, 0]
        distance = kernel(X[t : t + 1], X[t : t + 1])[0, 0]
        if len(I):
            distance -= k @ np.linalg.solve(kernel(X[I], X[I]), k)
        accepted[t] = distance > nu
    return accepted


def unit_eta(t, C):
    """eta = 1 / (4 C^2 + 4)."""
    return 1 / (4 * C**2 + 4)


def nons_ald(X, y, kernel, alpha, nu, clip, eta=unit_eta):
    """Q2 in the coordinates L^-1 k_I(x), L L' = K_II: (predictions, rows that entered).

    A row that enters appends alpha to A and 0 to w before its own prediction; then w is moved in
    the norm of A until |phi'w| <= clip; g = 2 (f - y) phi, A += eta g g', w -= A^-1 g.
    """
    accepted = ald(X, kernel, nu)
    before, after = clip_levels(y, clip, "squared")
    A, w, predictions = np.zeros((0, 0)), np.zeros(0), np.zeros(len(y))
    for t in range(len(y)):
        I = np.flatnonzero(accepted[: t + 1])
        if accepted[t]:
            A = np.pad(A, (0, 1))
            A[-1, -1], w = alpha, np.append(w, 0.0)
        L = np.linalg.cholesky(kernel(X[I], X[I]))
        phi = np.linalg.solve(L, kernel(X[I], X[t : t + 1])[:, 0])
        w, predictions[t] = project(w, phi, A, before[t])
        slope, eta_t = slope_and_eta("squared", eta, t + 1, predictions[t], y[t], after[t])
        g = slope * phi
        A = A + eta_t * np.outer(g, g)
        w = w - np.linalg.solve(A, g)
    return predictions, accepted


def nons_ald_explicit(X, y, kernel, alpha, nu, clip, eta=unit_eta):
    """The online Newton step in the whole span on P_t phi_t; P_t knows row t if it enters."""
    accepted = ald(X, kernel, nu)
    F = root(kernel(X, X))
    rows = np.zeros_like(F)
    for t in range(len(F)):
        rows[t] = projector(F[np.flatnonzero(accepted[: t + 1])]) @ F[t]
    return ons(rows, y, alpha, "squared", eta, clip), accepted
