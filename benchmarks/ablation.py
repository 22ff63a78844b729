"""What each mechanism of the default learner is worth: the error with it switched off.

    python benchmarks/ablation.py --short               the first 5,000 rows of each set
    python benchmarks/ablation.py --long                up to 45,730 rows
    python benchmarks/ablation.py --short --only relevance fit      these mechanisms only
    python benchmarks/ablation.py --unseen              other sets, for mechanisms worth little
    python benchmarks/ablation.py                       write the page docs/results/ablation.json

PRONK_DATA is the folder of the data sets. Mechanisms are switched off from here: constants and
functions of `pronk.aggregate` are replaced for one pass, compiled functions that read them are
compiled again. The product has no switches for this.

Runs are kept in benchmarks/field/ablation.json by set, mechanism and mark of the default learner
(`field.measures.mark`); one that is there is not made again.
"""

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from contextlib import AbstractContextManager, ExitStack, contextmanager  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from functools import cache, partial  # noqa: E402
from pathlib import Path  # noqa: E402
from types import ModuleType  # noqa: E402
from typing import Any, NamedTuple  # noqa: E402
from unittest.mock import patch  # noqa: E402

import numpy as np  # noqa: E402
from numba import njit  # noqa: E402
from numba.core.registry import CPUDispatcher  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from threadpoolctl import threadpool_limits  # noqa: E402

import pronk  # noqa: E402
from field import measures, streams  # noqa: E402
from field.passes import BLOCK  # noqa: E402
from field.results import Part, Runs, keep, keep_page, load, table  # noqa: E402
from field.sets import Data  # noqa: E402
from pronk.aggregate import (  # noqa: E402
    baselines,
    calibration,
    experts,
    far,
    learner,
    local,
    mixture,
    probabilities,
    representation,
    settings,
)
from pronk.aggregate.representation import in_half_medians, local_metrics  # noqa: E402
from pronk.aggregate.settings import PAST, RELEVANCE, SMOOTH_ALPHA, Setting, grid  # noqa: E402
from pronk.core import scales  # noqa: E402

Array = NDArray[Any]
Patch = AbstractContextManager[Any]

#: The module of the compiled trees.
trees = sys.modules[local.learn_local_rows.py_func.__module__]

RUNS = Path(__file__).parent / "field" / "ablation.json"
#: The sets on which settings of the default learner are chosen, and their rows in the long table.
ROWS: dict[str, int | None] = {
    "covtype": 40_000, "casp": None, "ijcnn1": 40_000, "cadata": None, "elec2": None,
    "bike_hour": None,
}  # fmt: skip
SHORT, WHOLE = 5_000, 10**9
#: Sets of numbers with outliers (`with_glitches`), for the mechanisms against outliers.
GLITCHES = ("casp", "cadata", "bike_hour")
GLITCH_ROWS, GLITCH_SIZE = 500, 100.0
#: The unchanged learner.
FULL = "full"


# -- switching off ------------------------------------------------------------------------------


#: Options of compiled functions that their copies keep.
KEPT = ("nogil", "fastmath", "error_model")


@cache
def uncompiled(module: ModuleType, purpose: str) -> dict[str, Any]:
    """Compile the functions of a module again, without the cache on disk, and return them."""
    found = {}
    for name, f in vars(module).items():
        if isinstance(f, CPUDispatcher) and f.py_func.__module__ == module.__name__:
            kept = {k: v for k, v in f.targetoptions.items() if k in KEPT}
            found[name] = njit(**kept)(f.py_func)
    return found


@contextmanager
def compiled_again(module: ModuleType, **replaced: Any) -> Iterator[None]:
    """Replace names of a module and compile its functions again, here and where it is imported.

    A compiled function has the constants and functions that it found when it was compiled.
    """
    new = uncompiled(module, " ".join(replaced))
    with ExitStack() as stack:
        for user in (calibration, experts, learner, local, mixture, probabilities, trees):
            names = {name: f for name, f in new.items() if name in vars(user)}
            if names:
                stack.enter_context(patch.multiple(user, **names))
        stack.enter_context(patch.multiple(module, **replaced))
        yield


