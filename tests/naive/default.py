"""Brute-force twins of the default learner's parts, from their definitions, row by row."""

import numpy as np
from scipy.optimize import brentq, nnls
from scipy.special import softmax


def logistic_step(p, m, lagged, y, counted, keep, H, weights, alpha=0.1, longest=2.0):
    """Return (H, weights) of a logistic stack after a row, weights = (u, c, d)."""
    H = keep * H + (1 - keep) * alpha * np.eye(len(H))
    slope = np.zeros(len(H))
    X = [np.concatenate((p[:, o] - m[o], m[[o]], lagged[:, o])) for o in counted]
    for o, x in zip(counted, X, strict=True):
        miss = 1 / (1 + np.exp(y[o] * (weights @ x)))
        H = H + miss * (1 - miss) * np.outer(x, x) / len(counted)
        slope += y[o] * miss * x / len(counted)
    step = np.linalg.solve(H, slope)
    moved = max(abs(step @ x) for x in X)
    return H, weights + step * min(1.0, longest / moved if moved else 1.0)


def clock_gaps(times, longest=300.0, window=10_000):
    """Return the gaps before rows in units of the mean gap so far, by the definition."""
    gaps, mean = [1.0], 0.0
    for t in range(1, len(times)):
        gap = times[t] - times[t - 1]
        counted = gap if mean == 0 else min(gap, longest * mean)
        n = min(t, window)
        mean = (1 - 1 / n) * mean + counted / n
        gaps.append(min(gap / mean, longest) if gap else 0.0)
    return np.array(gaps)


def mixture(P, Y, limits, windows, signed=False, alpha=1.0, lags=(), gaps=None):
    """Return predictions, the experts' losses, and those of (final, experts) in units of 2 D^2."""
    rows = list(mixture_rows(P, Y, limits, windows, signed, alpha, lags=lags, gaps=gaps))
    losses, ledger = (sum(row[name] for row in rows) for name in ("losses", "ledger"))
    return np.array([row["final"] for row in rows]), losses, ledger


def clipped_by_size(y, centre, size, reach, step, beyond=0.005):
    """Return centre + clip(y - centre, -reach size, reach size), and the new size; of one row."""
    offset, limit = np.abs(y - centre), np.where(size > 0, reach * size, np.inf)
    moved = size * np.exp(step * ((offset > size) - beyond))
    return centre + np.clip(y - centre, -limit, limit), np.where(size > 0, moved, offset)


def clipped_around(y, p, size, rows):
    """Return the targets of a row clipped around p, and the new size; not in the first 32 rows."""
    if rows <= 32:
        return y, np.maximum(size, np.abs(y - p))
    return clipped_by_size(y, p, size, reach=1.5, step=0.5)


