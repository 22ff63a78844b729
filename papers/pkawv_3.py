"""PKAWV (2019), Figure 3: regret against a greedy adversary."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from papers.experiment import Experiment, Job, Options
from papers.page import Figure, Line, Page, Section, draw, of
from pronk.core.kernels import Gaussian
from pronk.estimators.registry import make_as_in_paper
from pronk.evaluate.study import Outcome

ROWS, COLUMNS, RUNS = 80, 5, 5
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "Kernel-AWV": ("kernel-awv", {"alpha": 1.0}),
    "PKAWV, M=2": ("pkawv-taylor", {"alpha": 1.0, "degree": 2}),
    "PKAWV, M=3": ("pkawv-taylor", {"alpha": 1.0, "degree": 3}),
    "PKAWV, M=4": ("pkawv-taylor", {"alpha": 1.0, "degree": 4}),
    "PKAWV, Nystrom": ("pkawv-nystrom", {"alpha": 1.0}),
    "PROS-N-KONS": ("pros-n-kons", {"clip": 1.0}),
    "FOGD": ("fogd", {"n_features": 1000, "eta": 1.0 / np.sqrt(ROWS)}),
}


def plan(options: Options, _: list[Outcome]) -> list[Job]:
    """Plan every learner against its own adversary."""
    return [
        Job(label, "adversary", game, seed,
            {"algorithm": algorithm, "params": {k: float(v) if isinstance(v, float) else v
                                                for k, v in params.items()},
             "rows": 30 if options.quick else ROWS})
        for label, (algorithm, params) in LEARNERS.items()
        for seed in options.seeds(RUNS)
    ]  # fmt: skip


def game(job: Job) -> dict[str, Any]:
    """Return sup_f [R_t(f) - alpha |f|^2] after each row that the adversary chose."""
    from papers.adversaries import greedy

    learner = make_as_in_paper(
        job.settings["algorithm"], kernel=Gaussian(1.0), random_state=job.seed,
        **job.settings["params"],
    )  # fmt: skip
    played = greedy(
        learner, job.settings["rows"], Gaussian(1.0), 1.0, columns=COLUMNS, n_candidates=500,
        seed=job.seed,
    )  # fmt: skip
    return {"regret": played.regret, "size": learner.size_}


def page(options: Options, records: list[Outcome]) -> Page:
    """Make the page: a figure, and the regret at the end."""
    del options
    curves = {
        label: np.array([r["result"]["regret"] for r in of(records, "adversary", label)])
        for label in dict.fromkeys(r["label"] for r in records)
    }
    rows: list[tuple[str, ...]] = []
    for label, found in curves.items():
        spread = f" ± {found[:, -1].std(ddof=1):.2f}" if len(found) > 1 else ""
        middle = found[:, found.shape[1] // 2 - 1].mean()
        last = f"{found[:, -1].mean():.2f}{spread}"
        rows.append((label, str(len(found)), f"{middle:.2f}", last))

    def figure(path: Path) -> None:
        lines = [
            Line(label, np.arange(1, found.shape[1] + 1), found.mean(axis=0))
            for label, found in curves.items()
        ]
        draw([("rows", "regret", lines, ("linear", "linear"))], path)

    length = next(iter(curves.values())).shape[1]
    return Page(
        "PKAWV, Figure 3: a greedy adversary",
        [
            "At every row the adversary chooses the (x, y) that raises the regret "
            "sup_f [R(f) - alpha |f|²] of the learner most: x among 500 points drawn in [-1, 1]^5, "
            "y in {-1, 1}. Gaussian kernel of bandwidth 1, alpha = 1; KORS with gamma = beta = 1, "
            "epsilon = 0.5; FOGD with 1000 frequencies and step 1/sqrt(n).",
        ],
        [Section(f"Regret after {length} rows",
                 ("learner", "runs", f"at {length // 2}", "at the end"), rows, left=1)],
        NOTES,
        [Figure("pkawv-3", "Regret against rows, mean over the runs.", figure)],
    )  # fmt: skip


NOTES = [
    "The paper has a figure without numbers. Its adversary optimises over all of [-1, 1]^5 × "
    "[-1, 1] with SciPy; here x is one of 500 drawn points (other points in each run) and y one "
    "of the two ends, between which the gain is convex and so never larger.",
    "The paper plots the regret without naming the competitor; here it is the supremum with the "
    "penalty alpha |f|², which its theorems bound.",
    "Only the order of the curves can be compared: Kernel-AWV best, PKAWV closer to it with "
    "every degree, PROS-N-KONS worst because of its restarts, FOGD good.",
]

EXPERIMENT = Experiment("pkawv-3", (), (plan,), page)