@njit
def share_nothing(log_weights: Array, losses: Array, rate: float) -> None:
    """`mixture.share` with the rate 0."""
    log_weights -= losses
    best = log_weights.max()
    log_weights -= best + np.log(np.exp(log_weights - best).sum())


def settings_where(chosen: Callable[[Setting], bool]) -> Patch:
    """Leave out the settings of experts that are not chosen."""
    return patch.object(learner, "grid", lambda *args: [s for s in grid(*args) if chosen(s)])


class NoClipping(learner.TargetClipping):
    """Targets as given."""

    def learn(self, Y: Array) -> Array:
        return Y.copy()

    def start(self, Y: Array) -> Array:
        return Y.copy()


def without_linear(outputs: int, columns: int | None, *others: int) -> baselines.Baselines:
    return baselines.Baselines(outputs, None, *others)


def without_lagged_errors(model: Any, targets: Array, sources: list[int], delay: int) -> Any:
    return FIND_LAGS(model, targets, sources, delay)[0], []


FIND_LAGS = learner.InnerLearner._find_lags


@contextmanager
def any_points() -> Iterator[None]:
    """Rows become points as they come (of the first rows in random order), while there is room."""
    extend = experts.Experts.extend_spans

    def extended(self: Any, Z: Array, uniforms: Array, room: int) -> bool:
        return extend(self, Z, np.zeros_like(uniforms), room)

    with ExitStack() as stack:
        stack.enter_context(patch.object(experts.Experts, "extend_spans", extended))
        stack.enter_context(
            patch.object(experts, "proposes", lambda rho, uniforms: np.ones(len(uniforms), bool))
        )
        yield


@contextmanager
def no_baselines() -> Iterator[None]:
    none = {"MEAN_WINDOWS": np.zeros(0), "MEAN_NAMES": ()}
    with patch.multiple(baselines, **none), patch.object(far, "MEANS", 0):
        yield


# -- the local experts, varied ------------------------------------------------------------------


#: Places of the experts in the mixture of the local ones; g is the first.
LOCAL_NAMES = (*local.NAMES, local.BOOSTED)
ALL = tuple(range(1 + len(LOCAL_NAMES)))


def without(*names: str) -> tuple[int, ...]:
    """Places of the local experts without these."""
    return tuple(k for k in ALL if k == 0 or LOCAL_NAMES[k - 1] not in names)


def plain_metric(metrics: Array, Z: Array) -> Array:
    """All columns of first rows Z as scaled, in units of half the median distance."""
    return in_half_medians(np.ones_like(metrics), Z)


def learned_metric(metrics: Array, Z: Array) -> Array:
    return metrics[[1, 1]]


def mild_metric(metrics: Array, Z: Array) -> Array:
    return metrics[[0, 0]]


@contextmanager
def local_with(
    kept: tuple[int, ...] = ALL,
    metric: Callable[[Array, Array], Array] | None = None,
    small: bool | None = None,
) -> Iterator[None]:
    """Vary the local experts; ``kept`` are the experts in their mixture, 0 is g."""

    class Selected(mixture.Mixture):
        def learn(self, P: Array, *others: Any) -> Any:
            return super().learn(np.ascontiguousarray(P[:, list(kept)]), *others)

        def predict(self, P: Array) -> Any:
            return super().predict(np.ascontiguousarray(P[:, list(kept)]))

    class Varied(local.LocalExperts):
        def __init__(self, metrics: Array, limits: Array, signed: bool, *made: Any) -> None:
            seed, memory, own_small, *others = made
            super().__init__(metrics, limits, signed, seed, memory, own_small, *others)
            if small is not None:
                self.forest = local.Forest(metrics, limits, signed, seed, memory, small)
            self.mixture = Selected(len(kept), limits, signed, *others)

        def learn(self, Z: Array, Y: Array, G: Array, *others: Any) -> Array:
            return G if kept == (0,) else super().learn(Z, Y, G, *others)

    def metrics_of(Z: Array, Y: Array, seed: int, *weights: Array) -> Array:
        found = local_metrics(Z, Y, seed, *weights)
        return found if metric is None else metric(found, Z)

    with (
        patch.object(experts, "LocalExperts", Varied),
        patch.object(learner, "local_metrics", metrics_of),
    ):
        yield