def mixture_rows(P, Y, limits, windows, signed=False, alpha=1.0, keeps=(), lags=(), gaps=None):
    """Yield what each row meets, by name.

    ``keeps`` are pairs of a row and the experts that are kept from there on, ``lags`` the lags of
    errors that the stacks read, ``gaps`` those before the rows, 1 if not given. P (n, experts,
    outputs) has all experts at every row; dropped ones are not read.
    """
    n, experts, outputs = P.shape
    keeps, active = dict(keeps), np.arange(experts)
    low, high = limits[0].copy(), limits[1].copy()
    w, v = np.full(experts, 1 / experts), np.full(1 + len(windows), 1 / (1 + len(windows)))
    error_lags, errors = len(lags), []
    A = [alpha * np.eye(experts + error_lags) for _ in windows]
    b = [np.zeros(experts + error_lags) for _ in windows]
    H = [0.1 * np.eye(experts + 1 + error_lags) for _ in windows]
    logits = [np.concatenate((np.zeros(experts), [3.0], np.zeros(error_lags))) for _ in windows]
    worst, squares, sizes = np.zeros((3, outputs))
    for t in range(n):
        losses, ledger = np.zeros(experts), np.zeros(1 + experts)
        if t in keeps:
            at = np.flatnonzero(np.isin(active, keeps[t]))
            active, w = active[at], w[at] / w[at].sum()
            terms = np.append(at, experts + np.arange(error_lags))
            A, b = [A_s[np.ix_(terms, terms)] for A_s in A], [b_s[terms] for b_s in b]
            terms = np.append(at, experts + np.arange(1 + error_lags))
            H, logits = [H_s[np.ix_(terms, terms)] for H_s in H], [u[terms] for u in logits]
            losses, ledger, experts = losses[at], ledger[np.append(at, 0)], len(at)
        p, y, before = np.clip(P[t][active], low, high), Y[t], (low, high)
        m = w @ p
        lagged = np.array([errors[-lag] if lag <= t else np.zeros(outputs) for lag in lags])
        lagged = lagged.reshape(error_lags, outputs)
        read = np.concatenate((p - m, lagged))
        stacks = [m + np.linalg.solve(A_s, b_s) @ read for A_s, b_s in zip(A, b, strict=True)]
        if signed:
            read = np.concatenate((p - m, [m], lagged))
            stacks = [np.tanh(u @ read / 2) for u in logits]
        q = np.clip([m, *stacks], low, high)
        final = v @ q
        if not signed:
            y, sizes = clipped_around(y, final, sizes, t + 1)
        low, high = np.minimum(low, y), np.maximum(high, y)
        half = (high - low) / 2
        live = [o for o in range(outputs) if not signed or np.unique(Y[: t + 1, o]).size == 2]
        live = live or [0]
        counted = live[1:] if signed and len(live) == 2 else live  # the other is its negative
        share = 1 / len(counted)
        live, counted = ([o for o in own if half[o] > 0] for own in (live, counted))
        loss_w, loss_v = np.zeros(experts), np.zeros(len(v))
        for s, window in enumerate(windows):
            keep = (1 - 1 / window if window else 1.0) ** (1.0 if gaps is None else gaps[t])
            A[s] = keep * A[s] + (1 - keep) * alpha * np.eye(experts + error_lags)
            b[s] = keep * b[s]
            if signed:
                H[s], logits[s] = logistic_step(p, m, lagged, y, counted, keep, H[s], logits[s])
        for o in live:
            worst[o] = max(worst[o], np.abs(np.concatenate((p, q))[:, o] - y[o]).max())
        for o in counted:
            loss_w += share * (p[:, o] - y[o]) ** 2 / (2 * worst[o] ** 2)
            loss_v += share * (q[:, o] - y[o]) ** 2 / (2 * worst[o] ** 2)
            ledger[0] += share * (final[o] - y[o]) ** 2 / (2 * worst[o] ** 2)
            losses += share * ((p[:, o] - y[o]) / half[o]) ** 2
            z = np.append(p[:, o] - m[o], lagged[:, o]) / half[o]
            for s in range(len(windows)):
                A[s] = A[s] + share * np.outer(z, z)
                b[s] = b[s] + share * z * (y[o] - m[o]) / half[o]
        ledger[1:] += loss_w
        rate = 1 / (t + 2)
        w = w * np.exp(-loss_w)
        v = v * np.exp(-loss_v)
        w = (1 - rate) * w / w.sum() + rate / len(w)
        v = (1 - rate) * v / v.sum() + rate / len(v)
        yield {
            "p": p, "m": m, "final": final, "losses": losses, "ledger": ledger, "active": active,
            "before": before, "half": half, "worst": worst.copy(), "counted": counted,
            "live": live,
            "share": share, "lagged": lagged, "y": y,
        }  # fmt: skip
        # Errors of numbers are read as at most three root mean squares of those before them.
        bound = np.where((squares > 0) & (not signed), 3 * np.sqrt(squares), np.inf)
        errors.append(np.clip(y - m, -bound, bound))
        squares = squares + (errors[-1] ** 2 - squares) / min(t + 1, 200)


