"""The page of whole streams, docs/results/streams.json, from the runs of `bench_streams.py`."""

from __future__ import annotations

from statistics import geometric_mean, median
from typing import Any

from field import passes, streams
from field.peers import NAMES as PEER_NAMES
from field.results import Part, Runs, fill, keep_page, table

BOOSTING = tuple(passes.LIBRARIES)
#: What `--learners all` runs, in the order of the tables.
VARIANTS = (
    "lightgbm-5000", "lightgbm-5000-lags", "lightgbm-1000", "lightgbm-1000-lags",
    "lightgbm-1000-w5000", "lightgbm-1000-w5000-lags", "lightgbm-1000-cat",
    "lightgbm-1000-cat-lags", "xgboost-5000", "xgboost-5000-lags", "hgb-5000", "hgb-5000-lags",
)  # fmt: skip
ONLINE = ("linear", "amf", "arf", "srp", "sgbt", "moa-arf", "moa-knn", "soknl", "fimtdd")
TRIVIAL = ("last", "mean")
LEARNERS = ("pronk", *TRIVIAL, *VARIANTS, "linear", "amf", "arf")
#: Columns of the tables of errors: the best of these learners.
COLUMNS = {
    "LightGBM": [v for v in VARIANTS if v.startswith("lightgbm")],
    "XGBoost": [v for v in VARIANTS if v.startswith("xgboost")],
    "HistGB": [v for v in VARIANTS if v.startswith("hgb")],
    "linear": ["linear"],
    "AMF": ["amf"],
    "ARF": ["arf"],
    "CapyMOA": list(ONLINE[3:]),
    "last": ["last"],
    "mean": ["mean"],
}
#: A learner is behind another one if its error is larger by more than this share of the other's.
NEAR = 0.03

#: The page around the tables; `{name}` alone is a method of `Page`.
TEMPLATE = """# Whole streams

**Bias.** The authors of the default learner chose the data and the lengths, wrote the benchmark and
ran the others with the default parameters of their libraries. Settings of the default learner are
chosen on the sets marked `+` ({chosen}). Before that rule, the first rows of parkinson, cpusmall,
cod-rna, powerplant and flights2001 were used for some choices ([list](default.md)); goals were set
for the other sets and for the streams, but no setting was chosen on them. In favour of the others:
the column of a library shows the best of its variants on each set, chosen after the fact, while
pronk has one; and the first models are trained early. Against them: nobody tuned them. Measure on
your own data.

**Machine.** Linux, x86_64, two cores, shared with other work (a load of 5 to 10); one thread per
run. Times are CPU time on that machine: compare them with each other only.

Made by `python benchmarks/bench_streams.py` from `benchmarks/field/streams.json`, which the same
script fills: `PRONK_DATA=folder python benchmarks/bench_streams.py --learners pronk` for pronk's
figures, `--learners all` for everything. Versions: {versions}.{star}

## What is measured

One pass; every row is predicted before its target is known, and its target is known before the next
row. The error is the share of wrong labels in percent, or for numbers the mean squared error over
the variance of all targets of the set, so that 1 is a constant. *Last quarter* is the error on
the last quarter of the rows: what a user of a long stream sees.

- **pronk**: `OnlineKernelRegressor()` or `OnlineKernelClassifier()` without parameters, in blocks
  of 1,000 rows. It adds columns of past targets by itself where they help.
- **LightGBM, XGBoost, HistGB** (scikit-learn's HistGradientBoosting): a row is predicted by the
  model trained last. Training takes place after 250, 500, 1,000, 2,000 .. rows and then every 1,000
  or every 5,000, on all rows so far or on the last 5,000 (*window*). *Lags*: the last three targets
  are columns too, on data in the order of time. *Categories*: columns of codes are declared as
  categories. Before the first training the prediction is the mean or the most frequent label.
- **linear, AMF, ARF**: river's linear, logistic or softmax regression on standardised columns,
  aggregated Mondrian forest, adaptive random forest (on raw columns, unless the versions above say
  otherwise). **last**: the last target. **mean**: the mean of the targets before, or the most
  frequent label.

Sets in random order are shuffled once (`numpy.random.default_rng(0)`). All learners read the same
columns of numbers; categories are integer codes. covtype has its seven classes; cod-rna is the test
file. An empty cell is a run that was not made, or that was stopped before that length.

## Sets: error on all rows

{sets}

## Sets: error on the last quarter

{sets_late}

## Real streams in the order of time: first 20,000 rows

No setting was chosen on these streams, but for one. Three of them say little. The label of
powersupply is the hour of the day, so a learner that sees the last label only has to add one; pronk
reads it, and after as few rows as it does, since this stream showed that it did not. Of the labels
of obd_click 0.5 % are clicks, so that predicting none of them is hard to beat. kdd99_10pct has long
runs of one label.

{streams}

## Real streams: error on the last quarter of these rows

{streams_late}

## Where pronk is behind

Another learner's error is smaller by more than 3 % (of all variants that were run, at the length of
comparison).

{behind}

## Error by length

The error on all rows up to that length, for pronk, for the variant of boosting that is best at the
length of comparison, and for river's AMF where it was run; the last columns are the end of the
longest run.

{by_length}

## Variants of boosting

Error on all rows at the length of comparison.

{variants}

## Time and memory

CPU time per row in microseconds, learning included, over the rows of comparison. Over the whole
run: the longest step in seconds (a training of boosting and the predictions up to the next one; a
block of 1,000 rows of pronk; a row of river's), and the memory that the pass added to the process
in MB (code that is compiled or loaded during the pass included). Boosting also needs the rows it is
trained on, which are not counted. Calls with one row: [What a call costs](calls.md).

{costs}"""


