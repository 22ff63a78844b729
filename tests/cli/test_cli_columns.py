"""What `pronk run` makes of columns that are no plain numbers."""

import json

import numpy as np
import pandas as pd

from helpers import pronk_run

ROWS = 1200


def result(capsys, *words):
    code, out, err = pronk_run(capsys, *words, "--json")
    assert code == 0, err
    return json.loads(out)


def test_categories_do_not_share_a_slot_by_chance(tmp_path, capsys):
    # By a hash of their text into 32 slots, "1" and "2" are one category.
    rng = np.random.default_rng(0)
    k = rng.integers(0, 5, ROWS)
    y = np.array([0.0, 10.0, -10.0, 5.0, -5.0])[k] + rng.normal(0, 0.1, ROWS)
    pd.DataFrame({"k": k, "y": y}).to_csv(tmp_path / "k.csv", index=False)
    found = result(capsys, "run", tmp_path / "k.csv", "-t", "y", "--categorical", "k")
    assert found["metrics"]["r2"] > 0.95
