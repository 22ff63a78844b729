"""Model files of earlier versions: each loads, predicts and continues as when it was written."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import pronk
from pronk.estimators.files import FORMAT
from tools import golden

FOLDERS = Path(__file__).parent / "golden"
FILES = sorted(FOLDERS.glob("format-*/*.pronk"))
#: Other processors and BLAS libraries differ by rounding, which some rows of learning multiply.
CLOSE = {"rtol": 1e-6, "atol": 1e-8}


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_file_of_this_format_gives_the_numbers_it_was_written_with(path):
    expected = json.loads((path.parent / "expected.json").read_text(encoding="utf-8"))[path.stem]
    answers = golden.answers(pronk.load(path), np.array(expected["X"]), np.array(expected["y"]))
    for name, values in answers.items():
        if isinstance(values[0], str):
            assert values == expected[name]
        else:
            assert_allclose(values, expected[name], **CLOSE)


def test_every_learner_of_the_script_has_its_file():
    """`python -m tools.golden` adds what is missing."""
    names = {path.stem for path in FILES if path.parent.name == f"format-{FORMAT}"}
    assert set(golden.LEARNERS) <= names <= {*golden.LEARNERS, *golden.DEFAULT}
