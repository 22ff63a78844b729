"""Shared by the tables of the DualSVRG paper (2022): data sets, learners, ranges."""

from __future__ import annotations

from itertools import product
from typing import Any

from papers.datasets import find
from papers.experiment import Options, view
from papers.page import HEADER, Printed, Section, labels, of, summarise, table_row
from pronk.evaluate.study import Outcome

RUNS = 10
#: Rows of the part on which parameters are chosen: 80 % are learned, 20 % validate. DualSVRG's
#: steps are small and need more of them to tell its parameters apart.
CHOOSING, CHOOSING_DUAL = 5000, 60_000
#: The sets, and what they stand for in the printed table.
SETS = {
    "w8a": "w8a",
    "cod-rna": "cod-rna",
    "covtype": "covtype",
    "airlines2008_26k": "airlines",
    "flights2001_3m": "airlines",
}
#: Table 3 of the paper: budget and FOGD's features of the baselines, diameter of the coverage.
BUDGET = {"w8a": 1000, "cod-rna": 400, "covtype": 400, "airlines": 1000}
FEATURES = {"w8a": 4000, "cod-rna": 1600, "covtype": 1600, "airlines": 4000}
DIAMETER = {"w8a": 13.0, "cod-rna": 1.0, "covtype": 3.0, "airlines": 1.0}
#: Section 4.1.2: the ranges searched; lambda is divided by the number of rows.
PRECISIONS = (2.0**-8, 2.0**-4, 2.0**-2, 1.0, 4.0, 16.0, 256.0)
LAMBDAS = tuple(2.0**power for power in range(-4, 17, 4))
STEPS = (16.0, 8.0, 4.0, 2.0, 0.2, 0.002, 0.0002)

ORACLES = {"B": "dual-svrg-b", "C": "dual-svrg-c", "AM": "dual-svrg-am"}
LOSSES = {"H": "smooth_hinge", "L": "logistic"}
#: M of the losses: the Lipschitz constant of the slope.
SMOOTHNESS = {"smooth_hinge": 2.0, "logistic": 0.25}
#: Learners that keep every mistake: their time grows with the square of the rows.
UNBOUNDED = ("Perceptron", "OGD")
#: Rows of the large substitute that are used.
MOST_ROWS = {"flights2001_3m": 300_000}


def data_view(name: str) -> dict[str, Any]:
    """Return the view of a set: columns in [0, 1] (cod-rna: [-1, 1]), two classes.

    With cod-rna in [-1, 1] the coverage oracle keeps as many points as the paper prints.
    """
    if name == "covtype":
        return view(data=name, positive=2.0)
    if SETS[name] == "airlines":
        return view(data=name, above=15.0)
    return view(data=name, x=None if name == "w8a" else (-1.0, 1.0))


def baselines(name: str) -> dict[str, dict[str, Any]]:
    """Return algorithm and fixed parameters of the paper's baselines on a set."""
    paper = SETS[name]
    budget = {"budget": BUDGET[paper]}
    return {
        "Perceptron": {"algorithm": "perceptron", "params": {}},
        "OGD": {"algorithm": "ogd", "params": {}},
        "RBP": {"algorithm": "rbp", "params": budget},
        "Forgetron": {"algorithm": "forgetron", "params": budget},
        "Projectron": {"algorithm": "projectron", "params": budget},
        "Projectron++": {"algorithm": "projectron++", "params": budget},
        "BOGD": {"algorithm": "bogd", "params": budget},
        "FOGD": {"algorithm": "fogd", "params": {"n_features": FEATURES[paper]}},
        "NOGD": {"algorithm": "nogd", "params": {**budget, "rank": BUDGET[paper] // 5}},
        "DualSGD": {"algorithm": "dual-sgd", "params": {"budget": 100, "n_features": 100}},
    }


def variants(name: str) -> dict[str, dict[str, Any]]:
    """Return the six DualSVRG learners with the paper's settings."""
    return {
        f"DualSVRG-{letter}-{short}": {
            "algorithm": algorithm,
            "params": {
                "loss": loss, "tau": 0.5, "eta": "auto", "memory": 100, "period": 100,
                "n_features": 100, "budget": 100, "radius": DIAMETER[SETS[name]] / 2.0,
            },
        }
        for letter, loss in LOSSES.items()
        for short, algorithm in ORACLES.items()
    }  # fmt: skip


def grid(algorithm: str, rows: int) -> list[dict[str, float]]:
    """Return the grid of parameters that is searched for an algorithm."""
    if algorithm.startswith("dual"):
        return [
            {"precision": g, "alpha": power / rows} for g, power in product(PRECISIONS, LAMBDAS)
        ]
    if algorithm in ("fogd", "nogd", "ogd", "bogd"):
        return [{"precision": g, "eta": step} for g, step in product(PRECISIONS, STEPS)]
    return [{"precision": g} for g in PRECISIONS]


def choosing(options: Options, algorithm: str) -> int:
    """Return the number of rows of the search."""
    dual = algorithm.startswith("dual-svrg")
    return 500 if options.quick else CHOOSING_DUAL if dual else CHOOSING


def rows_of(name: str) -> int:
    """Return the number of rows of a data set."""
    return find(name).rows


def runs_of(options: Options, name: str, label: str = "") -> range:
    """Return the seeds: ten or as requested, a tenth of them for slow learners and sets."""
    seeds = options.seeds(RUNS)
    slow = name == "flights2001_3m" or label in UNBOUNDED
    return range(max(1, len(seeds) // 10)) if slow else seeds


def limit_of(options: Options, name: str) -> dict[str, int]:
    """Return the limit of rows of a set, if there is one."""
    limit = options.rows() or MOST_ROWS.get(name)
    return {} if limit is None else {"rows": limit}


def said(params: dict[str, float]) -> str:
    """Format chosen parameters with the paper's letters."""
    names = {"precision": "γ", "alpha": "λ", "eta": "η", "C": "C"}
    return ", ".join(f"{names[name]}={value:.3g}" for name, value in params.items())


def sections(records: list[Outcome], printed: dict[str, dict[str, Printed]]) -> list[Section]:
    """Make one table per data set, with a row for each label "algorithm|setting"."""
    made = []
    for group in dict.fromkeys(r["group"] for r in records):
        beside = printed[SETS[group]]
        rows = []
        for label in labels(records, group):
            name, setting = label.split("|")
            ours = summarise(of(records, group, label))
            told = beside.get(name.partition(",")[0])
            rows.append(table_row(name, setting, ours, told, True))
        last = summarise(of(records, group, labels(records, group)[-1]))
        title = group
        if last is not None:
            runs = "1 run" if last.runs == 1 else f"{last.runs} runs"
            title += f", {last.rows:,} rows, {runs}"
        made.append(Section(title, HEADER, rows, SUBSTITUTES.get(group, "")))
    return made


SUBSTITUTES = {
    "airlines2008_26k": (
        "Not the paper's set: 25,888 of its 5,929,413 rows (February 2008, four carriers). The "
        "printed figures are those of the whole set and not comparable."
    ),
    "flights2001_3m": (
        "Not the paper's set: 3,000,000 flights of January to June 2001 with 7 other columns "
        "(origin and destination are codes used as numbers). The printed figures are those of "
        "airlines 2008 and not comparable. The first 300,000 rows of a permutation are used."
    ),
}
