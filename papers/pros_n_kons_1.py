"""PROS-N-KONS (2017), Table 1: mean squared loss on the regression sets."""

from __future__ import annotations

from itertools import product
from math import sqrt
from statistics import fmean
from typing import Any

from papers.experiment import Experiment, Job, Options, runs_text, view
from papers.page import HEADER, Page, Printed, Section, labels, of, summarise, table_row
from papers.work import PUBLIC, dictionary_size, online, online_public_kors
from pronk.evaluate.study import Outcome

#: Calandriello, Lazaric, Valko 2017 (PROS-N-KONS), Table 1.
PRINTED: dict[str, dict[str, Printed]] = {
    "parkinson": {
        "FOGD": (0.04909, 0.00020, 30, None),
        "NOGD": (0.04896, 0.00068, 30, None),
        "PROS-N-KONS": (0.05798, 0.00136, 18, 5.16),
        "CON-KONS": (0.05696, 0.00129, 18, 5.21),
        "B-KONS": (0.05795, 0.00172, 18, 5.35),
        "BATCH": (0.04535, 0.00002, None, None),
    },
    "cpusmall": {
        "FOGD": (0.02577, 0.00050, 30, None),
        "NOGD": (0.02559, 0.00024, 30, None),
        "PROS-N-KONS": (0.02494, 0.00141, 20, 7.28),
        "CON-KONS": (0.02269, 0.00164, 20, 7.40),
        "B-KONS": (0.02496, 0.00177, 20, 7.37),
        "BATCH": (0.01090, 0.00082, None, None),
    },
    "cadata": {
        "FOGD": (0.04097, 0.00015, 30, None),
        "NOGD": (0.03983, 0.00018, 30, None),
        "PROS-N-KONS": (0.03095, 0.00110, 20, 18.59),
        "CON-KONS": (0.02850, 0.00174, 19, 18.45),
        "B-KONS": (0.03095, 0.00118, 19, 18.65),
        "BATCH": (0.02202, 0.00002, None, None),
    },
    "casp": {
        "FOGD": (0.08021, 0.00031, 30, None),
        "NOGD": (0.07844, 0.00008, 30, None),
        "PROS-N-KONS": (0.06773, 0.00105, 21, 40.73),
        "CON-KONS": (0.06832, 0.00315, 20, 40.91),
        "B-KONS": (0.06775, 0.00067, 21, 41.13),
        "BATCH": (0.06100, 0.00003, None, None),
    },
}
SETS = tuple(PRINTED)
RUNS = 15
#: The two readings of "bandwidth 8", as bandwidths of exp(-r^2 / (2 bandwidth^2)).
FORMS = {"exp(-r²/128)": 8.0, "exp(-r²/64)": 8.0 / sqrt(2.0)}
STEPS = (0.01, 0.05, 0.2)
#: Other readings of KORS: bandwidths, and the power of p in the weights.
WIDTHS = (8.0, 8.0 / sqrt(2.0), 4.0, sqrt(8.0))
WEIGHTS = {0.5: "1/sqrt(p), the definition", 1.0: "1/p, public code"}
KONS = {"PROS-N-KONS": "pros-n-kons", "CON-KONS": "con-kons", "B-KONS": "b-kons"}


def plan(options: Options, _: list[Outcome]) -> list[Job]:
    """Plan three learners with both kernels, and first-order learners with three steps."""
    jobs = []
    for name in options.wanted(SETS):
        for seed in options.seeds(RUNS):
            for label, algorithm, params in _learners():
                work = online_public_kors if "1/p" in label else online
                settings: dict[str, Any] = {"algorithm": algorithm, "params": params}
                if options.rows() is not None:
                    settings["rows"] = options.rows()
                if algorithm == "con-kons" and work == online:
                    settings["hindsight"] = {"batch": 1.0, "free": 1e-6}
                jobs.append(Job(label, name, work, seed, settings, view(data=name)))
        for seed in options.seeds(RUNS)[:3]:
            for bandwidth, power in product(WIDTHS, WEIGHTS):
                settings = {"bandwidth": bandwidth, "power": power}
                if options.rows() is not None:
                    settings["rows"] = options.rows()
                jobs.append(Job("size", name, dictionary_size, seed, settings, view(data=name)))
    return jobs


def _learners() -> list[tuple[str, str, dict[str, Any]]]:
    learners: list[tuple[str, str, dict[str, Any]]] = []
    for step in STEPS:
        first = {"bandwidth": 8.0, "eta": step}
        learners.append((f"FOGD|eta={step:g}", "fogd", {**first, "n_features": 30}))
        learners.append((f"NOGD|eta={step:g}", "nogd", {**first, "budget": 30, "rank": 30}))
    forms = {form: (bandwidth, 1.0) for form, bandwidth in FORMS.items()} | PUBLIC
    for form, (bandwidth, beta) in forms.items():
        for name, algorithm in KONS.items():
            params: dict[str, Any] = {
                "bandwidth": bandwidth, "alpha": 1.0, "gamma": 1.0, "beta": beta, "epsilon": 0.5,
                "clip": 1.0,
            }  # fmt: skip
            if algorithm == "b-kons":
                params["budget"] = 100
            learners.append((f"{name}|{form}", algorithm, params))
    return learners