# -- mechanisms ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mechanism:
    """A mechanism: what it is, and how it is switched off."""

    title: str
    text: str
    off: Callable[[], Patch]
    long: bool = True
    """Whether it is switched off on long streams as well."""
    kinds: tuple[bool, ...] = (False, True)
    """For numbers (False), for labels (True)."""


def attribute(owner: Any, **values: Any) -> Callable[[], Patch]:
    return partial(patch.multiple, owner, **values)


MECHANISMS: dict[str, Mechanism] = {
    # scales
    "target clipping": Mechanism(
        "target clipping",
        "Targets count as at most three times the size that one in two hundred exceeds.",
        attribute(learner, TargetClipping=NoClipping),
        long=False,
        kinds=(False,),
    ),
    "scale outliers": Mechanism(
        "outliers left out of the scales",
        "Values ten ranges away from all others do not count in the scale of a column.",
        attribute(scales, without_outliers=lambda rows: rows),
        long=False,
    ),
    # experts
    "relevance": Mechanism(
        "relevance view",
        "Experts with a Laplacian kernel on columns weighted by their relevance.",
        lambda: settings_where(lambda s: s.view != RELEVANCE),
    ),
    "past": Mechanism(
        "past view",
        "Experts that also read lagged targets, where these are correlated in time; without "
        "them local experts do not read lagged targets either.",
        lambda: settings_where(lambda s: s.view != PAST),
    ),
    "window 100": Mechanism(
        "discounted experts, 100 rows",
        "Experts that forget with a window of 100 rows.",
        lambda: settings_where(lambda s: s.window != 100),
    ),
    "smooth": Mechanism(
        "smooth expert",
        "A narrow expert with alpha = 1 beside those with alpha = 0.001.",
        lambda: settings_where(lambda s: s.alpha != SMOOTH_ALPHA),
    ),
    "directions": Mechanism(
        "directions view",
        "Experts with a Gaussian kernel on the directions along which a fit changes.",
        lambda: settings_where(lambda s: s.view != settings.FULL),
    ),
    "compression": Mechanism(
        "compressed columns",
        "Heavy-tailed columns are compressed where the leave-one-out error of a fit says so.",
        attribute(representation, GAIN=np.inf),
    ),
    "linear": Mechanism(
        "linear experts",
        "A logistic and a margin expert for labels, linear in the columns.",
        attribute(experts, Baselines=without_linear),
        kinds=(True,),
    ),
    "baselines": Mechanism(
        "baselines",
        "Three running means of the targets as experts: the last target, of ten rows, of all.",
        no_baselines,
    ),
    "seasonal": Mechanism(
        "seasonal baseline",
        "The last target and its change one season ago, where numeric targets have a season.",
        attribute(baselines.Past, season=0),
        kinds=(False,),
    ),
    "survivors": Mechanism(
        "selection at row 2,048",
        "Only the four best experts without window and the best of each window go on.",
        attribute(learner, SURVIVORS=99),
        long=False,
    ),
    "dropping": Mechanism(
        "dropping at row 8,192, beyond these rows",
        "The worst experts are dropped, to three without window.",
        attribute(experts, ACTIVE_EXPERTS={}),
        long=False,
    ),
    # points
    "leverage": Mechanism(
        "points by leverage",
        "A row becomes a point with a probability that grows with its distance to the span of the "
        "points; off, any row does while there is room.",
        any_points,
    ),
    # aggregation
    "stacks": Mechanism(
        "stacks",
        "Ridge regression (logistic for labels) on the experts' predictions beside their average, "
        "in both mixtures.",
        attribute(experts, STACK_WINDOWS=()),
    ),
    "windowed stacks": Mechanism(
        "windowed stacks",
        "Stacks with windows of 1,000 and 100 rows beside the one without, in both mixtures.",
        attribute(experts, STACK_WINDOWS=(0.0,)),
    ),
    "lagged errors": Mechanism(
        "lagged errors in the stacks",
        "Stacks read the last errors of the average where these are correlated in time.",
        attribute(learner.InnerLearner, _find_lags=without_lagged_errors),
    ),
    "fixed share": Mechanism(
        "fixed share",
        "After each row the weights are mixed with the uniform ones by 1 / (t + 1).",
        partial(compiled_again, mixture, share=share_nothing),
    ),
    # local experts
    "local": Mechanism(
        "local experts",
        "Everything from here on: the forest and its mixture.",
        partial(local_with, (0,)),
    ),
    "early local": Mechanism(
        "local experts before row 2,048",
        "The forest is grown from row 128 on, and again at each stage.",
        attribute(learner, LOCAL_ROWS=2048, LOCAL_ROWS_LATE=2048),
        long=False,
    ),
    "boosting": Mechanism(
        "boosted trees",
        "Histogram trees fitted to the last rows while the stream goes on.",
        partial(local_with, without("boosted trees")),
    ),
    "random splits": Mechanism(
        "random splits",
        "In two trees of three splits are chosen at random; off, one tree per metric without "
        "random splits remains.",
        partial(local_with, small=True),
    ),
    "metric": Mechanism(
        "learned metric",
        "Columns weighted by the slopes of a fit of the first rows; off, all weigh the same (and "
        "two trees are equal).",
        partial(local_with, metric=plain_metric),
    ),
    "mild metric": Mechanism(
        "mild form of the metric",
        "Half of the trees use the fourth root of the weights; off, all use the weights "
        "(and the two trees without random splits are equal).",
        partial(local_with, metric=learned_metric),
    ),
    "strict metric": Mechanism(
        "full form of the metric",
        "The other half of the trees use the weights; off, all use the fourth root (and two trees "
        "are equal).",
        partial(local_with, metric=mild_metric),
    ),
    "fit": Mechanism(
        "fits of the targets",
        "Leaves fit the targets.",
        partial(local_with, without("mild fit", "local fit")),
    ),
    "residual": Mechanism(
        "fits of the residuals",
        "Leaves fit what the other experts leave, y - g.",
        partial(local_with, without("mild residuals", "local residuals")),
    ),
    "leaf clipping": Mechanism(
        "outlier clipping in leaves",
        "Errors that a leaf learns are clipped to five recent root mean squares.",
        partial(compiled_again, trees, LEAF_REACH=1e100),
        kinds=(False,),
    ),
    "tube": Mechanism(
        "tube for labels",
        "Leaves hold only the labels that their fit misses by more than 0.2; off, all.",
        partial(compiled_again, trees, TUBE=0.0),
        kinds=(True,),
    ),
}
#: Mechanisms that are worth little on the sets above, and sets on which nothing was chosen.
DOUBTFUL = (
    "past",
    "seasonal",
    "window 100",
    "smooth",
    "windowed stacks",
)
UNSEEN = ("susy_30k", "airlines", "outdoor", "powersupply", "nab_nyc_taxi", "pjme_load")
OUTLIERS = ("target clipping", "scale outliers", "leaf clipping")


