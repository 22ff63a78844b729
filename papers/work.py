"""What jobs compute: run a learner over a permuted data set, online, or train and then test."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from papers.datasets import find, load
from papers.experiment import Job, as_view
from pronk.core.dictionary import KORS, Dictionary
from pronk.core.kernels import Gaussian
from pronk.estimators.registry import make_as_in_paper
from pronk.evaluate import progressive
from pronk.newton.spaces import CHUNK

Array = NDArray[np.float64]
BLOCK = 4096
#: Rows learned by a copy first, so that compilation is not timed.
WARM = 300
#: Rows on which the comparator of the classification tables is chosen.
COMPARATOR_ROWS = 30_000


def bandwidth(precision: float) -> float:
    """Return the bandwidth of the kernel exp(-precision |x - z|^2)."""
    return 1.0 / math.sqrt(2.0 * precision)


def learner(job: Job) -> Any:
    """Make the learner of a job; "bandwidth" or "precision" set its Gaussian kernel."""
    params = dict(job.settings.get("params", {}))
    if "precision" in params:
        params["bandwidth"] = bandwidth(params.pop("precision"))
    if "bandwidth" in params:
        params["kernel"] = Gaussian(params.pop("bandwidth"))
    return make_as_in_paper(
        job.settings["algorithm"], job.data().task, random_state=job.seed, **params
    )


def order(seed: int, rows: int) -> NDArray[np.intp]:
    """Return the random permutation of a run."""
    return np.random.default_rng([seed, 1]).permutation(rows)


def stream(
    X: Array, y: Array, rows: NDArray[np.intp], block: int = BLOCK
) -> Iterator[tuple[Array, Array]]:
    """Yield the chosen rows in blocks."""
    for start in range(0, len(rows), block):
        chosen = rows[start : start + block]
        yield X[chosen], y[chosen]


def chosen_rows(job: Job, available: int) -> NDArray[np.intp]:
    """Return all rows in the order of the run (or as given), or the first ``rows`` of them."""
    if job.settings.get("order") == "given":
        rows = np.arange(available)
    else:
        rows = order(job.seed, available)
    limit = job.settings.get("rows")
    return rows if limit is None else rows[:limit]


def online(job: Job) -> dict[str, Any]:
    """Predict and learn each row: mean loss (or error), size, seconds; with "points" a curve.

    The first row counts, as in the papers: its prediction is 0, or a wrong label.
    """
    X, y = load(job.data())
    rows = chosen_rows(job, len(y))
    learner(job).predict_then_learn(X[rows[:WARM]], y[rows[:WARM]])
    model = learner(job)
    metric = "mse" if job.data().task == "regression" else "error"
    points = job.settings.get("points")
    every = None if points is None else max(1, len(rows) // points)
    limit = job.settings.get("seconds", math.inf)
    blocks = stream(X, y, rows, job.settings.get("block", BLOCK))
    first = float(y[rows[0]] ** 2) if metric == "mse" else 1.0
    curve = []
    for record in progressive(model, blocks, metric, every=every, memory=False):
        scored = record.rows - record.unpredicted
        total = scored * record.metrics[metric] if scored else 0.0
        loss = (total + record.unpredicted * first) / record.rows
        curve.append((record.rows, loss, record.seconds, record.size))
        if record.seconds > limit:
            break
    count, loss, seconds, size = curve[-1]
    result: dict[str, Any] = {"rows": count, "loss": loss, "seconds": seconds, "size": size}
    if points is not None:
        result["curve"] = curve
    if model.size_:
        for name, alpha in job.settings.get("hindsight", {}).items():
            result[name] = hindsight(model, X, y, rows, job, alpha)
    return result


def hindsight(
    model: Any, X: Array, y: Array, rows: NDArray[np.intp], job: Job, alpha: float
) -> float:
    """Return the mean loss (or error) of the best function in the span of the final dictionary.

    It minimises the squared or the squared hinge loss with the penalty alpha |f|^2; the loss is
    without the penalty. For labels it is chosen on the first rows only, with a penalty in
    proportion, and scored on all.
    """
    from pronk.regret import best_in_span

    regression = job.data().task == "regression"
    loss = "squared" if regression else "squared_hinge"
    fitted = rows if regression else rows[:COMPARATOR_ROWS]
    alpha *= len(fitted) / len(rows)
    best = best_in_span(X[fitted], y[fitted], model.dictionary_, model.kernel, loss, alpha)
    if regression:
        return best.loss / len(rows)
    wrong = sum(
        int(np.sum(np.where(best.predict(block) >= 0, 1.0, -1.0) != labels))
        for block, labels in stream(X, y, rows)
    )
    return wrong / len(rows)


# -- train, then test --------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _parts(text: str, seed: int, share: float | None) -> tuple[Array, Array, Array, Array]:
    """Return training and test parts: the original ones, or a random split."""
    view = as_view(json.loads(text))
    X, y = load(view)
    split = find(view.data).split
    if share is None and split is not None:
        return X[:split], y[:split], X[split:], y[split:]
    rows = np.random.default_rng([seed, 3]).permutation(len(y))
    cut = round((share or 0.9) * len(y))
    return X[rows[:cut]], y[rows[:cut]], X[rows[cut:]], y[rows[cut:]]


def batch(job: Job) -> dict[str, Any]:
    """Train on the training part (``passes`` passes), test on the other."""
    share = job.settings.get("share")
    X, y, test, labels = _parts(json.dumps(job.view), job.seed, share)
    rows = chosen_rows(job, len(y))
    passes = int(job.settings.get("passes", 1))
    if "peer" in job.settings:
        return _peer(job, X[rows], y[rows], test, labels)
    learner(job).predict_then_learn(X[rows[:WARM]], y[rows[:WARM]])
    model = learner(job)
    began = perf_counter()
    for i in range(passes):
        turn = rows if i == 0 else np.random.default_rng([job.seed, 1, i]).permutation(rows)
        for block, targets in stream(X, y, turn):
            model.partial_fit(block, targets)
    seconds = perf_counter() - began
    wrong = sum(
        int(np.sum(model.predict(test[s : s + BLOCK]) != labels[s : s + BLOCK]))
        for s in range(0, len(labels), BLOCK)
    )
    return {
        "rows": len(rows), "loss": wrong / len(labels), "seconds": seconds, "size": model.size_,
    }  # fmt: skip


def _peer(job: Job, X: Array, y: Array, test: Array, labels: Array) -> dict[str, Any]:
    """Train and test LIBSVM (scikit-learn) or LLSVM (Nystrom features, linear machine)."""
    params = job.settings["params"]
    began = perf_counter()
    if job.settings["peer"] == "svc":
        from sklearn.svm import SVC

        machine = SVC(C=params["C"], gamma=params["precision"], cache_size=1000).fit(X, y)
        seconds, size = perf_counter() - began, len(machine.support_)
        error = np.mean(machine.predict(test) != labels)
    else:
        from sklearn.kernel_approximation import Nystroem
        from sklearn.svm import LinearSVC

        space = Nystroem(
            gamma=params["precision"],
            n_components=min(params["budget"], len(y)),
            random_state=job.seed,
        )
        linear = LinearSVC(C=params["C"], dual=False).fit(space.fit_transform(X), y)
        seconds, size = perf_counter() - began, params["budget"]
        error = np.mean(linear.predict(space.transform(test)) != labels)
    return {"rows": len(y), "loss": float(error), "seconds": seconds, "size": size}


# -- choosing parameters -----------------------------------------------------------------------


def select(job: Job) -> dict[str, Any]:
    """Choose the parameters of a grid with the least error on a validation part.

    The rows are the first ``rows`` of the seed's order: 80 % are learned, 20 % validate, as in
    Section 4.1.2 of the DualSVRG paper. With ``online`` the score is the error of a whole pass.
    """
    X, y = load(job.data())
    rows = chosen_rows(job, len(y))
    cut = round(0.8 * len(rows))
    learned, tested = rows[:cut], rows[cut:]
    scores = []
    for choice in job.settings["grid"]:
        params = {**job.settings.get("params", {}), **choice}
        candidate = Job(
            job.label, job.group, job.work, job.seed, {**job.settings, "params": params}, job.view
        )
        if job.settings.get("online"):
            scores.append(online(candidate)["loss"])
        elif "peer" in job.settings:
            part = (X[learned], y[learned], X[tested], y[tested])
            scores.append(_peer(candidate, *part)["loss"])
        else:
            model = learner(candidate)
            online_labels = model.predict_then_learn(X[learned], y[learned])
            wrong = float(np.mean(model.predict(X[tested]) != y[tested]))
            # Few validation rows make ties; online mistakes decide them.
            scores.append(wrong + 1e-6 * float(np.mean(online_labels != y[learned])))
    best = int(np.argmin(scores))
    return {"params": job.settings["grid"][best], "loss": scores[best], "scores": scores}


# -- KORS as other programs compute it ----------------------------------------------------------

#: Bandwidth and beta with which KORS as in public code, weights 1/p, keeps about as many points as
#: PROS-N-KONS (2017) prints.
PUBLIC = {
    "KORS with 1/p, exp(-r²/32)": (4.0, 1.0),
    "KORS with 1/p, exp(-r²/64), β=2": (8.0 / np.sqrt(2.0), 2.0),
}


def online_public_kors(job: Job) -> dict[str, Any]:
    """Run `online` with a learner whose dictionary weighs points by 1/p."""
    params = dict(job.settings["params"])
    numbers = {name: params.pop(name) for name in ("gamma", "epsilon", "beta") if name in params}
    params["dictionary"] = KORS(**numbers, power=1.0)
    return online(replace(job, settings={**job.settings, "params": params}))


def dictionary_size(job: Job) -> dict[str, Any]:
    """Count the points that KORS accepts: gamma = beta = 1, epsilon = 0.5, weights p^-power.

    power = 1/2 is the definition (weights on both sides of the kernel matrix); public programs have
    power = 1.
    """
    X, _ = load(job.data())
    rows = chosen_rows(job, len(X))
    kernel = Gaussian(job.settings["bandwidth"])
    points = Dictionary(kernel, X.shape[1], KORS(power=job.settings["power"]), job.seed)
    for start in range(0, len(rows), CHUNK):
        block = np.ascontiguousarray(X[rows[start : start + CHUNK]])
        points.scan(block, kernel(block, points.points))
    return {"size": len(points.points)}
