"""Reproduce the papers' tables and figures, from a clone: ``python -m papers NAME``.

Each table or figure has one file, named after it, with the printed values, the runs that
reproduce them and the notes on every difference. The files that all of them use:

- `datasets` and `fetch`: the data sets, their checksums, their scaling and their download;
- `experiment`: the jobs of a table, and how they run;
- `work`: what a job computes;
- `page`: results as a page of Markdown with tables and figures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from papers.experiment import Experiment

#: Name and title of each table or figure; the module has the same name.
TITLES = {
    "pros-n-kons-1": "PROS-N-KONS (2017), Table 1: regression",
    "pros-n-kons-2": "PROS-N-KONS (2017), Table 2: classification",
    "dualsvrg-1": "DualSVRG (2022), Table 1: batch classification",
    "dualsvrg-2": "DualSVRG (2022), Table 2: online classification",
    "pkawv-2": "PKAWV (2019), Figure 2: cod-rna and SUSY",
    "pkawv-3": "PKAWV (2019), Figure 3: a greedy adversary",
    "pkawv-4": "PKAWV (2019), Figure 4: casp and ijcnn1",
    "kons-theory": "KONS (2017): theorems measured",
    "successors": "NONS-ALD (2023) and AIOLI (2020) beside the papers' learners",
}


def load_experiment(name: str) -> Experiment:
    """Return the experiment of that name."""
    found: Experiment = import_module(f"papers.{name.replace('-', '_')}").EXPERIMENT
    return found
