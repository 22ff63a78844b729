"""The default learner without a parameter, over the papers' data sets and over others.

    PRONK_DATA=folder python benchmarks/bench_default.py --seeds 5          run what is missing
    python benchmarks/bench_default.py --write                              make the page again

Every run is one pass in random order (a seed shuffles the rows), or in temporal order for streams.
Runs are kept in docs/results/default.json; one that is there is not made again (--again does).
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.datasets import load_digits, load_svmlight_file
from threadpoolctl import threadpool_limits

import pronk
from pronk.evaluate import held_bytes

RESULTS = Path(__file__).parent.parent / "docs" / "results"
BLOCK = 4096

#: Published figures: best online, and BATCH or LIBSVM where the paper prints it.
PUBLISHED = {
    "parkinson": (0.04896, "NOGD", 0.04535),
    "cpusmall": (0.02269, "CON-KONS", 0.01090),
    "cadata": (0.02850, "CON-KONS", 0.02202),
    "casp": (0.06773, "PROS-N-KONS", 0.06100),
    "cod-rna": (4.57, "B-KONS", 3.61),
    "ijcnn1": (4.85, "B-KONS", 5.61),
    "covtype": (22.92, "DualSVRG-H-AM", None),
}
#: Settings of the learner are chosen on these sets alone, by name, once and for all (the first
#: rows of seed 0); all others are only looked at.
CHOOSE_ON = ("bike_hour", "elec2", "cadata", "casp", "covtype", "ijcnn1")
#: Not used while the learner was designed, or hardly; the page says which.
OTHERS = ("w8a", "digits", "airlines2008_26k", "susy_30k", "letter", "abalone", "powerplant")
STREAMS = ("elec2", "bike_hour", "flights2001", "abrupt", "gradual")
LABELS = ("cod-rna", "ijcnn1", "covtype", "susy_30k", "letter", "elec2", "w8a", "digits")
FILES = {"parkinson": "parkinsons", "cod-rna": "codrna", "flights2001": "flights2001_3m"}


class RegressorWithoutForgetting(pronk.OnlineKernelRegressor):
    _forgetting = False


class ClassifierWithoutForgetting(pronk.OnlineKernelClassifier):
    _forgetting = False


def generated(name, n=30_000):
    """Two functions, one after the other: at once in the middle, or over the middle third."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (n, 3))
    first = np.sin(3 * X[:, 0]) + X[:, 1]
    second = np.cos(3 * X[:, 0]) - X[:, 1]
    s = np.arange(n) / n
    turn = (s > 0.5).astype(float) if name == "abrupt" else np.clip(3 * s - 1, 0, 1)
    return X, (1 - turn) * first + turn * second + 0.1 * rng.normal(size=n)


def libsvm(name):
    """Training and test file together."""
    folder = Path(os.environ["PRONK_DATA"])
    parts = [
        load_svmlight_file(str(folder / f"{name}.{part}.libsvm.gz"), n_features=300)
        for part in ("train", "test")
    ]
    X = np.vstack([x.toarray() for x, _ in parts])
    return X, np.concatenate([y for _, y in parts]).astype(int)


def read(name, seed):
    """Rows and targets; targets of a regression scaled to [0, 1] as in the papers."""
    if name in ("abrupt", "gradual"):
        return generated(name)
    if name in ("w8a", "digits"):
        X, y = libsvm(name) if name == "w8a" else load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(X))
        return X[order], y[order]
    table = pq.read_table(Path(os.environ["PRONK_DATA"]) / f"{FILES.get(name, name)}.parquet")
    X = np.column_stack([table[c].to_numpy() for c in table.column_names if c[0] == "x"])
    X, y = X.astype(np.float64), table["y"].to_numpy()
    if name == "cod-rna":
        X, y = X[59_535:], y[59_535:]  # the file cod-rna.t
    if name == "covtype":
        y = np.where(y == 2, 1, -1)
    if name == "flights2001":
        X, y = X[:100_000], y[:100_000]
    if name not in LABELS:
        y = y.astype(np.float64)
        y = (y - y.min()) / (y.max() - y.min())
    if name not in STREAMS:
        order = np.random.default_rng(seed).permutation(len(X))
        X, y = X[order], y[order]
    return np.ascontiguousarray(X), y


