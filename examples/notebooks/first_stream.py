# %% [markdown]
# # Notebook: a first stream
#
# A stream that drifts and jumps, learned in one pass. Every prediction is made before its target
# is used, so the errors below need no test set.

# %%
import matplotlib.pyplot as plt
import numpy as np

import pronk

rng = np.random.default_rng(7)
n = 3000
X = rng.uniform(-1, 1, (n, 3))
phase = np.where(np.arange(n) < 1500, 0.0, 1.5)  # a jump in the middle
y = np.sin(4 * X[:, 0] + phase) * X[:, 1] + 0.1 * rng.standard_normal(n)

# %% [markdown]
# ## Predict, then learn

# %%
model = pronk.OnlineKernelRegressor(random_state=1)
predictions, intervals = model.predict_then_learn(X, y, interval=0.9)
errors = (predictions - y) ** 2
for start in (0, 1000, 1500, 2500):
    mean = errors[start : start + 500].mean()
    print(f"rows {start} to {start + 500}: mean squared error {mean:.2f}")

# %% [markdown]
# The variance of the noise is 0.01. After the jump the learner adapts by itself.

# %%
smooth = np.convolve(errors, np.ones(100) / 100, mode="valid")
plt.figure(figsize=(7, 3))
plt.semilogy(np.arange(len(smooth)) + 100, smooth)
plt.axhline(y.var(), color="gray", linestyle="--", label="variance of y")
plt.xlabel("row")
plt.ylabel("squared error, mean of 100")
plt.legend()
plt.show()

# %% [markdown]
# ## Intervals
#
# Intervals widen after the jump, and their coverage returns to 90 %.

# %%
inside = (intervals[:, 0] <= y) & (y <= intervals[:, 1])
width = intervals[:, 1] - intervals[:, 0]
print(f"coverage near 90 %: {abs(inside[2:].mean() - 0.9) < 0.03}")
print(f"wider after the jump: {width[1500:1700].mean() > width[1300:1500].mean()}")

# %% [markdown]
# ## Save, load, continue

# %%
model.save("model.pronk")
again = pronk.load("model.pronk")
print(np.array_equal(again.predict(X[:5]), model.predict(X[:5])))