def page(options: Options, records: list[Outcome]) -> Page:
    """Make the page: one section per data set, and dictionary sizes in other readings."""
    sizes = [r for r in records if r["label"] == "size"]
    records = [r for r in records if r["label"] != "size"]
    sections = []
    for group in dict.fromkeys(r["group"] for r in records):
        rows, batch = [], []
        for label in labels(records, group):
            name, setting = label.split("|")
            printed = PRINTED[group][name]
            found = of(records, group, label)
            rows.append(table_row(name, setting, summarise(found), printed, False))
            if name == "CON-KONS" and setting in FORMS:
                printed = PRINTED[group]["BATCH"]
                for key, penalty in (("batch", "1"), ("free", "1e-6")):
                    best, told = summarise(found, key), f"{setting}, penalty {penalty}"
                    batch.append(table_row("BATCH", told, best, printed, False, timed=False))
        rows += batch
        n = summarise(of(records, group, labels(records, group)[0]))
        count = "" if n is None else f", {n.rows:,} rows"
        sections.append(Section(f"{group}{count}", HEADER, rows))
    sections.append(_sizes(sizes))
    return Page(
        "PROS-N-KONS, Table 1: regression",
        [
            "Mean squared loss, every row predicted before it is learned; points held at the end; "
            "seconds in the learner. Columns and target scaled to [0, 1]; Gaussian kernel of "
            "bandwidth 8 in both readings of the text; alpha = gamma = beta = 1, epsilon = 0.5, "
            "predictions clipped to [-1, 1]; B-KONS holds at most 100 points.",
            runs_text(options, records, RUNS),
        ],
        sections,
        NOTES,
    )


def _sizes(records: list[Outcome]) -> Section:
    groups = list(dict.fromkeys(r["group"] for r in records))
    rows: list[tuple[str, ...]] = []
    for power, bandwidth in product(WEIGHTS, WIDTHS):
        cells = []
        for group in groups:
            found = [
                r["result"]["size"] for r in records
                if r["group"] == group
                and r["settings"]["bandwidth"] == bandwidth and r["settings"]["power"] == power
            ]  # fmt: skip
            cells.append(f"{fmean(found):.0f}")
        rows.append((WEIGHTS[power], f"{bandwidth:.3g}", *cells))
    printed = [f"{PRINTED[group]['PROS-N-KONS'][2]:g}" for group in groups]
    rows.append(("printed", "", *printed))
    return Section(
        "Dictionary sizes in other readings", ("weights", "bandwidth", *groups), rows,
        "Points that KORS accepts (gamma = beta = 1, epsilon = 0.5), at most 3 runs. 8 and 5.66 "
        "are the two readings of the kernel; 2.83 would be a variance of 8.",
        left=1,
    )  # fmt: skip


NOTES = [
    "**Dictionaries are about twice the printed size.** Sampling weights are those of the "
    "definition, 1/sqrt(p) on each side of the kernel matrix; public programs use 1/p. With 1/p "
    "and exp(-r²/32), the kernel of bandwidth 8 on columns in [-1, 1], the sizes of Table 2 "
    "come out as printed to two points; here they are 25, 17, 17 and 18 (printed: 18, 20, 20 "
    "and 21), and exp(-r²/64) with twice the oversampling gives 30, 22, 20 and 22. These rows "
    "are marked *KORS with 1/p*. parkinson is too large under every reading tried. The last "
    "table has more bandwidths.",
    "**PROS-N-KONS and B-KONS lose more than printed** because they restart at every new point, "
    "and twice the points are twice the restarts. With the smaller dictionaries of the 1/p rows "
    "most of the difference is gone. With a budget of 100 and about 40 points, B-KONS equals "
    "PROS-N-KONS.",
    "**CON-KONS loses less than printed**: it does not restart, so a larger space only helps. "
    "It also takes the gradient step and the projection at the row after an addition; the text, "
    "read literally, does neither and leaves [-1, 1].",
    "**Public code measures the loss one step late** (with the weights before the last gradient "
    "step) and does not learn from the added point; both effects are small here.",
    "**FOGD and NOGD**: quoted in the paper from Lu et al. (2016) without step sizes; three are "
    "shown. FOGD has 30 frequencies, NOGD 30 points and rank 30.",
    "**BATCH**: the regularisation is not stated. Shown are the penalty alpha |f|² with alpha = "
    "1 and 1e-6, in the span of the final dictionary, which is larger than the paper's. The "
    "loss excludes the penalty.",
    "slice and year, also in the paper's table, are missing here: the data was not available.",
]

EXPERIMENT = Experiment("pros-n-kons-1", SETS, (plan,), page)