def combination(rows, Y, stacks, alpha=1.0):
    """Return loss, best loss, its penalty and the bound against combinations of active experts.

    The best u by least squares over all rows, log det row by row.
    """
    last = rows[-1]["active"]
    first = np.zeros(Y.shape[1])
    features, targets, loss = [np.sqrt(alpha) * np.eye(len(last))], [np.zeros(len(last))], 0.0
    early = beyond = novelty = 0.0
    error_lags, active = len(rows[0]["lagged"]), rows[0]["active"]
    A = alpha * np.eye(len(active) + error_lags)
    for row in rows:
        y = row["y"]
        at = np.flatnonzero(np.isin(active, row["active"]))
        terms = np.append(at, len(active) + np.arange(error_lags))
        active, A = active[at], A[np.ix_(terms, terms)]
        for o in row["live"]:
            first[o] = first[o] or row["half"][o]
        for o in row["counted"]:
            half, low, high = row["half"][o], row["before"][0][o], row["before"][1][o]
            weight = row["share"] * (first[o] / half) ** 2
            weight /= max(2 * row["worst"][o] ** 2, first[o] ** 2)
            lost = weight * (row["final"][o] - y[o]) ** 2
            loss += lost
            early += lost * (2 * row["worst"][o] ** 2 < first[o] ** 2)
            beyond += weight * (y[o] - np.clip(y[o], low, high)) ** 2
            z = row["p"][:, o] - row["m"][o]
            features.append(np.sqrt(weight) * z[np.isin(active, last)][None, :])
            targets.append(np.sqrt(weight) * (y[o] - row["m"][o])[None])
            z = np.sqrt(row["share"]) * np.append(z, row["lagged"][:, o]) / half
            novelty += np.log(1 + z @ np.linalg.solve(A, z))
            A = A + np.outer(z, z)
    features, targets = np.concatenate(features), np.concatenate(targets)
    u = np.linalg.lstsq(features, targets, rcond=None)[0]
    penalty = alpha * u @ u
    best = np.sum((features @ u - targets) ** 2) - penalty
    bound = np.log(1 + stacks) + np.log(len(rows) + 1) + early + beyond + novelty / 2
    return loss, best, penalty, bound


def clipped_targets(y, centre, size, beyond=0.005, reach=3.0, step=0.05):
    """Return clipped targets of one output."""
    out = []
    for value in y:
        clipped, size = clipped_by_size(value, centre, size, reach, step, beyond)
        out.append(clipped)
    return np.array(out)


def clipping_start(y):
    """Return centre and size from first targets."""
    centre = np.median(y)
    left_out = int(np.ceil(np.sqrt(len(y)) / 4))
    kept = sorted(abs(value - centre) for value in y)[: len(y) - left_out]
    return centre, kept[-1] * (1 + 8 / np.sqrt(len(y)))


def error_scale_targets(errors, window=200, quick_window=20, jump=1.5, reach=1e4):
    """Return levels before each row and log squares around them, for one output.

    Squares count as at least 1/10^4 and at most 10^4 times their recent mean.
    """
    mean, level = errors[0] ** 2, np.log(errors[0] ** 2)
    quick, levels, targets = level, [], []
    for t, error in enumerate(errors, start=1):
        square = min(error**2, reach * mean or np.inf)
        mean += (square - mean) / min(t, window)
        c = np.log(max(square, mean / reach))
        levels.append(level)
        targets.append(c - level)
        level += (c - level) / min(t, window)
        quick += (c - quick) / min(t, quick_window)
        if abs(quick - level) > jump:
            level = quick
    return np.array(levels), np.array(targets)


