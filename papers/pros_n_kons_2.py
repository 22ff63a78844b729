"""PROS-N-KONS (2017), Table 2: online error on the classification sets."""

from __future__ import annotations

from typing import Any

from papers.experiment import Experiment, Job, Options, runs_text, view
from papers.page import HEADER, Page, Printed, Section, labels, of, summarise, table_row
from papers.pros_n_kons_1 import FORMS, KONS
from papers.work import COMPARATOR_ROWS, PUBLIC, online, online_public_kors
from pronk.evaluate.study import Outcome

#: The same paper, Table 2, by alpha = gamma.
PRINTED: dict[str, dict[float, dict[str, Printed]]] = {
    "ijcnn1": {
        1.0: {
            "PROS-N-KONS": (9.70, 0.01, 100, 211.91),
            "CON-KONS": (9.64, 0.01, 101, 215.71),
            "B-KONS": (9.70, 0.01, 98, 206.53),
            "BATCH": (8.33, 0.03, None, None),
        },
        0.01: {
            "PROS-N-KONS": (10.73, 0.12, 436, 1003.82),
            "CON-KONS": (6.23, 0.18, 432, 987.33),
            "B-KONS": (4.85, 0.08, 100, 147.22),
            "BATCH": (5.61, 0.01, None, None),
        },
        0.0: {
            "FOGD": (9.06, 0.05, 400, None),
            "NOGD": (9.55, 0.01, 100, None),
            "Dual-SGD": (8.35, 0.20, 100, None),
        },
    },
    "cod-rna": {
        1.0: {
            "PROS-N-KONS": (13.95, 1.19, 38, 270.81),
            "CON-KONS": (18.99, 9.47, 38, 271.85),
            "B-KONS": (13.99, 1.16, 38, 274.94),
            "BATCH": (3.781, 0.01, None, None),
        },
        0.01: {
            "PROS-N-KONS": (4.91, 0.04, 111, 459.28),
            "CON-KONS": (5.81, 1.96, 111, 458.90),
            "B-KONS": (4.57, 0.05, 100, 333.57),
            "BATCH": (3.61, 0.01, None, None),
        },
        0.0: {
            "FOGD": (10.30, 0.10, 400, None),
            "NOGD": (13.80, 2.10, 100, None),
            "Dual-SGD": (4.83, 0.21, 100, None),
        },
    },
}
SETS = ("ijcnn1", "cod-rna")
RUNS = 15
#: The hinge loss has no curvature, and the text does not say what takes its place.
READINGS: dict[str, dict[str, Any]] = {
    "hinge, η=1/(C√t)": {"loss": "hinge", "eta": "convex"},
    "hinge, η=1/16": {"loss": "hinge", "eta": 1.0 / 16.0},
    "squared hinge": {"loss": "squared_hinge", "eta": "auto"},
}
ALPHAS = (1.0, 0.01)
STEPS = (0.05, 0.5, 5.0)


def _view(name: str) -> dict[str, Any]:
    # Table 2's cod-rna is the test file.
    return view(data=name, part="test" if name == "cod-rna" else "all")


def plan(options: Options, _: list[Outcome]) -> list[Job]:
    """Plan two alphas, three readings, two kernels, three learners; first-order learners."""
    jobs = []
    for name in options.wanted(SETS):
        for seed in options.seeds(RUNS):
            for label, settings in _learners(seed):
                if options.rows() is not None:
                    settings["rows"] = options.rows()
                work = online_public_kors if "1/p" in label else online
                jobs.append(Job(label, name, work, seed, settings, _view(name)))
    return jobs


def _learners(seed: int) -> list[tuple[str, dict[str, Any]]]:
    learners: list[tuple[str, dict[str, Any]]] = []
    for step in STEPS:
        params = {"bandwidth": 8.0, "eta": step}
        fogd = {"algorithm": "fogd", "params": {**params, "n_features": 400}}
        nogd = {"algorithm": "nogd", "params": {**params, "budget": 100, "rank": 20}}
        learners += [(f"0|FOGD|eta={step:g}", fogd), (f"0|NOGD|eta={step:g}", nogd)]
    for alpha in (1e-6, 1e-5, 1e-4):
        dual = {"bandwidth": 8.0, "alpha": alpha, "budget": 100, "n_features": 100}
        learners.append((f"0|Dual-SGD|alpha={alpha:g}", {"algorithm": "dual-sgd", "params": dual}))
    for alpha in ALPHAS:
        for form, bandwidth in FORMS.items():
            for reading, choice in READINGS.items():
                learners += _newton(alpha, f"{reading}, {form}", bandwidth, 1.0, choice, seed)
        for form, (bandwidth, beta) in PUBLIC.items():
            choice = READINGS["squared hinge"]
            learners += _newton(alpha, f"squared hinge, {form}", bandwidth, beta, choice)
    return learners


