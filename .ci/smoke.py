"""Use an installed pronk from outside its repository: import, learn, save, load, report."""

import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import numpy as np

import pronk

rng = np.random.default_rng(0)
X = rng.uniform(-1.0, 1.0, size=(200, 2))
y = np.sin(3.0 * X[:, 0])

model = pronk.PKAWVRegressor(random_state=0)
predictions = model.predict_then_learn(X, y)
assert predictions.shape == (200,)
assert np.isfinite(predictions).all()

with tempfile.TemporaryDirectory() as folder:
    model.save(Path(folder) / "model.pronk")
    again = pronk.load(Path(folder) / "model.pronk")
    # The README's first command works with nothing but `pip install .`
    rows, page = Path(folder) / "rows.csv", Path(folder) / "page.html"
    np.savetxt(rows, np.column_stack((X, y)), delimiter=",", header="a,b,y", comments="")
    command = [sys.executable, "-m", "pronk", "run", rows, "--target", "y", "--report", page]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert '<path class="line"' in page.read_text(encoding="utf-8")
assert np.array_equal(again.predict(X), model.predict(X))

assert files("pronk").joinpath("py.typed").is_file()
assert "site-packages" in pronk.__file__, pronk.__file__
print(f"pronk {pronk.__version__}: import, learn, save, load and --report work")
