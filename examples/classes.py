"""Three classes, discovered on the way.

The third class appears only after 1,000 rows. Nothing has to be said beforehand: a new class enters
as if all earlier rows had been negative for it. The regions are those of the final model.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap

import pronk

rng = np.random.default_rng(7)
X = rng.uniform(-1, 1, (4000, 2))
radius = np.hypot(*X.T)
y = np.where(np.sin(3 * X[:, 0]) > X[:, 1], "below", "above").astype(object)
y[(radius < 0.4) & (np.arange(4000) >= 1000)] = "middle"

learner = pronk.make("con-kons", "classification", kernel=pronk.Gaussian(0.4), random_state=1)
labels = learner.predict_then_learn(X, y)
wrong = labels != y
print(f"classes {learner.classes_.tolist()}, {learner.size_} points")
print(
    f"error {wrong[:1000].mean():.3f} before the third class, {wrong[-1000:].mean():.3f} at the end"
)

colours = ListedColormap(["tab:blue", "tab:orange", "tab:green"])
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
grid = np.linspace(-1, 1, 150)
places = np.stack(np.meshgrid(grid, grid), axis=-1).reshape(-1, 2)
number = np.searchsorted(learner.classes_, learner.predict(places)).reshape(150, 150)
left.contourf(grid, grid, number, levels=[-0.5, 0.5, 1.5, 2.5], cmap=colours, alpha=0.3)
last = slice(-600, None)
left.scatter(*X[last].T, c=np.searchsorted(learner.classes_, y[last]), s=4, cmap=colours)
left.set(title="regions of the final model", aspect="equal", xticks=[], yticks=[])
window = np.convolve(wrong, np.ones(200) / 200, mode="valid")
right.plot(np.arange(200, 4001), window)
right.axvline(1000, color="0.7")
right.annotate("third class", (1000, window.max()), (1100, 0.95 * window.max()))
right.set(title="error, last 200 rows", xlabel="rows")
plt.show()
