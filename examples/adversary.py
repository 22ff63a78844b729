"""One point with alternating labels: a logarithm against a root.

The point never moves, its label is +1, -1, +1, ... The best function in hindsight predicts 0, so a
learner's regret is what it loses more than that. Gradient steps of the usual size 1/sqrt(n) follow
the last label and pay a root of the number of rows n; second-order learners see that the slope
keeps changing its sign, and pay a logarithm.
"""

import matplotlib.pyplot as plt
import numpy as np

import pronk
from pronk.regret import cumulative_regret

X, y = np.full((100_000, 1), 0.3), np.tile([1.0, -1.0], 50_000)
horizons = np.geomspace(100, len(y), 13).astype(int)
regrets = {}

for name in ("CON-KONS", "PKAWV"):
    if name == "PKAWV":
        learner = pronk.make("pkawv-taylor")
    else:
        learner = pronk.make("con-kons", clip=1.0, budget=10, random_state=1)
    regrets[name] = cumulative_regret(learner.predict_then_learn(X, y), y, 0.0)[horizons - 1]

regrets["FOGD, step 1/sqrt(n)"] = []
for n in horizons:  # the step depends on n, so every n is a run of its own
    learner = pronk.make("fogd", n_features=10, eta=1 / np.sqrt(n), random_state=1)
    regret = cumulative_regret(learner.predict_then_learn(X[:n], y[:n]), y[:n], 0.0)
    regrets["FOGD, step 1/sqrt(n)"].append(regret[-1])

figure, axes = plt.subplots(figsize=(8, 4))
for name, regret in regrets.items():
    axes.plot(horizons, regret, "o-", markersize=3, label=name)
    print(
        f"{name:21} regret {regret[0]:6.2f} after {horizons[0]} rows, {regret[-1]:7.2f} at the end"
    )
axes.plot(horizons, 2 * np.sqrt(horizons), ":", color="0.5", label="2 sqrt(n)")
axes.set(xlabel="rows n", ylabel="regret against the function 0", xscale="log", yscale="log")
axes.legend()
plt.show()