# -- passes -------------------------------------------------------------------------------------


def with_glitches(data: Data) -> tuple[Data, Array]:
    """Return numbers with outliers, and which rows have one.

    One target in 500 becomes +-100 times the range of the targets, and one row in 500 has +-100
    times the range in each of its columns.
    """
    rng = np.random.default_rng(1)
    n, X, y = len(data.y), data.X.copy(), data.y.copy()
    targets, rows = rng.random((2, n)) < 1.0 / GLITCH_ROWS
    y[targets] = GLITCH_SIZE * np.ptp(y) * rng.choice([-1.0, 1.0], targets.sum())
    signs = rng.choice([-1.0, 1.0], (rows.sum(), X.shape[1]))
    X[rows] = GLITCH_SIZE * np.ptp(X, axis=0) * signs
    return Data(X, y, False), targets | rows


def losses(found: Array, data: Data) -> Array:
    """Return the loss (0-1 or squared) of each prediction."""
    if data.labels:
        return np.asarray(found != data.y, dtype=np.float64)
    return np.asarray((found - data.y) ** 2)


def passed(data: Data) -> Array:
    """Return the losses of a pass of the default learner, in blocks as `field.passes`."""
    kind = pronk.OnlineKernelClassifier if data.labels else pronk.OnlineKernelRegressor
    model, found = kind(random_state=0), []
    for i in range(0, len(data.y), BLOCK):
        P = model.predict_then_learn(data.X[i : i + BLOCK], data.y[i : i + BLOCK])
        found.append([0 if p is None else p for p in P.tolist()])
    return losses(np.concatenate(found), data)


