"""PKAWV (2019), Figure 4: loss against rows and time on casp and ijcnn1."""

from __future__ import annotations

from papers.experiment import Experiment
from papers.pkawv_2 import make_page, make_plan

SETS = ("casp", "ijcnn1")

EXPERIMENT = Experiment(
    "pkawv-4", SETS, (make_plan(SETS),),
    make_page("pkawv-4", "PKAWV, Figure 4: casp and ijcnn1"),
)  # fmt: skip
