"""A certificate while it runs: regret so far, and the bound it keeps to.

A ridge or AWV learner can say at any time how much it lost against the best function of its space
in hindsight, and what it could have lost at most. Both come from the state; no row is kept. The
regret grows like a logarithm, the loss itself like the noise.
"""

import matplotlib.pyplot as plt
import numpy as np

import pronk

rng = np.random.default_rng(7)
X = rng.uniform(-1, 1, (20_000, 2))
y = np.sin(4 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(len(X))

learner = pronk.make("pkawv-taylor", kernel=pronk.Gaussian(0.7), degree=6, alpha=0.1)
rows, certificates = np.unique(np.geomspace(10, len(X), 60).astype(int)), []
for start, stop in zip([0, *rows[:-1]], rows, strict=True):
    learner.partial_fit(X[start:stop], y[start:stop])
    certificates.append(learner.certificate())

figure, axes = plt.subplots(figsize=(8, 4))
axes.plot(rows, [c.loss for c in certificates], label="loss of the learner")
axes.plot(rows, [c.best_loss for c in certificates], "--", label="loss of the best in hindsight")
axes.plot(rows, [c.regret for c in certificates], label="regret (penalty subtracted)")
axes.plot(rows, [c.bound for c in certificates], label="bound on the regret")
axes.set(xlabel="rows", ylabel="sum over the rows so far", xscale="log", yscale="log")
axes.legend()
plt.show()

last = certificates[-1]
print(f"after {last.rows} rows: loss {last.loss:.1f}, best in hindsight {last.best_loss:.1f}")
print(f"regret {last.regret:.2f}, at most {last.bound:.2f}")
