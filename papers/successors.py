"""The papers' successors, NONS-ALD (2023) and AIOLI (2020), beside the papers' learners.

Neither paper's table is reproduced: the sets and settings are those of the PROS-N-KONS paper for
numbers, and one setting for all learners of labels. At most 10,000 rows of each set are used.
"""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np

from papers.datasets import load
from papers.experiment import Experiment, Job, Options, runs_text, view
from papers.page import Page, Section, labels, loss_text, of, seconds_text, summarise
from papers.work import WARM, chosen_rows, learner
from pronk.evaluate.study import Outcome

NUMBERS = ("parkinson", "cpusmall", "cadata", "casp")
LABELS = ("cod-rna", "ijcnn1")
SETS = NUMBERS + LABELS
RUNS, ROWS = 5, 10_000
KORS = {"gamma": 1.0, "beta": 1.0, "epsilon": 0.5}
#: Learners of numbers, with the settings of the PROS-N-KONS paper, Section 5: columns and target in
#: [0, 1], bandwidth 8, predictions in [-1, 1].
REGRESSION: dict[str, tuple[str, dict[str, Any]]] = {
    "PROS-N-KONS": ("pros-n-kons", KORS),
    "CON-KONS": ("con-kons", KORS),
    "CON-KONS, eta of NONS-ALD": ("con-kons", {**KORS, "eta": "unit"}),
    "NONS-ALD, nu = 0.01": ("nons-ald", {"nu": 0.01}),
    "NONS-ALD, nu = 1e-4": ("nons-ald", {"nu": 1e-4}),
    "NONS-ALD, nu = 1e-6": ("nons-ald", {"nu": 1e-6}),
}
#: Learners of labels, on the same dictionaries.
CLASSIFICATION: dict[str, tuple[str, dict[str, Any]]] = {
    "PKAWV": ("pkawv-nystrom", {"history": "projected"}),
    "CON-KONS, squared hinge": ("con-kons", {}),
    "CON-KONS, logistic": ("con-kons", {"loss": "logistic"}),
    "CON-KONS, logistic, clip 5": ("con-kons", {"loss": "logistic", "clip": 5.0}),
    "AIOLI": ("aioli", {}),
    "AIOLI, BR = 5": ("aioli", {"radius": 5.0}),
}


def plan(options: Options, _: list[Outcome]) -> list[Job]:
    """Plan every learner on every set."""
    jobs = []
    for name in options.wanted(SETS):
        numbers = name in NUMBERS
        common: dict[str, Any] = (
            {"bandwidth": 8.0, "alpha": 1.0, "clip": 1.0}
            if numbers
            else {"bandwidth": 1.0, "alpha": 0.1, "budget": 100}
        )
        for seed in options.seeds(RUNS):
            for label, (algorithm, params) in (REGRESSION if numbers else CLASSIFICATION).items():
                settings = {
                    "algorithm": algorithm,
                    "params": {**common, **params},
                    "rows": options.rows() or ROWS,
                }
                jobs.append(Job(label, name, race, seed, settings, view(data=name)))
    return jobs


def race(job: Job) -> dict[str, Any]:
    """Predict and learn each row: mean squared loss, or error and log loss; points, seconds."""
    X, y = load(job.data())
    rows = chosen_rows(job, len(y))
    X, y = X[rows], y[rows]
    learner(job).predict_then_learn(X[:WARM], y[:WARM])
    model = learner(job)
    numbers = job.data().task == "regression"
    started = perf_counter()
    p = model.predict_then_learn(X, y, **({} if numbers else {"output": "decision"}))
    seconds = perf_counter() - started
    result: dict[str, Any] = {"rows": len(y), "seconds": seconds, "size": model.size_}
    if numbers:
        return {**result, "loss": float(np.mean((p - y) ** 2))}
    signs = np.where(y == model.classes_[1], 1.0, -1.0)
    result["loss"] = float(np.mean((p >= 0.0) != (signs > 0.0)))
    if hasattr(model, "predict_proba"):
        result["log loss"] = float(np.mean(np.logaddexp(0.0, -signs * p)))
    return result


def page(options: Options, records: list[Outcome]) -> Page:
    """Make the page: one section per data set."""
    sections = []
    for group in dict.fromkeys(r["group"] for r in records):
        numbers, rows = group in NUMBERS, []
        for label in labels(records, group):
            found = of(records, group, label)
            ours, log_loss = summarise(found), summarise(found, "log loss")
            if ours is None:
                continue
            cells = [label, loss_text(ours.loss, ours.spread, not numbers)]
            if not numbers:
                cells.append("" if log_loss is None else loss_text(log_loss.loss, None, False))
            rows.append((*cells, f"{ours.size or 0:.0f}", seconds_text(ours.seconds)))
        count = summarise(of(records, group, labels(records, group)[0]))
        shown = "" if count is None else f", {count.rows:,} rows"
        measured = ("mean squared loss",) if numbers else ("error in %", "log loss")
        header = ("algorithm", *measured, "points", "s")
        sections.append(Section(f"{group}{shown}", header, rows, left=1))
    return Page(
        "Successors of the papers: NONS-ALD and AIOLI",
        [
            "Every row is predicted before it is learned; points held at the end; seconds in the "
            "learner. Numbers: columns and target scaled to [0, 1], Gaussian kernel of bandwidth "
            "8, alpha 1, predictions clipped to [-1, 1], KORS with gamma = beta = 1 and epsilon = "
            "0.5. Labels: bandwidth 1, alpha 0.1, at most 100 points, sampled by KORS with the "
            "same draws for all learners.",
            runs_text(options, records, RUNS).replace(" (the paper: 5)", ""),
        ],
        sections,
        NOTES,
    )


NOTES = [
    "**NONS-ALD** differs from CON-KONS in three ways: the dictionary, the step "
    "eta = 1/(4 clip² + 4) (CON-KONS: 1/(16 clip²), half the curvature), and the row that enters, "
    "which is learned in the larger span. The row *CON-KONS, eta of NONS-ALD* separates the step "
    "from the rest.",
    "**The log loss** of a learner without probabilities is left out. That of CON-KONS with "
    "logistic loss depends on its clip: with the default, 1, probabilities stay in "
    "[0.27, 0.73], and a larger clip has an exponentially smaller curvature.",
]

EXPERIMENT = Experiment("successors", SETS, (plan,), page)
