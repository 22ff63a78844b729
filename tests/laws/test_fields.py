"""Fields of model files changed, checksums made anew (`fields.py`; the long run: make soak)."""

from laws.fields import judge


def test_a_changed_file_works_or_is_refused():
    """In a process of its own, which no file may end; every learner has its turn."""
    outcomes = judge(240, seed=7)
    assert set(outcomes) == {"refused", "works"}, outcomes
    assert sum(outcomes.values()) == 240
