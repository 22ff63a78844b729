"""DualSVRG (2022), Table 2: online mistake rates."""

from __future__ import annotations

from typing import Any

from papers.dualsvrg import (
    CHOOSING,
    CHOOSING_DUAL,
    LOSSES,
    RUNS,
    SETS,
    SMOOTHNESS,
    baselines,
    choosing,
    data_view,
    grid,
    limit_of,
    rows_of,
    runs_of,
    said,
    sections,
    variants,
)
from papers.experiment import Experiment, Job, Options, runs_text
from papers.page import Page, Printed
from papers.work import online, select
from pronk.evaluate.study import Outcome

#: Le, Nguyen, Phung 2022 (DualSVRG), Table 2, online mistake rates and seconds.
PRINTED: dict[str, dict[str, Printed]] = {
    "w8a": {
        "Perceptron": (3.51, 0.03, None, 691),
        "OGD": (2.54, 0.03, None, 1290),
        "RBP": (4.02, 0.07, None, 545),
        "Forgetron": (3.96, 0.10, None, 558),
        "Projectron": (4.76, 1.13, None, 572),
        "Projectron++": (3.08, 0.63, None, 1322),
        "BOGD": (3.16, 0.08, None, 589),
        "FOGD": (3.52, 0.05, None, 26),
        "NOGD": (2.55, 0.05, None, 585),
        "DualSGD": (2.99, 0.01, None, 32),
        "DualSVRG-H-B": (2.99, 0.00, None, 93),
        "DualSVRG-H-C": (2.50, 0.01, None, 82),
        "DualSVRG-H-AM": (2.43, 0.02, None, 69),
        "DualSVRG-L-B": (2.99, 0.00, None, 97),
        "DualSVRG-L-C": (2.99, 0.00, None, 77),
        "DualSVRG-L-AM": (2.99, 0.00, None, 60),
    },
    "cod-rna": {
        "Perceptron": (9.79, 0.04, None, 1394),
        "OGD": (7.81, 0.03, None, 2804),
        "RBP": (26.02, 0.39, None, 86),
        "Forgetron": (28.56, 2.22, None, 103),
        "Projectron": (11.16, 3.61, None, 97),
        "Projectron++": (17.97, 15.60, None, 1780),
        "BOGD": (38.13, 0.11, None, 105),
        "FOGD": (7.15, 0.03, None, 53),
        "NOGD": (7.83, 0.06, None, 105),
        "DualSGD": (4.92, 0.25, None, 98),
        "DualSVRG-H-B": (7.72, 0.14, None, 274),
        "DualSVRG-H-C": (4.95, 0.01, None, 248),
        "DualSVRG-H-AM": (7.64, 0.09, None, 225),
        "DualSVRG-L-B": (5.02, 0.18, None, 251),
        "DualSVRG-L-C": (5.06, 0.13, None, 229),
        "DualSVRG-L-AM": (5.01, 0.18, None, 253),
    },
    "covtype": {
        "FOGD": (40.45, 0.05, None, 223),
        "NOGD": (34.72, 0.07, None, 838),
        "DualSGD": (49.64, 0.50, None, 222),
        "DualSVRG-H-B": (23.08, 0.35, None, 966),
        "DualSVRG-H-C": (22.94, 0.31, None, 654),
        "DualSVRG-H-AM": (22.92, 0.39, None, 751),
        "DualSVRG-L-B": (24.67, 0.01, None, 820),
        "DualSVRG-L-C": (24.72, 0.20, None, 666),
        "DualSVRG-L-AM": (24.73, 0.20, None, 654),
    },
    "airlines": {
        "FOGD": (20.98, 0.01, None, 1271),
        "NOGD": (25.56, 0.01, None, 3554),
        "DualSGD": (19.28, 0.00, None, 1113),
        "DualSVRG-H-B": (19.00, 0.09, None, 6102),
        "DualSVRG-H-C": (18.96, 0.01, None, 4631),
        "DualSVRG-H-AM": (18.91, 0.01, None, 4333),
        "DualSVRG-L-B": (18.60, 0.08, None, 6336),
        "DualSVRG-L-C": (18.65, 0.02, None, 4605),
        "DualSVRG-L-AM": (18.58, 0.03, None, 4465),
    },
}
#: Steps with which the ranges are searched once more, over all rows.
READINGS = {"η=1/(76 M)": 1.0 / 76.0, "η=0.8/(24 M)": 0.8 / 24.0, "η=1/M": 1.0}


