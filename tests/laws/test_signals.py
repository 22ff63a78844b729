"""Real Ctrl-C at random moments (make soak: many more)."""

import os

import pytest

from laws.signals import calls, first_fits

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")


@pytest.mark.slow
def test_a_call_that_is_interrupted_leaves_a_process_that_works():
    outcomes = calls(60, seed=0)
    assert {*outcomes} <= {"before", "after"} and outcomes.total() == 60, outcomes


@pytest.mark.slow
def test_a_first_fit_that_is_interrupted_leaves_a_process_that_works():
    outcomes = first_fits(5, seed=0)
    assert {*outcomes} <= {"before", "after"} and outcomes.total() == 5, outcomes