def _newton(
    alpha: float, told: str, bandwidth: float, beta: float, choice: dict[str, Any],
    seed: int | None = None,
) -> list[tuple[str, dict[str, Any]]]:  # fmt: skip
    learners = []
    for name, algorithm in KONS.items():
        params = {
            "bandwidth": bandwidth, "alpha": alpha, "gamma": alpha, "beta": beta,
            "epsilon": 0.5, "clip": 1.0, **choice,
        }  # fmt: skip
        if algorithm == "b-kons":
            params["budget"] = 100
        settings: dict[str, Any] = {"algorithm": algorithm, "params": params}
        # The comparator depends on the dictionary only, and its spread is small.
        if name == "CON-KONS" and choice["loss"] == "squared_hinge" and seed == 0:
            settings["hindsight"] = {"best": alpha}
        learners.append((f"{alpha:g}|{name}|{told}", settings))
    return learners


def page(options: Options, records: list[Outcome]) -> Page:
    """Make the page: one section per data set and alpha."""
    sections = []
    for group in dict.fromkeys(r["group"] for r in records):
        for alpha in (*ALPHAS, 0.0):
            rows = []
            for label in labels(records, group):
                said, name, setting = label.split("|")
                if float(said) != alpha:
                    continue
                found = of(records, group, label)
                printed = PRINTED[group][alpha]
                rows.append(table_row(name, setting, summarise(found), printed[name], True))
                best = summarise(found, "best")
                if best is not None:
                    form = setting.rpartition(", ")[2]
                    rows.append(table_row("BATCH", form, best, printed["BATCH"], True, timed=False))
            title = f"{group}, " + (f"alpha = gamma = {alpha:g}" if alpha else "first order")
            sections.append(Section(title, HEADER, rows))
    return Page(
        "PROS-N-KONS, Table 2: classification",
        [
            "Online error in percent, every row predicted before it is learned; points held at the "
            "end; seconds in the learner. cod-rna is its test file (271,617 rows), ijcnn1 has all "
            "141,691 rows. Columns scaled to [0, 1], beta = 1, epsilon = 0.5, clip 1; B-KONS holds "
            "at most 100 points.",
            runs_text(options, records, RUNS),
        ],
        sections,
        NOTES,
    )


NOTES = [
    "**The hinge loss has no curvature**, so the text does not define the coefficient η of g g' "
    "in A. Three readings are shown: η = 1/(C√t), the only one with a guarantee; η = 1/(16 C²), "
    "the constant of the squared loss; and the squared hinge loss with its own constant. C = 1.",
    "**9.57 %** of the labels of ijcnn1 and 33.33 % of cod-rna are positive. With alpha = gamma "
    "= 1 and so wide a kernel, learners of ijcnn1 hardly leave the constant -1, here as in "
    "print (9.64 to 9.70).",
    "**The squared hinge is the best reading** nearly everywhere, and the nearest to print. "
    "Under the plain hinge every row within the margin adds η φφ' to A, so steps fall like 1/t "
    "(or 1/√t) and the learner cannot correct its first rows.",
    "**The form of the kernel is not stated**: exp(-r²/(2·8²)) and exp(-r²/8²) are both shown. "
    "BATCH, which does not depend on the order of the rows, is nearer to print with the second "
    "on cod-rna, but not everywhere.",
    "**Dictionaries are larger than printed** (weights 1/sqrt(p) as in the definition; see "
    "Table 1), and PROS-N-KONS restarts at every point: several hundred times on ijcnn1 with "
    "alpha = gamma = 0.01. B-KONS stops growing at 100 points and therefore beats PROS-N-KONS, "
    "here as in the paper.",
    "**The printed sizes belong to the weights 1/p of public code and to columns in [-1, 1]**: "
    "exp(-r²/32) on [0, 1] is the kernel of bandwidth 8 on [-1, 1]. With both (rows *KORS with "
    "1/p*) the sizes are 101, 437, 36 and 111 (printed: 100, 436, 38 and 111). The errors of "
    "PROS-N-KONS are then within about two points of print, except for cod-rna with alpha = "
    "gamma = 1, where they are lower.",
    "**ijcnn1 with alpha = gamma = 0.01**: no reading reaches the printed 4.85 of B-KONS, which "
    "is below the printed BATCH, the best in hindsight. The minimiser of the squared hinge loss "
    "in the span of its 100 points, with the penalty 0.01 |f|², errs on 7.2 % of the rows with "
    "exp(-r²/128), 6.5 % with exp(-r²/64), 5.6 % with exp(-r²/32); only a penalty of 1e-5 gives "
    "3.2 %. So the printed run cannot have had alpha = 0.01 and such a kernel. Smaller alphas "
    "(1e-4, 1e-6) bring the learner to 7.8 %; narrower kernels, other constants η, the squared "
    "loss and unscaled columns do not reach 4.85 with 100 points either.",
    "**CON-KONS** keeps its state and gains from every point. The printed deviations of 9.47 "
    "and 1.96 on cod-rna suggest runs that broke down; none does here (all predictions stay in "
    "[-1, 1], also at the row after an addition).",
    "**FOGD, NOGD and Dual-SGD** are quoted in the paper from other papers with other kernels "
    "and tuned steps. Here they have the kernel exp(-r²/128) and three steps each (NOGD: rank "
    "20).",
    "**BATCH**: least squared hinge loss in the span of the final dictionary, penalty alpha "
    f"|f|²; one run, chosen on the first {COMPARATOR_ROWS:,} rows and scored on all. The paper "
    "states neither loss nor regularisation.",
    "**Time**: the paper's seconds are those of its authors' program and machine.",
]

EXPERIMENT = Experiment("pros-n-kons-2", SETS, (plan,), page)
