"""Draw the figure of the README: loss of the default learner and of others along a drifting stream.

    python benchmarks/picture_drift.py [--rows N] [--out docs/_static/drift.svg]

Every learner predicts each row before it learns it. The target function changes slowly, and
abruptly three times. river's learners get standardised columns, as its documentation advises;
scikit-learn's gradient descent gets random Fourier features of the median bandwidth. Needs the
extras plot and river.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import pronk
from pronk.data import drifting
from pronk.evaluate import progressive
from pronk.evaluate.drawing import COLOURS


class FourierSGD:
    """scikit-learn's RBFSampler and SGDRegressor, row by row."""

    def __init__(self, X: np.ndarray) -> None:
        from scipy.spatial.distance import pdist
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.linear_model import SGDRegressor

        bandwidth = float(np.median(pdist(X[:256])))
        self.features = RBFSampler(gamma=0.5 / bandwidth**2, n_components=400, random_state=0)
        self.features.fit(X[:1])
        self.model = SGDRegressor(learning_rate="constant", eta0=0.1, alpha=0.0)

    def predict_then_learn(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        Phi = self.features.transform(X)
        predictions = np.zeros(len(y))
        for i in range(len(y)):
            if hasattr(self.model, "coef_"):
                predictions[i] = self.model.predict(Phi[i : i + 1])[0]
            self.model.partial_fit(Phi[i : i + 1], y[i : i + 1])
        return predictions


def learners(X: np.ndarray) -> dict[str, object]:
    """Return the learners by name, without those that are not installed."""
    found: dict[str, object] = {
        "pronk, default learner": pronk.OnlineKernelRegressor(random_state=0)
    }
    try:
        from river import forest, linear_model, neighbors, preprocessing

        scaled = preprocessing.StandardScaler
        found["river, adaptive random forest"] = scaled() | forest.ARFRegressor(seed=0)
        found["river, nearest neighbours"] = scaled() | neighbors.KNNRegressor()
        found["river, linear regression"] = scaled() | linear_model.LinearRegression()
    except ImportError:
        print("river is not installed: its learners are left out")
    found["scikit-learn, SGD on Fourier features"] = FourierSGD(X)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=12_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    blocks = list(drifting(options.rows, seed=3))
    X = np.concatenate([block[0] for block in blocks])
    figure = Figure(figsize=(6.6, 4.2), layout="constrained")
    axes = figure.add_subplot()
    styles = ("-", "--", ":", "-.", (0, (6, 2)))
    for i, (name, learner) in enumerate(learners(X).items()):
        records = list(progressive(learner, blocks, "mse", every=100, window=500, memory=False))
        last = records[-1]
        print(f"{name:40} mean squared error {last.metrics['mse']:.4f}  "
              f"{last.microseconds_per_row:8.1f} us per row", flush=True)  # fmt: skip
        axes.plot(
            [r.rows for r in records], [r.windowed["mse"] for r in records],
            linestyle=styles[i % 5], color=COLOURS[i], linewidth=2 if i == 0 else 1.2, label=name,
        )  # fmt: skip
    axes.set(xlabel="rows", ylabel="mean squared error, last 500 rows", yscale="log")
    axes.grid(alpha=0.25, linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=9, frameon=False, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    if options.out:
        figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