# -- runs ---------------------------------------------------------------------------------------


def result(off: Array, on: Array, length: int, seconds: float) -> dict[str, Any]:
    """Return the mean loss of the first 5,000 rows and of all, with uncertainties of the ratios.

    ``off`` and ``on`` are the losses of the same rows without and with the mechanism. The
    uncertainty is the standard error of the mean of off - ratio on, rows being independent.
    """
    found: dict[str, Any] = {"rows": length, "seconds": round(seconds, 1)}
    for name, rows in (("error", len(on)), ("short", min(SHORT, len(on)))):
        lost, base = off[:rows], on[:rows]
        excess = lost - lost.mean() / base.mean() * base
        found[name] = float(lost.mean())
        found[name + " uncertainty"] = float(excess.std() / np.sqrt(rows) / base.mean())
    return found


class Pass(NamedTuple):
    """First rows of a set, which of them count, and a pass of the unchanged learner over them."""

    data: Data
    good: NDArray[np.bool_]
    losses: Array
    seconds: float


@cache
def pass_of(name: str, length: int, glitches: bool) -> Pass:
    data = streams.read(name).first(length)
    good = np.ones(len(data.y), dtype=bool)
    if glitches:
        data, bad = with_glitches(data)
        good = ~bad
    start = time.process_time()
    found = passed(data)
    return Pass(data, good, found, time.process_time() - start)


def run_set(name: str, length: int, wanted: list[str], mark: str, glitches: bool = False) -> None:
    """Make the missing runs of a set."""
    labels, known, title = streams.has_labels(name), load(RUNS), name
    title += " with outliers" if glitches else ""

    def missing(mechanism: str) -> bool:
        run = known.get(f"{title}/{mechanism}/{mark}")
        rows = length if length < WHOLE else SHORT + 1
        return run is None or (run["rows"] < rows and not run.get("whole"))

    def fits(mechanism: str) -> bool:
        return mechanism == FULL or labels in MECHANISMS[mechanism].kinds

    for mechanism in filter(missing, filter(fits, wanted)):
        full = pass_of(name, length, glitches)
        lost, spent, good = full.losses, full.seconds, full.good
        if mechanism != FULL:
            start = time.process_time()
            with MECHANISMS[mechanism].off():
                lost = passed(full.data)
            spent = time.process_time() - start
        run = result(lost[good], full.losses[good], len(lost), spent)
        if len(lost) < length:
            run["whole"] = True  # the set has no more rows
        keep(f"{title}/{mechanism}/{mark}", run, RUNS)


# -- page ---------------------------------------------------------------------------------------


#: Ratio, and its uncertainty.
Ratio = tuple[float, float]


def ratio_of(runs: Runs, mark: str, length: str, name: str, mechanism: str) -> Ratio | None:
    """Return error without over error with the mechanism on a set; None where a run is missing."""
    if streams.has_labels(name) not in MECHANISMS[mechanism].kinds:
        return 1.0, 0.0
    off, on = (runs.get(f"{name}/{m}/{mark}") for m in (mechanism, FULL))
    if off is None or on is None:
        return None
    if length == "error" and not off["rows"] == on["rows"] > SHORT:
        return None
    return off[length] / on[length], off[length + " uncertainty"]


def ratio_table(runs: Runs, mark: str, length: str, names: list[str], listed: Any) -> list[Part]:
    """Return a table with one row per mechanism that has been switched off on all sets."""
    rows = []
    for mechanism in listed:
        given = [ratio_of(runs, mark, length, name, mechanism) for name in names]
        found = [ratio for ratio in given if ratio is not None]
        if len(found) < len(names):
            continue
        values, errors = np.array(found).T
        mean = np.exp(np.log(values).mean())
        spread = mean * np.sqrt(((errors / values) ** 2).sum()) / len(names)
        cells = [f"{value:.3f} ± {error:.3f}" for value, error in [(mean, spread), *found]]
        rows.append([MECHANISMS[mechanism].title, *cells])
    heads = [name.removesuffix(" with outliers") for name in names]
    return table(["switched off", "mean", *heads], rows, 1)


