"""Some hundred calls of all kinds; `make soak` makes a hundred thousand."""

from collections import Counter

from hypothesis import given, settings

from laws.fuzz import attempt, trials


@settings(deadline=None, max_examples=200)
@given(trials)
def test_only_documented_errors_and_no_harm_done(trial):
    assert attempt(trial, Counter()) is None