def quantile_offsets(
    r, p, levels, start, rate=0.03, windows=(1000, 20), own=1.5, held=1000, reach=5, side=0.3
):
    """Return quantiles (n, levels) of the signed errors r before each row, for one output.

    Levels are symmetric around 1/2. Quantiles lie outside those of levels nearer to 1/2, and misses
    are counted with what is shown. An error counts as at most five times the size of recent errors
    before it.
    """
    last, middle = len(levels) - 1, len(levels) // 2
    a, b = np.array(start, dtype=float), np.zeros((5, len(start)))
    edges, used, counted = np.zeros(4), [], []
    size = np.inf
    for t in range(len(r)):
        counted.append(min(abs(r[t]), reach * size or np.inf))
        ages = np.arange(t, -1, -1)
        size = max(
            np.sqrt(np.average(np.square(counted), weights=(1 - 1 / w) ** ages)) for w in windows
        )
        group = int(np.sum(p[t] > edges))
        q = a + b[group]
        shown = [
            max(q[middle : k + 1]) if k >= middle else min(q[k : middle + 1])
            for k in range(last + 1)
        ]
        used.append(shown)
        step = max(rate, 0.5 * (t + 2.0) ** -0.5) * size  # rows are counted from 1
        for k in range(last + 1):  # its own misses, and those of the other end of its interval
            low, high = sorted((shown[k], shown[last - k]))
            above, below = float(r[t] > high), float(r[t] < low)
            share = 2 * min(levels[k], 1 - levels[k])
            wider = (above + below - share) * np.sign(k - middle)
            d = step * (wider + side * (above - below))
            a[k], b[group, k] = a[k] + d, b[group, k] + own * d
        if t < 64 or (t + 1) % 64 == 0:
            recent = sorted(p[: t + 1][-held:])
            edges = np.array([recent[k * len(recent) // 5] for k in (1, 2, 3, 4)])
            edges = edges + 1e-9 * np.abs(edges)
    return np.array(used)


def slopes(M, labels, surest=0.99, window=500, start=(1.0, 0.0), H=((1, 0), (0, 1))):
    """Return the slopes (a, b) of probabilities after rows of margins M (n, classes)."""
    theta, H = np.array(start), np.array(H, dtype=float)
    for m, label in zip(M, labels, strict=True):
        theta, H = slope_step(m, label, theta, H, surest, window)
    return theta


def slope_step(m, label, theta, H, surest=0.99, window=500, weight=1.0):
    """Return the slopes and H after a row of margins m (classes,)."""
    F = np.column_stack((np.log((1 + surest * m) / 2), m))
    P = np.exp(F @ theta) / np.exp(F @ theta).sum()
    H = (1 - 1 / window) * H + np.eye(2) / window + weight * np.cov(F.T, aweights=P, ddof=0)
    theta = theta + weight * np.linalg.solve(H, F[label] - P @ F)
    return np.minimum(nearest_allowed(theta, H, 0.01, 0.9 * surest / (1 + surest)), 50), H


def nearest_allowed(theta, H, least, c):
    """Return the nearest (a, b) in the norm of H with a >= least and b >= -c a.

    Least squares over x, y >= 0 with a = least + x, b = y - c a.
    """
    L, T, start = np.linalg.cholesky(H), np.array([[1, 0], [-c, 1]]), np.array([least, -c * least])
    return start + T @ nnls(L.T @ T, L.T @ (theta - start))[0]


def linear_experts(Z, Y):
    """Return predictions (n, 2, outputs) of logistic regression by AdaGrad and of ALMA, Y +-1."""
    X = np.column_stack((np.clip(Z, -4, 4), np.ones(len(Z))))
    out = np.empty((len(Y), 2, Y.shape[1]))
    for o, targets in enumerate(Y.T):
        w, G, v, k = np.zeros(X.shape[1]), np.zeros(X.shape[1]), np.zeros(X.shape[1]), 1
        for t, (x, y) in enumerate(zip(X, targets, strict=True)):
            unit, margin = x / np.linalg.norm(x), 1 / (0.9 * np.sqrt(k))
            out[t, :, o] = np.tanh(w @ x / 2), np.tanh(v @ unit / margin)
            g = y * x / (1 + np.exp(y * (w @ x)))
            G += g**2
            w = w + 0.2 * np.divide(g, np.sqrt(G), out=np.zeros_like(g), where=G > 0)
            if y * (v @ unit) <= 0.1 * margin:
                v = v + y * np.sqrt(2 / k) * unit
                v, k = v / max(1, np.linalg.norm(v)), k + 1
    return out


class ClassProbabilities:
    """The definition of `aggregate.probabilities`, class by class.

    Rows X, margins M (n, classes) and labels are those of the whole stream; the first ``known``
    rows are learned.
    """

    def __init__(self, X, M, labels, classes, delay=0, alphas=(1.0, 30.0)):
        self.X, self.M, self.labels, self.alphas = X, M, labels, alphas
        self.classes, self.known, self.delay = range(classes), 0, delay
        self.prior = np.full(2 + len(alphas), 0.05)
        self.prior[0] = 1 - self.prior[1:].sum()
        self.w, self.theta, self.H = self.prior.copy(), np.array([1.0, 0.0]), np.eye(2)
        d = X.shape[1]
        self.v = {(k, a): np.append(np.zeros(d), 1.0) for k in self.classes for a in alphas}
        self.A = {(k, a): np.full(d + 1, 2.0 * a) for k in self.classes for a in alphas}
        self.low, self.high, self.mean, self.variance = X[0], X[0], X[0], np.zeros(d)

    def predict_all(self):
        """Return 2 P - 1 of each row (n, classes) when it is predicted."""
        out = []
        for t in range(len(self.X)):
            out.append(self.predict(t))
            if t >= self.delay:
                self.learn(t - self.delay)
        return np.array(out)

    def read(self, t):
        """Return the scaled row, with the log odds of the rates, per class."""
        x, unit = np.zeros(self.X.shape[1]), np.sqrt((self.high - self.low) * self.variance**0.5)
        if self.known:
            x[unit > 0] = np.clip((self.X[t] - self.mean)[unit > 0] / unit[unit > 0], -4, 4)
        rates = np.log((self.counts + 0.5) / (self.counts.sum() - self.counts + 0.5))
        return [np.append(x, r) for r in rates]

    @property
    def counts(self):
        return np.array([(self.labels[: self.known] == k).sum() for k in self.classes])

    @property
    def seen(self):
        return [k for k in self.classes if k in self.labels[: self.known]]

    def margin(self, k, a, read):
        f, q = read @ self.v[k, a], (read**2 / self.A[k, a]).sum()
        return brentq(lambda p: p + q * np.tanh(p / 2) - f, -abs(f), abs(f))

    def candidates(self, t):
        """Return Q (candidates, classes seen)."""
        seen, read, m = self.seen, self.read(t), self.M[t, self.seen]
        rates = self.counts[seen] + 0.5
        Q = [softmax(self.theta @ [np.log((1 + 0.99 * m) / 2), m]), rates / rates.sum()]
        for a in self.alphas:
            shares = np.array([1 / (1 + np.exp(-self.margin(k, a, read[k]))) for k in seen])
            Q.append(shares / shares.sum())
        return np.array(Q)

    def predict(self, t):
        seen, n = self.seen, self.known
        out = np.where(np.isin(self.classes, seen), 1, -1) * n / (n + 1)
        if len(seen) > 1:
            Q = self.candidates(t)
            P = self.w @ Q
            if self.w[0] >= 0.05 and P.argmax() != Q[0].argmax():
                P = Q[0]
            out[seen] = 2 * P - 1
        return out

    def learn(self, t):
        y, seen = self.labels[t], self.seen
        if len(seen) > 1 and y in seen:
            w = self.w * self.candidates(t)[:, seen.index(y)]
            self.w = (1 - 1 / (t + 2)) * w / w.sum() + self.prior / (t + 2)
        known, read = sorted({*seen, y}), self.read(t)
        if len(known) > 1:
            m, own = self.M[t, known], known.index(y)
            self.theta, self.H = slope_step(m, own, self.theta, self.H)
            for k in known:
                for a in self.alphas:
                    sign, p = 1 if k == y else -1, self.margin(k, a, read[k])
                    s = 1 / (1 + np.exp(-p))
                    self.A[k, a] = self.A[k, a] + s * (1 - s) * read[k] ** 2 / 3
                    step = sign / (1 + np.exp(sign * p)) * read[k] / self.A[k, a]
                    self.v[k, a] = self.v[k, a] + step
        if t:
            low, high, rate = self.low, self.high, 1 / min(t + 1, 1e4)
            near = np.clip(self.X[t], 2 * low - high, 2 * high - low)
            value = np.where(high > low, near, self.X[t])
            self.low, self.high = np.minimum(low, value), np.maximum(high, value)
            self.variance = (1 - rate) * (self.variance + rate * (value - self.mean) ** 2)
            self.mean = self.mean + rate * (value - self.mean)
        self.known += 1
