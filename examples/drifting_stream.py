"""A stream that changes, and five learners on it.

The function turns slowly and jumps three times. Every row is predicted before its label is used,
and the curve is the mean squared error of the last 2,000 rows: what a user of the model would have
seen. PKAWV fits all rows alike: it is best until the first jump and then averages over functions
that are gone. With a half-life of 1,000 rows it forgets them. The online Newton step (CON-KONS)
keeps following the slopes of the newest rows.
"""

import matplotlib.pyplot as plt

import pronk
from pronk.data import drifting
from pronk.evaluate import RunningMean, progressive

ROWS = 40_000
kernel = pronk.Gaussian(1.0)
learners = {
    "running mean": RunningMean(),
    "FOGD": pronk.make("fogd", kernel=kernel, n_features=200, eta=0.3, random_state=1),
    "CON-KONS": pronk.make("con-kons", kernel=kernel, budget=100, random_state=1),
    "PKAWV, 150 points": pronk.PKAWVRegressor(
        kernel, alpha=0.1, gamma=0.2, budget=150, random_state=1
    ),
    "PKAWV, half-life": pronk.PKAWVRegressor(
        kernel, alpha=0.1, gamma=0.2, budget=150, half_life=1000, random_state=1
    ),
}

figure, axes = plt.subplots(figsize=(8, 4))
for name, learner in learners.items():
    stream = drifting(ROWS, seed=3)
    records = list(progressive(learner, stream, metrics=["mse"], every=500, window=2000))
    axes.plot([r.rows for r in records], [r.windowed["mse"] for r in records], label=name)
    print(f"{name:18} mean squared error {records[-1].metrics['mse']:.3f}")
for jump in range(1, 4):
    axes.axvline(jump * ROWS / 4, color="0.8", linewidth=1, zorder=0)
axes.set(xlabel="rows", ylabel="mean squared error, last 2,000 rows", yscale="log")
axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
plt.show()
