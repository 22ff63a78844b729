"""Kernel expansions f(x) = sum_i a_i k(x_i, x) under a budget, and KRLS (definition 1.10).

Each function returns an Expansion: the scores made before each label was used and the
points and coefficients held at the end, oldest first. Every coefficient is shrunk at every
row. `uniforms` has one number per row; row t drops point number floor(u_t |S|), the
oldest being 0, the new point not counted. A mistake is y f(x) <= 0 (X1).
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from . import losses
from .features import CUTOFF, nystrom_map


class Expansion(NamedTuple):
    predictions: np.ndarray
    points: np.ndarray
    coefficients: np.ndarray


@dataclass
class Term:
    x: np.ndarray
    a: float
    raw: float = 0.0  # un-shrunk coefficient alpha t a of Pegasos


def _row(kernel, S, x):
    """(k(x_i, x))_i over the points held."""
    return kernel(np.array([term.x for term in S]), x[None])[:, 0] if S else np.zeros(0)


def _f(kernel, S, x):
    return float(sum(term.a * k for term, k in zip(S, _row(kernel, S, x), strict=True)))


def _self(kernel, x):
    return float(kernel(x[None], x[None])[0, 0])


def _result(predictions, S, X):
    points = np.array([term.x for term in S]).reshape(len(S), X.shape[1])
    return Expansion(np.array(predictions), points, np.array([term.a for term in S], float))


def decision(model, kernel, X):
    """f on new rows."""
    return kernel(X, model.points) @ model.coefficients if len(model.points) else np.zeros(len(X))


# --- Perceptrons ----------------------------------------------------------------


def perceptron(X, y, kernel):
    """On a mistake f += y k(x, .)."""
    S, predictions = [], []
    for x, label in zip(X, y, strict=True):
        predictions.append(_f(kernel, S, x))
        if label * predictions[-1] <= 0:
            S.append(Term(x, label))
    return _result(predictions, S, X)


def rbp(X, y, kernel, budget, uniforms):
    """Perceptron; with |S| = B a mistake first removes old point number floor(u_t B)."""
    S, predictions = [], []
    for x, label, u in zip(X, y, uniforms, strict=True):
        predictions.append(_f(kernel, S, x))
        if label * predictions[-1] <= 0:
            if len(S) == budget:
                del S[int(np.floor(u * budget))]
            S.append(Term(x, label))
    return _result(predictions, S, X)


def forgetron_damage(s, m, c):
    """Psi(c) = (s c)^2 + 2 s c - 2 (s c)(c m)."""
    return (s * c) ** 2 + 2 * s * c - 2 * (s * c) * (c * m)


def forgetron_shrink(s, m, room):
    """max{c in (0, 1]: Psi(c) <= room}, room > 0, from Psi(c) = (s^2 - 2 s m) c^2 + 2 s c.

    Psi(0) = 0 < room, so if c = 1 does not fit, Psi crosses room once in (0, 1), and that
    is room = 2 s c + A c^2 at c = 2 room/(2 s + sqrt(4 s^2 + 4 A room)) for every sign of A.
    """
    A = s**2 - 2 * s * m
    if A + 2 * s <= room:
        return 1.0
    return 2 * room / (2 * s + np.sqrt(4 * s**2 + 4 * A * room))


def forgetron_shrink_by_bisection(s, m, room):
    if forgetron_damage(s, m, 1.0) <= room:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(200):
        middle = (low + high) / 2
        if forgetron_damage(s, m, middle) <= room:
            low = middle
        else:
            high = middle
    return low


def forgetron(X, y, kernel, budget, shrink=forgetron_shrink):
    """The self-tuned Forgetron; k(x, x) <= 1."""
    S, predictions = [], []
    Q, mistakes = 0.0, 0
    for x, label in zip(X, y, strict=True):
        predictions.append(_f(kernel, S, x))
        if label * predictions[-1] > 0:
            continue
        mistakes += 1
        S.append(Term(x, label))
        if len(S) > budget:
            oldest = S[0]
            s, m = abs(oldest.a), np.sign(oldest.a) * _f(kernel, S, oldest.x)
            c = shrink(s, m, 15 / 32 * mistakes - Q)
            Q += forgetron_damage(s, m, c)
            for term in S:
                term.a *= c
            del S[0]
    return _result(predictions, S, X)


def _projection(kernel, S, x):
    """(d, |P k(x,.)|^2, |delta|) of k(x, .) on the span of S; d = K^+ k.

    A residual of at most CUTOFF k(x, x) is rounding and counts as 0: a copy of a point held
    has |delta| = 0 and is projected even for eta = 0.
    """
    k_tt = _self(kernel, x)
    if not S:
        return np.zeros(0), 0.0, np.sqrt(k_tt)
    points = np.array([term.x for term in S])
    E = nystrom_map(kernel(points, points))
    z = E @ _row(kernel, S, x)
    residual = k_tt - z @ z
    return E.T @ z, z @ z, np.sqrt(residual) if residual > CUTOFF * k_tt else 0.0


def _projectron(X, y, kernel, eta, budget, aggressive):
    S, predictions = [], []
    for x, label in zip(X, y, strict=True):
        predictions.append(_f(kernel, S, x))
        margin = label * predictions[-1]
        if margin >= 1 or (margin > 0 and not aggressive):
            continue
        d, P, delta = _projection(kernel, S, x)
        if margin <= 0 and delta > eta and len(S) != budget:
            S.append(Term(x, label))
            continue
        step = 1.0
        if margin > 0:
            loss = 1 - margin
            price = delta / eta if delta > 0 and eta > 0 else (np.inf if delta > 0 else 0.0)
            if loss < price:
                continue
            step = min(loss / P, 2 * (loss - price) / P, 1.0)
        for term, d_i in zip(S, d, strict=True):
            term.a += label * step * d_i
    return _result(predictions, S, X)


def projectron(X, y, kernel, eta, budget=None):
    """On a mistake a += y K^+ k_t if |delta| <= eta or |S| = B, else add (x, y)."""
    return _projectron(X, y, kernel, eta, budget, False)


def projectron_plus_plus(X, y, kernel, eta, budget=None):
    """Projectron, and for 0 < y f < 1 a step along the projection (X3, the JMLR rule)."""
    return _projectron(X, y, kernel, eta, budget, True)


# --- Gradient descent -------------------------------------------------------------


def merge_point(k, m):
    """h = argmax m k^((1-h)^2) + (1-m) k^(h^2) for a share m <= 1/2, by bisection.

    The objective at h is at least that at 1-h for h <= 1/2, so the argmax is sought in
    [0, 1/2]; at m = 1/2 and k < e^-2 there are two, h and 1-h, and this takes the one nearer
    x_j. There the derivative has the sign of

        log(m/(1-m)) + log((1-h)/h) + (1 - 2h) log k,

    which changes once, from + to -.
    """
    if k == 0:
        return 0.0
    low, high = 0.0, 0.5
    for _ in range(200):
        h = (low + high) / 2
        if h in (low, high):
            break
        if np.log(m / (1 - m)) + np.log((1 - h) / h) + (1 - 2 * h) * np.log(k) > 0:
            low = h
        else:
            high = h
    return high


def merged(a_i, a_j, k):
    """(h, a_z, loss) of merging a_i k(x_i,.) + a_j k(x_j,.) in h x_i + (1-h) x_j; |a_i| <= |a_j|.

    The loss is |a_i k_i + a_j k_j - a_z k_z|^2 for the a_z that makes it least.
    """
    h = merge_point(k, a_i / (a_i + a_j))
    a_z = a_i * k ** ((1 - h) ** 2) + a_j * k ** (h**2)
    return h, a_z, a_i**2 + a_j**2 + 2 * a_i * a_j * k - a_z**2


def _maintain(S, kernel, maintenance, size):
    """One step of "smallest" or "merge"; size(term) is the coefficient that is compared.

    A merged point takes the place (and the age) of the partner j.
    """
    i = min(S, key=lambda term: size(term) ** 2 * _self(kernel, term.x))  # min: first of equals
    partners = [j for j in S if j is not i and np.sign(j.a) == np.sign(i.a)]
    if maintenance == "merge" and partners:
        trials = []
        for j in partners:
            k = float(kernel(i.x[None], j.x[None])[0, 0])
            h, _, loss = merged(size(i), size(j), k)
            trials.append((loss, h, k, j))
        _, h, k, j = min(trials, key=lambda trial: trial[0])
        j.x = h * i.x + (1 - h) * j.x
        j.a = i.a * k ** ((1 - h) ** 2) + j.a * k ** (h**2)
        j.raw = i.raw * k ** ((1 - h) ** 2) + j.raw * k ** (h**2)
    S[:] = [term for term in S if term is not i]


def ogd(X, y, kernel, eta, alpha, loss, budget=None, maintenance=None, uniforms=None, weights=None):
    """f <- (1 - eta alpha) f - eta l'(f(x), y) k(x, .); eta="pegasos" is 1/(alpha t).

    Over the budget: "random" removes before the addition and multiplies what is left by
    B/(B-1) (BOGD); "smallest" and "merge" act after it (BSGD). Sizes are compared un-shrunk
    under Pegasos, where raw = alpha t a = -l' ties exactly, and as they are otherwise. A weight
    multiplies the step; a row of weight 0 does not count as a row.
    """
    loss = losses.get(loss)
    pegasos = eta == "pegasos"
    S, predictions = [], []
    weights = np.ones(len(X)) if weights is None else weights
    t = 0
    for x, target, weight in zip(X, y, weights, strict=True):
        predictions.append(_f(kernel, S, x))
        if weight == 0:
            continue
        t += 1
        slope = weight * float(loss.slope(predictions[-1], target))
        step, shrink = (1 / (alpha * t), 1 - 1 / t) if pegasos else (eta, 1 - eta * alpha)
        if slope != 0 and maintenance == "random" and len(S) == budget:
            del S[int(np.floor(uniforms[t - 1] * budget))]
            if budget > 1:
                shrink *= budget / (budget - 1)
        for term in S:
            term.a *= shrink
        if slope != 0:
            S.append(Term(x, -step * slope, -slope))
        if maintenance in ("smallest", "merge") and len(S) > budget:
            _maintain(S, kernel, maintenance, lambda term: term.raw if pegasos else term.a)
    return _result(predictions, S, X)


def bogd(X, y, kernel, eta, alpha, budget, uniforms, bound=None):
    """BOGD (hinge), as its three cases; `bound` on max |a_i| acts after a removal (X4)."""
    S, predictions = [], []
    for x, label, u in zip(X, y, uniforms, strict=True):
        predictions.append(_f(kernel, S, x))
        if label * predictions[-1] >= 1:
            for term in S:
                term.a *= 1 - eta * alpha
        elif len(S) < budget:
            for term in S:
                term.a *= 1 - eta * alpha
            S.append(Term(x, eta * label))
        else:
            del S[int(np.floor(u * budget))]
            for term in S:
                term.a *= (1 - eta * alpha) * budget / (budget - 1)
            S.append(Term(x, eta * label))
            largest = max(abs(term.a) for term in S)
            if bound is not None and largest > bound:
                for term in S:
                    term.a *= bound / largest
    return _result(predictions, S, X)


def bsgd(X, y, kernel, alpha, budget, maintenance, loss="hinge"):
    """Pegasos as f_t = sum_i raw_i k(x_i, .)/(alpha (t-1)); maintenance "removal" or "merging".

    Nothing is ever shrunk: another route to ogd(eta="pegasos", maintenance="smallest"|"merge").
    """
    loss = losses.get(loss)
    rule = {"removal": "smallest", "merging": "merge"}[maintenance]
    S, predictions = [], []
    for t, (x, label) in enumerate(zip(X, y, strict=True), start=1):
        predictions.append(_f(kernel, S, x) / (alpha * (t - 1)) if S else 0.0)
        slope = float(loss.slope(predictions[-1], label))
        if slope != 0:
            S.append(Term(x, -slope))
        if len(S) > budget:
            _maintain(S, kernel, rule, lambda term: term.a)
    for term in S:
        term.a /= alpha * len(X)
    return _result(predictions, S, X)


# --- Passive-Aggressive -----------------------------------------------------------


def passive_step(loss, norm, cost, squared):
    """argmin over tau >= 0 of tau^2 k/2 + C max(0, l - tau k), or C max(0, l - tau k)^2.

    g = f + tau s k(x, .) is the general form of the argmin, as any other part of g only adds to its
    distance. The slope in tau changes its sign once; bisection finds where.
    """
    low, high = 0.0, max(loss / norm, 1e-300)
    for _ in range(200):
        tau = (low + high) / 2
        left = max(0.0, loss - tau * norm)
        pull = 2 * cost * norm * left if squared else cost * norm * (left > 0)
        if tau * norm < pull:
            low = tau
        else:
            high = tau
    return high


def passive_aggressive(
    X, y, kernel, C, squared, epsilon=None, budget=None, maintenance=None, uniforms=None,
    weights=None,
):  # fmt: skip
    """PA-I, or PA-II with ``squared``; labels (hinge), or numbers where epsilon is given.

    A row of weight w has the cost w C. "random" drops before the addition, the rest after it.
    """
    S, predictions = [], []
    weights = np.ones(len(X)) if weights is None else weights
    t = -1
    for x, target, weight in zip(X, y, weights, strict=True):
        f = _f(kernel, S, x)
        predictions.append(f)
        if weight == 0:  # the row does not count
            continue
        t += 1
        loss = 1 - target * f if epsilon is None else abs(f - target) - epsilon
        if loss <= 0:
            continue
        sign = target if epsilon is None else np.sign(target - f)
        tau = passive_step(loss, _self(kernel, x), C * weight, squared)
        if maintenance == "random" and len(S) == budget:
            del S[int(np.floor(uniforms[t] * budget))]
        S.append(Term(x, sign * tau))
        if maintenance in ("smallest", "merge") and len(S) > budget:
            _maintain(S, kernel, maintenance, lambda term: term.a)
    return _result(predictions, S, X)


# --- KRLS ---------------------------------------------------------------------


def krls(X, y, kernel, nu, budget=np.inf):
    """Engel's KRLS-ALD: w = argmin |A K w - y|^2, by least squares at every row.

    Row t of A is a unit row if delta = k_tt - k_t'K^-1 k_t > nu (x_t joins), else K^-1 k_t.
    No row joins ``budget`` others.
    """
    S, rows, w, predictions = [], [], np.zeros(0), []
    for t in range(len(X)):
        k = kernel(X[S], X[t : t + 1])[:, 0] if S else np.zeros(0)
        predictions.append(w @ k)
        d = np.linalg.solve(kernel(X[S], X[S]), k) if S else np.zeros(0)
        if len(S) < budget and _self(kernel, X[t]) - k @ d > nu:
            d = np.append(np.zeros(len(S)), 1.0)
            S.append(t)
        rows.append(d)
        A = np.zeros((len(rows), len(S)))
        for i, row in enumerate(rows):
            A[i, : len(row)] = row
        if S:
            fitted = np.linalg.lstsq(A, y[: t + 1], rcond=None)[0]  # K w
            w = np.linalg.solve(kernel(X[S], X[S]), fitted)
    return Expansion(np.array(predictions), X[S], w)


def krls_recursive(X, y, kernel, nu, budget=np.inf):
    """The recursions of Engel, Mannor and Meir (2004), P = (A'A)^-1."""
    S, w, P, predictions = [], np.zeros(0), np.zeros((0, 0)), []
    for t in range(len(X)):
        k = kernel(X[S], X[t : t + 1])[:, 0] if S else np.zeros(0)
        predictions.append(w @ k)
        error = y[t] - predictions[-1]
        K_inverse = np.linalg.inv(kernel(X[S], X[S])) if S else np.zeros((0, 0))
        d = K_inverse @ k
        delta = _self(kernel, X[t]) - k @ d
        if delta > nu and len(S) < budget:
            S.append(t)
            w = np.append(w - d * error / delta, error / delta)
            P = np.block([[P, np.zeros((len(P), 1))], [np.zeros((1, len(P))), np.ones((1, 1))]])
        else:
            q = P @ d / (1 + d @ P @ d)
            P = P - np.outer(q, d @ P)
            w = w + K_inverse @ q * error
    return Expansion(np.array(predictions), X[S], w)