def number(value: float | None, labels: bool) -> str:
    if value is None:
        return ""
    if labels:
        return f"{100 * value:.2f}"
    return "diverged" if not value < 100 else f"{value:.3g}" if value >= 1 else f"{value:.4f}"


def title(learner: str) -> str:
    """The name of a learner in a text."""
    settings = passes.parse(learner)
    if settings is None:
        return PEER_NAMES.get(learner, learner)
    words = [f"every {settings.every:,}"]
    words += [f"window {settings.window:,}"] if settings.window else []
    words += ["categories"] if settings.categories else []
    words += ["lags"] if settings.lags else []
    return f"{passes.LIBRARIES[settings.library]}, {', '.join(words)}"


class Page:
    """The runs by set and learner, the mark of the present learner, and the sections."""

    def __init__(self, runs: Runs, mark: str) -> None:
        self.mark = mark
        self.runs: dict[tuple[str, str], dict[str, Any]] = {}
        # of several versions: the present learner's, or the one over the most rows
        for run in sorted(runs.values(), key=lambda r: (r["version"] == mark, r["rows"])):
            self.runs[run["set"], run["learner"]] = run

    def names(self, group: Any) -> list[str]:
        return [n for n in group if any(name == n for name, _ in self.runs)]

    def length(self, name: str) -> int:
        """The length of comparison."""
        total = next(run["total"] for (n, _), run in self.runs.items() if n == name)
        return streams.compared(name, total)

    def error(
        self, name: str, learner: str, kind: str = "loss", length: int | None = None
    ) -> float | None:
        """The error at a length, by default that of comparison; None if there is no such run."""
        run = self.runs.get((name, learner))
        value = run[kind].get(str(length or self.length(name))) if run else None
        return value if value is None or run is None or run["labels"] else value / run["variance"]

    def best(self, name: str, learners: Any, kind: str = "loss") -> tuple[float, str] | None:
        """The smallest error among learners at the length of comparison, and whose it is."""
        found = [(e, v) for v in learners if (e := self.error(name, v, kind)) is not None]
        return min(found, default=None)

    def old(self, name: str) -> str:
        """A star behind figures of an earlier default learner."""
        run = self.runs.get((name, "pronk"))
        return "\\*" if run and run["version"] != self.mark else ""

    # -- sections -------------------------------------------------------------------------------

    def errors(self, group: Any, kind: str) -> list[Part]:
        """A table of errors at the length of comparison; the smallest is bold."""
        names = self.names(group)
        columns = [
            c for c in COLUMNS if any(self.best(n, COLUMNS[c], kind) is not None for n in names)
        ]
        rows = []
        for name in names:
            own, labels = self.error(name, "pronk", kind), streams.has_labels(name)
            found = [self.best(name, COLUMNS[c], kind) for c in columns]
            values = [own, *(None if f is None else f[0] for f in found)]
            least = min(v for v in values if v is not None) if own is not None else None
            cells = [
                f"**{number(v, labels)}**" if v is not None and v == least else number(v, labels)
                for v in values
            ]
            cells[0] += self.old(name) if cells[0] else ""
            sign = " +" if name in streams.CHOOSE_ON else ""
            order = "time" if name in streams.IN_ORDER else "random"
            unit = "%" if labels else "MSE / var."
            rows.append([name + sign, order, unit, f"{self.length(name):,}", *cells])
        return table(["data", "order", "error", "rows", "pronk", *columns], rows, 3)

    def sets(self) -> list[Part]:
        return self.errors(streams.SETS, "loss")

    def sets_late(self) -> list[Part]:
        return self.errors(streams.SETS, "last quarter")

    def streams(self) -> list[Part]:
        return self.errors(streams.STREAMS, "loss")

    def streams_late(self) -> list[Part]:
        return self.errors(streams.STREAMS, "last quarter")

    def behind(self) -> list[Part]:
        """Counts of sets, and the sets where another learner is ahead."""
        found: list[Part] = []
        groups = (("Sets", streams.SETS), ("Streams", streams.STREAMS))
        for heading, group in groups:
            for kind, part in (("loss", "all rows"), ("last quarter", "the last quarter")):
                first, near, count, lines, ratios = 0, 0, 0, [], []
                for name in self.names(group):
                    own, labels = self.error(name, "pronk", kind), streams.has_labels(name)
                    other = self.best(name, [*VARIANTS, *ONLINE, *TRIVIAL], kind)
                    if own is None or other is None:
                        continue
                    count += 1
                    boosting = self.best(name, VARIANTS, kind)
                    if boosting and min(own, boosting[0]) > 0:
                        ratios.append(boosting[0] / own)
                    first += own <= other[0]
                    near += other[0] < own <= (1 + NEAR) * other[0]
                    if own > (1 + NEAR) * other[0]:
                        lines.append(
                            f"- {name}: {number(own, labels)}{self.old(name)} against "
                            f"{number(other[0], labels)} ({title(other[1])})"
                        )
                if count:
                    mean = "" if not ratios else (
                        "The error of the best variant of boosting over pronk's, geometric mean: "
                        f"{geometric_mean(ratios):.2f} ({len(ratios)}). "
                    )  # fmt: skip
                    found.append(
                        f"**{heading}, {part}**: {mean}First on {first} of {count}, within 3 % of "
                        f"the first on {near}, behind on {len(lines)}" + (":" if lines else ".")
                    )
                    found += ["\n".join(lines)] if lines else []
        return found or ["pronk's runs were not made yet."]

    def by_length(self) -> list[Part]:
        rows = []
        for name in self.names(streams.NAMES):
            boosting, labels = self.best(name, VARIANTS), streams.has_labels(name)
            for learner in ("pronk", *([boosting[1]] if boosting else []), "amf"):
                run = self.runs.get((name, learner))
                if run is None or not run["loss"]:
                    continue
                end = max(int(n) for n in run["loss"])
                lengths = (*(n if n < end else 0 for n in streams.LENGTHS), end)
                cells = [
                    number(self.error(name, learner, length=n), labels) if n else ""
                    for n in lengths
                ]
                star = self.old(name) if learner == "pronk" else ""
                rows.append([name, title(learner) + star, *cells, f"{end:,}"])
        heads = [f"{n:,}" for n in streams.LENGTHS]
        return table(["data", "learner", *heads, "end", "rows at the end"], rows, 2)

    def variants(self) -> list[Part]:
        used = [v for v in VARIANTS if any(learner == v for _, learner in self.runs)]
        found: list[Part] = []
        for library in BOOSTING:
            columns = [v for v in used if v.startswith(library)]
            rows = []
            for name in self.names(streams.NAMES):
                cells = [number(self.error(name, v), streams.has_labels(name)) for v in columns]
                if any(cells):
                    rows.append([name, *cells])
            head = [title(v).split(", ", 1)[1] for v in columns]
            if rows:
                found += [f"### {passes.LIBRARIES[library]}", *table(["data", *head], rows, 1)]
        return found

    def costs(self) -> list[Part]:
        shown = (
            "pronk", "lightgbm-1000", "lightgbm-5000", "xgboost-5000", "hgb-5000", "amf", "arf",
        )  # fmt: skip
        found: list[Part] = []
        learners = [v for v in shown if any(learner == v for _, learner in self.runs)]
        star = max(self.old(name) for name in streams.NAMES)
        heads = [title(v) + (star if v == "pronk" else "") for v in learners]
        for heading, cell in (
            ("### Time per row, microseconds", self.time_per_row),
            ("### Longest step, seconds", self.longest_step),
            ("### Memory, MB", self.megabytes),
        ):
            rows = [
                [n, *(cell(n, self.runs[n, v]) if (n, v) in self.runs else "" for v in learners)]
                for n in self.names(streams.NAMES)
            ]
            found += [heading, *table(["data", *heads], rows, 1)]
        return [*self.time_ratios(learners), *found]

    def time_ratios(self, learners: list[str]) -> list[Part]:
        """Time of pronk per row over that of the others, medians over the sets."""
        texts = []
        for learner in learners[1:] if "pronk" in learners else []:
            pairs = [
                (self.runs[n, "pronk"]["microseconds"], self.runs[n, learner]["microseconds"], n)
                for n in self.names(streams.NAMES)
                if (n, "pronk") in self.runs and (n, learner) in self.runs
            ]
            ratios = [
                own[at] / other[at]
                for own, other, n in pairs
                if (at := str(self.length(n))) in own and at in other
            ]
            if ratios:
                texts.append(f"{median(ratios):.2g} for {title(learner)} ({len(ratios)})")
        if not texts:
            return []
        listed = "; ".join(texts)
        return [f"Time of pronk per row over that of the others, median over the sets: {listed}."]

    def time_per_row(self, name: str, run: dict[str, Any]) -> str:
        value = run["microseconds"].get(str(self.length(name)))
        return "" if value is None else f"{value:,.0f}"

    def longest_step(self, name: str, run: dict[str, Any]) -> str:
        return f"{run['longest step']:.2g}"

    def megabytes(self, name: str, run: dict[str, Any]) -> str:
        return "" if run["megabytes"] is None else f"{run['megabytes']:.0f}"

    def parts(self) -> list[Part]:
        kinds = {run["version"] for run in self.runs.values() if run["learner"] != "pronk"}
        versions = ", ".join(sorted(kinds - {"1"}))
        starred = any(self.old(name) for name in streams.NAMES)
        chosen = ", ".join(streams.CHOOSE_ON)
        return fill(TEMPLATE, self, starred, versions=versions, chosen=chosen)


def write(runs: Runs, mark: str) -> None:
    keep_page("streams", Page(runs, mark).parts())
