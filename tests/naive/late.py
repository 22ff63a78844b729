"""The rule of late labels, row by row: what was read and predicted waits for its label."""

import numpy as np


def late_pass(Z, Y, delay, predict, learn):
    """Return ``predict(z)`` of each row; after row t ``learn`` gets row t - delay as it waited.

    ``predict`` returns the prediction and what waits; ``learn(z, waited, y)`` is called with it.
    """
    waiting, out = [], []
    for z, y in zip(Z, Y, strict=True):
        prediction, waited = predict(z)
        out.append(prediction)
        waiting.append((z, waited, y))
        if len(waiting) > delay:
            learn(*waiting.pop(0))
    return np.array(out)


class LateAWV:
    """The AWV forecaster with discount, by the definition: all rows, one linear system each.

    ``gaps`` are the gaps before the rows that are learned, 1 if not given; of the sums at the start
    of a block no less than ``least`` is left.
    """

    def __init__(self, alpha, size, outputs, keep=1.0, block=None, gaps=None, least=0.01):
        self.A, self.b = alpha * np.eye(size), np.zeros((size, outputs))
        self.alpha, self.keep, self.block, self.rows = alpha, keep, block, 0
        self.gaps, self.least, self.left = gaps, least, 1.0

    def predict(self, phi):
        # The row itself counts as if its target were 0.
        A = self.keep * self.A + np.outer(phi, phi)
        return phi @ np.linalg.solve(A, self.keep * self.b), None

    def learn(self, phi, _, y):
        keep = self.keep if self.gaps is None else self.keep ** self.gaps[self.rows]
        if self.block:
            keep = max(keep, self.least / self.left)
        self.A = keep * self.A + np.outer(phi, phi)
        self.b = keep * self.b + np.outer(phi, y)
        self.rows, self.left = self.rows + 1, self.left * keep
        if self.block and self.rows % self.block == 0:  # what was forgotten of the regulariser
            self.A += (1 - self.left) * self.alpha * np.eye(len(phi))
            self.left = 1.0


class LateMixture:
    """A mixture (`pronk.aggregate.mixture`) of one row at a time, by its two steps."""

    def __init__(self, mixture):
        self.mixture = mixture

    def predict(self, p):
        row = self.mixture.new_row()
        self.mixture.peek(p, row)
        return row.final.copy(), row

    def learn(self, _, row, y):
        self.mixture.commit(row, y)


def known_targets(Y, delay, lags):
    """Return per row the targets at the lags, counted from the last known; 0 before the first."""
    out = np.zeros((len(Y), len(lags) * Y.shape[1]))
    for t in range(len(Y)):
        known = Y[: max(0, t - delay)]
        parts = [known[-lag] if lag <= len(known) else np.zeros(Y.shape[1]) for lag in lags]
        out[t] = np.concatenate(parts) if parts else []
    return out


def late_means(y, delay, windows):
    """Return the means over windows of the targets known at each row, (n, windows)."""
    out = np.zeros((len(y), len(windows)))
    for t in range(len(y)):
        means = np.zeros(len(windows))
        for s, value in enumerate(y[: max(0, t - delay)]):
            means += (value - means) / np.minimum(s + 1, windows)
        out[t] = means
    return out
