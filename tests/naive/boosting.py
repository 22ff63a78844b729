"""Boosted trees from the definition in `pronk.aggregate.boosting`: brute force over all cuts."""

import numpy as np


def bins_of(column, most):
    """Cuts in the middle between different values: all, or those nearest to equal shares."""
    values = np.sort(column)
    changes = [i for i in range(len(values) - 1) if values[i + 1] > values[i]]
    if len(changes) >= most:
        wanted = [k * len(values) // most for k in range(1, most)]
        places = [next((c for c in changes if c >= w), changes[-1]) for w in wanted]
        changes = sorted(set(places))
    return [np.float32(0.5) * values[i] + np.float32(0.5) * values[i + 1] for i in changes]


def boost(X, Y, signs, sources, leaves, leaf_rows, bins, rate):
    """Return the trees, each a list of (rows, path of the leaf, values), and the predictions."""
    cuts = [bins_of(column, bins) for column in X.T]
    F = np.tile(Y.mean(axis=0), (len(Y), 1))
    trees = []
    for sign in signs:
        R = Y - F
        r = sum(s * R[:, o] for s, o in zip(sign, sources, strict=True))
        parts = [(np.arange(len(X)), [])]
        while len(parts) < leaves:
            found = [best_cut(X, r, rows, cuts, leaf_rows) for rows, _ in parts]
            gains = [cut[0] for cut in found]
            if max(gains) <= 0.0:
                break
            k = int(np.argmax(gains))
            _, column, cut = found[k]
            rows, path = parts[k]
            left = X[rows, column] <= cut
            parts[k] = rows[left], [*path, (column, cut, False)]
            parts.append((rows[~left], [*path, (column, cut, True)]))
        tree = [(path, np.float32(rate * R[rows].mean(axis=0))) for rows, path in parts]
        for (rows, _), (_, values) in zip(parts, tree, strict=True):
            F[rows] += values
        trees.append(tree)
    return trees, F


def best_cut(X, r, rows, cuts, leaf_rows):
    best = 0.0, -1, 0.0
    whole = r[rows].sum() ** 2 / len(rows)
    for column, own in enumerate(cuts):
        for cut in own:
            left = X[rows, column] <= cut
            if min(left.sum(), (~left).sum()) < leaf_rows:
                continue
            sides = r[rows[left]], r[rows[~left]]
            gain = sum(side.sum() ** 2 / len(side) for side in sides) - whole
            if gain > best[0] + 1e-9:
                best = gain, column, cut
    return best


def predict(trees, start, x):
    out = start.copy()
    for tree in trees:
        for path, values in tree:
            if all((x[column] > cut) == right for column, cut, right in path):
                out += values
    return out