def run(name, seed, forgetting=True):
    """One pass: the loss, the coverage of 90 % intervals, time and memory."""
    X, y = read(name, seed)
    labels = name in LABELS
    if forgetting:
        kind = pronk.OnlineKernelClassifier if labels else pronk.OnlineKernelRegressor
    else:
        kind = ClassifierWithoutForgetting if labels else RegressorWithoutForgetting
    learner = kind(random_state=seed)
    wrong, covered, held = 0.0, 0, []
    start = time.process_time()
    for i in range(0, len(X), BLOCK):
        rows, target = X[i : i + BLOCK], y[i : i + BLOCK]
        if labels:
            wrong += np.sum(learner.predict_then_learn(rows, target) != target)
        else:
            low, high = learner.predict_interval_then_learn(rows, target).T
            wrong += np.sum((0.5 * (low + high) - target) ** 2)
            covered += int(np.sum((low <= target) & (target <= high)))
        if i // BLOCK in (len(X) // BLOCK // 2, len(X) // BLOCK):
            held.append(held_bytes(learner))
    seconds = time.process_time() - start
    return {
        "rows": len(X),
        "loss": 100 * wrong / len(X) if labels else wrong / len(X),
        "coverage": None if labels else covered / len(X),
        "microseconds": 1e6 * seconds / len(X),
        "points": learner.size_,
        "held": held,
        "leader": learner.experts_[0],
    }


def trial(name, rows):
    """The first rows of seed 0 with 200 points: error, or squared error by the variance of y."""
    X, y = (part[:rows] for part in read(name, 0))
    labels = name in LABELS
    kind = pronk.OnlineKernelClassifier if labels else pronk.OnlineKernelRegressor
    learner = kind(budget=200, random_state=0)
    P = learner.predict_then_learn(X, y)
    loss = (y != P) if labels else (P - y) ** 2 / y.var()
    views = [expert["view"] for expert in learner.experts_[:1]]
    return {
        "rows": len(X),
        "loss": float(100 * loss.mean() if labels else loss.mean()),
        "first 500": float(100 * loss[:500].mean() if labels else loss[:500].mean()),
        "leader": views[0],
    }


def run_river(name, which):
    """The same stream row by row; rows as dicts, scaled online where the model needs it."""
    from river import compose, forest, linear_model, preprocessing, tree

    X, y = read(name, 0)
    labels = name in LABELS
    models = {
        "tree": tree.HoeffdingAdaptiveTreeClassifier(seed=0)
        if labels
        else tree.HoeffdingAdaptiveTreeRegressor(seed=0),
        "forest": forest.ARFClassifier(seed=0) if labels else forest.ARFRegressor(seed=0),
        "linear": compose.Pipeline(
            preprocessing.StandardScaler(),
            linear_model.LogisticRegression() if labels else linear_model.LinearRegression(),
        ),
    }
    model, wrong = models[which], 0.0
    names = [f"x{j}" for j in range(X.shape[1])]
    start = time.process_time()
    for row, target in zip(X.tolist(), y.tolist(), strict=True):
        x = dict(zip(names, row, strict=True))
        prediction = model.predict_one(x)
        wrong += (prediction != target) if labels else ((prediction or 0.0) - target) ** 2
        model.learn_one(x, target)
    seconds = time.process_time() - start
    return {
        "rows": len(X),
        "loss": 100 * wrong / len(X) if labels else wrong / len(X),
        "microseconds": 1e6 * seconds / len(X),
    }


def share_of_work(rows=40_000):
    """Time of the whole grid at 150 points over that of one of its learners, the least of two."""
    from pronk.parts.fixed_scale import FixedScale

    X, y = read("casp", 0)
    X, y = np.ascontiguousarray(FixedScale(X[:2048]).transform(X[:rows])), y[:rows]

    def seconds(make):
        learner, start = make(), time.process_time()
        for i in range(0, rows, BLOCK):
            learner.partial_fit(X[i : i + BLOCK], y[i : i + BLOCK])
        return time.process_time() - start

    one, grid = [], []
    for _ in range(3):
        one.append(
            seconds(
                lambda: pronk.PKAWVRegressor(
                    pronk.Gaussian(0.65), alpha=0.01, gamma=0.001, budget=150, random_state=0
                )
            )
        )
        grid.append(seconds(lambda: pronk.OnlineKernelRegressor(budget=150, random_state=0)))
    return {"one": 1e6 * min(one) / rows, "grid": 1e6 * min(grid) / rows}