def scripts(name: str) -> dict[str, dict[str, Any]]:
    """Return the settings of the authors' published scripts, where known."""
    known: dict[str, dict[str, float]] = {
        "cod-rna": {
            "precision": 4.0, "alpha": 5e-7, "n_features": 1600, "memory": 10, "period": 100,
        },
        "covtype": {
            "precision": 4.0, "alpha": 1.08e-7, "n_features": 1600, "memory": 5, "period": 100,
        },
        "airlines": {
            "precision": 16.0, "alpha": 1.05e-8, "n_features": 4000, "memory": 100, "period": 5000,
        },
    }  # fmt: skip
    if SETS[name] not in known:
        return {}
    chosen = {}
    for label, settings in variants(name).items():
        params = {**settings["params"], **known[SETS[name]]}
        if label == "DualSVRG-H-C" and name == "cod-rna":
            params.update(precision=1.0 / 256.0, alpha=3.1e-3)
        # 0.8 min(1/M, 1/|24 M - lambda|), with M = 1 for the logistic loss and 1/tau for the hinge
        smoothness = 1.0 if params["loss"] == "logistic" else 2.0
        params["eta"] = 0.8 * min(1.0 / smoothness, 1.0 / abs(24.0 * smoothness - params["alpha"]))
        chosen[label] = {**settings, "params": params}
    return chosen


