"""Some hundred random calls; `make soak` makes a hundred thousand."""

from collections import Counter

from hypothesis import example, given, settings

from laws.fuzz import Call, Trial, attempt, trials

#: One column, so that the points of the dictionary nearly depend on each other: with directions
#: kept down to a squared length of 1e-12 the cut decided which of them were kept.
DEPENDENT_POINTS = Trial(
    ("con-kons", "classification"), seed=61, columns=1, mild=True,
    calls=(
        Call(rows=60, seed=9341, kind="fortran", scale=-4, labels=3, cut=0.3),
        Call(rows=2, seed=197, kind="plain", scale=-4, labels=1, cut=0.2),
        Call(rows=20, seed=291, kind="plain", scale=-4, labels=4, cut=0.5),
        Call(rows=60, seed=499, kind="fortran", scale=-2, labels=2, cut=0.0),
    ),
)  # fmt: skip


@settings(deadline=None, max_examples=200)
@example(DEPENDENT_POINTS)
@given(trials)
def test_only_documented_errors_and_an_unchanged_state(trial):
    assert attempt(trial, Counter()) is None