# -- keeping and writing ------------------------------------------------------------------------


def load():
    path = RESULTS / "default.json"
    return json.loads(path.read_text()) if path.exists() else {}


def keep(key, value):
    results = load()
    results[key] = value
    text = json.dumps(results, indent=1, sort_keys=True)
    (RESULTS / "default.json").write_text(text + "\n")
    print(key, json.dumps({k: value[k] for k in list(value)[:5]}), flush=True)


def number(value, labels):
    if value is None:
        return ""
    if value > 1000:
        return "diverged"
    return f"{value:.2f}" if labels else f"{value:.5f}"


def mean_of(results, name):
    runs = [v for k, v in results.items() if k.startswith(f"{name}/seed")]
    if not runs:
        return None
    losses = [r["loss"] for r in runs]
    middle = {k: float(np.mean([r[k] for r in runs])) for k in ("microseconds", "points")}
    covered = [r["coverage"] for r in runs if r["coverage"] is not None]
    coverage = f"{100 * np.mean(covered):.1f}" if covered else ""
    return {
        **runs[0], **middle, "loss": float(np.mean(losses)), "spread": float(np.std(losses)),
        "runs": len(runs), "coverage": coverage,
    }  # fmt: skip


def table_of_sets(results, names, published):
    head = "| data | rows | runs | default | spread |"
    rule = "|---|---|---|---|---|"
    if published:
        head += " best published online | BATCH |"
        rule += "---|---|"
    lines = [head + " 90 % interval | us a row | points |", rule + "---|---|---|"]
    for name in names:
        mean = mean_of(results, name)
        if mean is None:
            continue
        labels = name in LABELS
        line = f"| {name} | {mean['rows']:,} | {mean['runs']} | {number(mean['loss'], labels)} "
        line += f"| {number(mean['spread'], labels)} |"
        if published:
            online, which, batch = PUBLISHED[name]
            line += f" {number(online, labels)} ({which}) | {number(batch, labels)} |"
        line += f" {mean['coverage']} | {mean['microseconds']:.0f} | {mean['points']:.0f} |"
        lines.append(line)
    return lines


