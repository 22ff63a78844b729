"""The mutation tool: mutants are valid code, and the text that each named one changes exists."""

import ast
from pathlib import Path

import pytest

import pronk
from tools.mutants import TESTS
from tools.mutating import mutants_of
from tools.named_mutants import NAMED

PACKAGE = Path(pronk.__file__).parent
TREE = Path(__file__).parents[1]


@pytest.mark.parametrize("mutant", NAMED, ids=lambda mutant: mutant.name)
def test_a_named_mutant_still_has_its_place(mutant):
    source = (PACKAGE / mutant.file).read_bytes()
    changed = mutant.apply(source)
    assert changed != source
    ast.parse(changed)
    assert all((TREE / test).exists() for test in mutant.tests)


def test_every_kind_of_change():
    source = b"""
def f(x, y: float = 2.0):
    '''A text with 1.0 + 1.0.'''
    z: float = -x + 0.5
    z += y
    if x < y and z:
        raise ValueError(f"{1.0 + x}")
    return max(x, y)
"""
    changes = {(mutant.before, mutant.after) for mutant in mutants_of("f.py", source, ())}
    assert changes == {
        ("-x + 0.5", "(-x - 0.5)"),
        ("-x", "x"),
        ("0.5", "1.0"),
        ("z += y", "pass"),
        ("x < y and z", "(x < y or z)"),
        ("x < y", "(x <= y)"),
        ("max(x, y)", "min(x, y)"),
    }


@pytest.mark.parametrize("file", ["core/losses.py", "newton/recurrence.py"])
def test_every_change_is_code(file):
    source = (PACKAGE / file).read_bytes()
    mutants = list(mutants_of(file, source, TESTS[file]))
    assert len(mutants) > 30
    for mutant in mutants[::5]:
        ast.parse(mutant.apply(source))


def test_the_table_names_modules_and_tests_that_exist():
    for file, tests in TESTS.items():
        assert (PACKAGE / file).exists(), file
        assert all((TREE / test).exists() for test in tests), file