def choose(options: Options, _: list[Outcome]) -> list[Job]:
    """Plan the search for kernel width, regularisation and step of every learner."""
    jobs = []
    for name in options.wanted(list(SETS)):
        learners = {**baselines(name), **variants(name)}
        for label in [label for label in learners if label in PRINTED[SETS[name]]]:
            settings = learners[label]
            choices = grid(settings["algorithm"], rows_of(name))
            if options.quick:
                choices = choices[:: max(1, len(choices) // 4)]
            rows = choosing(options, settings["algorithm"])
            search = {**settings, "rows": rows, "grid": choices}
            jobs.append(Job(label, name, select, 10_000, search, data_view(name)))
        jobs += hindsight(options, name)
    return jobs


def hindsight(options: Options, name: str) -> list[Job]:
    """Plan the search over all rows of a run, for several steps (λ from its lower half)."""
    jobs = []
    for letter, loss in LOSSES.items():
        learner = variants(name)[f"DualSVRG-{letter}-AM"]
        widest = max(choice["alpha"] for choice in grid("dual", rows_of(name)))
        choices = [c for c in grid("dual", rows_of(name)) if c["alpha"] <= widest * 2.0**-12]
        for step, factor in READINGS.items():
            params = {**learner["params"], "eta": factor / SMOOTHNESS[loss]}
            search = {
                **learner, "params": params, "grid": choices[:2] if options.quick else choices,
                "online": True, **limit_of(options, name),
            }  # fmt: skip
            label = f"{letter}|{step}"
            jobs.append(Job(label, name, select, 0, search, data_view(name)))
    return jobs


def plan(options: Options, chosen: list[Outcome]) -> list[Job]:
    """Plan runs with the chosen parameters, DualSVRG also with the best and the scripts'."""
    searched = [r for r in chosen if not r["settings"].get("online")]
    best = [r for r in chosen if r["settings"].get("online")]
    jobs = []
    for record in searched:
        limit = limit_of(options, record["group"])
        params = {**record["settings"]["params"], **record["result"]["params"]}
        settings = {"algorithm": record["settings"]["algorithm"], "params": params, **limit}
        for seed in runs_of(options, record["group"], record["label"]):
            label = f"{record['label']}|{said(record['result']['params'])}"
            jobs.append(Job(label, record["group"], online, seed, settings, record["view"]))
    for name in dict.fromkeys(record["group"] for record in chosen):
        limit = limit_of(options, name)
        more = {f"{label}|scripts": script for label, script in scripts(name).items()}
        for record in (r for r in best if r["group"] == name):
            letter, step = record["label"].split("|")
            tuned = {"eta": record["settings"]["params"]["eta"], **record["result"]["params"]}
            for label, settings in variants(name).items():
                if label.startswith(f"DualSVRG-{letter}-"):
                    text = f"{label}|best: {step}, {said(record['result']['params'])}"
                    more[text] = {**settings, "params": {**settings["params"], **tuned}}
        jobs += [
            Job(label, name, online, seed, {**settings, **limit}, data_view(name))
            for label, settings in more.items()
            for seed in runs_of(options, name)
        ]
    return jobs


def page(options: Options, records: list[Outcome]) -> Page:
    """Make the page, one section per data set."""
    return Page(
        "DualSVRG, Table 2: online classification",
        [
            "Mistake rate in percent, every row predicted before it is learned; points held at the "
            "end; seconds in the learner. The paper's settings: memory m = 100, period n = 100, "
            "τ = 0.5, η = 1/(76 M), 200 random features (100 frequencies) and a budget of 100 for "
            "the dual methods; budgets, FOGD's features and coverage diameters of its Table 3. γ, "
            "λ and the steps of the first-order learners are chosen as its Section 4.1.2 says, "
            f"from its ranges, on {CHOOSING:,} rows (DualSVRG: {CHOOSING_DUAL:,}): 80 % are "
            "learned, 20 % validate; the setting column shows the choice. Every second λ of the "
            "range was tried. Rows marked *scripts* have the settings of the authors' published "
            "scripts. Rows marked *best* have the γ and λ of the same ranges that are best in "
            "hindsight (over all rows of one run, always-move oracle), for three steps.",
            runs_text(options, records, RUNS)
            + " Perceptron and OGD, which keep every mistake, have a tenth of the runs.",
        ],
        sections(records, PRINTED),
        NOTES,
    )


NOTES = [
    "**Parameters**: the paper chose γ, λ and η by validation and does not print them. Here "
    "they are searched in its ranges, on rows of the set that is then learned online, so the "
    "choice has seen some of the scored rows. The figures depend on it more than on anything "
    "else.",
    "**The step 1/(76 M) is small**: 1/152 for the smooth hinge. A model of unit norm then "
    "needs tens of thousands of rows to grow; errors are higher at first than with steps near "
    "1, and a search on few rows prefers kernels that are too narrow. The published scripts use "
    "0.8/(24 M), three times as large.",
    "**Which step was used** can be seen on cod-rna and covtype in the rows *best*, where γ and "
    "λ do not matter. The printed hinge rows of cod-rna (7.64, 7.72) lie between those of 1/(76 "
    "M) and 0.8/(24 M), the logistic ones (5.01 to 5.06) near 0.8/(24 M). The logistic rows of "
    "covtype (24.67 to 24.73) lie between the two; its hinge rows (22.92 to 23.08) need larger "
    "steps, or the scripts' step with their 1600 frequencies. With η = 1/M every variant is "
    "below print on cod-rna.",
    "**w8a**: with 100 frequencies no step reaches the printed 2.43 and 2.50; with 1,000 "
    "frequencies and η = 1/M the error is 2.0 % (hinge) and 1.8 % (logistic).",
    "**Other settings of the scripts**: more features, a shorter memory and period, and w is "
    "not replaced by u at the end of a period; the last is not done here. Where the scripts "
    "give a range one value is used (cod-rna: γ = 4, λ = 5e-7, m = 10, n = 100; its coverage "
    "variant with the hinge: γ = 1/256, λ = 3.1e-3, with which nothing is learned).",
    "**Baselines**: RBP, Forgetron and BOGD come out as badly as printed on cod-rna; "
    "Perceptron, OGD, the Projectrons, FOGD and NOGD better; DualSGD worse. The searched "
    "parameters differ.",
    "**Smoothness of the logistic loss** is not printed; M = 1/4 is used with the paper's rule "
    "and M = 1 in the scripts' rows.",
    "**2.99 %** on w8a is the share of positive labels, 1,933 of 64,700: several printed rows "
    "label everything negative.",
    "**The coverage oracle**: prose and Algorithm 4 contradict each other; Algorithm 4 is "
    "followed. θ is a diameter (as in Table 3 and the bound N(X, θ/2)): a point is covered "
    "within θ/2. With it, and cod-rna in [-1, 1], the oracle keeps 130 points of w8a and 436 of "
    "cod-rna (printed: 131 and 436); with the radius θ it keeps 1 and 38. On covtype in [0, 1] "
    "it keeps about 60; printed are 400, the budget above it in Table 3.",
    "**DualSGD**: ties between equal coefficients go to the oldest point, and the budget is "
    "tested after insertion, as in its text; its public code tests before and also keeps points "
    "with zero slope.",
    "**Rules of the baselines** are those of the original papers: a zero score is a mistake; "
    "the Projectron's threshold is 0.1 on the norm, with the budget on top; FOGD has 4 times "
    "the budget in frequencies; NOGD's rank is a fifth of its budget; BOGD has λ = 0.001. The "
    "paper's baselines come from the LSOKL toolbox, which differs in each of these.",
    "**cod-rna** and **w8a** are train and test file together; covtype is class 2 against the "
    "rest.",
]

EXPERIMENT = Experiment(
    "dualsvrg-2", tuple(SETS),
    (choose, plan), page,
)  # fmt: skip
