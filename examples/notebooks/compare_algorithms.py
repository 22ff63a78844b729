# %% [markdown]
# # Notebook: compare algorithms on a stream
#
# Four algorithms on one generated stream, each row predicted before it is learned.

# %%
import matplotlib.pyplot as plt
import numpy as np

import pronk

rng = np.random.default_rng(7)
X = rng.uniform(-1, 1, (3000, 4))
y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.standard_normal(3000)
names = ["fogd", "pkawv-nystrom", "con-kons", "online-kernel"]

# %% [markdown]
# `pronk.make` builds an algorithm by its short name with the choices of its paper;
# `pronk.algorithms()` lists them.

# %%
errors = {}
for name in names:
    options = {} if name == "online-kernel" else {"kernel": pronk.Gaussian(1.0)}
    if name == "pkawv-nystrom":
        options["history"] = "projected"
    learner = pronk.make(name, random_state=1, **options)
    errors[name] = (learner.predict_then_learn(X, y) - y) ** 2
ranked = sorted(names, key=lambda name: errors[name][-1000:].mean())
print("from best to worst on the last 1,000 rows:", ", ".join(ranked))

# %%
plt.figure(figsize=(7, 3))
rows = np.arange(1, 3001)
for name in names:
    plt.loglog(rows, np.cumsum(errors[name]) / rows, label=name)
plt.axhline(0.01, color="gray", linestyle="--")
plt.xlabel("rows")
plt.ylabel("mean squared error so far")
plt.legend()
plt.show()

# %% [markdown]
# The dashed line is the variance of the noise. For your own file: `pronk compare FILE -t y`.
