"""Load model files with changed fields and right checksums (make soak: many more)."""

import pytest

from laws.fields import judge


@pytest.mark.parametrize("files", [15, pytest.param(240, marks=pytest.mark.matrix)])
def test_a_changed_file_works_or_raises(files):
    """In a separate process, which no file may end; 240 files change every learner's fields."""
    outcomes = judge(files, seed=7)
    assert set(outcomes) == {"refused", "works"}, outcomes
    assert sum(outcomes.values()) == files
