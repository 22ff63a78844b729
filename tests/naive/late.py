"""The rule of late labels, row by row: what was read and predicted waits for its label."""

import copy

import numpy as np

#: Windows of the means of past targets.
MEAN_WINDOWS = np.array([1.0, 10.0, np.inf])


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

    Without ``anticipate`` it is ridge regression on the rows before. ``gaps`` are the gaps before
    the rows that are learned, 1 if not given; of the sums at the start of a block no less than
    ``least`` is left.
    """

    def __init__(
        self, alpha, size, outputs, keep=1.0, block=None, gaps=None, least=0.01, anticipate=True
    ):
        self.A, self.b = alpha * np.eye(size), np.zeros((size, outputs))
        self.alpha, self.keep, self.block, self.rows = alpha, keep, block, 0
        self.gaps, self.least, self.left, self.anticipate = gaps, least, 1.0, anticipate

    def predict(self, phi):
        # The row itself counts as if its target were 0.
        A = self.keep * self.A + self.anticipate * np.outer(phi, phi)
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
        row = self.mixture.predict(p[None])
        return row.final[0].copy(), row

    def learn(self, _, row, y, gap=1.0):
        known = np.ones(1, dtype=bool)
        self.mixture.learn(row.clipped, y[None], np.full(1, gap), (known, row))


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


class WaitingExperts:
    """Experts whose labels arrive in any order, by the definition.

    Of a row that waits the prediction is kept and how many labels had arrived; the lagged targets
    that it read are found again in the list of all arrivals. ``experts`` (new, with points) has the
    settings and computes features.
    """

    def __init__(self, experts):
        self.experts, self.arrived, self.waiting = experts, [], {}
        self.mixture = LateMixture(copy.deepcopy(experts.mixture))
        self.learners = [
            LateAWV(
                experts.settings[number].alpha, size, experts.outputs,
                1.0 if (window := experts.settings[number].window) is None else 1 - 1 / window,
                experts.forecasters.block_length if window else None, anticipate=False,
            )
            for number, size in zip(experts.active, experts.forecasters.sizes, strict=True)
        ]  # fmt: skip

    def features(self, z, known):
        """Return the features of each expert for a row that knew ``known`` labels."""
        past = [
            self.arrived[known - lag] if lag <= known else np.zeros(self.experts.outputs)
            for lag in self.experts.past._lags
        ]
        rows, groups = np.concatenate((z, *past))[None, :], self.experts.all_groups()
        keys = [group.key for group in groups]
        own = []
        for number, size in zip(self.experts.active, self.experts.forecasters.sizes, strict=True):
            group = groups[keys.index(self.experts.settings[number].key)]
            points = group.view.rows(self.experts.candidates.points.values)
            own.append(group.features(rows, points)[0, :size])
        return own

    def predict(self, name, z):
        known = len(self.arrived)
        own = zip(self.learners, self.features(z, known), strict=True)
        P = np.array([learner.predict(phi)[0] for learner, phi in own])
        means = np.zeros((len(MEAN_WINDOWS), self.experts.outputs))
        for s, y in enumerate(self.arrived):
            means += (y - means) / np.minimum(s + 1, MEAN_WINDOWS)[:, None]
        season = self.experts.past.season
        ago = [
            self.arrived[i] if (i := known - k) >= 0 else 0 * means[0]
            for k in (1, season, season + 1)
        ]
        parts = [P, means, *([[ago[0] + ago[1] - ago[2]]] if season else [])]
        final, row = self.mixture.predict(np.concatenate(parts))
        self.waiting[name] = z, known, row
        return final

    def learn(self, name, y):
        z, known, row = self.waiting.pop(name)
        for learner, phi in zip(self.learners, self.features(z, known), strict=True):
            learner.learn(phi, None, y)
        self.mixture.learn(None, row, y)
        self.arrived.append(y)


class LateIntervals:
    """Quantiles of the errors of one output that arrive late, in error scales, by definition."""

    def __init__(self, levels, normal, delay):
        self.levels, self.normal, self.delay = levels, normal, delay
        self.a, self.b = normal.copy(), np.zeros((5, len(normal)))
        self.edges, self.predictions, self.errors = np.zeros(4), [], []

    def size(self):
        """The larger root mean square of the errors over windows of 1000 and 20 rows."""
        if not self.errors:
            return 0.0
        squares, ages = np.square(self.errors), np.arange(len(self.errors))[::-1]
        weights = [(1 - 1 / window) ** ages for window in (1000, 20)]
        return max(np.sqrt(w @ squares / w.sum()) for w in weights)

    def predict(self, p):
        """Return the quantiles at a prediction, twice: they are kept until its error arrives."""
        own, middle = self.a + self.b[np.sum(p > self.edges)], len(self.levels) // 2
        above = np.maximum.accumulate(own[middle:])
        below = np.minimum.accumulate(own[middle::-1])[::-1]
        shown = np.concatenate((below[:-1], above))
        return shown, shown

    def learn(self, p, shown, r):
        before, rows = self.size(), len(self.errors) + 1
        self.errors.append(np.sign(r) * min(abs(r), 5 * before) if before else r)
        size = self.size()
        rate = max(0.03, min(0.5 / np.sqrt(rows + 1), 2 / self.delay))
        high, normal = np.maximum(shown, shown[::-1]), np.abs(self.normal)
        low, middle = np.minimum(shown, shown[::-1]), normal == 0
        half = (high - low) / 2 / np.where(middle, 1.0, normal)
        unit = np.where(middle, size, np.clip(half, 0.1 * size, size))
        above, below = 1.0 * (r > high), 1.0 * (r < low)
        share = 2 * np.minimum(self.levels, 1 - self.levels)
        wider = (above + below - share) * np.sign(self.normal)
        step = rate * unit * (wider + 0.3 * (above - below))
        self.a += step
        self.b[np.sum(p > self.edges)] += 1.5 * step
        self.predictions.append(p)
        if rows <= 64 or rows % 64 == 0:
            recent = np.sort(self.predictions[-1000:])
            edges = recent[[(k + 1) * len(recent) // 5 for k in range(4)]]
            self.edges = edges + 1e-9 * np.abs(edges)
