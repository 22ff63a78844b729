"""Which points a dictionary keeps.

KORS keeps a row with a probability proportional to its estimated leverage: rows that the kept
points do not explain yet. It needs no labels. On a spiral it spreads points along the curve; a
smaller gamma asks for a finer picture and keeps more. The number of points follows the effective
dimension of the rows, which grows ever more slowly.
"""

import matplotlib.pyplot as plt
import numpy as np

import pronk

rng = np.random.default_rng(7)
angle = 4 * np.pi * np.sqrt(rng.random(8000))
X = 0.08 * (angle * [np.cos(angle), np.sin(angle)]).T + 0.02 * rng.standard_normal((8000, 2))
y = np.sin(angle)

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3.4))
for axes, gamma in ((left, 10.0), (middle, 0.5)):
    learner = pronk.PKAWVRegressor(pronk.Gaussian(0.3), gamma=gamma, alpha=0.1, random_state=1)
    sizes, errors = [], []
    for rows in np.split(np.arange(8000), 16):
        predictions = learner.predict_then_learn(X[rows], y[rows])
        errors.append(np.mean((predictions - y[rows]) ** 2))
        sizes.append(learner.size_)
    points = learner.dictionary_
    axes.scatter(*X[::4].T, c=y[::4], s=2, cmap="coolwarm", alpha=0.5)
    axes.scatter(*points.T, s=12, color="black")
    axes.set(title=f"gamma {gamma}: {len(points)} points", aspect="equal", xticks=[], yticks=[])
    right.plot(np.arange(500, 8001, 500), sizes, label=f"gamma {gamma}")
    print(f"gamma {gamma}: {len(points)} points, last mean squared error {errors[-1]:.5f}")
right.set(title="points held", xlabel="rows")
right.legend()
plt.show()
