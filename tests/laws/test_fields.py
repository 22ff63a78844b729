"""Load model files with changed fields and right checksums (make soak: many more)."""

import numpy as np
import pytest

from laws.cases import CASES
from laws.fields import GROUPS, attempt, judge, packed, parts


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("files", [15, pytest.param(240, marks=pytest.mark.matrix)])
def test_a_changed_file_works_or_raises(files, group):
    """In a separate process, which no file may end; 240 files change every learner's fields.

    A file that loads is predicted with, learned with, and saved to a file that loads again.
    """
    outcomes = judge(files, seed=7, group=group)
    assert set(outcomes) == {"refused", "works"}, outcomes
    assert sum(outcomes.values()) == files


@pytest.mark.parametrize(
    "name, field, value",
    [
        ("projectron", "square", -1e150),
        ("forgetron", "square", 1e150),
        ("forgetron", "norms", 1e150),
        ("krls", "target", 1e150),
        ("dual-svrg", "features", 1e300),
        ("dual-svrg", "targets", 1e150),
    ],
)
def test_numbers_that_overflow_when_rows_are_learned_are_refused(name, field, value):
    case = next(case for case in CASES if case.id.startswith(name))
    learner = case.make().partial_fit(*case.stream(90))
    header, arrays = parts(learner)
    assert attempt(packed(header, arrays)) == "works"
    place = next(place for place in arrays if place.endswith(f"/{field}"))
    arrays[place] = np.full(arrays[place].shape, value)
    assert attempt(packed(header, arrays)) == "refused"