def table_of_streams(results):
    columns = ("default", "without forgetting", "tree", "forest", "linear")
    lines = [
        "| stream | rows | 90 % interval | default | without forgetting | adaptive Hoeffding tree "
        "| ARF | linear or logistic |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in STREAMS:
        entries = {c: results.get(f"{name}/{c}") for c in columns}
        own = entries["default"]
        if own is None:
            continue
        coverage = f"{100 * own['coverage']:.1f}" if own.get("coverage") is not None else ""
        cells = [
            "" if e is None else number(e["loss"], name in LABELS)
            + (f" ({e['microseconds']:.0f} us)")
            for e in entries.values()
        ]  # fmt: skip
        lines.append(f"| {name} | {own['rows']:,} | {coverage} | " + " | ".join(cells) + " |")
    return lines


def write():
    results = load()
    lines = [
        "# The default learner",
        "",
        "Made by `python benchmarks/bench_default.py --write` from `default.json`, which the same",
        "script fills (`PRONK_DATA=folder python benchmarks/bench_default.py --seeds 5`).",
        "",
        "`pronk.OnlineKernelRegressor()` and `pronk.OnlineKernelClassifier()`, no parameter given,",
        "the same for all data. One pass, every row predicted before it is learned. Losses are",
        "mean squared errors of targets scaled to [0, 1], or errors in per cent; times are CPU",
        "time of one thread on a busy machine; `points` is the dictionary.",
        "",
        "## The papers' data, random order, against the printed figures",
        "",
        *table_of_sets(results, PUBLISHED, published=True),
        "",
        "## Other data, random order",
        "",
        f"Settings are chosen on {', '.join(CHOOSE_ON)} alone; all other sets are only looked at.",
        "That split was made late. What was chosen on what before it, and before experts had views",
        "(relevance, past; the runs of these tables are from then, the trials below are not): the",
        "sets of the first table (first 20,000 rows of seed 0) served",
        "to choose scales, bandwidths, alphas, the stack, the rule for new points and when experts",
        "sleep, some seven variants in all, so that table is not a held-out test; powerplant and",
        "abalone served for the rule for new points; elec2, bike_hour, flights2001 (15,000 to",
        "20,000 rows) and a stream like `abrupt` for the windows. airlines, susy, letter had been",
        "run once to see that they do. Only w8a and digits were run here for the first time (best",
        "published online figure for w8a: 2.43, DualSVRG-H-AM).",
        "",
        *table_of_sets(results, OTHERS, published=False),
        "",
        "## Streams, temporal order",
        "",
        "The same learner, the same without windows, and river's models with their own defaults",
        "(time a row in brackets). The linear models have river's online standard scaler before",
        "them, the trees see raw columns; `diverged` is a mean squared error above 1000.",
        "",
        *table_of_streams(results),
        "",
        "`abrupt` and `gradual` are 30,000 generated rows, sin(3a) + b turning into cos(3a) - b in",
        "the middle, with noise of variance 0.01. `flights2001` is the first 100,000 rows.",
        "",
    ]
    work = results.get("share of work")
    if work:
        lines += [
            "## The price of the grid",
            "",
            f"At 150 points, casp, 40,000 rows: {work['one']:.1f} us a row for one AWV learner, "
            f"{work['grid']:.1f} us for the grid: {work['grid'] / work['one']:.1f} times.",
            "",
        ]
    trials = {k.split("/")[1]: v for k, v in results.items() if k.startswith("trial/")}
    if trials:
        lines += [
            "## Trials on first rows",
            "",
            "`bench_default.py --trial 5000`: 200 points, seed 0; errors in per cent, or squared",
            "errors by the variance of y. `+` marks the sets that settings are chosen on.",
            "",
            "| data | rows | loss | first 500 | leader's view |",
            "|---|---|---|---|---|",
        ]
        for name, found in trials.items():
            mark = " +" if name in CHOOSE_ON else ""
            lines.append(
                f"| {name}{mark} | {found['rows']:,} | {found['loss']:.3f} "
                f"| {found['first 500']:.3f} | {found['leader']} |"
            )
        lines.append("")
    held = [
        f"{name} {r['held'][0] / 1e6:.1f} and {r['held'][-1] / 1e6:.1f}"
        for name in ("ijcnn1", "cod-rna", "covtype")
        if (r := results.get(f"{name}/seed 0")) and r["held"]
    ]
    if held:
        lines += [f"Megabytes held half-way and at the end: {', '.join(held)}.", ""]
    (RESULTS / "default.md").write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=0, help="runs in random order of each set")
    parser.add_argument("--sets", default=",".join([*PUBLISHED, *OTHERS]))
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--river", default="tree,forest,linear")
    parser.add_argument("--trial", type=int, default=0, help="first rows of each set, 200 points")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--write", action="store_true", help="only write the page")
    options = parser.parse_args()
    jobs = []
    if options.seeds:
        jobs.append(("share of work", share_of_work))
    if options.trial:
        names = filter(None, [*options.sets.split(","), *options.streams.split(",")])
        jobs += [(f"trial/{name}", lambda n=name: trial(n, options.trial)) for name in names]
    for seed in range(options.seeds):
        for name in filter(None, options.sets.split(",")):
            jobs.append((f"{name}/seed {seed}", lambda n=name, s=seed: run(n, s)))
        for name in filter(None, options.streams.split(",") if seed == 0 else []):
            jobs.append((f"{name}/default", lambda n=name: run(n, 0)))
            jobs.append((f"{name}/without forgetting", lambda n=name: run(n, 0, False)))
            for which in filter(None, options.river.split(",")):
                jobs.append((f"{name}/{which}", lambda n=name, w=which: run_river(n, w)))
    with threadpool_limits(1):
        for key, job in jobs:
            if not options.write and (options.again or key not in load()):
                keep(key, job())
    write()


if __name__ == "__main__":
    main()