TEMPLATE = """# What each mechanism is worth

Each mechanism of the default learner switched off, one at a time: error without it over error with
it, so 1.02 is an error larger by 2 % without the mechanism. The error is the share of wrong labels
(covtype, ijcnn1, elec2) or the mean squared error; *mean* is the geometric mean over the sets. The
sets are those on which settings were chosen, in the order of [streams](streams.md).

Written by `python benchmarks/ablation.py` from `benchmarks/field/ablation.json`, which the same
script fills: `PRONK_DATA=folder python benchmarks/ablation.py --short --unseen --long`. Mark of
the learner: {mark}.

**What was removed.** Mechanisms that were worth less than 0.5 % in every table of an earlier
ablation. Of those here, target clipping, outliers left out of the scales and outlier clipping in
leaves are worth something with outliers only, the past view and the seasonal baseline on streams in
the order of time (other sets, below), and dropping experts saves time.

**How far to trust a ratio.** One seed and one order of rows. The number behind ± is the standard
error of the ratio over the rows, both learners having the same ones; it holds for independent rows.
Mechanisms overlap: two that are worth nothing one at a time may be worth something together. What
is compared is the error of predictions, not time, calibration or certificates.

## The first 5,000 rows

{short}

## Long streams

covtype and ijcnn1 to row 40,000, the others whole: 45,730 rows of casp, 45,312 of elec2, 20,640 of
cadata, 17,379 of bike_hour. Mechanisms that act on the first rows or that cost time instead of
error are not in this table.

{long}

## With outliers

The first 5,000 rows of the sets of numbers: one target in 500 is replaced by +-100 times the range
of the targets, and one row in 500 by +-100 times the range of each column. The error is that of the
other rows.

{outliers}

## Other sets

Mechanisms that are worth little above, on the first 5,000 rows (outdoor: 4,000) of sets on which no
setting was chosen.

{unseen}

## The mechanisms

{mechanisms}"""


def write(runs: Runs, mark: str) -> None:
    names, spoilt = list(ROWS), [f"{name} with outliers" for name in GLITCHES]
    sections: dict[str, list[Part]] = {
        "{short}": ratio_table(runs, mark, "short", names, MECHANISMS),
        "{long}": ratio_table(runs, mark, "error", names, MECHANISMS),
        "{outliers}": ratio_table(runs, mark, "short", spoilt, OUTLIERS),
        "{unseen}": ratio_table(runs, mark, "short", list(UNSEEN), DOUBTFUL),
        "{mechanisms}": table(["mechanism", ""], [[m.title, m.text] for m in MECHANISMS.values()]),
    }
    parts: list[Part] = []
    for text in TEMPLATE.split("\n\n"):
        parts += sections[text] if text in sections else [text.replace("{mark}", mark)]
    keep_page("ablation", parts)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--short", action="store_true", help="first 5,000 rows, and with outliers")
    parser.add_argument("--long", action="store_true", help="long streams")
    parser.add_argument("--unseen", action="store_true", help="sets on which nothing was chosen")
    parser.add_argument("--sets", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--only", nargs="+", choices=(FULL, *MECHANISMS), metavar="MECHANISM")
    options = parser.parse_args()
    wanted = options.only or [FULL, *MECHANISMS]
    robust = [m for m in wanted if m in (FULL, *OUTLIERS)]
    long = [m for m in wanted if m == FULL or MECHANISMS[m].long]
    with threadpool_limits(1):
        mark = measures.mark()
        if options.short:
            for name in options.sets:
                run_set(name, SHORT, wanted, mark)
            for name in [name for name in GLITCHES if name in options.sets]:
                run_set(name, SHORT, robust, mark, glitches=True)
        if options.unseen:
            for name in UNSEEN:
                run_set(name, SHORT, [FULL, *DOUBTFUL], mark)
        if options.long:
            for name in options.sets:
                run_set(name, ROWS[name] or WHOLE, long, mark)
        write(load(RUNS), mark)


if __name__ == "__main__":
    main()
