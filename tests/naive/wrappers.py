"""Twins of `Intervals` and `Calibrated`: the calibration of the default learner on any predictions.

One output, one row at a time, everything recomputed from all rows so far.
"""

from itertools import pairwise

import numpy as np

from naive.default import error_scale_targets, quantile_offsets

STAGES = (8, 32, 128, 512)
#: Levels and the quantiles of z exp(-E log z^2 / 2), z normal.
LEVELS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5]
LEVELS += [1 - level for level in LEVELS[-2::-1]]
NORMAL = [5.831, 4.861, 4.39, 3.698, 3.104, 2.418, 1.956, 1.588, 1.273, 0.99, 0.478, 0.0]
NORMAL = [-value for value in NORMAL] + NORMAL[-2::-1]


def discounted_awv(Phi, targets, window, alpha, block):
    """Predict each row: A = alpha I + sum_{s<=t} w_s phi_s phi_s', b = sum_{s<t} w_s y_s phi_s.

    w_s = (1 - 1/window)^(t - s). At the end of a block the forgotten part of alpha I is put back.
    """
    keep, r = 1 - 1 / window, Phi.shape[1]
    A, b, out = alpha * np.eye(r), np.zeros(r), []
    for t, (phi, y) in enumerate(zip(Phi, targets, strict=True), start=1):
        A, b = keep * A, keep * b
        A = A + np.outer(phi, phi)
        out.append(phi @ np.linalg.solve(A, b))
        b = b + y * phi
        if t % block == 0:
            A = A + (1 - keep**block) * alpha * np.eye(r)
    return np.array(out)


def error_scales(features, p, y, level, size, block):
    """Return the error scale before each row: exp((level + clip(shape, -4, 4)) / 2).

    p and y are predictions and targets, ``features`` kernel features of the rows.
    """
    read = np.clip((p - level) / size, -3, 3)
    levels, targets = error_scale_targets(np.clip((y - p) / size, -100, 100))
    Phi = np.column_stack((np.ones(len(p)), read, read**2, features))
    shape = discounted_awv(Phi, targets, 2000, 5.0, block(Phi.shape[1]))
    return size * np.exp((levels + np.clip(shape, -4, 4)) / 2)


def intervals(X, p, y, scaled, features, block):
    """Return quantiles (n, levels) of the errors before each row, NaN for the first two.

    ``scaled(first)`` scales rows by some first rows; ``features(Z, points)`` are kernel features at
    the bandwidth of the first rows; ``block(r)`` is the length of a block.
    """
    n = len(y)
    scales = np.ones(n)
    edges = [*(stage for stage in STAGES if stage < n), n]
    for first, last in pairwise(edges):
        Z = scaled(X[:first])(X[:last])
        places = np.unique(np.linspace(0, first - 1, 50).astype(int))
        usual = y[:first]
        found = error_scales(
            features(Z[:first], Z[places], Z)[1:], p[1:last], y[1:last], usual.mean(), usual.std(),
            block,
        )  # fmt: skip
        scales[first:last] = found[first - 1 :]
    used = np.full((n, len(LEVELS)), np.nan)
    for t in range(2, min(8, n)):  # the largest error so far, without the first row's
        used[t] = np.abs(y[1:t] - p[1:t]).max() * np.sign(np.array(LEVELS) - 0.5)
    if n > 8:
        used[8:] = (
            quantile_offsets((y - p)[8:] / scales[8:], p[8:], LEVELS, NORMAL) * scales[8:, None]
        )
    return used


def margins(scores, kind, count=0, total=0.0):
    """Return margins of scores (n, classes): 2 p - 1, or d / (|d| + mean |d| before).

    The mean is over ``count`` earlier rows, whose |d| add up to ``total``, and those before.
    """
    if kind == "probability":
        return 2 * scores / scores.sum(axis=1, keepdims=True) - 1
    sizes = np.abs(scores).mean(axis=1)
    counts, totals = count + np.arange(len(sizes)), total + np.cumsum(sizes) - sizes
    units = np.where(counts > 0, totals / np.maximum(counts, 1), 1.0)
    return scores / (np.abs(scores) + units[:, None])
